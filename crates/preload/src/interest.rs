//! epoll_ctl: which sockets come onto a ring, and what the program wants to know of them.

use crate::report::{self, options, Cause};
use crate::set::{Held, Phase, Set};
use crate::socket::Socket;
use crate::{fork, real, table};
use libc::{c_int, epoll_event, socklen_t};
use std::os::fd::RawFd;

/// Standard streams may be used by code that no hook sees.
const FIRST_SOCKET: RawFd = 3;
/// Flags of which only the kernel's epoll can make sense.
pub(crate) const KERNEL_ONLY: u32 =
    libc::EPOLLEXCLUSIVE as u32 | libc::EPOLLWAKEUP as u32 | libc::EPOLLPRI as u32;

const EXCLUSIVE: u32 = libc::EPOLLEXCLUSIVE as u32;
/// What an interest with EPOLLEXCLUSIVE may have beside it (fs/eventpoll.c).
const WITH_EXCLUSIVE: u32 = (libc::EPOLLIN
    | libc::EPOLLOUT
    | libc::EPOLLERR
    | libc::EPOLLHUP
    | libc::EPOLLWAKEUP
    | libc::EPOLLET
    | libc::EPOLLEXCLUSIVE) as u32;

/// What epoll_ctl is answered with.
pub(crate) enum Control {
    Done,
    Fail(c_int),
    Real,
}

fn option(fd: RawFd, level: c_int, name: c_int) -> Option<c_int> {
    let mut value: c_int = 0;
    let mut len = size_of::<c_int>() as socklen_t;
    // SAFETY: a live number of that length.
    let done = unsafe { real::getsockopt(fd, level, name, (&raw mut value).cast(), &raw mut len) };
    (done == 0).then_some(value)
}

/// The port in an address of IPv4 or IPv6.
fn local_port(fd: RawFd) -> Option<u16> {
    // SAFETY: zeroes are a valid address.
    let mut address: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
    let mut len = size_of::<libc::sockaddr_in6>() as socklen_t;
    // SAFETY: room for the address and its length.
    let done = unsafe { libc::getsockname(fd, (&raw mut address).cast(), &raw mut len) };
    // Both families have it in the same place.
    (done == 0).then(|| u16::from_be(address.sin6_port))
}

fn is_connected(fd: RawFd) -> bool {
    // SAFETY: zeroes are a valid address.
    let mut address: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let mut len = size_of::<libc::sockaddr_storage>() as socklen_t;
    // SAFETY: room for the address and its length.
    unsafe { libc::getpeername(fd, (&raw mut address).cast(), &raw mut len) == 0 }
}

/// Whether a descriptor is a connected, non-blocking TCP socket of a port that was asked for.
pub(crate) fn is_eligible(fd: RawFd) -> bool {
    if fd < FIRST_SOCKET || !table::has_room(fd) {
        return false;
    }
    let Some(protocol) = option(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL) else {
        return false;
    };
    if protocol != libc::IPPROTO_TCP {
        // A receive in the ring has no place for descriptors, and closes those that come with a byte. The peer may send them at
        // any time, and only the call that reads the byte says whether the program wants them.
        if option(fd, libc::SOL_SOCKET, libc::SO_DOMAIN) == Some(libc::AF_UNIX) && is_connected(fd) {
            report::count_unix_socket();
        }
        return false;
    }
    if !is_connected(fd) {
        return false;
    }
    // SAFETY: no pointer is passed.
    let flags = unsafe { real::fcntl(fd, libc::F_GETFL, 0) };
    if flags < 0 || flags & libc::O_NONBLOCK == 0 || flags & libc::O_ASYNC != 0 {
        return false;
    }
    let only = &options().only;
    only.is_empty() || local_port(fd).is_some_and(|port| only.contains(&port))
}

/// Makes the set of an epoll descriptor that was just opened. Where there are too many, the descriptor stays unknown, and what
/// is added to it goes to the real set.
pub(crate) fn make_set(epfd: RawFd) -> Option<&'static Set> {
    if !table::claim_epoll(epfd) {
        return None;
    }
    let reused = table::sets().find_map(|set| {
        set.hold()
            .filter(|held| held.phase == Phase::Closed)
            .map(|held| (set, held))
    });
    let (set, number) = match reused {
        Some((set, mut held)) => {
            held.epfd = epfd;
            held.names = vec![epfd];
            held.phase = Phase::Idle;
            held.owner = 0;
            (set, held.number)
        }
        None => {
            let Some(set) = table::add_set(|number| Set::new(number, epfd)) else {
                table::clear(epfd);
                return None;
            };
            (set, set.hold()?.number)
        }
    };
    table::set_epoll(epfd, number);
    Some(set)
}

