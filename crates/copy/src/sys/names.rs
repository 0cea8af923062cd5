//! Names for what a run makes and has not finished, and the random numbers in them.

use crate::sys;
use std::ffi::{CStr, CString};

/// The journal's name is longer by this: `.journal`.
const JOURNAL_BYTES: usize = 8;

/// `NAME.partial-` and eight digits.
pub(crate) fn partial_name(name: &CStr, number: u32) -> CString {
    beside(name, "partial", number)
}

/// A name for something that belongs to `name`: `NAME.WHAT-` and eight digits.
pub(crate) fn beside(name: &CStr, what: &str, number: u32) -> CString {
    let suffix = format!(".{what}-{number:08x}");
    let name = name.to_bytes();
    let kept = &name[..name.len().min(sys::NAME_MAX - JOURNAL_BYTES - suffix.len())];
    CString::new([kept, suffix.as_bytes()].concat()).expect("a name has no zero in it")
}

/// Names made from it only have to be unlikely: whatever is in there will do.
pub(crate) fn random_u64() -> u64 {
    let mut bytes = [0; 8];
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::NONBLOCK);
    u64::from_ne_bytes(bytes) ^ u64::from(std::process::id())
}
