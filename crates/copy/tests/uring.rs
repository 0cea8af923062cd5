//! All that is tested of copies, with `Engine::Uring`; and what only a ring can do wrong.

#![allow(clippy::duplicate_mod)] // Each suite brings what it shares with the others.

#[path = "existing.rs"]
mod existing;
#[path = "filters.rs"]
mod filters;
#[path = "hostile.rs"]
mod hostile;
#[path = "limits.rs"]
mod limits;
#[path = "resume.rs"]
mod resume;
#[path = "resume_hostile.rs"]
mod resume_hostile;
#[path = "rules.rs"]
mod rules;
#[path = "shards.rs"]
mod shards;
#[path = "sources.rs"]
mod sources;
#[path = "trees.rs"]
mod trees;
#[path = "verify.rs"]
mod verify;

mod support;

use proactor_copy::{Copied, Kind, Options, Target};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use support::{assert_same, copy_as, look, names, on_copied, place};

const MANY: u64 = 500;

fn archive(jobs: usize) -> Options {
    Options {
        jobs,
        ..Options::archive()
    }
}

/// Files of many lengths, around those at which something changes.
fn fill(dir: &Path) {
    fs::create_dir_all(dir).unwrap();
    for number in 0..MANY {
        let length = match number % 10 {
            0 => 4096,
            1 => 4097,
            2 => 128 << 10,
            3 => (128 << 10) + 1,
            4 => 0,
            other => other * 1000 + number,
        };
        let bytes: Vec<u8> = (0..length).map(|at| (at * 7 + number) as u8).collect();
        fs::write(dir.join(format!("{number}")), bytes).unwrap();
    }
}

#[test]
fn lengths_of_all_kinds_come_back() {
    let (_here, source, target) = place();
    fill(&source);
    fill(&source.join("below"));
    let report = copy_as(&archive(2), &source, &target);
    assert_eq!(report.files, 2 * MANY);
    assert_same(&source, &target);
}

#[test]
fn what_is_swapped_for_a_link_meanwhile_leads_nowhere() {
    let (here, source, target) = place();
    fill(&source);
    let secret = here.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    let swapped = AtomicBool::new(false);
    let swap = |entry: &Copied<'_>| {
        if entry.kind == Kind::File && !swapped.swap(true, Ordering::Relaxed) {
            for name in names(&source) {
                fs::remove_file(source.join(&name)).unwrap();
                symlink(&secret, source.join(&name)).unwrap();
            }
        }
    };
    let hooks = on_copied(swap);
    let report = hooks.run(&archive(1), &source, Target::As(target.clone()));
    assert_eq!(report.failures, 0, "{}", hooks.notes.text());
    assert_eq!(report.files + report.symlinks, MANY);
    assert!(report.files >= 1 && report.symlinks >= MANY / 2, "{report:?}");
    for (path, looks) in look(&target) {
        let text = String::from_utf8_lossy(&looks.content);
        let is_link = fs::symlink_metadata(target.join(&path)).unwrap().is_symlink();
        assert!(is_link || text != "secret", "{}", path.display());
    }
}

#[test]
fn a_target_directory_that_is_swapped_for_a_link_is_not_written_through() {
    let (here, source, target) = place();
    fill(&source);
    fs::create_dir(&target).unwrap();
    let outside = here.path().join("outside");
    fs::create_dir(&outside).unwrap();
    let swapped = AtomicBool::new(false);
    let swap = |entry: &Copied<'_>| {
        if entry.kind == Kind::File && !swapped.swap(true, Ordering::Relaxed) {
            fs::rename(&target, here.path().join("away")).unwrap();
            symlink(&outside, &target).unwrap();
        }
    };
    let hooks = on_copied(swap);
    hooks.run(&archive(1), &source.join("."), Target::As(target.clone()));
    assert!(swapped.load(Ordering::Relaxed));
    assert!(names(&outside).is_empty());
    assert!(!names(&here.path().join("away")).is_empty());
}

#[test]
fn what_vanishes_meanwhile_is_told() {
    let (_here, source, target) = place();
    fill(&source);
    let gone = AtomicU64::new(0);
    let hooks = on_copied(|entry| {
        if entry.kind == Kind::File && gone.load(Ordering::Relaxed) == 0 {
            for name in names(&source) {
                fs::remove_file(source.join(name)).unwrap();
                gone.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    let report = hooks.run(&archive(1), &source, Target::As(target.clone()));
    assert_eq!(report.files + report.failures, MANY);
    assert!(report.failures >= MANY / 2);
    let told = hooks.notes.text().matches("OpenSource").count() as u64;
    assert_eq!(told, report.failures);
    assert_eq!(names(&target).len() as u64, report.files);
}

#[test]
fn a_stop_leaves_no_file_in_part() {
    let (_here, source, target) = place();
    fill(&source);
    let stopping = Stopping::default();
    let report = proactor_copy::copy(
        &support::engaged(&archive(2)),
        std::slice::from_ref(&source),
        &Target::As(target.clone()),
        &stopping,
    );
    assert!(report.stopped && report.failures == 0);
    assert!(report.files < MANY);
    let [partial] = &report.partial[..] else {
        panic!("{report:?}")
    };
    for name in names(partial) {
        let (found, whole) = (partial.join(&name), source.join(&name));
        assert!(fs::read(found).unwrap() == fs::read(whole).unwrap(), "{name:?}");
    }
    assert_eq!(names(partial).len() as u64, report.files);
}

/// Stops after a hundred files.
#[derive(Default)]
struct Stopping(support::Notes, AtomicU64);

impl proactor_copy::Observer for Stopping {
    fn diagnostic(&self, diagnostic: &proactor_copy::Diagnostic) {
        self.0.diagnostic(diagnostic);
    }

    fn copied(&self, _: &Copied<'_>) {
        self.1.fetch_add(1, Ordering::Relaxed);
    }

    fn stop(&self) -> bool {
        self.1.load(Ordering::Relaxed) >= 100
    }
}
