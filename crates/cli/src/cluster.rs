//! What the command needs of an engine that runs tasks on many machines. Somebody else brings one: the native binary
//! has none, Python's entry point has Ray.

use std::time::Duration;

/// A way to engines.
pub trait Cluster {
    /// Finds the engine at an address, for tasks that keep so many processors busy; what it cannot be reached for is
    /// told in words.
    fn connect(&self, address: &str, jobs: usize) -> Result<Box<dyn Tasks>, String>;
}

/// A task that has ended.
pub struct Ended {
    /// What it ran.
    pub shard: usize,
    /// Why it failed for good, if it did.
    pub problem: Option<String>,
}

/// Tasks, each of which runs a shard of one plan.
pub trait Tasks {
    /// How many run at a time; 0 if there is no machine that is large enough, yet.
    fn workers(&self) -> usize;

    /// Starts a task for each of these shards of a plan, which is JSON. Called once.
    fn start(&mut self, plan: &str, shards: &[usize]) -> Result<(), String>;

    /// The next one that has ended; `None` if none ends within this time.
    fn next(&mut self, within: Duration) -> Result<Option<Ended>, String>;

    /// Ends those that are under way.
    fn cancel(&mut self);
}
