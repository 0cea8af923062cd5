//! Connections go to the ring with the fewest: a worker that accepts one hands it to another ring if that has fewer.
//!
//! Invariant: a ring's count includes connections that were handed to it and that it has not taken over yet, so that a burst of
//! accepts does not all go to one ring.

use crate::sockets::Waker;
use crate::worker::Asked;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// One ring, as others see it.
pub(crate) struct Target {
    count: AtomicUsize,
    /// Most connections.
    bound: usize,
    /// Connections that were handed to it; None when it takes no more.
    inbox: Mutex<Option<Vec<OwnedFd>>>,
    /// Its worker, once all have been made.
    worker: OnceLock<(Arc<Asked>, Waker)>,
}

impl Target {
    pub(crate) fn new(bound: usize) -> Self {
        Target {
            count: AtomicUsize::new(0),
            bound,
            inbox: Mutex::new(Some(Vec::new())),
            worker: OnceLock::new(),
        }
    }

    pub(crate) fn set_worker(&self, asked: Arc<Asked>, waker: Waker) {
        let _ = self.worker.set((asked, waker));
    }

    fn inbox(&self) -> MutexGuard<'_, Option<Vec<OwnedFd>>> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All rings of a group, seen from one of them.
#[derive(Clone)]
pub(crate) struct Balance {
    pub(crate) targets: Arc<Vec<Target>>,
    pub(crate) own: usize,
}

impl Balance {
    /// Hands a new connection of this ring to another one that has fewer. False: it stays, and is counted here.
    pub(crate) fn hand_over(&self, detach: impl FnOnce() -> Option<OwnedFd>) -> bool {
        let count = |at: usize| self.targets[at].count.load(Ordering::Relaxed);
        let others = (0..self.targets.len()).filter(|at| *at != self.own);
        let fewest = others.min_by_key(|at| count(*at));
        let target = fewest.filter(|at| count(*at) < count(self.own).min(self.targets[*at].bound));
        if let Some(target) = target.map(|at| &self.targets[at]) {
            let worker = target.worker.get();
            let mut inbox = target.inbox();
            if let (Some((asked, waker)), Some(inbox)) = (worker, inbox.as_mut()) {
                if let Some(connection) = detach() {
                    inbox.push(connection);
                    target.count.fetch_add(1, Ordering::Relaxed);
                    asked.mail(waker);
                    return true;
                }
            }
        }
        self.targets[self.own].count.fetch_add(1, Ordering::Relaxed);
        false
    }

    /// Takes note of a connection that has ended.
    pub(crate) fn ended(&self) {
        self.targets[self.own].count.fetch_sub(1, Ordering::Relaxed);
    }

    /// The connections that were handed to this ring. With `last` no more are.
    pub(crate) fn take(&self, last: bool) -> Vec<OwnedFd> {
        let mut inbox = self.targets[self.own].inbox();
        let taken = inbox.as_mut().map(std::mem::take).unwrap_or_default();
        if last {
            *inbox = None;
        }
        taken
    }
}
