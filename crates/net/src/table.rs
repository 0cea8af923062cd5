//! Sockets in slots, and the tags by which entries name them.
//!
//! Invariant: a slot is used again only when no entry names it, and then has another generation, so that a late event or
//! an old [`SocketId`] never meets a socket that it does not mean.

use crate::recv::Reading;
use crate::send::Queue;
use std::os::fd::RawFd;

/// Names one socket of one [`Sockets`](crate::Sockets), and no other one after it was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SocketId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl SocketId {
    /// The socket's slot: a small number, unique among the sockets that are open, and used again after this one was closed.
    /// Programs keep what belongs to a connection in a vector at this index.
    pub fn index(self) -> usize {
        self.slot as usize
    }
}

/// What an entry does for its socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum What {
    Accept,
    Connect,
    /// A receive into a buffer of the pool.
    Recv,
    /// A poll for bytes to receive.
    Poll,
    Send,
    /// The end of all other entries of the socket.
    Stop,
    /// A receive of datagrams into buffers of their pool.
    Message,
    /// A poll for room to send datagrams.
    Room,
}

const WHATS: [What; 8] = [
    What::Accept,
    What::Connect,
    What::Recv,
    What::Poll,
    What::Send,
    What::Stop,
    What::Message,
    What::Room,
];

const WHAT_BITS: u32 = 4;
const SLOT_BITS: u32 = 25;

/// Most sockets of one table: what a tag has room for.
pub(crate) const MAX_SOCKETS: usize = 1 << SLOT_BITS;

/// An entry's tag: generation, slot, what; 61 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tag(pub(crate) u64);

impl Tag {
    pub(crate) fn new(id: SocketId, what: What) -> Self {
        Tag(u64::from(id.generation) << (SLOT_BITS + WHAT_BITS)
            | u64::from(id.slot) << WHAT_BITS
            | what as u64)
    }

    pub(crate) fn id(self) -> SocketId {
        SocketId {
            slot: (self.0 >> WHAT_BITS) as u32 & ((1 << SLOT_BITS) - 1),
            generation: (self.0 >> (SLOT_BITS + WHAT_BITS)) as u32,
        }
    }

    #[inline]
    pub(crate) fn is(self, what: What) -> bool {
        self.0 & ((1 << WHAT_BITS) - 1) == what as u64
    }

    pub(crate) fn what(self) -> Option<What> {
        WHATS.get((self.0 & ((1 << WHAT_BITS) - 1)) as usize).copied()
    }
}

/// What a slot holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Free,
    Listener,
    Stream,
    Datagram,
}

/// How far a socket is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Connecting,
    Open,
    /// Its queue is sent before it is closed.
    Flushing,
    /// Everything is sent; what the peer still sends is thrown away, for closing with unread bytes makes the kernel send a
    /// reset, which may destroy what the peer has not read yet.
    Lingering,
    /// Its entries are being ended; the descriptor is closed when the last one has come back.
    Stopping,
}

/// How far a stream's sending side is shut down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fin {
    No,
    /// When everything is sent.
    Wanted,
    Sent,
}

/// One socket.
pub(crate) struct Slot {
    pub(crate) fd: RawFd,
    pub(crate) generation: u32,
    pub(crate) kind: Kind,
    pub(crate) phase: Phase,
    /// Entries in the backend whose last event has not come.
    pub(crate) entries: u8,
    /// The slot is in the list of those to be settled at the turn's end.
    pub(crate) listed: bool,
    /// An accept is in the backend. Listeners only.
    pub(crate) accepting: bool,
    /// A poll for room to send is in the backend. Datagrams only.
    pub(crate) awaits_room: bool,
    /// A `Stop` is in the backend.
    pub(crate) stopping: bool,
    /// The sending side is to be shut down, or has been.
    pub(crate) fin: Fin,
    /// The peer has sent its last byte.
    pub(crate) peer_ended: bool,
    /// Long sends are not copied by the kernel.
    pub(crate) zero_copy: bool,
    /// The send in the backend has no event if all is sent.
    pub(crate) quiet: bool,
    /// The send in the backend is done, and the kernel still has its memory.
    pub(crate) notifies: bool,
    /// The result of that send.
    pub(crate) uncopied: i32,
    /// The connection was dissolved, so that the kernel gives its memory up.
    pub(crate) purged: bool,
    /// It is ended with a reset.
    pub(crate) resets: bool,
    /// When something was last received or sent, in milliseconds of the clock.
    pub(crate) active_ms: u64,
    /// The errno that ended the socket, or 0.
    pub(crate) errno: i32,
    pub(crate) reading: Reading,
    pub(crate) queue: Queue,
}

