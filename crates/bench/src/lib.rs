//! Counters and workloads that measure proactor and its rivals.
//!
//! Uses the engine's public face only, as any Rust user could.

pub mod counters;

pub use counters::{Counters, Counts};
