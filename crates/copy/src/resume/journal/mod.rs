//! Records what a run has finished, for the run that continues after it was killed (docs/internals/resume.md).
//!
//! It knows places, files and directories, and nothing of how they are copied. Invariant: a record is written when
//! what it says is true, or becomes true by a rename that it names the outcome of.

mod before;
mod find;
mod format;
mod life;

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;

pub(crate) use before::Before;
use find::Found;
pub(crate) use find::{each_name, each_partial, find, is_busy, name_of, take, Partial, Search, Unfit};
pub(crate) use format::{Asked, Begun, Head};

use crate::pair::digest::Key;
use crate::sys::disk::Disk;
use crate::sys::{self, FileId, Stat};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FlockOperation, Mode, Timestamps, CWD};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A thread writes its records when it has this many of them, 0.01 microseconds for each: what is lost in a crash is
/// copied again within milliseconds.
const BATCH_RECORDS: usize = 64;
/// A thread writes them as well when this many bytes are copied.
const BATCH_BYTES: u64 = 1 << 20;

/// The certainty that what was copied is on the disk.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Durable {
    /// Each file is, before it is written down.
    Each,
    /// All are, now and then.
    Every(Duration),
}

/// Records that a thread has not written yet.
#[derive(Default)]
pub(crate) struct Batch {
    records: Vec<u8>,
    bytes: u64,
}

impl Batch {
    /// Adds a finished file. `shared` of its bytes are the source's own, which takes no time to do again. Where
    /// others may put another one in its place, `there` is the new one.
    pub(crate) fn finished(&mut self, at: Key, source: &Stat, shared: u64, there: Option<&Stat>) {
        let value = format::finished(at, source, there);
        self.records.extend(format::record(at.of_file(), value));
        self.bytes += source.size.saturating_sub(shared);
    }

    /// A file is being written under its final name: what has the name is half of one, until it is finished.
    pub(crate) fn begun(&mut self, at: Key, begun: Begun) {
        self.records.extend(format::record(at.of_file(), begun.value(at)));
    }

    /// Withdraws what was written down about a file.
    pub(crate) fn void(&mut self, at: Key) {
        self.records.extend(format::record(at.of_file(), 0));
    }

    pub(crate) fn is_due(&self) -> bool {
        self.records.len() >= BATCH_RECORDS * format::RECORD_BYTES || self.bytes >= BATCH_BYTES
    }

    fn take(&mut self, into: &mut Vec<u8>) {
        into.append(&mut self.records);
        self.bytes = 0;
    }
}

/// The request that a journal begins with, and the first source's path: asked for when there is something to write.
pub(crate) type Begin<'b> = &'b dyn Fn() -> (Asked, Vec<u8>);

/// The journal of one run.
pub(crate) struct Journal {
    dir: OwnedFd,
    dir_id: FileId,
    /// Only files on this device are written down: it is what a barrier makes sure of.
    pub(crate) device: u64,
    /// The records of the runs before this one.
    pub(crate) before: Before,
    id: u32,
    durable: Durable,
    /// The disk that barriers are about. Without it there are none.
    disk: Option<Arc<Disk>>,
    /// Its directory has got all that it is to have, and is to have it when there is no journal in it any more.
    last: Mutex<Option<Last>>,
    log: Mutex<Log>,
}

/// The final state of a finished directory.
struct Last {
    /// The times as they are, where they are not preserved.
    times: Option<Timestamps>,
}

struct Log {
    name: CString,
    state: State,
    /// Written with the next batch.
    held: Vec<u8>,
    /// Records in the file.
    count: u64,
    synced: Instant,
}

enum State {
    /// Nothing was worth a file yet.
    NotYet,
    Open(Arc<OwnedFd>),
    /// Nothing more is written: there is no space or no right to, or what was written down may not be true.
    Ended(Option<Arc<OwnedFd>>),
}

impl Journal {
    /// One for a run that begins, in this directory and for this partial name. Makes no file yet.
    pub(crate) fn new(
        dir: OwnedFd,
        partial: &CStr,
        id: u32,
        durable: Durable,
        disk: Option<Arc<Disk>>,
    ) -> io::Result<Journal> {
        let dir_id = sys::stat(dir.as_fd())?.id;
        Ok(Journal {
            device: dir_id.0,
            dir,
            dir_id,
            before: Before::default(),
            id,
            durable,
            disk,
            last: Mutex::default(),
            log: Mutex::new(Log {
                name: find::name_of(partial),
                state: State::NotYet,
                held: Vec::new(),
                count: 0,
                synced: Instant::now(),
            }),
        })
    }

