//! Doing an op whole or in part, without waiting for a peer.

use super::faults::Fate;
use crate::op::{Call, Facts, Handle, Op, OpKind, ReadFile, RwFlags, Step};
use crate::sys::older::Way;
use crate::sys::{self, perform};
use std::os::fd::RawFd;

/// An op that waits for the disk at most.
pub(super) fn perform(op: &mut Op, skip: usize, fate: &Fate) -> i32 {
    let direct = |file: &Handle| file.facts().is_ok_and(|Facts { direct, .. }| direct);
    match op {
        Op::ReadFile(o) => read_file(o, fate),
        Op::Read(_) | Op::Write(_) | Op::ReadV(_) | Op::WriteV(_) => {
            let file = perform::transfer_file(op).expect("these are transfers");
            // Half a block would be an error of its own.
            let fate = match fate {
                Fate::Limit { errno, .. } if direct(file) => return -*errno,
                Fate::Short(_) if direct(file) => &Fate::Fine,
                fate => fate,
            };
            transfer(op, skip, file.fd(), RwFlags::NONE, fate)
        }
        _ => match (op.kind(), fate) {
            (OpKind::WriteFile, Fate::Limit { errno, .. }) => -*errno,
            _ => perform::perform(op, skip),
        },
    }
}

/// A transfer on a pipe or socket, or None if it would wait.
pub(super) fn without_waiting(op: &mut Op, skip: usize, fd: RawFd, events: u32, fate: &Fate) -> Option<i32> {
    match transfer(op, skip, fd, RwFlags::NOWAIT, fate) {
        e if e == -libc::EAGAIN => None,
        // This file knows no RWF_NOWAIT: readiness has to do.
        e if e == -libc::EOPNOTSUPP => {
            let ready = sys::poll_now(fd, events as i16) != 0;
            ready.then(|| transfer(op, skip, fd, RwFlags::NONE, fate))
        }
        res => Some(res),
    }
}

fn transfer(op: &mut Op, skip: usize, fd: RawFd, extra: RwFlags, fate: &Fate) -> i32 {
    match op {
        Op::Read(o) => {
            let (ptr, len, offset) = o.prepare(skip);
            perform::rw(
                Way::Read,
                fd,
                &cut(&[perform::iovec(ptr, len)], fate),
                offset,
                o.flags | extra,
            )
        }
        Op::Write(o) => {
            let (ptr, len, offset) = o.prepare(skip);
            perform::rw(
                Way::Write,
                fd,
                &cut(&[perform::iovec(ptr, len)], fate),
                offset,
                o.flags | extra,
            )
        }
        Op::ReadV(o) => {
            let (offset, flags) = (o.raw_offset(skip), o.flags | extra);
            perform::rw(Way::Read, fd, &cut(o.prepare(skip), fate), offset, flags)
        }
        Op::WriteV(o) => {
            let (offset, flags) = (o.raw_offset(skip), o.flags | extra);
            perform::rw(Way::Write, fd, &cut(o.prepare(skip), fate), offset, flags)
        }
        other => unreachable!("{} is no transfer", other.name()),
    }
}

/// The first bytes of the segments, as far as fate allows.
fn cut(iovecs: &[libc::iovec], fate: &Fate) -> Vec<libc::iovec> {
    let total = iovecs
        .iter()
        .map(|iovec| iovec.iov_len)
        .fold(0, usize::saturating_add);
    let mut left = fate.cut(total);
    // allocates: the simulator's, at most UIO_MAXIOV segments
    let mut segments = iovecs.to_vec();
    for segment in &mut segments {
        segment.iov_len = segment.iov_len.min(left);
        left -= segment.iov_len;
    }
    segments
}

pub(super) fn splice(op: &mut Op, from: RawFd, to: RawFd, fate: &Fate) -> Option<i32> {
    let Op::Splice(o) = op else {
        unreachable!("only splices need two pipes")
    };
    let mut once = crate::op::Splice {
        from: Handle::raw(from),
        to: Handle::raw(to),
        len: fate.cut(o.len as usize) as u32,
        flags: o.flags | crate::op::SpliceFlags::NONBLOCK,
        ..*o
    }
    .into();
    // SPLICE_F_NONBLOCK says nothing of sockets.
    if is_socket(from) && sys::poll_now(from, libc::POLLIN) == 0
        || is_socket(to) && sys::poll_now(to, libc::POLLOUT) == 0
    {
        return None;
    }
    match perform::perform(&mut once, 0) {
        e if e == -libc::EAGAIN => None,
        res => Some(res),
    }
}

fn is_socket(fd: RawFd) -> bool {
    perform::fstat(fd).is_ok_and(|stat| stat.st_mode & libc::S_IFMT == libc::S_IFSOCK)
}

fn read_file(o: &mut ReadFile, fate: &Fate) -> i32 {
    loop {
        let res = match o.call() {
            Call::Open { dir, path, how } => perform::openat2(dir, path, how),
            Call::Read { fd, to, len, offset } => {
                let len = match fate {
                    Fate::Limit { bytes, .. } if offset < *bytes => len.min((bytes - offset) as usize),
                    Fate::Limit { .. } => len,
                    fate => fate.cut(len),
                };
                let iovec = perform::iovec(to, len);
                let res = perform::rw(Way::Read, fd, &[iovec], offset as i64, RwFlags::NONE);
                match fate {
                    // The end of a file can be found there, and nothing else.
                    Fate::Limit { bytes, errno } if offset >= *bytes && res > 0 => -errno,
                    _ => res,
                }
            }
        };
        if let Step::Done(res) = o.advance(res) {
            return res;
        }
    }
}
