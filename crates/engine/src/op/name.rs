//! Names that ops give to the kernel: paths, and names of attributes.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::fmt;
use std::ops::Deref;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// A path, or the name of an attribute, as the kernel takes it: bytes without a NUL among them.
///
/// Paths, strings and C strings convert. A name with a NUL byte inside converts too, and an op that has it is refused with
/// EINVAL when it is submitted.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Option<CString>);

impl Name {
    /// Whether the kernel can take it: no NUL byte is inside.
    pub fn is_valid(&self) -> bool {
        self.0.is_some()
    }

    /// As a path.
    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(self.to_bytes()))
    }

    fn of(bytes: Vec<u8>) -> Self {
        Name(CString::new(bytes).ok()) // allocates: of what the caller gives as something else than a C string
    }
}

/// Empty, if a NUL byte was inside.
impl Deref for Name {
    type Target = CStr;
    fn deref(&self) -> &CStr {
        self.0.as_deref().unwrap_or(c"")
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(name) => name.fmt(f),
            None => f.write_str("(a name with a NUL byte)"),
        }
    }
}

impl From<CString> for Name {
    fn from(name: CString) -> Self {
        Name(Some(name))
    }
}

/// What is copied or moved into a vector of bytes.
macro_rules! convert {
    ($($type:ty, |$name:ident| $bytes:expr;)*) => {$(
        impl From<$type> for Name {
            fn from($name: $type) -> Self {
                Name::of($bytes)
            }
        }
    )*};
}

convert! {
    String, |name| name.into_bytes();
    OsString, |name| name.into_vec();
    PathBuf, |path| path.into_os_string().into_vec();
    &str, |name| name.as_bytes().to_vec(); // allocates: the caller asks for a copy, and can give a C string
    &String, |name| name.as_bytes().to_vec(); // allocates: as above
    &OsStr, |name| name.as_bytes().to_vec(); // allocates: as above
    &OsString, |name| name.as_bytes().to_vec(); // allocates: as above
    &Path, |path| path.as_os_str().as_bytes().to_vec(); // allocates: as above
    &PathBuf, |path| path.as_os_str().as_bytes().to_vec(); // allocates: as above
}

impl From<&CStr> for Name {
    fn from(name: &CStr) -> Self {
        Name(Some(name.to_owned())) // allocates: the caller asks for a copy, and can give the string itself
    }
}

impl From<&CString> for Name {
    fn from(name: &CString) -> Self {
        Name(Some(name.clone()))
    }
}

impl From<&Name> for Name {
    fn from(name: &Name) -> Self {
        name.clone()
    }
}

impl PartialEq<CStr> for Name {
    fn eq(&self, other: &CStr) -> bool {
        self.0.as_deref() == Some(other)
    }
}

impl PartialEq<CString> for Name {
    fn eq(&self, other: &CString) -> bool {
        self.0.as_ref() == Some(other)
    }
}
