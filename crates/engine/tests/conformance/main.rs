//! What every engine must do alike: each test runs on each of them, with and without inline attempts where that can make
//! a difference, on a disk and on tmpfs where files are involved.
//!
//! A test is named `family::engine::test`. What a machine lacks is skipped with the reason on stderr, or fails if
//! `PROACTOR_REQUIRE` (a comma-separated list of capabilities) names it.

// Tests run on the newest Rust.
#![allow(clippy::incompatible_msrv)]

#[macro_use]
mod testkit;

mod abandon;
mod blocking;
mod cancel;
mod coverage;
mod descriptors;
mod direct;
mod eventfd;
mod file_ops;
mod fork;
mod fs;
mod futures;
mod io_each;
mod lifetime;
mod links;
mod notify;
mod path_errors;
mod paths;
mod poll;
mod queue;
mod read_write;
mod registered;
mod remote;
mod ring;
mod rw_errors;
mod signals;
mod streams;
mod typed;
mod whole_file;
mod xattrs;
