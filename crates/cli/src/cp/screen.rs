//! Output on the two streams, kept from mixing lines with the progress line.

use super::usage::PROGRAM;
use crate::streams::check_stdout;
use crate::{complain, to_stderr};
use rustix::termios::tcgetwinsize;
use std::io::{self, IsTerminal, Write};

/// Upper bound on buffered output where stdout is no terminal: some hundred lines. A reader is not far
/// behind, and a reader that has gone is noticed.
const HELD_BYTES: usize = 4 << 10;

/// Escape sequence that returns to the start of the line and clears it.
const CLEAR: &str = "\r\x1b[K";

/// Stdout and stderr.
pub(super) struct Screen {
    out: Box<dyn Write + Send>,
    /// True if stdout is a terminal. Both streams may be the same one: then the order counts.
    out_is_terminal: bool,
    /// True if a line without an end is on stderr.
    open_line: bool,
    /// The first failure to write to stdout.
    trouble: Option<io::Error>,
}

impl Screen {
    pub fn new() -> Screen {
        let out = io::stdout();
        let out_is_terminal = out.is_terminal();
        Screen {
            // On a terminal each line is shown at once; elsewhere a call per line would cost more than a
            // small file.
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

    /// Writes a line to stdout.
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

    /// Writes a line to stderr, after the program's name.
    pub fn complain(&mut self, line: &str) {
        self.clear();
        complain(&format!("{PROGRAM}: {line}"));
    }

    /// Writes a question to stderr; the answer follows it.
    pub fn ask(&mut self, question: &str) {
        self.clear();
        let flushed = self.out.flush();
        self.note(flushed);
        to_stderr(&format!("{PROGRAM}: {question} "));
    }

    /// Replaces the progress line.
    pub fn progress(&mut self, line: &str) {
        // A line that continues in the next row could not be cleared. The width is read each time: windows
        // change.
        let columns = tcgetwinsize(io::stderr()).map_or(0, |size| usize::from(size.ws_col));
        let most = columns.checked_sub(1).unwrap_or(usize::MAX);
        let shown: String = line.chars().take(most).collect();
        to_stderr(&format!("{CLEAR}{shown}"));
        self.open_line = true;
    }

    /// Writes a line of progress that stays, where stderr is no terminal.
    pub fn progress_line(&mut self, line: &str) {
        complain(line);
    }

    /// Clears the progress line.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.open_line) {
            to_stderr(CLEAR);
        }
    }

    /// Writes out what is buffered. Returns the first failure to write to stdout.
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
