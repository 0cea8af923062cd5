//! `Engine::Uring`: a ring for each thread, with many files in it at once, each a small state machine that completions
//! drive (`landed.rs`).
//!
//! Invariants: a buffer is with the kernel or here, never both; a descriptor that an op names is closed after that op has
//! completed, also when a thread panics.

mod copier;
mod flight;
mod landed;
mod lost;
mod ring;

pub(crate) use copier::RingCopier;
pub(crate) use lost::Lost;
