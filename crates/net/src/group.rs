//! Workers that serve the same addresses: all of them start or none, and all of them end.

use crate::address::Address;
use crate::bind::{self, How, SocketPath};
use crate::config::Config;
use crate::error::Error;
use crate::serve::Service;
use crate::sockets::Chosen;
use crate::worker::{AcceptFailed, Ends, Snapshot, Worker};
use rustix::event::EventfdFlags;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{mpsc, Arc, Mutex, PoisonError};

/// What a group is made of.
pub struct Plan {
    /// Where it listens.
    pub addresses: Vec<Address>,
    /// What each worker's sockets are made of; at least one.
    pub workers: Vec<Config>,
    /// Is told why no connection can be accepted for now: once for each reason, from a worker's thread.
    pub accept_failed: Box<dyn Fn(&io::Error) + Send + Sync>,
}

/// Why a group was not started.
#[derive(Debug)]
pub enum StartError {
    /// An address cannot be listened on.
    Listen(Error),
    /// A worker's thread or sockets cannot be made.
    Worker(io::Error),
}

impl From<Error> for StartError {
    fn from(error: Error) -> Self {
        StartError::Listen(error)
    }
}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        StartError::Worker(error)
    }
}

/// Workers that are running.
pub struct Group {
    workers: Vec<Worker>,
    chosen: Vec<Chosen>,
    addresses: Vec<Address>,
    ended: Arc<OwnedFd>,
    /// Removed with the group.
    _paths: Vec<SocketPath>,
}

/// Tells of each reason once.
fn once(tell: Box<dyn Fn(&io::Error) + Send + Sync>) -> AcceptFailed {
    let told = Mutex::new(BTreeSet::new());
    Arc::new(move |error: &io::Error| {
        let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.insert(error.raw_os_error()) {
            tell(error);
        }
    })
}

impl Group {
    /// Starts workers, each with a service of its own that `make` makes. When it returns they accept connections; if it fails
    /// none of them has.
    ///
    /// # Errors
    /// If an address is taken, also after a second, or may not be used; if threads or sockets cannot be made.
    pub fn start<S: Service + Send + 'static>(
        plan: Plan,
        mut make: impl FnMut(usize) -> S,
    ) -> Result<Group, StartError> {
        let how = How {
            workers: plan.workers.len(),
            backlog: plan
                .workers
                .first()
                .map_or(0, |config| config.backlog.unsigned_abs()),
            no_delay: plan.workers.first().is_none_or(|config| config.no_delay),
        };
        let accept_failed = once(plan.accept_failed);
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let ended = Arc::new(rustix::event::eventfd(0, flags).map_err(io::Error::from)?);
        let (mut workers, mut chosen, mut starts) = (Vec::new(), Vec::new(), Vec::new());
        for (at, config) in plan.workers.into_iter().enumerate() {
            let (made, is_made) = mpsc::channel();
            let (start, listeners) = mpsc::channel();
            let name = format!("worker-{at}");
            let told = Arc::clone(&accept_failed);
            let ends = Ends {
                accept_failed: told,
                made,
                listeners,
                ended: Arc::clone(&ended),
            };
            let mut worker = Worker::start(name, config, make(at), ends)?;
            // An error drops the other workers' listeners, which ends them.
            let it = is_made.recv().map_err(io::Error::other)??;
            chosen.push(worker.set_waker(it));
            workers.push(worker);
            starts.push(start);
        }
        let listeners = bind::bind(&plan.addresses, how)?;
        for (start, bound) in starts.into_iter().zip(listeners.bound) {
            start.send(bound).map_err(io::Error::other)?;
        }
        Ok(Group {
            workers,
            chosen,
            addresses: listeners.addresses,
            ended,
            _paths: listeners.paths,
        })
    }

    /// Where the group listens, with the ports that the kernel has chosen.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// What each worker's sockets are on, and why.
    pub fn chosen(&self) -> &[Chosen] {
        &self.chosen
    }

    /// What each worker has done so far, or up to its last answer if it is busy with one turn for half a second.
    pub fn snapshots(&self) -> Vec<Snapshot> {
        let asked: Vec<u64> = self.workers.iter().map(Worker::ask_snapshot).collect();
        let answers = self.workers.iter().zip(asked);
        answers.map(|(worker, number)| worker.snapshot(number)).collect()
    }

    /// Becomes readable when a worker has ended, until [`has_finished`](Self::has_finished) is asked.
    pub fn ended(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }

    /// Accepts no connection any more; each worker ends with its last one.
    pub fn drain(&self) {
        self.workers.iter().for_each(Worker::drain);
    }

    /// Closes all connections; what is not sent after a fifth of a second is lost.
    pub fn stop(&self) {
        self.workers.iter().for_each(Worker::stop);
    }

    /// Whether all workers have ended.
    pub fn is_finished(&self) -> bool {
        self.workers.iter().all(Worker::is_finished)
    }

    /// Whether a worker has ended.
    pub fn has_finished(&self) -> bool {
        // EAGAIN: no worker has ended since it was asked last.
        let _ = rustix::io::read(self.ended.as_fd(), &mut [0u8; 8]);
        self.workers.iter().any(Worker::is_finished)
    }

    /// Waits for the end of all workers.
    ///
    /// # Errors
    /// Why the first one that failed did.
    pub fn join(self) -> io::Result<()> {
        let ends: Vec<io::Result<()>> = self.workers.into_iter().map(Worker::join).collect();
        ends.into_iter().collect()
    }
}
