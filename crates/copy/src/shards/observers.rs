//! Between a part of a copy and the observer of it.

use crate::api::error::Diagnostic;
use crate::api::observer::{Copied, Observer};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Passes on nothing but the wish to stop: what a plan meets is not copied yet.
pub(crate) struct Quiet<'a>(pub(crate) &'a dyn Observer);

impl Observer for Quiet<'_> {
    fn diagnostic(&self, _: &Diagnostic) {}

    fn stop(&self) -> bool {
        self.0.stop()
    }
}

/// Upper bound on the diagnostics that are kept: of a million failures the first ones are enough, and the report
/// counts them all.
const MOST_TOLD: usize = 1000;

/// An attempt looks this often whether another one was quicker.
const LOOK_MS: u64 = 500;

/// Keeps the diagnostics, and ends an attempt that is not needed any more.
pub(crate) struct Recorder<'a> {
    observer: &'a dyn Observer,
    is_done: &'a dyn IsDone,
    told: Mutex<Vec<Diagnostic>>,
    begin: Instant,
    look_ms: AtomicU64,
}

/// Returns true if another attempt has done the shard.
pub(crate) trait IsDone: Fn() -> bool + Sync {}

impl<F: Fn() -> bool + Sync> IsDone for F {}

impl<'a> Recorder<'a> {
    pub(crate) fn new(observer: &'a dyn Observer, is_done: &'a dyn IsDone) -> Recorder<'a> {
        Recorder {
            observer,
            is_done,
            told: Mutex::default(),
            begin: Instant::now(),
            look_ms: AtomicU64::new(LOOK_MS),
        }
    }

    pub(crate) fn told(&self) -> Vec<Diagnostic> {
        std::mem::take(&mut *self.told.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn is_late(&self) -> bool {
        let now = self.begin.elapsed().as_millis() as u64;
        let next = self.look_ms.load(Relaxed);
        // One of the threads looks.
        let is_time = now >= next
            && self
                .look_ms
                .compare_exchange(next, now + LOOK_MS, Relaxed, Relaxed)
                .is_ok();
        is_time && (self.is_done)()
    }
}

impl Observer for Recorder<'_> {
    fn copied(&self, entry: &Copied<'_>) {
        self.observer.copied(entry);
    }

    fn skipped(&self, entry: &Copied<'_>) {
        self.observer.skipped(entry);
    }

    fn resumed(&self, entry: &Copied<'_>) {
        self.observer.resumed(entry);
    }

    fn excluded(&self, entry: &Copied<'_>) {
        self.observer.excluded(entry);
    }

    fn progress(&self, bytes: u64) {
        self.observer.progress(bytes);
    }

    fn advanced(&self, part: f64) {
        self.observer.advanced(part);
    }

    fn measures(&self) -> bool {
        self.observer.measures()
    }

    fn diagnostic(&self, diagnostic: &Diagnostic) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() < MOST_TOLD {
            told.push(diagnostic.another());
        }
        drop(told);
        self.observer.diagnostic(diagnostic);
    }

    fn stop(&self) -> bool {
        self.observer.stop() || self.is_late()
    }
}
