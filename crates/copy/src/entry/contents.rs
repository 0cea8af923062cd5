//! The contents of one file, copied again if its source changes meanwhile, and verified.

use crate::api::error::{Diagnostic, Step, Warning};
use crate::api::observer::Paths;
use crate::context::outcome::{End, Outcome};
use crate::context::reporter::Reporter;
use crate::data::content::{Moved, Trouble};
use crate::data::verify::Verdict;
use crate::data::DataCopier;
use crate::pair::Entry;
use crate::pair::Source;
use crate::sys::{self, Stat};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, SeekFrom};
use rustix::io::Errno;
use std::io;
use std::rc::Rc;
use std::time::Duration;

/// A file that changes while it is read is read this often.
const ATTEMPTS: usize = 3;

/// A wait notices within this time that the copy is to stop.
const SLICE: Duration = Duration::from_millis(50);

/// Copies the contents of entries. It reports errors, and repeats a copy whose source has changed.
pub(crate) struct ContentsCopier<'a> {
    pub(crate) data: DataCopier<'a>,
    reporter: Rc<Reporter<'a>>,
}

impl<'a> ContentsCopier<'a> {
    pub(crate) fn new(data: DataCopier<'a>, reporter: Rc<Reporter<'a>>) -> ContentsCopier<'a> {
        ContentsCopier { data, reporter }
    }

    /// Returns what was moved, if the source has not changed meanwhile and the copy is the same. Otherwise the file
    /// is read again.
    pub(crate) fn unless_changed(
        &mut self,
        entry: &Entry<'_>,
        source: &mut Source,
        to: BorrowedFd<'_>,
        moved: Moved,
        verdict: Verdict,
    ) -> Outcome<Moved> {
        if !self.has_changed(entry, source)? {
            return self.judge(entry, verdict).map(|()| moved);
        }
        self.rewind(entry, source, to)?;
        self.copy(entry, source, to, entry.at.dir.target.id().0, 2)
    }

    /// Copies the contents, again if the source changes meanwhile. `first` counts the attempts, from 1 on.
    pub(super) fn copy(
        &mut self,
        entry: &Entry<'_>,
        source: &mut Source,
        to: BorrowedFd<'_>,
        device: u64,
        first: usize,
    ) -> Outcome<Moved> {
        for attempt in first.. {
            let from = source.fd.as_fd();
            let moved = if source.stat.is_file() {
                self.data
                    .contents(from, to, &source.stat, source.attributes, device)
            } else {
                self.data.stream(from, to, None)
            };
            let moved = moved.map_err(|trouble| self.trouble(entry, trouble))?;
            let verdict = self
                .data
                .verdict(source.fd.as_fd(), to, &source.stat, &moved)
                .map_err(|trouble| self.trouble(entry, trouble))?;
            if !self.has_changed(entry, source)? {
                return self.judge(entry, verdict).map(|()| moved);
            }
            if attempt == ATTEMPTS {
                self.reporter.tell(&Diagnostic::Changed(entry.source()));
                return Ok(moved);
            }
            self.rewind(entry, source, to)?;
        }
        unreachable!("the last attempt returns")
    }

    /// Returns true if the source may have changed while it was read. One that only grew is reported: its beginning
    /// was copied. One without a size (in /proc, or empty) was read to its end.
    fn has_changed(&self, entry: &Entry<'_>, source: &Source) -> Outcome<bool> {
        if !source.stat.is_file() || source.stat.size == 0 {
            return Ok(false);
        }
        let now = self.look_again(entry, source)?;
        if now.size <= source.stat.size {
            return Ok(source.stat.differs(&now));
        }
        self.reporter.tell(&Diagnostic::Warning {
            warning: Warning::Grew,
            path: entry.source(),
        });
        Ok(false)
    }

    pub(super) fn look_again(&self, entry: &Entry<'_>, source: &Source) -> Outcome<Stat> {
        sys::stat(source.fd.as_fd())
            .map_err(|error| self.reporter.failed(Step::StatSource, entry.source(), error))
    }

    /// Back to the beginning, with the source as it is now.
    fn rewind(&self, entry: &Entry<'_>, source: &mut Source, to: BorrowedFd<'_>) -> Outcome<()> {
        source.stat = self.look_again(entry, source)?;
        rustix::fs::seek(&source.fd, SeekFrom::Start(0))
            .map_err(|error| self.reporter.failed(Step::Read, entry.source(), error.into()))?;
        rustix::fs::ftruncate(to, 0)
            .and_then(|()| rustix::fs::seek(to, SeekFrom::Start(0)))
            .map_err(|error| self.reporter.failed(Step::Write, entry.target(), error.into()))?;
        Ok(())
    }

    pub(crate) fn trouble(&self, entry: &Entry<'_>, trouble: Trouble) -> End {
        match trouble {
            Trouble::Read(error) => self.reporter.failed(Step::Read, entry.source(), error),
            Trouble::Write(error) => self.reporter.failed(Step::Write, entry.target(), error),
            Trouble::Clone(error) => {
                self.reporter
                    .failed_with(Step::Clone, entry.target(), Some(entry.source()), error)
            }
            Trouble::ReadBack(error) => self.reporter.failed(Step::Verify, entry.target(), error),
            Trouble::Stopped => End::Stopped,
        }
    }

    /// Reports a difference as a failure. The caller has made sure that the source has not changed.
    pub(crate) fn judge(&self, entry: &Entry<'_>, verdict: Verdict) -> Outcome<()> {
        match verdict {
            Verdict::None => Ok(()),
            Verdict::Same => {
                self.reporter.count(|report| report.verified += 1);
                Ok(())
            }
            Verdict::Differs(offset) => Err(self.reporter.tell(&Diagnostic::Differs {
                source: entry.source(),
                target: entry.target(),
                offset,
            })),
        }
    }

    /// Opens the target that is there, a FIFO as soon as it has a reader. `None`: it is time to stop.
    pub(crate) fn open_target(&self, entry: &Entry<'_>, follow: bool) -> io::Result<Option<OwnedFd>> {
        let (dir, name) = (entry.at.target(), entry.target);
        let is_fifo =
            || sys::stat_at(dir, name, follow).is_ok_and(|there| there.file_type() == FileType::Fifo);
        let wait = !is_fifo();
        loop {
            match sys::open_target(dir, name, follow, wait) {
                Err(error) if !wait && sys::is(&error, &[Errno::NXIO]) && is_fifo() => {}
                opened => return opened.map(Some),
            }
            if self.data.context.stopped() {
                return Ok(None);
            }
            std::thread::sleep(SLICE);
        }
    }
}
