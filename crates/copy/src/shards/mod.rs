//! A copy in parts, for a tree that is too big for one machine: [`plan`], then [`run_shard`] for each shard, in any
//! order, on any machines that share the file systems of source and target, and [`finish`].
//!
//! The plan is small, whatever the tree: a shard is a range of paths (`range.rs`), and the process that runs it walks the tree
//! itself and passes over what is not in the range. Knows the copier through `plan.rs` and `run.rs` only, and the
//! copier knows of it what `part.rs` says. Nothing below the target is written twice at once under one name: two
//! attempts at one shard harm each other no more than two programs that read.

mod error;
mod observers;
mod place;
mod plan;
mod records;
mod steps;

pub use error::Error;
pub use plan::{Plan, Shard};
pub use steps::{finish, plan, run_shard};
