//! The progress line: files, bytes and rate, while the copy goes on.

use super::units;
use super::watch::Watch;
use super::wishes::Occasion;
use std::io::{self, IsTerminal};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// A copy that is done by then is not worth a line.
const FIRST: Duration = Duration::from_millis(500);
/// As often as a reader can follow.
const EACH: Duration = Duration::from_millis(200);
/// Where lines stay, as in a log.
const EACH_LINE: Duration = Duration::from_secs(1);

/// How progress is shown.
#[derive(Clone, Copy)]
pub(super) enum Form {
    /// One line of a terminal, again and again.
    OneLine,
    /// A line now and then.
    Lines,
}

/// Whether and how.
pub(super) fn form(occasion: Occasion) -> Option<Form> {
    let terminal = io::stderr().is_terminal();
    match occasion {
        Occasion::Never => None,
        Occasion::Auto if !terminal => None,
        _ if terminal => Some(Form::OneLine),
        _ => Some(Form::Lines),
    }
}

/// Shows it until the other end of `done` is dropped.
pub(super) fn show(form: Form, watch: &Watch, done: &Receiver<()>) {
    let begun = Instant::now();
    let each = match form {
        Form::OneLine => EACH,
        Form::Lines => EACH_LINE,
    };
    let mut wait = FIRST;
    while let Err(RecvTimeoutError::Timeout) = done.recv_timeout(wait) {
        wait = each;
        let line = line(
            watch.files.load(Relaxed),
            watch.bytes.load(Relaxed),
            begun.elapsed(),
        );
        match form {
            Form::OneLine => watch.screen().progress(&line),
            Form::Lines => watch.screen().progress_line(&line),
        }
    }
}

fn line(files: u64, bytes: u64, elapsed: Duration) -> String {
    let rate = bytes as f64 / elapsed.as_secs_f64().max(0.001);
    format!(
        "{}, {}, {}/s, {}",
        units::count(files, "file", "files"),
        units::bytes(bytes),
        units::bytes(rate as u64),
        units::clock(elapsed.as_secs())
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    #[test]
    fn line() {
        let line = super::line(1200, 5_000_000, Duration::from_secs(10));
        assert_eq!(line, "1200 files, 5.0 MB, 500 kB/s, 0:10");
    }
}
