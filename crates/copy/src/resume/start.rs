//! The start of a run: its journal is opened, and what earlier runs have left is reported or removed.

use crate::api::error::{Diagnostic, Refusal, Step, Warning};
use crate::context::outcome::{End, Outcome};
use crate::context::reporter::Reporter;
use crate::context::Context;
use crate::pair::directory::Dir;
use crate::resume::journal::{self, Batch, Journal, Partial, Search, Unfit};
use crate::resume::run_journal::{durable, RunJournal};
use crate::resume::tidy::{shown, Tidier};
use crate::sys;
use crate::sys::disk::Disks;
use rustix::fd::BorrowedFd;
use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;
use std::sync::Arc;

/// This much of a directory is read for a hint: a thousand names.
const READS_FOR_A_HINT: usize = 1;

/// Opens the journal of a run.
pub(crate) struct JournalOpener<'a> {
    context: &'a Context<'a>,
    journal: &'a RunJournal<'a>,
    disks: &'a Disks,
    reporter: Rc<Reporter<'a>>,
    tidier: Tidier<'a>,
}

impl<'a> JournalOpener<'a> {
    pub(crate) fn new(
        context: &'a Context<'a>,
        journal: &'a RunJournal<'a>,
        disks: &'a Disks,
        reporter: Rc<Reporter<'a>>,
    ) -> JournalOpener<'a> {
        JournalOpener {
            context,
            journal,
            disks,
            tidier: Tidier::new(context, journal, reporter.clone()),
            reporter,
        }
    }

    /// Opens this run's journal: a new one, or with `resume` the one that was left. An error is reported already, and
    /// nothing is to be copied.
    pub(crate) fn open(&self, top: &Arc<Dir>) -> Outcome<()> {
        if !self.journal.is_wanted() {
            return Ok(());
        }
        if self.context.options.dry_run {
            return self.dry_run_resume(top);
        }
        let opened = top.open().and_then(|at| {
            let dir = at.target().try_clone_to_owned()?;
            let partial = self.context.partial_name(&self.journal.first_name(), 0);
            let disk = self.disks.of(at.target()).ok();
            Ok((
                Journal::new(
                    dir,
                    &partial,
                    self.context.id,
                    durable(self.context.options),
                    disk,
                )?,
                at,
            ))
        });
        let (mut journal, at) = match opened {
            Ok(opened) => opened,
            Err(error) if self.context.options.resume => {
                return Err(self.reporter.failed(Step::Journal, shown(top, c""), error));
            }
            // Without descriptors for it, the copy says what fails.
            Err(_) => return Ok(()),
        };
        if self.context.options.resume {
            let found = journal::find(at.target(), &self.journal.asked().0, true);
            match found.map_err(|error| self.reporter.failed(Step::Journal, shown(top, c""), error))? {
                Search::Nothing => {}
                Search::Unfit(name, unfit, head) => return Err(self.unfit(top, &name, unfit, &head.source)),
                Search::Found(found) => {
                    let path = shown(top, found.name());
                    journal = journal
                        .go_on(found)
                        .map_err(|error| self.reporter.failed(Step::Journal, path, error))?;
                }
            }
        }
        let begins = !journal.before.is_any();
        self.journal.begin(journal);
        if begins {
            self.hint(top, at.target());
            if self.context.options.resume {
                // `--resume` asks that whatever is made is found again.
                self.journal.append(&mut Batch::default());
            }
        } else {
            self.tidier.tidy_existing(top, at.target(), None);
        }
        Ok(())
    }

    /// Reports what a copy would say of what was left.
    fn dry_run_resume(&self, top: &Arc<Dir>) -> Outcome<()> {
        // A target that is not there has nothing.
        let Ok(at) = top.open() else { return Ok(()) };
        if self.context.options.resume {
            let found = journal::find(at.target(), &self.journal.asked().0, false);
            match found.map_err(|error| self.reporter.failed(Step::Journal, shown(top, c""), error))? {
                Search::Unfit(name, unfit, head) => return Err(self.unfit(top, &name, unfit, &head.source)),
                Search::Found(_) => return Ok(()),
                Search::Nothing => {}
            }
        }
        self.hint(top, at.target());
        Ok(())
    }

    fn unfit(&self, top: &Dir, name: &CStr, unfit: Unfit, source: &[u8]) -> End {
        let refusal = match unfit {
            Unfit::Busy => Refusal::ResumeBusy,
            Unfit::OtherSource => Refusal::ResumeOtherSource,
            Unfit::OtherOptions => Refusal::ResumeOtherOptions,
            Unfit::Ambiguous => Refusal::ResumeAmbiguous,
        };
        let refused = Diagnostic::Refused {
            refusal,
            source: OsStr::from_bytes(source).into(),
            target: shown(top, name),
        };
        self.reporter.tell(&refused)
    }

    /// Reports what an earlier run has left, if it is among the first names.
    fn hint(&self, top: &Dir, dir: BorrowedFd<'_>) {
        let targets = self.journal.target_names();
        let mut left = Vec::new();
        let see = |name: &CStr, partial: Partial<'_>| {
            if targets.iter().any(|target| target.to_bytes() == partial.of) {
                left.push((CString::from(name), partial.is_journal));
            }
        };
        // If it cannot be read, there is no hint.
        let _ = journal::each_partial(dir, READS_FOR_A_HINT, see);
        for (name, is_journal) in &left {
            let journal = if *is_journal {
                name.clone()
            } else {
                journal::name_of(name)
            };
            let has_journal = *is_journal || left.contains(&(journal.clone(), true));
            let is_dir = || sys::stat_at(dir, name, false).is_ok_and(|stat| stat.is_dir());
            let warning = match has_journal {
                true if !is_journal || journal::is_busy(dir, &journal) => continue,
                true => Warning::LeftJournal,
                false if is_dir() => Warning::LeftTree,
                false => continue,
            };
            self.reporter.tell(&Diagnostic::Warning {
                warning,
                path: shown(top, name),
            });
        }
    }
}
