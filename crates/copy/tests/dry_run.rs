//! A dry run tells what a real one then does, and leaves no trace.

mod support;

use proactor_copy::{
    copy, Action, Backup, Copied, Dereference, Diagnostic, Method, Observer, Options, Overwrite, Report,
    Rule, Target, When,
};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{symlink, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;
use support::{look, place, recursive};

/// Everything that a copy tells, in no order.
#[derive(Default)]
struct Told(Mutex<Vec<String>>);

impl Told {
    fn note(&self, what: &str, entry: &Copied<'_>) {
        let (source, target) = (entry.source(), entry.target());
        let (source, target) = (source.display(), target.display());
        let line = format!(
            "{what} {:?} {source} {target} {} {:?}",
            entry.kind, entry.bytes, entry.backup
        );
        self.0.lock().unwrap().push(line);
    }
}

impl Observer for Told {
    fn copied(&self, entry: &Copied<'_>) {
        self.note("copied", entry);
    }

    fn skipped(&self, entry: &Copied<'_>) {
        self.note("skipped", entry);
    }

    fn excluded(&self, entry: &Copied<'_>) {
        self.note("excluded", entry);
    }

    fn diagnostic(&self, diagnostic: &Diagnostic) {
        self.0.lock().unwrap().push(format!("{diagnostic:?}"));
    }
}

fn told(options: &Options, sources: &[PathBuf], target: &Target) -> (Report, Vec<String>) {
    let told = Told::default();
    let mut report = copy(options, sources, target, &told);
    report.duration = Duration::ZERO;
    // How it gets there is not known before.
    report.bytes += std::mem::take(&mut report.shared_bytes) + std::mem::take(&mut report.hole_bytes);
    let mut lines = told.0.into_inner().unwrap();
    lines.sort();
    (report, lines)
}

type Stamps = BTreeMap<PathBuf, [(i64, i64); 3]>;

/// All times of all that is there, found out without changing any. Following a link leaves its time in it.
fn stamps(root: &Path, paths: &[PathBuf], follows: bool) -> Stamps {
    let stamps = |path: &PathBuf| {
        let stat = fs::symlink_metadata(root.join(path)).unwrap();
        if follows && stat.is_symlink() {
            return (path.clone(), Default::default());
        }
        let times = [
            (stat.atime(), stat.atime_nsec()),
            (stat.mtime(), stat.mtime_nsec()),
            (stat.ctime(), stat.ctime_nsec()),
        ];
        (path.clone(), times)
    };
    paths.iter().map(stamps).collect()
}

/// Accesses long ago: each new one would be noted.
fn forget_accesses(root: &Path, paths: &[PathBuf]) {
    for path in paths {
        let old = rustix::fs::Timespec {
            tv_sec: 1_000_000_000,
            tv_nsec: 0,
        };
        let new = rustix::fs::Timespec {
            tv_sec: 1_500_000_000,
            tv_nsec: 0,
        };
        let times = rustix::fs::Timestamps {
            last_access: old,
            last_modification: new,
        };
        let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::utimensat(rustix::fs::CWD, root.join(path), &times, flags).unwrap();
    }
}

/// A dry run and a real one tell the same, and the first one changes nothing below `here`.
fn same(here: &Path, options: &Options, sources: &[&str], target: &Target) -> (Report, Vec<String>) {
    let before = look(here);
    let paths: Vec<PathBuf> = before.keys().cloned().collect();
    forget_accesses(here, &paths);
    // Also what would replace a file: it might lead there.
    let follows = options.dereference != Dereference::Never || matches!(target, Target::Into(_));
    let times = stamps(here, &paths, follows);
    let sources: Vec<PathBuf> = sources.iter().map(|source| here.join(source)).collect();
    let dry = Options {
        dry_run: true,
        ..options.clone()
    };
    let rehearsed = told(&dry, &sources, target);
    assert_eq!(stamps(here, &paths, follows), times);
    let paths_after: Vec<PathBuf> = look(here).into_keys().collect();
    assert_eq!(paths_after, paths);
    let done = told(options, &sources, target);
    assert_eq!(rehearsed, done);
    done
}

/// Every kind of entry, and a directory `there` that has some of them.
fn arrange(here: &Path) {
    let tree = here.join("tree");
    fs::create_dir_all(tree.join("sub/deep")).unwrap();
    fs::write(tree.join("a"), "a").unwrap();
    fs::write(tree.join("sub/b"), "bb").unwrap();
    fs::write(tree.join("sub/deep/c"), vec![7; 300_000]).unwrap();
    fs::hard_link(tree.join("a"), tree.join("sub/hard")).unwrap();
    symlink("a", tree.join("link")).unwrap();
    symlink("nowhere", tree.join("dangling")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        tree.join("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let there = here.join("there");
    fs::create_dir_all(there.join("tree/sub/b")).unwrap();
    fs::write(there.join("tree/a"), "old").unwrap();
    fs::write(there.join("tree/link"), "old").unwrap();
    fs::write(there.join("tree/sub/deep"), "a file").unwrap();
}

#[test]
fn a_new_tree() {
    let (here, _, _) = place();
    arrange(here.path());
    let target = Target::As(here.path().join("new"));
    let (report, _) = same(here.path(), &Options::archive(), &["tree"], &target);
    assert_eq!((report.files, report.directories, report.symlinks), (3, 3, 2));
    assert_eq!((report.hard_links, report.specials, report.failures), (1, 1, 0));
    assert_eq!(report.bytes, 300_003);
}

#[test]
fn into_a_tree() {
    for options in [
        Options::archive(),
        Options {
            backup: Backup::Numbered,
            ..Options::archive()
        },
        Options {
            overwrite: Overwrite {
                when: When::NoneFail,
                ..Overwrite::default()
            },
            ..Options::archive()
        },
        Options {
            overwrite: Overwrite {
                when: When::Older,
                ..Overwrite::default()
            },
            dereference: Dereference::Always,
            copy_contents: false,
            ..recursive()
        },
        Options {
            in_place: true,
            filter: vec![Rule::new(Action::Exclude, "deep/").unwrap()],
            ..recursive()
        },
        Options {
            method: Method::HardLink,
            ..recursive()
        },
        Options {
            method: Method::SymbolicLink,
            ..recursive()
        },
    ] {
        let (here, _, _) = place();
        arrange(here.path());
        let target = Target::Into(here.path().join("there"));
        let (report, told) = same(here.path(), &options, &["tree"], &target);
        // A file in the place of a directory, or the other way round.
        assert!(report.failures >= 1, "{told:?}");
    }
}

#[test]
fn what_is_refused() {
    for (options, sources, target, refusal) in [
        (Options::default(), vec!["tree"], "new", "OmittingDirectory"),
        (Options::default(), vec!["tree/a"], "tree/sub/hard", "SameFile"),
        (Options::default(), vec!["tree/nowhere"], "new", "StatSource"),
        (Options::default(), vec!["tree/dangling"], "new", "StatSource"),
        (
            Options::default(),
            vec!["tree/a"],
            "tree/dangling",
            "DanglingLink",
        ),
        (Options::default(), vec!["tree/a"], "nowhere/new", "CreateFile"),
        (
            Options::default(),
            vec!["tree/a"],
            "there/tree/sub/b",
            "FileOverDirectory",
        ),
        (recursive(), vec!["tree"], "there/tree/a", "DirectoryOverFile"),
        (recursive(), vec!["tree"], "tree", "SameFile"),
        (recursive(), vec!["tree"], "tree/new", "IntoItself"),
        (recursive(), vec!["tree"], "tree/sub/deep/new", "IntoItself"),
    ] {
        let (here, _, _) = place();
        arrange(here.path());
        let target = Target::As(here.path().join(target));
        let (report, told) = same(here.path(), &options, &sources, &target);
        assert_eq!(report.failures, 1, "{told:?}");
        assert!(
            told.iter().any(|line| line.contains(refusal)),
            "{refusal}: {told:?}"
        );
    }
}

#[test]
fn below_itself_in_what_is_there() {
    let (here, _, _) = place();
    arrange(here.path());
    let target = Target::Into(here.path().join("tree/sub"));
    let (report, _) = same(here.path(), &recursive(), &["tree"], &target);
    assert_eq!(report.failures, 1);
}

#[test]
fn sources_of_one_name() {
    let (here, _, _) = place();
    arrange(here.path());
    fs::create_dir_all(here.path().join("other/tree")).unwrap();
    fs::write(here.path().join("other/tree/a"), "other").unwrap();
    fs::write(here.path().join("other/a"), "other").unwrap();
    fs::create_dir(here.path().join("empty")).unwrap();
    let target = Target::Into(here.path().join("empty"));
    let sources = ["tree/a", "other/a", "tree/sub", "tree/a"];
    let (report, told) = same(here.path(), &recursive(), &sources, &target);
    assert_eq!(report.failures, 2, "{told:?}");
    let parents = Options {
        parents: true,
        ..Options::archive()
    };
    // Of a file with a name in two sources, either may be come to first.
    fs::remove_file(here.path().join("tree/sub/hard")).unwrap();
    let (report, told) = same(here.path(), &parents, &["tree/sub", "tree/a", "other/a"], &target);
    assert_eq!(report.failures, 0, "{told:?}");
    same(here.path(), &parents, &["tree/sub"], &target);
}

/// Opened to be read, a FIFO would wait for its writer.
#[test]
fn nothing_is_opened() {
    let (here, _, _) = place();
    arrange(here.path());
    let dry = Options {
        dry_run: true,
        ..Options::default()
    };
    let target = Target::As(here.path().join("new"));
    let (report, lines) = told(&dry, &[here.path().join("tree/fifo")], &target);
    assert_eq!((report.files, report.failures), (1, 0), "{lines:?}");
}

#[test]
fn far_down() {
    let (here, _, _) = place();
    let deep: PathBuf = std::iter::repeat_n("d", 300).collect();
    fs::create_dir_all(here.path().join("tree").join(&deep)).unwrap();
    fs::write(here.path().join("tree").join(&deep).join("file"), "").unwrap();
    let target = Target::As(here.path().join("new"));
    let (report, _) = same(here.path(), &Options::archive(), &["tree"], &target);
    assert_eq!((report.directories, report.files, report.failures), (301, 1, 0));
}
