//! A copy in parts: whatever happens to the shards, the tree is what one copy would have made.

mod support;

use proactor_copy::shards::{finish, plan, run_shard, Error, Plan};
use proactor_copy::{Action, Copied, Diagnostic, Observer, Options, Report, Rule, Silent, Target};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Once;
use std::thread;
use std::time::Duration;
use support::{assert_same, engaged, look, names, place, run, Notes};

/// Directories in directories, one with many entries, links of both kinds, odd names, a FIFO, large files.
fn tree(top: &Path) {
    for dir in ["a/b/c", "empty", "flat", "z/\n"] {
        fs::create_dir_all(top.join(dir)).unwrap();
    }
    for number in 0..300 {
        fs::write(top.join(format!("flat/{number}")), vec![b'x'; number * 7]).unwrap();
    }
    fs::write(top.join("a/large"), vec![1; 3 << 20]).unwrap();
    fs::write(top.join("a/b/c/leaf"), "leaf").unwrap();
    fs::write(top.join("z/larger"), vec![2; 5 << 20]).unwrap();
    fs::write(top.join(OsStr::from_bytes(b"z/\n/\xff\xfe")), "odd").unwrap();
    symlink("../a/large", top.join("z/link")).unwrap();
    // Names of one file in what will be several shards.
    for name in ["a/b/same", "flat/100x", "flat/200x", "z/same"] {
        fs::hard_link(top.join("a/large"), top.join(name)).unwrap();
    }
    fs::hard_link(top.join("z/link"), top.join("a/link")).unwrap();
    support::make_fifo(&top.join("empty/fifo"));
    fs::set_permissions(top.join("a/b"), fs::Permissions::from_mode(0o2555)).unwrap();
    for dir in ["a/b/c", "flat", "a"] {
        support::make_old(&top.join(dir));
    }
}

/// Ends in the middle, soon after so many entries.
struct StopAfter<'a>(&'a AtomicUsize, usize);

impl Observer for StopAfter<'_> {
    fn diagnostic(&self, _: &Diagnostic) {}

    fn copied(&self, _: &Copied<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn stop(&self) -> bool {
        self.0.load(Ordering::Relaxed) > self.1
    }
}

fn planned(source: &Path, target: &Path, shards: usize) -> Plan {
    planned_with(&Options::archive(), source, target, shards)
}

fn planned_with(options: &Options, source: &Path, target: &Path, shards: usize) -> Plan {
    let planned = plan(&engaged(options), source, target, shards, &Silent).unwrap();
    // As if it had gone to another machine.
    let again = Plan::from_json(planned.to_json().as_bytes()).unwrap();
    assert_eq!(again, planned);
    again
}

fn shard(plan: &Plan, number: usize) -> Report {
    let notes = Notes::default();
    let report = run_shard(plan, number, &notes).unwrap();
    assert_eq!((report.failures, notes.text().as_str()), (0, ""));
    report
}

fn finished(plan: &Plan) -> Report {
    let notes = Notes::default();
    let report = finish(plan, &notes).unwrap();
    assert_eq!((report.failures, notes.text().as_str()), (0, ""));
    report
}

/// The numbers that do not depend on how it was done.
fn numbers(report: &Report) -> [u64; 5] {
    assert_eq!(report.resumed, 0);
    let written = report.bytes + report.shared_bytes + report.hole_bytes;
    let others = report.specials + report.symlinks;
    [
        report.files,
        report.directories,
        others,
        report.hard_links,
        written,
    ]
}

#[test]
fn shards_make_what_one_copy_makes() {
    for shards in [1, 5, 40] {
        let (here, source, target) = place();
        tree(&source);
        let plan = planned(&source, &target, shards);
        assert!(plan.shards().len() <= shards);
        assert!(
            plan.to_json().len() < 2000 + 200 * shards,
            "two short paths for each"
        );
        assert!(plan.shards().len() > shards / 3, "{} shards", plan.shards().len());
        assert_eq!(
            plan.missing().unwrap(),
            (0..plan.shards().len()).collect::<Vec<_>>()
        );
        // In no order, and some once more.
        for number in (0..plan.shards().len()).map(|at| at * 11 % plan.shards().len().max(1)) {
            let first = shard(&plan, number);
            assert_eq!(shard(&plan, number), first);
        }
        for number in plan.missing().unwrap() {
            shard(&plan, number);
        }
        assert!(!target.exists());
        let report = finished(&plan);
        assert_same(&source, &target);
        assert_eq!(names(here.path()), ["source", "target"]);
        let (whole, _) = run(
            &Options::archive(),
            &[&source],
            Target::As(here.path().join("whole")),
        );
        assert_eq!(numbers(&report), numbers(&whole));
    }
}

