//! `proactor serve`: servers on rings. Reports where it listens, serves until a signal comes, and reports
//! what it did.

mod flags;
mod import;
mod places;
mod run;
mod signals;
mod stats;
mod workers;

pub(crate) use flags::{Serve, AFTER_HELP};
pub(crate) use run::run;

/// A request that cannot be met, in one sentence that says what to change. Nothing was started; the exit
/// status is 2.
struct Misuse(String);

impl Misuse {
    fn new(why: impl Into<String>) -> Self {
        Misuse(why.into())
    }
}

fn say(text: &str) {
    crate::complain(&format!("proactor serve: {text}"));
}
