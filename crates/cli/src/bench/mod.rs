//! `proactor bench`: the command line of `proactor_bench`.
//!
//! The modules `flags` and `plan` turn flags into a plan; `outputs` turns a report into files
//! and screen output. None of them knows how anything is measured.

mod flags;
mod net;
mod outputs;
mod pictures;
mod plan;
mod race;

use crate::given::{self, Given};
use crate::progress::{self, Bar, Form};
use crate::signals::Signals;
use crate::Host;
use clap::{ArgMatches, Args, FromArgMatches, Subcommand};
use proactor_bench::compare;
use proactor_bench::environment::Environment;
use proactor_bench::job::EngineSpec;
use proactor_bench::preset::PRESETS;
use proactor_bench::refuse;
use proactor_bench::report::Report;
use proactor_bench::run::{self as measure, Progress};
use proactor_bench::units;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// Exit status for a wrong command line, or one that cannot be done here.
const MISUSE: u8 = 2;
const FAILURE: u8 = 1;

pub(crate) struct Bench {
    command: Command,
}

impl Args for Bench {
    /// Adds the flags only when they are needed: `proactor cp` uses none of them, and they took a quarter of
    /// its instructions for one file.
    fn augment_args(command: clap::Command) -> clap::Command {
        command.defer(|command| {
            Command::augment_subcommands(command)
                .subcommand_required(true)
                .arg_required_else_help(true)
        })
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Bench::augment_args(command)
    }
}

impl FromArgMatches for Bench {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Bench, clap::Error> {
        Command::from_arg_matches(matches).map(|command| Bench { command })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.command.update_from_arg_matches(matches)
    }
}

#[derive(Subcommand)]
enum Command {
    /// Compare ways of doing I/O on a file: engines, block sizes, depths
    ///
    /// Options have fio's names and units, and lists (`--bs 4k,32k`) mean every combination. Nothing is left
    /// behind: without --filename the files have no name. Options without a value here take theirs from the
    /// preset or the task.
    #[command(after_help = flags::AFTER_HELP)]
    Io(Box<flags::Io>),
    /// Compare asyncio file libraries: ours, and the packages that are installed
    ///
    /// Each round of each runs in a new Python process. All files are made in a separate directory, which is
    /// removed at the end.
    #[command(after_help = flags::AFTER_HELP)]
    Files(Box<race::Files>),
    /// Compare copiers of trees: proactor cp, and those that are installed
    ///
    /// Every run has a new target, each copy is compared with its source, and nothing is deleted before the
    /// end.
    #[command(after_help = flags::AFTER_HELP)]
    Cp(Box<race::Cp>),
    /// Put load on a server and measure it: echo, Redis's protocol, HTTP/1.1
    ///
    /// Every byte that comes back is checked. Lists (`--connections 1,25`) mean every combination. With `--
    /// COMMAND` or --pid the report includes the server's CPU, system calls and context switches for each
    /// request.
    #[command(after_help = flags::AFTER_HELP)]
    Net(Box<net::Net>),
    /// Compare two reports that were made with --json: what changed, and whether that is more than chance
    ///
    /// Exits with 0, or with --fail-if-worse with 1 if anything became worse.
    Compare(Compare),
    /// Show a report that was made with --json in another form
    Show(Show),
}

#[derive(Args)]
struct Compare {
    /// The first report
    before: PathBuf,
    /// The second report
    after: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Exit with 1 if anything became worse
    #[arg(long)]
    fail_if_worse: bool,
}

#[derive(Args)]
struct Show {
    /// The report
    report: PathBuf,
    #[command(flatten)]
    outputs: outputs::Outputs,
    #[command(flatten)]
    fio: outputs::FioOutput,
    #[arg(hide = true)]
    word: Option<PathBuf>,
}

/// Number of words before the options: the program, `bench` and what it compares.
const NAMES: usize = 3;

/// Runs the command. Returns 0 if all was measured, 1 if anything was not, 2 if the command cannot be done,
/// and 129, 130 or 143 if a signal ended it.
pub(crate) fn run(args: &Bench, command: &[OsString], host: &Host<'_>) -> u8 {
    let done = check_given(&args.command, &command[NAMES..]).and_then(|()| run_command(args, command, host));
    done.unwrap_or_else(|(status, why)| {
        crate::complain(&format!("proactor bench: {why}"));
        status
    })
}

fn run_command(args: &Bench, command: &[OsString], host: &Host<'_>) -> Outcome {
    match &args.command {
        Command::Io(io) => run_io(io, &shown(command)),
        Command::Files(files) => run_files(files, &shown(command), host),
        Command::Cp(cp) => run_cp(cp, &shown(command), host),
        Command::Net(net) => run_net(net, &shown(command), host),
        Command::Compare(args) => run_compare(args),
        Command::Show(args) => show(args),
    }
}

