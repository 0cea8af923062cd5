//! Which attributes and access control lists a file gets, from its source and from what it replaces.

use crate::api::error::Step;
use crate::api::observer::Paths;
use crate::api::options::{Mode, Wish};
use crate::context::outcome::Outcome;
use crate::metadata::xattr::{self, Bearer, Class};
use crate::metadata::MetadataCopier;
use crate::pair::Entry;
use crate::sys::{self, Stat};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use std::ffi::CStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The attributes of a source that are wanted.
#[derive(Default)]
pub(crate) struct Names(Vec<u8>);

impl Names {
    pub(crate) fn any(&self) -> bool {
        !self.0.is_empty()
    }

    fn has(&self, name: &CStr) -> bool {
        xattr::each(&self.0).any(|other| other == name)
    }
}

impl MetadataCopier<'_> {
    /// The wanted attributes of a source.
    pub(crate) fn attribute_names(&mut self, entry: &Entry<'_>, from: BorrowedFd<'_>) -> Outcome<Names> {
        self.names_of(&Bearer::Open(from))
            .map_err(|error| self.reporter.failed(Step::SetXattr, entry.source(), error))
    }

    pub(crate) fn names_of(&mut self, bearer: &Bearer<'_>) -> io::Result<Names> {
        let options = self.context.options;
        let preserve = &options.preserve;
        if preserve.mode != Mode::Preserve && preserve.xattr == Wish::No && preserve.context == Wish::No {
            return Ok(Names::default());
        }
        match bearer.list(&mut self.names) {
            Err(error) if preserve.xattr == Wish::Must || !xattr::is_unsupported(&error) => {
                return Err(error)
            }
            Err(_) => return Ok(Names::default()),
            Ok(()) => {}
        }
        let mut wanted = Vec::new();
        for name in xattr::each(&self.names) {
            if Class::of(name).wish(options) != Wish::No {
                wanted.extend_from_slice(name.to_bytes_with_nul());
            }
        }
        Ok(Names(wanted))
    }

    pub(crate) fn give_attributes(&mut self, path: &Path, from: &Bearer<'_>, to: &Bearer<'_>, names: &Names) {
        for name in xattr::each_to_set(&names.0) {
            let class = Class::of(name);
            let done = from
                .get(name, &mut self.value)
                .and_then(|()| to.set(name, &self.value));
            match done {
                Ok(()) => {}
                // It is gone by now.
                Err(error) if sys::is(&error, &[Errno::NODATA]) => {}
                Err(error) if class.wish(self.context.options) == Wish::Must => {
                    let step = if class == Class::AccessList {
                        Step::SetMode
                    } else {
                        Step::SetXattr
                    };
                    self.reporter.failed(step, path.into(), error);
                }
                Err(_) => {}
            }
        }
    }

    /// The context that was asked for by name.
    pub(crate) fn give_context(&mut self, path: impl FnOnce() -> PathBuf, to: &Bearer<'_>) {
        let Some(context) = &self.context.options.context else {
            return;
        };
        // As the kernel keeps it: with a zero at its end.
        let value = [context.as_bytes(), b"\0"].concat();
        if let Err(error) = to.set(xattr::CONTEXT, &value) {
            self.reporter.failed(Step::SetContext, path(), error);
        }
    }

    /// With permissions preserved, what has a list that the source has not loses it. Returns false if a list stays, which is
    /// reported.
    pub(crate) fn drop_lists(
        &mut self,
        path: &Path,
        to: &Bearer<'_>,
        names: &Names,
        lists: &[&CStr],
    ) -> bool {
        if self.context.options.preserve.mode != Mode::Preserve {
            return true;
        }
        let mut missing = lists.iter().filter(|list| !names.has(list));
        match missing.try_for_each(|list| to.remove(list)) {
            Ok(()) => true,
            Err(error) => {
                self.reporter.failed(Step::SetMode, path.into(), error);
                false
            }
        }
    }

    /// A file that replaces another one keeps the other's attributes, as if it had been written to.
    pub(crate) fn keep_old_attributes(&mut self, entry: &Entry<'_>, old: &Stat, to: BorrowedFd<'_>) {
        let Ok(held) = sys::open_path(entry.at.target(), entry.target) else {
            return;
        };
        if !sys::stat(held.as_fd()).is_ok_and(|stat| stat.id == old.id) || !old.is_file() {
            return;
        }
        // The link in /proc is the file itself, so it is followed.
        let path = sys::proc_path(held.as_fd(), None);
        let held = Bearer::Followed(path);
        let mut names = Vec::new();
        if held.list(&mut names).is_err() {
            return;
        }
        let preserves = self.context.options.preserve.mode == Mode::Preserve;
        for name in xattr::each_to_set(&names) {
            let class = Class::of(name);
            if class == Class::Capability || (class == Class::AccessList && preserves) {
                continue;
            }
            if held.get(name, &mut self.value).is_ok() {
                // Some, such as a label, need a privilege, and a writer would not have set them.
                let _ = Bearer::Open(to).set(name, &self.value);
            }
        }
    }
}
