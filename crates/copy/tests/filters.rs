//! What is left out.

mod support;

use proactor_copy::{copy, Action, Copied, Dereference, Diagnostic, Kind, Observer, Options, Rule, Target};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use support::{is_root, look, names, place, recursive, run};

/// Options with rules, each as rsync writes it: `- PATTERN` or `+ PATTERN`.
fn rules(rules: &[&str]) -> Options {
    let rule = |text: &&str| {
        let action = match &text[..2] {
            "- " => Action::Exclude,
            "+ " => Action::Include,
            _ => panic!("{text}"),
        };
        Rule::new(action, &text[2..]).unwrap()
    };
    Options {
        filter: rules.iter().map(rule).collect(),
        ..recursive()
    }
}

fn tree(root: &Path) {
    for file in [
        "a.o",
        "a.c",
        "sub/b.o",
        "sub/b.c",
        "sub/deep/a.o",
        "build/a.c",
        "sub/build",
    ] {
        let file = root.join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "contents").unwrap();
    }
}

/// The paths in a copy of `tree`, and how many were left out.
fn left(options: &Options) -> (Vec<String>, u64) {
    let (_here, source, target) = place();
    tree(&source);
    let (report, told) = run(options, &[&source], Target::As(target.clone()));
    assert_eq!((report.failures, told.as_str()), (0, ""));
    let paths = look(&target)
        .into_keys()
        .map(|path| path.to_str().unwrap().into());
    (
        paths.filter(|path: &String| !path.is_empty()).collect(),
        report.excluded,
    )
}

#[test]
fn a_name_at_any_depth() {
    let (paths, excluded) = left(&rules(&["- *.o"]));
    assert_eq!(
        paths,
        [
            "a.c",
            "build",
            "build/a.c",
            "sub",
            "sub/b.c",
            "sub/build",
            "sub/deep"
        ]
    );
    assert_eq!(excluded, 3);
}

#[test]
fn a_path_below_the_source() {
    let (paths, excluded) = left(&rules(&["- /a.?", "- sub/deep/*.o", "- nowhere/a.c"]));
    assert_eq!(
        paths,
        [
            "build",
            "build/a.c",
            "sub",
            "sub/b.c",
            "sub/b.o",
            "sub/build",
            "sub/deep"
        ]
    );
    assert_eq!(excluded, 3);
}

#[test]
fn only_directories_and_nothing_below_them() {
    let (paths, excluded) = left(&rules(&["- build/", "- deep/", "+ deep/a.o"]));
    assert_eq!(paths, ["a.c", "a.o", "sub", "sub/b.c", "sub/b.o", "sub/build"]);
    assert_eq!(excluded, 2);
}

#[test]
fn the_first_that_matches_decides() {
    let (paths, _) = left(&rules(&["+ source", "+ sub/", "+ b.*", "- *"]));
    assert_eq!(paths, ["sub", "sub/b.c", "sub/b.o"]);
    let (paths, _) = left(&rules(&["- /*", "+ b.*"]));
    assert!(paths.is_empty(), "{paths:?}");
}

#[test]
fn an_excluded_directory_is_not_read() {
    let (_here, source, target) = place();
    tree(&source);
    fs::set_permissions(source.join("build"), fs::Permissions::from_mode(0o0)).unwrap();
    let (report, told) = run(&rules(&["- build/"]), &[&source], Target::As(target.clone()));
    assert_eq!((report.failures, told.as_str()), (0, ""));
    if !is_root() {
        let (report, _) = run(&recursive(), &[&source], Target::As(target.join("all")));
        assert_eq!(report.failures, 1);
    }
    fs::set_permissions(source.join("build"), fs::Permissions::from_mode(0o700)).unwrap();
    // A loop of links would be met below it.
    symlink(".", source.join("build/loop")).unwrap();
    let options = Options {
        dereference: Dereference::Always,
        ..rules(&["- build"])
    };
    let (report, told) = run(&options, &[&source], Target::As(target.join("again")));
    assert_eq!((report.failures, told.as_str()), (0, ""));
}

