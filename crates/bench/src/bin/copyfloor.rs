//! Lower bound on copying and reading a tree: threads and plain system calls, and nothing else that a copier
//! needs. This is not a copier: it stops at the first error.
//!
//! - `copyfloor copy SRC DST THREADS [times] [clone]`: each directory belongs to one thread, which for each
//!   file calls open, statx, open, read, write, close, close, and futimens with `times`. With `clone` the
//!   blocks are shared.
//! - `copyfloor read SRC THREADS`: all files in the order of their inodes, by threads that only open, read
//!   and close.
//! - `copyfloor same SRC DST`: fails unless both have the same names, kinds and contents.
//! - `copyfloor touch MIB`: writes to this much memory and frees it. A virtual machine may have given free
//!   memory to its host, and getting it back takes a hundred times as long as copying into it.
//! - `copyfloor run COMMAND...`: the cost of a command, as JSON. The kernel counts the peak memory of the
//!   process that starts a program as the program's own, and this starter is small.

use proactor_bench::same::same;
use proactor_bench::tree::{self, BUFFER_BYTES};
use proactor_engine::buffer::AlignedBuf;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, SeekFrom, StatxFlags, Timespec, Timestamps, CWD};
use std::ffi::CString;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Done = Result<(), Failure>;

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let begin = Instant::now();
    match args.as_slice() {
        ["copy", from, to, threads, flags @ ..] => {
            let dirs = tree::walk(Path::new(from))?;
            let how = How {
                times: flags.contains(&"times"),
                clone: flags.contains(&"clone"),
            };
            for dir in &dirs {
                std::fs::create_dir(Path::new(to).join(&dir.path))?;
            }
            by_threads(threads.parse()?, dirs.len(), 1, |buffer, index| {
                copy_dir(Path::new(from), Path::new(to), &dirs[index], &how, buffer)
            })?;
        }
        ["read", from, threads] => {
            let files = tree::files(Path::new(from))?;
            by_threads(threads.parse()?, files.len(), 1, |buffer, index| {
                let file = rustix::fs::openat(CWD, &files[index], OFlags::RDONLY, Mode::empty())?;
                while rustix::io::read(&file, &mut *buffer)? > 0 {}
                Ok(())
            })?;
        }
        ["run", program, arguments @ ..] => return run(program, arguments),
        ["touch", mib] => touch(mib.parse::<usize>()? << 20)?,
        ["same", left, right] => same(Path::new(left), Path::new(right), false, &AtomicBool::new(false))?,
        _ => return Err("copy SRC DST THREADS [times] [clone] | read SRC THREADS | same SRC DST".into()),
    }
    println!("{:.6}", begin.elapsed().as_secs_f64());
    Ok(())
}

fn touch(length: usize) -> Done {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping at an address that the kernel chooses overlaps no other memory.
    let memory = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0) };
    if memory == libc::MAP_FAILED {
        return Err(std::io::Error::last_os_error().into());
    }
    // SAFETY: `memory` is ours, `length` bytes long and zeroed, until this process ends.
    let bytes = unsafe {
        libc::madvise(memory, length, libc::MADV_HUGEPAGE);
        std::slice::from_raw_parts_mut(memory.cast::<u8>(), length)
    };
    // The host hands out memory to both processors at once.
    let half = length.div_ceil(2).max(1);
    std::thread::scope(|scope| {
        for part in bytes.chunks_mut(half) {
            scope.spawn(|| {
                for byte in part.iter_mut().step_by(4096) {
                    *byte = std::hint::black_box(1);
                }
            });
        }
    });
    Ok(())
}

