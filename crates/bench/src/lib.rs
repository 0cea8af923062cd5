//! `proactor bench`: which way of doing I/O, for this work, on this machine?
//!
//! A [`job::Job`] is a request, [`run::run`] measures it, and a [`report::Report`] is the result. Only the
//! engine's public interface is used, as any Rust user could.

#![deny(clippy::undocumented_unsafe_blocks)]

use std::io;

pub mod cache;
mod cell;
mod choice;
pub mod compare;
pub mod counters;
pub mod data;
mod engines;
pub mod environment;
pub mod job;
pub mod jobfile;
pub mod net;
pub mod preset;
pub mod race;
pub mod refuse;
pub mod render;
pub mod report;
pub mod run;
pub mod same;
pub mod stats;
pub mod subject;
pub mod tally;
pub mod target;
pub mod tree;
pub mod units;
pub mod usage;
pub mod verdict;
pub mod work;

pub use counters::{Counters, Counts};

/// Returns the result of a wait in a loop: one that a signal has interrupted is repeated.
pub fn unless_interrupted(waited: io::Result<usize>) -> io::Result<usize> {
    match waited {
        Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(0),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_signal_is_forgiven() {
        assert_eq!(unless_interrupted(Ok(3)).unwrap(), 3);
        let raw = |errno| Err(io::Error::from_raw_os_error(errno));
        assert_eq!(unless_interrupted(raw(libc::EINTR)).unwrap(), 0);
        assert_eq!(
            unless_interrupted(raw(libc::EBADF)).unwrap_err().raw_os_error(),
            Some(libc::EBADF)
        );
    }
}
