//! `Copying`: a copy of files and trees, run by a thread of the caller's and watched from another. No I/O is here.

use crate::errors;
use crate::path::c_path;
use proactor_copy::{
    copy, Action, Backup, Copied, Dereference, Diagnostic, Fsync, Kind, Method, Mode, Observer, Options,
    Preserve, Reflink, Refusal, Report, Rule, Sparse, Target, Warning, When, Wish,
};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Of a million failures the first ones tell enough; the report counts them all.
const MOST_DIAGNOSTICS: usize = 1000;

/// A copy that has not begun, is under way, or has ended.
#[pyclass(module = "proactor._native", frozen)]
pub(crate) struct Copying {
    options: Options,
    sources: Vec<PathBuf>,
    target: Target,
    watch: Watch,
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
    told: Mutex<Vec<Told>>,
}

/// A diagnostic, as an OSError's arguments.
struct Told {
    failure: bool,
    errno: i32,
    why: Cow<'static, str>,
    first: PathBuf,
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
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() < MOST_DIAGNOSTICS {
            told.push(Told::from(diagnostic));
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
        let sources = sources.iter().map(path).collect::<PyResult<Vec<_>>>()?;
        let target = path(target)?;
        Ok(Copying {
            options: parse(options)?,
            sources,
            target: if into {
                Target::Into(target)
            } else {
                Target::As(target)
            },
            watch: Watch {
                measures,
                ..Watch::default()
            },
        })
    }

    /// Copies. Returns when nothing is left to do, or soon after `stop`: the report's numbers by name, the errors and
    /// the warnings.
    fn run<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let report = py.detach(|| copy(&self.options, &self.sources, &self.target, &self.watch));
        let told = std::mem::take(&mut *self.watch.told.lock().unwrap_or_else(PoisonError::into_inner));
        let (mut errors, mut warnings) = (Vec::new(), Vec::new());
        for told in &told {
            if told.failure {
                errors.push(told.exception(py)?);
            } else {
                warnings.push(format!("{}: {}", told.first.display(), told.why));
            }
        }
        let result = numbers(py, &report)?;
        result.set_item("errors", PyTuple::new(py, errors)?)?;
        result.set_item("warnings", PyTuple::new(py, warnings)?)?;
        Ok(result)
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
        ("excluded", report.excluded),
        ("resumed", report.resumed),
        ("failures", report.failures),
        ("bytes", report.bytes),
        ("shared_bytes", report.shared_bytes),
        ("hole_bytes", report.hole_bytes),
    ] {
        numbers.set_item(name, number)?;
    }
    numbers.set_item("duration", report.duration.as_secs_f64())?;
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
                (errno, errors::strerror(errno).into(), path, other.as_ref())
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
            Diagnostic::Warning { warning, path } => (0, warned(*warning).into(), path, None),
        };
        Told {
            failure: diagnostic.is_failure(),
            errno,
            why,
            first: first.clone(),
            second: second.cloned(),
        }
    }
}

impl Told {
    /// With errno, filename and filename2.
    fn exception<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let second = self.second.as_ref().map(|path| path.as_os_str());
        let arguments = (self.errno, &*self.why, self.first.as_os_str(), py.None(), second);
        py.get_type::<PyOSError>().call1(arguments)
    }
}

fn warned(warning: Warning) -> &'static str {
    match warning {
        Warning::NamedTwice => "named twice as a source",
        Warning::LeftJournal => "left by a copy that was interrupted; resume=True goes on with it",
        Warning::LeftTree => "left by a copy that was interrupted, or of one that has just begun",
        Warning::Grew => "grew while it was read; the copy has the length that it had at first",
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
        R::JustCreated => (libc::EEXIST, "This copy has just created the target"),
        R::DanglingLink => (libc::ENOENT, "The target is a symbolic link that leads nowhere"),
        R::Cycle => (libc::ELOOP, "The link leads back to a directory that it is in"),
        R::RelativeLink => (
            libc::EINVAL,
            "A relative symbolic link would mean something else there",
        ),
        R::TargetExists => (libc::EEXIST, "The target exists"),
        R::BackupIsSource => (libc::EINVAL, "The backup would destroy the source"),
        R::ResumeBusy => (libc::EBUSY, "The copy that is to be resumed is going on"),
        R::ResumeOtherSource => (
            libc::EINVAL,
            "What is to be resumed was begun from another source",
        ),
        R::ResumeOtherOptions => (libc::EINVAL, "What is to be resumed was begun with other options"),
        R::ResumeAmbiguous => (libc::EINVAL, "There are several copies that could be resumed"),
    }
}

