//! `proactor._native`: conversion between Python and the engine, and wake-ups. No I/O logic.

use std::ffi::OsString;

use pyo3::prelude::*;

/// The native half of the package `proactor`.
#[pymodule]
mod _native {
    use super::*;

    // Python spells it so.
    #[allow(non_upper_case_globals)]
    #[pymodule_export]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    /// Run the `proactor` command with `argv` (the program's name first); return its exit status.
    #[pyfunction]
    fn cli_main(py: Python<'_>, argv: Vec<OsString>) -> u8 {
        py.detach(|| proactor_cli::run(argv))
    }
}
