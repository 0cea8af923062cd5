//! How bytes are sent: at once by `send`, or queued and handed to the kernel with the turn's wait.
//!
//! With one or two sockets ready a direct `send` wins; with three or more, sends that go to the kernel in one call do. A turn that
//! takes long would hold queued replies back, so the next one sends directly. Invariant: one send of a socket is in the backend
//! at most, since two may overtake each other once the socket is full; its memory does not move until its event.

use crate::config::SendPolicy;
use proactor_engine::memory;
use std::collections::TryReserveError;
use std::time::Duration;

/// With so many events in a turn, or fewer, sends are direct.
const DIRECT_EVENTS: usize = 2;
/// After a turn that took longer, sends are direct.
const SLOW_TURN: Duration = Duration::from_millis(1);
/// Longer messages are sent directly: copying them into the queue costs more than a system call.
pub(crate) const COPIED_BYTES: usize = 32 << 10;
/// Buffers of sends that are kept for the next ones, and the size up to which one is.
const SPARES: usize = 64;
const SPARE_BYTES: usize = 64 << 10;
/// The most bytes of one send. Longer queues go in parts, so that memory is freed as they go.
const MAX_SEND_BYTES: usize = 1 << 20;
/// Sent bytes at the head of a longer queue are freed when there are so many.
const MAX_SENT: u32 = 1 << 30;

/// A stream's sending side.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// The kernel's while `in_flight`; not to be changed then.
    sending: Vec<u8>,
    /// Bytes of `sending` that are sent.
    sent: u32,
    in_flight: bool,
    /// The bound was reached, and less than half of it has not been seen since: nothing is received meanwhile.
    pub(crate) is_full: bool,
    /// What comes after `sending`, and was added while that was being sent.
    queued: Vec<u8>,
}

impl Queue {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.sending.len() - self.sent as usize + self.queued.len()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    pub(crate) fn is_in_flight(&self) -> bool {
        self.in_flight
    }

    /// Fails without memory: the bytes are as many as the caller likes.
    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8], spares: &mut Spares) -> Result<(), TryReserveError> {
        // Nothing is added behind what is partly sent: the memory of sent bytes would not be freed while there is more.
        let is_apart = self.in_flight || self.sent > 0 || !self.queued.is_empty();
        let buffer = if is_apart {
            &mut self.queued
        } else {
            &mut self.sending
        };
        if buffer.capacity() == 0 {
            *buffer = spares.take();
        }
        memory::append(buffer, bytes)
    }

    /// The next bytes for the backend, which are its own until [`finish`](Self::finish). None: one send is under way, or there
    /// is nothing to send.
    #[inline]
    pub(crate) fn start(&mut self) -> Option<(*const u8, usize)> {
        if self.in_flight {
            return None;
        }
        if self.sending.is_empty() {
            if self.queued.is_empty() {
                return None;
            }
            // A queue that was sent has given its memory up.
            std::mem::swap(&mut self.sending, &mut self.queued);
        }
        self.in_flight = true;
        let rest = &self.sending[self.sent as usize..];
        Some((rest.as_ptr(), rest.len().min(MAX_SEND_BYTES)))
    }

    /// As [`start`](Self::start), for all that there is to send.
    #[inline]
    pub(crate) fn start_all(&mut self) -> Option<(*const u8, usize)> {
        let is_all = !self.in_flight && self.sent == 0 && self.queued.is_empty();
        if !is_all || self.sending.is_empty() || self.sending.len() > MAX_SEND_BYTES {
            return None;
        }
        self.in_flight = true;
        Some((self.sending.as_ptr(), self.sending.len()))
    }

    /// Takes note that all that [`start_all`](Self::start_all) has given is sent. Returns how many bytes that were.
    #[inline]
    pub(crate) fn finish_all(&mut self, spares: &mut Spares) -> usize {
        debug_assert!(self.in_flight && self.sent == 0);
        self.in_flight = false;
        let count = self.sending.len();
        spares.give(std::mem::take(&mut self.sending));
        count
    }

    /// Bytes that [`start_all`](Self::start_all) has given.
    pub(crate) fn len_in_flight(&self) -> usize {
        self.sending.len()
    }

    /// Whether all bytes are in the backend.
    #[inline]
    pub(crate) fn is_all_in_flight(&self) -> bool {
        self.queued.is_empty()
    }

    /// The backend did not take the send that [`start`](Self::start) has given.
    pub(crate) fn revoke(&mut self) {
        self.in_flight = false;
    }

    /// Takes note of the end of the send in the backend: `count` bytes are sent.
    #[inline]
    pub(crate) fn finish(&mut self, count: usize, spares: &mut Spares) {
        debug_assert!(self.in_flight);
        self.in_flight = false;
        self.sent += count as u32;
        debug_assert!(self.sent as usize <= self.sending.len());
        if self.sent as usize == self.sending.len() {
            self.sent = 0;
            spares.give(std::mem::take(&mut self.sending));
        } else if self.sent >= MAX_SENT {
            self.sending.drain(..self.sent as usize);
            self.sent = 0;
        }
    }

    /// Throws away what is not in the backend, and returns how many bytes that were.
    pub(crate) fn discard(&mut self, spares: &mut Spares) -> usize {
        let before = self.len();
        spares.give(std::mem::take(&mut self.queued));
        if !self.in_flight {
            self.sent = 0;
            spares.give(std::mem::take(&mut self.sending));
        }
        before - self.len()
    }
}

