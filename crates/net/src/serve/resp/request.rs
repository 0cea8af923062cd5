//! Requests of the Redis protocol (RESP2) as they come: arrays of bulk strings, and inline commands.
//!
//! Invariant: parsing goes on where it has stopped for want of bytes, so a request that comes in many pieces is read once.

use super::store::NO_MEMORY;
use proactor_engine::memory;
use std::ops::Range;

/// Arguments of one request.
const MAX_ARGUMENTS: usize = 1 << 20;
/// Bytes of a request: what one connection can make the server keep.
const MAX_REQUEST: usize = 64 << 20;
/// Bytes of an inline command or of a number.
const MAX_INLINE: usize = 64 << 10;
/// Arguments whose room is made before they have come.
const RESERVED: usize = 64;

/// What was found at the beginning of the bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A request of so many bytes; its arguments are in [`Request::arguments`]. There are none in an empty line.
    Whole(usize),
    /// More bytes are needed.
    Part,
    /// No request. The connection cannot go on, since it is not known where the next one begins.
    Wrong(String),
}

/// A request that is being read.
#[derive(Debug, Default)]
pub(super) struct Request {
    arguments: Vec<Range<usize>>,
    /// Bytes that are read.
    at: usize,
    /// Arguments that are still to come, once their number is known.
    left: Option<usize>,
    /// The length of the next argument, once that is known.
    bulk: Option<usize>,
    /// Bytes in which no end of a line was found.
    searched: usize,
}

impl Request {
    /// Reads a request at the beginning of `bytes`. After [`Found::Part`] it is called again with the same bytes and more.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Found {
        match self.read_on(bytes) {
            Ok(true) => {
                let len = self.at;
                (self.at, self.left, self.bulk, self.searched) = (0, None, None, 0);
                Found::Whole(len)
            }
            Ok(false) => Found::Part,
            Err(why) => Found::Wrong(why),
        }
    }

    /// The arguments of the request that [`read`](Self::read) has found in the same bytes.
    pub(super) fn arguments<'a>(&'a self, bytes: &'a [u8]) -> Arguments<'a> {
        Arguments {
            ranges: &self.arguments,
            bytes,
        }
    }

    fn read_on(&mut self, bytes: &[u8]) -> Result<bool, String> {
        if self.left.is_none() {
            match bytes.first() {
                None => return Ok(false),
                Some(b'*') => {
                    let Some(count) = self.number(bytes, b'*')? else {
                        return Ok(false);
                    };
                    let count = usize::try_from(count).unwrap_or(0);
                    if count > MAX_ARGUMENTS {
                        return Err("Protocol error: too many arguments".into());
                    }
                    self.arguments.clear();
                    // allocates: RESERVED at most
                    self.arguments.reserve(count.min(RESERVED));
                    self.left = Some(count);
                }
                Some(_) => return self.inline(bytes),
            }
        }
        while let Some(left) = self.left.filter(|left| *left > 0) {
            let len = match self.bulk {
                Some(len) => len,
                None => match self.number(bytes, b'$')? {
                    None => return Ok(false),
                    Some(len) => {
                        let len = usize::try_from(len)
                            .ok()
                            .filter(|len| self.at + *len <= MAX_REQUEST);
                        let len = len.ok_or("Protocol error: invalid bulk length")?;
                        self.bulk = Some(len);
                        len
                    }
                },
            };
            if bytes.len() < self.at + len + 2 {
                return Ok(false);
            }
            if &bytes[self.at + len..self.at + len + 2] != b"\r\n" {
                return Err("Protocol error: a bulk string does not end with CRLF".into());
            }
            memory::push(&mut self.arguments, self.at..self.at + len).map_err(|_| NO_MEMORY)?;
            self.at += len + 2;
            self.searched = self.at;
            (self.bulk, self.left) = (None, Some(left - 1));
        }
        Ok(true)
    }

    /// The line at `at` without its end. None: it has not ended yet.
    fn line<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<&'a [u8]>, String> {
        let from = self.searched.max(self.at);
        let Some(end) = memchr::memchr(b'\n', &bytes[from..]).map(|end| from + end) else {
            self.searched = bytes.len();
            return match bytes.len() - self.at > MAX_INLINE {
                true => Err("Protocol error: too long a line".into()),
                false => Ok(None),
            };
        };
        let line = &bytes[self.at..end];
        self.at = end + 1;
        self.searched = self.at;
        Ok(Some(line.strip_suffix(b"\r").unwrap_or(line)))
    }

    /// The number of a line that begins with `kind`.
    fn number(&mut self, bytes: &[u8], kind: u8) -> Result<Option<i64>, String> {
        let Some(line) = self.line(bytes)? else {
            return Ok(None);
        };
        let digits = line.strip_prefix(&[kind]).ok_or_else(|| {
            let found = line.first().map_or("the end of the line".into(), |byte| {
                format!("'{}'", byte.escape_ascii())
            });
            format!("Protocol error: expected '{}', got {found}", char::from(kind))
        })?;
        match std::str::from_utf8(digits)
            .ok()
            .and_then(|digits| digits.parse().ok())
        {
            Some(number) => Ok(Some(number)),
            None => Err(format!("Protocol error: no number after '{}'", char::from(kind))),
        }
    }

    /// Words with spaces between.
    fn inline(&mut self, bytes: &[u8]) -> Result<bool, String> {
        let start = self.at;
        let Some(line) = self.line(bytes)? else {
            return Ok(false);
        };
        self.arguments.clear();
        let mut word = None;
        for (at, byte) in line.iter().enumerate().chain([(line.len(), &b' ')]) {
            if byte.is_ascii_whitespace() {
                let first: Option<usize> = word.take();
                if let Some(first) = first {
                    let word = start + first..start + at;
                    memory::push(&mut self.arguments, word).map_err(|_| NO_MEMORY)?;
                }
            } else {
                word.get_or_insert(at);
            }
        }
        Ok(true)
    }
}

