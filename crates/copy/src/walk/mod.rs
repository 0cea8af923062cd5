//! The walk over directories: the threads that take jobs, and the directories themselves.

pub(crate) mod block_groups;
mod entries;
mod finish;
pub(crate) mod maker;
pub(crate) mod run;
mod sweep;
pub(crate) mod thread_pool;
pub(crate) mod top;
mod trees;
pub(crate) mod walker;
