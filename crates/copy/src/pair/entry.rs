//! One entry of a directory.

use crate::api::observer::Paths;
use crate::pair::directory::{Opened, Side};
use std::ffi::CStr;
use std::path::PathBuf;

/// A name in a directory of the source, and the name that its copy gets.
pub(crate) struct Entry<'e> {
    pub(crate) at: &'e Opened,
    pub(crate) source: &'e CStr,
    pub(crate) target: &'e CStr,
}

impl Paths for Entry<'_> {
    fn source(&self) -> PathBuf {
        self.at.dir.path(Side::Source, self.source)
    }

    fn target(&self) -> PathBuf {
        self.at.dir.path(Side::Target, self.target)
    }
}
