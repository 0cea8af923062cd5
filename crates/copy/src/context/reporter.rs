//! What becomes of entries: told to the observer, and counted.

use crate::api::error::{Diagnostic, Refusal, Step};
use crate::api::observer::{Copied, Paths};
use crate::api::report::Report;
use crate::context::outcome::End;
use crate::context::Context;
use std::cell::RefCell;
use std::io;
use std::path::PathBuf;

/// One thread's part of the report. All that the thread copies with shares it.
pub(crate) struct Reporter<'a> {
    context: &'a Context<'a>,
    report: RefCell<Report>,
}

impl<'a> Reporter<'a> {
    pub(crate) fn new(context: &'a Context<'a>) -> Reporter<'a> {
        Reporter {
            context,
            report: RefCell::default(),
        }
    }

    pub(crate) fn count(&self, add: impl FnOnce(&mut Report)) {
        add(&mut self.report.borrow_mut());
    }

    pub(crate) fn failures(&self) -> u64 {
        self.report.borrow().failures
    }

    /// Bytes that were written.
    pub(crate) fn bytes(&self) -> u64 {
        self.report.borrow().bytes
    }

    /// Returns true if a tree was not finished and keeps its partial name.
    pub(crate) fn has_partial(&self) -> bool {
        !self.report.borrow().partial.is_empty()
    }

    /// Returns how many files, symbolic links and special files were made: these can have several names.
    pub(crate) fn linkable(&self) -> [u64; 3] {
        let report = self.report.borrow();
        [report.files, report.symlinks, report.specials]
    }

    /// Counts what was made since `before` as hard links, because it has given way to another shard's.
    pub(crate) fn count_as_links(&self, before: [u64; 3]) {
        let made = self.linkable();
        self.count(|report| {
            [report.files, report.symlinks, report.specials] = before;
            report.hard_links += made.iter().sum::<u64>() - before.iter().sum::<u64>();
        });
    }

    /// Takes what was counted, and begins anew.
    pub(crate) fn take(&self) -> Report {
        self.report.take()
    }

    pub(crate) fn tell(&self, diagnostic: &Diagnostic) -> End {
        self.count(|report| report.failures += u64::from(diagnostic.is_failure()));
        self.context.observer.diagnostic(diagnostic);
        End::Failed
    }

    pub(crate) fn failed(&self, step: Step, path: PathBuf, error: io::Error) -> End {
        self.failed_with(step, path, None, error)
    }

    pub(crate) fn failed_with(
        &self,
        step: Step,
        path: PathBuf,
        other: Option<PathBuf>,
        error: io::Error,
    ) -> End {
        let failed = Diagnostic::Failed {
            step,
            path,
            other,
            error,
        };
        self.tell(&failed)
    }

    pub(crate) fn refused(&self, refusal: Refusal, entry: &dyn Paths) -> End {
        let refused = Diagnostic::Refused {
            refusal,
            source: entry.source(),
            target: entry.target(),
        };
        self.tell(&refused)
    }

    pub(crate) fn advance(&self, part: f64) {
        if self.context.part_of_source.is_some() && part > 0.0 {
            self.context.observer.advanced(part);
        }
    }

    /// One entry is copied.
    pub(crate) fn copied(&self, copied: &Copied<'_>) {
        self.context.observer.copied(copied);
    }
}
