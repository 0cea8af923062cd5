//! One copy under way: what its threads share, and what each of them owns.

pub(crate) mod names;
pub(crate) mod run;
pub(crate) mod worker;
