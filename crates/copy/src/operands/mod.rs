//! From the sources and the target on the command line to entries in directories.

pub(crate) mod missing_target;
pub(crate) mod parents;
pub(crate) mod plan;
