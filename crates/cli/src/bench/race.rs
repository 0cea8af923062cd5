//! `proactor bench files` and `proactor bench cp`: from flags to a plan.

use super::flags::CounterChoice;
use super::outputs::Outputs;
use super::plan::{quoted, refuse_repeated, QUICK_ROUNDS, ROUNDS};
use crate::progress::When;
use crate::Host;
use clap::{ArgAction, Args, ValueEnum};
use proactor_bench::job::Cache;
use proactor_bench::race::copiers::{self, Copier, Source};
use proactor_bench::race::files::{self, Offer, Python};
use proactor_bench::race::Common;
use proactor_bench::run::Counters;
use proactor_bench::tree::{Kind, KINDS};
use std::ffi::OsString;
use std::path::PathBuf;

/// Factor by which `--quick` copies less.
const QUICK_PART: u64 = 10;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CacheChoice {
    /// Drop the files' data; names and inodes stay in memory
    Dropped,
    /// Read all of it into the page cache
    Warmed,
    /// Leave what the run before has left
    Left,
}

#[derive(Args)]
pub(super) struct Shared {
    /// Rounds [default: 5]
    ///
    /// At least 4 are needed to tell contenders apart.
    #[arg(long, value_name = "N", help_heading = "How long")]
    rounds: Option<u32>,
    /// Take a first look: a tenth of the work, 4 rounds
    #[arg(long, help_heading = "How long")]
    pub quick: bool,
    /// Make all files in this directory, and remove them at the end [default: the current one]
    #[arg(
        long,
        value_name = "DIR",
        default_value = ".",
        hide_default_value = true,
        help_heading = "Where"
    )]
    directory: PathBuf,
    /// State of the page cache before each round
    #[arg(
        long,
        value_enum,
        default_value = "warmed",
        value_name = "WHAT",
        help_heading = "How it is measured"
    )]
    cache: CacheChoice,
    /// Seed of the contents and of the order
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        help_heading = "How it is measured"
    )]
    seed: u64,
    /// Count system calls, in a separate round
    #[arg(
        long,
        value_enum,
        default_value = "auto",
        value_name = "HOW",
        help_heading = "How it is measured"
    )]
    counters: CounterChoice,
    /// Measure nothing: list what is available, and what is not
    #[arg(long, help_heading = "How it is measured")]
    pub list: bool,
    /// Measure nothing: show what would be measured
    #[arg(long, help_heading = "How it is measured")]
    pub dry_run: bool,

    #[command(flatten)]
    pub outputs: Outputs,
    #[arg(hide = true)]
    word: Option<PathBuf>,
    /// Show progress
    #[arg(
        long,
        value_enum,
        default_value = "auto",
        value_name = "WHEN",
        help_heading = "Output"
    )]
    pub progress: When,
}

/// Flags of `bench files`. An option that is repeated has the value that was given last.
#[derive(Args)]
#[command(args_override_self = true)]
pub(super) struct Files {
    /// small-files, chunks, random, lines, write-lines [default: all]
    #[arg(long, action = ArgAction::Set, value_delimiter = ',', value_name = "LIST", help_heading = "Workload")]
    task: Option<Vec<String>>,
    /// Only contenders whose name begins with one of these, as in aiofiles,proactor [default: all that are
    /// installed]
    #[arg(long, action = ArgAction::Set, value_delimiter = ',', value_name = "LIST", help_heading = "Workload")]
    only: Option<Vec<String>>,
    /// A Python that has the package and the contenders [default: the one that runs this command]
    #[arg(long, value_name = "FILE", help_heading = "Where")]
    python: Option<PathBuf>,
    /// Check every byte that is read (small-files, random; the others count). The times then include the
    /// checking
    #[arg(long, help_heading = "How it is measured")]
    verify: bool,
    #[command(flatten)]
    pub shared: Shared,
}

/// Flags of `bench cp`. An option that is repeated has the value that was given last.
#[derive(Args)]
#[command(args_override_self = true)]
pub(super) struct Cp {
    /// small, large, mixed [default: all; --list describes them]
    #[arg(long, action = ArgAction::Set, value_delimiter = ',', value_name = "LIST", help_heading = "Workload")]
    tree: Option<Vec<String>>,
    /// Copy this directory instead; it is only read
    #[arg(long, value_name = "DIR", conflicts_with = "tree", help_heading = "Workload")]
    source: Option<PathBuf>,
    /// Only copiers whose name begins with one of these [default: all that are installed]
    #[arg(long, action = ArgAction::Set, value_delimiter = ',', value_name = "LIST", help_heading = "Workload")]
    only: Option<Vec<String>>,
    /// Add a copier: a command to which source and target are appended. Can be repeated
    #[arg(long, action = ArgAction::Append, value_name = "COMMAND", help_heading = "Workload")]
    also: Vec<String>,
    /// Include writing the copies to the device (syncfs) in the time: 1 or 0 [default: 0]
    #[arg(long = "end_fsync", value_parser = ["0", "1"], num_args = 0..=1, default_missing_value = "1",
          value_name = "0|1", help_heading = "How it is measured")]
    end_fsync: Option<String>,
    #[command(flatten)]
    pub shared: Shared,
}

