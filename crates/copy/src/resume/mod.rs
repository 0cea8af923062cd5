//! The journal of a run, and a run that continues an interrupted one.

pub(crate) mod claim;
pub(crate) mod journal;
pub(crate) mod journal_writer;
pub(crate) mod previous_run;
pub(crate) mod run_journal;
pub(crate) mod start;
pub(crate) mod tidy;
