//! Which journals are in a directory, and which of them is ours to go on with.

use super::format::{Asked, Head};
use crate::sys::memory;
use crate::sys::{self, Stat};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, FlockOperation, RawDir};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::io;
use std::time::{Duration, Instant};

/// The end of the journal's name, after that of the partial tree.
const END: &[u8] = b".journal";
const PARTIAL: &[u8] = b".partial-";
const DIGITS: usize = 8;

/// A run that was killed has its lock until the kernel has taken it apart, after `kill` has returned; and who forks has all
/// locks twice until the child calls exec.
const LOCK_WAIT: Duration = Duration::from_millis(500);
const LOCK_STEP: Duration = Duration::from_millis(5);

/// One getdents64 fills this: about a thousand names.
const READ_BYTES: usize = 32 << 10;

/// The name of something that was not finished, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Partial<'n> {
    pub(crate) of: &'n [u8],
    pub(crate) id: u32,
    pub(crate) is_journal: bool,
}

impl Partial<'_> {
    /// `NAME.partial-<id>` and `NAME.partial-<id>.journal`.
    pub(crate) fn parse(name: &CStr) -> Option<Partial<'_>> {
        let name = name.to_bytes();
        let (name, is_journal) = match name.strip_suffix(END) {
            Some(name) => (name, true),
            None => (name, false),
        };
        let at = name.len().checked_sub(DIGITS)?;
        let digits = name[at..]
            .iter()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let id = u32::from_str_radix(std::str::from_utf8(&name[at..]).ok()?, 16).ok()?;
        let of = name[..at].strip_suffix(PARTIAL).filter(|_| digits)?;
        Some(Partial { of, id, is_journal })
    }
}

/// The journal of a partial name.
pub(crate) fn name_of(partial: &CStr) -> CString {
    CString::new([partial.to_bytes(), END].concat()).expect("a name has no zero in it")
}

/// Calls a function with the partial names in a directory, as far as `reads` readings of it tell.
pub(crate) fn each_partial(
    dir: BorrowedFd<'_>,
    reads: usize,
    mut visit: impl FnMut(&CStr, Partial<'_>),
) -> io::Result<()> {
    each_name(dir, reads, |name, _| {
        if let Some(partial) = Partial::parse(name) {
            visit(name, partial);
        }
    })
}

/// The same with all names, and what they are said to be.
pub(crate) fn each_name(
    dir: BorrowedFd<'_>,
    reads: usize,
    mut visit: impl FnMut(&CStr, FileType),
) -> io::Result<()> {
    // It may be held only as a place, or be read by another program.
    let dir = sys::open_dir_unnoticed(dir, c".", false)?;
    let mut buffer = memory::room(READ_BYTES)?;
    let mut reader = RawDir::new(dir, &mut buffer);
    let mut left = reads;
    while let Some(entry) = reader.next() {
        let entry = entry?;
        visit(entry.file_name(), entry.file_type());
        if reader.is_buffer_empty() {
            left -= 1;
            if left == 0 {
                break;
            }
        }
    }
    Ok(())
}

/// A journal that is open, locked and ours.
pub(crate) struct Found {
    pub(super) file: OwnedFd,
    pub(super) name: CString,
    pub(super) head_bytes: usize,
}

impl Found {
    pub(crate) fn name(&self) -> &CStr {
        &self.name
    }
}

/// Why a journal is not one to go on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// Another process holds it.
    Busy,
    OtherSource,
    OtherOptions,
    /// Another one fits as well.
    Ambiguous,
}

/// The outcome of a search.
pub(crate) enum Search {
    /// There is no journal for these targets.
    Nothing,
    Found(Found),
    Unfit(CString, Unfit, Head),
}

/// Looks for the journal of a run that was asked the same, and locks it. With `tidies`, empty ones are removed.
pub(crate) fn find(dir: BorrowedFd<'_>, asked: &Asked, tidies: bool) -> io::Result<Search> {
    let mut names = Vec::new();
    each_partial(dir, usize::MAX, |name, partial| {
        if partial.is_journal {
            names.push(CString::from(name));
        }
    })?;
    let mut search = Search::Nothing;
    for name in names {
        let Some((file, head, head_bytes)) = open(dir, &name)? else {
            if tidies {
                remove_empty(dir, &name);
            }
            continue;
        };
        if head.asked.targets != asked.targets {
            continue;
        }
        let begin = Instant::now();
        let locked = lock_when(&file, || {
            std::thread::sleep(LOCK_STEP);
            begin.elapsed() < LOCK_WAIT
        });
        let unfit = match locked? {
            false => Some(Unfit::Busy),
            true if sys::stat(file.as_fd())?.nlink == 0 => continue,
            true if head.asked.sources != asked.sources => Some(Unfit::OtherSource),
            true if head.asked.options != asked.options => Some(Unfit::OtherOptions),
            true => None,
        };
        search = match (search, unfit) {
            // No other process may be at work there, whatever else there is.
            (_, Some(Unfit::Busy)) => return Ok(Search::Unfit(name, Unfit::Busy, head)),
            (Search::Found(_) | Search::Unfit(_, Unfit::Ambiguous, _), None) => {
                Search::Unfit(name, Unfit::Ambiguous, head)
            }
            (_, None) => Search::Found(Found {
                file,
                name,
                head_bytes,
            }),
            (Search::Nothing, Some(unfit)) => Search::Unfit(name, unfit, head),
            (before, Some(_)) => before,
        };
    }
    Ok(search)
}

