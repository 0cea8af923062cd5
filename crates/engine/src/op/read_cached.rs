//! Several cached files in one op.

use super::ReadFile;
use crate::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// Reads those of several whole files that need no waiting: a second thread for a batch whose files are cached. The
/// result is the number of files that have an answer.
///
/// One op for many, because a cached file of 4 KiB takes 4 microseconds and handing an op to a worker and back takes
/// about as long. Every backend does it in a worker thread, one file after the other as by [`ReadFile::attempt`], so that
/// is where a file's `allocate` is called.
#[derive(Debug)]
#[non_exhaustive]
pub struct ReadCached {
    /// The files.
    pub files: Vec<ReadFile>,
    /// For each file its size in bytes or its error; `None` for one that is not cached, that is larger than 1 MiB, or
    /// that was not come to before the op was cancelled: submit it, and it goes on from where it is.
    pub answers: Vec<Option<Result<usize, Error>>>,
    /// While so many threads work on ops of this kind, another such op waits for one of them. Default: 1.
    pub most_threads: usize,
    /// Becomes true when the worker is through, just before the completion: a look at it costs less than a `wait`.
    pub through: Arc<AtomicBool>,
}

impl ReadCached {
    /// Of these files.
    ///
    /// ```
    /// # use proactor_engine::{Driver, op::{ReadCached, ReadFile}};
    /// # let mut driver = Driver::new()?;
    /// let files = ["Cargo.toml", "README.md"].map(ReadFile::new);
    /// let read = driver.run(ReadCached::new(files.into()))?;
    /// for (file, answer) in read.files.iter().zip(&read.answers) {
    ///     println!("{:?}: {answer:?}", file.path);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(files: Vec<ReadFile>) -> Self {
        ReadCached {
            answers: Vec::new(),
            files,
            most_threads: 1,
            through: Arc::default(),
        }
    }

    pub(crate) fn perform(&mut self, stop: &AtomicBool) -> i32 {
        self.answers.clear();
        if self.answers.try_reserve_exact(self.files.len()).is_err() {
            self.through.store(true, Ordering::Release);
            return -libc::ENOMEM;
        }
        for file in &mut self.files {
            let answer = if stop.load(Ordering::Relaxed) {
                None
            } else {
                file.attempt()
            };
            self.answers.push(answer);
        }
        self.through.store(true, Ordering::Release);
        self.answers.iter().flatten().count() as i32
    }
}
