//! Extended attributes, by path or by descriptor.

use super::Handle;
use crate::buffer::Buf;
use std::ffi::CString;

/// Whose attributes.
#[derive(Debug)]
pub enum XattrTarget {
    /// A path; links are followed.
    Path(CString),
    /// A path; of the link itself (`lgetxattr` and so on).
    LinkPath(CString),
    /// An open file.
    File(Handle),
}

impl XattrTarget {
    pub(crate) fn path(&self) -> Option<&CString> {
        match self {
            XattrTarget::Path(path) | XattrTarget::LinkPath(path) => Some(path),
            XattrTarget::File(_) => None,
        }
    }
}

/// `getxattr(2)` and its kin: the value goes into `buffer`; ERANGE if it is too small. A buffer of capacity 0 asks for
/// the size.
#[derive(Debug)]
pub struct GetXattr {
    /// Whose.
    pub target: XattrTarget,
    /// Such as `user.comment`.
    pub name: CString,
    /// The value.
    pub buffer: Buf,
}

/// `setxattr(2)` and its kin.
#[derive(Debug)]
pub struct SetXattr {
    /// Whose.
    pub target: XattrTarget,
    /// Such as `user.comment`.
    pub name: CString,
    /// The value.
    pub value: Buf,
    /// 0, XATTR_CREATE or XATTR_REPLACE.
    pub flags: i32,
}

/// `listxattr(2)` and its kin: names, each ended by NUL, go into `buffer`. A buffer of capacity 0 asks for the size.
#[derive(Debug)]
pub struct ListXattr {
    /// Whose.
    pub target: XattrTarget,
    /// The names.
    pub buffer: Buf,
}

/// `removexattr(2)` and its kin.
#[derive(Debug)]
pub struct RemoveXattr {
    /// Whose.
    pub target: XattrTarget,
    /// Such as `user.comment`.
    pub name: CString,
}
