//! Pairs of source and target: directories and the entries in them.

pub(crate) mod created;
pub(crate) mod digest;
pub(crate) mod dir_part;
pub(crate) mod directory;
mod entry;
pub(crate) mod part;
pub(crate) mod range;
mod source;
pub(crate) mod weight;

pub(crate) use entry::Entry;
pub(crate) use source::Source;
