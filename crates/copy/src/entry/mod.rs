//! Entries of directories: which of them are copied, where they go, and how each kind is made.

pub(crate) mod backup;
mod contents;
mod copier;
pub(crate) mod destination;
pub(crate) mod dry_run;
mod excluded;
mod farm;
pub(crate) mod hard_links;
mod link;
pub(crate) mod name;
pub(crate) mod regular_file;
pub(crate) mod shared;
pub(crate) mod special;

pub(crate) use copier::EntryCopier;
