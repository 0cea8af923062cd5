//! Of what there can be no copy where it was to go: what is said about it, in the words for what it would have become.

use crate::api::error::{Diagnostic, Refusal, Step};
use crate::api::options::{Dereference, Method};
use crate::api::target::Target;
use crate::entry::destination::reads_specials;
use crate::sys;
use crate::walk::walker::Walker;
use rustix::fs::FileType;
use rustix::io::Errno;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The target has a slash at its end, and the source is no directory.
pub(crate) fn where_directories_go(walker: &mut Walker<'_>, source: &Path, target: &Path, kind: FileType) {
    match target.metadata() {
        Ok(_) => {
            let refused = Diagnostic::Refused {
                refusal: Refusal::FileOverDirectory,
                source: source.into(),
                target: target.into(),
            };
            walker.reporter.tell(&refused);
        }
        Err(error) if sys::is(&error, &[Errno::NOENT]) => {
            // open(2) says that such a name is a directory's, and what makes other things that there is none.
            let error = match step_of(walker, kind).0 {
                Step::CreateFile => Errno::NOTDIR,
                _ => Errno::NOENT,
            };
            not_made(walker, source, target, kind, error.into());
        }
        Err(error) => {
            walker.reporter.failed(Step::StatTarget, target.into(), error);
        }
    }
}

/// The target's directory cannot be opened: what is said about each source.
pub(crate) fn where_no_directory_is(
    walker: &mut Walker<'_>,
    source: &Path,
    target: &Target,
    error: &io::Error,
) {
    let options = walker.shared.context.options;
    let follow = options.dereference != Dereference::Never;
    let stat = if follow {
        source.metadata()
    } else {
        source.symlink_metadata()
    };
    let kind = match stat {
        Err(error) => {
            walker.reporter.failed(Step::StatSource, source.into(), error);
            return;
        }
        Ok(stat) if stat.is_dir() && !options.recursive => {
            walker.reporter.tell(&Diagnostic::Refused {
                refusal: Refusal::OmittingDirectory,
                source: source.into(),
                target: target.path().into(),
            });
            return;
        }
        Ok(stat) => FileType::from_raw_mode(stat.mode()),
    };
    let error = io::Error::from_raw_os_error(error.raw_os_error().unwrap_or(0));
    let step = match target {
        _ if sys::is(&error, &[Errno::NOTDIR]) => Step::StatTarget,
        Target::Into(_) => Step::OpenTargetDirectory,
        Target::As(path) => return not_made(walker, source, path, kind, error),
    };
    walker.reporter.failed(step, target.path().into(), error);
}

/// Reports that what is to be made of a source of this kind cannot be made.
fn not_made(walker: &mut Walker<'_>, source: &Path, target: &Path, kind: FileType, error: io::Error) {
    let (step, tells_source) = step_of(walker, kind);
    let other = tells_source.then(|| source.into());
    walker.reporter.failed_with(step, target.into(), other, error);
}

/// Returns the step that makes something of a source of this kind, and true if the source's path is shown beside
/// the target's.
fn step_of(walker: &Walker<'_>, kind: FileType) -> (Step, bool) {
    match (walker.shared.context.options.method, kind) {
        (_, FileType::Directory) => (Step::CreateDirectory, false),
        (Method::HardLink, _) => (Step::CreateHardLink, true),
        (Method::SymbolicLink, _) => (Step::CreateSymlink, true),
        (_, FileType::Symlink) => (Step::CreateSymlink, false),
        (_, FileType::RegularFile) => (Step::CreateFile, false),
        _ if reads_specials(walker.shared.context.options) => (Step::CreateFile, false),
        (_, FileType::Fifo) => (Step::CreateFifo, false),
        _ => (Step::CreateSpecial, false),
    }
}
