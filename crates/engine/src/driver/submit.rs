//! How ops are accepted. Invariant: a refused op has changed nothing.

use super::Driver;
use crate::backend::{Raw, Taken};
use crate::error::{Error, Refusal, SubmitError};
use crate::inflight::{State, Token};
use crate::inline;
use crate::op::{Op, Options};
use std::collections::{TryReserveError, VecDeque};

impl Driver {
    /// Accepts one op.
    ///
    /// Nothing is in the kernel's hands before [`flush`](Self::flush) or [`wait`](Self::wait), unless the queue fills up
    /// before; ops that could be finished at once are complete already.
    ///
    /// # Errors
    /// The op comes back when the queue and the backlog are full, when the op can never succeed (a vector of more than
    /// 1,024 buffers, an offset beyond 2^63, a read into read-only memory), in a forked child, or without memory for it.
    #[inline]
    pub fn submit(&mut self, op: impl Into<Op>) -> Result<Token, SubmitError> {
        self.submit_with(op, Options::default())
    }

    /// Accepts one op with a priority, a notification, or without the attempt to finish it at once.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    #[inline]
    pub fn submit_with(&mut self, op: impl Into<Op>, options: Options) -> Result<Token, SubmitError> {
        let op = op.into();
        let is_plain = op.is_plain();
        self.accept(op, is_plain, options, false)
    }