    /// Goes on with one that was found.
    pub(crate) fn go_on(mut self, found: Found) -> io::Result<Journal> {
        let life = life::life(&found.file);
        self.before = Before::read(found.file.as_fd(), found.head_bytes, life)?;
        let length = sys::stat(found.file.as_fd())?.size - found.head_bytes as u64;
        let count = length / format::RECORD_BYTES as u64;
        // A record that was torn would leave all later ones askew.
        let whole = found.head_bytes as u64 + count * format::RECORD_BYTES as u64;
        rustix::fs::ftruncate(&found.file, whole)?;
        let log = self.log.get_mut().expect("no other thread has it");
        log.name = found.name;
        log.count = count;
        let first = first_records(self.id, self.durable, life);
        log.write(&found.file, &first)?;
        log.state = State::Open(Arc::new(found.file));
        Ok(self)
    }

    /// Returns true if this name in the directory `dir` is the journal's.
    pub(crate) fn is_named(&self, name: &CStr, dir: FileId) -> bool {
        name == self.log.lock().unwrap().name.as_c_str() && self.is_in(dir)
    }

    /// A directory was made by us. It is written down at once, or if there is no file yet with the first batch: before
    /// any file in it.
    pub(crate) fn made(&self, at: Key, there: &Stat, begin: Begin<'_>) {
        self.directory(at, format::made(at, there), true, begin);
    }

    /// A directory was there, and what is not finished may be in it. It is written down like those that were made, or
    /// with the next batch.
    pub(crate) fn entered(&self, at: Key, there: &Stat, at_once: bool, begin: Begin<'_>) {
        self.directory(at, format::entered(at, there), at_once, begin);
    }

    fn directory(&self, at: Key, value: u64, at_once: bool, begin: Begin<'_>) {
        let record = format::record(at.of_directory(), value);
        let mut log = self.log.lock().unwrap();
        log.held.extend(record);
        let is_open = matches!(log.state, State::Open(_));
        drop(log);
        if is_open && at_once {
            self.append(&mut Batch::default(), begin);
        }
    }

    /// Keeps a batch for the next one that is written.
    pub(crate) fn hold(&self, batch: &mut Batch) {
        batch.take(&mut self.log.lock().unwrap().held);
    }

    /// Makes sure that what was written down is on the disk before anything that follows, where each file is.
    pub(crate) fn settle(&self) {
        if let (Durable::Each, State::Open(file)) = (self.durable, &self.log.lock().unwrap().state) {
            // A failure to write is reported by the file that follows.
            let _ = rustix::fs::fdatasync(file);
        }
    }

    /// Writes a batch. Without a right to or space for it there is no journal from here on, and the copy goes on.
    pub(crate) fn append(&self, batch: &mut Batch, begin: Begin<'_>) {
        let mut log = self.log.lock().unwrap();
        let mut records = std::mem::take(&mut log.held);
        batch.take(&mut records);
        let Some(file) = self.opened(&mut log, begin) else {
            return;
        };
        if log.write(&file, &records).is_err() {
            log.state = State::Ended(Some(file));
            return;
        }
        let due = matches!(self.durable, Durable::Every(interval) if log.synced.elapsed() >= interval);
        if due {
            log.synced = Instant::now();
            let barrier = format::record(format::BARRIER, log.count);
            drop(log);
            // If either cannot be written, less is believed, or nothing is left to go on with.
            let _ = match self.disk.as_ref().map(|disk| disk.sync()) {
                Some(Ok(())) => self.log.lock().unwrap().write(&file, &barrier),
                Some(Err(_)) => {
                    self.lose();
                    Ok(())
                }
                None => Ok(()),
            };
        }
    }

    /// Ends the journal: what was copied so far may not be on the disk, and never will be.
    pub(crate) fn lose(&self) {
        let mut log = self.log.lock().unwrap();
        let file = match &log.state {
            State::Open(file) => Some(file.clone()),
            State::NotYet => None,
            State::Ended(_) => return,
        };
        if let Some(file) = &file {
            // Without a record there must be nothing to be believed.
            if log.write(file, &format::record(format::LOST, 0)).is_err() {
                let _ = rustix::fs::ftruncate(file, 0);
            }
        }
        // Threads have records of what was copied before in hand.
        log.state = State::Ended(file);
    }

    /// Returns true if it is in this directory.
    pub(crate) fn is_in(&self, dir: FileId) -> bool {
        self.dir_id == dir
    }

    /// Its directory is finished, with these times if they are preserved: when the journal goes, they change.
    pub(crate) fn outlives(&self, times: Option<Timestamps>) {
        *self.last.lock().unwrap() = Some(Last { times });
    }

