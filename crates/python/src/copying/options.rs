//! The options of a copy, from keyword arguments.

use super::path;
use crate::memory::collected;
use crate::whole::number;
use proactor_copy::{
    is_selinux, Action, Backup, Dereference, Engine, Fsync, Method, Mode, Options, Preserve, Reflink, Rule,
    Sparse, When, Wish,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// `cp -a`, but for what is said.
pub(super) fn parse(given: Option<&Bound<'_, PyDict>>) -> PyResult<Options> {
    let mut options = Options::archive();
    for (name, value) in given.into_iter().flat_map(|given| given.iter()) {
        let name: String = name.extract()?;
        match name.as_str() {
            "recursive" => options.recursive = value.is_truthy()?,
            "one_file_system" => options.one_file_system = value.is_truthy()?,
            "attributes_only" => options.attributes_only = value.is_truthy()?,
            "in_place" => options.in_place = value.is_truthy()?,
            "resume" => options.resume = value.is_truthy()?,
            "journal" => options.journal = value.is_truthy()?,
            "force" => options.overwrite.force = value.is_truthy()?,
            "keep_directory_symlink" => options.keep_directory_symlink = value.is_truthy()?,
            "dry_run" => options.dry_run = value.is_truthy()?,
            "verify" => options.verify = value.is_truthy()?,
            "bwlimit" => options.bwlimit = number(&name, &value)?,
            "include" => options
                .filter
                // allocates: options that Python has memory for
                .splice(..0, rules(Action::Include, &name, &value)?)
                .for_each(drop),
            // allocates: options that Python has memory for
            "exclude" => options.filter.extend(rules(Action::Exclude, &name, &value)?),
            "jobs" => options.jobs = number(&name, &value)?,
            "engine" => {
                let choices = [
                    ("auto", Engine::Auto),
                    ("threads", Engine::Threads),
                    ("uring", Engine::Uring),
                    ("io_uring", Engine::Uring),
                ];
                options.engine = choice(&name, &value, &choices)?;
            }
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
    match impossible(&options).or_else(|| without_effect(&options)) {
        Some(problem) => Err(PyValueError::new_err(problem)),
        None => Ok(options),
    }
}

/// Options of which nothing would come beside the others.
fn without_effect(options: &Options) -> Option<&'static str> {
    let copies = options.method == Method::Contents && !options.attributes_only;
    let excludes = options.filter.iter().any(|rule| rule.action() == Action::Exclude);
    let leaves_all = matches!(options.overwrite.when, When::None | When::NoneFail);
    let of_contents = [
        (
            options.verify,
            "verify has no effect with link or attributes_only",
        ),
        (
            options.bwlimit > 0,
            "bwlimit has no effect with link or attributes_only",
        ),
        (
            options.resume,
            "resume has no effect with link or attributes_only",
        ),
        (
            options.in_place,
            "in_place has no effect with link or attributes_only",
        ),
        (
            options.sparse != Sparse::Auto,
            "sparse has no effect with link or attributes_only",
        ),
        (
            options.reflink != Reflink::Auto,
            "reflink has no effect with link or attributes_only",
        ),
    ];
    let of_others = [
        (
            options.bwlimit > 0 && options.reflink == Reflink::Always,
            "bwlimit has no effect with reflink='always', which writes no bytes: leave it out",
        ),
        (
            options.attributes_only && options.method != Method::Contents,
            "attributes_only has no effect with link: leave out one of them",
        ),
        (
            options.overwrite.force && leaves_all,
            "force has no effect with update='none' or 'none-fail', which replace nothing",
        ),
        (
            options.in_place && options.backup != Backup::None,
            "in_place has no effect with backup, which moves what exists out of the way: leave out one of them",
        ),
        (
            options.backup != Backup::None && leaves_all,
            "backup has no effect with update='none' or 'none-fail', which replace nothing",
        ),
        (
            options.keep_directory_symlink && !options.recursive,
            "keep_directory_symlink has no effect with recursive=False",
        ),
        (
            options.one_file_system && !options.recursive,
            "one_file_system has no effect with recursive=False",
        ),
        (
            !options.filter.is_empty() && !excludes,
            "include has no effect without exclude, which leaves out what is not included",
        ),
    ];
    let of_contents = of_contents
        .into_iter()
        .map(|(given, text)| (given && !copies, text));
    let in_vain = of_contents.chain(of_others).find(|(is_so, _)| *is_so);
    in_vain.map(|(_, text)| text)
}

/// What no file could be copied with: told before anything is touched.
fn impossible(options: &Options) -> Option<&'static str> {
    if options.reflink == Reflink::Always && options.sparse != Sparse::Auto {
        return Some("reflink='always' goes with sparse='auto' only");
    }
    if options.preserve.context == Wish::Must && !is_selinux() {
        return Some(
            "preserve: 'context' needs a kernel with SELinux; 'all' does without where there is none",
        );
    }
    None
}

/// A rule for each pattern. What is included comes before what is excluded, whichever was named first.
fn rules(action: Action, option: &str, patterns: &Bound<'_, PyAny>) -> PyResult<Vec<Rule>> {
    let rule = |pattern: PyResult<Bound<'_, PyAny>>| {
        let pattern = path(&pattern?)?;
        let rule = Rule::new(action, &pattern);
        rule.map_err(|problem| PyValueError::new_err(format!("{option}: {}: {problem}", pattern.display())))
    };
    collected(patterns.try_iter()?.map(rule))
}

/// Which of these it names.
fn choice<T: Copy>(option: &str, value: &Bound<'_, PyAny>, choices: &[(&str, T)]) -> PyResult<T> {
    let value: String = value.extract()?;
    let found = choices.iter().find(|(name, _)| *name == value);
    found.map(|(_, choice)| *choice).ok_or_else(|| {
        // allocates: an entry for each choice
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        PyValueError::new_err(format!("{option} is one of {}, not '{value}'", names.join(", ")))
    })
}

/// Everything by default; these alone if they are named, and then each must succeed.
fn preserve(names: Vec<String>) -> PyResult<Preserve> {
    let mut preserve = Preserve::default();
    for name in names {
        match name.as_str() {
            "all" => {
                let flags = preserve.flags;
                preserve = Preserve {
                    flags,
                    ..Preserve::all()
                };
            }
            "mode" => preserve.mode = Mode::Preserve,
            "ownership" => preserve.ownership = true,
            "timestamps" => preserve.timestamps = true,
            "links" => preserve.links = true,
            "context" => preserve.context = Wish::Must,
            "xattr" => preserve.xattr = Wish::Must,
            "flags" => preserve.flags = true,
            _ => {
                return Err(PyValueError::new_err(format!(
                "preserve is some of mode, ownership, timestamps, links, context, xattr, flags, all; not '{name}'"
            )))
            }
        }
    }
    Ok(preserve)
}
