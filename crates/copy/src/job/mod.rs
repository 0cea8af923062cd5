//! Jobs: the queue that holds them, and how many threads take them.

pub(crate) mod limits;
pub(crate) mod queue;
pub(crate) mod thread_pool;
