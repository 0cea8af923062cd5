//! Sends that the kernel did not take, or not whole: they wait for room.

use super::{note_sending, Uring, NOBODY};
use crate::table::{Tag, What};
use proactor_engine::ring::{lent_user_data, opcode, types, Event};

/// What a poll for room is about.
const ROOM: u32 = (libc::POLLOUT | libc::POLLERR | libc::POLLHUP) as u32;
/// How a send that was not taken waits for room.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    /// A send without a copy: after its notification.
    Notified,
    /// By a poll. It ends at once where the peer has ended its side: the kernel adds POLLRDHUP to what a poll asks for.
    Once,
    /// Then by a multishot poll, which tells of POLLRDHUP once, and later of room.
    Wakes,
    /// There is room, and the multishot poll is about to end.
    Found,
}

impl Uring {
    /// Has sends that found no room wait for some. Their events come when there is: nothing was sent.
    pub(super) fn hold_blocked(&mut self, events: &mut Vec<Event>) {
        let is_send = |event: &Event| Tag(event.tag).is(What::Send);
        if !events.iter().fold(false, |is, event| is | is_send(event)) {
            return;
        }
        self.forget_told(events.iter().filter(|event| is_send(event)));
        let is_blocked = |event: &Event| event.res == -libc::EAGAIN && is_send(event);
        if !self.blocked.is_empty() || events.iter().any(is_blocked) {
            events.retain_mut(|event| !is_send(event) || self.is_end(event));
        }
    }

    /// Takes sends off the list of quiet ones of which these events tell.
    #[cold]
    fn forget_told<'a>(&mut self, events: impl Iterator<Item = &'a Event>) {
        if self.quiet.is_empty() {
            return;
        }
        let mut told = std::mem::take(&mut self.told);
        // allocates: eight bytes a socket
        told.extend(events.map(|event| event.tag));
        told.sort_unstable();
        let sending = &mut self.sending;
        self.quiet.retain(|one| {
            let is_quiet = told.binary_search(&one.tag.0).is_err();
            if !is_quiet {
                note_sending(sending, one.tag, one.fd);
            }
            is_quiet
        });
        told.clear();
        self.told = told;
    }

    /// Whether the event ends a send. Otherwise does what comes next.
    fn is_end(&mut self, event: &mut Event) -> bool {
        let Some(room) = self.blocked.get(&event.tag).copied() else {
            if event.res != -libc::EAGAIN {
                return true;
            }
            if event.more() {
                self.blocked.insert(event.tag, Room::Notified);
            } else {
                self.poll_for_room(event.tag, Room::Once);
            }
            return false;
        };
        let found = event.res > 0 && event.res as u32 & ROOM != 0;
        if event.more() {
            if found && room == Room::Wakes {
                self.blocked.insert(event.tag, Room::Found);
                let end = opcode::PollRemove::new(lent_user_data(event.tag)).build();
                self.entries.push(end.user_data(lent_user_data(NOBODY)));
            }
            return false;
        }
        if room == Room::Notified {
            self.poll_for_room(event.tag, Room::Once);
            return false;
        }
        if event.res > 0 && !found && room != Room::Found {
            self.poll_for_room(event.tag, Room::Wakes);
            return false;
        }
        self.blocked.remove(&event.tag);
        event.res = event.res.min(-libc::EINTR);
        true
    }

    fn poll_for_room(&mut self, tag: u64, room: Room) {
        let fd = types::Fd(self.sending[Tag(tag).id().index()]);
        let poll = opcode::PollAdd::new(fd, libc::POLLOUT as u32).multi(room == Room::Wakes);
        self.entries.push(poll.build().user_data(lent_user_data(tag)));
        self.blocked.insert(tag, room);
    }
}
