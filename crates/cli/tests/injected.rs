//! `proactor cp` where one system call fails, each in turn: strace says to the process that it did, and leaves it out.
//!
//! Whatever fails, a copy that says nothing is right, and one that says something has harmed nothing.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const CALLS: &str =
    "statx,openat,mkdirat,renameat,renameat2,linkat,symlinkat,unlinkat,utimensat,fchmod,close,getdents64,\
                     copy_file_range,ftruncate,fsetxattr,fgetxattr,flistxattr";
const ERRORS: [&str; 3] = ["EIO", "EACCES", "EMFILE"];

/// Files of every length that is copied in its own way, in `src`; what they would be copied over, in `old`.
fn arrange(here: &Path) {
    for (top, text) in [("src", "new "), ("old", "old ")] {
        let top = here.join(top);
        fs::create_dir_all(top.join("sub")).unwrap();
        for (name, repeats) in [("empty", 0), ("short", 1), ("sub/long", 50_000), ("sub/more", 3)] {
            fs::write(top.join(name), text.repeat(repeats)).unwrap();
        }
        std::os::unix::fs::symlink(text, top.join("link")).unwrap();
        fs::hard_link(top.join("short"), top.join("sub/short")).unwrap();
    }
    fs::hard_link(here.join("old/sub/long"), here.join("other")).unwrap();
}

#[test]
fn a_new_tree() {
    sweep("new", &["-a", "src", "new"]);
}

#[test]
fn a_new_tree_of_links() {
    sweep("links", &["-al", "src", "new"]);
}

#[test]
fn a_tree_into_another() {
    sweep("merge", &["-a", "-T", "src", "old"]);
}

#[test]
fn with_backups() {
    sweep("backup", &["-ab", "-T", "src", "old"]);
}

#[test]
fn with_what_is_there_removed() {
    sweep(
        "remove",
        &["-p", "--remove-destination", "src/sub/long", "old/sub"],
    );
}

#[test]
fn with_a_look_at_what_was_written() {
    sweep(
        "verify",
        &[
            "-p",
            "--verify",
            "--fsync=each",
            "src/short",
            "src/sub/long",
            "old",
        ],
    );
}

#[test]
fn in_place() {
    sweep(
        "in_place",
        &["-p", "--in-place", "src/short", "src/sub/more", "sub"],
    );
}

#[test]
fn going_on() {
    sweep(RESUMED, &["-a", "--resume", "-T", "src", "new"]);
}

/// The scenario that goes on with what was killed: here.
const RESUMED: &str = "resumed";
const KILLED_AT: &str = "inject=utimensat:signal=KILL:when=4";

/// Copies as often as there are calls to fail, each time in a fresh directory.
fn sweep(scenario: &str, arguments: &[&str]) {
    let can_trace = Command::new("strace").args(["-o", "/dev/null", "true"]).status();
    if !required("strace", can_trace.is_ok_and(|status| status.success())) {
        return;
    }
    let place = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("injected")
        .join(scenario);
    let clean = run(scenario, arguments, &place, &format!("trace={CALLS}"));
    assert_eq!(clean.status.code(), Some(0), "{}", said(&clean));
    let right = contents(&place.join("work"));
    let log = fs::read_to_string(place.join("calls")).unwrap();
    for (at, (call, when)) in calls(&log).into_iter().enumerate() {
        for error in errors(at) {
            let inject = format!("inject={call}:error={error}:when={when}");
            let done = run(scenario, arguments, &place, &inject);
            check(scenario, &place.join("work"), &done, &right, &inject);
        }
    }
    fs::remove_dir_all(&place).unwrap();
}

/// The errors that the call at this place meets: one of them, and all where `make soak` runs this.
fn errors(at: usize) -> &'static [&'static str] {
    match std::env::var_os("PROACTOR_SOAK") {
        Some(_) => &ERRORS,
        None => &ERRORS[at % ERRORS.len()..][..1],
    }
}

/// Each call of a log, and how many of its kind it ends.
fn calls(log: &str) -> Vec<(&str, usize)> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    let mut calls = Vec::new();
    for line in log.lines() {
        let call = line
            .split_once('(')
            .and_then(|(call, _)| call.split_whitespace().last());
        if let Some(call) = call.filter(|call| CALLS.split(',').any(|name| name == *call)) {
            *counts.entry(call).or_default() += 1;
            calls.push((call, counts[call]));
        }
    }
    // What loads the program is not its own.
    let first = calls.iter().position(|(call, _)| *call == "statx");
    calls.split_off(first.expect("it looks at something"))
}

