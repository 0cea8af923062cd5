//! Extended attributes, by path or by descriptor.

use super::{Handle, Name, Op, XattrFlags};
use crate::buffer::{Buf, Buffer, IntoBuffer};

/// Whose attributes.
#[derive(Debug)]
#[non_exhaustive]
pub enum XattrTarget {
    /// A path; links are followed.
    Path(Name),
    /// A path; of the link itself (`lgetxattr` and so on).
    LinkPath(Name),
    /// An open file.
    File(Handle),
}

impl XattrTarget {
    pub(crate) fn path(&self) -> Option<&Name> {
        match self {
            XattrTarget::Path(path) | XattrTarget::LinkPath(path) => Some(path),
            XattrTarget::File(_) => None,
        }
    }
}

/// `getxattr(2)` and its kin: the value goes into `buffer`; ERANGE if it is too small. A buffer of capacity 0 asks for
/// the size.
#[derive(Debug)]
#[non_exhaustive]
pub struct GetXattr<B = Buf> {
    /// Whose.
    pub target: XattrTarget,
    /// Such as `user.comment`.
    pub name: Name,
    /// The value.
    pub buffer: B,
}

/// `setxattr(2)` and its kin.
#[derive(Debug)]
#[non_exhaustive]
pub struct SetXattr<B = Buf> {
    /// Whose.
    pub target: XattrTarget,
    /// Such as `user.comment`.
    pub name: Name,
    /// The value.
    pub value: B,
    /// Whether it makes or replaces the attribute.
    pub flags: XattrFlags,
}

/// `listxattr(2)` and its kin: names, each ended by NUL, go into `buffer`. A buffer of capacity 0 asks for the size.
#[derive(Debug)]
#[non_exhaustive]
pub struct ListXattr<B = Buf> {
    /// Whose.
    pub target: XattrTarget,
    /// The names.
    pub buffer: B,
}

/// `removexattr(2)` and its kin.
#[derive(Debug)]
#[non_exhaustive]
pub struct RemoveXattr {
    /// Whose.
    pub target: XattrTarget,
    /// Such as `user.comment`.
    pub name: Name,
}

impl<B: Buffer> GetXattr<B> {
    /// Reads the attribute `name` into `buffer`.
    ///
    /// ```
    /// # use proactor_engine::{Driver, op::{File, GetXattr, SetXattr, XattrTarget}};
    /// # let mut driver = Driver::new()?;
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("file");
    /// # std::fs::write(&path, "")?;
    /// let of = || XattrTarget::Path(path.as_path().into());
    /// if driver.run(SetXattr::new(of(), "user.comment", "text")).is_err() {
    ///     return Ok(()); // not on this file system
    /// }
    /// let (count, value) = driver.run(GetXattr::new(of(), "user.comment", Vec::with_capacity(64)))?;
    /// assert_eq!((count, &*value), (4, &b"text"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(target: XattrTarget, name: impl Into<Name>, buffer: impl IntoBuffer<Buffer = B>) -> Self {
        GetXattr {
            target,
            name: name.into(),
            buffer: buffer.into_buffer(),
        }
    }
}

impl<B: Buffer> SetXattr<B> {
    /// Sets the attribute `name`, whether or not it exists.
    ///
    /// ```
    /// # use proactor_engine::{Driver, op::{SetXattr, XattrFlags, XattrTarget}};
    /// # let mut driver = Driver::new()?;
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("file");
    /// # std::fs::write(&path, "")?;
    /// let target = XattrTarget::Path(path.as_path().into());
    /// let set = SetXattr::new(target, "user.comment", "text").flags(XattrFlags::CREATE);
    /// if let Err(error) = driver.run(set) {
    ///     assert_eq!(error.errno(), libc::EOPNOTSUPP, "not on this file system");
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(target: XattrTarget, name: impl Into<Name>, value: impl IntoBuffer<Buffer = B>) -> Self {
        SetXattr {
            target,
            name: name.into(),
            value: value.into_buffer(),
            flags: XattrFlags::NONE,
        }
    }

    /// Whether it makes or replaces the attribute.
    pub fn flags(mut self, flags: XattrFlags) -> Self {
        self.flags = flags;
        self
    }
}

impl<B: Buffer> ListXattr<B> {
    /// Reads the names of all attributes into `buffer`.
    ///
    /// ```
    /// # use proactor_engine::{Driver, op::{File, ListXattr, XattrTarget}};
    /// # let mut driver = Driver::new()?;
    /// # let file = File::new(tempfile::tempfile()?);
    /// let target = XattrTarget::File(file.into());
    /// let (count, names) = driver.run(ListXattr::new(target, Vec::with_capacity(1024)))?;
    /// assert_eq!(count, names.len());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(target: XattrTarget, buffer: impl IntoBuffer<Buffer = B>) -> Self {
        ListXattr {
            target,
            buffer: buffer.into_buffer(),
        }
    }
}

impl RemoveXattr {
    /// Removes the attribute `name`.
    ///
    /// ```
    /// # use proactor_engine::{Driver, op::{File, RemoveXattr, XattrTarget}};
    /// # let mut driver = Driver::new()?;
    /// # let file = File::new(tempfile::tempfile()?);
    /// let target = XattrTarget::File(file.into());
    /// let error = driver.run(RemoveXattr::new(target, "user.comment")).unwrap_err();
    /// assert!([libc::ENODATA, libc::EOPNOTSUPP].contains(&error.errno()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(target: XattrTarget, name: impl Into<Name>) -> Self {
        RemoveXattr {
            target,
            name: name.into(),
        }
    }
}

impl<B: Buffer> From<GetXattr<B>> for Op {
    fn from(op: GetXattr<B>) -> Op {
        Op::GetXattr(GetXattr {
            target: op.target,
            name: op.name,
            buffer: op.buffer.into(),
        })
    }
}

impl<B: Buffer> From<SetXattr<B>> for Op {
    fn from(op: SetXattr<B>) -> Op {
        Op::SetXattr(SetXattr {
            target: op.target,
            name: op.name,
            value: op.value.into(),
            flags: op.flags,
        })
    }
}

impl<B: Buffer> From<ListXattr<B>> for Op {
    fn from(op: ListXattr<B>) -> Op {
        Op::ListXattr(ListXattr {
            target: op.target,
            buffer: op.buffer.into(),
        })
    }
}
