//! Reads all files of a directory, 64 at a time, and adds up their bytes:
//! `cargo run --release --example bounded_reads -- DIRECTORY`.

use proactor_engine::op::ReadFile;
use proactor_engine::Driver;

const AT_ONCE: usize = 64;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args_os().nth(1).unwrap_or_else(|| "src/op".into());
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        paths.push(entry?.path());
    }

    let mut driver = Driver::new()?;
    let mut sum = 0;
    for (_, contents) in driver.each(AT_ONCE, paths.iter().map(ReadFile::new)) {
        sum += contents?.iter().map(|&byte| u64::from(byte)).sum::<u64>();
    }
    println!("{} files, sum {sum}", paths.len());
    Ok(())
}
