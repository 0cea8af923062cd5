//! Where a copy in parts takes place: what is looked at before anything is done.

use super::plan::{Identity, Plan};
use super::records::Records;
use super::Error;
use crate::api::options::{Dereference, Options};
use crate::sys::{self, Stat};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The directory that the target is in, and the records.
pub(crate) struct Place {
    pub(crate) parent: OwnedFd,
    pub(crate) records: Records,
}

impl Place {
    /// Opens both, and makes sure that source and target are here what they were when it was planned.
    pub(crate) fn open(plan: &Plan) -> Result<Place, Error> {
        let parent = open_parent(&plan.target)?;
        let records = Records::open(parent.as_fd(), &plan.records.0, plan.records())?;
        Ok(Place { parent, records })
    }

    pub(crate) fn check(&self, plan: &Plan) -> Result<(), Error> {
        let (stat, _) = source_of(&plan.source, &plan.options)?;
        if !plan.from.may_be(&Identity::of(&stat)) {
            return Err(Error::Another(plan.source.clone()));
        }
        match sys::stat_at(self.parent.as_fd(), &plan.partial.0, false) {
            Ok(stat) if stat.is_dir() => Ok(()),
            Ok(_) => Err(Error::Another(plan.partial())),
            Err(error) => Err(Error::io(&plan.partial(), error)),
        }
    }

    /// Returns true if the tree has its name: there is nothing under the other one.
    pub(crate) fn named(&self, plan: &Plan) -> Result<bool, Error> {
        match sys::stat_at(self.parent.as_fd(), &plan.partial.0, false) {
            Ok(_) => Ok(false),
            Err(error) if sys::is(&error, &[Errno::NOENT]) => Ok(true),
            Err(error) => Err(Error::io(&plan.partial(), error)),
        }
    }
}

pub(crate) fn open_parent(target: &Path) -> Result<OwnedFd, Error> {
    let directory = target.parent().unwrap_or(Path::new("/"));
    let path = CString::new(directory.as_os_str().as_bytes()).expect("it was in a path");
    let here = sys::current_dir().map_err(|error| Error::io(directory, error))?;
    sys::open_target_dir(here.as_fd(), &path, true).map_err(|error| Error::io(directory, error))
}

pub(crate) fn source_of(source: &Path, options: &Options) -> Result<(Stat, OwnedFd), Error> {
    let failed = |error| Error::io(source, error);
    let path = CString::new(source.as_os_str().as_bytes()).map_err(|error| failed(error.into()))?;
    let follow = options.dereference != Dereference::Never;
    let here = sys::current_dir().map_err(failed)?;
    let stat = sys::stat_at(here.as_fd(), &path, follow).map_err(failed)?;
    if !stat.is_dir() {
        return Err(Error::NotADirectory(source.into()));
    }
    let fd = sys::open_dir(here.as_fd(), &path, follow).map_err(failed)?;
    Ok((stat, fd))
}

/// Returns true if a directory is below another one, or is it.
pub(crate) fn is_below(directory: BorrowedFd<'_>, other: sys::FileId) -> std::io::Result<bool> {
    // Who may pass through a directory may not be allowed to list it.
    let mut fd = sys::open_target_dir(directory, c".", false)?;
    let mut id = sys::stat(fd.as_fd())?.id;
    loop {
        if id == other {
            return Ok(true);
        }
        fd = match sys::open_target_dir(fd.as_fd(), c"..", false) {
            // What is above cannot be a source of ours.
            Err(error) if sys::is(&error, &[Errno::ACCESS]) => return Ok(false),
            fd => fd?,
        };
        let above = sys::stat(fd.as_fd())?.id;
        if above == id {
            return Ok(false);
        }
        id = above;
    }
}