/// Fails for options that have no effect beside `--list`, and warns of repeated options.
fn check_given(args: &Command, words: &[OsString]) -> Result<(), (u8, String)> {
    let empty = clap::Command::new("bench");
    // Options that the list depends on, too.
    let (command, lists, of_list) = match args {
        Command::Io(io) => (flags::Io::augment_args(empty), io.list, None),
        Command::Files(files) => (
            race::Files::augment_args(empty),
            files.shared.list,
            Some("python"),
        ),
        Command::Cp(cp) => (race::Cp::augment_args(empty), cp.shared.list, Some("also")),
        Command::Net(_) => (net::Net::augment_args(empty), false, None),
        Command::Compare(_) | Command::Show(_) => return Ok(()),
    };
    let given = given::options(&command, words);
    let beside = |option: &&Given<'_>| option.name != "list" && Some(option.name) != of_list;
    let option = given
        .iter()
        .find(beside)
        .map(|option| format!("--{}", option.name));
    let file = match args {
        Command::Io(io) => io.job_file.as_ref().map(|file| file.display().to_string()),
        _ => None,
    };
    if let Some(word) = option.or(file).filter(|_| lists) {
        return Err(misuse(format!(
            "{word} has no effect with --list, which measures nothing: leave one of them out"
        )));
    }
    given::warn_of_repeated("proactor bench", &given);
    Ok(())
}

fn show(args: &Show) -> Outcome {
    let fio = Some(&args.fio);
    if let Some(word) = &args.word {
        args.outputs.refuse_word(fio, word).map_err(misuse)?;
    }
    let report = read(&args.report)?;
    if report.cells.iter().all(|cell| cell.cell.io().is_none()) {
        args.fio.refuse().map_err(misuse)?;
    }
    args.outputs.check(fio)?;
    args.outputs.write(fio, &report).map_err(|e| (FAILURE, e))?;
    Ok(0)
}

/// Fails if an output is requested of a command that measures nothing.
fn refuse_outputs(
    dry_run: bool,
    outputs: &outputs::Outputs,
    fio: Option<&outputs::FioOutput>,
) -> Result<(), (u8, String)> {
    match dry_run {
        true => outputs.refuse(fio, "--dry-run").map_err(misuse),
        false => Ok(()),
    }
}

type Outcome = Result<u8, (u8, String)>;

fn misuse(why: String) -> (u8, String) {
    (MISUSE, why)
}

/// Returns the command without the program's directory, which is private to the user who made the report.
fn shown(command: &[OsString]) -> Vec<String> {
    let arguments = command.iter().skip(1);
    let arguments = arguments.map(|word| word.to_string_lossy().into_owned());
    std::iter::once("proactor".into()).chain(arguments).collect()
}

fn run_io(io: &flags::Io, command: &[String]) -> Outcome {
    let fio = Some(&io.fio);
    refuse_outputs(io.dry_run, &io.outputs, fio)?;
    if let Some(word) = io.job_file.as_ref().filter(|path| !path.exists()) {
        if io.outputs.is_to_stdout(fio) {
            io.outputs.refuse_word(fio, word).map_err(misuse)?;
        }
    }
    if io.list {
        crate::print(&list());
        return Ok(0);
    }
    io.outputs.check(fio)?;
    let plan = plan::plan(io, command).map_err(misuse)?;
    plan.check(&Environment::look(plan.path())).map_err(misuse)?;
    if io.dry_run {
        crate::print(&plan::described(&plan));
        return Ok(0);
    }
    reported(&io.outputs, fio, io.progress, |stop, on_progress| {
        measure::run(&plan, stop, on_progress)
    })
}

fn run_files(files: &race::Files, command: &[String], host: &Host<'_>) -> Outcome {
    let shared = &files.shared;
    refuse_outputs(shared.dry_run, &shared.outputs, None)?;
    shared.refuse_word().map_err(misuse)?;
    if files.shared.list {
        crate::print(&files.list(host).map_err(misuse)?);
        return Ok(0);
    }
    files.shared.outputs.check(None)?;
    let plan = files.plan(host, command).map_err(misuse)?;
    plan.check().map_err(misuse)?;
    if files.shared.dry_run {
        crate::print(&race::files_described(&plan));
        return Ok(0);
    }
    reported(
        &files.shared.outputs,
        None,
        files.shared.progress,
        |stop, on_progress| proactor_bench::race::files::run(&plan, stop, on_progress),
    )
}