fn parse(given: Option<&Bound<'_, PyDict>>) -> PyResult<Options> {
    let mut options = Options::archive();
    for (name, value) in given.into_iter().flat_map(|given| given.iter()) {
        let name: String = name.extract()?;
        match name.as_str() {
            "recursive" => options.recursive = value.is_truthy()?,
            "one_file_system" => options.one_file_system = value.is_truthy()?,
            "attributes_only" => options.attributes_only = value.is_truthy()?,
            "in_place" => options.in_place = value.is_truthy()?,
            "resume" => options.resume = value.is_truthy()?,
            "force" => options.overwrite.force = value.is_truthy()?,
            "keep_directory_symlink" => options.keep_directory_symlink = value.is_truthy()?,
            "dry_run" => options.dry_run = value.is_truthy()?,
            "verify" => options.verify = value.is_truthy()?,
            "bwlimit" => options.bwlimit = value.extract()?,
            "include" => options
                .filter
                .splice(..0, rules(Action::Include, &name, &value)?)
                .for_each(drop),
            "exclude" => options.filter.extend(rules(Action::Exclude, &name, &value)?),
            "jobs" => options.jobs = value.extract()?,
            "preserve" => options.preserve = preserve(value.extract()?)?,
            "dereference" => {
                let choices = [
                    ("never", Dereference::Never),
                    ("command-line", Dereference::CommandLine),
                    ("always", Dereference::Always),
                ];
                options.dereference = choice(&name, &value, &choices)?;
            }
            "update" => {
                let choices = [
                    ("all", When::All),
                    ("none", When::None),
                    ("none-fail", When::NoneFail),
                    ("older", When::Older),
                ];
                options.overwrite.when = choice(&name, &value, &choices)?;
            }
            "backup" => {
                let choices = [
                    ("none", Backup::None),
                    ("simple", Backup::Simple),
                    ("numbered", Backup::Numbered),
                    ("existing", Backup::Existing),
                ];
                options.backup = choice(&name, &value, &choices)?;
            }
            "link" => {
                let choices = [
                    ("none", Method::Contents),
                    ("hard", Method::HardLink),
                    ("symbolic", Method::SymbolicLink),
                ];
                options.method = choice(&name, &value, &choices)?;
            }
            "sparse" => {
                let choices = [
                    ("auto", Sparse::Auto),
                    ("always", Sparse::Always),
                    ("never", Sparse::Never),
                ];
                options.sparse = choice(&name, &value, &choices)?;
            }
            "reflink" => {
                let choices = [
                    ("auto", Reflink::Auto),
                    ("always", Reflink::Always),
                    ("never", Reflink::Never),
                ];
                options.reflink = choice(&name, &value, &choices)?;
            }
            "fsync" => {
                let choices = [("none", Fsync::None), ("end", Fsync::End), ("each", Fsync::Each)];
                options.fsync = choice(&name, &value, &choices)?;
            }
            _ => return Err(PyValueError::new_err(format!("no such option: {name}"))),
        }
    }
    Ok(options)
}

/// A rule for each pattern. What is included comes before what is excluded, whichever was named first.
fn rules(action: Action, option: &str, patterns: &Bound<'_, PyAny>) -> PyResult<Vec<Rule>> {
    let rule = |pattern: PyResult<Bound<'_, PyAny>>| {
        let pattern = path(&pattern?)?;
        let rule = Rule::new(action, &pattern);
        rule.map_err(|problem| PyValueError::new_err(format!("{option}: {}: {problem}", pattern.display())))
    };
    patterns.try_iter()?.map(rule).collect()
}

/// Which of these it names.
fn choice<T: Copy>(option: &str, value: &Bound<'_, PyAny>, choices: &[(&str, T)]) -> PyResult<T> {
    let value: String = value.extract()?;
    let found = choices.iter().find(|(name, _)| *name == value);
    found.map(|(_, choice)| *choice).ok_or_else(|| {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        PyValueError::new_err(format!("{option} is one of {}, not '{value}'", names.join(", ")))
    })
}

/// Everything by default; these alone if they are named, and then each must succeed.
fn preserve(names: Vec<String>) -> PyResult<Preserve> {
    let mut preserve = Preserve::default();
    for name in names {
        match name.as_str() {
            "all" => preserve = Preserve::all(),
            "mode" => preserve.mode = Mode::Preserve,
            "ownership" => preserve.ownership = true,
            "timestamps" => preserve.timestamps = true,
            "links" => preserve.links = true,
            "context" => preserve.context = Wish::Must,
            "xattr" => preserve.xattr = Wish::Must,
            _ => {
                return Err(PyValueError::new_err(format!(
                "preserve is some of mode, ownership, timestamps, links, context, xattr, all; not '{name}'"
            )))
            }
        }
    }
    Ok(preserve)
}
