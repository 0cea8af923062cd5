//! `copy_tree [-r] [-jN] [--no-clone] SOURCE... TARGET`: everything as it is, or with `-r` contents and permissions only. Prints the
//! report as debug text.

use proactor_copy::{copy, Dereference, Diagnostic, Observer, Options, Reflink, Target};
use std::path::PathBuf;
use std::process::ExitCode;

struct Stderr;

impl Observer for Stderr {
    fn diagnostic(&self, diagnostic: &Diagnostic) {
        eprintln!("{diagnostic:?}");
    }
}

fn main() -> ExitCode {
    let mut options = Options::archive();
    let mut paths: Vec<PathBuf> = Vec::new();
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "-r" => {
                options = Options {
                    recursive: true,
                    dereference: Dereference::Never,
                    jobs: options.jobs,
                    reflink: options.reflink,
                    ..Options::default()
                }
            }
            "--no-clone" => options.reflink = Reflink::Never,
            jobs if jobs.starts_with("-j") => options.jobs = jobs[2..].parse().expect("a number"),
            path => paths.push(path.into()),
        }
    }
    let target = paths.pop().expect("a target");
    let target = if target.is_dir() {
        Target::Into(target)
    } else {
        Target::As(target)
    };
    let report = copy(&options, &paths, &target, &Stderr);
    println!("{report:?}");
    ExitCode::from(u8::from(report.failures > 0))
}
