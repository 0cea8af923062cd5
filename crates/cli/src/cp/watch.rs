//! The observer of the copier: passes its events to the screen, and asks its questions.

use super::debug;
use super::json::Event;
use super::screen::Screen;
use super::settings::Settings;
use crate::signals::Signals;
use proactor_copy::quote;
use proactor_copy::{Copied, Diagnostic, Kind, Observer, Question};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Unit of progress: a whole, divided finely enough to count single files.
const WHOLE: f64 = 1e18;

/// The observer of a run.
pub(super) struct Watch {
    pub verbose: bool,
    /// True if the way each file was copied is reported as well.
    pub debug: bool,
    pub json: bool,
    /// True if files are removed if need be: questions mention it.
    pub removes: bool,
    pub signals: Signals,
    pub files: AtomicU64,
    pub bytes: AtomicU64,
    /// Share of the whole that is done, in parts of `WHOLE`.
    done: AtomicU64,
    /// True if progress is shown.
    measures: bool,
    /// True if a question was answered with no, which POSIX calls a failure.
    pub declined: AtomicBool,
    screen: Mutex<Screen>,
}

impl Watch {
    pub fn new(settings: &Settings, measures: bool, signals: Signals) -> Watch {
        Watch {
            verbose: settings.verbose || settings.options.dry_run || settings.debug,
            debug: settings.debug,
            json: settings.json,
            removes: settings.options.overwrite.force || settings.options.overwrite.remove,
            signals,
            files: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            done: AtomicU64::new(0),
            measures,
            declined: AtomicBool::new(false),
            screen: Mutex::new(Screen::new()),
        }
    }

    /// Returns the share of the whole that is done.
    pub fn done(&self) -> f64 {
        self.done.load(Relaxed) as f64 / WHOLE
    }

    /// Counts a file if progress is shown: otherwise threads would contend for the counter and its cache
    /// line.
    fn count_file(&self) {
        if self.measures {
            self.files.fetch_add(1, Relaxed);
        }
    }

    pub fn screen(&self) -> MutexGuard<'_, Screen> {
        // A thread that panicked while it held the lock leaves nothing half done.
        self.screen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Watch {
    fn copied(&self, entry: &Copied<'_>) {
        if entry.kind != Kind::Directory && entry.kind != Kind::Merged {
            self.count_file();
        }
        if self.json {
            let line = Event::copied(entry).line();
            self.screen().say(&line);
        } else if self.verbose && entry.kind != Kind::Merged {
            let (source, target) = (quote::name(entry.source()), quote::name(entry.target()));
            let line = match &entry.backup {
                Some(backup) => format!("{source} -> {target} (backup: {})", quote::name(backup)),
                None => format!("{source} -> {target}"),
            };
            let mut screen = self.screen();
            screen.say(&line);
            if let Some(how) = entry.how.filter(|_| self.debug) {
                screen.say(&debug::how(&how));
            }
        }
    }

    fn skipped(&self, entry: &Copied<'_>) {
        if self.json {
            let line = Event::skipped(entry).line();
            self.screen().say(&line);
        } else if self.debug {
            let line = format!("skipped {}", quote::name(entry.target()));
            self.screen().say(&line);
        }
    }

    fn excluded(&self, entry: &Copied<'_>) {
        if self.json {
            let line = Event::excluded(entry).line();
            self.screen().say(&line);
        }
    }

    fn resumed(&self, entry: &Copied<'_>) {
        self.count_file();
        if self.json {
            let line = Event::resumed(entry).line();
            self.screen().say(&line);
        }
    }

    fn progress(&self, bytes: u64) {
        if self.measures {
            self.bytes.fetch_add(bytes, Relaxed);
        }
    }

    fn advanced(&self, part: f64) {
        self.done.fetch_add((part * WHOLE) as u64, Relaxed);
    }

    fn measures(&self) -> bool {
        self.measures
    }

    fn diagnostic(&self, diagnostic: &Diagnostic) {
        let sentence = diagnostic.to_string();
        let mut screen = self.screen();
        if self.json {
            screen.say(&Event::diagnostic(diagnostic, &sentence).line());
        }
        screen.complain(&sentence);
    }

    fn may_overwrite(&self, question: &Question<'_>) -> bool {
        let target = quote::name(question.target);
        // Held until there is an answer, so that nothing is written behind the question.
        let mut screen = self.screen();
        screen.ask(&match question.unwritable {
            None => format!("overwrite {target}?"),
            Some(mode) if self.removes => {
                let mode = mode_text(mode).replace(", ", " (");
                format!("replace {target}, overriding mode {mode})?")
            }
            Some(mode) => format!("unwritable {target} (mode {}); try anyway?", mode_text(mode)),
        });
        let answer = self.signals.read_line().unwrap_or_default();
        let yes = matches!(answer.first(), Some(b'y' | b'Y'));
        self.declined.fetch_or(!yes, Relaxed);
        yes
    }

    fn stop(&self) -> bool {
        self.signals.stop()
    }
}

/// Formats a mode as `0444, r--r--r--`.
fn mode_text(mode: u32) -> String {
    let mut letters = String::new();
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = mode >> shift;
        letters.push(if bits & 4 != 0 { 'r' } else { '-' });
        letters.push(if bits & 2 != 0 { 'w' } else { '-' });
        letters.push(match (mode & special != 0, bits & 1 != 0) {
            (true, true) => letter,
            (true, false) => letter.to_ascii_uppercase(),
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    format!("{:04o}, {letters}", mode & 0o7777)
}

#[cfg(test)]
mod tests {
    use super::mode_text;

    #[test]
    fn modes() {
        assert_eq!(mode_text(0o100444), "0444, r--r--r--");
        assert_eq!(mode_text(0o4755), "4755, rwsr-xr-x");
        assert_eq!(mode_text(0o1000), "1000, --------T");
    }
}
