//! From flags to a plan: the jobs of the preset or the task, overridden by the flags.

use super::flags::{CounterChoice, Io};
use proactor_bench::job::{
    share_a_file, without_repeats, Base, Cache, Cell, EngineSpec, IoSize, Job, Rates, Task,
};
use proactor_bench::jobfile::JobFile;
use proactor_bench::refuse;
use proactor_bench::run::{Counters, Plan};
use proactor_bench::target::Place;
use proactor_bench::units;
use std::fs;
use std::io::{ErrorKind, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(super) const ROUNDS: u32 = 5;
pub(super) const QUICK_ROUNDS: u32 = 4;
const QUICK_BYTES: u64 = 64 << 20;
const QUICK: Duration = Duration::from_millis(500);

/// Makes the plan from the flags.
///
/// # Errors
/// An engine that was named and does not work here.
pub(super) fn plan(io: &Io, command: &[String]) -> Result<Plan, String> {
    refuse_repeated_values(io)?;
    let file = io.job_file.as_deref().map(read).transpose()?;
    let place = place(io, file.as_ref())?;
    let file = file.map(|file| resolved(file, &place)).transpose()?;
    let mut jobs = match (&file, io.preset) {
        (Some(file), _) => file.sections.iter().map(|section| section.job.clone()).collect(),
        (None, Some(preset)) => preset.jobs(),
        (None, None) => vec![Job::of(io.task.unwrap_or(Task::Iops))],
    };
    let mut left_out = Vec::new();
    let engines = match (&io.engine, &file) {
        (Some(named), _) => {
            named.iter().try_for_each(|spec| refuse::engine(*spec))?;
            Some(named.clone())
        }
        (None, Some(file)) => {
            let named = file.sections.iter().flat_map(|section| &section.job.engine);
            named.into_iter().try_for_each(|spec| refuse::engine(*spec))?;
            None
        }
        (None, None) => Some(
            EngineSpec::usual()
                .into_iter()
                .filter(|spec| refuse::engine(*spec).map_err(|why| left_out.push(why)).is_ok())
                .collect(),
        ),
    };
    for job in &mut jobs {
        if let Some(engines) = &engines {
            job.engine.clone_from(engines);
        }
        put_over(job, io);
    }
    if io.quick {
        let shortened = jobs.iter_mut().map(|job| shorten(job, io));
        if shortened.filter(|is_shorter| *is_shorter).count() == 0 && io.rounds.is_some() {
            return Err(
                "--quick has no effect: --rounds is given, and size and time are no more than its own".into(),
            );
        }
    }
    let groups = match &file {
        Some(file) => at_once(file, &jobs, &place),
        None => {
            let mut groups: Vec<Vec<Cell>> =
                jobs.iter().flat_map(Job::cells).map(|cell| vec![cell]).collect();
            groups.iter_mut().for_each(|group| note_sharing(group, &place));
            groups
        }
    };
    let groups = without_repeats(groups);
    let cells: Vec<Cell> = groups.iter().flatten().cloned().collect();
    refuse_without_effect(io, &cells)?;
    Ok(Plan {
        cells,
        groups: groups.iter().map(Vec::len).collect(),
        place,
        rounds: io.rounds.unwrap_or(if io.quick { QUICK_ROUNDS } else { ROUNDS }),
        seed: io.seed.unwrap_or(1),
        counters: match io.counters {
            CounterChoice::Auto => Counters::Auto,
            CounterChoice::None => Counters::None,
            CounterChoice::Perf => Counters::Perf,
            CounterChoice::Bpf => Counters::Bpf,
        },
        command: command.iter().map(|word| quoted(word)).collect(),
        left_out,
    })
}

/// Returns the cells that run at once: those of sections without `stonewall` between them, for each
/// combination of the lists.
fn at_once(file: &JobFile, jobs: &[Job], place: &Place) -> Vec<Vec<Cell>> {
    let mut batches: Vec<Vec<(&str, Vec<Cell>)>> = Vec::new();
    for (section, job) in file.sections.iter().zip(jobs) {
        let own = (section.name.as_str(), job.product());
        match batches.last_mut() {
            Some(batch) if !section.waits => batch.push(own),
            _ => batches.push(vec![own]),
        }
    }
    // A section has lists only from the command line, which are the same for all of them.
    let groups = batches.iter().flat_map(|batch| {
        let count = batch[0].1.len();
        assert!(batch.iter().all(|own| own.1.len() == count), "the same lists");
        (0..count).map(|number| beside_each_other(batch, number, place))
    });
    groups.collect()
}

/// Returns one cell of each section, and names the others in it.
fn beside_each_other(batch: &[(&str, Vec<Cell>)], number: usize, place: &Place) -> Vec<Cell> {
    let mut group: Vec<Cell> = batch.iter().map(|(_, cells)| cells[number].clone()).collect();
    note_sharing(&mut group, place);
    let cells = batch.iter().map(|(name, _)| *name).zip(&group);
    let words = |own: &Cell, name: &str, other: &Cell| match own.engine == other.engine {
        true => format!("[{name}] {}", other.work()),
        false => format!("[{name}] {}: {}", other.engine, other.work()),
    };
    let one = |(place, (_, own)): (usize, (&str, &Cell))| {
        let others = cells.clone().enumerate().filter(|(other, _)| *other != place);
        Cell {
            beside: others.map(|(_, (name, other))| words(own, name, other)).collect(),
            ..own.clone()
        }
    };
    cells.clone().enumerate().map(one).collect()
}

fn note_sharing(group: &mut [Cell], place: &Place) {
    if let Place::File { .. } = place {
        share_a_file(group);
    }
}

/// Resolves sizes in percent to bytes, which requires an existing file.
fn resolved(mut file: JobFile, place: &Place) -> Result<JobFile, String> {
    for section in file
        .sections
        .iter_mut()
        .filter(|section| section.size_percent.is_some())
    {
        let Place::File { path, .. } = place else {
            return Err(format!(
                "[{}] size in %: of a file that is there: filename, and --use-existing",
                section.name
            ));
        };
        let size = file_bytes(path).map_err(|e| match e.kind() {
            ErrorKind::NotFound => format!(
                "{}: [{}] size in %: of a file that is there; write size= in bytes for a new one",
                path.display(),
                section.name
            ),
            _ => format!("{}: size in %: {e}", path.display()),
        })?;
        section.resolve(size);
    }
    Ok(file)
}

/// Returns the size of a file or of a block device, whose metadata have no length.
fn file_bytes(path: &Path) -> std::io::Result<u64> {
    fs::File::open(path)?.seek(SeekFrom::End(0))
}

/// Fails for options that change nothing: the user meant something else. In a matrix, an effect on one cell
/// is enough.
fn refuse_without_effect(io: &Io, cells: &[Cell]) -> Result<(), String> {
    let any = |what: fn(&Cell) -> bool| cells.iter().any(what);
    let writes = any(|c| c.rw.writes());
    let buffered = any(|c| !c.direct);
    let on = |flag: &Option<String>| flag.as_deref() == Some("1");
    let has_depth = any(|c| c.engine.base != Base::Sync);
    let has_queue = any(|c| !matches!(c.engine.base, Base::Sync | Base::PsyncThreads));
    let checks = [
        (
            io.iodepth.iter().flatten().any(|depth| *depth != 1) && !has_depth,
            "--iodepth: sync has one op at a time; psync-threads has as many threads as the depth",
        ),
        (
            io.batch.is_some_and(|batch| batch != 1) && !has_queue,
            "--iodepth_batch: plain calls are submitted one by one",
        ),
        (
            io.complete_max.is_some_and(|most| most != 1) && !has_queue,
            "--iodepth_batch_complete_max: plain calls come back one by one",
        ),
        (
            io.fsync.is_some_and(|n| n > 0) && !writes,
            "--fsync: nothing is written",
        ),
        (on(&io.end_fsync) && !writes, "--end_fsync: nothing is written"),
        (
            io.bs_of_writes.is_some() && !writes,
            "--bs_of_writes: nothing is written",
        ),
        (
            io.rate_iops.is_some_and(|rates| rates != Rates::default()) && !any(Cell::has_rate),
            "--rate_iops: bounds reads before the comma and writes behind it, and there are none of these",
        ),
        (
            io.rwmixread.is_some() && !any(|c| c.rw.is_mixed()),
            "--rwmixread: is of --rw randrw and rw",
        ),
        (
            io.io_size.and_then(IoSize::unless_zero).is_some() && !any(|c| !c.time_based),
            "--io_size: --time_based runs until the time is over: --time_based=0",
        ),
        (
            io.loops.is_some_and(|loops| loops > 1) && !any(|c| !c.time_based),
            "--loops: --time_based runs until the time is over: --time_based=0",
        ),
        (
            io.norandommap && !any(|c| c.rw.is_random()),
            "--norandommap: no offset is random",
        ),
        (
            on(&io.pre_read) && !buffered,
            "--pre_read: all is around the page cache: --direct 0",
        ),
        (
            io.invalidate.is_some() && !buffered,
            "--invalidate: all is around the page cache: --direct 0",
        ),
    ];
    match checks.into_iter().find(|(wrong, _)| *wrong) {
        Some((_, why)) => Err(why.into()),
        None => Ok(()),
    }
}

fn read(path: &Path) -> Result<JobFile, String> {
    let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    JobFile::parse(&text).map_err(|e| format!("{}: {e}", path.display()))
}

/// Returns the place from the flags, or else from the job file; the file of the latter is in its own
/// directory.
fn place(io: &Io, file: Option<&JobFile>) -> Result<Place, String> {
    let said = io.filename.is_some() || io.directory.is_some();
    let file = file.filter(|_| !said);
    let directory = io.directory.clone().or(file.and_then(|f| f.directory.clone()));
    let directory = directory.unwrap_or_else(|| PathBuf::from("."));
    match io
        .filename
        .clone()
        .or(file.and_then(|f| Some(directory.join(f.filename.as_ref()?))))
    {
        Some(path) => Ok(Place::File {
            path,
            existing: io.use_existing,
        }),
        None if io.use_existing => Err("--use-existing: no file is named: --filename".into()),
        None => Ok(Place::Directory(directory)),
    }
}

fn put_over(job: &mut Job, io: &Io) {
    fn set<T: Clone>(place: &mut T, said: &Option<T>) {
        if let Some(value) = said {
            place.clone_from(value);
        }
    }
    let on = |text: &String| text == "1";
    set(&mut job.rw, &io.rw);
    set(&mut job.size, &io.size);
    if io.bs.is_some() || io.bs_of_writes.is_some() {
        job.bs_of_writes = io.bs_of_writes;
    }
    set(&mut job.bs, &io.bs);
    set(&mut job.iodepth, &io.iodepth);
    set(&mut job.batch, &io.batch);
    set(&mut job.complete_max, &io.complete_max);
    set(&mut job.numjobs, &io.numjobs);
    set(
        &mut job.direct,
        &io.direct.as_ref().map(|list| list.iter().map(on).collect()),
    );
    set(&mut job.fsync, &io.fsync);
    set(&mut job.end_fsync, &io.end_fsync.as_ref().map(on));
    set(&mut job.rwmixread, &io.rwmixread);
    set(&mut job.thinktime, &io.thinktime);
    set(&mut job.io_size, &io.io_size.map(IoSize::unless_zero));
    set(&mut job.loops, &io.loops);
    set(&mut job.rate_iops, &io.rate_iops);
    set(&mut job.time_based, &io.time_based.as_ref().map(on));
    set(&mut job.ramp_time, &io.ramp_time);
    job.norandommap |= io.norandommap;
    job.verify |= io.verify;
    if io.runtime.is_some() {
        job.runtime = io.runtime;
    }
    if !job.time_based && io.runtime.is_none() && io.time_based.is_some() {
        // Ends with the file: the task's time is no bound then.
        job.runtime = None;
    }
    // At most one of them is given.
    job.cache = match (io.invalidate.as_deref(), io.pre_read.as_deref()) {
        (Some("0"), _) => Cache::Left,
        (Some(_), _) => Cache::Dropped,
        (_, Some("1")) => Cache::Warmed,
        (_, Some(_)) if job.cache == Cache::Warmed => Cache::Dropped,
        _ => job.cache,
    };
}

/// Shortens what no option sets, and returns true if anything became shorter.
fn shorten(job: &mut Job, io: &Io) -> bool {
    let before = (job.size.clone(), job.runtime);
    if io.size.is_none() {
        for size in &mut job.size {
            *size = (*size).min(QUICK_BYTES);
        }
    }
    if io.runtime.is_none() {
        job.runtime = job.runtime.map(|time| time.min(QUICK));
    }
    (&job.size, job.runtime) != (&before.0, before.1)
}

fn refuse_repeated_values(io: &Io) -> Result<(), String> {
    refuse_repeated("--engine", io.engine.as_deref())?;
    refuse_repeated("--rw", io.rw.as_deref())?;
    refuse_repeated("--size", io.size.as_deref())?;
    refuse_repeated("--bs", io.bs.as_deref())?;
    refuse_repeated("--iodepth", io.iodepth.as_deref())?;
    refuse_repeated("--numjobs", io.numjobs.as_deref())?;
    refuse_repeated("--direct", io.direct.as_deref())?;
    refuse_repeated("--thinktime", io.thinktime.as_deref())
}

/// Fails for a list that has a value twice, which would be measured once.
pub(super) fn refuse_repeated<T: PartialEq>(option: &str, list: Option<&[T]>) -> Result<(), String> {
    let list = list.unwrap_or_default();
    match (1..list.len()).any(|at| list[..at].contains(&list[at])) {
        true => Err(format!(
            "{option} has the same value twice: leave one of them out"
        )),
        false => Ok(()),
    }
}

/// Quotes a word for a shell.
pub(super) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+:,./@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Describes the plan for `--dry-run`.
pub(super) fn described(plan: &Plan) -> String {
    let mut text = String::new();
    for cell in &plan.cells {
        text += &format!("{}: {}\n", cell.engine, cell.work());
    }
    let needs = plan.needs();
    let files = u64::from(needs.jobs) * (1 + u64::from(needs.copies));
    text += &format!(
        "{} cells, {} rounds, in {}",
        plan.cells.len(),
        plan.rounds,
        plan.path().display()
    );
    if let Place::Directory(_) = plan.place {
        text += &format!(": {files} files of {}", units::bytes(needs.size));
    }
    let longest = |group: &[Cell]| {
        group
            .iter()
            .map(Cell::planned)
            .try_fold(Duration::ZERO, |most, each| Some(most.max(each?)))
    };
    let planned: Option<Vec<Duration>> = plan.group_cells().map(longest).collect();
    match planned {
        Some(each) => {
            let each = each.into_iter().fold(Duration::ZERO, Duration::saturating_add);
            text += &format!(", {} at least\n", units::clock(each.saturating_mul(plan.rounds)));
        }
        None => text += ", as long as it takes\n",
    }
    for why in &plan.left_out {
        text += &format!("left out: {why}\n");
    }
    text
}