impl Shared {
    /// Fails for a word that belongs to no option.
    pub fn refuse_word(&self) -> Result<(), String> {
        match &self.word {
            Some(word) => self.outputs.refuse_word(None, word),
            None => Ok(()),
        }
    }

    fn common(&self, command: &[String]) -> Result<Common, String> {
        Ok(Common {
            directory: self.directory.clone(),
            rounds: self
                .rounds
                .unwrap_or(if self.quick { QUICK_ROUNDS } else { ROUNDS }),
            seed: self.seed,
            counters: match self.counters {
                CounterChoice::Auto => Counters::Auto,
                CounterChoice::None => Counters::None,
                CounterChoice::Perf => Counters::Perf,
                CounterChoice::Bpf => Counters::Bpf,
            },
            cache: match self.cache {
                CacheChoice::Dropped => Cache::Dropped,
                CacheChoice::Warmed => Cache::Warmed,
                CacheChoice::Left => Cache::Left,
            },
            command: command.iter().map(|word| quoted(word)).collect(),
        })
    }
}

/// A filter by name, which also checks that every requested name exists.
struct Wanted<'a>(&'a Option<Vec<String>>);

impl Wanted<'_> {
    fn has(&self, name: &str) -> bool {
        self.0
            .as_ref()
            .is_none_or(|list| list.iter().any(|start| name.starts_with(start.as_str())))
    }

    fn check<'n>(&self, option: &str, names: impl Iterator<Item = &'n str> + Clone) -> Result<(), String> {
        let list = self.0.as_deref().unwrap_or_default();
        for (at, start) in list.iter().enumerate() {
            let others = list.iter().enumerate().filter(|(other, _)| *other != at);
            if let Some((_, other)) = others
                .into_iter()
                .find(|(_, other)| start.starts_with(other.as_str()))
            {
                return Err(format!(
                    "{option} {start} has no effect beside {other}, with which it begins: leave one of them out"
                ));
            }
        }
        let unknown = self.0.iter().flatten();
        let unknown = unknown.filter(|start| !names.clone().any(|name| name.starts_with(start.as_str())));
        match unknown.clone().next() {
            None => Ok(()),
            Some(start) => {
                let mut all: Vec<&str> = names.collect();
                all.sort_unstable();
                all.dedup();
                Err(format!(
                    "{option} {start}: nothing here is called so: there are {}",
                    all.join(", ")
                ))
            }
        }
    }
}

/// Tasks of `bench files` that check every byte with `--verify`.
const VERIFIED: [&str; 2] = ["small-files", "random"];

const NO_PYTHON: &str = "bench files measures Python packages, and this binary has no Python: \
    run it from the package (pip install proactor; python -m proactor bench files), or name an interpreter \
    that has the package with --python FILE";

impl Files {
    fn python(&self, host: &Host<'_>) -> Result<Python, String> {
        let program = self
            .python
            .clone()
            .or_else(|| host.python.clone())
            .ok_or(NO_PYTHON)?;
        Ok(Python {
            program: program.into_os_string(),
            quick: self.shared.quick,
        })
    }

    /// Makes the plan from the flags.
    ///
    /// # Errors
    /// A sentence about what cannot be done.
    pub fn plan(&self, host: &Host<'_>, command: &[String]) -> Result<files::Plan, String> {
        let python = self.python(host)?;
        let Offer { mut tasks, versions } = python.offer()?;
        let task = Wanted(&self.task);
        task.check("--task", tasks.iter().map(|task| task.name.as_str()))?;
        tasks.retain(|each| task.has(&each.name));
        if self.verify && !tasks.iter().any(|task| VERIFIED.contains(&task.name.as_str())) {
            return Err(format!(
                "--verify: of these tasks none checks bytes; {} do",
                VERIFIED.join(" and ")
            ));
        }
        let only = Wanted(&self.only);
        let all = tasks.iter().flat_map(|task| &task.contenders);
        only.check("--only", all.clone().map(|each| each.name.as_str()))?;
        let missing = all
            .filter(|each| only.has(&each.name))
            .filter_map(|each| each.missing.clone());
        let mut left_out: Vec<String> = missing.collect();
        left_out.sort_unstable();
        left_out.dedup();
        for task in &mut tasks {
            task.contenders
                .retain(|each| only.has(&each.name) && each.missing.is_none());
        }
        Ok(files::Plan {
            common: self.shared.common(command)?,
            python,
            tasks,
            verify: self.verify,
            left_out,
            versions,
        })
    }

