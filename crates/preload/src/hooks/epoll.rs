//! epoll_ctl and the waits. Sets need no hook when they are made: the first socket that comes onto a ring makes ours.

use crate::interest::{self, Control};
use crate::wait::{wait, End, Wait};
use crate::{errno, real, set_errno, table};
use libc::{c_int, epoll_event, sigset_t, timespec};
use std::time::Duration;

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn epoll_ctl(ep: c_int, op: c_int, fd: c_int, event: *mut epoll_event) -> c_int {
    let before = errno();
    // SAFETY: the caller's promise.
    match unsafe { interest::control(ep, op, fd, event) } {
        Control::Done => {
            set_errno(before);
            0
        }
        Control::Fail(error) => {
            set_errno(error);
            -1
        }
        Control::Real => {
            set_errno(before);
            // SAFETY: the caller's promise.
            let result = unsafe { real::epoll_ctl(ep, op, fd, event) };
            match op {
                libc::EPOLL_CTL_ADD if result == 0 => table::set_plain(fd),
                libc::EPOLL_CTL_DEL if result == 0 => table::unset_plain(fd),
                _ => {}
            }
            result
        }
    }
}

unsafe fn hooked(
    ep: c_int,
    events: *mut epoll_event,
    max: c_int,
    timeout: impl FnOnce() -> Option<Duration>,
    mask: *const sigset_t,
    real: impl FnOnce() -> c_int,
) -> c_int {
    let Some(set) = table::epoll(ep) else {
        return real();
    };
    let Ok(max @ 1..) = usize::try_from(max) else {
        return real();
    };
    let before = errno();
    let asked = Wait {
        events,
        max,
        timeout: timeout(),
        mask,
    };
    // SAFETY: the caller's promise.
    let end = unsafe { wait(set, asked) };
    set_errno(before);
    match end {
        End::Events(count) => count as c_int,
        End::Fail(error) => {
            set_errno(error);
            -1
        }
        End::Real => real(),
    }
}

fn milliseconds(timeout: c_int) -> Option<Duration> {
    u64::try_from(timeout).ok().map(Duration::from_millis)
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn epoll_wait(
    ep: c_int,
    events: *mut epoll_event,
    max: c_int,
    timeout: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        hooked(
            ep,
            events,
            max,
            || milliseconds(timeout),
            std::ptr::null(),
            || real::epoll_wait(ep, events, max, timeout),
        )
    }
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn epoll_pwait(
    ep: c_int,
    events: *mut epoll_event,
    max: c_int,
    timeout: c_int,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        hooked(
            ep,
            events,
            max,
            || milliseconds(timeout),
            mask,
            || real::epoll_pwait(ep, events, max, timeout, mask),
        )
    }
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn epoll_pwait2(
    ep: c_int,
    events: *mut epoll_event,
    max: c_int,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the caller's promise.
    let time = unsafe { timeout.as_ref() };
    let is_valid = time.is_none_or(|time| time.tv_sec >= 0 && (0..1_000_000_000).contains(&time.tv_nsec));
    if !is_valid {
        // SAFETY: the caller's promise.
        return unsafe { real::epoll_pwait2(ep, events, max, timeout, mask) };
    }
    let time = time.map(|time| Duration::new(time.tv_sec as u64, time.tv_nsec as u32));
    // SAFETY: the caller's promise.
    unsafe {
        hooked(
            ep,
            events,
            max,
            || time,
            mask,
            || real::epoll_pwait2(ep, events, max, timeout, mask),
        )
    }
}
