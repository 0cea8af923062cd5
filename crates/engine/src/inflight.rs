//! The slab of accepted ops.
//!
//! It owns each op from acceptance to completion, whatever the caller does meanwhile. It knows no backend.
//! Invariant: a slot never moves, so the kernel may hold pointers into the op that it contains; and a slot is freed
//! only when the completion of its op has been taken, by the driver or by the future that awaits it.

use crate::descriptors::Permit;
use crate::driver::Output;
use crate::error::Error;
use crate::op::{Nop, Op, Options};
use std::collections::TryReserveError;
use std::task::Waker;

/// Slots per chunk. Chunks are never freed or moved while the slab exists.
const CHUNK: usize = 64;

/// Names one accepted op until its completion has been collected. Tokens are never reused within a driver's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(pub(crate) u64);

impl Token {
    fn new(index: u32, generation: u32) -> Self {
        Token((u64::from(generation) << 32) | u64::from(index))
    }

    fn index(self) -> usize {
        self.0 as u32 as usize
    }

    fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The token as a number, for logs and foreign interfaces.
    pub fn as_u64(self) -> u64 {
        self.0
    }
}

/// Where an accepted op is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Free,
    /// In user space: behind the queue, or behind the op that it is linked to.
    Waiting,
    /// With the backend.
    InFlight,
    /// Ended, and kept for the future that awaits it.
    Done,
}

pub(crate) struct Slot {
    pub(crate) op: Op,
    /// Bytes of a transfer that are done already; the backend does the rest.
    pub(crate) skip: usize,
    pub(crate) options: Options,
    pub(crate) state: State,
    /// Nobody waits for the completion any more.
    pub(crate) abandoned: bool,
    pub(crate) cancelled: bool,
    /// Shutting down cancels it instead of waiting for it: it changes nothing, or may wait for a peer for ever.
    pub(crate) stoppable: bool,
    /// The op to start when this one succeeds, where the driver and not the kernel runs the chain.
    pub(crate) next: Option<Token>,
    /// The kernel shall start the next submission when this one succeeds.
    pub(crate) link: bool,
    /// For the descriptor that the op opens.
    pub(crate) permit: Option<Permit>,
    /// Since when it waits for a descriptor, or 0 if it never did.
    pub(crate) parked_ms: u64,
    /// The driver's own, for those that wait.
    pub(crate) is_timer: bool,
    /// A future takes the result, by `Slab::take_done`.
    pub(crate) awaited: bool,
    /// Who is told of the next completion.
    pub(crate) waker: Option<Waker>,
    /// Of one that is done.
    result: Option<Result<Output, Error>>,
    generation: u32,
}

impl Slot {
    fn free() -> Self {
        Slot {
            op: Op::Nop(Nop),
            skip: 0,
            options: Options::default(),
            state: State::Free,
            abandoned: false,
            cancelled: false,
            stoppable: false,
            next: None,
            link: false,
            permit: None,
            parked_ms: 0,
            is_timer: false,
            awaited: false,
            waker: None,
            result: None,
            generation: 0,
        }
    }
}

#[derive(Default)]
pub(crate) struct Slab {
    chunks: Vec<Box<[Slot]>>,
    free: Vec<u32>,
    len: usize,
}

impl Slab {
    /// Slots of ops that have not ended.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Slots, occupied or not.
    pub(crate) fn slots(&self) -> usize {
        self.chunks.len() * CHUNK
    }

    /// Slots that are free.
    #[inline]
    pub(crate) fn vacant(&self) -> usize {
        self.free.len()
    }

    /// How many slots there are once there is room for so many ops more.
    pub(crate) fn slots_with(&self, count: usize) -> usize {
        self.slots() + count.saturating_sub(self.vacant()).next_multiple_of(CHUNK)
    }

    /// Makes room for so many ops more.
    pub(crate) fn make_room(&mut self, count: usize) -> Result<(), TryReserveError> {
        while self.vacant() < count {
            self.grow()?;
        }
        Ok(())
    }

    /// Takes an op, for which `make_room` has been called.
    pub(crate) fn insert(&mut self, op: Op, options: Options) -> Token {
        let index = self.free.pop().expect("there is room");
        let slot = &mut self.chunks[index as usize / CHUNK][index as usize % CHUNK];
        slot.stoppable = !op.mutates();
        slot.op = op;
        slot.options = options;
        slot.state = State::Waiting;
        self.len += 1;
        Token::new(index, slot.generation)
    }

    fn grow(&mut self) -> Result<(), TryReserveError> {
        let start = self.slots();
        let end = start + CHUNK;
        let mut chunk = Vec::new();
        chunk.try_reserve_exact(CHUNK)?;
        // `free` adds each number without a look at the room.
        self.free.try_reserve(end - self.free.len())?;
        self.chunks.try_reserve(1)?;
        chunk.resize_with(CHUNK, Slot::free);
        self.chunks.push(chunk.into_boxed_slice());
        // allocates: there is room
        self.free.extend((start as u32..end as u32).rev());
        Ok(())
    }