/// # Safety
/// `event` is null or an event.
pub(crate) unsafe fn control(epfd: RawFd, op: c_int, fd: RawFd, event: *mut epoll_event) -> Control {
    if op == libc::EPOLL_CTL_ADD {
        if let Some(inner) = table::epoll(fd) {
            hand_back_set(inner, Cause::Nested);
        }
    }
    if let Some(set) = table::socket(fd) {
        let Some(mut held) = set.lock(Cause::OtherThread) else {
            return Control::Real;
        };
        if table::epoll(epfd).is_some_and(|of| std::ptr::eq(of, set)) {
            // SAFETY: the caller's promise.
            return unsafe { change(held, op, fd, event) };
        }
        if op != libc::EPOLL_CTL_ADD {
            return Control::Real;
        }
        if held.socket(fd).is_some_and(|socket| socket.lent) {
            // Another process has it, too.
            held.forget_one(fd);
            table::set_odd(fd);
            return Control::Real;
        }
        let is_member = held.epfd >= 0 && held.socket(fd).is_some_and(|socket| socket.member);
        if is_member {
            held.hand_back_socket(fd, Cause::TwoSets);
            return Control::Real;
        }
        if !event.is_null() && table::epoll(epfd).is_some() {
            if let Some(socket) = held.detach(fd) {
                drop(held);
                // SAFETY: the caller's promise.
                return take_over(epfd, socket, unsafe { event.read_unaligned() });
            }
        }
    }
    let is_new = op == libc::EPOLL_CTL_ADD && !event.is_null() && !table::is_plain(fd) && fork::is_alone(fd);
    if !is_new || !is_eligible(fd) {
        return Control::Real;
    }
    // SAFETY: the caller's promise.
    let event = unsafe { event.read_unaligned() };
    if event.events & KERNEL_ONLY != 0 {
        report::count(Cause::Exclusive);
        return Control::Real;
    }
    // SAFETY: the caller's promise.
    unsafe { adopt(epfd, fd, event) }
}

unsafe fn adopt(epfd: RawFd, fd: RawFd, event: epoll_event) -> Control {
    let Some(set) = table::epoll(epfd) else {
        return Control::Real;
    };
    let Some(mut held) = set.hold() else {
        return Control::Real;
    };
    if held.phase == Phase::Plain || held.phase == Phase::Closed || held.epfd < 0 {
        return Control::Real;
    }
    if set.is_waited_on() {
        // That thread would not hear of it.
        report::count(Cause::OtherThread);
        return Control::Real;
    }
    if !held.is_mine() {
        report::count(Cause::OtherThread);
        return Control::Real;
    }
    let generation = held.new_generation();
    let (events, data) = (event.events, event.u64);
    held.insert(Socket::new(fd, generation, events, data));
    held.stats.adopted += 1;
    held.touch(fd);
    held.mark(fd);
    Control::Done
}

/// Puts a socket with bytes that another set has received into the set that it is added to.
fn take_over(epfd: RawFd, mut socket: Socket, event: epoll_event) -> Control {
    let fd = socket.fd;
    let Some((set, mut held)) = table::epoll(epfd).and_then(|set| Some((set, set.lock(Cause::OtherThread)?)))
    else {
        return Control::Real;
    };
    let can_be_on_ring = matches!(held.phase, Phase::Idle | Phase::Ring)
        && !set.is_waited_on()
        && event.events & KERNEL_ONLY == 0
        && !(socket.is_shared() || socket.odd)
        && fork::is_alone(fd)
        && is_eligible(fd);
    socket.generation = held.new_generation();
    socket.events = event.events;
    socket.data = event.u64;
    socket.member = true;
    socket.fired = false;
    socket.released = !can_be_on_ring;
    if socket.low_water() > 1 {
        socket.place_low_water();
    }
    held.stats.adopted += u64::from(can_be_on_ring);
    held.insert(socket);
    held.touch(fd);
    held.mark(fd);
    if set.is_waited_on() {
        held.add_flag(set);
    }
    Control::Done
}

