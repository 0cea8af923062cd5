//! Reads all files of a directory, 64 at a time, and adds up their bytes: open, read and close are linked, with descriptors that
//! only the ring has. A file has to be smaller than a slot's buffer.

use io_uring::{opcode, squeue::Flags, types, IoUring};
use programs::AT_ONCE;
use std::ffi::CString;
use std::io::Error;
use std::os::unix::ffi::OsStringExt;

const BUFFER_BYTES: usize = 64 << 10;
const OPS: u64 = 3;
const READ: u64 = 1;

fn wait(ring: &mut IoUring) -> std::io::Result<()> {
    loop {
        match ring.submit_and_wait(1) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            other => return other.map(drop),
        }
    }
}

pub fn main() -> programs::Result {
    let folder = programs::args().next().ok_or("usage: bounded_reads DIRECTORY")?;
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        paths.push(CString::new(entry?.path().into_os_string().into_vec())?);
    }
    let mut ring: IoUring = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .build(AT_ONCE as u32 * OPS as u32)?;
    ring.submitter().register_files_sparse(AT_ONCE as u32)?;
    let mut buffers = vec![vec![0_u8; BUFFER_BYTES]; AT_ONCE];

    let push = |queue: &mut io_uring::SubmissionQueue<'_>, slot: usize, path: &CString, buffer: *mut u8| {
        let place = types::DestinationSlot::try_from_slot_target(slot as u32)?;
        let file = types::Fixed(slot as u32);
        let data = slot as u64 * OPS;
        let open = opcode::OpenAt::new(types::Fd(libc::AT_FDCWD), path.as_ptr())
            .file_index(Some(place))
            .build()
            .flags(Flags::IO_LINK)
            .user_data(data);
        // The close is to follow a short read, too.
        let read = opcode::Read::new(file, buffer, BUFFER_BYTES as u32)
            .build()
            .flags(Flags::IO_HARDLINK)
            .user_data(data + READ);
        let close = opcode::Close::new(file).build().user_data(data + 2);
        // SAFETY: path and buffer live until the whole chain has completed; an error ends the program.
        unsafe { queue.push_multiple(&[open, read, close]) }.map_err(|_| slot as u32)
    };

    let mut next = paths.iter();
    let mut left = vec![0; AT_ONCE];
    let mut flying = 0;
    for (slot, path) in next.by_ref().take(AT_ONCE).enumerate() {
        push(&mut ring.submission(), slot, path, buffers[slot].as_mut_ptr())
            .map_err(|slot| format!("no room for {slot}"))?;
        left[slot] = OPS;
        flying += 1;
    }
    let mut sum = 0;
    while flying > 0 {
        wait(&mut ring)?;
        let (_, mut queue, completions) = ring.split();
        for done in completions {
            let (slot, op) = ((done.user_data() / OPS) as usize, done.user_data() % OPS);
            if done.result() < 0 {
                return Err(Error::from_raw_os_error(-done.result()).into());
            }
            if op == READ {
                let count = done.result() as usize;
                if count == BUFFER_BYTES {
                    return Err("a file is larger than the buffer".into());
                }
                sum += buffers[slot][..count]
                    .iter()
                    .map(|&byte| u64::from(byte))
                    .sum::<u64>();
            }
            left[slot] -= 1;
            if left[slot] > 0 {
                continue;
            }
            match next.next() {
                Some(path) => {
                    push(&mut queue, slot, path, buffers[slot].as_mut_ptr())
                        .map_err(|slot| format!("no room for {slot}"))?;
                    left[slot] = OPS;
                }
                None => flying -= 1,
            }
        }
    }
    println!("{} files, sum {sum}", paths.len());
    Ok(())
}
