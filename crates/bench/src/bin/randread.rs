//! Random 4 KiB O_DIRECT reads at a depth, as `fio --rw=randread` does them. Prints one line of JSON.
//!
//! `randread --file PATH [--engine NAME] [--depth N] [--batch N] [--seconds T] [--registered-file]
//! [--registered-buffers]`. A batch is the most reads that are queued before they go to the kernel, as fio's
//! `iodepth_batch_submit`: large ones save system calls, small ones let the device start sooner.

use proactor_bench::unless_interrupted;
use proactor_engine::buffer::{AlignedBuf, Buf};
use proactor_engine::op::{File, Handle, Op, Read};
use proactor_engine::{Config, Driver, Engine};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const BLOCK_BYTES: usize = 4096;
/// Completions between two reads of the clock.
const CLOCK_EVERY: u64 = 256;

type Failure = Box<dyn std::error::Error>;

struct Options {
    file: PathBuf,
    engine: Engine,
    depth: u16,
    batch: usize,
    seconds: f64,
    registered_file: bool,
    registered_buffers: bool,
}

impl Options {
    fn parse() -> Result<Self, Failure> {
        let mut options = Options {
            file: PathBuf::new(),
            engine: Engine::IoUring,
            depth: 64,
            batch: 8,
            seconds: 3.0,
            registered_file: false,
            registered_buffers: false,
        };
        let mut args = std::env::args().skip(1);
        while let Some(flag) = args.next() {
            let mut value = || args.next().ok_or(format!("{flag} needs a value"));
            match flag.as_str() {
                "--file" => options.file = value()?.into(),
                "--engine" => options.engine = value()?.parse()?,
                "--depth" => options.depth = value()?.parse()?,
                "--batch" => options.batch = value()?.parse()?,
                "--seconds" => options.seconds = value()?.parse()?,
                "--registered-file" => options.registered_file = true,
                "--registered-buffers" => options.registered_buffers = true,
                other => return Err(format!("unknown option {other}").into()),
            }
        }
        if options.file.as_os_str().is_empty() || options.depth == 0 || options.batch == 0 {
            return Err("--file is needed, and a --depth and a --batch above 0".into());
        }
        Ok(options)
    }
}

/// The generator xorshift64: cheap, and any seed but 0 does.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((u128::from(self.0) * u128::from(bound)) >> 64) as u64
    }
}

fn cpu() -> (f64, f64) {
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    // SAFETY: zero is a valid initial value, and the struct outlives the call.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    (seconds(usage.ru_utime), seconds(usage.ru_stime))
}

fn main() -> Result<(), Failure> {
    let options = Options::parse()?;
    let std_file = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(&options.file)
        .map_err(|e| format!("{}: {e}", options.file.display()))?;
    let blocks = std_file.metadata()?.len() / BLOCK_BYTES as u64;
    if blocks == 0 {
        return Err("the file is smaller than one block".into());
    }
    let mut driver = Config::default()
        .engine(options.engine)
        .depth(options.depth.into())
        .build()?;
    let file = File::new(std_file);
    let handle: Handle = if options.registered_file {
        driver.register_file(&file)?.into()
    } else {
        file.into()
    };
    let buffers: Vec<Buf> = if options.registered_buffers {
        let buffers = driver.register_buffers(options.depth, BLOCK_BYTES)?;
        buffers.into_iter().map(Buf::from).collect()
    } else {
        let one = |_| AlignedBuf::new(BLOCK_BYTES, BLOCK_BYTES).into();
        (0..options.depth).map(one).collect()
    };

    let started = Instant::now();
    let (user, sys) = cpu();
    let ends = started + Duration::from_secs_f64(options.seconds);
    let reads = run(&mut driver, &handle, buffers, options.batch, blocks, ends)?;
    let elapsed = started.elapsed().as_secs_f64();
    let (user, sys) = (cpu().0 - user, cpu().1 - sys);
    println!(
        "{{\"engine\": \"{}\", \"depth\": {}, \"reads\": {reads}, \"seconds\": {elapsed:.3}, \"iops\": {:.0}, \
         \"user_us_per_read\": {:.3}, \"sys_us_per_read\": {:.3}}}",
        driver.chosen().engine,
        options.depth,
        reads as f64 / elapsed,
        user * 1e6 / reads as f64,
        sys * 1e6 / reads as f64,
    );
    Ok(())
}

/// Keeps as many reads in flight as there are buffers until `ends`, then lets them finish. Returns the number
/// of reads.
fn run(
    driver: &mut Driver,
    file: &Handle,
    buffers: Vec<Buf>,
    batch: usize,
    blocks: u64,
    ends: Instant,
) -> Result<u64, Failure> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut offset = || random.below(blocks) * BLOCK_BYTES as u64;
    for buffer in buffers {
        driver.submit(Read::at(file.clone(), offset(), buffer))?;
    }
    let mut done = Vec::new();
    let (mut reads, mut look, mut open) = (0, CLOCK_EVERY, true);
    while driver.pending() > 0 {
        unless_interrupted(driver.wait(1, usize::MAX, None, &mut done))?;
        reads += done.len() as u64;
        for (i, completion) in done.drain(..).enumerate() {
            if completion.count()? != BLOCK_BYTES {
                return Err("a short read in the middle of the file".into());
            }
            let Some(Op::Read(mut read)) = completion.op else {
                unreachable!("a read comes back as a read")
            };
            if open {
                // The op comes back whole, so it is sent out again with another offset.
                read.offset = Some(offset());
                driver.submit(read)?;
                if (i + 1) % batch == 0 {
                    driver.flush()?;
                }
            }
        }
        if reads >= look {
            look = reads + CLOCK_EVERY;
            open = Instant::now() < ends;
        }
    }
    Ok(reads)
}