/// # Safety
/// `event` is null or an event.
unsafe fn change(mut held: Held, op: c_int, fd: RawFd, event: *mut epoll_event) -> Control {
    let Some(socket) = held.socket(fd) else {
        return Control::Real;
    };
    if socket.lent {
        return held.change_lent(op, fd, event);
    }
    if op == libc::EPOLL_CTL_DEL {
        if !socket.member {
            return Control::Fail(libc::ENOENT);
        }
        socket.member = false;
        held.withdraw(fd);
        return Control::Done;
    }
    if event.is_null() {
        return Control::Fail(libc::EFAULT);
    }
    // SAFETY: the caller's promise.
    let event = unsafe { event.read_unaligned() };
    let (events, data) = (event.events, event.u64);
    let exclusive = events & EXCLUSIVE != 0;
    match op {
        // In the order in which the kernel looks.
        libc::EPOLL_CTL_MOD if exclusive => return Control::Fail(libc::EINVAL),
        libc::EPOLL_CTL_ADD if exclusive && events & !WITH_EXCLUSIVE != 0 => {
            return Control::Fail(libc::EINVAL)
        }
        libc::EPOLL_CTL_ADD if socket.member => return Control::Fail(libc::EEXIST),
        libc::EPOLL_CTL_MOD if !socket.member => return Control::Fail(libc::ENOENT),
        libc::EPOLL_CTL_MOD if socket.events & EXCLUSIVE != 0 => return Control::Fail(libc::EINVAL),
        libc::EPOLL_CTL_ADD | libc::EPOLL_CTL_MOD => {}
        _ => return Control::Fail(libc::EINVAL),
    }
    socket.member = true;
    socket.fired = false;
    socket.events = events;
    socket.data = data;
    socket.has_edges = false;
    if events & KERNEL_ONLY != 0 {
        held.hand_back_socket(fd, Cause::Exclusive);
        return Control::Done;
    }
    held.touch(fd);
    held.mark(fd);
    Control::Done
}

/// Hands a set back from whichever thread this is.
pub(crate) fn hand_back_set(set: &'static Set, cause: Cause) {
    if !report::is_this_process() {
        return;
    }
    let Some(mut held) = set.lock(cause) else { return };
    match held.phase {
        Phase::Ring => held.hand_back(cause),
        Phase::Idle => held.give_up(cause),
        Phase::Plain | Phase::Closed => {}
    }
    if cause == Cause::Nested && held.count > 0 {
        held.add_flag(set);
    }
}

/// Hands a socket back from whichever thread this is. True: bytes of it lie here still.
pub(crate) fn hand_back_socket(fd: RawFd, cause: Cause) -> bool {
    let Some(set) = table::socket(fd) else {
        return false;
    };
    if !report::is_this_process() {
        return false;
    }
    let before = crate::errno();
    let mut rest = false;
    if let Some(mut held) = set.lock(cause) {
        held.hand_back_socket(fd, cause);
        rest = held.socket(fd).is_some_and(|socket| socket.bytes > 0);
    }
    crate::set_errno(before);
    rest
}

/// Hands a socket back for good: what was set makes the kernel do what a ring does not. A descriptor that is on no ring does
/// not come onto one. True: bytes of it lie here still.
pub(crate) fn keep_off(fd: RawFd, cause: Cause) -> bool {
    if let Some(set) = table::socket(fd).filter(|_| report::is_this_process()) {
        let before = crate::errno();
        if let Some(mut held) = set.lock(cause) {
            if let Some(socket) = held.socket(fd) {
                socket.odd = true;
            }
        }
        crate::set_errno(before);
        return hand_back_socket(fd, cause);
    }
    table::set_odd(fd);
    false
}

/// Hands back what is sent to another process. Bytes that lie here stay in this one.
pub(crate) fn hand_back_sent(fd: RawFd) {
    if let Some(set) = table::epoll(fd) {
        hand_back_set(set, Cause::SetSent);
    } else {
        keep_off(fd, Cause::Sent);
    }
}
