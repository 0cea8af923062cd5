//! What the programs of all libraries share.

pub type Result = std::result::Result<(), Box<dyn std::error::Error>>;

pub const AT_ONCE: usize = 64;
pub const BLOCK_BYTES: usize = 4096;

/// The arguments after the program's name.
pub fn args() -> impl Iterator<Item = String> {
    std::env::args().skip(2)
}
