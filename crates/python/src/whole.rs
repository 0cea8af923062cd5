//! Integer arguments by their names. One beyond its type's range raises ValueError, as a value out of any other range does.

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;

/// Reads a number, or none where its type allows that.
pub(crate) fn number<'py, T>(name: &str, value: &Bound<'py, PyAny>) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    value.extract().map_err(
        |error: PyErr| match error.is_instance_of::<PyOverflowError>(value.py()) {
            true => PyValueError::new_err(format!("{name}: {value} is less than 0 or too large")),
            false => PyTypeError::new_err(format!("{name} is a number, not {}", value.get_type())),
        },
    )
}

/// Functions for `from_py_with`, which gives them no name of the argument.
macro_rules! named {
    ($($name:ident: $type:ty,)*) => {
        $(pub(crate) fn $name(value: &Bound<'_, PyAny>) -> PyResult<$type> {
            number(stringify!($name), value)
        })*
    };
}

named! {
    backlog: i64,
    concurrency: i64,
    events: u16,
    max: Option<isize>,
    max_jobs: i64,
    max_threads: Option<i64>,
    min: isize,
    rw_flags: u32,
    sqpoll_cpu: Option<u32>,
    workers: i64,
}

/// Connections that may wait to be accepted.
pub(crate) fn listen_backlog(value: &Bound<'_, PyAny>) -> PyResult<u32> {
    number("backlog", value)
}

/// A number that is at least `least`.
///
/// # Errors
/// ValueError for a smaller one.
pub(crate) fn at_least(name: &str, least: i64, value: i64) -> PyResult<usize> {
    match usize::try_from(value) {
        Ok(number) if value >= least => Ok(number),
        _ => Err(PyValueError::new_err(format!(
            "{name} must be at least {least}, not {value}"
        ))),
    }
}