    /// Nothing is left to go on with: removes the file, or with `keep` writes what is held and leaves it. An error has the
    /// name of a file that stays though it should not.
    pub(crate) fn finish(&self, keep: bool, begin: Begin<'_>) -> Result<(), (CString, io::Error)> {
        if keep {
            if !self.log.lock().unwrap().held.is_empty() {
                self.append(&mut Batch::default(), begin);
            }
            return Ok(());
        }
        let log = self.log.lock().unwrap();
        let (State::Open(file) | State::Ended(Some(file))) = &log.state else {
            return Ok(());
        };
        let mut removed = remove(self.dir.as_fd(), &log.name, file);
        if let Some(last) = self.last.lock().unwrap().take() {
            if matches!(&removed, Err(error) if sys::is(error, &[Errno::ACCESS])) {
                removed = self.remove_from_closed(&log.name, file);
            }
            if let Some(times) = last.times {
                // They were set a moment ago, so that they can be set.
                let (path, flags) = (self.dir_path(), AtFlags::empty());
                let _ = rustix::fs::utimensat(&self.dir, c".", &times, flags)
                    .or_else(|_| rustix::fs::utimensat(CWD, path.as_slice(), &times, flags));
            }
        }
        match removed {
            Err(error) if !sys::is(&error, &[Errno::NOENT]) => Err((log.name.clone(), error)),
            _ => Ok(()),
        }
    }

    /// The directory has got permissions that keep us out: it has others for the moment that it takes.
    fn remove_from_closed(&self, name: &CStr, file: &OwnedFd) -> io::Result<()> {
        let set = |mode| rustix::fs::chmod(self.dir_path().as_slice(), Mode::from_raw_mode(mode));
        let mode = sys::stat(self.dir.as_fd())?.permissions();
        set(mode | 0o300)?;
        let removed = remove(self.dir.as_fd(), name, file);
        set(mode)?;
        removed
    }

    /// The directory itself, whatever may be done in it.
    fn dir_path(&self) -> Vec<u8> {
        sys::proc_path(self.dir.as_fd(), None)
    }

    fn opened(&self, log: &mut Log, begin: Begin<'_>) -> Option<Arc<OwnedFd>> {
        if let State::NotYet = log.state {
            log.state = match self.make(log, begin) {
                Ok(file) => State::Open(Arc::new(file)),
                Err(_) => State::Ended(None),
            };
        }
        match &log.state {
            State::Open(file) => Some(file.clone()),
            State::NotYet | State::Ended(_) => None,
        }
    }

    fn make(&self, log: &mut Log, begin: Begin<'_>) -> io::Result<OwnedFd> {
        let file = sys::create_log(self.dir.as_fd(), &log.name)?;
        let written = self.write_head(log, &file, begin);
        if written.is_err() {
            // It is empty, and goes when the next one looks.
            let _ = remove(self.dir.as_fd(), &log.name, &file);
        }
        written.map(|()| file)
    }

    fn write_head(&self, log: &mut Log, file: &OwnedFd, begin: Begin<'_>) -> io::Result<()> {
        // Another process may look at it just now, for as long as it takes to find it empty. Where there are no locks, the
        // one who wants to go on needs one and is refused.
        let _ = rustix::fs::flock(file, FlockOperation::LockExclusive);
        let (asked, source) = begin();
        let head = Head {
            id: self.id,
            ino: sys::stat(file.as_fd())?.id.1,
            asked,
            source,
        };
        sys::write_all(file.as_fd(), &head.encode())?;
        log.write(file, &first_records(self.id, self.durable, life::life(file)))
    }
}

impl Log {
    fn write(&mut self, file: &OwnedFd, records: &[u8]) -> io::Result<()> {
        sys::write_all(file.as_fd(), records)?;
        self.count += (records.len() / format::RECORD_BYTES) as u64;
        Ok(())
    }
}

/// Returns the records that a run begins with.
fn first_records(id: u32, durable: Durable, life: u64) -> Vec<u8> {
    let kind = match durable {
        Durable::Each => format::LIFE_SYNCED,
        Durable::Every(_) => format::LIFE,
    };
    [format::record(format::RUN, id.into()), format::record(kind, life)].concat()
}

/// Removes a journal, unless its name is another file's by now.
fn remove(dir: BorrowedFd<'_>, name: &CStr, file: &OwnedFd) -> io::Result<()> {
    if sys::stat(file.as_fd())?.id == sys::stat_at(dir, name, false)?.id {
        rustix::fs::unlinkat(dir, name, AtFlags::empty())?;
    }
    Ok(())
}
