//! The entries of a directory, some at a time.

use super::calls::blocking;
use super::metadata::FileType;
use crate::error::Error;
use crate::io::{Io, Runner};
use crate::op::{self, directory::entries, Blocking, Name, Open, OpenFlags};
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Of one call, as the C library has it.
const BATCH_BYTES: usize = 32 << 10;

/// The entries of a directory, in no order. Made by [`read_dir`].
pub struct ReadDir<R = Io> {
    io: R,
    dir: op::File,
    path: Arc<Path>,
    batch: VecDeque<DirEntry>,
    ended: bool,
}

/// Opens a directory to read its entries, without `.` and `..`.
///
/// ```
/// use proactor_engine::{fs, Io};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let io = Io::new()?;
/// io.block_on(async {
///     let mut entries = fs::read_dir(&io, "src").await?;
///     while let Some(entry) = entries.next_entry().await? {
///         println!("{:?}{}", entry.file_name(), if entry.file_type().is_dir() { "/" } else { "" });
///     }
///     Ok::<_, proactor_engine::Error>(())
/// })??;
/// # Ok(()) }
/// ```
///
/// # Errors
/// What openat2 says, such as ENOENT and ENOTDIR.
pub fn read_dir<R: Runner>(io: &R, path: impl Into<Name>) -> impl Future<Output = Result<ReadDir<R>, Error>> {
    let (io, name) = (io.clone(), path.into());
    async move {
        let dir = io
            .run(Open::new(&name, OpenFlags::READ_ONLY | OpenFlags::DIRECTORY))
            .await?;
        Ok(ReadDir {
            io,
            dir,
            path: name.as_path().into(),
            batch: VecDeque::new(),
            ended: false,
        })
    }
}

impl<R: Runner> ReadDir<R> {
    /// The next entry; `None` at the end. A worker reads some hundreds at a time. A future that is dropped may take a batch of
    /// entries with it.
    ///
    /// # Errors
    /// What getdents64 says, such as ENOENT of a directory that was removed; ENOMEM if there is no memory for a batch.
    pub async fn next_entry(&mut self) -> Result<Option<DirEntry>, Error> {
        while self.batch.is_empty() && !self.ended {
            let (place, op) = self.op();
            self.batch = blocking(self.io.clone(), op, place, None).await?;
            self.ended = self.batch.is_empty();
        }
        Ok(self.batch.pop_front())
    }

    fn op(&self) -> (Arc<Mutex<Option<VecDeque<DirEntry>>>>, Blocking) {
        let place = Arc::new(Mutex::new(None));
        let (kept, dir, path) = (Arc::clone(&place), self.dir.clone(), Arc::clone(&self.path));
        let op = Blocking::new("read_dir", move |_| {
            let batch = read(&dir, &path)?;
            *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(batch);
            Ok(0)
        });
        (place, op)
    }
}

/// A batch that has entries, or none at the end.
fn read(dir: &op::File, path: &Arc<Path>) -> io::Result<VecDeque<DirEntry>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(BATCH_BYTES)?;
    bytes.resize(BATCH_BYTES, 0); // allocates: there is room
    let mut batch = VecDeque::new();
    while batch.is_empty() {
        let count = dir.read_entries(&mut bytes)?;
        if count == 0 {
            break;
        }
        for entry in entries(&bytes[..count]) {
            if entry.name == "." || entry.name == ".." {
                continue;
            }
            let mode = match entry.kind {
                0 => match dir.mode_of(entry.name) {
                    // It was removed meanwhile.
                    Err(error) if error.raw_os_error() == Some(libc::ENOENT) => continue,
                    mode => mode?,
                },
                kind => kind,
            };
            batch.try_reserve(1)?;
            batch.push_back(DirEntry {
                dir: Arc::clone(path),
                name: entry.name.to_owned(), // allocates: at most 255 bytes
                ino: entry.ino,
                kind: FileType::of(mode),
            });
        }
    }
    Ok(batch)
}

impl<R> fmt::Debug for ReadDir<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReadDir").field(&self.path).finish()
    }
}

/// A name in a directory, and what it is.
#[derive(Debug, Clone)]
pub struct DirEntry {
    dir: Arc<Path>,
    name: OsString,
    ino: u64,
    kind: FileType,
}

impl DirEntry {
    /// The name alone.
    pub fn file_name(&self) -> &OsStr {
        &self.name
    }

    /// The path: that of the directory as it was given, and the name.
    pub fn path(&self) -> PathBuf {
        self.dir.join(&self.name)
    }

    /// What it is; a link is a link.
    pub fn file_type(&self) -> FileType {
        self.kind
    }

    /// The number of the inode.
    pub fn ino(&self) -> u64 {
        self.ino
    }
}
