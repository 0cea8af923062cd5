//! The target of a copy as the user names it, and the names that copies get in it.

use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The place that copies go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Each source is copied into this directory, under its own name. The directory exists.
    Into(PathBuf),
    /// The only source is copied to this name.
    As(PathBuf),
}

impl Target {
    pub(crate) fn path(&self) -> &Path {
        match self {
            Target::Into(path) | Target::As(path) => path,
        }
    }

    /// Returns the names that copies of these sources get in the target's directory.
    pub(crate) fn names(&self, sources: &[PathBuf]) -> Vec<CString> {
        match self {
            Target::As(path) => split(path).1.into_iter().collect(),
            Target::Into(_) => {
                let paths = sources
                    .iter()
                    .filter_map(|path| CString::new(path.as_os_str().as_bytes()).ok());
                paths.map(|path| last_name(&path)).collect()
            }
        }
    }
}

/// Returns the directory of a target, its name there, and whether only a directory can have that name.
pub(crate) fn split(path: &Path) -> (PathBuf, Option<CString>, bool) {
    let bytes = path.as_os_str().as_bytes();
    let trimmed = trim(bytes);
    let at = trimmed
        .iter()
        .rposition(|&byte| byte == b'/')
        .map_or(0, |at| at + 1);
    let (directory, name) = trimmed.split_at(at);
    let only_directory = trimmed.len() < bytes.len();
    let is_link = || Path::new(OsStr::from_bytes(trimmed)).is_symlink();
    if matches!(name, b"" | b"." | b"..") || (only_directory && is_link() && path.is_dir()) {
        // It exists, and this is the only name for it.
        let named_so = name == b".";
        let directory = if named_so {
            Path::new(OsStr::from_bytes(directory))
        } else {
            path
        };
        return (directory.into(), Some(c".".into()), true);
    }
    let name = CString::new(name).unwrap_or_default();
    let directory = Path::new(OsStr::from_bytes(directory));
    (directory.into(), Some(name), only_directory)
}

/// Returns the last component of a path. A path that ends in one dot or two stands for the directory itself.
pub(crate) fn last_name(path: &CStr) -> CString {
    let name = trim(path.to_bytes()).rsplit(|&byte| byte == b'/').next();
    match name.unwrap_or_default() {
        b"" | b"." | b".." => c".".into(),
        name => CString::new(name).expect("it was in a name"),
    }
}

fn trim(mut path: &[u8]) -> &[u8] {
    while let [rest @ .., b'/'] = path {
        path = rest;
    }
    path
}
