//! I/O priorities, as in `ioprio_set(2)`.

use proactor::{Priority, PriorityClass};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Scheduling class of a `Priority`, as in ioprio_set(2).
#[pyclass(
    eq,
    eq_int,
    frozen,
    hash,
    from_py_object,
    name = "PriorityClass",
    module = "proactor.aio",
    rename_all = "SCREAMING_SNAKE_CASE"
)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum PyPriorityClass {
    /// The submitting thread's own priority.
    None = 0,
    /// First access to the device always. Needs CAP_SYS_NICE or CAP_SYS_ADMIN.
    Realtime = 1,
    /// The default.
    BestEffort = 2,
    /// Only when nobody else wants the device.
    Idle = 3,
}

/// An I/O priority: a class and a value from 0 (first) to 7 (last).
///
/// Raises ValueError where the kernel would ignore or refuse it: a value outside 0..7, or a value other than 0 for the
/// classes NONE and IDLE, which have none.
#[pyclass(eq, frozen, hash, from_py_object, name = "Priority", module = "proactor.aio")]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct PyPriority {
    /// The scheduling class.
    #[pyo3(get)]
    cls: PyPriorityClass,
    /// 0 (first) to 7 (last).
    #[pyo3(get)]
    value: u8,
}

impl PyPriority {
    pub(crate) fn to_engine(self) -> Priority {
        let class = match self.cls {
            PyPriorityClass::None => return Priority::INHERIT,
            PyPriorityClass::Realtime => PriorityClass::RealTime,
            PyPriorityClass::BestEffort => PriorityClass::BestEffort,
            PyPriorityClass::Idle => PriorityClass::Idle,
        };
        Priority::new(class, self.value).expect("checked when it was made")
    }
}

#[pymethods]
impl PyPriority {
    #[new]
    #[pyo3(signature = (cls, value=0))]
    fn new(cls: PyPriorityClass, value: i64) -> PyResult<Self> {
        let bare = matches!(cls, PyPriorityClass::None | PyPriorityClass::Idle);
        if bare && value != 0 {
            return Err(PyValueError::new_err(
                "the classes NONE and IDLE have no values: the kernel would ignore it",
            ));
        }
        if !(0..=7).contains(&value) {
            return Err(PyValueError::new_err(format!(
                "a priority value is 0 (first) to 7 (last), not {value}"
            )));
        }
        Ok(PyPriority {
            cls,
            value: value as u8,
        })
    }

    fn __repr__(&self) -> String {
        let name = match self.cls {
            PyPriorityClass::None => "NONE",
            PyPriorityClass::Realtime => "REALTIME",
            PyPriorityClass::BestEffort => "BEST_EFFORT",
            PyPriorityClass::Idle => "IDLE",
        };
        format!("Priority(PriorityClass.{name}, {})", self.value)
    }
}