/// Takes a journal in this directory for a partial name of `of`, if its run is dead.
pub(crate) fn take(dir: BorrowedFd<'_>, of: &[u8]) -> io::Result<Option<Found>> {
    let mut names = Vec::new();
    each_partial(dir, usize::MAX, |name, partial| {
        if partial.is_journal && partial.of == of {
            names.push(CString::from(name));
        }
    })?;
    for name in names {
        let Some((file, _, head_bytes)) = open(dir, &name)? else {
            continue;
        };
        // Without locks it is unknown whether a process is at work.
        if matches!(lock(&file), Ok(true)) && sys::stat(file.as_fd())?.nlink > 0 {
            return Ok(Some(Found {
                file,
                name,
                head_bytes,
            }));
        }
    }
    Ok(None)
}

/// Opens a journal if it is one, and ours: a plain file with one name that no other user can write to.
pub(crate) fn open(dir: BorrowedFd<'_>, name: &CStr) -> io::Result<Option<(OwnedFd, Head, usize)>> {
    let looks = match sys::stat_at(dir, name, false) {
        // Its run has ended since it was listed.
        Err(error) if sys::is(&error, &[Errno::NOENT]) => return Ok(None),
        looks => looks?,
    };
    let own = looks.is_file() && looks.uid == rustix::process::geteuid().as_raw();
    if !own || looks.nlink != 1 || looks.mode & 0o022 != 0 {
        return Ok(None);
    }
    let file = match sys::open_log(dir, name) {
        Err(error) if sys::is(&error, &[Errno::NOENT]) => return Ok(None),
        file => file?,
    };
    let mut bytes = vec![0; Head::MOST_BYTES];
    let length = sys::read_at(file.as_fd(), &mut bytes, 0)?;
    let now = sys::stat(file.as_fd())?;
    let found = Head::decode(&bytes[..length])
        // What was swapped since, and a copy of a journal, tell of something else.
        .filter(|(head, _)| head.ino == looks.id.1 && now.id == looks.id);
    Ok(found.map(|(head, head_bytes)| (file, head, head_bytes)))
}

/// Removes a journal of ours that was killed before it had a head.
fn remove_empty(dir: BorrowedFd<'_>, name: &CStr) {
    let empty =
        |stat: Stat| stat.is_file() && stat.size == 0 && stat.uid == rustix::process::geteuid().as_raw();
    if !sys::stat_at(dir, name, false).is_ok_and(empty) {
        return;
    }
    // Under its lock it stays empty.
    if let Ok(file) = sys::open_log(dir, name) {
        let ours = matches!(lock(&file), Ok(true)) && sys::stat(file.as_fd()).is_ok_and(empty);
        if ours {
            let _ = rustix::fs::unlinkat(dir, name, AtFlags::empty());
        }
    }
}

/// Takes the lock that a run holds as long as it lives. Says whether it could be had.
pub(super) fn lock(file: &OwnedFd) -> io::Result<bool> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Takes the lock as soon as it can be had, as long as there is to be another attempt.
fn lock_when(file: &OwnedFd, mut again: impl FnMut() -> bool) -> io::Result<bool> {
    loop {
        if lock(file)? {
            return Ok(true);
        }
        if !again() {
            return Ok(false);
        }
    }
}

/// Returns true if a run that holds this journal lives.
pub(crate) fn is_busy(dir: BorrowedFd<'_>, name: &CStr) -> bool {
    let opened = open(dir, name).ok().flatten();
    opened.is_some_and(|(file, ..)| matches!(lock(&file), Ok(false)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_given_back_is_taken() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let open = || OwnedFd::from(file.reopen().unwrap());
        let (ours, theirs) = (open(), open());
        assert!(lock(&theirs).unwrap());
        assert!(!lock_when(&ours, || false).unwrap());
        let (mut theirs, mut attempts) = (Some(theirs), 0);
        let locked = lock_when(&ours, || {
            attempts += 1;
            if attempts == 3 {
                rustix::fs::flock(theirs.take().unwrap(), FlockOperation::Unlock).unwrap();
            }
            true
        });
        assert!(locked.unwrap());
        assert_eq!(attempts, 3);
    }

    #[test]
    fn names() {
        let partial = |of, is_journal| Partial {
            of,
            id: 0xff,
            is_journal,
        };
        for (name, parsed) in [
            (c"a.partial-000000ff", Some(partial(b"a", false))),
            (c"a.partial-000000ff.journal", Some(partial(b"a", true))),
            (c".partial-000000ff", Some(partial(b"", false))),
            (c"a.partial-000000FF", None),
            (c"a.partial-+00000ff", None),
            (c"a.partial-00000ff", None),
            (c"a.partial_000000ff", None),
            (c"a.partial-000000ff.log", None),
            (c".journal", None),
            (c"", None),
        ] {
            assert_eq!(Partial::parse(name), parsed, "{name:?}");
        }
        assert_eq!(
            name_of(c"a.partial-000000ff"),
            CString::from(c"a.partial-000000ff.journal")
        );
    }
}
