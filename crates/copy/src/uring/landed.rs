//! The way of one file through a ring: open, read, create, write, flush and read back, sync, close, each begun when the
//! one before it has completed. What is decided in between is decided by the functions that decide it without a ring.

use super::copier::RingCopier;
use super::flight::{entry, Created, Flight, New, Stage, Task};
use super::ring::{Landing, MOST_BYTES};
use crate::api::error::Step;
use crate::api::observer::Paths;
use crate::api::options::{Fsync, Options, Sparse};
use crate::context::outcome::{End, Outcome};
use crate::data::content::{self, Moved, Trouble};
use crate::data::verify::{self, Verdict};
use crate::data::DataCopier;
use crate::entry::destination::Destination;
use crate::entry::name::remove_own;
use crate::entry::regular_file::FileCopier;
use crate::entry::EntryCopier;
use crate::pair::directory::Opened;
use crate::pair::Entry;
use crate::pair::Source;
use crate::resume::journal::Begun;
use crate::sys::{self, Stat};
use proactor_engine::buffer::AlignedBuf;
use proactor_engine::op::{self, Close, File, Handle, Op, Open, OpenFlags, Read, ResolveFlags, Write};
use proactor_engine::Output;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::ffi::CString;
use std::io;
use std::path::PathBuf;

/// Makes an op that opens a name: never through a link, and never out of the directory.
fn open(at: BorrowedFd<'_>, name: &std::ffi::CStr, flags: OFlags) -> Open {
    Open::new(name, OpenFlags::from_bits(flags.bits() as i32))
        .dir(handle(at))
        .resolve(ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS)
}

/// The handle of a descriptor that a flight or its folder owns.
fn handle(fd: impl AsFd) -> Handle {
    // SAFETY: the flight, which owns both files and shares the folder, ends only after its op has.
    unsafe { Handle::from_raw(fd.as_fd().as_raw_fd()) }
}

fn own(file: File) -> OwnedFd {
    file.into_fd().expect("an open file is its completion's alone")
}

/// A file whose op has completed. Each method goes on with it.
pub(super) struct Landed<'r, 'a> {
    copier: &'r mut RingCopier<'a>,
    at: Opened,
    name: CString,
}

