//! Jobs: the queue that holds them, the threads that take them, and how many threads there are.

pub(crate) mod limits;
pub(crate) mod queue;
pub(crate) mod run;
pub(crate) mod thread_pool;
pub(crate) mod worker;
