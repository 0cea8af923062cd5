//! The slab of accepted ops.
//!
//! It owns each op from acceptance to completion, whatever the caller does meanwhile. It knows no backend.
//! Invariant: a slot never moves, so the kernel may hold pointers into the op that it contains; and a slot is freed
//! only when the completion of its op has been taken, by the caller or by the future that awaits it.

use crate::descriptors::Permit;
use crate::driver::{Completion, Output};
use crate::error::Error;
use crate::op::{Nop, Op, Options};
use std::collections::{HashMap, TryReserveError};
use std::hash::{BuildHasherDefault, Hasher};
use std::mem::MaybeUninit;
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

/// A map from tokens. They are numbers of ours, which nobody chooses so that they collide.
pub(crate) type TokenMap<T> = HashMap<Token, T, BuildHasherDefault<TokenHasher>>;

#[derive(Default)]
pub(crate) struct TokenHasher(u64);

impl Hasher for TokenHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u64(&mut self, number: u64) {
        // Fibonacci hashing: the map takes the first bits as well as the last.
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
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
    /// Ended, and kept with its result for whoever takes that.
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

    /// Takes an op and its options into a slot that is free.
    #[inline(always)]
    pub(crate) fn fill(&mut self, op: Op, options: Options) {
        debug_assert!(matches!(self.op, Op::Nop(_)) && self.holds_nothing());
        // SAFETY: both are places of ours. What is not dropped there owns nothing.
        unsafe {
            std::ptr::write(&raw mut self.op, op);
            std::ptr::write(&raw mut self.options, options);
        }
        self.skip = 0;
        self.state = State::Waiting;
        self.abandoned = false;
        self.cancelled = false;
        self.stoppable = !self.op.mutates();
        self.next = None;
        self.link = false;
        self.parked_ms = 0;
        self.is_timer = false;
        self.awaited = false;
    }

    /// Beside the op.
    fn holds_nothing(&self) -> bool {
        self.permit.is_none()
            && self.waker.is_none()
            && self.result.is_none()
            && self.options.notify.is_none()
    }

    /// Ends the op: it stays here with its result until that is taken.
    #[inline(always)]
    pub(crate) fn end(&mut self, result: Result<Output, Error>) -> Ended {
        debug_assert!(self.result.is_none());
        std::mem::forget(self.result.replace(result));
        self.state = State::Done;
        Ended {
            data: self.options.data,
            awaited: self.awaited,
            waker: self.waker.take(),
        }
    }

    /// The result of an op that has ended.
    #[inline(always)]
    pub(crate) fn take_result(&mut self) -> Option<Result<Output, Error>> {
        self.result.take()
    }

    /// Frees the slot, and gives its op back. `Slab::vacated` is to be told.
    #[inline(always)]
    pub(crate) fn vacate(&mut self) -> Op {
        let op = std::mem::replace(&mut self.op, Op::Nop(Nop));
        self.set_free();
        op
    }

    /// As `vacate`; the op moves right into its completion at `place`.
    #[inline(always)]
    pub(crate) fn vacate_into(
        &mut self,
        token: Token,
        result: Result<Output, Error>,
        place: &mut MaybeUninit<Completion>,
    ) {
        let data = self.options.data;
        // SAFETY: the op is read once and overwritten without being dropped, and nothing in between can panic.
        unsafe {
            place.write(Completion {
                token,
                data,
                result,
                op: Some(std::ptr::read(&raw const self.op)),
                more: false,
            });
            std::ptr::write(&raw mut self.op, Op::Nop(Nop));
        }
        self.set_free();
    }

    #[inline(always)]
    fn set_free(&mut self) {
        debug_assert!(self.holds_nothing());
        self.state = State::Free;
        // 31 bits: the top bit of a token marks the backends' own entries.
        self.generation = (self.generation + 1) & (u32::MAX >> 1);
    }
}

/// Whom the end of an op concerns.
pub(crate) struct Ended {
    pub(crate) data: u64,
    pub(crate) awaited: bool,
    pub(crate) waker: Option<Waker>,
}

#[derive(Default)]
pub(crate) struct Slab {
    chunks: Vec<Box<[Slot; CHUNK]>>,
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
        let (token, slot) = self.occupy();
        slot.fill(op, options);
        token
    }

    /// A slot for which `make_room` has been called. It is to be filled.
    #[inline(always)]
    pub(crate) fn occupy(&mut self) -> (Token, &mut Slot) {
        let index = self.free.pop().expect("there is room");
        let slot = &mut self.chunks[index as usize / CHUNK][index as usize % CHUNK];
        self.len += 1;
        (Token::new(index, slot.generation), slot)
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
        let chunk = chunk.into_boxed_slice().try_into();
        self.chunks
            .push(chunk.unwrap_or_else(|_| unreachable!("it has as many slots")));
        // allocates: there is room
        self.free.extend((start as u32..end as u32).rev());
        Ok(())
    }

    /// The slot of an op that has not ended.
    #[inline(always)]
    pub(crate) fn get_mut(&mut self, token: Token) -> Option<&mut Slot> {
        self.slot(token).filter(|slot| slot.state != State::Done)
    }

    #[inline(always)]
    fn slot(&mut self, token: Token) -> Option<&mut Slot> {
        let slot = &mut self.chunks.get_mut(token.index() / CHUNK)?[token.index() % CHUNK];
        (slot.state != State::Free && slot.generation == token.generation()).then_some(slot)
    }

    /// Counts an op of which `Slot::end` has been told.
    #[inline]
    pub(crate) fn has_ended(&mut self) {
        self.len -= 1;
    }

    /// Frees the slot of an op that has ended.
    #[inline(always)]
    pub(crate) fn take_done(&mut self, token: Token) -> Option<(Op, Result<Output, Error>)> {
        let slot = self.slot(token)?;
        let result = slot.take_result()?;
        let op = slot.vacate();
        self.vacated(token);
        Some((op, result))
    }

    /// The slot of an op that has ended.
    #[inline(always)]
    pub(crate) fn done(&mut self, token: Token) -> Option<&mut Slot> {
        self.slot(token).filter(|slot| slot.state == State::Done)
    }

    /// Says that the slot of an op that had ended has been vacated.
    #[inline(always)]
    pub(crate) fn vacated(&mut self, token: Token) {
        self.free.push(token.0 as u32);
    }

    /// Whether the op has ended and a future is to take its result.
    pub(crate) fn awaits_its_end(&mut self, token: Token) -> bool {
        self.done(token).is_some_and(|slot| slot.awaited)
    }

    /// Frees the slot and gives its op back.
    pub(crate) fn remove(&mut self, token: Token) -> Option<Op> {
        let slot = self.get_mut(token)?;
        slot.options.notify = None;
        slot.permit = None;
        slot.waker = None;
        let op = slot.vacate();
        self.len -= 1;
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
        fn added(&mut self, op: Op) -> Token {
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
        let first = slab.added(Nop.into());
        let address = std::ptr::from_mut(slab.get_mut(first).unwrap());
        let more: Vec<Token> = (0..1000).map(|_| slab.added(Nop.into())).collect();
        assert_eq!(address, std::ptr::from_mut(slab.get_mut(first).unwrap()));
        for token in &more {
            assert!(slab.remove(*token).is_some());
            assert!(slab.remove(*token).is_none(), "a token is good for one removal");
        }
        let again = slab.added(Nop.into());
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
                    let token = slab.added(op.into());
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
