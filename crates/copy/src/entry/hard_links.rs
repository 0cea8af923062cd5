//! Which files of the source have a name in the target already, so that their further names become hard links.
//!
//! A file is forgotten when all of its names have been seen, so only those with names outside the source stay.

use crate::job::queue::Job;
use crate::pair::directory::Dir;
use crate::pair::Entry;
use crate::sys::FileId;
use std::collections::HashMap;
use std::ffi::CString;
use std::sync::{Arc, Mutex};

#[derive(Default)]
pub(crate) struct Links {
    files: Mutex<HashMap<FileId, Known>>,
}

enum Known {
    /// A thread copies it now; these wait.
    Busy(Vec<Job>),
    /// It is here.
    At { first: First, left: Option<u32> },
}

/// The first name of a file in the target.
#[derive(Clone)]
pub(crate) struct First {
    pub(crate) dir: Arc<Dir>,
    pub(crate) name: CString,
    /// Nothing went wrong with it.
    pub(crate) whole: bool,
}

impl First {
    pub(crate) fn new(entry: &Entry<'_>, whole: bool) -> First {
        First {
            dir: entry.at.dir.clone(),
            name: entry.target.into(),
            whole,
        }
    }
}

/// An answer to the claim of a name.
pub(crate) enum Claim {
    /// Copy it, and say `finished`.
    Copy,
    /// Make a link to this.
    Link(First),
    /// Another thread copies it: the job was put aside and comes back.
    Later,
}

impl Links {
    /// Asks for a name of the file `id`. `later` makes the job to come back with.
    pub(crate) fn claim(&self, id: FileId, later: impl FnOnce() -> Job) -> Claim {
        let mut files = self.files.lock().unwrap();
        match files.get_mut(&id) {
            None => {
                files.insert(id, Known::Busy(Vec::new()));
                Claim::Copy
            }
            Some(Known::Busy(waiting)) => {
                waiting.push(later());
                Claim::Later
            }
            Some(Known::At { first, left }) => {
                let first = first.clone();
                *left = left.map(|left| left.saturating_sub(1));
                if *left == Some(0) {
                    files.remove(&id);
                }
                Claim::Link(first)
            }
        }
    }

    /// Makes further names those of `new`, unless another thread has done so meanwhile: no more can be given to `old`.
    pub(crate) fn renew(&self, id: FileId, old: &First, new: First) {
        let mut files = self.files.lock().unwrap();
        if let Some(Known::At { first, .. }) = files.get_mut(&id) {
            if Arc::ptr_eq(&first.dir, &old.dir) && first.name == old.name {
                *first = new;
            }
        }
    }

    /// Forgets names in an unfinished tree that is gone.
    pub(crate) fn forget(&self, tree: FileId) {
        let is_gone =
            |known: &Known| matches!(known, Known::At { first, .. } if first.dir.tree == Some(tree));
        self.files.lock().unwrap().retain(|_, known| !is_gone(known));
    }

    /// The file has been copied to this name, or not at all. Gives back who waited. The file is kept for all of its
    /// `names`, or if that is 0 for ever.
    pub(crate) fn finished(&self, id: FileId, names: u32, first: Option<First>) -> Vec<Job> {
        let mut files = self.files.lock().unwrap();
        let before = files.remove(&id);
        if let Some(first) = first.filter(|_| names != 1) {
            let left = (names > 0).then(|| names - 1);
            files.insert(id, Known::At { first, left });
        }
        match before {
            Some(Known::Busy(waiting)) => waiting,
            _ => Vec::new(),
        }
    }
}
