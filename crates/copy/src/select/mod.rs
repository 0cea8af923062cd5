//! Which entries a copy takes: filter rules and their patterns.

pub(crate) mod filter;
pub(crate) mod glob;
#[cfg(test)]
mod glob_fuzz;
