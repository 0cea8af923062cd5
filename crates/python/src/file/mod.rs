//! Open files on an event loop: `proactor.open`.
//!
//! A `BinaryFile` holds the buffers (`proactor-file`, which does no I/O) and the queue of calls that use its position.
//! A `FileCall` is one awaited method: it asks the buffers, and suspends only when they need an op. The op belongs to
//! the file, so a call that is cancelled leaves nothing half done behind. A `FileOp` is one awaited call that leaves the
//! position alone: it waits for no turn, and its ops are its own. `TextCore` and `TextCall` are the quick part of text
//! files, which are Python over a `BinaryFile`.

mod ascii;
mod binary;
mod call;
mod closing;
mod creating;
mod descriptor;
mod direct;
mod io_buffer;
mod limited;
mod lines;
mod locks;
mod long;
mod methods;
mod mode;
mod op;
mod opening;
mod plan;
mod positional;
mod ranges;
mod text;
mod text_call;
mod text_state;
mod turn;
mod verb;

pub(crate) use binary::BinaryFile;
pub(crate) use descriptor::OpenedFile;
pub(crate) use op::FileOp;
pub(crate) use turn::Turn;

use crate::reused;
use pyo3::prelude::*;

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<binary::BinaryFile>()?;
    module.add_class::<call::FileCall>()?;
    module.add_class::<op::FileOp>()?;
    module.add_class::<creating::CreatedFile>()?;
    module.add_class::<opening::Opening>()?;
    module.add_class::<text::Users>()?;
    module.add_class::<text::TextCore>()?;
    module.add_class::<text_call::TextCall>()?;
    reused::install_await::<op::FileOp>(module.py());
    reused::install_await::<opening::Opening>(module.py());
    reused::install::<call::FileCall>(module.py());
    reused::install::<text_call::TextCall>(module.py());
    text::install(module.py())?;
    module.add_function(wrap_pyfunction!(creating::create_file, module)?)?;
    module.add_function(wrap_pyfunction!(opening::open_binary, module)?)
}
