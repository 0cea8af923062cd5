//! Copies in processes of their own that are killed, and what they leave.

#![allow(dead_code)] // Each test uses a part of it.

use proactor_copy::{copy, Copied, Diagnostic, Fsync, Observer, Options, Overwrite, Target, When};
use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// What a child is to do: its options and paths, a line each.
const ORDER: &str = "PROACTOR_COPY_ORDER";

pub fn archive() -> Options {
    Options::archive()
}

/// A directory, and where a source and a target are to be in it: in memory where there is some, for a busy disk takes ten
/// times as long.
pub fn place() -> (TempDir, PathBuf, PathBuf) {
    let here = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let here = here.unwrap();
    let (source, target) = (here.path().join("source"), here.path().join("target"));
    (here, source, target)
}

/// Kills its process after so many files.
struct Bomb(AtomicU64);

impl Observer for Bomb {
    fn copied(&self, _: &Copied<'_>) {
        if self.0.fetch_sub(1, Ordering::Relaxed) == 1 {
            // SAFETY: no pointers.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        }
    }

    fn diagnostic(&self, diagnostic: &Diagnostic) {
        assert!(!diagnostic.is_failure(), "{diagnostic:?}");
    }
}

/// The child: does what it was ordered to. In the test's own process, nothing.
#[test]
fn child() {
    let Ok(order) = std::env::var(ORDER) else {
        return;
    };
    let lines: Vec<&str> = order.lines().collect();
    let [point, flags, target, sources @ ..] = &lines[..] else {
        panic!("{order}")
    };
    let options = options_of(flags);
    let sources: Vec<PathBuf> = sources.iter().map(PathBuf::from).collect();
    let path = PathBuf::from(target);
    let target = if sources.len() > 1 {
        Target::Into(path)
    } else {
        Target::As(path)
    };
    let bomb = Bomb(AtomicU64::new(point.parse().unwrap()));
    let report = copy(&super::support::engaged(&options), &sources, &target, &bomb);
    assert_eq!(report.failures, 0);
}

fn flags_of(options: &Options) -> String {
    let Options {
        resume,
        fsync,
        backup,
        overwrite,
        preserve,
        parents,
        ..
    } = options;
    format!(
        "{resume} {fsync:?} {} {} {} {parents}",
        *backup != proactor_copy::Backup::None,
        overwrite.when == When::NoneFail,
        preserve.timestamps
    )
}

fn options_of(flags: &str) -> Options {
    let flags: Vec<&str> = flags.split(' ').collect();
    let [resume, fsync, backup, fails, all, parents] = flags[..] else {
        panic!("{flags:?}")
    };
    let base = if all == "true" {
        archive()
    } else {
        super::support::recursive()
    };
    Options {
        resume: resume == "true",
        parents: parents == "true",
        fsync: match fsync {
            "Each" => Fsync::Each,
            "End" => Fsync::End,
            _ => Fsync::None,
        },
        backup: if backup == "true" {
            proactor_copy::Backup::Simple
        } else {
            base.backup
        },
        overwrite: Overwrite {
            when: if fails == "true" {
                When::NoneFail
            } else {
                base.overwrite.when
            },
            ..base.overwrite
        },
        ..base
    }
}

fn order(point: u64, options: &Options, sources: &[PathBuf], target: &Path) -> Command {
    assert_eq!(
        options_of(&flags_of(options)),
        *options,
        "flags_of knows too little"
    );
    let paths = [target].into_iter().chain(sources.iter().map(PathBuf::as_path));
    let paths: Vec<&str> = paths.map(|path| path.to_str().unwrap()).collect();
    let order = format!("{point}\n{}\n{}", flags_of(options), paths.join("\n"));
    let child = format!("{}child", super::support::module(module_path!()));
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", &child, "--nocapture"])
        .env(ORDER, order)
        .stdout(Stdio::null());
    command
}

fn spawn(point: u64, options: &Options, sources: &[PathBuf], target: &Path) -> Child {
    order(point, options, sources, target).spawn().unwrap()
}

/// Whether it was killed, and not done before.
fn was_killed(mut child: Child) -> bool {
    let status = child.wait().unwrap();
    assert!(
        status.success() || status.signal() == Some(libc::SIGKILL),
        "{status}"
    );
    !status.success()
}

/// Copies in another process, which is killed when it has copied so many entries. Says whether it was.
pub fn killed_after(point: u64, options: &Options, source: &Path, target: &Path) -> bool {
    was_killed(spawn(point, options, &[source.into()], target))
}

/// The same as another user.
pub fn killed_as(uid: u32, point: u64, options: &Options, source: &Path, target: &Path) -> bool {
    let mut command = order(point, options, &[source.into()], target);
    was_killed(command.uid(uid).gid(uid).spawn().unwrap())
}

pub fn several_killed_after(point: u64, options: &Options, sources: &[PathBuf], target: &Path) -> bool {
    was_killed(spawn(point, options, sources, target))
}

/// The same, killed after a time, wherever it is then.
pub fn killed_at(microseconds: u64, options: &Options, source: &Path, target: &Path) -> bool {
    let mut child = spawn(u64::MAX, options, &[source.into()], target);
    std::thread::sleep(Duration::from_micros(microseconds));
    // It may have ended.
    let _ = child.kill();
    was_killed(child)
}

/// What a killed run has left.
#[derive(Debug)]
pub struct Left {
    pub tree: PathBuf,
    pub journal: PathBuf,
    pub id: String,
}

impl Left {
    /// Of a copy with this name. There is one.
    pub fn beside(target: &Path) -> Left {
        let mut left = journals(target.parent().unwrap());
        assert_eq!(left.len(), 1, "{left:?}");
        left.remove(0)
    }

