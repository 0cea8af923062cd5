//! Writes the man pages of the command and of its subcommands into a directory: `make man`.

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(directory) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: man DIRECTORY");
        return ExitCode::from(2);
    };
    // The pages are named by it, and a name has no spaces.
    let command = proactor_cli::command().mut_subcommand("cp", |cp| cp.display_name("proactor-cp"));
    let made =
        std::fs::create_dir_all(&directory).and_then(|()| clap_mangen::generate_to(command, &directory));
    match made {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("man: {}: {error}", directory.display());
            ExitCode::FAILURE
        }
    }
}
