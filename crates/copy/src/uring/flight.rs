//! The way of one file through a ring: open, read, create, write, flush and read back, sync, close, each begun when the
//! one before it has completed. What is decided in between is decided by the functions that decide it without a ring.

use super::{Landing, MOST_BYTES};
use crate::api::error::Step;
use crate::api::observer::Paths;
use crate::api::options::{Fsync, Reflink, Sparse};
use crate::context::outcome::Outcome;
use crate::data::content::{self, Moved, Trouble};
use crate::data::verify::{self, Verdict};
use crate::entry::destination::Destination;
use crate::entry::regular_file::Prepared;
use crate::job::worker::Worker;
use crate::pair::directory::Opened;
use crate::pair::Entry;
use crate::pair::Source;
use crate::resume::journal::Begun;
use crate::sys::{self, Stat};
use proactor_engine::buffer::AlignedBuf;
use proactor_engine::op::{self, Close, File, Handle, Open, Read, ResolveFlags, Write};
use proactor_engine::Output;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;
use std::ffi::CString;
use std::io;

/// A file that is being copied: an op of it is in the ring.
pub(super) struct Flight {
    pub(super) at: Opened,
    pub(super) name: CString,
    pub(super) stage: Stage,
}

/// What its op does.
pub(super) enum Stage {
    Open,
    Read(Box<Task>),
    Create(Box<Task>, AlignedBuf),
    Write(Box<Task>, New),
    /// To the disk, to be read from there.
    Flush(Box<Task>, New),
    ReadBack(Box<Task>, New),
    Sync(Box<Task>, New),
    Close(Box<Task>, Created),
}

/// What is known when the source has been looked at.
pub(super) struct Task {
    pub(super) source: Source,
    pub(super) old: Option<Stat>,
    pub(super) prepared: Prepared,
    /// How many partial names were taken.
    pub(super) attempt: u32,
}

/// A new file that is open.
pub(super) struct New {
    pub(super) name: CString,
    pub(super) to: OwnedFd,
    moved: Moved,
    /// Nothing has gone wrong with it, so that it may be written down as finished.
    whole: bool,
}

/// A new file that is being closed.
pub(super) struct Created {
    pub(super) name: CString,
    moved: Moved,
    whole: bool,
    /// What it is now, for a journal.
    there: io::Result<Option<Stat>>,
}

/// What waits until the ring holds no descriptors any more.
pub(super) struct Later {
    pub(super) at: Opened,
    pub(super) name: CString,
    /// What is known of it, if anything is.
    pub(super) task: Option<Box<Task>>,
}

impl Flight {
    fn entry(&self) -> Entry<'_> {
        entry(&self.at, &self.name)
    }

    fn with(self, stage: Stage) -> Flight {
        Flight { stage, ..self }
    }
}

pub(super) fn entry<'e>(at: &'e Opened, name: &'e CString) -> Entry<'e> {
    Entry {
        at,
        source: name,
        target: name,
    }
}

