//! Workers that serve the same addresses: all of them start or none, and all of them end.

use crate::address::Address;
use crate::balance::{Balance, Target};
use crate::bind::{self, How, SocketPath};
use crate::error::Error;
use crate::serve::Service;
use crate::sockets::Chosen;
use crate::worker::{AcceptFailed, Ends, Snapshot, Worker, WorkerPlan};
use rustix::event::EventfdFlags;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{mpsc, Arc, Mutex, PoisonError};

/// What a group is made of.
pub struct Plan {
    /// Where it listens.
    pub addresses: Vec<Address>,
    /// Its threads; at least one.
    pub workers: Vec<WorkerPlan>,
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
    /// Runs a future in this thread, with sockets made of `config` for it and for what it spawns ([`task`](crate::task)), and
    /// returns what it gives. What it has spawned is dropped then, and connections that are open are closed: what a slow
    /// peer has not taken is lost, unless the future waits for [`Stream::close`](crate::task::Stream::close).
    ///
    /// # Errors
    /// As [`Config::build`](crate::Config::build), and those of the ring or of epoll. An error within another `block_on`.
    pub fn block_on<F: std::future::Future>(config: crate::Config, future: F) -> io::Result<F::Output> {
        crate::task::block_on(config, future)
    }

    /// Starts workers. Each ring has a service of its own, which `make` makes. When it returns they accept connections; if it fails
    /// none of them has.
    ///
    /// # Errors
    /// If an address is taken, also after a second, or may not be used; if threads or sockets cannot be made.
    pub fn start<S: Service + Send + 'static>(
        plan: Plan,
        mut make: impl FnMut(usize) -> S,
    ) -> Result<Group, StartError> {
        let first = plan.workers.iter().flat_map(|worker| &worker.rings).next();
        let how = How {
            rings: plan.workers.iter().map(|worker| worker.rings.len()).sum(),
            backlog: first.map_or(0, |config| config.backlog.unsigned_abs()),
            no_delay: first.is_none_or(|config| config.no_delay),
            one_listener: first.is_some_and(|config| config.limits.max_connections != usize::MAX),
        };
        let rings = plan.workers.iter().flat_map(|worker| &worker.rings);
        let targets = rings.map(|config| Target::new(config.limits.max_connections));
        let targets = Arc::new(targets.collect::<Vec<Target>>());
        let accept_failed = once(plan.accept_failed);
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let ended = Arc::new(rustix::event::eventfd(0, flags).map_err(io::Error::from)?);
        let (mut workers, mut chosen, mut starts) = (Vec::new(), Vec::new(), Vec::new());
        let mut attachments: Vec<Option<proactor_engine::Config>> = Vec::new();
        let mut own = 0;
        for (at, mut worker_plan) in plan.workers.into_iter().enumerate() {
            if let Some(attach) = worker_plan.shares_with.and_then(|with| attachments.get(with)) {
                let rings = worker_plan.rings.iter_mut();
                rings.for_each(|config| config.attach.clone_from(attach));
            }
            let (made, is_made) = mpsc::channel();
            let (start, listeners) = mpsc::channel();
            let rings = own..own + worker_plan.rings.len();
            own = rings.end;
            let ends = Ends {
                accept_failed: Arc::clone(&accept_failed),
                made,
                listeners,
                ended: Arc::clone(&ended),
                balance: rings
                    .clone()
                    .map(|own| Balance {
                        targets: Arc::clone(&targets),
                        own,
                    })
                    .collect(),
            };
            let services = rings.clone().map(&mut make).collect();
            let mut worker = Worker::start(format!("worker-{at}"), worker_plan, services, ends)?;
            // An error drops the other workers' listeners, which ends them.
            let made = is_made.recv().map_err(io::Error::other)??;
            for ring in rings.clone() {
                targets[ring].set_worker(Arc::clone(&worker.asked), made.waker.clone());
            }
            worker.waker = Some(made.waker);
            chosen.push(made.chosen);
            attachments.push(made.attach);
            workers.push(worker);
            starts.push((start, rings.len()));
        }
        let listeners = bind::bind(&plan.addresses, how)?;
        let mut bound = listeners.bound.into_iter();
        for (start, rings) in starts {
            let bound = bound.by_ref().take(rings).collect();
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
        let asked: Vec<Option<u64>> = self.workers.iter().map(Worker::ask_snapshot).collect();
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
