//! Several sources: in the order in which they are named, and with the paths that they are named with.

mod support;

use proactor_copy::{Options, Target};
use std::fs;
use std::path::{Path, PathBuf};
use support::{assert_same, look, look_at, make_old, names, place, recursive, run};

/// As many as several threads have something of.
const MANY: usize = 300;

fn many(dir: &Path, text: &str) {
    fs::create_dir_all(dir).unwrap();
    for number in 0..MANY {
        fs::write(dir.join(format!("f{number}")), text).unwrap();
    }
}

/// Paths and contents: what is copied into a directory later gives it another time.
fn assert_alike(source: &Path, target: &Path) {
    let found =
        [source, target].map(|root| look(root).into_iter().map(|(path, looks)| (path, looks.content)));
    let [source, target] = found.map(Iterator::collect::<Vec<_>>);
    assert!(source == target, "{} and {} entries", source.len(), target.len());
}

fn archive_with_parents() -> Options {
    Options {
        parents: true,
        ..Options::archive()
    }
}

fn copied(options: &Options, sources: &[PathBuf], target: &Path) {
    fs::create_dir_all(target).unwrap();
    let sources: Vec<&Path> = sources.iter().map(PathBuf::as_path).collect();
    let (report, told) = run(options, &sources, Target::Into(target.into()));
    assert_eq!((report.failures, told.as_str()), (0, ""));
}

#[test]
fn a_file_that_comes_after_a_directory_with_one_of_its_name_has_the_last_word() {
    let (here, base, target) = place();
    let over = here.path().join("over");
    many(&base, "default");
    many(&over, "override");
    let mut sources = vec![base.join(".")];
    sources.extend((0..MANY).rev().map(|number| over.join(format!("f{number}"))));
    copied(&recursive(), &sources, &target);
    assert_alike(&over, &target);
    // And the other way round.
    sources.rotate_left(1);
    let target = target.with_extension("2");
    copied(&recursive(), &sources, &target);
    assert_alike(&base, &target);
}

#[test]
fn directories_of_one_name_become_one() {
    let (here, one, target) = place();
    let other = here.path().join("other");
    many(&one.join("d"), "one");
    many(&other.join("d/sub"), "other");
    for round in 0..3 {
        let target = target.with_extension(round.to_string());
        copied(&recursive(), &[one.join("."), other.join("d")], &target);
        assert_eq!(names(&target), ["d"]);
        assert_eq!(names(&target.join("d")).len(), MANY + 1);
        assert_alike(&other.join("d/sub"), &target.join("d/sub"));
    }
}

#[test]
fn what_is_in_another_source_is_copied_after_it() {
    // As `find . | proactor cp --parents --files-from=-` has them: each directory, and then what is in it.
    let (here, source, target) = place();
    many(&source.join("a/b"), "x");
    let below: Vec<PathBuf> = ["", "a", "a/b", "a/b/f0", "a/b/f9"]
        .iter()
        .map(|path| source.join(path))
        .collect();
    for sources in [below.clone(), below.into_iter().rev().collect()] {
        copied(&archive_with_parents(), &sources, &target);
        assert_alike(&source, &target.join(source.strip_prefix("/").unwrap()));
        fs::remove_dir_all(&target).unwrap();
    }
    assert_eq!(names(here.path()), ["source"]);
}

#[test]
fn parents_are_those_that_the_path_leads_through() {
    let (_here, source, target) = place();
    many(&source.join("a/b"), "x");
    let root = target.join(source.strip_prefix("/").unwrap());
    for (path, made) in [
        ("a/b/.", "a/b/f0"),
        ("a/./b/", "a/b/f0"),
        ("a/../a/b/f0", "a/b/f0"),
        ("a/b/..", "a/b/f0"),
        ("a/b/../../a/b/f0", "a/b/f0"),
    ] {
        copied(&archive_with_parents(), &[source.join(path)], &target);
        assert!(root.join(made).exists(), "{path}");
        assert_eq!(names(&root), ["a"], "{path}");
        fs::remove_dir_all(&target).unwrap();
    }
    // Nothing leads out of the target.
    let up = "../".repeat(40);
    let path = PathBuf::from(format!("/{up}{}", source.join("a/b/f0").display()));
    copied(&archive_with_parents(), &[path], &target);
    assert!(root.join("a/b/f0").exists());
}

#[test]
fn the_directory_that_has_the_journal_gets_its_time() {
    let (here, source, target) = place();
    many(&source, "x");
    make_old(&source);
    copied(&Options::archive(), &[source.join(".")], &target);
    assert_same(&source, &target);
    let resumed = Options {
        resume: true,
        ..Options::archive()
    };
    copied(&resumed, &[source.join(".")], &target);
    assert_eq!(look_at(&target).modified, look_at(&source).modified);
    assert_eq!(names(here.path()), ["source", "target"]);
}
