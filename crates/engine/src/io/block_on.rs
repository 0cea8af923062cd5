//! The smallest executor: one future, in this thread.

use super::Io;
use crate::ring;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::time::Duration;

/// Wakes the future, from this thread or another.
struct Signal {
    woken: AtomicBool,
    /// The thread is in the kernel, or about to be.
    sleeping: AtomicBool,
    waker: ring::Waker,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        // Either this sees that the thread sleeps, or that sees `woken` before it does.
        if self.sleeping.load(Ordering::SeqCst) {
            self.waker.wake();
        }
    }
}

impl Io {
    /// Runs one future to its end, and the ops of whatever else uses this `Io` meanwhile: for tests and tools. Its waker
    /// may be used by any thread.
    ///
    /// # Errors
    /// As [`turn`](Self::turn). What the future gives is inside.
    pub fn block_on<F: Future>(&self, future: F) -> io::Result<F::Output> {
        let mut future = pin!(future);
        let signal = Arc::new(Signal {
            woken: AtomicBool::new(false),
            sleeping: AtomicBool::new(false),
            waker: self.waker()?,
        });
        let waker = Arc::clone(&signal).into();
        let mut cx = Context::from_waker(&waker);
        loop {
            signal.woken.store(false, Ordering::SeqCst);
            if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
                return Ok(output);
            }
            signal.sleeping.store(true, Ordering::SeqCst);
            let woken = signal.woken.load(Ordering::SeqCst);
            let turned = self.turn(woken.then_some(Duration::ZERO));
            signal.sleeping.store(false, Ordering::SeqCst);
            turned?;
        }
    }
}