    /// Accepts one op with a number of the caller's, which each of its completions has as its `data`: the place of the op
    /// in a table of the caller's, say, that needs no map from tokens.
    ///
    /// ```
    /// use proactor_engine::{Driver, op::Nop};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut driver = Driver::new()?;
    /// for place in 0..3 {
    ///     driver.submit_with_data(Nop, place)?;
    /// }
    /// let mut done = Vec::new();
    /// driver.wait_for(3, &mut done)?;
    /// let mut places: Vec<u64> = done.iter().map(|completion| completion.data).collect();
    /// places.sort();
    /// assert_eq!(places, [0, 1, 2]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    pub fn submit_with_data(&mut self, op: impl Into<Op>, data: u64) -> Result<Token, SubmitError> {
        let options = Options {
            data,
            ..Options::default()
        };
        self.submit_with(op, options)
    }

    /// `is_plain`: what the op says of itself. `awaited`: a future takes the result.
    pub(super) fn accept(
        &mut self,
        mut op: Op,
        is_plain: bool,
        options: Options,
        awaited: bool,
    ) -> Result<Token, SubmitError> {
        if !is_plain || self.is_crowded(1) || self.refusal(1).is_some() {
            if let Err(refusal) = self.admit_and_make_room(&mut op, &options) {
                return Err(refused(op, refusal));
            }
        }
        // The priority concerns the device, which an inline op does not touch. But who may not use a class is to hear of it.
        let inline = self.inline && !options.no_inline && !options.priority.is_real_time();
        let (token, slot) = self.slab.occupy();
        slot.fill(op, options);
        slot.awaited = awaited;
        self.pending += 1;
        if inline {
            if !self.try_inline(token) {
                self.backlog.push_back(token);
                self.pump_one();
            }
            return Ok(token);
        }
        // Nothing is before it, and it needs nothing that it would have to wait for.
        let at_once = self.backlog.is_empty() && self.parking.is_empty() && slot.op.opens().is_none();
        if at_once && self.in_flight < self.depth && self.backend.submit(token, slot) == Taken::Yes {
            slot.state = State::InFlight;
            self.in_flight += 1;
            return Ok(token);
        }
        self.backlog.push_back(token);
        if !at_once {
            self.pump_one();
        }
        Ok(token)
    }

    /// Hands the op that has just come into the backlog on, unless others are before it.
    #[inline(never)]
    fn pump_one(&mut self) {
        if self.backlog.len() == 1 {
            self.pump();
        }
    }

    #[inline(never)]
    fn try_inline(&mut self, token: Token) -> bool {
        let Some(slot) = self.slab.get_mut(token) else {
            return false;
        };
        let Some(res) = inline::attempt(&mut slot.op, &mut slot.skip) else {
            return false;
        };
        self.finish(Raw::new(token, res), true);
        self.announce();
        true
    }

    /// Accepts ops until one is refused; what is left in `ops` is untouched.
    ///
    /// # Errors
    /// Only if the very first is refused. That one is then in the error.
    pub fn submit_batch(&mut self, ops: &mut VecDeque<Op>) -> Result<Vec<Token>, SubmitError> {
        let mut tokens = Vec::new();
        while let Some(op) = ops.pop_front() {
            // Before anything is accepted whose token could not be told.
            if tokens.try_reserve(1).is_err() {
                if tokens.is_empty() {
                    let refusal = lacks_memory(&op);
                    let op = Box::new(op);
                    return Err(SubmitError { op, refusal });
                }
                ops.push_front(op); // where it has been
                break;
            }
            match self.submit(op) {
                Ok(token) => tokens.push(token),
                Err(error) if tokens.is_empty() => return Err(error),
                Err(error) => {
                    ops.push_front(*error.op);
                    break;
                }
            }
        }
        Ok(tokens)
    }

    /// Accepts a chain: each op starts when the one before it has succeeded in full. After a failure or a short transfer
    /// the rest complete with ECANCELED. The kernel runs the chain where it can, the driver where not.
    ///
    /// # Errors
    /// All or nothing: the ops come back with the refusal of the first that is refused.
    pub fn submit_linked(&mut self, ops: Vec<Op>) -> Result<Vec<Token>, (Vec<Op>, Refusal)> {
        self.accept_linked(ops, false)
    }

    pub(crate) fn accept_linked(
        &mut self,
        mut ops: Vec<Op>,
        awaited: bool,
    ) -> Result<Vec<Token>, (Vec<Op>, Refusal)> {
        let options = Options::default();
        let refusal = ops
            .iter()
            .find_map(|op| self.admit(op, &options, true, ops.len()).err());
        if let Some(refusal) = refusal {
            return Err((ops, refusal));
        }
        let mut tokens = Vec::new();
        let room = tokens.try_reserve_exact(ops.len());
        let room = room.map_err(|_| ops.first().map_or(Refusal::Full { bound: 0 }, lacks_memory));
        if let Err(refusal) = room.and_then(|()| self.make_room(&mut ops)) {
            return Err((ops, refusal));
        }
        // A chain goes to the kernel in one piece, so nothing may stand before it in the backlog.
        self.pump();
        let by_kernel = self.backlog.is_empty()
            && self.in_flight + ops.len() <= self.depth
            && !ops.iter().any(|op| self.needs_permit(op))
            && self.backend.links(&ops);
        let inserted = ops.into_iter().map(|op| self.slab.insert(op, Options::default()));
        tokens.extend(inserted); // allocates: there is room
        self.pending += tokens.len();
        for (i, &token) in tokens.iter().enumerate() {
            let next = tokens.get(i + 1).copied();
            let slot = self.slab.get_mut(token).expect("inserted above");
            slot.awaited = awaited;
            if by_kernel {
                slot.link = next.is_some();
                self.backlog.push_back(token);
            } else {
                slot.next = next;
            }
        }
        if !by_kernel {
            self.backlog.extend(tokens.first()); // allocates: one token at most
        }
        self.pump();
        Ok(tokens)
    }

    fn admit(&self, op: &Op, options: &Options, linked: bool, count: usize) -> Result<(), Refusal> {
        match self.refusal(count) {
            Some(refusal) => Err(refusal),
            None => op.check(options, linked).map_err(Refusal::Invalid),
        }
    }

    /// Why no `count` ops can be accepted, whatever they are.
    #[inline(always)]
    fn refusal(&self, count: usize) -> Option<Refusal> {
        if self.is_forked() {
            return Some(Refusal::Forked);
        }
        let full = self.slab.len() + self.ready.len() + count > self.bound;
        full.then_some(Refusal::Full { bound: self.bound })
    }

    #[inline(never)]
    fn admit_and_make_room(&mut self, op: &mut Op, options: &Options) -> Result<(), Refusal> {
        self.admit(op, options, false, 1)?;
        self.make_room(std::slice::from_mut(op))
    }

    /// Whether there may be no memory for so many ops more.
    #[inline(always)]
    fn is_crowded(&self, count: usize) -> bool {
        let held = self.ready.len() + self.slab.len() + count;
        self.slab.vacant() <= count || held >= self.ready.capacity()
    }

    /// Makes room for these ops, from here to their completions, so that nothing on the way needs memory whose size
    /// their number gives.
    fn make_room(&mut self, ops: &mut [Op]) -> Result<(), Refusal> {
        if self.is_crowded(ops.len()) && self.grow(ops.len()).is_err() {
            return ops.first().map_or(Ok(()), |op| Err(lacks_memory(op)));
        }
        let mut each = ops.iter_mut();
        each.try_for_each(|op| op.make_room().map_err(|_| lacks_memory(op)))
    }

    #[cold]
    fn grow(&mut self, count: usize) -> Result<(), TryReserveError> {
        // One more, for the driver's own timer.
        let count = count + 1;
        let slots = self.slab.slots_with(count);
        // At most half of its tokens are stale.
        let backlog = 2 * slots + 2;
        self.backlog
            .try_reserve(backlog.saturating_sub(self.backlog.len()))?;
        self.raw.try_reserve(slots)?;
        self.woken.try_reserve(slots.saturating_sub(self.woken.len()))?;
        self.parking.make_room(slots)?;
        self.backend.make_room(slots)?;
        self.ready.try_reserve(slots)?;
        // Last: where there are slots, there is room for their ops everywhere.
        self.slab.make_room(count)
    }
}

#[cold]
fn refused(op: Op, refusal: Refusal) -> SubmitError {
    SubmitError {
        op: Box::new(op),
        refusal,
    }
}

fn lacks_memory(op: &Op) -> Refusal {
    Refusal::Invalid(Error::out_of_memory(op.name()))
}
