//! A library for LD_PRELOAD that puts the TCP sockets of an unmodified epoll server on a ring.
//!
//! `proactor run` loads it. Hooks (`hooks/`) stand before the C library's functions, ask the table whether a descriptor is
//! one of ours, and call the real function otherwise. A set (`set.rs`) has the sockets of one epoll descriptor and the ring of the
//! thread that waits on it. Whatever cannot be done exactly is handed back to plain epoll (`handback.rs`).
//!
//! Nothing here calls into the program, and no lock is held during a wait. A panic ends the process: it does not unwind into C.

#![deny(clippy::undocumented_unsafe_blocks)]

mod edges;
mod flag;
mod fork;
mod handback;
mod hooks;
mod interest;
mod lend;
mod parked;
mod polls;
mod real;
mod report;
mod ring;
mod sends;
mod set;
mod shared;
mod socket;
mod table;
mod transfer;
mod turn;
mod wait;
mod worker;

use libc::c_int;

fn errno() -> c_int {
    // SAFETY: the C library's own place for it, of this thread.
    unsafe { *libc::__errno_location() }
}

fn set_errno(value: c_int) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = value }
}

/// Keeps the descriptor open by which programs that this one starts load the library, where it lies in memory.
fn keep_library() {
    let list = std::env::var("LD_PRELOAD").unwrap_or_default();
    let first = list.split(':').next().unwrap_or_default();
    if let Some(Ok(fd)) = first.strip_prefix("/proc/self/fd/").map(str::parse) {
        table::set_own(fd);
    }
}

extern "C" fn start() {
    real::find_all();
    keep_library();
    report::start();
    // SAFETY: functions that live as long as the process.
    unsafe {
        libc::pthread_atfork(
            Some(fork::before_fork),
            Some(fork::after_fork_in_parent),
            Some(fork::after_fork_in_child),
        );
    }
}

extern "C" fn finish() {
    handback::finish();
    report::finish();
}

#[used]
#[link_section = ".init_array"]
static START: extern "C" fn() = start;

#[used]
#[link_section = ".fini_array"]
static FINISH: extern "C" fn() = finish;
