//! The end of a driver: nothing is freed that the kernel still uses.

use super::Driver;
use crate::inflight::Token;
use crate::op::{FileKind, Op};
use crate::sys::{self, perform};
use std::io;
use std::mem::ManuallyDrop;
use std::time::Duration;

impl Driver {
    /// Waits until every accepted op is complete. The completions stay ready.
    ///
    /// # Errors
    /// `Interrupted` when a signal handler ran: call again. With a poll or a read of an idle pipe pending it waits for
    /// ever, as asked; [`cancel`](Self::cancel) those before.
    pub fn drain(&mut self) -> io::Result<()> {
        self.check_fork()?;
        while self.accepted() > 0 {
            self.pump();
            self.collect(1, None)?;
        }
        self.announce();
        Ok(())
    }

    /// Lets what changes something on a disk run to its end, cancels the rest, and waits for all of it, as dropping the
    /// driver does. The completions stay ready: of a write to a pipe they say how much of it was taken.
    pub fn finish_all(&mut self) {
        self.wait_for_descriptors_no_more();
        for at in 0..self.slab.slots() {
            if let Some(token) = self.slab.token_at(at).filter(|token| self.may_stop(*token)) {
                self.cancel(token);
            }
        }
        loop {
            match self.drain() {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // The drop tries again.
                _ => return,
            }
        }
    }

    /// Lets what changes something run to its end, cancels the rest, and waits for the backend to let go of all of it. False
    /// if it cannot be waited for any more.
    fn shut_down(&mut self) -> bool {
        self.wait_for_descriptors_no_more();
        for at in 0..self.slab.slots() {
            if let Some(token) = self.slab.token_at(at).filter(|token| self.may_stop(*token)) {
                self.abandon(token);
            }
        }
        while self.slab.len() > 0 {
            self.pump();
            // A lost or failed wait is no reason to free memory: try again, in the worst case for ever.
            match self.collect(1, Some(Duration::from_millis(100))) {
                Err(e) if sys::is_forbidden(&e) => return false,
                Err(_) => std::thread::yield_now(),
                Ok(()) => {}
            }
            self.drop_ready();
            // One that came later in a chain of the kernel's could not be found before it began.
            for at in 0..self.slab.slots() {
                let token = self.slab.token_at(at);
                let abandoned = |token: &Token| self.slab.get_mut(*token).is_some_and(|slot| slot.abandoned);
                if let Some(token) = token.filter(abandoned) {
                    self.cancel_quietly(token);
                }
            }
        }
        // A borrower's entries go last: ops may wait for what they bring, and nothing names them one by one.
        !self
            .drain_events(&mut Vec::new())
            .is_err_and(|e| sys::is_forbidden(&e))
    }

    /// The kernel may still write to the buffers, and nobody will hear of it: they stay where they are, for ever, and so
    /// does what the backend holds.
    fn leave_behind(&mut self) {
        self.drop_ready();
        for at in 0..self.slab.slots() {
            let token = self.slab.token_at(at);
            let slot = token.and_then(|token| self.slab.get_mut(token));
            drop(slot.and_then(|slot| slot.permit.take()));
        }
        std::mem::forget(std::mem::take(&mut self.slab));
        std::mem::forget(self.buffers.take());
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
            // SAFETY: dropped only here, and not used after.
            unsafe { ManuallyDrop::drop(&mut self.backend) };
            return;
        }
        if !self.shut_down() {
            return self.leave_behind();
        }
        // The ring is gone before any memory that it knew: `slab` and `buffers` go after this.
        // SAFETY: dropped only here, and not used after.
        unsafe { ManuallyDrop::drop(&mut self.backend) };
    }
}
