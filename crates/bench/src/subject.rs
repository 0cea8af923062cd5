//! What a row of a report is of: an engine with I/O on a file, a package or a program with a task, or a server under load.

use crate::job::{Base, Cache, Cell, Measure, Rw};
use crate::net::Load;
use serde::{Deserialize, Serialize};

/// A package or a program, and its task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its name, as on the command line.
    pub contender: String,
    /// What it does, in words. The same words are the same work.
    pub task: String,
    /// What it finds in the page cache.
    pub cache: Cache,
}

/// What is measured. In JSON each is a flat object, told apart by its names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Subject {
    /// Of `bench io`.
    Io(Cell),
    /// Of `bench files` and `bench cp`.
    Entry(Entry),
    /// Of `bench net`.
    Net(Load),
}

impl Subject {
    /// The engine, the package, the program or the server.
    pub fn contender(&self) -> String {
        match self {
            Subject::Io(cell) => cell.engine.to_string(),
            Subject::Entry(entry) => entry.contender.clone(),
            Subject::Net(load) => load.server.clone(),
        }
    }

    /// Ops at once, where that is a number of the command line.
    pub fn depth(&self) -> Option<u32> {
        match self {
            Subject::Io(cell) => Some(cell.iodepth),
            Subject::Entry(_) | Subject::Net(_) => None,
        }
    }

    /// Contender and depth.
    pub fn label(&self) -> String {
        match self.depth() {
            Some(depth) => format!("{}, depth {depth}", self.contender()),
            None => self.contender(),
        }
    }

    /// The work, in one line.
    pub fn work(&self) -> String {
        match self {
            Subject::Io(cell) => cell.work(),
            Subject::Entry(entry) => {
                let cache = match entry.cache {
                    Cache::Dropped => "cache dropped",
                    Cache::Warmed => "cache warmed",
                    Cache::Left => "cache as it is",
                };
                format!("{}, {cache}", entry.task)
            }
            Subject::Net(load) => load.work(),
        }
    }

    /// The work without its depth.
    pub fn title(&self) -> String {
        match self.depth() {
            Some(depth) => self.work().replacen(&format!(", depth {depth}"), "", 1),
            None => self.work(),
        }
    }

    /// By what it is compared.
    pub fn measure(&self) -> Measure {
        match self {
            Subject::Io(cell) => cell.measure,
            Subject::Entry(_) => Measure::Time,
            Subject::Net(load) => load.measure(),
        }
    }

    /// Whether each block is read and written.
    pub fn copies(&self) -> bool {
        matches!(self, Subject::Io(cell) if cell.rw == Rw::Copy)
    }

    /// Whether two do the same work, so that they can be compared.
    pub fn same_work(&self, other: &Subject) -> bool {
        match (self, other) {
            (Subject::Io(one), Subject::Io(other)) => one.same_work(other),
            (Subject::Entry(one), Subject::Entry(other)) => {
                (&one.task, one.cache) == (&other.task, other.cache)
            }
            (Subject::Net(one), Subject::Net(other)) => one.work() == other.work(),
            _ => false,
        }
    }

    /// Whether it takes part at every depth.
    pub fn has_no_depth(&self) -> bool {
        matches!(self, Subject::Io(cell) if cell.engine.base == Base::Sync)
    }

    /// Around the page cache, and what is to be in it.
    pub fn cache(&self) -> (bool, Cache) {
        match self {
            Subject::Io(cell) => (cell.direct, cell.cache),
            Subject::Entry(entry) => (false, entry.cache),
            Subject::Net(_) => (false, Cache::Left),
        }
    }

    /// Of `bench io`.
    pub fn io(&self) -> Option<&Cell> {
        match self {
            Subject::Io(cell) => Some(cell),
            Subject::Entry(_) | Subject::Net(_) => None,
        }
    }

    /// Of `bench net`.
    pub fn net(&self) -> Option<&Load> {
        match self {
            Subject::Net(load) => Some(load),
            Subject::Io(_) | Subject::Entry(_) => None,
        }
    }
}
