//! asyncio files: awaitables that finish at once where they can, and suspend on the loop's driver where not.
//!
//! `driver` is the bridge between one event loop and one engine driver, `registry` has those of each loop, and `waiter`
//! is told of completions. `call` is a single awaited op. `read_many` is a batch behind one iterator: `request` is what
//! each of its items asks for, `at_hand` the cached files that it reads a few at a time, `help` the threads that it may
//! use, and `progress` what it tells of how far it is. `stat` has the functions that say what a file is, and `status`
//! their coroutine. `orphan` writes for files that are gone. `scandir` reads a directory, whose entries are `entry`'s.

mod at_hand;
pub(crate) mod call;
pub(crate) mod driver;
mod entry;
pub(crate) mod future;
mod help;
pub(crate) mod orphan;
mod progress;
mod read_many;
mod read_many_step;
mod reader;
mod registry;
mod request;
mod reservation;
mod scandir;
mod scandir_step;
mod stat;
mod status;
mod waiter;

pub(crate) use call::Call;
pub(crate) use future::{from_the_loop, new_future_of, running_loop, wake, LoopFuture};

use crate::reused;
use pyo3::prelude::*;

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<driver::LoopDriver>()?;
    module.add_class::<call::Call>()?;
    module.add_class::<read_many::ReadMany>()?;
    module.add_class::<read_many_step::ReadManyStep>()?;
    module.add_class::<entry::DirEntry>()?;
    module.add_class::<reservation::Reservation>()?;
    module.add_class::<scandir::ScandirIterator>()?;
    module.add_class::<scandir_step::ScandirStep>()?;
    module.add_class::<status::StatCall>()?;
    reused::install_await::<call::Call>(module.py());
    reused::install::<read_many_step::ReadManyStep>(module.py());
    reused::install::<scandir_step::ScandirStep>(module.py());
    reused::install::<status::StatCall>(module.py());
    module.add_function(wrap_pyfunction!(call::read_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(call::write_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(stat::stat, module)?)?;
    module.add_function(wrap_pyfunction!(stat::lstat, module)?)?;
    module.add_function(wrap_pyfunction!(stat::fstat, module)?)?;
    module.add_function(wrap_pyfunction!(stat::exists, module)?)?;
    module.add_function(wrap_pyfunction!(stat::lexists, module)?)?;
    module.add_function(wrap_pyfunction!(stat::isfile, module)?)?;
    module.add_function(wrap_pyfunction!(stat::isdir, module)?)?;
    module.add_function(wrap_pyfunction!(stat::islink, module)?)?;
    module.add_function(wrap_pyfunction!(stat::path_is, module)?)
}
