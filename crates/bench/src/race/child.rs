//! One process, from its start to its end: its duration, usage and output.

use crate::usage::{moved, Moved, Used};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::fs::{memfd_create, MemfdFlags};
use rustix::process::{kill_process_group, pidfd_open, Pid, PidfdFlags, Signal};
use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Interval between two checks of `stop`. The end of the process is noticed at once.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};
const BLOCK_BYTES: u64 = 512;

/// Time for a program that is asked for its version.
const PATIENCE: Duration = Duration::from_secs(2);

/// Result of a process.
pub(super) struct Ran {
    pub elapsed_s: f64,
    pub used: Used,
    pub output: Vec<u8>,
}

/// Runs a command. `device` is a directory in /sys. When `stop` becomes true, the command is killed, with all
/// that it has started.
///
/// # Errors
/// If it cannot be started, or ends with anything but 0: with the last line of its output.
pub(super) fn run(command: &mut Command, device: Option<&str>, stop: &AtomicBool) -> Result<Ran, String> {
    run_while(command, device, || !stop.load(Ordering::Relaxed))
}

/// Returns the first line of output. A program that does not know the option may do anything, so the time is
/// short.
pub(super) fn first_line(command: &mut Command, stop: &AtomicBool) -> Option<String> {
    let begun = Instant::now();
    let go_on = || begun.elapsed() < PATIENCE && !stop.load(Ordering::Relaxed);
    let ran = run_while(command, None, go_on).ok()?;
    let text = String::from_utf8_lossy(&ran.output);
    Some(text.lines().next()?.trim().to_owned())
}

fn run_while(command: &mut Command, device: Option<&str>, go_on: impl Fn() -> bool) -> Result<Ran, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let failed = |e: std::io::Error| format!("{name}: {e}");
    // Memory, because a pipe would have to be read meanwhile.
    let memory = || memfd_create("proactor-bench", MemfdFlags::CLOEXEC).map(File::from);
    let (mut output, mut errors) = (
        memory().map_err(|e| failed(e.into()))?,
        memory().map_err(|e| failed(e.into()))?,
    );
    command
        .stdin(Stdio::null())
        .stdout(output.try_clone().map_err(failed)?)
        .stderr(errors.try_clone().map_err(failed)?)
        // Ctrl-C is for us, and we end it.
        .process_group(0);
    let before = device.and_then(moved);
    let begun = Instant::now();
    let child = command.spawn().map_err(failed)?;
    let pid = child.id() as i32;
    let ended = until_it_ends(pid, go_on);
    let elapsed_s = begun.elapsed().as_secs_f64();
    if ended != Ok(true) {
        // Processes that it has started are in its group. It may be gone already.
        let _ = kill_process_group(Pid::from_raw(pid).expect("not 0"), Signal::KILL);
    }
    let (status, usage) = reaped(pid).map_err(failed)?;
    ended.map_err(|e| failed(e.into()))?;
    let mut used = used(&usage);
    used.device = before
        .zip(device.and_then(moved))
        .map(|(before, after)| after.since(&before));
    let output = contents(&mut output).map_err(failed)?;
    if !status.success() {
        let errors = contents(&mut errors).map_err(failed)?;
        let said = String::from_utf8_lossy(&errors);
        let last = said.lines().rfind(|line| !line.trim().is_empty());
        return Err(format!(
            "{name}: {status}{}",
            last.map_or(String::new(), |l| format!(": {l}"))
        ));
    }
    Ok(Ran {
        elapsed_s,
        used,
        output,
    })
}

/// Returns true if it has ended by itself.
fn until_it_ends(pid: i32, go_on: impl Fn() -> bool) -> rustix::io::Result<bool> {
    let process = pidfd_open(Pid::from_raw(pid).expect("not 0"), PidfdFlags::empty())?;
    loop {
        match poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&LOOK)) {
            Ok(1..) => return Ok(true),
            Ok(0) | Err(rustix::io::Errno::INTR) if !go_on() => return Ok(false),
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e),
        }
    }
}

fn reaped(pid: i32) -> std::io::Result<(ExitStatus, libc::rusage)> {
    let mut status = 0;
    // SAFETY: zeroes are a valid `rusage`.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both are ours, of the types that the call writes, and it writes before it returns. The process is our
        // child, and `Child`, which is dropped without waiting, does not wait for it.
        if unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) } == pid {
            return Ok((ExitStatus::from_raw(status), usage));
        }
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

fn used(usage: &libc::rusage) -> Used {
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    let peak = usage.ru_maxrss as u64 * 1024;
    Used {
        user_s: seconds(usage.ru_utime),
        system_s: seconds(usage.ru_stime),
        threads: Vec::new(),
        voluntary: usage.ru_nvcsw as u64,
        involuntary: usage.ru_nivcsw as u64,
        minor_faults: usage.ru_minflt as u64,
        major_faults: usage.ru_majflt as u64,
        process_read_bytes: Some(usage.ru_inblock as u64 * BLOCK_BYTES),
        process_written_bytes: Some(usage.ru_oublock as u64 * BLOCK_BYTES),
        device: None,
        // The kernel counts the memory of the process that starts a program as the program's own.
        peak_rss_bytes: Some(peak).filter(|bytes| Some(*bytes) > crate::usage::peak_rss()),
    }
}

fn contents(file: &mut File) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

impl Moved {
    fn since(&self, before: &Moved) -> Moved {
        Moved {
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
            written_bytes: self.written_bytes.saturating_sub(before.written_bytes),
        }
    }
}
