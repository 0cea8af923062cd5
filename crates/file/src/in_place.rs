//! Writing without a driver: what is left once nobody runs ops any more.

use crate::buffered::Buffered;
use crate::direct::make_plain;
use proactor_engine::op::Op;
use proactor_engine::{Error, Output};
use std::io;
use std::os::fd::{AsRawFd, RawFd};

impl Buffered {
    /// Writes the rest by plain blocking calls, once no driver runs ops any more. Waits for a descriptor in
    /// non-blocking mode.
    ///
    /// # Errors
    /// The first write's that fails; the rest is not tried. EINTR if a signal handler ran: call again to go
    /// on.
    pub fn write_now(&mut self) -> Result<(), Error> {
        if let (Some(_), Some(file), None) = (self.direct.take(), &self.file, &self.flight) {
            make_plain(file);
        }
        while self.flight.is_none() && self.is_dirty() {
            self.flush()?;
            let Some(Op::Write(write)) = self.start() else {
                break;
            };
            let fd = self.file.as_ref().map_or(-1, AsRawFd::as_raw_fd);
            match write_once(fd, write.buffer.as_slice(), write.offset) {
                Err(e) if e.errno() == libc::EINTR => {
                    self.put_back(write.into());
                    return Err(e);
                }
                result => self.finish(Some(write.into()), result.map(Output::Count)),
            }
        }
        self.write_error.take().map_or(Ok(()), Err)
    }
}

fn write_once(fd: RawFd, data: &[u8], offset: Option<u64>) -> Result<usize, Error> {
    loop {
        // SAFETY: the slice is alive and this long.
        let written = unsafe {
            match offset {
                Some(at) => libc::pwrite(fd, data.as_ptr().cast(), data.len(), at as i64),
                None => libc::write(fd, data.as_ptr().cast(), data.len()),
            }
        };
        let Ok(count) = usize::try_from(written) else {
            let error = last_error();
            if error.errno() != libc::EAGAIN {
                return Err(error);
            }
            wait_for_room(fd)?;
            continue;
        };
        return Ok(count);
    }
}

fn wait_for_room(fd: RawFd) -> Result<(), Error> {
    let mut poll = libc::pollfd {
        fd,
        events: libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: one entry, which is alive.
    match unsafe { libc::poll(&raw mut poll, 1, -1) } {
        -1 => Err(last_error()),
        _ => Ok(()),
    }
}

fn last_error() -> Error {
    let errno = io::Error::last_os_error().raw_os_error();
    Error::new(errno.unwrap_or(libc::EIO), "write")
}