fn required(capability: &str, is_here: bool) -> bool {
    let required = std::env::var("PROACTOR_REQUIRE").unwrap_or_default();
    assert!(is_here || !required.split(',').any(|name| name == capability));
    if !is_here {
        let _ = writeln!(std::io::stderr(), "SKIPPED: needs {capability}");
    }
    is_here
}

/// Copies in a fresh directory, `work` in the place.
fn run(scenario: &str, arguments: &[&str], place: &Path, what: &str) -> Output {
    let _ = fs::remove_dir_all(place);
    let work = place.join("work");
    fs::create_dir_all(work.join("sub")).unwrap();
    arrange(&work);
    let copy = |what: &str| {
        Command::new("timeout")
            .args([
                "-s", "KILL", "60", "strace", "-f", "-qqq", "-o", "../calls", "-e", what,
            ])
            .args([env!("CARGO_BIN_EXE_proactor"), "cp", "--jobs=1"])
            .args(arguments)
            .current_dir(&work)
            .env("LC_ALL", "C")
            .output()
            .unwrap()
    };
    if scenario == RESUMED {
        let killed = copy(KILLED_AT);
        assert_ne!(killed.status.code(), Some(0), "{}", said(&killed));
        assert_eq!(partial_names(&work).len(), 2);
    }
    copy(what)
}

fn check(scenario: &str, work: &Path, done: &Output, right: &Contents, what: &str) {
    let at = || format!("{scenario} with {what}: {}", said(done));
    let found = contents(work);
    let left = partial_names(work);
    match done.status.code() {
        Some(0) => {
            assert_eq!((&found, left.as_slice()), (right, &[] as &[PathBuf]), "{}", at());
        }
        Some(1) => {
            assert_ne!(said(done), "", "{}", at());
            if scenario == RESUMED && !work.join("new").exists() {
                assert_eq!(left.len(), 2, "what was done is lost: {}", at());
                return;
            }
            for path in &left {
                // A journal belongs to its tree, and what cannot be removed is named.
                let name = path.file_name().unwrap().to_str().unwrap();
                let is_told = said(done).contains(name.trim_end_matches(".journal"));
                assert!(is_told || what.contains("unlinkat"), "{name} is left: {}", at());
            }
        }
        code => panic!("{code:?}: {}", at()),
    }
    // What was there is there, or what was to take its place, or its backup is.
    let fresh = work.join("../fresh");
    arrange(&fresh);
    let before = contents(&fresh);
    for (path, old) in &before {
        let new = right.get(path);
        let now = found.get(path);
        let keeps = now == Some(old) || (now.is_some() && now == new);
        assert!(keeps, "{} is {now:?}: {}", path.display(), at());
    }
    // Nothing is half of what it should be.
    for (path, now) in &found {
        let whole = right.get(path) == Some(now) || before.get(path) == Some(now);
        assert!(whole, "{} is {now:?}: {}", path.display(), at());
    }
}

fn said(done: &Output) -> String {
    String::from_utf8_lossy(&done.stderr).into_owned()
}

/// What is in each file that is not private, and where each link leads.
type Contents = BTreeMap<PathBuf, String>;

fn contents(top: &Path) -> Contents {
    let mut found = Contents::new();
    for path in below(top) {
        let text = match fs::read_link(&path) {
            Ok(link) => format!("-> {}", link.display()),
            Err(_) => {
                let text = String::from_utf8(fs::read(&path).unwrap()).unwrap();
                let beginning: String = text.chars().take(4).collect();
                let ending: String = text.chars().rev().take(4).collect();
                format!("{} of {beginning:?}, {ending:?}", text.len())
            }
        };
        found.insert(path.strip_prefix(top).unwrap().into(), text);
    }
    found
}

fn partial_names(top: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(top).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if name.contains(".partial-") {
            found.push(path);
        } else if path.is_dir() && !path.is_symlink() {
            found.extend(partial_names(&path));
        }
    }
    found
}

/// All that is no directory and has its name.
fn below(top: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(top).unwrap() {
        let path = entry.unwrap().path();
        if path.to_str().unwrap().contains(".partial-") {
            continue;
        } else if path.is_dir() && !path.is_symlink() {
            found.extend(below(&path));
        } else {
            found.push(path);
        }
    }
    found
}
