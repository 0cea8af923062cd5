//! What clients say to the server of these tests.

use super::client::Habit;
use super::dialogue::{byte_at, compare, Dialogue};
use super::server::{ABORT, ECHO, FORK, HALF, HEADER_BYTES};

/// A header that says what the server does, and bytes that come back, or half of them.
struct Echo {
    number: usize,
    header: Vec<u8>,
    /// Payload bytes to send, and to have back.
    len: usize,
    back: usize,
    received: usize,
}

/// A dialogue of `len` bytes.
pub fn echo(number: usize, habit: Habit, len: usize) -> Box<dyn Dialogue> {
    let (mode, back) = match habit {
        Habit::ServerFirst => (HALF, len / 2),
        Habit::ServerResets => (ABORT, len / 2),
        Habit::Forks => (FORK, len),
        _ => (ECHO, len),
    };
    let mut header = vec![mode; HEADER_BYTES];
    header[1..].copy_from_slice(&(back as u32).to_le_bytes());
    Box::new(Echo {
        number,
        header,
        len,
        back,
        received: 0,
    })
}

/// Bytes that come back when their line has ended, the last of them when all have.
pub fn lines(number: usize, len: usize) -> Box<dyn Dialogue> {
    Box::new(Echo {
        number,
        header: Vec::new(),
        len,
        back: len,
        received: 0,
    })
}

impl Dialogue for Echo {
    fn total(&self) -> usize {
        self.header.len() + self.len
    }

    fn outgoing(&self, at: usize, most: usize) -> Vec<u8> {
        let byte = |at: usize| match at.checked_sub(self.header.len()) {
            None => self.header[at],
            Some(position) => byte_at(self.number, position),
        };
        (at..self.total().min(at + most)).map(byte).collect()
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), String> {
        compare(bytes, self.number, self.received)?;
        self.received += bytes.len();
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.received == self.back
    }
}
