//! Output on the two streams, kept from mixing lines with the progress line.

use super::usage::PROGRAM;
use crate::progress::Bar;
use crate::streams::check_stdout;
use crate::{complain, to_stderr};
use std::io::{self, IsTerminal, Write};

/// Upper bound on buffered output where stdout is no terminal: some hundred lines. A reader is not far
/// behind, and a reader that has gone is noticed.
const HELD_BYTES: usize = 4 << 10;

/// Stdout and stderr.
pub(super) struct Screen {
    out: Box<dyn Write + Send>,
    /// True if stdout is a terminal. Both streams may be the same one: then the order counts.
    out_is_terminal: bool,
    bar: Bar,
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
            bar: Bar::new(),
            trouble: None,
        }
    }

    /// Writes a line to stdout.
    pub fn say(&mut self, line: &str) {
        if self.trouble.is_some() {
            return;
        }
        if self.out_is_terminal {
            self.bar.clear();
        }
        let written = check_stdout()
            .and_then(|()| self.out.write_all(line.as_bytes()))
            .and_then(|()| self.out.write_all(b"\n"));
        self.note(written);
    }

    /// Writes a line to stderr, after the program's name.
    pub fn complain(&mut self, line: &str) {
        self.bar.clear();
        complain(&format!("{PROGRAM}: {line}"));
    }

    /// Writes a question to stderr; the answer follows it.
    pub fn ask(&mut self, question: &str) {
        self.bar.clear();
        let flushed = self.out.flush();
        self.note(flushed);
        to_stderr(&format!("{PROGRAM}: {question} "));
    }

    /// Replaces the progress line.
    pub fn progress(&mut self, done: Option<f64>, line: String) {
        self.bar.show(done, line);
    }

    /// Writes out what is buffered. Returns the first failure to write to stdout.
    pub fn flush(&mut self) -> Option<io::Error> {
        self.bar.clear();
        let flushed = self.out.flush();
        self.note(flushed);
        self.trouble.take()
    }

    fn note(&mut self, written: io::Result<()>) {
        self.trouble = self.trouble.take().or(written.err());
    }
}
