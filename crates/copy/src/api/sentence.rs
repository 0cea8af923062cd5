//! The typed diagnostics as the sentences of GNU's cp.

use crate::api::error::{Diagnostic, Refusal, Step, Warning};
use crate::api::quote::{name, name_if_odd};
use std::fmt;
use std::io;
use std::path::Path;

/// One line in the words of GNU's cp, with names as a shell takes them.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&sentence(self))
    }
}

impl std::error::Error for Diagnostic {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Diagnostic::Failed { error, .. } => Some(error),
            _ => None,
        }
    }
}

fn sentence(diagnostic: &Diagnostic) -> String {
    match diagnostic {
        Diagnostic::Failed {
            step,
            path,
            other,
            error,
        } => {
            format!("{}: {}", failed(*step, path, other.as_deref()), reason(error))
        }
        Diagnostic::Refused {
            refusal,
            source,
            target,
        } => refused(*refusal, source, target),
        Diagnostic::Changed(path) => format!("{} changed while it was read", name(path)),
        Diagnostic::Differs {
            source,
            target,
            offset,
        } => format!(
            "{} differs from {} from byte {offset} on, after it was written",
            name(target),
            name(source)
        ),
        Diagnostic::NoEngine { engine, reason, .. } => format!("cannot use --engine {engine}: {reason}"),
        Diagnostic::NoMemory => "there is not enough memory to copy anything".into(),
        Diagnostic::Warning { warning, path } => format!("warning: {}", warned(*warning, path)),
    }
}

/// Returns the C library's text of an error, without Rust's number behind it.
pub fn reason(error: &io::Error) -> String {
    let mut text = error.to_string();
    if let Some(end) = error
        .raw_os_error()
        .and_then(|code| text.rfind(&format!(" (os error {code})")))
    {
        text.truncate(end);
    }
    text
}

fn failed(step: Step, path: &Path, other: Option<&Path>) -> String {
    let path = name(path);
    let to = other
        .map(|other| format!(" to {}", name(other)))
        .unwrap_or_default();
    let other = other.map(name).unwrap_or_default();
    match step {
        Step::StatSource | Step::StatTarget => format!("cannot stat {path}"),
        Step::StatParent => format!("failed to get attributes of {path}"),
        Step::OpenSource => format!("cannot open {path} for reading"),
        Step::ReadDirectory | Step::OpenTargetDirectory => format!("cannot access {path}"),
        Step::CreateFile => format!("cannot create regular file {path}"),
        Step::Read => format!("error reading {path}"),
        Step::Write => format!("error writing {path}"),
        Step::CreateDirectory => format!("cannot create directory {path}"),
        Step::CreateSymlink => format!("cannot create symbolic link {path}{to}"),
        Step::CreateHardLink => format!("cannot create hard link {path} to {other}"),
        Step::CreateFifo => format!("cannot create fifo {path}"),
        Step::CreateSpecial => format!("cannot create special file {path}"),
        Step::ReadLink => format!("cannot read symbolic link {path}"),
        Step::Clone => format!("failed to clone {path} from {other}"),
        Step::Remove => format!("cannot remove {path}"),
        Step::Backup => format!("cannot backup {path}"),
        Step::Rename => format!("cannot give {path} its name"),
        Step::SetOwner => format!("failed to preserve ownership for {path}"),
        Step::SetMode => format!("setting permissions for {path}"),
        Step::SetTimes => format!("preserving times for {path}"),
        Step::SetXattr => format!("setting attributes for {path}"),
        Step::SetContext => format!("failed to set the security context of {path}"),
        Step::SetFlags => format!("failed to preserve flags for {path}"),
        Step::Verify => format!("error reading back {path}"),
        Step::Sync => format!("error syncing {path}"),
        Step::Engine => format!("cannot copy {path} with --engine uring any more"),
        Step::Journal => format!("cannot use the journal {path}"),
    }
}

fn refused(refusal: Refusal, source: &Path, target: &Path) -> String {
    let (from, to) = (name(source), name(target));
    match refusal {
        Refusal::OmittingDirectory => format!("-r not specified; omitting directory {from}"),
        Refusal::SameFile => format!("{from} and {to} are the same file"),
        Refusal::IntoItself => format!("cannot copy a directory, {from}, into itself, {to}"),
        Refusal::DirectoryOverFile => format!("cannot overwrite non-directory {to} with directory {from}"),
        Refusal::FileOverDirectory => format!("cannot overwrite directory {to} with non-directory"),
        Refusal::ParentNoDirectory => format!("{to} exists but is not a directory"),
        Refusal::JustCreated if target.is_symlink() => {
            format!("will not copy {from} through just-created symlink {to}")
        }
        Refusal::JustCreated => format!("will not overwrite just-created {to} with {from}"),
        Refusal::DanglingLink => format!("not writing through dangling symlink {to}"),
        Refusal::Cycle => format!("cannot copy cyclic symbolic link {from}"),
        Refusal::RelativeLink => format!(
            "{}: can make relative symbolic links only in current directory",
            name_if_odd(target)
        ),
        Refusal::TargetExists => format!("not replacing {to}"),
        Refusal::BackupIsSource => format!("backing up {to} might destroy source;  {from} not copied"),
        Refusal::BeingMade { process } => {
            let who = process.map_or("another process".into(), |process| format!("process {process}"));
            format!("cannot create directory {to}: {who} is copying to it")
        }
        Refusal::ResumeBusy => format!("cannot resume {to}: it is still running"),
        Refusal::ResumeOtherSource => {
            format!("cannot resume {to}: it was started from another source, {from}")
        }
        Refusal::ResumeOtherOptions => format!("cannot resume {to}: it was started with other options"),
        Refusal::ResumeAmbiguous => {
            format!("cannot resume {to}: there are several interrupted copies; remove all but one")
        }
    }
}

fn warned(warning: Warning, path: &Path) -> String {
    match warning {
        Warning::NamedTwice => {
            let kind = if path.is_dir() { "directory" } else { "file" };
            format!("source {kind} {} specified more than once", name(path))
        }
        Warning::Grew => format!("{} grew while it was read", name(path)),
        Warning::NamesSplit => format!(
            "{} is copied as a separate file: its file has as many hard links as the file system allows",
            name(path)
        ),
        Warning::ChangedSincePlanned => format!("{} has changed since it was planned", name(path)),
        Warning::LeftJournal => format!(
            "{} was left by an interrupted copy; continue it with --resume, or remove {}* to discard it",
            name(path),
            name(path.with_extension("").as_path())
        ),
        Warning::LeftTree => format!(
            "{} was left by an interrupted copy, or belongs to one that has just started; remove it if none is running",
            name(path)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error as _;

    #[test]
    fn a_diagnostic_is_an_error() {
        let failed = Diagnostic::Failed {
            step: Step::OpenSource,
            path: "a b".into(),
            other: None,
            error: io::Error::from_raw_os_error(libc::EACCES),
        };
        assert_eq!(
            failed.to_string(),
            "cannot open 'a b' for reading: Permission denied"
        );
        assert!(failed.source().is_some());
        let refused = Diagnostic::Refused {
            refusal: Refusal::SameFile,
            source: "a".into(),
            target: "b".into(),
        };
        assert_eq!(refused.to_string(), "'a' and 'b' are the same file");
        assert!(refused.source().is_none());
    }
}
