//! `lock` and `unlock`.

use super::binary::BinaryFile;
use super::op::{os_error, FileOp, GivenUp, Job, Next};
use proactor_engine::op::File;
use proactor_engine::{Completion, Error};
use proactor_file::Lock;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

fn open_file(file: &Bound<'_, BinaryFile>) -> PyResult<File> {
    let handle = file.borrow().core.file().cloned();
    handle.ok_or_else(|| PyValueError::new_err("I/O operation on closed file."))
}

struct Locking {
    lock: Lock,
    blocking: bool,
    /// Kept while somebody else has the lock, to be able to give it back.
    waiting: Option<File>,
}

impl Job for Locking {
    fn step(&mut self, file: &Bound<'_, BinaryFile>) -> PyResult<Next> {
        // Closed while it waited: somebody else may share what was locked.
        let handle = open_file(file).inspect_err(|_| self.undo(file))?;
        if self.waiting.is_none() && !self.lock.attempt(&handle).map_err(|e| os_error(file, &e))? {
            if !self.blocking {
                return Err(os_error(file, &Error::new(libc::EAGAIN, "lock")));
            }
            let op = self.lock.wait(&handle);
            self.waiting = Some(handle);
            return Ok(Next::Wait(op.into()));
        }
        // Whoever had the lock before may have changed anything.
        file.borrow_mut().core.changed(0, u64::MAX);
        Ok(Next::Done(None))
    }

    fn took(&mut self, file: &Bound<'_, BinaryFile>, completion: Completion) -> PyResult<()> {
        completion.result.map(drop).map_err(|e| os_error(file, &e))
    }

    fn given_up(&self) -> GivenUp {
        GivenUp::Stop
    }

    fn limited(&self) -> bool {
        false
    }

    fn settles(&self) -> bool {
        false
    }

    fn undo(&mut self, _file: &Bound<'_, BinaryFile>) {
        if let Some(handle) = &self.waiting {
            let _ = self.lock.release(handle);
        }
    }
}

struct Unlocking {
    lock: Lock,
    failed: Option<PyErr>,
}

impl Job for Unlocking {
    fn step(&mut self, file: &Bound<'_, BinaryFile>) -> PyResult<Next> {
        let handle = open_file(file)?;
        let released = self.lock.release(&handle).map_err(|e| os_error(file, &e));
        match self.failed.take() {
            Some(e) => Err(e),
            None => released.map(|()| Next::Done(None)),
        }
    }

    fn took(&mut self, _file: &Bound<'_, BinaryFile>, _completion: Completion) -> PyResult<()> {
        Ok(())
    }

    fn given_up(&self) -> GivenUp {
        GivenUp::Abandon
    }

    /// Others must not wait for a disk that is full.
    fn unsettled(&mut self, error: PyErr) -> PyResult<()> {
        self.failed.get_or_insert(error);
        Ok(())
    }
}

impl BinaryFile {
    pub(super) fn locking(slf: &Bound<'_, Self>, lock: Lock, blocking: bool) -> PyResult<FileOp> {
        slf.borrow().check_open()?;
        let job = Locking {
            lock,
            blocking,
            waiting: None,
        };
        Ok(FileOp::new(slf, "lock", job))
    }

    pub(super) fn unlocking(slf: &Bound<'_, Self>, lock: Lock) -> PyResult<FileOp> {
        slf.borrow().check_open()?;
        Ok(FileOp::new(slf, "unlock", Unlocking { lock, failed: None }))
    }
}
