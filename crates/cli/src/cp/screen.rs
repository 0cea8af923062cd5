//! What is written to the two streams, so that lines and the progress line do not run into each other.

use super::usage::PROGRAM;
use crate::streams::check_stdout;
use crate::{complain, to_stderr};
use rustix::termios::tcgetwinsize;
use std::io::{self, IsTerminal, Write};

/// What is held back where stdout is no terminal: some hundred lines. Whoever reads them is not far behind, and that a
/// reader has gone is noticed.
const HELD_BYTES: usize = 4 << 10;

/// Back to the line's start, and clear it.
const CLEAR: &str = "\r\x1b[K";

/// Stdout and stderr.
pub(super) struct Screen {
    out: Box<dyn Write + Send>,
    /// Both may be one terminal: then the order counts.
    out_is_terminal: bool,
    /// A line without an end stands on stderr.
    open_line: bool,
    /// The first failure to write to stdout.
    trouble: Option<io::Error>,
}

impl Screen {
    pub fn new() -> Screen {
        let out = io::stdout();
        let out_is_terminal = out.is_terminal();
        Screen {
            // On a terminal each line is seen at once; elsewhere a call per line would cost more than a small file.
            out: if out_is_terminal {
                Box::new(out)
            } else {
                Box::new(io::BufWriter::with_capacity(HELD_BYTES, out))
            },
            out_is_terminal,
            open_line: false,
            trouble: None,
        }
    }

    /// A line on stdout.
    pub fn say(&mut self, line: &str) {
        if self.trouble.is_some() {
            return;
        }
        if self.out_is_terminal {
            self.clear();
        }
        let written = check_stdout()
            .and_then(|()| self.out.write_all(line.as_bytes()))
            .and_then(|()| self.out.write_all(b"\n"));
        self.note(written);
    }

    /// A line on stderr, after the program's name.
    pub fn complain(&mut self, line: &str) {
        self.clear();
        complain(&format!("{PROGRAM}: {line}"));
    }

    /// A question on stderr; the answer stands behind it.
    pub fn ask(&mut self, question: &str) {
        self.clear();
        let flushed = self.out.flush();
        self.note(flushed);
        to_stderr(&format!("{PROGRAM}: {question} "));
    }

    /// Replaces the progress line.
    pub fn progress(&mut self, line: &str) {
        // A line that goes on in the next row could not be cleared. It is asked anew each time: windows change.
        let columns = tcgetwinsize(io::stderr()).map_or(0, |size| usize::from(size.ws_col));
        let most = columns.checked_sub(1).unwrap_or(usize::MAX);
        let shown: String = line.chars().take(most).collect();
        to_stderr(&format!("{CLEAR}{shown}"));
        self.open_line = true;
    }

    /// A line of progress that stays, for what is no terminal.
    pub fn progress_line(&mut self, line: &str) {
        complain(line);
    }

    /// Takes the progress line away.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.open_line) {
            to_stderr(CLEAR);
        }
    }

    /// Writes out what is held back. Returns what went wrong with stdout.
    pub fn flush(&mut self) -> Option<io::Error> {
        self.clear();
        let flushed = self.out.flush();
        self.note(flushed);
        self.trouble.take()
    }

    fn note(&mut self, written: io::Result<()>) {
        self.trouble = self.trouble.take().or(written.err());
    }
}
