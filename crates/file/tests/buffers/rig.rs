//! A buffered file and what drives it.

use proactor_engine::op::{Op, Open, OpenFlags};
use proactor_engine::{Completion, Driver, Error};
use proactor_file::{Buffered, Options, Step, Transfer};
use std::ffi::CString;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub const MEMORY_ALIGNMENT: usize = 16;

/// Drives one file, and takes an op's result only when it has to.
pub struct Rig {
    pub driver: Driver,
    pub file: Buffered,
    pub fails: bool,
    /// The next op is put back once.
    pub puts_back: bool,
}

impl Rig {
    pub fn open(driver: Driver, path: &Path, options: Options, flags: OpenFlags) -> Self {
        let c_path = CString::new(path.as_os_str().as_bytes()).unwrap();
        let mut driver = driver;
        let fd = loop {
            // The simulator may fail an open too.
            if let Ok(file) = driver.run(Open::new(
                c_path.clone(),
                OpenFlags::READ_WRITE | OpenFlags::CREATE | flags,
            )) {
                break file;
            }
        };
        Rig {
            driver,
            file: Buffered::new(fd, options),
            fails: false,
            puts_back: false,
        }
    }

    pub fn start(&mut self) {
        if let Some(op) = self.file.start() {
            self.check(&op);
            self.driver.submit(op).unwrap();
        }
    }

    /// What O_DIRECT would refuse.
    pub fn check(&self, op: &Op) {
        let Some(direct) = self.file.direct() else { return };
        let fd = self.file.file().unwrap().as_raw_fd();
        let (file, offset, buffer) = match op {
            Op::Read(o) => (&o.file, o.offset, &o.buffer),
            Op::Write(o) => (&o.file, o.offset, &o.buffer),
            Op::ReadV(_) => panic!("several buffers are never aligned"),
            _ => return,
        };
        if file.as_raw_fd() == fd {
            assert!(offset.unwrap().is_multiple_of(direct.block() as u64));
            assert!(buffer.capacity().is_multiple_of(direct.block()));
            assert!(buffer.as_slice().as_ptr().addr().is_multiple_of(MEMORY_ALIGNMENT));
        }
    }

    pub fn take(&mut self) {
        self.start();
        let mut done: Vec<Completion> = Vec::new();
        while done.is_empty() {
            self.driver.wait(1, 1, None, &mut done).unwrap();
        }
        let done = done.remove(0);
        self.file.finish(done.op, done.result);
    }

    pub fn once<T>(
        &mut self,
        mut ask: impl FnMut(&mut Buffered) -> Result<Step<T>, Error>,
    ) -> Result<T, Error> {
        loop {
            let step = ask(&mut self.file);
            match step? {
                Step::Ready(value) => {
                    // What is on its way in the background.
                    if self.file.wants_op() {
                        self.start();
                    }
                    return Ok(value);
                }
                Step::Blocked => {
                    self.puts_back = !self.puts_back;
                    match self.file.start() {
                        Some(op) if self.puts_back => self.file.put_back(op),
                        Some(op) => {
                            self.check(&op);
                            self.driver.submit(op).unwrap();
                            self.take();
                        }
                        None => self.take(),
                    }
                }
            }
        }
    }

    /// A transfer past the buffers, while their own ops may be in flight.
    pub fn transfer(&mut self, mut transfer: Transfer) -> usize {
        while let Some(op) = transfer.op() {
            self.check(&op);
            let token = self.driver.submit(op).unwrap();
            let done = self.driver.completion_of(token).unwrap();
            if let Err(e) = transfer.took(done.op, done.result) {
                assert!(INJECTED.contains(&e.errno()), "{e}");
                return transfer.done();
            }
        }
        transfer.done()
    }

    /// As a caller who tries again after an error.
    pub fn until<T>(&mut self, mut ask: impl FnMut(&mut Buffered) -> Result<Step<T>, Error>) -> T {
        loop {
            match self.once(&mut ask) {
                Ok(value) => return value,
                Err(e) => assert!(INJECTED.contains(&e.errno()), "{e}"),
            }
        }
    }
}

pub const INJECTED: [i32; 7] = [
    libc::EIO,
    libc::EINTR,
    libc::ENOSPC,
    libc::EDQUOT,
    libc::ENOMEM,
    libc::EMFILE,
    libc::ENFILE,
];
