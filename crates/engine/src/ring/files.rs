//! The ring's table of registered files, which is made on first use.

use super::Ring;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Free places in the table.
pub(super) struct FileTable {
    room: u32,
    made: bool,
    free: VecDeque<u32>,
}

impl FileTable {
    pub(super) fn new(room: u32) -> Self {
        FileTable {
            room,
            made: false,
            free: VecDeque::new(),
        }
    }
}

impl Ring {
    /// Registers a file and returns its index.
    ///
    /// # Errors
    /// ENFILE when the table is full; EMFILE where the table has more places than RLIMIT_NOFILE allows.
    pub(crate) fn register_file(&mut self, fd: BorrowedFd<'_>) -> io::Result<u32> {
        let table = &mut self.files;
        if !table.made {
            let room = table.room as usize;
            let mut empty = Vec::new();
            empty.try_reserve_exact(room)?;
            table.free.try_reserve_exact(room)?;
            empty.resize(room, -1); // allocates: there is room
                                    // An empty table of -1 entries works since Linux 5.5; the sparse registration only since 5.19.
            self.ring.submitter().register_files(&empty)?;
            table.made = true;
            table.free.extend(0..table.room); // allocates: there is room
        }
        let index = table
            .free
            .pop_front()
            .ok_or_else(|| io::Error::from_raw_os_error(libc::ENFILE))?;
        match self
            .ring
            .submitter()
            .register_files_update(index, &[fd.as_raw_fd()])
        {
            Ok(_) => Ok(index),
            Err(e) => {
                table.free.push_back(index);
                Err(e)
            }
        }
    }

    /// Frees a file's place in the table.
    ///
    /// # Errors
    /// Errors of io_uring_register.
    pub(crate) fn unregister_file(&mut self, index: u32) -> io::Result<()> {
        // Entries that name the place must have been read before it is empty.
        while self.queued() > 0 {
            self.hand_over()?;
            std::thread::yield_now();
        }
        self.ring.submitter().register_files_update(index, &[-1])?;
        // Last in the queue, so that a stale handle is unlikely to meet another file.
        self.files.free.push_back(index);
        Ok(())
    }
}
