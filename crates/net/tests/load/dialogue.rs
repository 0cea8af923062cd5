//! What a client says to a server, and what it must have back.

/// The two directions of a connection.
pub trait Dialogue {
    /// How many bytes the client sends.
    fn total(&self) -> usize;
    /// How many of them it may have sent by now.
    fn limit(&self) -> usize {
        self.total()
    }
    /// The bytes to send from `at` on, `most` at most.
    fn outgoing(&self, at: usize, most: usize) -> Vec<u8>;
    /// Checks the next bytes that have come. An error says what is wrong with them.
    fn take(&mut self, bytes: &[u8]) -> Result<(), String>;
    /// Whether all has come back.
    fn is_complete(&self) -> bool;
    /// Whether the server may end the connection here although not all has come back.
    fn may_end(&self) -> bool {
        false
    }
    /// Whether the client ends its side only when it has all: the server forgets what it has not answered.
    fn ends_last(&self) -> bool {
        false
    }
}

/// The byte that a connection has at a position.
pub fn byte_at(number: usize, position: usize) -> u8 {
    let mixed = (position as u64 ^ (number as u64) << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 40) as u8
}

/// Compares bytes with the ones that a connection has from a position on.
pub fn compare(bytes: &[u8], number: usize, from: usize) -> Result<(), String> {
    let differs = |(at, byte): &(usize, &u8)| **byte != byte_at(number, from + at);
    match bytes.iter().enumerate().find(differs) {
        None => Ok(()),
        Some((at, byte)) => Err(format!("byte {byte} is not the one of position {}", from + at)),
    }
}
