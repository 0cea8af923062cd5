//! The last walk over a tree that was copied in parts: it goes by what the target has, takes away what attempts left
//! that were killed, and comes to each directory, which then gets its metadata.

use crate::api::error::Step;
use crate::job::queue::Job;
use crate::pair::directory::Dir;
use crate::pair::Entry;
use crate::resume::journal::Partial;
use crate::sys::{self, listing};
use crate::walk::walker::Walker;
use rustix::fd::AsFd;
use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;
use std::ffi::CStr;
use std::io;
use std::sync::Arc;

impl Walker<'_> {
    /// Makes jobs of a directory's directories, and removes what is in the middle.
    pub(crate) fn sweep_dir(&mut self, dir: &Arc<Dir>) {
        if let Err(error) = self.try_to_sweep(dir) {
            let path = dir.path(crate::pair::directory::Side::Target, c"");
            self.reporter.failed(Step::OpenTargetDirectory, path, error);
        }
    }

    fn try_to_sweep(&mut self, dir: &Arc<Dir>) -> io::Result<()> {
        let at = dir.open()?;
        let mut directories = Vec::new();
        let stopped = || self.shared.context.stopped();
        listing::each_name(at.target(), &mut self.buffer, stopped, |name, kind| {
            let kind = match kind {
                FileType::Unknown => sys::stat_at(at.target(), name, false)?.file_type(),
                kind => kind,
            };
            if kind == FileType::Directory {
                let entry = Entry {
                    at: &at,
                    source: name,
                    target: name,
                };
                directories.push(Job::of(&entry, kind));
            } else if Partial::parse(name).is_some() && is_nowhere(at.source().as_fd(), name) {
                rustix::fs::unlinkat(at.target(), name, AtFlags::empty())?;
            }
            Ok(())
        })?;
        dir.add(directories.len());
        self.dispatcher.push(&mut directories);
        Ok(())
    }
}

/// Returns true if the source does not have a name: a user may have given such a name to a file.
fn is_nowhere(dir: rustix::fd::BorrowedFd<'_>, name: &CStr) -> bool {
    sys::stat_at(dir, name, false).is_err_and(|error| sys::is(&error, &[Errno::NOENT]))
}
