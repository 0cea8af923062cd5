//! How a file is opened.

use super::File;
use crate::error::Error;
use crate::io::Runner;
use crate::op::{Name, Open, OpenFlags};
use std::future::Future;

/// How a file is opened, as [`std::fs::OpenOptions`] says it.
///
/// ```
/// use proactor_engine::{fs::OpenOptions, Io};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = &dir.path().join("new");
/// let io = Io::new()?;
/// let new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&io, path);
/// let file = io.block_on(new)??;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct OpenOptions {
    read: bool,
    write: bool,
    append: bool,
    truncate: bool,
    create: bool,
    create_new: bool,
    mode: u32,
    custom_flags: OpenFlags,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl OpenOptions {
    /// Nothing is asked for yet; permission bits 0o666 where a file is made.
    pub fn new() -> Self {
        OpenOptions {
            read: false,
            write: false,
            append: false,
            truncate: false,
            create: false,
            create_new: false,
            mode: 0o666,
            custom_flags: OpenFlags::NONE,
        }
    }

    /// For reading.
    pub fn read(&mut self, read: bool) -> &mut Self {
        self.read = read;
        self
    }

    /// For writing.
    pub fn write(&mut self, write: bool) -> &mut Self {
        self.write = write;
        self
    }

    /// For writing at the end. The kernel then ignores the offsets of writes.
    pub fn append(&mut self, append: bool) -> &mut Self {
        self.append = append;
        self
    }

    /// Emptied first.
    pub fn truncate(&mut self, truncate: bool) -> &mut Self {
        self.truncate = truncate;
        self
    }

    /// Made if it is not there.
    pub fn create(&mut self, create: bool) -> &mut Self {
        self.create = create;
        self
    }

    /// Made, and EEXIST if it is there. `create` and `truncate` then say nothing.
    pub fn create_new(&mut self, create_new: bool) -> &mut Self {
        self.create_new = create_new;
        self
    }

    /// Permission bits of a file that is made, before the umask.
    pub fn mode(&mut self, mode: u32) -> &mut Self {
        self.mode = mode;
        self
    }

    /// More flags, such as [`OpenFlags::DIRECT`]. Those that say for what the file is opened are left out.
    pub fn custom_flags(&mut self, flags: OpenFlags) -> &mut Self {
        self.custom_flags = flags;
        self
    }

    /// Opens the file.
    ///
    /// # Errors
    /// What openat2 says; EINVAL for what std refuses, too: no access at all, or making or emptying a file that is not to be
    /// written.
    pub fn open<R: Runner>(
        &self,
        io: &R,
        path: impl Into<Name>,
    ) -> impl Future<Output = Result<File<R>, Error>> {
        let (io, op) = (io.clone(), self.op(path.into()));
        async move {
            let file = io.run(op?).await?;
            Ok(File::new(&io, file))
        }
    }

    fn op(&self, path: Name) -> Result<Open, Error> {
        let flags = self.flags().map_err(|hint| {
            let path = crate::memory::c_string(&path).ok();
            Error::new(libc::EINVAL, "open").with_path(path).with_hint(hint)
        })?;
        let mut op = Open::new(path, flags);
        // The kernel refuses a mode where nothing is made.
        if op.mode != 0 {
            op.mode = self.mode;
        }
        Ok(op)
    }

    fn flags(&self) -> Result<OpenFlags, &'static str> {
        let access = match (self.read, self.write, self.append) {
            (true, false, false) => OpenFlags::READ_ONLY,
            (false, true, false) => OpenFlags::WRITE_ONLY,
            (true, true, false) => OpenFlags::READ_WRITE,
            (false, _, true) => OpenFlags::WRITE_ONLY | OpenFlags::APPEND,
            (true, _, true) => OpenFlags::READ_WRITE | OpenFlags::APPEND,
            (false, false, false) => return Err("ask for read, write or append"),
        };
        let makes = self.truncate || self.create || self.create_new;
        if makes && !self.write && !self.append {
            return Err("to make or empty a file, ask for write");
        }
        if self.append && self.truncate && !self.create_new {
            return Err("append and truncate exclude each other");
        }
        let creation = match (self.create, self.truncate, self.create_new) {
            (_, _, true) => OpenFlags::CREATE | OpenFlags::EXCLUSIVE,
            (true, true, _) => OpenFlags::CREATE | OpenFlags::TRUNCATE,
            (true, false, _) => OpenFlags::CREATE,
            (false, true, _) => OpenFlags::TRUNCATE,
            (false, false, _) => OpenFlags::NONE,
        };
        Ok(access | creation | self.custom_flags.without(OpenFlags::ACCESS))
    }
}
