//! Sockets that are lent to the real set while a forked process may have them, too, and their return to the ring.
//!
//! A lent socket has nothing here: no received byte, no queue, no entry in the kernel. Its interest is kept up to date, so that
//! it can return.

use crate::fork;
use crate::interest::{is_eligible, Control, KERNEL_ONLY};
use crate::set::{Inner, Phase};
use crate::socket::Socket;
use crate::{real, table};
use libc::{c_int, epoll_event};
use std::os::fd::RawFd;

impl Inner {
    /// Called before the set is handed back because of a fork. What is lent already stays so, or stays in the real set.
    pub(crate) fn begin_lending(&mut self, can_return: bool) {
        self.lending = can_return;
        if !can_return {
            self.forget_lent();
            return;
        }
        for socket in self.sockets.iter_mut().flatten() {
            socket.returns |= !socket.released;
        }
    }

    /// Whether the next program of a forked child would have one of the sockets.
    pub(crate) fn is_inherited(&self) -> bool {
        self.sockets.iter().flatten().any(|socket| {
            // SAFETY: no pointer is passed.
            let flags = unsafe { real::fcntl(socket.fd, libc::F_GETFD, 0) };
            flags >= 0 && flags & libc::FD_CLOEXEC == 0
        })
    }

    /// Gives a socket of which nothing is left here to the real set, until it may return.
    pub(crate) fn lend(&mut self, fd: RawFd) {
        let epfd = self.epfd;
        let Some(socket) = self.socket(fd) else { return };
        let mut event = epoll_event {
            events: if socket.fired {
                socket.events & libc::EPOLLONESHOT as u32
            } else {
                socket.events
            },
            u64: socket.data,
        };
        socket.lent = true;
        self.lent += 1;
        // SAFETY: one live event.
        unsafe { real::epoll_ctl(epfd, libc::EPOLL_CTL_ADD, fd, &raw mut event) };
    }

    /// Puts a socket on the ring again.
    pub(crate) fn renew(&mut self, fd: RawFd) {
        let generation = self.new_generation();
        let Some(old) = self.socket(fd) else { return };
        let mut socket = Socket::new(fd, generation, old.events, old.data);
        socket.fired = old.fired;
        socket.shut = old.shut;
        self.remove(fd);
        self.insert(socket);
        self.stats.returned += 1;
        self.touch(fd);
        self.mark(fd);
    }

    /// Takes lent sockets back, now that no other process has them.
    #[cold]
    pub(crate) fn take_back(&mut self) {
        self.lending = false;
        for fd in self.all() {
            let Some(socket) = self.socket(fd).filter(|socket| socket.lent) else {
                continue;
            };
            if !socket.member {
                self.remove(fd);
            } else if socket.low_water() > 1 || !is_eligible(fd) {
                self.forget_one(fd);
            } else if !socket.is_one_shot() {
                self.take_one_back(fd);
            }
            // Whether a one-shot has been fired only the kernel knows: it returns when it is armed again.
        }
    }

    fn take_one_back(&mut self, fd: RawFd) {
        // SAFETY: no event is passed.
        unsafe { real::epoll_ctl(self.epfd, libc::EPOLL_CTL_DEL, fd, std::ptr::null_mut()) };
        self.renew(fd);
    }

    /// Leaves a lent socket to the real set.
    pub(crate) fn forget_one(&mut self, fd: RawFd) {
        let Some(socket) = self.socket(fd) else { return };
        let odd = socket.odd;
        self.remove(fd);
        table::set_plain(fd);
        if odd {
            table::set_odd(fd);
        }
    }

    /// Leaves all that is lent to the real set.
    pub(crate) fn forget_lent(&mut self) {
        self.lending = false;
        if self.lent == 0 {
            return;
        }
        for fd in self.all() {
            if self.socket(fd).is_some_and(|socket| socket.lent) {
                self.forget_one(fd);
            }
        }
    }

    /// epoll_ctl on a lent socket.
    pub(crate) fn change_lent(&mut self, op: c_int, fd: RawFd, event: *mut epoll_event) -> Control {
        let epfd = self.epfd;
        // SAFETY: the kernel checks what it is given.
        if unsafe { real::epoll_ctl(epfd, op, fd, event) } < 0 {
            return Control::Fail(crate::errno());
        }
        let may_return = !self.lending && matches!(self.phase, Phase::Idle | Phase::Ring);
        let Some(socket) = self.socket(fd) else {
            return Control::Done;
        };
        if op == libc::EPOLL_CTL_DEL {
            socket.member = false;
            return Control::Done;
        }
        // SAFETY: the kernel has read it.
        let event = unsafe { event.read_unaligned() };
        socket.member = true;
        socket.fired = false;
        socket.events = event.events;
        socket.data = event.u64;
        if event.events & KERNEL_ONLY != 0 {
            self.forget_one(fd);
        } else if may_return && is_eligible(fd) {
            self.take_one_back(fd);
        }
        Control::Done
    }

    /// Makes the set a forked child's: the parent sends what was accepted, and all else is the kernel's.
    pub(crate) fn belong_to_child(&mut self) {
        self.forget_lent();
        self.flag_is_parents = self.flag >= 0;
        self.drop_edges();
        for fd in self.all() {
            let Some(socket) = self.socket(fd) else { continue };
            socket.has_edges = false;
            socket.drop_queue();
            socket.shut_later = false;
            socket.returns = false;
            if !socket.is_shared() {
                // There was no memory to share them in: the parent reads them.
                socket.drop_received();
            }
        }
    }

    /// Takes lent sockets back if no other process has them.
    #[inline]
    pub(crate) fn look_for_return(&mut self) {
        if self.lending && fork::all_gone() {
            self.take_back();
        }
    }
}