/// The arguments of a request, the command's name first.
#[derive(Clone, Copy)]
pub(super) struct Arguments<'a> {
    ranges: &'a [Range<usize>],
    bytes: &'a [u8],
}

impl<'a> Arguments<'a> {
    pub(super) fn len(&self) -> usize {
        self.ranges.len()
    }

    pub(super) fn get(&self, at: usize) -> &'a [u8] {
        &self.bytes[self.ranges[at].clone()]
    }

    pub(super) fn from(self, start: usize) -> impl Iterator<Item = &'a [u8]> {
        self.ranges
            .iter()
            .skip(start)
            .map(move |range| &self.bytes[range.clone()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All requests in bytes that come in pieces of `step`, and what is left.
    fn requests(bytes: &[u8], step: usize) -> (Vec<Vec<Vec<u8>>>, Option<String>) {
        let (mut request, mut seen, mut found) = (Request::default(), Vec::new(), Vec::new());
        for piece in bytes.chunks(step) {
            seen.extend_from_slice(piece);
            loop {
                match request.read(&seen) {
                    Found::Whole(len) => {
                        let arguments = request.arguments(&seen);
                        found.push(arguments.from(0).map(<[u8]>::to_vec).collect());
                        seen.drain(..len);
                    }
                    Found::Part => break,
                    Found::Wrong(why) => return (found, Some(why)),
                }
            }
        }
        (found, None)
    }

    #[test]
    fn requests_are_the_same_in_any_pieces() {
        let bytes =
            b"*2\r\n$4\r\nECHO\r\n$5\r\na\r\nbc\r\n*0\r\n\r\nPING  x\r\n*1\r\n$0\r\n\r\nget a\n*-1\r\n";
        let (whole, wrong) = requests(bytes, bytes.len());
        assert_eq!(wrong, None);
        let words: Vec<Vec<&[u8]>> = vec![
            vec![b"ECHO", b"a\r\nbc"],
            vec![],
            vec![],
            vec![b"PING", b"x"],
            vec![b""],
            vec![b"get", b"a"],
            vec![],
        ];
        assert_eq!(whole, words);
        for step in 1..12 {
            assert_eq!(requests(bytes, step).0, whole, "in pieces of {step}");
        }
    }

    #[test]
    fn what_is_no_request_is_told() {
        for (bytes, why) in [
            (&b"*x\r\n"[..], "no number"),
            (b"*1048577\r\n", "too many arguments"),
            (b"*1\r\n:1\r\n", "expected '$', got ':'"),
            (b"*1\r\n$-1\r\n", "invalid bulk length"),
            (b"*1\r\n$67108865\r\n", "invalid bulk length"),
            (b"*1\r\n$1\r\nabc", "CRLF"),
            (&[b'a'; MAX_INLINE + 1], "too long"),
        ] {
            for step in [1, 3, bytes.len()] {
                let (found, wrong) = requests(bytes, step);
                assert!(found.is_empty());
                assert!(
                    wrong.clone().is_some_and(|wrong| wrong.contains(why)),
                    "{wrong:?}, not {why}"
                );
            }
        }
    }
}
