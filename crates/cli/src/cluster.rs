//! Interface to an engine that runs tasks on many machines. The caller provides one: the native binary has
//! none, Python's entry point has Ray.

use std::time::Duration;

/// Access to engines.
pub trait Cluster {
    /// Connects to the engine at an address, for tasks that use `jobs` processors each. The error is a
    /// sentence that says why it cannot be reached.
    fn connect(&self, address: &str, jobs: usize) -> Result<Box<dyn Tasks>, String>;
}

/// A task that has ended.
pub struct Ended {
    /// Number of the shard that it ran.
    pub shard: usize,
    /// Reason why it failed for good, if it did.
    pub problem: Option<String>,
}

/// Tasks, each of which runs a shard of one plan.
pub trait Tasks {
    /// Returns how many tasks run at a time; 0 if no machine is large enough yet.
    fn workers(&self) -> usize;

    /// Starts a task for each of these shards of a plan, which is JSON. Called once.
    fn start(&mut self, plan: &str, shards: &[usize]) -> Result<(), String>;

    /// Returns the next task that has ended; `None` if none ends within this time.
    fn next(&mut self, within: Duration) -> Result<Option<Ended>, String>;

    /// Cancels the tasks that are running.
    fn cancel(&mut self);
}
