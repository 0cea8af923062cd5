//! Progress on stderr: a bar on a terminal, elsewhere a line for each step if that is asked for.

use super::flags::When;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use proactor_bench::run::Progress;
use proactor_bench::units;
use std::io::{self, IsTerminal as _};
use std::time::Duration;

/// Interval between updates: as short as a reader can follow.
const EACH: Duration = Duration::from_millis(200);

pub(super) enum Bar {
    Silent,
    Lines,
    Drawn(ProgressBar),
}

impl Bar {
    pub fn new(when: When) -> Bar {
        let terminal = io::stderr().is_terminal();
        match when {
            When::Never => return Bar::Silent,
            When::Auto if !terminal => return Bar::Silent,
            _ if !terminal => return Bar::Lines,
            _ => {}
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        bar.enable_steady_tick(EACH);
        Bar::Drawn(bar)
    }

    pub fn show(&mut self, progress: &Progress) {
        let left = progress
            .left
            .map_or(String::new(), |left| format!(", {} left", units::clock(left)));
        match self {
            Bar::Silent => {}
            Bar::Lines => {
                // Filling reports every MiB, which is meant for a bar.
                if progress.of > 0 {
                    let number = progress.done + 1;
                    crate::complain(&format!("{number}/{}: {}{left}", progress.of, progress.what));
                }
            }
            Bar::Drawn(bar) => {
                let template = match progress.of {
                    0 => "{elapsed} {wide_msg}",
                    _ => "{elapsed} [{bar:20}] {pos}/{len} {wide_msg}",
                };
                bar.set_style(ProgressStyle::with_template(template).expect("a template of ours"));
                bar.set_length(progress.of);
                bar.set_position(progress.done);
                bar.set_message(format!("{}{left}", progress.what));
            }
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Bar::Drawn(bar) = self {
            bar.finish_and_clear();
        }
    }
}
