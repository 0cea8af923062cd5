//! What clients ask of an HTTP server: ranges of a file, each connection its own.

use super::client::Habit;
use super::dialogue::{byte_at, compare, Dialogue};

/// The file that the server has.
pub const FILE: &str = "data";
const FILE_BYTES: usize = 1 << 20;
const RANGE_BYTES: [usize; 5] = [1, 1000, 100, 30_000, 5000];

/// The content of the file.
pub fn file() -> Vec<u8> {
    (0..FILE_BYTES).map(|position| byte_at(0, position)).collect()
}

struct Http {
    requests: Vec<u8>,
    /// Where the requests end that have not been answered, the next one last.
    ends: Vec<usize>,
    habit: Habit,
    /// Ranges that have not been answered, the next one last: where, and how long.
    ranges: Vec<(usize, usize)>,
    /// The head of an answer, as far as it has come.
    head: Vec<u8>,
    /// What is missing of the body after a head.
    body: Option<(usize, usize)>,
}

/// Ranges of `len` bytes in all, asked for without waiting.
pub fn http(number: usize, habit: Habit, len: usize) -> Box<dyn Dialogue> {
    let mut ranges = Vec::new();
    let (mut left, mut turn) = (len, number);
    while left > 0 {
        let size = left.min(RANGE_BYTES[turn % RANGE_BYTES.len()]);
        ranges.push(((number * 7919 + turn * 104_729) % (FILE_BYTES - size), size));
        (left, turn) = (left - size, turn + 1);
    }
    let (mut requests, mut ends) = (String::new(), Vec::new());
    for (at, (from, size)) in ranges.iter().enumerate() {
        let is_last = habit == Habit::ServerFirst && at + 1 == ranges.len();
        let close = if is_last { "Connection: close\r\n" } else { "" };
        let range = format!("Range: bytes={from}-{}\r\n", from + size - 1);
        requests += &format!("GET /{FILE} HTTP/1.1\r\nHost: here\r\n{range}{close}\r\n");
        ends.push(requests.len());
    }
    ranges.reverse();
    ends.reverse();
    Box::new(Http {
        requests: requests.into_bytes(),
        ends,
        habit,
        ranges,
        head: Vec::new(),
        body: None,
    })
}

impl Http {
    fn take_head(&mut self, bytes: &[u8]) -> Result<usize, String> {
        for (at, byte) in bytes.iter().enumerate() {
            self.head.push(*byte);
            if self.head.ends_with(b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&self.head).into_owned();
                let (from, size) = self.ranges.pop().ok_or("an answer too many")?;
                let content = format!("Content-Range: bytes {from}-{}/{FILE_BYTES}\r\n", from + size - 1);
                if !head.starts_with("HTTP/1.1 206 ") || !head.contains(&content) {
                    return Err(format!("{head:?} does not have {content:?}"));
                }
                self.body = Some((from, size));
                self.head.clear();
                return Ok(at + 1);
            }
        }
        Ok(bytes.len())
    }
}

impl Dialogue for Http {
    fn total(&self) -> usize {
        self.requests.len()
    }

    fn limit(&self) -> usize {
        match self.ends.last() {
            Some(end) if self.habit == Habit::Asks => *end,
            _ => self.total(),
        }
    }

    fn outgoing(&self, at: usize, most: usize) -> Vec<u8> {
        self.requests[at..self.requests.len().min(at + most)].to_vec()
    }

    fn take(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        while !bytes.is_empty() {
            let count = if let Some((from, size)) = self.body {
                let count = size.min(bytes.len());
                compare(&bytes[..count], 0, from)?;
                self.body = (count < size).then_some((from + count, size - count));
                if self.body.is_none() {
                    self.ends.pop();
                }
                count
            } else {
                self.take_head(bytes)?
            };
            bytes = &bytes[count..];
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.ends.is_empty() && self.head.is_empty()
    }

    /// A worker that is replaced answers what it has read, and closes the connection.
    fn may_end(&self) -> bool {
        self.habit == Habit::Asks && self.body.is_none() && self.head.is_empty()
    }

    /// nginx may reset a connection that has ended with requests that it has not read yet, with a ring or without.
    fn ends_last(&self) -> bool {
        matches!(self.habit, Habit::Staller | Habit::SlowReader)
    }
}
