//! One entry of a directory.

use crate::api::error::Step;
use crate::api::observer::Paths;
use crate::api::options::Options;
use crate::context::outcome::Outcome;
use crate::context::reporter::Reporter;
use crate::pair::directory::{Opened, Side};
use crate::sys::{self, Stat};
use rustix::io::Errno;
use std::ffi::CStr;
use std::path::PathBuf;

/// A name in a directory of the source, and the name that its copy gets.
pub(crate) struct Entry<'e> {
    pub(crate) at: &'e Opened,
    pub(crate) source: &'e CStr,
    pub(crate) target: &'e CStr,
}

impl Entry<'_> {
    /// Returns true if further names of this file may come that are to be hard links.
    pub(crate) fn is_tracked(&self, options: &Options, stat: &Stat) -> bool {
        options.preserve.links && (stat.nlink > 1 || self.at.dir.follows(options))
    }

    /// Examines the source, by its name.
    pub(crate) fn look(&self, reporter: &Reporter<'_>, options: &Options) -> Outcome<Stat> {
        let follow = self.at.dir.follows(options);
        sys::stat_at(self.at.source(), self.source, follow)
            .map_err(|error| reporter.failed(Step::StatSource, self.source(), error))
    }

    /// Examines what has the entry's name in the target.
    pub(crate) fn existing(&self, reporter: &Reporter<'_>) -> Outcome<Option<Stat>> {
        match sys::stat_at(self.at.target(), self.target, false) {
            Ok(stat) => Ok(Some(stat)),
            Err(error) if sys::is(&error, &[Errno::NOENT]) => Ok(None),
            Err(error) => Err(reporter.failed(Step::StatTarget, self.target(), error)),
        }
    }
}

impl Paths for Entry<'_> {
    fn source(&self) -> PathBuf {
        self.at.dir.path(Side::Source, self.source)
    }

    fn target(&self) -> PathBuf {
        self.at.dir.path(Side::Target, self.target)
    }
}
