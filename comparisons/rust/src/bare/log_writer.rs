//! A log whose records are on the device when they count: a linked write and sync, and a ring by hand.

use io_uring::{opcode, squeue::Flags, types::Fd, IoUring};
use std::fs::File;
use std::io::Error;
use std::os::fd::AsRawFd;

const WRITE: u64 = 0;
const SYNC: u64 = 1;

/// Submits what is queued and waits for `count` completions.
fn wait(ring: &mut IoUring, count: usize) -> std::io::Result<()> {
    loop {
        match ring.submit_and_wait(count) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            other => return other.map(drop),
        }
    }
}

pub fn main() -> programs::Result {
    let mut args = programs::args();
    let path = args.next().ok_or("usage: log_writer FILE RECORDS")?;
    let records: u64 = args.next().ok_or("usage: log_writer FILE RECORDS")?.parse()?;
    let log = File::create(path)?;
    let file = Fd(log.as_raw_fd());
    let mut ring: IoUring = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .build(8)?;
    let mut at = 0;
    for number in 0..records {
        let record = format!("record {number:>10} of {records:>10}: {:>96}\n", "on the device");
        let write = opcode::Write::new(file, record.as_ptr(), record.len() as u32)
            .offset(at)
            .build()
            .flags(Flags::IO_LINK)
            .user_data(WRITE);
        let sync = opcode::Fsync::new(file)
            .flags(io_uring::types::FsyncFlags::DATASYNC)
            .build()
            .user_data(SYNC);
        // SAFETY: the record lives until both have completed.
        unsafe { ring.submission().push_multiple(&[write, sync])? };
        wait(&mut ring, 2)?;
        for done in ring.completion() {
            if done.result() < 0 {
                return Err(Error::from_raw_os_error(-done.result()).into());
            }
            if done.user_data() == WRITE && done.result() as usize != record.len() {
                return Err("a short write".into());
            }
        }
        at += record.len() as u64;
    }
    println!("{at} bytes in {records} records");
    Ok(())
}