/// Runs a command, and prints its cost with all its threads.
fn run(program: &str, arguments: &[&str]) -> Done {
    let begin = Instant::now();
    let child = std::process::Command::new(program).args(arguments).spawn()?;
    let pid = libc::pid_t::try_from(child.id())?;
    let mut status = 0;
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both are ours, of the types that the call writes, and it writes before it returns.
    if unsafe { libc::wait4(pid, &mut status, 0, usage.as_mut_ptr()) } != pid {
        return Err(std::io::Error::last_os_error().into());
    }
    let wall_s = begin.elapsed().as_secs_f64();
    // SAFETY: zeroed and filled by the kernel; any bytes make a valid value.
    let usage = unsafe { usage.assume_init() };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    let (user_s, system_s) = (seconds(usage.ru_utime), seconds(usage.ru_stime));
    let peak_kib = usage.ru_maxrss;
    println!(
        r#"{{"wall_s": {wall_s}, "user_s": {user_s}, "system_s": {system_s}, "peak_kib": {peak_kib}, "status": {status}}}"#
    );
    Ok(())
}

/// Calls `work` with each number below `count`, `share` at a time on each thread.
fn by_threads(
    threads: usize,
    count: usize,
    share: usize,
    work: impl Fn(&mut [u8], usize) -> Done + Sync,
) -> Done {
    let next = AtomicUsize::new(0);
    let one = || -> Done {
        let mut buffer = AlignedBuf::zeroed(BUFFER_BYTES, 4096);

        loop {
            let start = next.fetch_add(share, Ordering::Relaxed);
            if start >= count {
                return Ok(());
            }
            for index in start..count.min(start + share) {
                work(&mut buffer, index)?;
            }
        }
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
        running
            .into_iter()
            .try_for_each(|thread| thread.join().expect("a thread has panicked"))
    })
}

struct How {
    times: bool,
    clone: bool,
}

fn copy_dir(from: &Path, to: &Path, dir: &tree::Dir, how: &How, buffer: &mut [u8]) -> Done {
    let source = tree::open_dir(&from.join(&dir.path))?;
    let target = tree::open_dir(&to.join(&dir.path))?;
    for (name, kind, _) in &dir.entries {
        if *kind == FileType::Symlink {
            let link = rustix::fs::readlinkat(&source, name, Vec::new())?;
            rustix::fs::symlinkat(&link, &target, name)?;
        } else {
            copy_file(&source, &target, name, how, buffer)?;
        }
    }
    Ok(())
}

fn copy_file(source: &OwnedFd, target: &OwnedFd, name: &CString, how: &How, buffer: &mut [u8]) -> Done {
    let reading = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let input = rustix::fs::openat(source, name, reading, Mode::empty())?;
    let stat = rustix::fs::statx(&input, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)?;
    let writing = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(u32::from(stat.stx_mode) & 0o777);
    let output = rustix::fs::openat(target, name, writing, mode)?;
    if how.clone {
        rustix::fs::ioctl_ficlone(&output, &input)?;
    } else {
        copy_data(&input, &output, &stat, buffer)?;
    }
    if how.times {
        let time = |time: rustix::fs::StatxTimestamp| Timespec {
            tv_sec: time.tv_sec,
            tv_nsec: time.tv_nsec.into(),
        };
        let times = Timestamps {
            last_access: time(stat.stx_atime),
            last_modification: time(stat.stx_mtime),
        };
        rustix::fs::futimens(&output, &times)?;
    }
    Ok(())
}

fn copy_data(input: &OwnedFd, output: &OwnedFd, stat: &rustix::fs::Statx, buffer: &mut [u8]) -> Done {
    let mut offset = 0;
    let sparse = stat.stx_blocks * 512 < stat.stx_size;
    while offset < stat.stx_size {
        let mut end = stat.stx_size;
        if sparse {
            match rustix::fs::seek(input, SeekFrom::Data(offset)) {
                Ok(data) => offset = data,
                Err(rustix::io::Errno::NXIO) => break,
                Err(error) => return Err(error.into()),
            }
            end = rustix::fs::seek(input, SeekFrom::Hole(offset))?;
        }
        while offset < end {
            let length = buffer.len().min((end - offset) as usize);
            let length = rustix::io::pread(input, &mut buffer[..length], offset)?;
            if length == 0 || rustix::io::pwrite(output, &buffer[..length], offset)? != length {
                return Err("cut short".into());
            }
            offset += length as u64;
        }
    }
    if sparse {
        rustix::fs::ftruncate(output, stat.stx_size)?;
    }
    Ok(())
}