#[test]
fn shards_and_attempts_at_once() {
    let (here, source, target) = place();
    tree(&source);
    let plan = planned(&source, &target, 6);
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| loop {
                // Each shard twice.
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number / 2 >= plan.shards().len() {
                    return;
                }
                shard(&plan, number / 2);
            });
        }
    });
    finished(&plan);
    assert_same(&source, &target);
    assert_eq!(names(here.path()), ["source", "target"]);
}

#[test]
fn a_shard_that_was_ended_goes_on() {
    let (here, source, target) = place();
    tree(&source);
    let plan = planned(&source, &target, 2);
    let copied = AtomicUsize::new(0);
    for (number, after) in [(0, 20), (1, 1), (0, 60)] {
        copied.store(0, Ordering::Relaxed);
        let report = run_shard(&plan, number, &StopAfter(&copied, after)).unwrap();
        assert!(report.stopped);
        assert_eq!(report.partial, [plan.partial()]);
    }
    // What somebody who was killed leaves, and what only looks so.
    fs::write(plan.partial().join("flat/7.partial-0123abcd"), "half").unwrap();
    fs::write(plan.partial().join("flat/8"), "other").unwrap();
    fs::write(source.join("flat/x.partial-0123abcd"), "a user's").unwrap();
    support::make_old(&source.join("flat"));
    assert!(matches!(finish(&plan, &Silent), Err(Error::Missing(missing)) if missing == [0, 1]));
    let reports = [shard(&plan, 1), shard(&plan, 0)];
    assert!(reports.iter().all(|report| !report.stopped));
    // Of 60 entries and 20 before that, those that are files with one name.
    assert!(reports[1].resumed > 40, "{reports:?}");
    let notes = Notes::default();
    let report = finish(&plan, &notes).unwrap();
    assert!(notes.text().contains("ChangedSincePlanned"), "{}", notes.text());
    assert_eq!(report.failures, 0);
    assert_same(&source, &target);
    assert_eq!(names(here.path()), ["source", "target"]);
}

#[test]
fn a_changed_source_is_copied_as_it_is_and_told_of() {
    let (_here, source, target) = place();
    tree(&source);
    let plan = planned(&source, &target, 5);
    fs::create_dir(source.join("b")).unwrap();
    fs::write(source.join("b/new"), "new").unwrap();
    fs::write(source.join("flat/100"), "changed").unwrap();
    fs::remove_file(source.join("a/b/c/leaf")).unwrap();
    (0..plan.shards().len()).for_each(|number| {
        shard(&plan, number);
    });
    let notes = Notes::default();
    let report = finish(&plan, &notes).unwrap();
    assert_eq!(report.failures, 0);
    let told = "Warning { warning: ChangedSincePlanned,";
    assert!(notes.text().starts_with(told), "{}", notes.text());
    assert_same(&source, &target);
}

#[test]
fn another_directory_is_not_the_planned_one() {
    let (here, source, target) = place();
    tree(&source);
    let plan = planned(&source, &target, 2);
    fs::rename(&source, here.path().join("elsewhere")).unwrap();
    assert!(matches!(run_shard(&plan, 0, &Silent), Err(Error::Io { .. })));
    // As a mount point is where nothing is mounted.
    fs::create_dir(&source).unwrap();
    assert!(matches!(run_shard(&plan, 0, &Silent), Err(Error::Another(path)) if path == source));
    assert!(matches!(finish(&plan, &Silent), Err(Error::Missing(_))));
}

#[test]
fn what_is_refused() {
    let (here, source, target) = place();
    tree(&source);
    let refused = |options: &Options, source: &Path, target: &Path| {
        plan(options, source, target, 2, &Silent).unwrap_err()
    };
    let archive = Options::archive();
    assert!(matches!(
        refused(&archive, &source.join("a/large"), &target),
        Error::NotADirectory(_)
    ));
    assert!(matches!(
        refused(&archive, &source, &source.join("a/b/c/new")),
        Error::IntoItself(_)
    ));
    assert!(matches!(
        refused(&archive, &source, here.path()),
        Error::TargetExists(_)
    ));
    assert!(matches!(
        refused(&Options::default(), &source, &target),
        Error::Unfit(_)
    ));
    assert!(matches!(
        refused(&archive, &source, &target.join("x/y")),
        Error::Io { .. }
    ));
    assert_eq!(names(here.path()), ["source"]);
    let plan = planned(&source, &target, 2);
    let missing = run_shard(&plan, 2, &Silent).unwrap_err();
    assert_eq!(missing.to_string(), "there is no shard 2: they are 0 to 1");
}

