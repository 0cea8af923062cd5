//! Whole lines go back. Invariant: of a line that has not ended yet at most the bound is kept.

use super::Service;
use crate::context::Context;
use crate::handler::Handler;
use crate::stats::Stats;
use crate::table::SocketId;
use proactor_engine::memory;
use std::io;

/// Bytes of a line, its end included, if nothing else is said.
pub const DEFAULT_MAX_LINE: usize = 64 << 10;

/// A server that sends back each line once its end, `\n`, has come. What follows the last line of a peer that has ended goes back
/// as it is. A connection that sends a longer line than the bound is closed.
#[derive(Debug)]
pub struct Line {
    max_line: usize,
    /// By the socket's index: the beginning of a line.
    parts: Vec<Vec<u8>>,
    requests: u64,
    too_long: u64,
}

impl Default for Line {
    fn default() -> Self {
        Line::new(DEFAULT_MAX_LINE)
    }
}

impl Line {
    /// Makes a server whose lines have at most `max_line` bytes, their end included.
    pub fn new(max_line: usize) -> Self {
        Line {
            max_line,
            parts: Vec::new(),
            requests: 0,
            too_long: 0,
        }
    }

    /// Connections that were closed because of a line that was too long.
    pub fn too_long(&self) -> u64 {
        self.too_long
    }

    fn part(&mut self, id: SocketId) -> &mut Vec<u8> {
        if id.index() >= self.parts.len() {
            // allocates: 24 bytes a socket
            self.parts.resize_with(id.index() + 1, Vec::new);
        }
        &mut self.parts[id.index()]
    }
}

/// Bytes up to and with the last end of a line in `bytes`, and how many lines that are. None: a line that begins in `bytes`, or
/// `before` bytes earlier, is longer than `max_line`.
fn whole_lines(bytes: &[u8], before: usize, max_line: usize) -> Option<(usize, u64)> {
    let (mut start, mut count, mut before) = (0, 0, before);
    for end in memchr::memchr_iter(b'\n', bytes) {
        if before + end + 1 - start > max_line {
            return None;
        }
        (start, before, count) = (end + 1, 0, count + 1);
    }
    (before + bytes.len() - start <= max_line).then_some((start, count))
}

impl Handler for Line {
    fn opened(&mut self, _: &mut Context<'_>, id: SocketId) {
        self.part(id).clear();
    }

    fn received(&mut self, cx: &mut Context<'_>, id: SocketId, bytes: &[u8]) {
        let max_line = self.max_line;
        let part = self.part(id);
        let Some((end, count)) = whole_lines(bytes, part.len(), max_line) else {
            *part = Vec::new();
            self.too_long += 1;
            cx.abort(id);
            return;
        };
        let (lines, rest) = bytes.split_at(end);
        if part.is_empty() {
            if !lines.is_empty() {
                cx.send(id, lines);
            }
        } else if !lines.is_empty() {
            if memory::append(part, lines).is_err() {
                return cx.abort(id);
            }
            cx.send(id, part);
            *part = Vec::new();
        }
        if memory::append(part, rest).is_err() {
            return cx.abort(id);
        }
        self.requests += count;
    }

    fn ended(&mut self, cx: &mut Context<'_>, id: SocketId) {
        let part = std::mem::take(self.part(id));
        if !part.is_empty() {
            self.requests += 1;
            cx.send(id, &part);
        }
        cx.close(id);
    }

    fn closed(&mut self, _: &mut Context<'_>, id: SocketId, _: Option<&io::Error>) {
        *self.part(id) = Vec::new();
    }
}

impl Service for Line {
    fn requests(&self, _: &Stats) -> u64 {
        self.requests
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_and_their_length_is_bounded() {
        for (bytes, before, found) in [
            (&b""[..], 0, Some((0, 0))),
            (b"ab", 0, Some((0, 0))),
            (b"abcd", 0, Some((0, 0))),
            (b"abcde", 0, None),
            (b"abc\n", 0, Some((4, 1))),
            (b"abcd\n", 0, None),
            (b"c\nd\ne", 2, Some((4, 2))),
            (b"cd\n", 2, None),
            (b"\n\nabcd", 3, Some((2, 2))),
            (b"\nabcde", 3, None),
        ] {
            assert_eq!(whole_lines(bytes, before, 4), found, "{bytes:?} after {before}");
        }
    }
}