    /// Lists the tasks and contenders that can be chosen.
    ///
    /// # Errors
    /// Without a Python.
    pub fn list(&self, host: &Host<'_>) -> Result<String, String> {
        let offer = self.python(host)?.offer()?;
        let mut text = String::new();
        for task in &offer.tasks {
            text += &format!("{}\n", task.about);
            for each in &task.contenders {
                let state = each.missing.as_deref().unwrap_or("works");
                text += &format!("  {:<28}{state}\n", each.name);
            }
        }
        let versions = offer
            .versions
            .iter()
            .map(|(name, version)| format!("{name} {version}"));
        Ok(text + &format!("versions: {}\n", versions.collect::<Vec<_>>().join(", ")))
    }
}

impl Cp {
    fn copiers(&self, host: &Host<'_>) -> Result<(Vec<Copier>, Vec<String>), String> {
        let (mut there, missing) = copiers::copiers(&own(host)?);
        for command in &self.also {
            if there.iter().any(|other| other.name == *command) {
                return Err(format!("--also {command}: it takes part already"));
            }
            there.push(Copier::named(command)?);
        }
        Ok((there, missing))
    }

    /// Makes the plan from the flags.
    ///
    /// # Errors
    /// A sentence about what cannot be done.
    pub fn plan(&self, host: &Host<'_>, command: &[String]) -> Result<copiers::Plan, String> {
        refuse_repeated("--tree", self.tree.as_deref())?;
        if self.shared.quick && self.source.is_some() && self.shared.rounds.is_some() {
            return Err("--quick has no effect: --rounds is given, and --source is copied as it is".into());
        }
        let (mut there, mut missing) = self.copiers(host)?;
        let only = Wanted(&self.only);
        only.check("--only", there.iter().map(|each| each.name.as_str()))?;
        there.retain(|each| only.has(&each.name) || self.also.contains(&each.name));
        // Each reason begins with the name.
        missing.retain(|why| only.has(why));
        let part = if self.shared.quick { QUICK_PART } else { 1 };
        let sources = match (&self.source, &self.tree) {
            (Some(path), _) => vec![Source::There(path.clone())],
            (None, Some(names)) => {
                let named = |name: &String| Ok(Source::Made(Kind::named(name)?, part));
                names.iter().map(named).collect::<Result<_, String>>()?
            }
            (None, None) => KINDS.iter().map(|kind| Source::Made(kind, part)).collect(),
        };
        Ok(copiers::Plan {
            common: self.shared.common(command)?,
            copiers: there,
            sources,
            end_fsync: self.end_fsync.as_deref() == Some("1"),
            left_out: missing,
        })
    }

    /// Lists the trees and copiers that can be chosen.
    ///
    /// # Errors
    /// If a copier that is named does not exist.
    pub fn list(&self, host: &Host<'_>) -> Result<String, String> {
        let (there, missing) = self.copiers(host)?;
        let mut text = String::from("copiers:\n");
        for copier in there {
            text += &format!("  {:<24}works\n", copier.name);
        }
        for why in missing {
            text += &format!("  {why}\n");
        }
        text += "trees:\n";
        for kind in KINDS {
            text += &format!("  {:<24}{}\n", kind.name, kind.about);
        }
        Ok(text)
    }
}

/// Returns the command that starts this program.
pub(super) fn own(host: &Host<'_>) -> Result<Vec<OsString>, String> {
    if let Some(python) = &host.python {
        return Ok(vec![
            python.clone().into_os_string(),
            "-m".into(),
            "proactor".into(),
        ]);
    }
    let path = std::env::current_exe().map_err(|e| format!("this program: {e}"))?;
    Ok(vec![path.into_os_string()])
}

/// Describes the plan for `--dry-run`.
pub(super) fn files_described(plan: &files::Plan) -> String {
    let mut text = String::new();
    for task in &plan.tasks {
        for each in &task.contenders {
            text += &format!("{}: {}\n", each.name, task.about);
        }
    }
    let cells = plan.tasks.iter().map(|task| task.contenders.len()).sum();
    text + &ending(cells, &plan.common, &plan.left_out)
}

/// Describes the plan for `--dry-run`.
pub(super) fn cp_described(plan: &copiers::Plan) -> String {
    let mut text = String::new();
    let pairs = plan.pairs();
    for (source, copier) in &pairs {
        text += &format!(
            "{}: {}\n",
            plan.copiers[*copier].name,
            plan.sources[*source].words()
        );
    }
    text + &ending(pairs.len(), &plan.common, &plan.left_out)
}

fn ending(cells: usize, common: &Common, left_out: &[String]) -> String {
    let mut text = format!(
        "{cells} cells, {} rounds, in {}\n",
        common.rounds,
        common.directory.display()
    );
    for why in left_out {
        text += &format!("left out: {why}\n");
    }
    text
}