impl<'a> Landed<'_, 'a> {
    /// Begins with a file: opens its source.
    pub(super) fn open_source(copier: &mut RingCopier<'a>, entry: &Entry<'_>) {
        let flags = OFlags::RDONLY | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let op = open(entry.at.source(), entry.source, flags);
        let flight = Flight {
            at: entry.at.clone(),
            name: entry.source.into(),
            stage: Stage::Open,
        };
        copier.launch(flight, op);
    }

    /// Goes on with a file whose op has completed.
    pub(super) fn go_on(copier: &mut RingCopier<'a>, flight: Flight, landing: Landing) {
        let Flight { at, name, stage } = flight;
        let stopped = copier.entries.shared.context.stopped();
        let file = Landed { copier, at, name };
        match stage {
            Stage::Close(task, new) => file.closed(*task, new, landing),
            stage if stopped => file.take_back(stage, landing),
            Stage::Open => file.opened(landing),
            Stage::Read(task) => file.has_read(task, landing),
            Stage::Create(task, bytes) => file.created(task, bytes, landing),
            Stage::Write(task, new) => file.written(task, new, landing),
            Stage::Flush(task, new) => file.flushed(task, new, landing),
            Stage::ReadBack(task, new) => file.has_read_back(task, new, landing),
            Stage::Sync(task, new) => match landing.result {
                Ok(_) => file.close(task, new),
                Err(error) => {
                    file.failed(Step::Sync, file.entry().target(), error);
                    file.discard(&new.name);
                }
            },
        }
    }

    fn entry(&self) -> Entry<'_> {
        entry(&self.at, &self.name)
    }

    fn files(&mut self) -> &mut FileCopier<'a> {
        &mut self.copier.entries.files
    }

    fn options(&self) -> &'a Options {
        self.copier.entries.shared.context.options
    }

    fn failed(&self, step: Step, path: PathBuf, error: io::Error) -> End {
        self.copier.entries.reporter.failed(step, path, error)
    }

    fn trouble(&self, trouble: Trouble) -> End {
        let contents = &self.copier.entries.files.contents;
        contents.trouble(&self.entry(), trouble)
    }

    fn launch(self, stage: Stage, op: impl Into<Op>) {
        let Landed { copier, at, name } = self;
        copier.launch(Flight { at, name, stage }, op);
    }

    /// Removes the new file, and ends.
    fn discard(self, name: &CString) {
        remove_own(&self.entry(), name);
        self.end(Ok(()));
    }

    fn end(self, done: Outcome<()>) {
        self.copier.leave(self.at, self.name, done);
    }

    /// Leaves nothing of this file, because the copy is to stop.
    fn take_back(self, stage: Stage, landing: Landing) {
        match (stage, landing.result) {
            (
                Stage::Write(_, new) | Stage::Flush(_, new) | Stage::ReadBack(_, new) | Stage::Sync(_, new),
                _,
            ) => self.discard(&new.name),
            (Stage::Create(task, _), Ok(_)) => {
                let name = task.name_of_new(&self.copier.entries.shared.context, &self.name);
                self.discard(&name);
            }
            _ => self.end(Ok(())),
        }
    }

    /// Examines the open source, which decides whether it stays with the ring.
    fn opened(self, landing: Landing) {
        let opened = landing.result.and_then(|output| match output {
            Output::File(file) => Ok((sys::stat(file.as_fd())?, own(file))),
            _ => unreachable!("an open opens"),
        });
        let Ok((stat, fd)) = opened else {
            // Plain calls find the error again, and report it.
            return self.copier.ring().put_off(self.at, self.name, None);
        };
        let (entries, entry) = (&mut self.copier.entries, entry(&self.at, &self.name));
        if !suits(entries, &entry, &stat) {
            let done = entries.file_as(&entry, fd, stat);
            return self.end(done);
        }
        match prepare(entries, &entry, fd, stat) {
            Ok(Some(task)) => match self.copier.ring().buffer(stat.size as usize) {
                Ok(buffer) => {
                    let op = Read::at(handle(&task.source.fd), 0, buffer);
                    self.launch(Stage::Read(task), op);
                }
                Err(error) => {
                    self.failed(Step::Read, self.entry().source(), error);
                    self.end(Ok(()));
                }
            },
            Ok(None) | Err(_) => self.end(Ok(())),
        }
    }

    fn has_read(self, task: Box<Task>, landing: Landing) {
        let (count, mut buffer) = landing.buffer();
        let size = task.source.stat.size as usize;
        // A file that grew has more; one that ended early, or whose read was cut short, is read on.
        let done = count.unwrap_or(0).min(size);
        buffer.set_len(size);
        match sys::read_at(task.source.fd.as_fd(), &mut buffer[done..], done as u64) {
            Ok(more) => {
                buffer.set_len(done + more);
                self.create(task, buffer);
            }
            Err(error) => {
                self.copier.ring().give_back(buffer);
                self.failed(Step::Read, self.entry().source(), error);
                self.end(Ok(()));
            }
        }
    }

    fn create(self, task: Box<Task>, bytes: AlignedBuf) {
        let name = task.name_of_new(&self.copier.entries.shared.context, &self.name);
        if task.prepared.direct {
            // The inode is written down when there is one.
            let writer = &self.copier.entries.files.writer;
            let _ = writer.begun(&self.entry(), || Ok(Begun::ToBeMade));
        }
        let access = match self.options().verify {
            true => OFlags::RDWR,
            false => OFlags::WRONLY,
        };
        let flags = access | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let op = open(self.at.target(), &name, flags).mode(task.prepared.modes.create);
        self.launch(Stage::Create(task, bytes), op);
    }

    fn created(mut self, mut task: Box<Task>, bytes: AlignedBuf, landing: Landing) {
        let to = match landing.result {
            Ok(Output::File(to)) => own(to),
            Ok(_) => unreachable!("an open opens"),
            Err(error) if !task.prepared.direct && sys::is(&error, &[Errno::EXIST]) => {
                task.attempt += 1;
                return self.create(task, bytes);
            }
            Err(_) => {
                if task.prepared.direct {
                    self.copier.entries.files.writer.not_begun(&self.entry());
                }
                // Later there are descriptors again. Plain calls find other errors again, and report them.
                self.copier.ring().give_back(bytes);
                return self.copier.ring().put_off(self.at, self.name, Some(task));
            }
        };
        let name = task.name_of_new(&self.copier.entries.shared.context, &self.name);
        let noted = match task.prepared.direct {
            true => {
                let entry = entry(&self.at, &self.name);
                self.copier.entries.files.note_created(&entry, to.as_fd())
            }
            false => Ok(()),
        };
        if let Err(error) = noted {
            self.failed(Step::CreateFile, self.entry().target(), error);
            self.copier.ring().give_back(bytes);
            return self.discard(&name);
        }
        let at = self.at.clone();
        self.files().learn_owner(&at.dir, to.as_fd());
        let op = Write::at(handle(&to), 0, bytes);
        let new = New {
            name,
            to,
            moved: Moved::default(),
            whole: true,
        };
        self.launch(Stage::Write(task, new), op);
    }

    fn written(self, task: Box<Task>, mut new: New, landing: Landing) {
        let (count, bytes) = landing.buffer();
        let written = count.and_then(|done| sys::write_all_at(new.to.as_fd(), &bytes[done..], done as u64));
        new.moved.written = bytes.len() as u64;
        self.copier.ring().give_back(bytes);
        if let Err(error) = written {
            self.failed(Step::Write, self.entry().target(), error);
            return self.discard(&new.name);
        }
        let context = &self.copier.entries.shared.context;
        context.observer.progress(new.moved.written);
        if self.options().verify {
            let op = op::Fsync::data(handle(&new.to));
            self.launch(Stage::Flush(task, new), op);
        } else {
            self.complete(task, new, Verdict::None);
        }
    }

    fn flushed(self, task: Box<Task>, new: New, landing: Landing) {
        if let Err(error) = landing.result {
            self.trouble(Trouble::Write(error));
            return self.discard(&new.name);
        }
        verify::drop_cached(new.to.as_fd());
        match self.copier.ring().buffer(task.source.stat.size as usize) {
            Ok(buffer) => {
                let op = Read::at(handle(&new.to), 0, buffer);
                self.launch(Stage::ReadBack(task, new), op);
            }
            Err(error) => {
                self.trouble(Trouble::ReadBack(error));
                self.discard(&new.name);
            }
        }
    }

    fn has_read_back(mut self, task: Box<Task>, new: New, landing: Landing) {
        let (count, mut buffer) = landing.buffer();
        let size = task.source.stat.size as usize;
        let done = count.unwrap_or(0).min(size);
        let data = &mut self.files().contents.data;
        let verdict = compare(data, &task.source, new.to.as_fd(), &mut buffer, done);
        self.copier.ring().give_back(buffer);
        match verdict {
            Ok(verdict) => self.complete(task, new, verdict),
            Err(trouble) => {
                self.trouble(trouble);
                self.discard(&new.name);
            }
        }
    }

    /// Does everything but the contents, when these are as they should be.
    fn complete(self, mut task: Box<Task>, mut new: New, verdict: Verdict) {
        let (files, entry) = (&mut self.copier.entries.files, entry(&self.at, &self.name));
        let contents = &mut files.contents;
        match contents.unless_changed(&entry, &mut task.source, new.to.as_fd(), new.moved, verdict) {
            Ok(moved) => new.moved = moved,
            Err(_) => return self.discard(&new.name),
        }
        let failures = files.reporter.failures();
        let Task {
            source,
            old,
            prepared,
            ..
        } = &*task;
        let metadata = prepared.metadata(&entry, old.as_ref());
        files
            .metadata
            .apply_to_file(&entry, source.fd.as_fd(), &source.stat, new.to.as_fd(), &metadata);
        new.whole = files.reporter.failures() == failures;
        if self.options().fsync == Fsync::Each {
            let op = op::Fsync::new(handle(&new.to));
            self.launch(Stage::Sync(task, new), op);
        } else {
            self.close(task, new);
        }
    }

    fn close(self, task: Box<Task>, new: New) {
        let writer = &self.copier.entries.files.writer;
        let there = writer.stat_if_replaceable(&self.entry(), || sys::stat(new.to.as_fd()));
        let created = Created {
            name: new.name,
            moved: new.moved,
            whole: new.whole,
            there,
        };
        self.launch(Stage::Close(task, created), Close::new(new.to));
    }

    fn closed(self, mut task: Task, new: Created, landing: Landing) {
        let (files, entry) = (&mut self.copier.entries.files, entry(&self.at, &self.name));
        if let Err(error) = landing.result {
            self.failed(Step::Write, self.entry().target(), error);
            return self.discard(&new.name);
        }
        if let (Ok(there), true) = (&new.there, new.whole) {
            let stat = &task.source.stat;
            files
                .writer
                .finished(&entry, stat, new.moved.shared, there.as_ref());
        }
        let (source, old) = (&mut task.source, task.old.as_ref());
        let named = files.named(&entry, source, old, &task.prepared, &new.name, new.moved);
        if let Ok((moved, backup)) = named {
            files.is_copied(&entry, source, &moved, backup);
        }
        self.end(Ok(()));
    }
}

