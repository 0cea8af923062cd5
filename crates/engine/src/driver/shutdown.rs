//! The end of a driver: nothing is freed that the kernel still uses.

use super::Driver;
use crate::inflight::Token;
use crate::op::{FileKind, Op};
use crate::sys::perform;
use std::io;
use std::time::Duration;

impl Driver {
    /// Waits until every accepted op is complete. The completions stay ready.
    ///
    /// # Errors
    /// `Interrupted` when a signal handler ran: call again. With a poll or a read of an idle pipe pending it waits for
    /// ever, as asked; [`cancel`](Self::cancel) those before.
    pub fn drain(&mut self) -> io::Result<()> {
        self.check_fork()?;
        while self.slab.len() > 0 {
            self.pump();
            self.collect(1, None)?;
        }
        self.announce();
        Ok(())
    }

    /// Lets what changes something run to its end, cancels the rest, and waits for the backend to let go of all of it.
    fn shut_down(&mut self) {
        for token in self.slab.tokens() {
            if self.may_stop(token) {
                self.abandon(token);
            }
        }
        while self.slab.len() > 0 {
            self.pump();
            // A lost or failed wait is no reason to free memory: try again, in the worst case for ever.
            if self.collect(1, Some(Duration::from_millis(100))).is_err() {
                std::thread::yield_now();
            }
            self.ready.clear();
            // One that came later in a chain of the kernel's could not be found before it began.
            for token in self.slab.tokens() {
                if self.slab.get_mut(token).is_some_and(|slot| slot.abandoned) {
                    self.cancel_quietly(token);
                }
            }
        }
    }

    /// A write to a pipe may wait for a reader that never comes; a write to a disk ends.
    fn may_stop(&mut self, token: Token) -> bool {
        let Some(slot) = self.slab.get_mut(token) else {
            return false;
        };
        // An op that a worker or the reactor holds has told its slot already.
        slot.stoppable
            || matches!(&slot.op, Op::WriteFile(o) if perform::writes_to_stream(o))
            || perform::transfer_file(&slot.op)
                .is_some_and(|file| file.facts().is_ok_and(|facts| facts.kind == FileKind::Stream))
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if self.is_forked() {
            // The kernel works for the parent, in the parent's memory; this copy of the buffers is free to go. Threads
            // do not exist here, so whatever waits for them or takes their locks is left alone.
            self.backend.forget_threads();
            return;
        }
        self.shut_down();
        // `backend` is declared before `slab` and `buffers`, so the ring is gone before any memory that it knew.
    }
}
