//! Whether the rules of a copy leave an entry out.

use crate::api::observer::{Copied, Kind};
use crate::context::outcome::Outcome;
use crate::entry::EntryCopier;
use crate::pair::Entry;
use crate::select::filter::{self, Rule};
use crate::select::glob::Subject;
use rustix::fs::FileType;

impl EntryCopier<'_> {
    /// Returns true if the entry is excluded, and reports it. An entry of unknown kind is not a directory.
    pub(crate) fn leaves_out(&self, entry: &Entry<'_>, kind: Option<FileType>) -> bool {
        let rules = &self.shared.context.options.filter;
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
        self.shared.context.observer.excluded(&excluded);
        // What an earlier run has copied, when it was not excluded, is removed. A failure is reported.
        let _: Outcome<()> = self.files.previous.make_room(entry);
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
    filter::is_excluded(rules, &subject)
}

fn last_name(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |at| at + 1);
    path[..end]
        .rsplit(|&byte| byte == b'/')
        .next()
        .unwrap_or_default()
}
