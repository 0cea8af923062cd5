//! `--json`: one object a line (docs/copy.md names the keys).

use proactor_copy::shards::Plan;
use proactor_copy::{Copied, Diagnostic, Kind, Report};
use serde::Serialize;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// A name: text if it is UTF-8, and else a list of its bytes, so that nothing is lost.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Name {
    Text(String),
    Bytes(Vec<u8>),
}

impl Name {
    fn of(path: &Path) -> Name {
        match path.to_str() {
            Some(text) => Name::Text(text.to_string()),
            None => Name::Bytes(path.as_os_str().as_bytes().to_vec()),
        }
    }
}

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub(super) enum Event {
    Copied(Entry),
    Skipped(Entry),
    Excluded(Origin),
    Resumed(Entry),
    Error(Complaint),
    Warning(Complaint),
    Plan(Planned),
    Shard(Part),
    Report(Summary),
}

#[derive(Serialize)]
pub(super) struct Planned {
    plan: Name,
    shards: usize,
    entries: u64,
    bytes: u64,
    partial: Name,
    records: Name,
}

#[derive(Serialize)]
pub(super) struct Part {
    shard: usize,
    shards: usize,
    #[serde(flatten)]
    did: Summary,
}

#[derive(Serialize)]
pub(super) struct Entry {
    kind: &'static str,
    source: Name,
    target: Name,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    backup: Option<Name>,
}

#[derive(Serialize)]
pub(super) struct Origin {
    kind: &'static str,
    source: Name,
}

#[derive(Serialize)]
pub(super) struct Complaint {
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<Name>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<Name>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<Name>,
    #[serde(skip_serializing_if = "Option::is_none")]
    other: Option<Name>,
    #[serde(skip_serializing_if = "Option::is_none")]
    errno: Option<i32>,
}

#[derive(Serialize)]
pub(super) struct Summary {
    status: u8,
    dry_run: bool,
    files: u64,
    directories: u64,
    symlinks: u64,
    hard_links: u64,
    specials: u64,
    skipped: u64,
    excluded: u64,
    resumed: u64,
    failures: u64,
    verified: u64,
    bytes: u64,
    shared_bytes: u64,
    hole_bytes: u64,
    stopped: bool,
    partial: Vec<Name>,
    seconds: f64,
}

impl Event {
    pub fn copied(entry: &Copied<'_>) -> Event {
        Event::Copied(Entry::of(entry))
    }

    pub fn skipped(entry: &Copied<'_>) -> Event {
        Event::Skipped(Entry::of(entry))
    }

    pub fn excluded(entry: &Copied<'_>) -> Event {
        Event::Excluded(Origin {
            kind: kind(entry.kind),
            source: Name::of(&entry.source()),
        })
    }

    pub fn resumed(entry: &Copied<'_>) -> Event {
        Event::Resumed(Entry::of(entry))
    }

    pub fn diagnostic(diagnostic: &Diagnostic, sentence: &str) -> Event {
        let mut complaint = Complaint {
            message: sentence.to_string(),
            source: None,
            target: None,
            path: None,
            other: None,
            errno: None,
        };
        match diagnostic {
            Diagnostic::Failed {
                path, other, error, ..
            } => {
                complaint.path = Some(Name::of(path));
                complaint.other = other.as_deref().map(Name::of);
                complaint.errno = error.raw_os_error();
            }
            Diagnostic::Refused { source, target, .. } | Diagnostic::Differs { source, target, .. } => {
                complaint.source = Some(Name::of(source));
                complaint.target = Some(Name::of(target));
            }
            Diagnostic::NoEngine { errno, .. } => complaint.errno = Some(*errno),
            Diagnostic::NoMemory => complaint.errno = Some(libc::ENOMEM),
            Diagnostic::Changed(path) | Diagnostic::Warning { path, .. } => {
                complaint.path = Some(Name::of(path))
            }
        }
        if diagnostic.is_failure() {
            Event::Error(complaint)
        } else {
            Event::Warning(complaint)
        }
    }

    pub fn failure(message: &str, path: Option<&Path>, error: Option<&std::io::Error>) -> Event {
        Event::Error(Complaint {
            message: message.to_string(),
            source: None,
            target: None,
            path: path.map(Name::of),
            other: None,
            errno: error.and_then(std::io::Error::raw_os_error),
        })
    }

    pub fn plan(plan: &Plan, path: &Path) -> Event {
        Event::Plan(Planned {
            plan: Name::of(path),
            shards: plan.shards().len(),
            entries: plan.shards().iter().map(|shard| shard.entries).sum(),
            bytes: plan.shards().iter().map(|shard| shard.bytes).sum(),
            partial: Name::of(&plan.partial()),
            records: Name::of(&plan.records()),
        })
    }

    pub fn shard(shard: usize, shards: usize, report: &Report) -> Event {
        let did = Summary::of(report, u8::from(report.failures > 0), false);
        Event::Shard(Part { shard, shards, did })
    }

    pub fn report(report: &Report, status: u8, dry_run: bool) -> Event {
        Event::Report(Summary::of(report, status, dry_run))
    }

    pub fn line(&self) -> String {
        serde_json::to_string(self).expect("only strings, numbers and lists")
    }
}

impl Summary {
    fn of(report: &Report, status: u8, dry_run: bool) -> Summary {
        Summary {
            status,
            dry_run,
            files: report.files,
            directories: report.directories,
            symlinks: report.symlinks,
            hard_links: report.hard_links,
            specials: report.specials,
            skipped: report.skipped,
            excluded: report.excluded,
            resumed: report.resumed,
            failures: report.failures,
            verified: report.verified,
            bytes: report.bytes,
            shared_bytes: report.shared_bytes,
            hole_bytes: report.hole_bytes,
            stopped: report.stopped,
            partial: report.partial.iter().map(|path| Name::of(path)).collect(),
            seconds: report.duration.as_secs_f64(),
        }
    }
}

impl Entry {
    fn of(entry: &Copied<'_>) -> Entry {
        Entry {
            kind: kind(entry.kind),
            source: Name::of(&entry.source()),
            target: Name::of(&entry.target()),
            bytes: entry.bytes,
            backup: entry.backup.as_deref().map(Name::of),
        }
    }
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Directory | Kind::Merged => "directory",
        Kind::Symlink => "symlink",
        Kind::HardLink => "hard link",
        Kind::Special => "special",
    }
}
