//! epoll_create, epoll_ctl and the waits.

use crate::interest::{self, Control};
use crate::set::Set;
use crate::wait::{wait, Deadline, End, Wait};
use crate::{errno, flag, real, set_errno, table};
use libc::{c_int, epoll_event, sigset_t, timespec};
use std::sync::atomic::Ordering;
use std::time::Duration;

fn opened(ep: c_int) -> c_int {
    if ep >= 0 {
        let before = errno();
        // What the number was before was closed where no hook has seen it.
        super::close::before(ep);
        interest::make_set(ep);
        set_errno(before);
    }
    ep
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn epoll_create(size: c_int) -> c_int {
    // SAFETY: the caller's promise.
    opened(unsafe { real::epoll_create(size) })
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn epoll_create1(flags: c_int) -> c_int {
    // SAFETY: the caller's promise.
    opened(unsafe { real::epoll_create1(flags) })
}

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

/// The most events that the kernel reports at once (fs/eventpoll.c).
const MAX_EVENTS: c_int = c_int::MAX / size_of::<epoll_event>() as c_int;

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
    if !(1..=MAX_EVENTS).contains(&max) {
        return real();
    }
    let before = errno();
    let asked = Wait {
        events,
        max: max as usize,
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
        End::Real => {
            let deadline = Deadline::new(asked.timeout);
            let count = real();
            set.end_real_wait();
            if !set.has_flag.load(Ordering::Acquire) {
                return count;
            }
            // SAFETY: the caller's promise.
            unsafe { flagged(set, ep, asked, &deadline, count) }
        }
    }
}

/// Goes on after a wait for the real set that a flag of ours may have ended.
#[cold]
unsafe fn flagged(set: &'static Set, ep: c_int, asked: Wait, deadline: &Deadline, count: c_int) -> c_int {
    let mut count = count;
    while count > 0 {
        let Some(held) = set.hold() else { return count };
        // SAFETY: as many were written.
        let kept = unsafe { held.without_flag(asked.events, count as usize) };
        drop(held);
        if kept > 0 {
            return kept as c_int;
        }
        let rest = Wait {
            timeout: deadline.left(asked.timeout),
            ..asked
        };
        // SAFETY: the caller's promise.
        count = match unsafe { wait(set, rest) } {
            End::Events(count) => return count as c_int,
            End::Fail(error) => {
                set_errno(error);
                return -1;
            }
            End::Real => {
                let left = flag::milliseconds(rest.timeout);
                // SAFETY: the caller's promise.
                let count =
                    unsafe { real::epoll_pwait(ep, asked.events, asked.max as c_int, left, asked.mask) };
                set.end_real_wait();
                count
            }
        };
    }
    count
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