/// Returns true if the ring is the way for this file: it is neither large nor has holes, blocks to share or further names.
fn suits(entries: &EntryCopier<'_>, entry: &Entry<'_>, stat: &Stat) -> bool {
    let options = entries.shared.context.options;
    let data = &entries.files.contents.data;
    let most = MOST_BYTES.min(data.buffer.len() as u64);
    stat.is_file()
        && (1..=most).contains(&stat.size)
        && !entry.is_tracked(options, stat)
        && !(options.sparse == Sparse::Auto && content::misses_blocks(stat))
        && !data.may_clone(
            stat.size,
            entry.at.target(),
            (stat.id.0, entry.at.dir.target.id().0),
        )
}

/// Decides what is to be made of an open source. Returns `None` if it is copied already.
fn prepare(
    entries: &mut EntryCopier<'_>,
    entry: &Entry<'_>,
    fd: OwnedFd,
    stat: Stat,
) -> Outcome<Option<Box<Task>>> {
    entries.shared.part.saw(entry, &stat);
    let files = &mut entries.files;
    if files.previous.stays(entry, &stat)? {
        return Ok(None);
    }
    let mut source = Source::new(fd, stat);
    let old = match files.destinations.destination(entry, &stat)? {
        Destination::New => None,
        Destination::Replace(old) => Some(old),
        destination @ Destination::Into { .. } => {
            return files.copy_to(entry, &mut source, destination).map(|()| None)
        }
    };
    let prepared = files.prepare(entry, &mut source, old.as_ref())?;
    let task = Box::new(Task {
        source,
        old,
        prepared,
        attempt: 0,
    });
    let looks_for_holes = entries.shared.context.options.sparse == Sparse::Auto;
    if looks_for_holes && content::has_holes(task.source.fd.as_fd(), &stat, task.source.attributes) {
        return task.copy(entries, entry).map(|()| None);
    }
    let contents = &entries.files.contents;
    let turn = contents.data.wait_for_turn(stat.size as usize);
    turn.map_err(|trouble| contents.trouble(entry, trouble))?;
    Ok(Some(task))
}

/// Compares a copy with its source. `done` bytes of it were read back into the buffer.
fn compare(
    data: &mut DataCopier<'_>,
    source: &Source,
    to: BorrowedFd<'_>,
    buffer: &mut AlignedBuf,
    done: usize,
) -> Result<Verdict, Trouble> {
    buffer.set_len(source.stat.size as usize);
    // A read that was cut short, or has failed, is gone on with.
    let more = sys::read_at(to, &mut buffer[done..], done as u64).map_err(Trouble::ReadBack)?;
    let length = sys::stat(to).map_err(Trouble::ReadBack)?.size;
    data.verdict_on(&buffer[..done + more], length, source.fd.as_fd(), &source.stat)
}
