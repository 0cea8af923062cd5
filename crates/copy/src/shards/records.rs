//! What the shards leave for each other on the shared file system: a directory beside the new tree, with the plan, a
//! record of each shard that is done, one of each attempt, and the farm of hard links.
//!
//! A record appears whole, by a rename. An attempt holds a lock on its own while it is at work, so that others see
//! whether it may still write, where the file system has locks.

use super::Error;
use crate::api::error::Diagnostic;
use crate::api::report::Report;
use crate::resume::journal::{self, Journal};
use crate::resume::run_journal::durable;
use crate::sys;
use crate::sys::names::random_u64;
use crate::walk::run::Run;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FlockOperation, Mode, RawDir};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::ffi::{CStr, CString};
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};

/// More than any record has: a shard tells of its first 1,000 failures, each with two paths at most.
const MOST_BYTES: u64 = 64 << 20;

const FARM: &CStr = c"links";
pub(crate) const PLAN: &CStr = c"plan.json";
/// The tree is about to get its name: the combined record.
pub(crate) const ALL: &CStr = c"all.done";

pub(crate) struct Records {
    dir: OwnedFd,
    path: PathBuf,
}

/// The results of a shard.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Done {
    pub(crate) report: Report,
    pub(crate) told: Vec<Diagnostic>,
    pub(crate) digest: u64,
}

/// An attempt under way.
pub(crate) struct Attempt<'a> {
    records: &'a Records,
    name: CString,
    _locked: OwnedFd,
}

#[derive(Serialize, Deserialize)]
struct Who {
    host: String,
    pid: u32,
}