fn run_cp(cp: &race::Cp, command: &[String], host: &Host<'_>) -> Outcome {
    let shared = &cp.shared;
    refuse_outputs(shared.dry_run, &shared.outputs, None)?;
    shared.refuse_word().map_err(misuse)?;
    if cp.shared.list {
        crate::print(&cp.list(host).map_err(misuse)?);
        return Ok(0);
    }
    cp.shared.outputs.check(None)?;
    let plan = cp.plan(host, command).map_err(misuse)?;
    plan.check().map_err(misuse)?;
    if cp.shared.dry_run {
        crate::print(&race::cp_described(&plan));
        return Ok(0);
    }
    reported(
        &cp.shared.outputs,
        None,
        cp.shared.progress,
        |stop, on_progress| proactor_bench::race::copiers::run(&plan, stop, on_progress),
    )
}

fn run_net(net: &net::Net, command: &[String], host: &Host<'_>) -> Outcome {
    net.outputs.check(None)?;
    let plan = net.plan(host, command).map_err(misuse)?;
    plan.check().map_err(misuse)?;
    reported(&net.outputs, None, net.progress, |stop, on_progress| {
        proactor_bench::net::run(&plan, stop, on_progress)
    })
}

/// Measures until it is done or a signal comes, and writes the report.
fn reported(
    outputs: &outputs::Outputs,
    fio: Option<&outputs::FioOutput>,
    when: progress::When,
    measure: impl FnOnce(&AtomicBool, &mut dyn FnMut(&Progress)) -> Result<Report, String>,
) -> Outcome {
    let signals = Signals::listen().map_err(|e| (FAILURE, format!("signals: {e}")))?;
    let report = {
        let (form, mut bar) = (progress::form(when), Bar::with_clock());
        measure(signals.flag(), &mut |progress| {
            show_progress(form, &mut bar, progress)
        })
    };
    let report = match (report, signals.status()) {
        (Ok(report), _) => report,
        (Err(_), Some(status)) => return Err((status, "interrupted before anything was measured".into())),
        (Err(why), None) => return Err(misuse(why)),
    };
    outputs.write(fio, &report).map_err(|e| (FAILURE, e))?;
    let failed = report.cells.iter().any(|cell| cell.failed.is_some());
    Ok(signals.status().unwrap_or(if failed { FAILURE } else { 0 }))
}

fn show_progress(form: Option<Form>, bar: &mut Bar, progress: &Progress) {
    let left = progress
        .left
        .map_or(String::new(), |left| format!(", {} left", units::clock(left)));
    let (what, done, of) = (&progress.what, progress.done, progress.of);
    match (form, of) {
        // Filling reports every MiB, which is meant for a bar.
        (None, _) | (Some(Form::Lines), 0) => {}
        (Some(Form::Lines), _) => crate::complain(&format!("{}/{of}: {what}{left}", done + 1)),
        (Some(Form::Bar), 0) => bar.show(None, format!("{what}{left}")),
        (Some(Form::Bar), _) => {
            let share = done as f64 / of as f64;
            bar.show(Some(share), format!("{done}/{of} {what}{left}"));
        }
    }
}

/// Lists the values that can be chosen, and what works here.
fn list() -> String {
    let mut text = String::from("engines:\n");
    let mut variants = EngineSpec::usual();
    let extra = [
        "posix-aio:raw",
        "linux-aio:raw",
        "io_uring:raw",
        "io_uring:fixed",
        "io_uring:sqpoll",
        "io_uring:fixed+sqpoll",
        "io_uring:iopoll",
    ];
    variants.extend(
        extra
            .iter()
            .map(|name| name.parse::<EngineSpec>().expect("one of ours")),
    );
    for spec in variants {
        let works = match refuse::engine(spec) {
            Ok(()) if spec.iopoll => "works, on a device with poll queues".to_owned(),
            Ok(()) => "works".to_owned(),
            Err(why) => why,
        };
        text += &format!("  {:<24}{works}\n", spec.to_string());
    }
    text += "presets:\n";
    for preset in PRESETS {
        text += &format!("  {:<24}{}\n", preset.name, preset.about);
    }
    text
}

fn run_compare(args: &Compare) -> Outcome {
    let comparison = compare::compare(&read(&args.before)?, &read(&args.after)?);
    if args.json {
        let text = serde_json::to_string_pretty(&comparison).map_err(|e| (FAILURE, e.to_string()))?;
        crate::print(&format!("{text}\n"));
    } else {
        crate::print(&comparison.text());
    }
    if comparison.pairs.is_empty() {
        return Err((FAILURE, "the two reports have no cell in common".into()));
    }
    Ok(u8::from(args.fail_if_worse && comparison.is_worse()))
}

fn read(path: &std::path::Path) -> Result<Report, (u8, String)> {
    let text = std::fs::read_to_string(path).map_err(|e| misuse(format!("{}: {e}", path.display())))?;
    Report::from_json(&text).map_err(|e| misuse(format!("{}: {e}", path.display())))
}
