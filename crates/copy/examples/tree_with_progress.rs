//! Copies a tree, and says how far it is: `cargo run --release -p proactor-copy --example tree_with_progress -- SOURCE TARGET`.

use proactor_copy::{copy, Diagnostic, Observer, Options, Target};
use std::process::ExitCode;
use std::sync::Mutex;

/// How much of the whole is done, and what of that has been said.
#[derive(Default)]
struct Progress(Mutex<(f64, u32)>);

impl Observer for Progress {
    fn measures(&self) -> bool {
        true
    }

    fn advanced(&self, part: f64) {
        let mut done = self.0.lock().expect("no observer panics");
        done.0 += part;
        let percent = (done.0 * 100.0) as u32;
        if percent > done.1 {
            done.1 = percent;
            eprint!("\r{percent} %");
        }
    }

    fn diagnostic(&self, diagnostic: &Diagnostic) {
        eprintln!("{diagnostic}");
    }
}

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let (Some(source), Some(target)) = (args.next(), args.next()) else {
        eprintln!("usage: tree_with_progress SOURCE TARGET");
        return ExitCode::FAILURE;
    };
    let options = Options {
        recursive: true,
        ..Options::default()
    };
    let report = copy(
        &options,
        &[source.into()],
        &Target::As(target.into()),
        &Progress::default(),
    );
    println!("{} files, {} bytes", report.files, report.bytes);
    ExitCode::from(u8::from(report.failures > 0))
}
