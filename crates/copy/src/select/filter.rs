//! What is left out of a copy: rules, of which the first that matches an entry decides. An excluded directory is not read.

use crate::select::glob::{BadPattern, Glob, Subject};
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// The action of a rule on what it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Leave it out, and all that is below it.
    Exclude,
    /// Copy it, whatever later rules say.
    Include,
}

/// A rule that decides which entries are copied. The first rule that matches decides; what none matches is copied.
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

/// Returns true if the first rule that matches excludes this.
pub(crate) fn is_excluded(rules: &[Rule], subject: &Subject<'_>) -> bool {
    let first = rules.iter().find(|rule| rule.glob.matches(subject));
    first.is_some_and(|rule| rule.action == Action::Exclude)
}
