//! Reads a file through the engine: `cargo run --example read_file -- Cargo.toml`.

use proactor_engine::op::{Open, OpenFlags, Read};
use proactor_engine::Driver;
use std::io::Write;

const CHUNK_BYTES: usize = 128 * 1024;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).unwrap_or_else(|| "Cargo.toml".into());
    let mut driver = Driver::new()?;
    eprintln!("{}: {}", driver.chosen().engine, driver.chosen().reason);

    let file = driver.run(Open::new(path, OpenFlags::READ_ONLY))?;

    let mut buffer = Vec::with_capacity(CHUNK_BYTES);
    let mut offset = 0;
    loop {
        // The buffer moves into the op and comes back, filled.
        let (count, filled) = driver.run(Read::at(&file, offset, buffer))?;
        if count == 0 {
            return Ok(());
        }
        std::io::stdout().write_all(&filled)?;
        offset += count as u64;
        buffer = filled;
        buffer.clear();
    }
}
