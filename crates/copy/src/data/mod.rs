//! The contents of files: reads and writes, shared blocks, copies by the kernel, verification, the rate limit.

pub(crate) mod buffer;
pub(crate) mod content;
mod copier;
pub(crate) mod copy_file_range;
pub(crate) mod readahead;
pub(crate) mod reflink;
pub(crate) mod stream;
pub(crate) mod verify;

pub(crate) use copier::{DataCopier, Helpers};
