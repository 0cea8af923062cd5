//! What goes wrong, and when: numbers from a seed.

use crate::config::SimConfig;
use crate::op::{Op, OpKind};

/// What has been decided for one op.
pub(super) enum Fate {
    Fine,
    /// A transfer is cut; the number says where.
    Short(u64),
    /// A transfer moves at most so many bytes, at least one. This errno where it cannot be cut.
    Limit {
        bytes: u64,
        errno: i32,
    },
    /// This errno, and no effect.
    Error(i32),
}

impl Fate {
    /// How much of `len` bytes is asked of the kernel: never nothing of something.
    pub(super) fn cut(&self, len: usize) -> usize {
        match self {
            Fate::Short(number) if len > 1 => 1 + (*number % (len as u64 - 1)) as usize,
            Fate::Limit { bytes, .. } => len.min(*bytes as usize),
            _ => len,
        }
    }
}

/// splitmix64 (Steele, Lea, Flood 2014): one word of state, good enough to choose among a few.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn hit(&mut self, rate: u8) -> bool {
        rate > 0 && (self.next() >> 32) % 256 < u64::from(rate)
    }
}

pub(super) struct Faults {
    config: SimConfig,
    random: Random,
    /// What is left of `space_bytes`.
    space_bytes: Option<u64>,
}

impl Faults {
    pub(super) fn new(config: SimConfig) -> Self {
        Faults {
            config,
            random: Random(config.seed),
            space_bytes: config.space_bytes,
        }
    }

    /// `skip` bytes of a transfer are done already.
    pub(super) fn fate(&mut self, op: &Op, skip: usize) -> Fate {
        if let Some(fate) = self.lasting(op, skip) {
            return fate;
        }
        let kind = op.kind();
        if self.random.hit(self.config.error_rate) {
            let errors = errors(kind);
            if !errors.is_empty() {
                return Fate::Error(errors[self.random.next() as usize % errors.len()]);
            }
        }
        if self.random.hit(self.config.short_rate) {
            return Fate::Short(self.random.next());
        }
        Fate::Fine
    }

    /// A fault that is there for every op, if the op meets one.
    fn lasting(&mut self, op: &Op, skip: usize) -> Option<Fate> {
        let (at, len_bytes, writes) = span(op, skip)?;
        if let (Some((start, end)), Some(at)) = (self.config.bad_range, at) {
            if at < end && at.saturating_add(len_bytes) > start {
                let errno = libc::EIO;
                return Some(match start.checked_sub(at) {
                    None | Some(0) => Fate::Error(errno),
                    Some(bytes) => Fate::Limit { bytes, errno },
                });
            }
        }
        let left = self.space_bytes.as_mut().filter(|_| writes)?;
        let bytes = len_bytes.min(*left);
        *left -= bytes;
        let errno = libc::ENOSPC;
        match bytes {
            0 => Some(Fate::Error(errno)),
            _ => (bytes < len_bytes).then_some(Fate::Limit { bytes, errno }),
        }
    }

    pub(super) fn late(&mut self) -> bool {
        self.random.hit(self.config.late_cancel_rate)
    }

    /// Fisher and Yates, if completions may come out of order.
    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        if self.config.reorder {
            for i in (1..items.len()).rev() {
                items.swap(i, self.random.next() as usize % (i + 1));
            }
        }
    }

    /// Whether to leave the rest for the next wait.
    pub(super) fn pause(&mut self) -> bool {
        self.config.reorder && self.random.hit(64)
    }
}

/// Where a transfer begins if it has an offset, how many bytes it moves at most, and whether it writes. `None` for
/// what moves nothing.
fn span(op: &Op, skip: usize) -> Option<(Option<u64>, u64, bool)> {
    let (offset, len, writes) = match op {
        Op::Read(o) => (o.offset, o.buffer.capacity(), false),
        Op::ReadV(o) => (o.offset, o.total_len(), false),
        Op::Write(o) => (o.offset, o.buffer.len(), true),
        Op::WriteV(o) => (o.offset, o.total_len(), true),
        Op::ReadFile(_) => return Some((Some(0), u64::MAX, false)),
        Op::WriteFile(o) => (Some(0), o.data.len(), true),
        _ => return None,
    };
    let left = len.saturating_sub(skip) as u64;
    (left > 0).then_some((offset.map(|at| at.saturating_add(skip as u64)), left, writes))
}

/// What a device, a file system or a signal may do to such an op without any effect.
fn errors(kind: OpKind) -> &'static [i32] {
    match kind {
        OpKind::Read | OpKind::ReadV | OpKind::Splice => &[libc::EIO, libc::EINTR, libc::ENOMEM],
        OpKind::Write | OpKind::WriteV | OpKind::Allocate => {
            &[libc::EIO, libc::ENOSPC, libc::EINTR, libc::EDQUOT]
        }
        OpKind::Fsync | OpKind::SyncRange | OpKind::Close => &[libc::EIO],
        OpKind::Open => &[libc::EMFILE, libc::ENFILE, libc::EIO, libc::EINTR],
        OpKind::ReadFile => &[libc::EMFILE, libc::EIO, libc::EINTR],
        OpKind::Truncate
        | OpKind::Rename
        | OpKind::Unlink
        | OpKind::Mkdir
        | OpKind::Link
        | OpKind::Symlink
        | OpKind::SetXattr
        | OpKind::RemoveXattr
        | OpKind::WriteFile => &[libc::EIO, libc::ENOSPC, libc::EROFS],
        OpKind::Statx | OpKind::GetXattr | OpKind::ListXattr => &[libc::EIO],
        OpKind::Advise
        | OpKind::Poll
        | OpKind::Timeout
        | OpKind::Nop
        | OpKind::ReadCached
        | OpKind::Blocking => &[],
    }
}