impl Records {
    pub(crate) fn make(parent: BorrowedFd<'_>, name: &CStr, path: PathBuf) -> Result<Records, Error> {
        let made = (|| {
            rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o700))?;
            let dir = sys::open_dir(parent, name, false)?;
            rustix::fs::mkdirat(&dir, FARM, Mode::from_raw_mode(0o700))?;
            Ok(dir)
        })();
        Records::of(made, path)
    }

    pub(crate) fn open(parent: BorrowedFd<'_>, name: &CStr, path: PathBuf) -> Result<Records, Error> {
        Records::of(sys::open_dir(parent, name, false), path)
    }

    fn of(dir: io::Result<OwnedFd>, path: PathBuf) -> Result<Records, Error> {
        match dir {
            Ok(dir) => Ok(Records { dir, path }),
            Err(error) => Err(Error::io(&path, error)),
        }
    }

    /// The journal of an attempt; one that an earlier attempt has left is gone on with.
    pub(crate) fn journal(&self, shard: usize, run: &Run<'_>) -> Result<Journal, Error> {
        let name = CString::new(format!("{shard}")).expect("digits");
        let opened = (|| {
            let dir = self.dir.try_clone()?;
            let (partial, durable) = (
                run.shared.context.partial_name(&name, 0),
                durable(run.shared.context.options),
            );
            let disk = run.shared.disks.of(dir.as_fd()).ok();
            let journal = Journal::new(dir, &partial, run.shared.context.id, durable, disk)?;
            match journal::take(self.dir.as_fd(), name.to_bytes())? {
                Some(left) => journal.go_on(left),
                None => Ok(journal),
            }
        })();
        opened.map_err(|error| self.failed(&name, error))
    }

    fn failed(&self, name: &CStr, error: io::Error) -> Error {
        let name = Path::new(std::ffi::OsStr::new(name.to_str().unwrap_or_default()));
        Error::io(&self.path.join(name), error)
    }

    pub(crate) fn farm(&self) -> Result<OwnedFd, Error> {
        sys::open_dir(self.dir.as_fd(), FARM, false).map_err(|error| self.failed(FARM, error))
    }

    /// Writes a record that appears at once, in the place of an older one.
    pub(crate) fn write(&self, name: &CStr, bytes: &[u8]) -> Result<(), Error> {
        let partial = self.unused(name);
        let written = (|| {
            let file = sys::create(self.dir.as_fd(), &partial, 0o600, false)?;
            sys::write_all(file.as_fd(), bytes)?;
            // What a loss of power leaves of it would be an empty one.
            rustix::fs::fsync(&file)?;
            sys::close(file)?;
            Ok(rustix::fs::renameat(&self.dir, &partial, &self.dir, name)?)
        })();
        written.map_err(|error| {
            let _ = rustix::fs::unlinkat(&self.dir, &partial, AtFlags::empty());
            self.failed(name, error)
        })
    }

    fn unused(&self, name: &CStr) -> CString {
        let text = name.to_str().expect("ours");
        CString::new(format!("{text}.{:016x}", random_u64())).expect("no zeros")
    }

    pub(crate) fn read(&self, name: &CStr) -> Result<Option<Vec<u8>>, Error> {
        let file = match sys::open_source(self.dir.as_fd(), name, false, false) {
            Ok(file) => file,
            Err(error) if sys::is(&error, &[Errno::NOENT]) => return Ok(None),
            Err(error) => return Err(self.failed(name, error)),
        };
        let mut bytes = Vec::new();
        let read = std::fs::File::from(file).take(MOST_BYTES).read_to_end(&mut bytes);
        read.map(|_| Some(bytes))
            .map_err(|error| self.failed(name, error))
    }

    /// Reads what is recorded of a shard that is done, or under another name. A record that says nothing is none.
    pub(crate) fn done(&self, name: &CStr) -> Result<Option<Done>, Error> {
        let bytes = self.read(name)?;
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }

    pub(crate) fn write_done(&self, name: &CStr, done: &Done) -> Result<(), Error> {
        let bytes = serde_json::to_vec(done).expect("plain data");
        self.write(name, &bytes)
    }

    /// Names of records, in no order.
    fn names(&self, dir: &CStr) -> io::Result<Vec<CString>> {
        let dir = sys::open_dir(self.dir.as_fd(), dir, false)?;
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = RawDir::new(dir, &mut buffer);
        let mut names = Vec::new();
        while let Some(entry) = reader.next() {
            let entry = entry?;
            if !matches!(entry.file_name().to_bytes(), b"." | b".." | b"links") {
                names.push(entry.file_name().into());
            }
        }
        Ok(names)
    }

    /// Returns true if nothing is left.
    pub(crate) fn is_empty(&self) -> Result<bool, Error> {
        let names = self.names(c".").map_err(|error| self.failed(c".", error))?;
        Ok(names.is_empty())
    }

    fn attempts(&self) -> Result<Vec<CString>, Error> {
        let mut names = self.names(c".").map_err(|error| self.failed(c".", error))?;
        names.retain(|name| name.to_bytes().ends_with(b".attempt"));
        Ok(names)
    }

    /// Begins an attempt. Says whether there were others before.
    pub(crate) fn begin(&self, shard: usize) -> Result<(Attempt<'_>, bool), Error> {
        let number = random_u64();
        let name = CString::new(format!("{shard}-{number:016x}.attempt")).expect("no zeros");
        let who = Who {
            host: rustix::system::uname().nodename().to_string_lossy().into(),
            pid: std::process::id(),
        };
        let begun = (|| {
            let file = sys::create(self.dir.as_fd(), &name, 0o600, false)?;
            // Without locks no process waits for us.
            let _ = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
            sys::write_all(file.as_fd(), &serde_json::to_vec(&who).expect("plain data"))?;
            Ok(file)
        })();
        let locked = begun.map_err(|error| self.failed(&name, error))?;
        let prefix = format!("{shard}-");
        let of_shard = |name: &&CString| name.to_bytes().starts_with(prefix.as_bytes());
        let again = self.attempts()?.iter().filter(of_shard).count() > 1;
        let attempt = Attempt {
            records: self,
            name,
            _locked: locked,
        };
        Ok((attempt, again))
    }

    /// Returns a process that is still at work.
    pub(crate) fn running(&self) -> Result<Option<String>, Error> {
        for name in self.attempts()? {
            let Ok(file) = sys::open_source(self.dir.as_fd(), &name, false, false) else {
                continue;
            };
            let locked = rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared);
            if locked != Err(Errno::AGAIN) {
                continue;
            }
            let text = self.read(&name)?.unwrap_or_default();
            let who = serde_json::from_slice::<Who>(&text);
            return Ok(Some(who.map_or_else(
                |_| "somebody".into(),
                |who| format!("process {} on {}", who.pid, who.host),
            )));
        }
        Ok(None)
    }

    /// Removes everything, and itself.
    pub(crate) fn remove(&self, parent: BorrowedFd<'_>, name: &CStr) -> Result<(), Error> {
        let removed = (|| {
            if let Ok(farm) = sys::open_dir(self.dir.as_fd(), FARM, false) {
                for name in self.names(FARM)? {
                    rustix::fs::unlinkat(&farm, &name, AtFlags::empty())?;
                }
                rustix::fs::unlinkat(&self.dir, FARM, AtFlags::REMOVEDIR)?;
            }
            // What tells that the tree has its name goes last.
            let mut names = self.names(c".")?;
            names.sort_by_key(|name| name.as_c_str() == ALL);
            for name in names {
                rustix::fs::unlinkat(&self.dir, &name, AtFlags::empty())?;
            }
            Ok(rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)?)
        })();
        removed.map_err(|error: io::Error| Error::io(&self.path, error))
    }
}

impl Attempt<'_> {
    /// It has left nothing unfinished.
    pub(crate) fn end(self) {
        let _ = rustix::fs::unlinkat(&self.records.dir, &self.name, AtFlags::empty());
    }
}

pub(crate) fn name_of(shard: usize) -> CString {
    CString::new(format!("{shard}.done")).expect("no zeros")
}
