//! The progress line: files, bytes and rate, while the copy goes on.

use super::units;
use super::watch::Watch;
use super::wishes::Occasion;
use proactor_bench::units::clock;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Delay before the first line: a shorter copy does not need one.
const FIRST: Duration = Duration::from_millis(500);
/// Interval between updates: as short as a reader can follow.
const EACH: Duration = Duration::from_millis(200);
/// Interval where lines stay, as in a log.
const EACH_LINE: Duration = Duration::from_secs(1);

/// Lower bound on the share done for an estimate: with less, it means nothing.
const LEAST_DONE: f64 = 0.01;
const LEAST_ELAPSED: Duration = Duration::from_secs(2);
/// Width of the bar in characters.
const BAR: usize = 10;
/// Upper bound on sources that are examined before the copy: more would take a noticeable time.
const MOST_LOOKED_AT: usize = 1000;

/// Ways of showing progress.
#[derive(Clone, Copy)]
pub(super) enum Form {
    /// One line of a terminal, rewritten.
    OneLine,
    /// Separate lines at intervals.
    Lines,
}

/// Chooses how progress is shown, if at all.
pub(super) fn form(occasion: Occasion) -> Option<Form> {
    let terminal = io::stderr().is_terminal();
    match occasion {
        Occasion::Never => None,
        Occasion::Auto if !terminal => None,
        _ if terminal => Some(Form::OneLine),
        _ => Some(Form::Lines),
    }
}

/// Returns the number of bytes to copy, where that is easily known: for files that are named.
pub(super) fn known_bytes(sources: &[PathBuf]) -> Option<u64> {
    let size = |source: &PathBuf| source.metadata().ok().filter(|stat| stat.is_file());
    let few = sources.len() <= MOST_LOOKED_AT;
    let total = few.then(|| sources.iter().map(|source| Some(size(source)?.len())).sum());
    total.flatten().filter(|bytes| *bytes > 0)
}

/// Shows progress until the other end of `ended` is dropped.
pub(super) fn show(form: Form, watch: &Watch, known_bytes: Option<u64>, ended: &Receiver<()>) {
    let begun = Instant::now();
    let each = match form {
        Form::OneLine => EACH,
        Form::Lines => EACH_LINE,
    };
    let mut wait = FIRST;
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(wait) {
        wait = each;
        let (files, bytes) = (watch.files.load(Relaxed), watch.bytes.load(Relaxed));
        let done = known_bytes.map_or(watch.done(), |known| bytes as f64 / known as f64);
        let line = line(files, bytes, begun.elapsed(), done);
        match form {
            Form::OneLine => watch.screen().progress(&line),
            Form::Lines => watch.screen().progress_line(&line),
        }
    }
}

fn line(files: u64, bytes: u64, elapsed: Duration, done: f64) -> String {
    let rate = bytes as f64 / elapsed.as_secs_f64().max(0.001);
    format!(
        "{}, {}, {}/s, {}{}",
        units::count(files, "file", "files"),
        units::bytes(bytes),
        units::bytes(rate as u64),
        clock(elapsed),
        outlook(elapsed, done)
    )
}

/// Returns a bar and the time left, if enough is done to estimate it.
fn outlook(elapsed: Duration, done: f64) -> String {
    if done < LEAST_DONE {
        return String::new();
    }
    // The rest may be only setting times, or one file that takes longer than all others.
    let done = done.min(0.99);
    let full = (done * BAR as f64) as usize;
    let bar = "#".repeat(full) + &"-".repeat(BAR - full);
    let mut text = format!(" [{bar}] {:.0}%", done * 100.0);
    if elapsed >= LEAST_ELAPSED {
        let left = elapsed.as_secs_f64() * (1.0 - done) / done;
        text += &format!(", about {} left", clock(Duration::from_secs_f64(left.ceil())));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    #[test]
    fn line() {
        let line = |seconds, done| super::line(1200, 5_000_000, Duration::from_secs(seconds), done);
        assert_eq!(line(10, 0.0), "1200 files, 5.0 MB, 500 kB/s, 0:10");
        assert_eq!(
            line(10, 0.25),
            "1200 files, 5.0 MB, 500 kB/s, 0:10 [##--------] 25%, about 0:30 left"
        );
        assert_eq!(
            line(1, 0.5),
            "1200 files, 5.0 MB, 5.0 MB/s, 0:01 [#####-----] 50%"
        );
        assert_eq!(
            line(10, 1.0),
            "1200 files, 5.0 MB, 500 kB/s, 0:10 [#########-] 99%, about 0:01 left"
        );
    }
}
