//! An open source.

use crate::sys::Stat;
use rustix::fd::OwnedFd;

/// A source that is open.
pub(crate) struct Source {
    pub(crate) fd: OwnedFd,
    pub(crate) stat: Stat,
    /// It is known to have attributes.
    pub(crate) attributes: bool,
}

impl Source {
    pub(crate) fn new(fd: OwnedFd, stat: Stat) -> Source {
        Source {
            fd,
            stat,
            attributes: false,
        }
    }
}
