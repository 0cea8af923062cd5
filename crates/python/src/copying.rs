//! `Copying`: a copy of files and trees, run by a thread of the caller's and watched from another. No I/O is here.

mod options;

use crate::memory::collected;
use crate::path::c_path;
use crate::whole::number;
use options::parse;
use proactor_copy::shards::{self, Plan};
use proactor_copy::{copy, Copied, Diagnostic, Kind, Observer, Options, Refusal, Report, Target, Warning};
use pyo3::exceptions::{PyMemoryError, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Of a million failures the first ones tell enough, and of warnings; the report counts all failures.
const MOST_DIAGNOSTICS: usize = 1000;

/// A copy, or a step of one in shards, that has not begun, is under way, or has ended.
#[pyclass(module = "proactor._native", frozen)]
pub(crate) struct Copying {
    task: Task,
    watch: Watch,
}

/// Whether contexts can be preserved here.
#[pyfunction]
pub(crate) fn is_selinux() -> bool {
    proactor_copy::is_selinux()
}

enum Task {
    Copy(Options, Vec<PathBuf>, Target),
    Plan(Options, PathBuf, PathBuf, usize),
    Shard(Plan, usize),
    Finish(Plan),
}

impl Task {
    fn watched(self, measures: bool) -> Copying {
        Copying {
            task: self,
            watch: Watch {
                measures,
                ..Watch::default()
            },
        }
    }
}

/// What other threads may know of it, and ask for.
#[derive(Default)]
struct Watch {
    stop: AtomicBool,
    files: AtomicU64,
    bytes: AtomicU64,
    /// What is done of the whole.
    done: Mutex<f64>,
    /// Somebody wants to know that.
    measures: bool,
    lacks_memory: AtomicBool,
    told: Mutex<Diagnostics>,
}

#[derive(Default)]
struct Diagnostics {
    failures: Vec<Told>,
    warnings: Vec<Told>,
}

/// A diagnostic, as an OSError's arguments.
struct Told {
    failure: bool,
    errno: i32,
    why: Cow<'static, str>,
    /// None if it is about no file.
    first: Option<PathBuf>,
    second: Option<PathBuf>,
}

impl Observer for Watch {
    fn copied(&self, entry: &Copied<'_>) {
        if !matches!(entry.kind, Kind::Directory | Kind::Merged) {
            self.files.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn resumed(&self, _: &Copied<'_>) {
        self.files.fetch_add(1, Ordering::Relaxed);
    }

    fn progress(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn advanced(&self, part: f64) {
        *self.done.lock().unwrap_or_else(PoisonError::into_inner) += part;
    }

    fn measures(&self) -> bool {
        self.measures
    }

    fn diagnostic(&self, diagnostic: &Diagnostic) {
        if matches!(diagnostic, Diagnostic::NoMemory) {
            self.lacks_memory.store(true, Ordering::Relaxed);
        }
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let new = Told::from(diagnostic);
        let alike = if new.failure {
            &mut told.failures
        } else {
            &mut told.warnings
        };
        if alike.len() < MOST_DIAGNOSTICS {
            alike.push(new);
        }
    }

    fn stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

#[pymethods]
impl Copying {
    /// `into`: whether `target` is a directory that the sources go into, rather than the name of the copy. `measures`:
    /// whether `done` is to tell how much of the whole is done.
    #[new]
    #[pyo3(signature = (sources, target, into, measures, **options))]
    fn new(
        sources: Vec<Bound<'_, PyAny>>,
        target: &Bound<'_, PyAny>,
        into: bool,
        measures: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let sources = collected(sources.iter().map(path))?;
        let target = path(target)?;
        let target = if into {
            Target::Into(target)
        } else {
            Target::As(target)
        };
        Ok(Task::Copy(parse(options)?, sources, target).watched(measures))
    }

    /// The first step of a copy in shards: its `run` returns the plan, as JSON.
    #[staticmethod]
    #[pyo3(signature = (source, target, shards, **options))]
    fn planning(
        source: &Bound<'_, PyAny>,
        target: &Bound<'_, PyAny>,
        shards: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let shards = number("shards", shards)?;
        if shards == 0 {
            return Err(PyValueError::new_err("shards: 0 would copy nothing"));
        }
        Ok(Task::Plan(parse(options)?, path(source)?, path(target)?, shards).watched(false))
    }

    /// One shard of a plan.
    #[staticmethod]
    #[pyo3(signature = (plan, shard, measures=false))]
    fn shard(plan: &str, shard: &Bound<'_, PyAny>, measures: bool) -> PyResult<Self> {
        Ok(Task::Shard(stored(plan)?, number("shard", shard)?).watched(measures))
    }

    /// The last step of a plan.
    #[staticmethod]
    #[pyo3(signature = (plan, measures=false))]
    fn finishing(plan: &str, measures: bool) -> PyResult<Self> {
        Ok(Task::Finish(stored(plan)?).watched(measures))
    }

    /// Copies. Returns when nothing is left to do, or soon after `stop`: the report's numbers by name, the errors and
    /// the warnings. MemoryError where there is none to copy anything.
    fn run<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let watch = &self.watch;
        let done = py.detach(|| match &self.task {
            Task::Copy(options, sources, target) => Ok(copy(options, sources, target, watch).into()),
            Task::Plan(options, source, target, shards) => {
                shards::plan(options, source, target, *shards, watch).map(Done::Plan)
            }
            Task::Shard(plan, shard) => shards::run_shard(plan, *shard, watch).map(Done::from),
            Task::Finish(plan) => shards::finish(plan, watch).map(Done::from),
        });
        if watch.lacks_memory.load(Ordering::Relaxed) {
            return Err(PyMemoryError::new_err(()));
        }
        match done.map_err(|error| exception(py, &error))? {
            Done::Plan(plan) => Ok(PyString::new(py, &plan.to_json()).into_any()),
            Done::Report(report) => Ok(self.outcome(py, &report)?.into_any()),
        }
    }

    /// Asks the copy to end in order. May be called from any thread, at any time.
    fn stop(&self) {
        self.watch.stop.store(true, Ordering::Relaxed);
    }

    /// Files and bytes that were dealt with up to now, and about what part of the whole that is.
    fn done(&self) -> (u64, u64, f64) {
        let done = *self.watch.done.lock().unwrap_or_else(PoisonError::into_inner);
        (
            self.watch.files.load(Ordering::Relaxed),
            self.watch.bytes.load(Ordering::Relaxed),
            // What is added up from many parts is not exact.
            done.min(1.0),
        )
    }
}

/// What a task ends with.
enum Done {
    Report(Report),
    Plan(Plan),
}

impl From<Report> for Done {
    fn from(report: Report) -> Done {
        Done::Report(report)
    }
}

impl Copying {
    fn outcome<'py>(&self, py: Python<'py>, report: &Report) -> PyResult<Bound<'py, PyDict>> {
        let told = std::mem::take(&mut *self.watch.told.lock().unwrap_or_else(PoisonError::into_inner));
        // allocates: at most MOST_DIAGNOSTICS, here and below
        let errors: PyResult<Vec<_>> = told.failures.iter().map(|one| one.exception(py)).collect();
        let warnings = told.warnings.iter().map(|one| {
            // Names need not be text.
            let mut text = one.first.as_ref().map_or_else(OsString::new, |path| {
                [path.as_os_str(), ": ".as_ref()].into_iter().collect() // allocates: a path
            });
            text.push(&*one.why);
            text
        });
        let result = numbers(py, report)?;
        result.set_item("errors", PyTuple::new(py, errors?)?)?;
        result.set_item("warnings", PyTuple::new(py, warnings.collect::<Vec<_>>())?)?; // allocates: as above
        Ok(result)
    }
}

/// A plan that was stored or sent.
fn stored(plan: &str) -> PyResult<Plan> {
    Plan::from_json(plan.as_bytes()).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// An OSError with the path where there is one, and where there is not, what is wrong with the call.
fn exception(py: Python<'_>, error: &shards::Error) -> PyErr {
    use shards::Error as E;
    let errno = match error {
        E::Io { error, .. } => error.raw_os_error().unwrap_or(libc::EIO),
        E::NotADirectory(_) => libc::ENOTDIR,
        E::TargetExists(_) => libc::EEXIST,
        E::IntoItself(_) => libc::EINVAL,
        E::Another(_) => libc::ESTALE,
        E::Missing(_) | E::Running(_) => libc::EBUSY,
        E::Stopped => libc::ECANCELED,
        _ => return PyValueError::new_err(error.to_string()),
    };
    let text = match error {
        E::Io { .. } => proactor_engine::strerror(errno).to_string(),
        error => error.to_string(),
    };
    let path = error.path().map(|path| path.as_os_str());
    let made = py.get_type::<PyOSError>().call1((errno, text, path));
    made.map_or_else(|error| error, PyErr::from_value)
}

fn path(object: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    Ok(OsString::from_vec(c_path(object)?.into_bytes()).into())
}

fn numbers<'py>(py: Python<'py>, report: &Report) -> PyResult<Bound<'py, PyDict>> {
    let numbers = PyDict::new(py);
    for (name, number) in [
        ("files", report.files),
        ("directories", report.directories),
        ("symlinks", report.symlinks),
        ("hard_links", report.hard_links),
        ("specials", report.specials),
        ("verified", report.verified),
        ("skipped", report.skipped),
        ("resumed", report.resumed),
        ("excluded", report.excluded),
        ("failures", report.failures),
        ("bytes", report.bytes),
        ("shared_bytes", report.shared_bytes),
        ("hole_bytes", report.hole_bytes),
    ] {
        numbers.set_item(name, number)?;
    }
    numbers.set_item("duration", report.duration.as_secs_f64())?;
    // allocates: a pointer for each tree that was begun
    let partial: Vec<&OsStr> = report.partial.iter().map(|path| path.as_os_str()).collect();
    numbers.set_item("partial", PyTuple::new(py, partial)?)?;
    Ok(numbers)
}

impl From<&Diagnostic> for Told {
    fn from(diagnostic: &Diagnostic) -> Told {
        let (errno, why, first, second) = match diagnostic {
            Diagnostic::Failed {
                path, other, error, ..
            } => {
                let errno = error.raw_os_error().unwrap_or(libc::EIO);
                (
                    errno,
                    proactor_engine::strerror(errno).into(),
                    path,
                    other.as_ref(),
                )
            }
            Diagnostic::Differs {
                source,
                target,
                offset,
            } => {
                let why = format!("What was written is not what the source has, from byte {offset} on");
                (libc::EIO, why.into(), source, Some(target))
            }
            Diagnostic::Refused {
                refusal,
                source,
                target,
            } => {
                let (errno, why) = refused(*refusal);
                (errno, why.into(), source, Some(target))
            }
            Diagnostic::Changed(path) => (libc::EBUSY, "Changed while it was read".into(), path, None),
            Diagnostic::NoEngine { errno, reason, .. } => {
                return Told {
                    failure: true,
                    errno: *errno,
                    why: reason.clone().into(),
                    first: None,
                    second: None,
                }
            }
            Diagnostic::NoMemory => {
                return Told {
                    failure: true,
                    errno: libc::ENOMEM,
                    why: proactor_engine::strerror(libc::ENOMEM).into(),
                    first: None,
                    second: None,
                }
            }
            Diagnostic::Warning { warning, path } => (0, warned(*warning).into(), path, None),
        };
        Told {
            failure: diagnostic.is_failure(),
            errno,
            why,
            first: Some(first.clone()),
            second: second.cloned(),
        }
    }
}

impl Told {
    /// With errno, filename and filename2.
    fn exception<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let first = self.first.as_ref().map(|path| path.as_os_str());
        let second = self.second.as_ref().map(|path| path.as_os_str());
        let arguments = (self.errno, &*self.why, first, py.None(), second);
        py.get_type::<PyOSError>().call1(arguments)
    }
}