#[test]
fn a_plan_that_was_stopped_leaves_nothing() {
    let (here, source, target) = place();
    tree(&source);
    let notes = Notes::default();
    notes.stop.store(true, Ordering::Relaxed);
    let stopped = plan(&Options::archive(), &source, &target, 2, &notes);
    assert!(matches!(stopped, Err(Error::Stopped)));
    assert_eq!(names(here.path()), ["source"]);
}

#[test]
fn a_finish_that_was_killed_goes_on() {
    let (here, source, target) = place();
    tree(&source);
    let plan = planned(&source, &target, 3);
    let reports: Vec<_> = (0..plan.shards().len())
        .map(|number| shard(&plan, number))
        .collect();
    let stopping = Notes::default();
    stopping.stop.store(true, Ordering::Relaxed);
    let report = finish(&plan, &stopping).unwrap();
    assert!(report.stopped && !target.exists());
    assert_eq!(report.partial, [plan.partial()]);
    // The name was given, and the records not yet removed.
    fs::rename(plan.partial(), &target).unwrap();
    let report = finish(&plan, &Silent).unwrap();
    assert_eq!(
        report.files,
        reports.iter().map(|report| report.files).sum::<u64>()
    );
    assert_eq!(names(here.path()), ["source", "target"]);
    assert!(matches!(finish(&plan, &Silent), Err(Error::Io { .. })));
}

#[test]
fn a_finish_that_was_killed_at_its_very_end_is_done() {
    let (here, source, target) = place();
    tree(&source);
    let plan = planned(&source, &target, 2);
    for number in 0..plan.shards().len() {
        shard(&plan, number);
    }
    let records = plan.records();
    let kept = here.path().join("kept");
    finished(&plan);
    // All records were gone, and the directory that they were in was not.
    fs::create_dir(&records).unwrap();
    finish(&plan, &Silent).unwrap();
    assert_eq!(names(here.path()), ["source", "target"]);
    // What tells of another attempt is not passed over.
    fs::create_dir(&records).unwrap();
    fs::write(records.join("0.done"), "").unwrap();
    assert!(matches!(finish(&plan, &Silent), Err(Error::Io { .. })));
    fs::rename(&records, &kept).unwrap();
}

#[test]
fn a_hostile_plan_writes_nothing_elsewhere() {
    let (here, source, target) = place();
    tree(&source);
    let plan = planned(&source, &target, 3);
    let text = plan.to_json();
    let number = text.find(".partial-").unwrap();
    let partial = &text[number - "target".len()..number + ".partial-01234567".len()];
    for other in ["..", "../elsewhere", "a/b", "", ".", "/tmp"] {
        let hostile = text.replace(&format!("\"{partial}\""), &format!("\"{other}\""));
        assert_ne!(hostile, text);
        let error = Plan::from_json(hostile.as_bytes()).unwrap_err();
        assert!(error.to_string().contains("not the name of a file"), "{error}");
    }
    for (from, to) in [
        ("\"version\":1", "\"version\":2"),
        ("\"jobs\":0", "\"jobs\":0,\"unheard-of\":true"),
        (&*format!("\"{}\"", target.display()), "\"relative\""),
        ("[\"flat\"", "[\"..\""),
        (partial, "target"),
        (partial, "source"),
        (".shards-", ".elsewhere-"),
        ("\"in_place\":false", "\"in_place\":true"),
        ("\"resume\":false", "\"resume\":true"),
        ("\"to\":[", "\"to\":[\"0\","),
    ] {
        let hostile = text.replace(from, to);
        assert_ne!(hostile, text, "{from}");
        Plan::from_json(hostile.as_bytes()).unwrap_err();
    }
    // Shards left out, out of order, or all of them.
    let mut fields: serde_json::Value = serde_json::from_str(&text).unwrap();
    let shards = fields["shards"].as_array().unwrap().clone();
    assert_eq!(shards.len(), 3);
    for some in [
        &shards[1..],
        &shards[..2],
        &shards[..0],
        &[shards[0].clone(), shards[2].clone()],
    ] {
        fields["shards"] = some.into();
        let error = Plan::from_json(fields.to_string().as_bytes()).unwrap_err();
        assert!(error.to_string().contains("shards"), "{error}");
    }
    // The tree's top, and a directory in it, swapped for links.
    let outside = here.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::remove_dir_all(plan.partial().join("flat")).unwrap();
    symlink(&outside, plan.partial().join("flat")).unwrap();
    symlink(&outside, plan.partial().join("z/larger")).unwrap();
    let failures: u64 = (0..plan.shards().len())
        .map(|number| run_shard(&plan, number, &Silent).unwrap().failures)
        .sum();
    assert!(failures > 0);
    fs::rename(plan.partial(), here.path().join("moved")).unwrap();
    symlink(&outside, plan.partial()).unwrap();
    assert!(matches!(finish(&plan, &Silent), Err(Error::Another(_))));
    assert!(matches!(run_shard(&plan, 0, &Silent), Err(Error::Another(_))));
    assert_eq!(names(&outside), [""; 0]);
}

