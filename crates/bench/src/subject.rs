//! Subject of a row of a report: an engine with I/O on a file, a package or a program with a task, or a
//! server under load.

use crate::job::{Base, Cache, Cell, Measure, Rw};
use crate::net::Load;
use serde::{Deserialize, Serialize};

/// A package or a program, and its task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Name, as on the command line.
    pub contender: String,
    /// Description of its work. The same words mean the same work.
    pub task: String,
    /// State of the page cache before it runs.
    pub cache: Cache,
}

/// Subject of a measurement. In JSON each is a flat object, told apart by its names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Subject {
    /// A cell of `bench io`.
    Io(Cell),
    /// An entry of `bench files` or `bench cp`.
    Entry(Entry),
    /// A load of `bench net`.
    Net(Load),
}

impl Subject {
    /// Returns the name of the engine, the package, the program or the server.
    pub fn contender(&self) -> String {
        match self {
            Subject::Io(cell) => cell.engine.to_string(),
            Subject::Entry(entry) => entry.contender.clone(),
            Subject::Net(load) => load.server.clone(),
        }
    }

    /// Returns the number of ops at once, where that is a number of the command line.
    pub fn depth(&self) -> Option<u32> {
        match self {
            Subject::Io(cell) => Some(cell.iodepth),
            Subject::Entry(_) | Subject::Net(_) => None,
        }
    }

    /// Returns contender and depth.
    pub fn label(&self) -> String {
        match self.depth() {
            Some(depth) => format!("{}, depth {depth}", self.contender()),
            None => self.contender(),
        }
    }

    /// Describes the work, in one line.
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

    /// Describes the work without its depth.
    pub fn title(&self) -> String {
        match self.depth() {
            Some(depth) => self.work().replacen(&format!(", depth {depth}"), "", 1),
            None => self.work(),
        }
    }

    /// Returns the number by which it is compared.
    pub fn measure(&self) -> Measure {
        match self {
            Subject::Io(cell) => cell.measure,
            Subject::Entry(_) => Measure::Time,
            Subject::Net(load) => load.measure(),
        }
    }

    /// Returns true if each block is read and written.
    pub fn copies(&self) -> bool {
        matches!(self, Subject::Io(cell) if cell.rw == Rw::Copy)
    }

    /// Returns true if two do the same work, so that they can be compared.
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

    /// Returns true if it takes part at every depth.
    pub fn has_no_depth(&self) -> bool {
        matches!(self, Subject::Io(cell) if cell.engine.base == Base::Sync)
    }

    /// Returns true if the page cache is bypassed, and the requested state of the cache.
    pub fn cache(&self) -> (bool, Cache) {
        match self {
            Subject::Io(cell) => (cell.direct, cell.cache),
            Subject::Entry(entry) => (false, entry.cache),
            Subject::Net(_) => (false, Cache::Left),
        }
    }

    /// Returns the cell of `bench io`.
    pub fn io(&self) -> Option<&Cell> {
        match self {
            Subject::Io(cell) => Some(cell),
            Subject::Entry(_) | Subject::Net(_) => None,
        }
    }

    /// Returns the load of `bench net`.
    pub fn net(&self) -> Option<&Load> {
        match self {
            Subject::Net(load) => Some(load),
            Subject::Io(_) | Subject::Entry(_) => None,
        }
    }
}