#[test]
fn what_a_followed_link_leads_to_is_what_it_is() {
    let (_here, source, target) = place();
    tree(&source);
    symlink("sub", source.join("link")).unwrap();
    symlink("nowhere", source.join("dangling")).unwrap();
    let options = Options {
        dereference: Dereference::Always,
        ..rules(&["- link/", "- dangling"])
    };
    let (report, told) = run(&options, &[&source], Target::As(target.clone()));
    assert_eq!((report.failures, told.as_str(), report.excluded), (0, "", 2));
    assert_eq!(names(&target), ["a.c", "a.o", "build", "sub"]);
    // As a link it is no directory.
    let (report, _) = run(&rules(&["- link/"]), &[&source], Target::As(target.join("links")));
    assert_eq!(report.excluded, 0);
}

/// As with `cp -r *`.
#[test]
fn a_source_by_its_own_name() {
    let (here, source, target) = place();
    tree(&source);
    fs::create_dir(&target).unwrap();
    let sources: Vec<PathBuf> = names(&source).iter().map(|name| source.join(name)).collect();
    let sources: Vec<&Path> = sources.iter().map(PathBuf::as_path).collect();
    let options = rules(&["- *.o", "- build/", "- /sub", "- source"]);
    let (report, told) = run(&options, &sources, Target::Into(target.clone()));
    assert_eq!((report.failures, told.as_str()), (0, ""));
    assert_eq!(names(&target), ["a.c", "sub"]);
    assert_eq!(names(&target.join("sub")), ["b.c", "build", "deep"]);
    assert_eq!(report.excluded, 4);
    // What has no name of its own cannot be excluded by one; and what is excluded takes no name from another.
    let other = here.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("a.c"), "other").unwrap();
    let options = rules(&["- ?", "- *.o"]);
    let (report, told) = run(&options, &[&source.join(".")], Target::Into(other.clone()));
    assert_eq!((report.failures, told.as_str()), (0, ""));
    assert_eq!(names(&other), ["a.c", "build", "sub"]);
    let twice = [source.join("a.o"), source.join("sub/deep/a.o")];
    let (report, told) = run(&options, &[&twice[0], &twice[1]], Target::Into(other));
    assert_eq!((report.excluded, told.as_str()), (2, ""));
    // Nor are its parents made.
    let options = Options {
        parents: true,
        ..rules(&["- *.o"])
    };
    let bare = here.path().join("bare");
    fs::create_dir(&bare).unwrap();
    run(&options, &[&twice[1]], Target::Into(bare.clone()));
    assert!(names(&bare).is_empty());
}

#[test]
fn names_that_are_no_text() {
    let (_here, source, target) = place();
    fs::create_dir(&source).unwrap();
    let names_of = [&b"\xff1"[..], b"\xfe2", b"text"];
    for name in names_of {
        fs::write(source.join(OsStr::from_bytes(name)), "").unwrap();
    }
    let options = Options {
        filter: vec![Rule::new(Action::Exclude, OsStr::from_bytes(b"\xff?")).unwrap()],
        ..recursive()
    };
    let (report, _) = run(&options, &[&source], Target::As(target.clone()));
    assert_eq!(report.excluded, 1);
    assert_eq!(
        names(&target),
        [OsStr::from_bytes(b"text"), OsStr::from_bytes(b"\xfe2")]
    );
}

#[derive(Default)]
struct Heard(Mutex<Vec<(Kind, PathBuf)>>);

impl Observer for Heard {
    fn excluded(&self, entry: &Copied<'_>) {
        self.0.lock().unwrap().push((entry.kind, entry.source()));
    }

    fn diagnostic(&self, diagnostic: &Diagnostic) {
        panic!("{diagnostic:?}");
    }
}

#[test]
fn each_is_told() {
    let (_here, source, target) = place();
    tree(&source);
    let heard = Heard::default();
    copy(
        &rules(&["- b.?", "- build/"]),
        std::slice::from_ref(&source),
        &Target::As(target),
        &heard,
    );
    let mut heard = heard.0.into_inner().unwrap();
    heard.sort_by(|one, other| one.1.cmp(&other.1));
    let expected = [
        (Kind::Directory, source.join("build")),
        (Kind::File, source.join("sub/b.c")),
        (Kind::File, source.join("sub/b.o")),
    ];
    assert_eq!(heard, expected);
}

#[test]
fn a_rule_is_data() {
    let rule = Rule::new(Action::Include, OsString::from("a/**")).unwrap();
    assert_eq!(
        rule,
        Rule::try_from(<(Action, OsString)>::from(rule.clone())).unwrap()
    );
    assert!(Rule::try_from((Action::Exclude, OsString::from("["))).is_err());
}
