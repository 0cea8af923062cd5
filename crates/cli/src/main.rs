//! The native `proactor` binary.
fn main() {}