    /// A tree has its name when everything is in it. One that has it may be gone on with: what that makes anew has partial
    /// names until it is whole.
    pub fn is_whole(source: &Path, target: &Path) -> bool {
        let is_partial = |path: &&PathBuf| path.to_string_lossy().contains(".partial-");
        let target = super::support::look(target);
        super::support::look(source)
            .keys()
            .eq(target.keys().filter(|path| !is_partial(path)))
    }

    /// Makes the journal one of another boot: of the records that begin a run, the life is another one, that no
    /// earlier call has given it.
    pub fn another_boot(&self) {
        self.each_record(|file, offset, key, value| {
            if key == 1 || key == 2 {
                file.write_all_at(&value.wrapping_add(1).to_le_bytes(), offset + 8)
                    .unwrap();
            }
        });
    }

    /// Appends a barrier: the first so many records are on the disk.
    pub fn barrier(&self, records: Option<u64>) {
        if let Some(records) = records {
            self.append(&[3u64.to_le_bytes(), records.to_le_bytes()].concat());
        }
    }

    pub fn append(&self, bytes: &[u8]) {
        let mut file = fs::OpenOptions::new().append(true).open(&self.journal).unwrap();
        file.write_all(bytes).unwrap();
    }

    fn each_record(&self, mut visit: impl FnMut(&fs::File, u64, u64, u64)) {
        let file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(&self.journal)
            .unwrap();
        let bytes = fs::read(&self.journal).unwrap();
        let path_length = u32::from_le_bytes(bytes[20..24].try_into().unwrap()) as usize;
        let mut offset = (64 + path_length).next_multiple_of(16);
        while offset + 16 <= bytes.len() {
            let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
            visit(&file, offset as u64, number(offset), number(offset + 8));
            offset += 16;
        }
    }
}

fn journals(dir: &Path) -> Vec<Left> {
    let paths = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let journals = paths.filter(|path| path.extension().is_some_and(|end| end == "journal"));
    journals
        .map(|journal| {
            let tree = journal.with_extension("");
            let id = tree.extension().unwrap().to_str().unwrap();
            Left {
                id: id.strip_prefix("partial-").unwrap().into(),
                journal: journal.clone(),
                tree,
            }
        })
        .collect()
}

/// Also where directories may not be written to.
pub fn remove(tree: &Path) {
    let done = Command::new("chmod")
        .arg("-R")
        .arg("u+rwX")
        .arg(tree)
        .status()
        .unwrap();
    assert!(done.success());
    fs::remove_dir_all(tree).unwrap();
}