fn warned(warning: Warning) -> &'static str {
    match warning {
        Warning::NamedTwice => "named twice as a source",
        Warning::LeftJournal => "left by an interrupted copy; continue it with resume=True",
        Warning::LeftTree => "left by an interrupted copy, or part of one that has just started",
        Warning::Grew => "grew while it was read; the copy has the length that it had at first",
        Warning::NamesSplit => {
            "copied as a separate file; its file has as many hard links as the file system allows"
        }
        Warning::ChangedSincePlanned => {
            "has changed since it was planned; what was there when it was read is copied"
        }
    }
}

fn refused(refusal: Refusal) -> (i32, &'static str) {
    use Refusal as R;
    match refusal {
        R::OmittingDirectory => (libc::EISDIR, "A directory, and the copy is not recursive"),
        R::SameFile => (libc::EINVAL, "Source and target are the same file"),
        R::IntoItself => (libc::EINVAL, "A directory cannot be copied into itself"),
        R::DirectoryOverFile => (libc::ENOTDIR, "A directory would replace something else"),
        R::FileOverDirectory => (libc::EISDIR, "Something else would replace a directory"),
        R::ParentNoDirectory => (libc::ENOTDIR, "Exists, and is no directory"),
        R::JustCreated => (libc::EEXIST, "This copy has just created the target"),
        R::DanglingLink => (libc::ENOENT, "The target is a symbolic link that leads nowhere"),
        R::Cycle => (libc::ELOOP, "The link leads back to a directory that it is in"),
        R::RelativeLink => (
            libc::EINVAL,
            "A relative symbolic link would mean something else there",
        ),
        R::TargetExists => (libc::EEXIST, "The target exists"),
        R::BackupIsSource => (libc::EINVAL, "The backup would destroy the source"),
        R::BeingMade { .. } => (libc::EBUSY, "Another copy is making the new tree of this name"),
        R::ResumeBusy => (libc::EBUSY, "The copy to resume is still running"),
        R::ResumeOtherSource => (libc::EINVAL, "The copy to resume was started from another source"),
        R::ResumeOtherOptions => (libc::EINVAL, "The copy to resume was started with other options"),
        R::ResumeAmbiguous => (libc::EINVAL, "There are several copies that could be resumed"),
    }
}
