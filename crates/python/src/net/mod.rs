//! `proactor.net`: an event loop's sockets.
//!
//! One [`Network`] per loop holds the sockets of `proactor_net`. Their ring is a reader of the loop. A turn only takes note
//! of what has happened, in the [`State`](stream::State) of each connection; then whoever waits is woken, and what they send
//! goes to the kernel in the next turn, together. The rest, such as lines and handlers, is Python (`python/proactor/net.py`).

mod events;
mod inbox;
mod network;
mod stream;

use pyo3::prelude::*;

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<network::Network>()?;
    module.add_class::<stream::NetStream>()?;
    module.add_function(wrap_pyfunction!(network::network, module)?)
}
