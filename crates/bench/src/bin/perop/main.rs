//! Cost of one op on each engine: a nop's round trip, and a read of 4 KiB that are in the page cache. On io_uring
//! also that read with a registered buffer and file, collected from the driver and awaited by tasks.
//!
//! Prints one JSON object a line. `--ops N` does exactly N ops of one case and prints no time, for a run
//! under callgrind (see `comparisons/perop.py`, which subtracts the set-up).

mod registered;

use proactor_bench::unless_interrupted;
use proactor_engine::op::{File, Nop, Op, Read};
use proactor_engine::{Completion, Config, Driver, Engine};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const HELP: &str = "\
What one op costs, in nanoseconds, on each engine: one JSON object a line.

Usage: perop [OPTIONS]

Options:
  --engine NAME      only this engine (a comma between several); `pread`: the plain system call
  --op NAME          only this op: nop, read, fixed (a read with a registered buffer and file) or future (the
                     same, awaited by as many tasks as a batch has ops)
  --batch N          only this batch: ops submitted before any is collected (default: 1 and 64)
  --inline on|off    only with, or only without, the attempt to finish at once
  --rounds N         rounds per case (default: 7); every round is printed
  --millis N         length of one round (default: 60)
  --ops N            do N ops of each chosen case, untimed, and print how many
  -h, --help         this text
";

const BLOCK_BYTES: usize = 4096;
/// Blocks of the file: few enough to stay in the CPU's cache beside the page cache's own structures, so that
/// the op's cost is measured and not the memory's.
const FILE_BLOCKS: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Nop,
    Read,
    Fixed,
    Future,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::Nop, Kind::Read, Kind::Fixed, Kind::Future];

    fn name(self) -> &'static str {
        match self {
            Kind::Nop => "nop",
            Kind::Read => "read",
            Kind::Fixed => "fixed",
            Kind::Future => "future",
        }
    }

    /// Returns true if it is a separate case. A nop is never finished inline, and only the ring knows what is registered.
    fn is_case(self, which: Which, inline: bool) -> bool {
        match self {
            Kind::Nop => which.is_some() && !inline,
            Kind::Read => which.is_some() || !inline,
            Kind::Fixed | Kind::Future => which == Some(Engine::IoUring) && !inline,
        }
    }
}

/// Engine of a case; `None` is the plain system call.
type Which = Option<Engine>;

struct Options {
    engines: Vec<Which>,
    kinds: Vec<Kind>,
    batches: Vec<usize>,
    inline: Vec<bool>,
    rounds: usize,
    round: Duration,
    ops: Option<usize>,
}