#[test]
fn what_failed_is_tried_again() {
    let (_here, source, target) = place();
    tree(&source);
    let plan = planned(&source, &target, 1);
    // A directory where a file is to be, and another file.
    fs::create_dir(plan.partial().join("flat/5")).unwrap();
    fs::write(plan.partial().join("flat/6"), "other").unwrap();
    let notes = Notes::default();
    let report = run_shard(&plan, 0, &notes).unwrap();
    assert_eq!(report.failures, 1, "{}", notes.text());
    assert!(notes.text().contains("target/flat/5"), "{}", notes.text());
    assert!(plan.missing().unwrap().is_empty());
    let again = Notes::default();
    assert_eq!(plan.report_of(0, &again).unwrap(), Some(report));
    assert_eq!(again.text(), notes.text());
    fs::remove_dir(plan.partial().join("flat/5")).unwrap();
    shard(&plan, 0);
    finished(&plan);
    assert_same(&source, &target);
}

#[test]
fn what_is_left_out_is_left_out_by_all_of_them() {
    let (here, source, target) = place();
    tree(&source);
    let rules = [
        (Action::Include, "1*"),
        (Action::Exclude, "/flat/*"),
        (Action::Exclude, "b/"),
    ];
    let options = Options {
        filter: rules
            .iter()
            .map(|(action, pattern)| Rule::new(*action, pattern).unwrap())
            .collect(),
        ..Options::archive()
    };
    let whole = here.path().join("whole");
    let expected = support::copy_as(&options, &source, &whole);
    let plan = planned_with(&options, &source, &target, 5);
    assert!(plan.shards().len() > 1);
    for number in 0..plan.shards().len() {
        shard(&plan, number);
    }
    let report = finished(&plan);
    assert_eq!(
        (report.files, report.excluded),
        (expected.files, expected.excluded)
    );
    support::assert_looks(look(&whole), &look(&target));
    assert!(!target.join("a/b").exists() && !target.join("flat/200").exists());
    assert!(target.join("flat/100").exists());
    // The tree itself must be in it.
    let options = Options {
        filter: vec![Rule::new(Action::Exclude, "source").unwrap()],
        ..Options::archive()
    };
    let other = here.path().join("other");
    let refused = plan_error(&options, &source, &other);
    assert!(matches!(refused, Error::Unfit(_)), "{refused:?}");
    assert_eq!(names(here.path()), ["source", "target", "whole"]);
}

fn plan_error(options: &Options, source: &Path, target: &Path) -> Error {
    plan(options, source, target, 3, &Silent).unwrap_err()
}

#[test]
fn a_record_that_a_loss_of_power_has_left_empty_is_none() {
    let (_here, source, target) = place();
    tree(&source);
    let plan = planned(&source, &target, 3);
    for shard in 0..plan.shards().len() {
        run_shard(&plan, shard, &Silent).unwrap();
    }
    let record = plan.records().join("1.done");
    fs::write(&record, "").unwrap();
    assert!(matches!(finish(&plan, &Silent), Err(Error::Missing(missing)) if missing == [1]));
    let report = run_shard(&plan, 1, &Slow(Once::new())).unwrap();
    assert_eq!((report.failures, report.stopped), (0, false));
    finish(&plan, &Silent).unwrap();
    assert_same(&source, &target);
}

/// Takes so long that the attempt looks whether another one has done its shard.
struct Slow(Once);

impl Observer for Slow {
    fn diagnostic(&self, _: &Diagnostic) {}

    fn stop(&self) -> bool {
        self.0.call_once(|| thread::sleep(Duration::from_millis(600)));
        false
    }
}

#[test]
fn there_may_be_any_number_of_shards() {
    let (_here, source, target) = place();
    tree(&source);
    let plan = planned(&source, &target, usize::MAX);
    assert!(plan.shards().len() <= 400, "{}", plan.shards().len());
}
