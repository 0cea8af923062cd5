//! Reads blocks of 4 KiB at random, past the page cache, with registered buffers and a registered file, and a ring by hand.

use io_uring::{opcode, squeue::Entry, types::Fixed, IoUring};
use programs::{AT_ONCE, BLOCK_BYTES};
use std::fs::OpenOptions;
use std::io::Error;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

#[derive(Clone)]
#[repr(align(4096))]
struct Block([u8; BLOCK_BYTES]);

fn wait(ring: &mut IoUring) -> std::io::Result<()> {
    loop {
        match ring.submit_and_wait(1) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            other => return other.map(drop),
        }
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

pub fn main() -> programs::Result {
    let mut args = programs::args();
    let path = args.next().ok_or("usage: random_reads FILE READS")?;
    let reads = args.next().ok_or("usage: random_reads FILE READS")?.parse()?;
    let size = std::fs::metadata(&path)?.len();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(path)?;
    let mut buffers = vec![Block([0; BLOCK_BYTES]); AT_ONCE];
    let mut ring: IoUring = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .build(AT_ONCE as u32)?;
    let iovecs: Vec<_> = buffers
        .iter_mut()
        .map(|block| libc::iovec {
            iov_base: block.0.as_mut_ptr().cast(),
            iov_len: BLOCK_BYTES,
        })
        .collect();
    // SAFETY: the buffers outlive the ring's use of them: this function waits for every read, but on an error, which ends the program.
    unsafe { ring.submitter().register_buffers(&iovecs)? };
    ring.submitter().register_files(&[file.as_raw_fd()])?;

    let entry = |slot: usize, block: u64| -> Entry {
        opcode::ReadFixed::new(
            Fixed(0),
            iovecs[slot].iov_base.cast(),
            BLOCK_BYTES as u32,
            slot as u16,
        )
        .offset(block * BLOCK_BYTES as u64)
        .build()
        .user_data(slot as u64)
    };
    let mut blocks = blocks(reads, size / BLOCK_BYTES as u64);
    let mut flying = 0;
    for (slot, block) in blocks.by_ref().take(AT_ONCE).enumerate() {
        // SAFETY: as above.
        unsafe { ring.submission().push(&entry(slot, block))? };
        flying += 1;
    }
    let mut sum = 0;
    while flying > 0 {
        wait(&mut ring)?;
        let (_, mut queue, done) = ring.split();
        for done in done {
            if done.result() < 0 {
                return Err(Error::from_raw_os_error(-done.result()).into());
            }
            let slot = done.user_data() as usize;
            // SAFETY: the read into it has completed.
            sum += u64::from(unsafe { iovecs[slot].iov_base.cast::<u8>().read() });
            match blocks.next() {
                // SAFETY: as above.
                Some(block) => unsafe { queue.push(&entry(slot, block))? },
                None => flying -= 1,
            }
        }
    }
    println!("{reads} blocks, sum of their first bytes {sum}");
    Ok(())
}
