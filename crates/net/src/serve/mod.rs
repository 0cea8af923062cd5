//! Servers that the command and the examples run.

mod echo;

pub use echo::Echo;
