//! Progress on stderr: a bar on a terminal, elsewhere lines if they were asked for.

use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::env;
use std::ffi::OsString;
use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

/// Interval between updates: as short as a reader can follow.
pub(crate) const EACH: Duration = Duration::from_millis(200);
/// Steps of a bar: finer than a terminal is wide.
const STEPS: f64 = 1000.0;

/// Occasions on which progress is shown.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum When {
    /// On a terminal (the default)
    #[default]
    Auto,
    Always,
    Never,
}

/// Ways of showing progress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// One line of a terminal, rewritten.
    Bar,
    /// Separate lines, as in a log.
    Lines,
}

/// Chooses how progress is shown, if at all.
pub(crate) fn form(when: When) -> Option<Form> {
    form_on(
        when,
        io::stderr().is_terminal() && can_rewrite(env::var_os("TERM")),
    )
}

/// Returns whether a terminal of this type can rewrite a line. Without a type nothing is known of it.
fn can_rewrite(term: Option<OsString>) -> bool {
    term.is_some_and(|term| !term.is_empty() && term != "dumb")
}

fn form_on(when: When, is_terminal: bool) -> Option<Form> {
    match when {
        When::Never => None,
        When::Auto | When::Always if is_terminal => Some(Form::Bar),
        When::Auto => None,
        When::Always => Some(Form::Lines),
    }
}

/// The line of a terminal that shows progress. Cleared when it is dropped.
pub(crate) struct Bar {
    drawn: Option<ProgressBar>,
    begun: Instant,
    /// True if the line begins with the elapsed time, which counts between updates.
    has_clock: bool,
}

impl Bar {
    pub fn new() -> Bar {
        Bar {
            drawn: None,
            begun: Instant::now(),
            has_clock: false,
        }
    }

    pub fn with_clock() -> Bar {
        let mut bar = Bar::new();
        bar.has_clock = true;
        bar
    }

    /// Replaces the line. `done`: share of the work, if it is known.
    pub fn show(&mut self, done: Option<f64>, text: String) {
        let template = match (self.has_clock, done) {
            (true, None) => "{elapsed} {wide_msg}",
            (true, Some(_)) => "{elapsed} [{bar:20}] {wide_msg}",
            (false, None) => "{wide_msg}",
            (false, Some(_)) => "[{bar:20}] {wide_msg}",
        };
        let style = ProgressStyle::with_template(template).expect("the template is valid");
        let style = style.progress_chars("##-");
        let position = (done.unwrap_or(0.0) * STEPS) as u64;
        match &self.drawn {
            Some(bar) => {
                bar.set_style(style);
                bar.set_position(position);
                bar.set_message(text);
            }
            // All at once: each of the setters draws the line.
            None => {
                let bar = ProgressBar::with_draw_target(Some(STEPS as u64), ProgressDrawTarget::stderr())
                    .with_style(style)
                    .with_position(position)
                    .with_message(text)
                    .with_elapsed(self.begun.elapsed());
                match self.has_clock {
                    true => bar.enable_steady_tick(EACH),
                    false => bar.tick(),
                }
                self.drawn = Some(bar);
            }
        }
    }

    /// Clears the line, so that something else can be written. The next update draws it again.
    pub fn clear(&mut self) {
        if let Some(bar) = self.drawn.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        for (when, on_terminal, elsewhere) in [
            (When::Auto, Some(Form::Bar), None),
            (When::Always, Some(Form::Bar), Some(Form::Lines)),
            (When::Never, None, None),
        ] {
            assert_eq!(form_on(when, true), on_terminal);
            assert_eq!(form_on(when, false), elsewhere);
        }
    }

    #[test]
    fn terminals_that_cannot_rewrite_a_line() {
        for (term, can) in [
            (None, false),
            (Some(""), false),
            (Some("dumb"), false),
            (Some("xterm"), true),
        ] {
            assert_eq!(can_rewrite(term.map(OsString::from)), can, "{term:?}");
        }
    }
}