/// Buffers between two sends: a stream without unsent bytes holds none.
#[derive(Default)]
pub(crate) struct Spares(Vec<Vec<u8>>);

impl Spares {
    #[inline]
    fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_default()
    }

    #[inline]
    fn give(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() > 0 && buffer.capacity() <= SPARE_BYTES && self.0.len() < SPARES {
            buffer.clear();
            self.0.push(buffer);
        }
    }
}

/// How the sends of one turn go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Direct,
    Queued,
}

/// Decides how the sends of a turn go.
pub(crate) struct Decision {
    policy: SendPolicy,
    slow: bool,
}

impl Decision {
    pub(crate) fn new(policy: SendPolicy) -> Self {
        Decision { policy, slow: false }
    }

    pub(crate) fn way(&self, events: usize) -> Way {
        match self.policy {
            SendPolicy::Direct => Way::Direct,
            SendPolicy::Queued => Way::Queued,
            SendPolicy::Auto if events <= DIRECT_EVENTS || self.slow => Way::Direct,
            SendPolicy::Auto => Way::Queued,
        }
    }

    pub(crate) fn turn_took(&mut self, duration: Duration) {
        self.slow = duration > SLOW_TURN;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_keeps_its_order_over_short_sends() {
        let (mut queue, mut spares) = (Queue::default(), Spares::default());
        let mut sent = Vec::new();
        queue.push(b"abcdef", &mut spares).unwrap();
        while let Some((start, len)) = queue.start() {
            assert!(queue.start().is_none(), "one at a time");
            if sent.len() == 2 {
                queue.push(b"ghi", &mut spares).unwrap();
            }
            // SAFETY: the queue keeps the memory until `finish`.
            let bytes = unsafe { std::slice::from_raw_parts(start, len) };
            let count = len.min(2);
            sent.extend_from_slice(&bytes[..count]);
            queue.finish(count, &mut spares);
        }
        assert_eq!(sent, b"abcdefghi");
        assert!(queue.is_empty());
    }

    #[test]
    fn what_is_in_the_backend_is_not_thrown_away() {
        let (mut queue, mut spares) = (Queue::default(), Spares::default());
        queue.push(b"abc", &mut spares).unwrap();
        queue.start().unwrap();
        queue.push(b"defg", &mut spares).unwrap();
        assert_eq!(queue.discard(&mut spares), 4);
        assert_eq!(queue.len(), 3);
        queue.finish(1, &mut spares);
        assert_eq!((queue.len(), queue.discard(&mut spares), queue.len()), (2, 2, 0));
    }

    #[test]
    fn the_batch_decides() {
        let mut decision = Decision::new(SendPolicy::Auto);
        assert_eq!(
            [1, 2, 3].map(|n| decision.way(n)),
            [Way::Direct, Way::Direct, Way::Queued]
        );
        decision.turn_took(Duration::from_millis(2));
        assert_eq!(decision.way(100), Way::Direct);
        decision.turn_took(Duration::from_micros(10));
        assert_eq!(decision.way(100), Way::Queued);
        assert_eq!(Decision::new(SendPolicy::Queued).way(1), Way::Queued);
    }
}
