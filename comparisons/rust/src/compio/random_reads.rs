//! Reads blocks of 4 KiB at random, past the page cache. compio has no registered buffers or files; its buffers have to be aligned
//! by the program.

use compio::buf::{BufResult, IoBuf, IoBufMut, SetLen};
use compio::fs::OpenOptions;
use compio::io::AsyncReadAt;
use futures_util::stream::{self, StreamExt};
use programs::{AT_ONCE, BLOCK_BYTES};
use std::cell::RefCell;
use std::mem::MaybeUninit;

#[repr(align(4096))]
struct Block([u8; BLOCK_BYTES]);

struct Aligned {
    block: Box<Block>,
    len: usize,
}

impl IoBuf for Aligned {
    fn as_init(&self) -> &[u8] {
        &self.block.0[..self.len]
    }
}

impl SetLen for Aligned {
    unsafe fn set_len(&mut self, len: usize) {
        self.len = len;
    }
}

impl IoBufMut for Aligned {
    fn as_uninit(&mut self) -> &mut [MaybeUninit<u8>] {
        // SAFETY: the block is initialised, and nobody de-initialises it.
        unsafe { &mut *(&raw mut self.block.0 as *mut [MaybeUninit<u8>; BLOCK_BYTES]) }
    }
}

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

#[compio::main]
pub async fn main() -> programs::Result {
    let mut args = programs::args();
    let path = args.next().ok_or("usage: random_reads FILE READS")?;
    let reads = args.next().ok_or("usage: random_reads FILE READS")?.parse()?;
    let size = std::fs::metadata(&path)?.len();
    let mut options = OpenOptions::new();
    let file = &options.read(true).custom_flags(libc::O_DIRECT).open(path).await?;
    let aligned = || Aligned {
        block: Box::new(Block([0; BLOCK_BYTES])),
        len: 0,
    };
    let free = &RefCell::new(std::iter::repeat_with(aligned).take(AT_ONCE).collect::<Vec<_>>());
    let read = |block| async move {
        let mut buffer = free
            .borrow_mut()
            .pop()
            .expect("as many buffers as reads in flight");
        buffer.len = 0;
        file.read_at(buffer, block * BLOCK_BYTES as u64).await
    };
    let mut done = stream::iter(blocks(reads, size / BLOCK_BYTES as u64))
        .map(read)
        .buffer_unordered(AT_ONCE);
    let mut sum = 0;
    while let Some(BufResult(count, buffer)) = done.next().await {
        count?;
        sum += u64::from(buffer.as_init()[0]);
        free.borrow_mut().push(buffer);
    }
    println!("{reads} blocks, sum of their first bytes {sum}");
    Ok(())
}
