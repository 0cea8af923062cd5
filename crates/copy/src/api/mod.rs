//! What a caller sees: options, observer, errors, the report, and how names are quoted.

pub(crate) mod copy_method;
pub(crate) mod error;
pub(crate) mod json;
pub(crate) mod observer;
pub(crate) mod options;
pub mod quote;
pub(crate) mod report;
pub(crate) mod sentence;
pub(crate) mod target;
