//! The plan of a copy in parts: plain data, and what can be asked of it.

use super::place::Place;
use super::records::name_of;
use super::steps::of_new_tree;
use super::Error;
use crate::api::json::{self, Name};
use crate::api::observer::Observer;
use crate::api::options::Options;
use crate::api::report::Report;
use crate::api::target::Target;
use crate::operands::plan::carry_out;
use crate::pair::part::{Part, Top};
use crate::pair::range::Range;
use crate::sys::names::beside;
use crate::sys::Stat;
use crate::walk::run::Run;
use serde::{Deserialize, Serialize};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Another one for each change of what a plan means.
pub(super) const VERSION: u32 = 1;

/// A copy of one directory to a name that is free, in parts. Plain data, to be sent and stored as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    pub(super) version: u32,
    #[serde(with = "json::path")]
    pub(super) source: PathBuf,
    #[serde(with = "json::path")]
    pub(super) target: PathBuf,
    /// Names in the target's directory: the tree's until it is finished, and that of the records.
    pub(super) partial: Name,
    pub(super) records: Name,
    /// The identity of the source.
    pub(super) from: Identity,
    pub(super) options: Options,
    pub(super) digest: u64,
    pub(super) shards: Vec<Shard>,
}

/// A part of a copy: what is in a range of paths.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shard {
    #[serde(flatten)]
    pub(super) range: Range,
    /// About how many entries it has.
    pub entries: u64,
    /// About how many bytes they have.
    pub bytes: u64,
}

/// The facts that tell a directory from another one that is in its place on another machine, such as an empty mount
/// point: some file systems have other inodes on each machine, but then the time is the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity {
    inode: u64,
    seconds: i64,
    nanoseconds: u32,
}

impl Identity {
    pub(super) fn of(stat: &Stat) -> Identity {
        Identity {
            inode: stat.id.1,
            seconds: stat.mtime.tv_sec,
            nanoseconds: stat.mtime.tv_nsec as u32,
        }
    }

    pub(super) fn may_be(&self, other: &Identity) -> bool {
        let time = |id: &Identity| (id.seconds, id.nanoseconds);
        self.inode == other.inode || time(self) == time(other)
    }
}

impl Plan {
    /// The directory that is copied.
    pub fn source(&self) -> &Path {
        &self.source
    }

    /// The name that its copy gets.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// The parts, each known by its index.
    pub fn shards(&self) -> &[Shard] {
        &self.shards
    }

    /// Has its shards run by this many threads each, instead of those that were wished for when it was made; 0 is as many
    /// as help.
    pub fn set_jobs(&mut self, jobs: usize) {
        self.options.jobs = jobs;
    }

    /// The directory with the records of the shards, beside the target.
    pub fn records(&self) -> PathBuf {
        self.beside(&self.records)
    }

    /// The new tree until it has its name.
    pub fn partial(&self) -> PathBuf {
        self.beside(&self.partial)
    }

    fn beside(&self, name: &Name) -> PathBuf {
        let directory = self.target.parent().unwrap_or(Path::new("/"));
        directory.join(std::ffi::OsStr::from_bytes(name.0.to_bytes()))
    }

    /// A plan as it was stored.
    pub fn from_json(text: &[u8]) -> Result<Plan, Error> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let broken = |error: serde_json::Error| Error::NoPlan(error.to_string());
        let Versioned { version } = serde_json::from_slice(text).map_err(broken)?;
        if version != VERSION {
            return Err(Error::Version(version));
        }
        let plan: Plan = serde_json::from_slice(text).map_err(broken)?;
        match plan.defect() {
            Some(defect) => Err(Error::NoPlan(defect.into())),
            None => Ok(plan),
        }
    }

    /// Returns what no plan that was made here has: believed, it would have other things renamed or removed, or
    /// files left out.
    fn defect(&self) -> Option<&'static str> {
        let (Some(name), true) = (self.target.file_name(), self.target.is_absolute()) else {
            return Some("its target has no name, or is not absolute");
        };
        let name = CString::new(name.as_bytes()).unwrap_or_default();
        let is_beside = |other: &Name, what: &str| {
            let digits = other
                .0
                .to_bytes()
                .rsplit(|&byte| byte == b'-')
                .next()
                .unwrap_or_default();
            let number = std::str::from_utf8(digits)
                .ok()
                .and_then(|digits| u32::from_str_radix(digits, 16).ok());
            number.is_some_and(|number| beside(&name, what, number) == other.0)
        };
        let ranges = self.shards.iter().map(|shard| &shard.range);
        let ends = std::iter::once(&None).chain(ranges.clone().map(|range| &range.to));
        let begins = ranges.map(|range| &range.from).chain([&None]);
        let defects = [
            (!self.source.is_absolute(), "its source is not absolute"),
            (
                !is_beside(&self.partial, "partial"),
                "its tree is none of a copy's",
            ),
            (
                !is_beside(&self.records, "shards"),
                "its records are none of a copy's",
            ),
            (self.shards.is_empty(), "it has no shards"),
            (!ends.eq(begins), "its shards are not all of the tree"),
            (
                !of_new_tree(&self.options).is_ok_and(|fit| fit == self.options),
                "its options are none of a plan's",
            ),
        ];
        defects
            .into_iter()
            .find_map(|(found, defect)| found.then_some(defect))
    }

    /// To store it.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("plain data")
    }

    /// Returns the shards that have no record of being done.
    pub fn missing(&self) -> Result<Vec<usize>, Error> {
        let place = Place::open(self)?;
        let mut missing = Vec::new();
        for shard in 0..self.shards.len() {
            if place.records.read(&name_of(shard))?.is_none() {
                missing.push(shard);
            }
        }
        Ok(missing)
    }

    /// Returns what a shard has done, and repeats its diagnostics to the observer; `None` if it is not done.
    pub fn report_of(&self, shard: usize, observer: &dyn Observer) -> Result<Option<Report>, Error> {
        self.check(shard)?;
        let done = Place::open(self)?.records.done(&name_of(shard))?;
        Ok(done.map(|done| {
            done.told.iter().for_each(|told| observer.diagnostic(told));
            done.report
        }))
    }

    pub(super) fn check(&self, shard: usize) -> Result<(), Error> {
        let shards = self.shards.len();
        if shard < shards {
            return Ok(());
        }
        Err(Error::NoSuchShard { shard, shards })
    }

    /// Does a part of it, prepared by one function, and looked at afterwards by another.
    pub(super) fn run<T>(
        &self,
        observer: &dyn Observer,
        part: Part,
        prepare: impl FnOnce(&Run<'_>) -> Result<(), Error>,
        then: impl FnOnce(Report, Run<'_>) -> T,
    ) -> Result<T, Error> {
        let sources = std::slice::from_ref(&self.source);
        let target = Target::As(self.target.clone());
        let mut run = Run::new(&self.options, sources, &target, observer);
        run.shared.part = part;
        prepare(&run)?;
        let report = carry_out(&run, sources, &target);
        Ok(then(report, run))
    }

    pub(super) fn top(&self) -> Top {
        Top {
            partial: self.partial.0.clone(),
        }
    }
}
