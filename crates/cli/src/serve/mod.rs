//! `proactor serve`: servers on rings. Says where it listens, serves until a signal comes, and tells what it did.

mod flags;
mod import;
mod places;
mod run;
mod signals;
mod stats;
mod workers;

pub(crate) use flags::{Serve, AFTER_HELP};
pub(crate) use run::run;

/// What cannot be done as it was asked for, in one sentence that says what to change. Nothing was started; the status is 2.
struct Misuse(String);

impl Misuse {
    fn new(why: impl Into<String>) -> Self {
        Misuse(why.into())
    }
}

fn say(text: &str) {
    crate::complain(&format!("proactor serve: {text}"));
}
