//! Reads blocks of 4 KiB at random, past the page cache. tokio's files read through a buffer of their own, which is not aligned: each
//! read is one of std, on tokio's blocking threads.

use futures_util::stream::{self, StreamExt};
use programs::{AT_ONCE, BLOCK_BYTES};
use std::cell::RefCell;
use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::Arc;

#[repr(align(4096))]
struct Block([u8; BLOCK_BYTES]);

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

#[tokio::main]
pub async fn main() -> programs::Result {
    let mut args = programs::args();
    let path = args.next().ok_or("usage: random_reads FILE READS")?;
    let reads = args.next().ok_or("usage: random_reads FILE READS")?.parse()?;
    let size = std::fs::metadata(&path)?.len();
    let mut options = OpenOptions::new();
    let file = &Arc::new(options.read(true).custom_flags(libc::O_DIRECT).open(path)?);
    let block = || Box::new(Block([0; BLOCK_BYTES]));
    let free = &RefCell::new(std::iter::repeat_with(block).take(AT_ONCE).collect::<Vec<_>>());
    let read = |block| async move {
        let mut buffer = free
            .borrow_mut()
            .pop()
            .expect("as many buffers as reads in flight");
        let file = Arc::clone(file);
        tokio::task::spawn_blocking(move || {
            file.read_exact_at(&mut buffer.0, block * BLOCK_BYTES as u64)?;
            Ok::<_, std::io::Error>(buffer)
        })
        .await
    };
    let mut done = stream::iter(blocks(reads, size / BLOCK_BYTES as u64))
        .map(read)
        .buffer_unordered(AT_ONCE);
    let mut sum = 0;
    while let Some(buffer) = done.next().await {
        let buffer = buffer??;
        sum += u64::from(buffer.0[0]);
        free.borrow_mut().push(buffer);
    }
    println!("{reads} blocks, sum of their first bytes {sum}");
    Ok(())
}