    /// The slot of an op that has not ended.
    pub(crate) fn get_mut(&mut self, token: Token) -> Option<&mut Slot> {
        self.slot(token).filter(|slot| slot.state != State::Done)
    }

    fn slot(&mut self, token: Token) -> Option<&mut Slot> {
        let slot = self
            .chunks
            .get_mut(token.index() / CHUNK)?
            .get_mut(token.index() % CHUNK)?;
        (slot.state != State::Free && slot.generation == token.generation()).then_some(slot)
    }

    /// Ends an op that a future awaits: it stays here until that takes it.
    pub(crate) fn end(&mut self, token: Token, result: Result<Output, Error>) {
        let Some(slot) = self.get_mut(token) else { return };
        slot.result = Some(result);
        slot.state = State::Done;
        slot.permit = None;
        self.len -= 1;
    }

    /// Frees the slot of an op that has ended.
    pub(crate) fn take_done(&mut self, token: Token) -> Option<(Op, Result<Output, Error>)> {
        let slot = self.slot(token)?;
        let result = slot.result.take()?;
        Some((self.free(token)?, result))
    }

    /// Frees the slot and gives its op back.
    pub(crate) fn remove(&mut self, token: Token) -> Option<Op> {
        self.get_mut(token)?;
        self.len -= 1;
        self.free(token)
    }

    fn free(&mut self, token: Token) -> Option<Op> {
        let slot = self.slot(token)?;
        // As in `Slot::free`: `insert` sets just what differs. Whatever the op holds moves out with it.
        let op = std::mem::replace(&mut slot.op, Op::Nop(Nop));
        slot.skip = 0;
        slot.options = Options::default();
        slot.state = State::Free;
        slot.abandoned = false;
        slot.cancelled = false;
        slot.next = None;
        slot.link = false;
        slot.permit = None;
        slot.parked_ms = 0;
        slot.is_timer = false;
        slot.awaited = false;
        slot.waker = None;
        slot.result = None;
        // 31 bits: the top bit of a token marks the backends' own entries.
        slot.generation = (slot.generation + 1) & (u32::MAX >> 1);
        self.free.push(token.0 as u32);
        Some(op)
    }

    /// The token of the op in the slot with this number, if that has not ended.
    pub(crate) fn token_at(&self, index: usize) -> Option<Token> {
        let slot = self.chunks.get(index / CHUNK)?.get(index % CHUNK)?;
        (!matches!(slot.state, State::Free | State::Done)).then(|| Token::new(index as u32, slot.generation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Slab {
        fn inserted(&mut self, op: Op) -> Token {
            self.make_room(1).unwrap();
            self.insert(op, Options::default())
        }

        fn tokens(&self) -> Vec<Token> {
            (0..self.slots()).filter_map(|at| self.token_at(at)).collect()
        }
    }

    #[test]
    fn slots_never_move_and_tokens_are_never_reused() {
        let mut slab = Slab::default();
        let first = slab.inserted(Nop.into());
        let address = std::ptr::from_mut(slab.get_mut(first).unwrap());
        let more: Vec<Token> = (0..1000).map(|_| slab.inserted(Nop.into())).collect();
        assert_eq!(address, std::ptr::from_mut(slab.get_mut(first).unwrap()));
        for token in &more {
            assert!(slab.remove(*token).is_some());
            assert!(slab.remove(*token).is_none(), "a token is good for one removal");
        }
        let again = slab.inserted(Nop.into());
        assert!(!more.contains(&again));
        assert_eq!(slab.len(), 2);
        assert_eq!(slab.tokens().len(), 2);
    }

    use proptest::prelude::*;

    proptest! {
        /// Against a map: whatever is inserted and removed, in any order, old tokens stay dead and live ones stay put.
        #[test]
        fn behaves_as_a_map(choices in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 0..400)) {
            let mut slab = Slab::default();
            let (mut live, mut dead) = (Vec::new(), Vec::new());
            for (serial, (insert, which)) in choices.into_iter().enumerate() {
                if insert || live.is_empty() {
                    let op = crate::op::Truncate { file: crate::op::Handle::NONE, len: serial as u64 };
                    let token = slab.inserted(op.into());
                    let address = std::ptr::from_mut(slab.get_mut(token).unwrap()) as usize;
                    live.push((token, serial, address));
                } else {
                    let (token, serial, _) = live.swap_remove(which.index(live.len()));
                    let op = slab.remove(token);
                    prop_assert!(matches!(op, Some(Op::Truncate(op)) if op.len == serial as u64));
                    dead.push(token);
                }
                prop_assert_eq!(slab.len(), live.len());
            }
            for (token, _, address) in &live {
                prop_assert_eq!(std::ptr::from_mut(slab.get_mut(*token).unwrap()) as usize, *address);
                prop_assert_eq!(token.as_u64() >> 63, 0);
            }
            for token in dead {
                prop_assert!(slab.get_mut(token).is_none() && slab.remove(token).is_none());
            }
            let mut tokens = slab.tokens();
            let mut expected: Vec<Token> = live.iter().map(|(token, ..)| *token).collect();
            tokens.sort();
            expected.sort();
            prop_assert_eq!(tokens, expected);
        }
    }
}
