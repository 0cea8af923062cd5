//! The native `proactor` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(proactor_cli::run(
        std::env::args_os(),
        &proactor_cli::Host::default(),
    ))
}
