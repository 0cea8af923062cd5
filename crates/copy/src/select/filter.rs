//! What is left out of a copy: rules, of which the first that matches an entry decides. An excluded directory is not read.

use crate::api::observer::{Copied, Kind};
use crate::entry::Entry;
use crate::job::outcome::Outcome;
use crate::job::worker::Worker;
use crate::select::glob::{BadPattern, Glob, Subject};
use rustix::fs::FileType;
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// What a rule does with what it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Leave it out, and all that is below it.
    Exclude,
    /// Copy it, whatever later rules say.
    Include,
}

/// Which entries are copied. The first rule that matches decides; what none matches is copied.
///
/// A pattern is like those of .gitignore: `*` and `?` match no slash, `**` between slashes any number of directories,
/// `[a-z]` and `[!a-z]` one character, a backslash makes the next character mean itself. One with a slash in it is about the
/// path below the source that was named, one without about names at any depth, and that of the source too. With a slash
/// at its end it matches directories only, with `/***` directories and all that is in them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "(Action, OsString)", into = "(Action, OsString)")]
pub struct Rule {
    action: Action,
    pattern: OsString,
    glob: Glob,
}

impl Rule {
    /// # Errors
    /// The pattern is none.
    pub fn new(action: Action, pattern: impl AsRef<OsStr>) -> Result<Rule, BadPattern> {
        let pattern = pattern.as_ref();
        Ok(Rule {
            action,
            glob: Glob::new(pattern.as_bytes())?,
            pattern: pattern.into(),
        })
    }

    /// Returns what becomes of what the pattern matches.
    pub fn action(&self) -> Action {
        self.action
    }
}

impl TryFrom<(Action, OsString)> for Rule {
    type Error = BadPattern;

    fn try_from((action, pattern): (Action, OsString)) -> Result<Rule, BadPattern> {
        Rule::new(action, pattern)
    }
}

impl From<Rule> for (Action, OsString) {
    fn from(rule: Rule) -> (Action, OsString) {
        (rule.action, rule.pattern)
    }
}

impl Worker<'_> {
    /// Whether the entry is excluded; this has been told. Where its kind is not known it is no directory.
    pub(crate) fn leaves_out(&mut self, entry: &Entry<'_>, kind: Option<FileType>) -> bool {
        let rules = &self.options().filter;
        if rules.is_empty() || !is_excluded(rules, entry, kind == Some(FileType::Directory)) {
            return false;
        }
        self.reporter.count(|report| report.excluded += 1);
        let excluded = Copied {
            kind: kind.map_or(Kind::Special, Kind::of),
            bytes: 0,
            backup: None,
            how: None,
            paths: entry,
        };
        self.run.observer.excluded(&excluded);
        // What was copied by an earlier run, when it was none of these, goes; what cannot is told.
        let _: Outcome<()> = self.make_room(entry);
        true
    }
}

fn is_excluded(rules: &[Rule], entry: &Entry<'_>, is_dir: bool) -> bool {
    let named = entry.at.dir.is_top();
    let is_name = |name: &&[u8]| !matches!(*name, b"" | b"." | b"..");
    let (source, names) = match named {
        true => (Some(entry.source), Vec::new()),
        false => {
            let source = entry.at.dir.named().map(|dir| dir.source.name());
            (source, entry.at.dir.names_below_named(entry.source))
        }
    };
    let source = source.map(|path| last_name(path.to_bytes())).filter(is_name);
    if named && source.is_none() {
        return false;
    }
    let subject = Subject {
        source,
        names: &names,
        is_dir,
    };
    let decides = |rule: &&Rule| rule.glob.matches(&subject);
    rules
        .iter()
        .find(decides)
        .is_some_and(|rule| rule.action == Action::Exclude)
}

fn last_name(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |at| at + 1);
    path[..end]
        .rsplit(|&byte| byte == b'/')
        .next()
        .unwrap_or_default()
}
