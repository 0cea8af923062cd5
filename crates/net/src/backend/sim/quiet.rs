//! Sends of the simulated kernel that have no event if all is sent.

use super::kernel::{Job, Kernel};
use crate::table::SocketId;

impl Kernel {
    /// No event is to tell of the send that was just pushed if all is sent.
    pub(super) fn make_quiet(&mut self) {
        if let Some(Job::Send { is_quiet, .. }) = self.entries.last_mut().map(|entry| &mut entry.job) {
            *is_quiet = true;
        }
    }

    /// Tries each quiet send once. One that fails or is short has an event; one that finds no room waits for some, and has one.
    pub(super) fn send_quietly(&mut self) {
        let mut at = 0;
        while at < self.entries.len() {
            let entry = &mut self.entries[at];
            let id = entry.tag.id();
            let mut whole = None;
            if let Job::Send { is_quiet, copy, .. } = &mut entry.job {
                whole = std::mem::take(is_quiet).then_some(copy.len() as i32);
            }
            let Some(whole) = whole else {
                at += 1;
                continue;
            };
            let (entries, posted) = (self.entries.len(), self.posted.len());
            self.advance(at);
            if self
                .posted
                .get(posted)
                .is_some_and(|(_, event)| event.res == whole)
            {
                self.posted.pop();
                self.sent.push(id);
            }
            at += usize::from(self.entries.len() == entries);
        }
    }

    /// The sockets whose quiet sends have ended. While there are events that were not collected, the kernel may keep them back.
    pub(super) fn take_sent(&mut self) -> Vec<SocketId> {
        let late = self.faults.late;
        if !self.posted.is_empty() && self.chance(late) {
            return Vec::new();
        }
        std::mem::take(&mut self.sent)
    }
}