fn main() -> ExitCode {
    let options = match parse(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(message) => {
            eprintln!("perop: {message}");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("perop: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Option<Options>, String> {
    let real = Engine::ALL.iter().filter(|e| **e != Engine::Sim);
    let mut options = Options {
        engines: std::iter::once(None).chain(real.map(|e| Some(*e))).collect(),
        kinds: Kind::ALL.to_vec(),
        batches: vec![1, 64],
        inline: vec![true, false],
        rounds: 7,
        round: Duration::from_millis(60),
        ops: None,
    };
    while let Some(flag) = args.next() {
        if flag == "-h" || flag == "--help" {
            return Ok(None);
        }
        let value = args.next().ok_or_else(|| format!("{flag} needs a value"))?;
        let number = || match value.parse::<usize>() {
            Ok(n) if n > 0 => Ok(n),
            _ => Err(format!("{flag}: {value:?} is no positive number")),
        };
        match flag.as_str() {
            "--engine" => options.engines = value.split(',').map(engine).collect::<Result<_, _>>()?,
            "--op" => {
                let kind = Kind::ALL.into_iter().find(|kind| kind.name() == value);
                options.kinds = vec![kind.ok_or_else(|| format!("--op: there is no {value:?}; see --help"))?];
            }
            "--batch" => options.batches = vec![number()?],
            "--inline" => {
                options.inline = vec![match value.as_str() {
                    "on" => true,
                    "off" => false,
                    _ => return Err(format!("--inline: {value:?} is neither on nor off")),
                }];
            }
            "--rounds" => options.rounds = number()?,
            "--millis" => options.round = Duration::from_millis(number()? as u64),
            "--ops" => options.ops = Some(number()?),
            _ => return Err(format!("no option {flag}; see --help")),
        }
    }
    Ok(Some(options))
}

fn engine(name: &str) -> Result<Which, String> {
    match name {
        "pread" => Ok(None),
        name => name.parse().map(Some).map_err(|e| format!("{e}, or pread")),
    }
}

fn run(options: &Options) -> io::Result<()> {
    let mut file = tempfile::tempfile()?;
    file.write_all(&vec![0xa5; BLOCK_BYTES * FILE_BLOCKS])?;
    let file = File::new(file);
    for &kind in &options.kinds {
        for &which in &options.engines {
            for &inline in &options.inline {
                for &batch in &options.batches {
                    // The plain call knows no batches.
                    let again = which.is_none() && batch != options.batches[0];
                    if again || !kind.is_case(which, inline) {
                        continue;
                    }
                    case(options, &file, kind, which, inline, batch)?;
                }
            }
        }
    }
    Ok(())
}

fn case(
    options: &Options,
    file: &File,
    kind: Kind,
    which: Which,
    inline: bool,
    batch: usize,
) -> io::Result<()> {
    let op = kind.name();
    let head = match which {
        None => format!(r#"{{"op":"{op}","engine":"pread","inline":null,"batch":1"#),
        Some(e) => format!(r#"{{"op":"{op}","engine":"{e}","inline":{inline},"batch":{batch}"#),
    };
    let mut work: Turns = match which {
        None => plain(file.clone()),
        Some(engine) => {
            match Config::default()
                .engine(engine)
                .inline(inline)
                .depth(64.max(batch as u32))
                .build()
            {
                Ok(driver) => work_of(driver, file, kind, batch)?,
                Err(e) => {
                    println!(r#"{head},"unavailable":{:?}}}"#, e.to_string());
                    return Ok(());
                }
            }
        }
    };
    if let Some(ops) = options.ops {
        let turns = ops.div_ceil(batch);
        work(turns)?;
        println!(r#"{head},"ops":{}}}"#, turns * batch);
        return Ok(());
    }
    let batch = if which.is_none() { 1 } else { batch };
    // Number of turns of a round: doubled until it is long enough to time.
    let mut turns = 16;
    loop {
        let start = Instant::now();
        work(turns)?;
        let took = start.elapsed();
        if took >= options.round / 8 {
            turns = (turns as f64 * options.round.as_secs_f64() / took.as_secs_f64()).max(1.0) as usize;
            break;
        }
        turns *= 2;
    }
    let mut rounds = Vec::with_capacity(options.rounds);
    for _ in 0..options.rounds {
        let start = Instant::now();
        work(turns)?;
        let ns = start.elapsed().as_nanos() as f64 / (turns * batch) as f64;
        rounds.push(format!("{ns:.1}"));
    }
    println!(r#"{head},"ns":[{}]}}"#, rounds.join(","));
    io::stdout().flush()
}

/// A function that does this many batches.
type Turns = Box<dyn FnMut(usize) -> io::Result<()>>;

fn work_of(driver: Driver, file: &File, kind: Kind, batch: usize) -> io::Result<Turns> {
    match kind {
        Kind::Nop | Kind::Read => Ok(Box::new(Work::new(driver, file.clone(), kind, batch).into_fn())),
        Kind::Fixed => registered::collected(driver, file, batch),
        Kind::Future => registered::awaited(driver, file, batch),
    }
}

fn plain(file: File) -> Turns {
    let mut buffer = vec![0u8; BLOCK_BYTES];
    Box::new(move |turns| {
        let fd = std::os::fd::AsFd::as_fd(&file).as_raw_fd();
        for turn in 0..turns {
            let offset = (turn % FILE_BLOCKS * BLOCK_BYTES) as i64;
            // SAFETY: `buffer` is that many writable bytes and outlives the call.
            let n = unsafe { libc::pread(fd, buffer.as_mut_ptr().cast(), BLOCK_BYTES, offset) };
            assert_eq!(n, BLOCK_BYTES as isize, "{}", io::Error::last_os_error());
        }
        Ok(())
    })
}

struct Work {
    driver: Driver,
    file: File,
    kind: Kind,
    batch: usize,
    done: Vec<Completion>,
    buffers: Vec<Vec<u8>>,
    block: usize,
}

impl Work {
    fn new(driver: Driver, file: File, kind: Kind, batch: usize) -> Self {
        Work {
            driver,
            file,
            kind,
            batch,
            done: Vec::with_capacity(batch),
            buffers: (0..batch).map(|_| Vec::with_capacity(BLOCK_BYTES)).collect(),
            block: 0,
        }
    }

    fn into_fn(mut self) -> impl FnMut(usize) -> io::Result<()> {
        move |turns| {
            for _ in 0..turns {
                self.turn()?;
            }
            Ok(())
        }
    }

    /// Submits a batch and collects all of it.
    fn turn(&mut self) -> io::Result<()> {
        for _ in 0..self.batch {
            match self.kind {
                Kind::Nop => self.driver.submit(Nop)?,
                _ => {
                    let mut buffer = self.buffers.pop().expect("one per op of a batch");
                    buffer.clear();
                    self.block = (self.block + 1) % FILE_BLOCKS;
                    let offset = (self.block * BLOCK_BYTES) as u64;
                    self.driver.submit(Read::at(&self.file, offset, buffer))?
                }
            };
        }
        while self.done.len() < self.batch {
            let missing = self.batch - self.done.len();
            unless_interrupted(self.driver.wait(missing, missing, None, &mut self.done))?;
        }
        for completion in self.done.drain(..) {
            let count = completion.count()?;
            if let Some(Op::Read(read)) = completion.op {
                assert_eq!(count, BLOCK_BYTES, "the file is cached and whole");
                self.buffers.push(read.buffer.into_vec());
            }
        }
        Ok(())
    }
}
