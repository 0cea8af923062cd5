//! The native `proactor` binary.

use std::process::ExitCode;

/// Runs before Rust's runtime, which hides that stdout is closed.
#[used]
#[link_section = ".init_array"]
static HOLD_STREAMS: extern "C" fn() = proactor_cli::hold_streams;

fn main() -> ExitCode {
    ExitCode::from(proactor_cli::run(
        std::env::args_os(),
        &proactor_cli::Host::default(),
    ))
}