/// Never through a link, and never out of the directory.
fn open(at: BorrowedFd<'_>, name: &std::ffi::CStr, flags: OFlags) -> Open {
    Open::new(name, flags.bits() as i32)
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

impl Worker<'_> {
    /// Whether the ring is of use for any file of this copy.
    pub(crate) fn suits_ring(&self) -> bool {
        let options = self.options();
        // Questions go one file after the other; flags are set while a file is empty.
        !options.overwrite.ask
            && !options.preserve.flags
            && options.reflink != Reflink::Always
            && options.sparse != Sparse::Always
    }

    pub(super) fn open_source_in_ring(&mut self, entry: &Entry<'_>) {
        let flags = OFlags::RDONLY | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let op = open(entry.at.source(), entry.source, flags);
        let flight = Flight {
            at: entry.at.clone(),
            name: entry.source.into(),
            stage: Stage::Open,
        };
        self.launch(flight, op);
    }

    /// Goes on with a file whose op has completed.
    pub(super) fn landed(&mut self, mut flight: Flight, landing: Landing) {
        let stage = std::mem::replace(&mut flight.stage, Stage::Open);
        let stopped = self.run.context.stopped();
        match stage {
            Stage::Close(task, new) => self.closed(flight, *task, new, landing),
            stage if stopped => self.take_back(flight, stage, landing),
            Stage::Open => self.opened(flight, landing),
            Stage::Read(task) => self.has_read(flight, task, landing),
            Stage::Create(task, bytes) => self.created(flight, task, bytes, landing),
            Stage::Write(task, new) => self.written(flight, task, new, landing),
            Stage::Flush(task, new) => self.flushed(flight, task, new, landing),
            Stage::ReadBack(task, new) => self.has_read_back(flight, task, new, landing),
            Stage::Sync(task, new) => match landing.result {
                Ok(_) => self.close_in_ring(flight, task, new),
                Err(error) => {
                    self.reporter.failed(Step::Sync, flight.entry().target(), error);
                    self.discard(flight, &new.name);
                }
            },
        }
    }

    /// The copy is to stop: nothing is left of this file.
    fn take_back(&mut self, flight: Flight, stage: Stage, landing: Landing) {
        match (stage, landing.result) {
            (
                Stage::Write(_, new) | Stage::Flush(_, new) | Stage::ReadBack(_, new) | Stage::Sync(_, new),
                _,
            ) => self.discard(flight, &new.name),
            (Stage::Create(task, _), Ok(_)) => {
                let name = self.name_of_new(&flight.name, &task);
                self.discard(flight, &name);
            }
            _ => self.end(flight),
        }
    }

    /// The source is open: what it is decides whether it stays with the ring.
    fn opened(&mut self, flight: Flight, landing: Landing) {
        let opened = landing.result.and_then(|output| match output {
            Output::File(file) => Ok((sys::stat(file.as_fd())?, own(file))),
            _ => unreachable!("an open opens"),
        });
        let Ok((stat, fd)) = opened else {
            // Found again, and told, by whoever copies it without a ring.
            return self.put_off(flight, None);
        };
        if !self.suits(&flight.entry(), &stat) {
            let _ = self.file_as(&flight.entry(), fd, stat);
            return self.end(flight);
        }
        match self.prepare_in_ring(&flight.entry(), fd, stat) {
            Ok(Some(task)) => match self.ring().buffer(stat.size as usize) {
                Ok(buffer) => {
                    let op = Read::at(handle(&task.source.fd), 0, buffer);
                    self.launch(flight.with(Stage::Read(task)), op);
                }
                Err(error) => {
                    self.reporter.failed(Step::Read, flight.entry().source(), error);
                    self.end(flight);
                }
            },
            Ok(None) | Err(_) => self.end(flight),
        }
    }

    /// Whether the ring is the way for this file: neither large nor with holes, blocks to share or further names.
    fn suits(&self, entry: &Entry<'_>, stat: &Stat) -> bool {
        let options = self.options();
        let most = MOST_BYTES.min(self.data.buffer.len() as u64);
        stat.is_file()
            && (1..=most).contains(&stat.size)
            && !entry.is_tracked(self.options(), stat)
            && !(options.sparse == Sparse::Auto && content::misses_blocks(stat))
            && !self.data.may_clone(
                stat.size,
                entry.at.target(),
                (stat.id.0, entry.at.dir.target.id().0),
            )
    }

    /// Decides what is to be made of an open source. `None`: it has been dealt with.
    fn prepare_in_ring(&mut self, entry: &Entry<'_>, fd: OwnedFd, stat: Stat) -> Outcome<Option<Box<Task>>> {
        self.run.part.saw(entry, &stat);
        if self.previous.stays(entry, &stat)? {
            return Ok(None);
        }
        let mut source = Source::new(fd, stat);
        let old = match self.destination(entry, &stat)? {
            Destination::New => None,
            Destination::Replace(old) => Some(old),
            destination @ Destination::Into { .. } => {
                return self.copy_to(entry, &mut source, destination).map(|()| None)
            }
        };
        let prepared = self.prepare(entry, &mut source, old.as_ref())?;
        let task = Box::new(Task {
            source,
            old,
            prepared,
            attempt: 0,
        });
        let looks_for_holes = self.options().sparse == Sparse::Auto;
        if looks_for_holes && content::has_holes(task.source.fd.as_fd(), &stat, task.source.attributes) {
            return self.copy_prepared(entry, task).map(|()| None);
        }
        let turn = self.data.wait_for_turn(stat.size as usize);
        turn.map_err(|trouble| self.trouble(entry, trouble))?;
        Ok(Some(task))
    }

    /// What a task knows, carried out without the ring.
    fn copy_prepared(&mut self, entry: &Entry<'_>, mut task: Box<Task>) -> Outcome<()> {
        let made = self.create_prepared(entry, &mut task.source, task.old.as_ref(), &task.prepared);
        made.map(|(moved, backup)| self.is_copied(entry, &task.source, &moved, backup))
    }

    fn has_read(&mut self, flight: Flight, task: Box<Task>, landing: Landing) {
        let (count, mut buffer) = landing.buffer();
        let size = task.source.stat.size as usize;
        // A file that grew has more; one that ended early, or whose read was cut short, is read on.
        let done = count.unwrap_or(0).min(size);
        buffer.set_len(size);
        match sys::read_at(task.source.fd.as_fd(), &mut buffer[done..], done as u64) {
            Ok(more) => {
                buffer.set_len(done + more);
                self.create_in_ring(flight, task, buffer);
            }
            Err(error) => {
                self.ring().give_back(buffer);
                self.reporter.failed(Step::Read, flight.entry().source(), error);
                self.end(flight);
            }
        }
    }

    pub(super) fn name_of_new(&self, name: &CString, task: &Task) -> CString {
        if task.prepared.direct {
            name.clone()
        } else {
            self.run.context.partial_name(name, task.attempt)
        }
    }

    fn create_in_ring(&mut self, flight: Flight, task: Box<Task>, bytes: AlignedBuf) {
        let name = self.name_of_new(&flight.name, &task);
        if task.prepared.direct {
            // What it is about is looked at when there is something.
            let _ = self.writer.begun(&flight.entry(), || Ok(Begun::ToBeMade));
        }
        let access = match self.options().verify {
            true => OFlags::RDWR,
            false => OFlags::WRONLY,
        };
        let flags = access | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let op = open(flight.at.target(), &name, flags).mode(task.prepared.modes.create);
        self.launch(flight.with(Stage::Create(task, bytes)), op);
    }

    fn created(&mut self, flight: Flight, mut task: Box<Task>, bytes: AlignedBuf, landing: Landing) {
        let to = match landing.result {
            Ok(Output::File(to)) => own(to),
            Ok(_) => unreachable!("an open opens"),
            Err(error) if !task.prepared.direct && sys::is(&error, &[Errno::EXIST]) => {
                task.attempt += 1;
                return self.create_in_ring(flight, task, bytes);
            }
            Err(_) => {
                if task.prepared.direct {
                    self.writer.not_begun(&flight.entry());
                }
                // Without descriptors, there will be some; all else is found again, and told.
                self.ring().give_back(bytes);
                return self.put_off(flight, Some(task));
            }
        };
        let name = self.name_of_new(&flight.name, &task);
        let noted = match task.prepared.direct {
            true => self.note_created(&flight.entry(), to.as_fd()),
            false => Ok(()),
        };
        if let Err(error) = noted {
            self.reporter
                .failed(Step::CreateFile, flight.entry().target(), error);
            self.ring().give_back(bytes);
            return self.discard(flight, &name);
        }
        self.learn_owner(&flight.entry(), to.as_fd());
        let op = Write::at(handle(&to), 0, bytes);
        let new = New {
            name,
            to,
            moved: Moved::default(),
            whole: true,
        };
        self.launch(flight.with(Stage::Write(task, new)), op);
    }

    fn written(&mut self, flight: Flight, task: Box<Task>, mut new: New, landing: Landing) {
        let (count, bytes) = landing.buffer();
        let written = count.and_then(|done| sys::write_all_at(new.to.as_fd(), &bytes[done..], done as u64));
        new.moved.written = bytes.len() as u64;
        self.ring().give_back(bytes);
        if let Err(error) = written {
            self.reporter.failed(Step::Write, flight.entry().target(), error);
            return self.discard(flight, &new.name);
        }
        self.run.context.observer.progress(new.moved.written);
        if self.options().verify {
            let op = op::Fsync::data(handle(&new.to));
            self.launch(flight.with(Stage::Flush(task, new)), op);
        } else {
            self.complete(flight, task, new, Verdict::None);
        }
    }

    fn flushed(&mut self, flight: Flight, task: Box<Task>, new: New, landing: Landing) {
        if let Err(error) = landing.result {
            self.trouble(&flight.entry(), Trouble::Write(error));
            return self.discard(flight, &new.name);
        }
        verify::drop_cached(new.to.as_fd());
        match self.ring().buffer(task.source.stat.size as usize) {
            Ok(buffer) => {
                let op = Read::at(handle(&new.to), 0, buffer);
                self.launch(flight.with(Stage::ReadBack(task, new)), op);
            }
            Err(error) => {
                self.trouble(&flight.entry(), Trouble::ReadBack(error));
                self.discard(flight, &new.name);
            }
        }
    }

    fn has_read_back(&mut self, flight: Flight, task: Box<Task>, new: New, landing: Landing) {
        let (count, mut buffer) = landing.buffer();
        let size = task.source.stat.size as usize;
        let verdict = self.compare(
            &task.source,
            new.to.as_fd(),
            &mut buffer,
            count.unwrap_or(0).min(size),
        );
        self.ring().give_back(buffer);
        match verdict {
            Ok(verdict) => self.complete(flight, task, new, verdict),
            Err(trouble) => {
                self.trouble(&flight.entry(), trouble);
                self.discard(flight, &new.name);
            }
        }
    }

    /// Compares a copy of which so many bytes were read back.
    fn compare(
        &mut self,
        source: &Source,
        to: BorrowedFd<'_>,
        buffer: &mut AlignedBuf,
        done: usize,
    ) -> Result<Verdict, Trouble> {
        buffer.set_len(source.stat.size as usize);
        // A read that was cut short, or has failed, is gone on with.
        let more = sys::read_at(to, &mut buffer[done..], done as u64).map_err(Trouble::ReadBack)?;
        let length = sys::stat(to).map_err(Trouble::ReadBack)?.size;
        self.data
            .verdict_on(&buffer[..done + more], length, source.fd.as_fd(), &source.stat)
    }

    /// Everything but the contents, when these are as they should be.
    fn complete(&mut self, flight: Flight, mut task: Box<Task>, mut new: New, verdict: Verdict) {
        let entry = flight.entry();
        match self.unless_changed(&entry, &mut task.source, new.to.as_fd(), new.moved, verdict) {
            Ok(moved) => new.moved = moved,
            Err(_) => return self.discard(flight, &new.name),
        }
        let failures = self.reporter.failures();
        let Task {
            source,
            old,
            prepared,
            ..
        } = &*task;
        let metadata = prepared.metadata(&entry, old.as_ref());
        self.metadata
            .apply_to_file(&entry, source.fd.as_fd(), &source.stat, new.to.as_fd(), &metadata);
        new.whole = self.reporter.failures() == failures;
        if self.options().fsync == Fsync::Each {
            let op = op::Fsync::new(handle(&new.to));
            self.launch(flight.with(Stage::Sync(task, new)), op);
        } else {
            self.close_in_ring(flight, task, new);
        }
    }

    fn close_in_ring(&mut self, flight: Flight, task: Box<Task>, new: New) {
        let there = self
            .writer
            .stat_if_replaceable(&flight.entry(), || sys::stat(new.to.as_fd()));
        let created = Created {
            name: new.name,
            moved: new.moved,
            whole: new.whole,
            there,
        };
        self.launch(flight.with(Stage::Close(task, created)), Close::new(new.to));
    }

    fn closed(&mut self, flight: Flight, mut task: Task, new: Created, landing: Landing) {
        let entry = flight.entry();
        if let Err(error) = landing.result {
            self.reporter.failed(Step::Write, entry.target(), error);
            return self.discard(flight, &new.name);
        }
        if let (Ok(there), true) = (&new.there, new.whole) {
            self.writer
                .finished(&entry, &task.source.stat, new.moved.shared, there.as_ref());
        }
        let (source, old) = (&mut task.source, task.old.as_ref());
        let named = self.named(&entry, source, old, &task.prepared, &new.name, new.moved);
        if let Ok((moved, backup)) = named {
            self.is_copied(&entry, source, &moved, backup);
        }
        self.end(flight);
    }

    /// Leaves a file to the worker itself, when the ring holds nothing.
    fn put_off(&mut self, flight: Flight, task: Option<Box<Task>>) {
        let Flight { at, name, .. } = flight;
        self.ring().later.push(Later { at, name, task });
    }

    pub(super) fn do_later(&mut self, later: Later) {
        let Later { at, name, task } = later;
        let entry = entry(&at, &name);
        if !self.run.context.stopped() {
            // What goes wrong has been told.
            let _: Outcome<()> = match task {
                Some(task) => self.copy_prepared(&entry, task),
                None => self.entry_as(&entry, FileType::RegularFile),
            };
        }
        self.release(at.dir);
    }

    fn discard(&mut self, flight: Flight, name: &CString) {
        self.remove_own(&flight.entry(), name);
        self.end(flight);
    }

    fn end(&mut self, flight: Flight) {
        self.release(flight.at.dir);
    }
}
