//! The progress line: files, bytes and rate, while the copy goes on.

use super::watch::Watch;
use crate::progress::{Form, EACH};
use proactor_bench::units;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Delay before the first line: a shorter copy does not need one.
const FIRST: Duration = Duration::from_millis(500);
/// Interval where lines stay, as in a log.
const EACH_LINE: Duration = Duration::from_secs(1);

/// Lower bound on the share done for an estimate: with less, it means nothing.
const LEAST_DONE: f64 = 0.01;
const LEAST_ELAPSED: Duration = Duration::from_secs(2);
/// Upper bound on sources that are examined before the copy: more would take a noticeable time.
const MOST_LOOKED_AT: usize = 1000;

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
        Form::Bar => EACH,
        Form::Lines => EACH_LINE,
    };
    let mut wait = FIRST;
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(wait) {
        wait = each;
        let (files, bytes) = (watch.files.load(Relaxed), watch.bytes.load(Relaxed));
        let done = known_bytes.map_or(watch.done(), |known| bytes as f64 / known as f64);
        let done = estimable(done);
        let line = line(files, bytes, begun.elapsed(), done);
        match form {
            Form::Bar => watch.screen().progress(done, line),
            Form::Lines => crate::complain(&line),
        }
    }
}

/// Returns the share that is done, if it is enough for an estimate.
fn estimable(done: f64) -> Option<f64> {
    // The rest may be only setting times, or one file that takes longer than all others.
    (done >= LEAST_DONE).then_some(done.min(0.99))
}

fn line(files: u64, bytes: u64, elapsed: Duration, done: Option<f64>) -> String {
    let rate = bytes as f64 / elapsed.as_secs_f64().max(0.001);
    let mut text = format!(
        "{}, {}, {}/s, {}",
        units::count(files, "file", "files"),
        units::decimal_bytes(bytes),
        units::decimal_bytes(rate as u64),
        units::clock(elapsed),
    );
    if let Some(done) = done {
        text += &format!(", {:.0}%", done * 100.0);
        if elapsed >= LEAST_ELAPSED {
            let left = elapsed.as_secs_f64() * (1.0 - done) / done;
            text += &format!(
                ", about {} left",
                units::clock(Duration::from_secs_f64(left.ceil()))
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    #[test]
    fn line() {
        let line = |seconds, done| {
            let elapsed = Duration::from_secs(seconds);
            super::line(1200, 5_000_000, elapsed, super::estimable(done))
        };
        assert_eq!(line(10, 0.0), "1200 files, 5.0 MB, 500 kB/s, 0:10");
        assert_eq!(
            line(10, 0.25),
            "1200 files, 5.0 MB, 500 kB/s, 0:10, 25%, about 0:30 left"
        );
        assert_eq!(line(1, 0.5), "1200 files, 5.0 MB, 5.0 MB/s, 0:01, 50%");
        assert_eq!(
            line(10, 1.0),
            "1200 files, 5.0 MB, 500 kB/s, 0:10, 99%, about 0:01 left"
        );
    }
}
