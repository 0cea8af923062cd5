//! The walk over directories: the queue of jobs, the threads that take them, and the directories themselves.

pub(crate) mod block_groups;
pub(crate) mod directory;
pub(crate) mod engine;
pub(crate) mod entries;
mod sweep;
pub(crate) mod thread_pool;
