//! Names and paths in JSON: text where they are UTF-8, a list of their bytes where they are not, so that nothing is
//! lost.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ffi::{CString, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Bytes {
    Text(String),
    Raw(Vec<u8>),
}

impl Bytes {
    fn of(bytes: &[u8]) -> Bytes {
        match std::str::from_utf8(bytes) {
            Ok(text) => Bytes::Text(text.into()),
            Err(_) => Bytes::Raw(bytes.into()),
        }
    }

    fn into_bytes(self) -> Vec<u8> {
        match self {
            Bytes::Text(text) => text.into(),
            Bytes::Raw(bytes) => bytes,
        }
    }
}

/// One component of a path: not empty, without a slash, and neither `.` nor `..`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Name(pub(crate) CString);

impl Name {
    /// The name, if it is one.
    pub(crate) fn new(bytes: Vec<u8>) -> Option<Name> {
        let is_name = !matches!(bytes.as_slice(), b"" | b"." | b"..") && !bytes.contains(&b'/');
        CString::new(bytes).ok().filter(|_| is_name).map(Name)
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        Bytes::of(self.0.to_bytes()).serialize(to)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Name, D::Error> {
        let bytes = Bytes::deserialize(from)?.into_bytes();
        Name::new(bytes).ok_or_else(|| D::Error::custom("not the name of a file"))
    }
}

/// Serializes paths, with `#[serde(with = "path")]`.
pub(crate) mod path {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        Bytes::of(path.as_os_str().as_bytes()).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        let bytes = Bytes::deserialize(from)?.into_bytes();
        if bytes.contains(&0) {
            return Err(D::Error::custom("a path with a zero in it"));
        }
        Ok(OsString::from_vec(bytes).into())
    }
}

/// The same for a path that may be missing.
pub(crate) mod some_path {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(path: &Option<PathBuf>, to: S) -> Result<S::Ok, S::Error> {
        path.as_ref()
            .map(|path| Bytes::of(path.as_os_str().as_bytes()))
            .serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PathBuf>, D::Error> {
        let bytes: Option<Bytes> = Deserialize::deserialize(from)?;
        Ok(bytes.map(|bytes| OsString::from_vec(bytes.into_bytes()).into()))
    }
}

/// Serializes an error as its number, with `#[serde(with = "errno")]`; one without a number as EIO.
pub(crate) mod errno {
    use super::*;
    use rustix::io::Errno;
    use std::io;

    pub(crate) fn serialize<S: Serializer>(error: &io::Error, to: S) -> Result<S::Ok, S::Error> {
        error
            .raw_os_error()
            .unwrap_or(Errno::IO.raw_os_error())
            .serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<io::Error, D::Error> {
        Ok(io::Error::from_raw_os_error(i32::deserialize(from)?))
    }
}