impl Slot {
    fn free() -> Self {
        Slot {
            fd: -1,
            generation: 0,
            kind: Kind::Free,
            phase: Phase::Stopping,
            entries: 0,
            listed: false,
            accepting: false,
            awaits_room: false,
            stopping: false,
            fin: Fin::No,
            peer_ended: false,
            zero_copy: false,
            quiet: false,
            notifies: false,
            uncopied: 0,
            purged: false,
            resets: false,
            active_ms: 0,
            errno: 0,
            reading: Reading::default(),
            queue: Queue::default(),
        }
    }

    /// Whether it is an open stream that receives through the pool, is not to be shut down, and of which nobody waits for the
    /// end of a send.
    #[inline]
    pub(crate) fn is_usual(&self) -> bool {
        self.phase == Phase::Open
            && self.kind == Kind::Stream
            && self.fin == Fin::No
            && self.reading.is_usual()
            && !self.peer_ended
            && !self.queue.is_full
            && !self.zero_copy
    }

    pub(crate) fn is_free(&self) -> bool {
        self.kind == Kind::Free
    }
}

const _: () = assert!(size_of::<Slot>() <= 128, "a slot has at most two cache lines");

/// All sockets of one thread.
pub(crate) struct Table {
    slots: Vec<Slot>,
    free: Vec<u32>,
    streams: usize,
    max_sockets: usize,
}

impl Default for Table {
    fn default() -> Self {
        Table {
            slots: Vec::new(),
            free: Vec::new(),
            streams: 0,
            max_sockets: MAX_SOCKETS,
        }
    }
}

impl Table {
    /// One that is full early.
    #[cfg(test)]
    pub(crate) fn of_at_most(max_sockets: usize) -> Self {
        Table {
            max_sockets,
            ..Table::default()
        }
    }

    /// Takes a slot for a descriptor.
    pub(crate) fn insert(&mut self, kind: Kind, phase: Phase, fd: RawFd, now_ms: u64) -> Option<SocketId> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.slots.len() < self.max_sockets => {
                self.slots.push(Slot::free());
                self.slots.len() as u32 - 1
            }
            None => return None,
        };
        let slot = &mut self.slots[index as usize];
        debug_assert!(slot.is_free() && slot.entries == 0);
        *slot = Slot {
            fd,
            generation: slot.generation,
            kind,
            phase,
            active_ms: now_ms,
            ..Slot::free()
        };
        self.streams += usize::from(kind == Kind::Stream);
        Some(SocketId {
            slot: index,
            generation: slot.generation,
        })
    }

    /// Frees a slot that no entry names.
    pub(crate) fn remove(&mut self, id: SocketId) {
        let slot = &mut self.slots[id.index()];
        debug_assert!(!slot.is_free() && slot.entries == 0 && slot.generation == id.generation);
        self.streams -= usize::from(slot.kind == Kind::Stream);
        slot.kind = Kind::Free;
        slot.fd = -1;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(id.slot);
    }

    // The generation of a free slot is not in any id.
    #[inline]
    pub(crate) fn get(&self, id: SocketId) -> Option<&Slot> {
        self.slots
            .get(id.index())
            .filter(|slot| slot.generation == id.generation)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: SocketId) -> Option<&mut Slot> {
        self.slots
            .get_mut(id.index())
            .filter(|slot| slot.generation == id.generation)
    }

    /// Streams that are not closed yet, those that are being opened or closed included.
    pub(crate) fn streams(&self) -> usize {
        self.streams
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = SocketId> + '_ {
        self.slots
            .iter()
            .enumerate()
            .filter(|(_, slot)| !slot.is_free())
            .map(|(index, slot)| SocketId {
                slot: index as u32,
                generation: slot.generation,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_gives_back_what_it_was_made_of() {
        for id in [(0, 0), (1, 7), (MAX_SOCKETS as u32 - 1, u32::MAX)] {
            let id = SocketId {
                slot: id.0,
                generation: id.1,
            };
            for what in WHATS {
                let tag = Tag::new(id, what);
                assert_eq!((tag.id(), tag.what()), (id, Some(what)));
                assert_eq!(tag.0 >> 61, 0);
            }
        }
        assert_eq!(Tag(15).what(), None);
    }

    #[test]
    fn an_old_id_does_not_find_the_slots_next_socket() {
        let mut table = Table::default();
        let old = table.insert(Kind::Stream, Phase::Open, 5, 0).unwrap();
        table.remove(old);
        let new = table.insert(Kind::Stream, Phase::Open, 5, 0).unwrap();
        assert_eq!(old.index(), new.index());
        assert!(table.get(old).is_none() && table.get(new).is_some());
        assert_eq!(table.streams(), 1);
    }
}
