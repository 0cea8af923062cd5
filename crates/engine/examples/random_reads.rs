//! Reads blocks of 4 KiB at random, past the page cache, with buffers and a file that the ring knows in advance:
//! `cargo run --release --example random_reads -- FILE READS`.

use proactor_engine::op::{Open, OpenFlags, Read};
use proactor_engine::Driver;
use std::cell::RefCell;

const BLOCK_BYTES: usize = 4096;
const AT_ONCE: u16 = 64;

/// Positions that are the same in each run.
fn blocks(count: u64, of: u64) -> impl Iterator<Item = u64> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % of
    })
    .take(count as usize)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: random_reads FILE READS")?;
    let reads = args.next().ok_or("usage: random_reads FILE READS")?.parse()?;
    let size = std::fs::metadata(&path)?.len();

    let mut driver = Driver::new()?;
    let file = driver.run(Open::new(path, OpenFlags::READ_ONLY | OpenFlags::DIRECT))?;
    let file = driver.register_file(&file)?;
    // Each read takes one of them, and each result gives one back.
    let free = RefCell::new(driver.register_buffers(AT_ONCE, BLOCK_BYTES)?);
    let ops = blocks(reads, size / BLOCK_BYTES as u64).map(|block| {
        let buffer = free
            .borrow_mut()
            .pop()
            .expect("as many buffers as reads in flight");
        Read::at(&file, block * BLOCK_BYTES as u64, buffer)
    });
    let mut sum = 0;
    for (_, done) in driver.each(AT_ONCE.into(), ops) {
        let (_, buffer) = done?;
        sum += u64::from(buffer[0]);
        free.borrow_mut().push(buffer);
    }
    println!("{reads} blocks, sum of their first bytes {sum}");
    Ok(())
}
