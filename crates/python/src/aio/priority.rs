//! I/O priorities, as in `ioprio_set(2)`.

use proactor_engine::{Priority, PriorityClass};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

/// The scheduling classes in the order of their numbers, from 0.
const CLASSES: [(&str, Option<PriorityClass>); 4] = [
    ("NONE", None),
    ("REALTIME", Some(PriorityClass::RealTime)),
    ("BEST_EFFORT", Some(PriorityClass::BestEffort)),
    ("IDLE", Some(PriorityClass::Idle)),
];

/// The Python enum.
static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

const CLASS_DOC: &str = "\
Scheduling class of a `Priority`, as in ioprio_set(2).

- NONE: the submitting thread's own priority.
- REALTIME: first access to the device, always. Without CAP_SYS_NICE or CAP_SYS_ADMIN an event with EPERM.
- BEST_EFFORT: the default.
- IDLE: only when nobody else wants the device.";

/// An I/O priority: a class, and within it a value from 0 (first) to 7 (last).
///
/// Raises ValueError where the kernel would ignore or refuse it: an unknown class, a value outside 0 to 7, or one other
/// than 0 for the classes NONE and IDLE, which have none. Immutable, hashable, equal by value.
#[pyclass(eq, frozen, hash, from_py_object, name = "Priority", module = "proactor.aio")]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct PyPriority {
    class: usize,
    /// 0 (first) to 7 (last).
    #[pyo3(get)]
    value: u8,
}

impl PyPriority {
    pub(crate) fn to_engine(self) -> Priority {
        match CLASSES[self.class].1 {
            None => Priority::INHERIT,
            Some(class) => Priority::new(class, self.value).expect("checked when it was made"),
        }
    }

    /// Whether it says nothing.
    pub(crate) fn is_none(self) -> bool {
        self.class == 0
    }
}

#[pymethods]
impl PyPriority {
    #[new]
    #[pyo3(signature = (cls, value=0))]
    fn new(cls: i64, value: i64) -> PyResult<Self> {
        let class = usize::try_from(cls).ok().filter(|class| *class < CLASSES.len());
        let Some(class) = class else {
            return Err(PyValueError::new_err(format!(
                "a priority class is 0 to 3, not {cls}"
            )));
        };
        let bare = !matches!(
            CLASSES[class].1,
            Some(PriorityClass::RealTime | PriorityClass::BestEffort)
        );
        if bare && value != 0 {
            return Err(PyValueError::new_err(
                "a priority of class NONE or IDLE has no value: the kernel would ignore it",
            ));
        }
        if !(0..=7).contains(&value) {
            return Err(PyValueError::new_err(format!(
                "a priority value is 0 (first) to 7 (last), not {value}"
            )));
        }
        Ok(PyPriority {
            class,
            value: value as u8,
        })
    }

    /// The scheduling class.
    #[getter]
    fn cls(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        class_enum(py)?.call1(py, (self.class,))
    }

    fn __repr__(&self) -> String {
        format!(
            "Priority(PriorityClass.{}, {})",
            CLASSES[self.class].0, self.value
        )
    }
}

fn class_enum(py: Python<'_>) -> PyResult<&Py<PyAny>> {
    CLASS.get_or_try_init(py, || {
        let members: Vec<_> = CLASSES
            .iter()
            .enumerate()
            .map(|(i, (name, _))| (*name, i))
            .collect(); // allocates: an entry for each class
        python_enum(py, "IntEnum", "PriorityClass", CLASS_DOC, members)
    })
}

/// An enum of Python's own: members can be listed, pickled and matched.
pub(super) fn python_enum<'py, T>(
    py: Python<'py>,
    base: &str,
    name: &str,
    doc: &str,
    members: Vec<(&str, T)>,
) -> PyResult<Py<PyAny>>
where
    T: IntoPyObject<'py>,
{
    let options = PyDict::new(py);
    options.set_item("module", "proactor.aio")?;
    let base = py.import("enum")?.getattr(base)?;
    let made = base.call((name, members), Some(&options))?;
    made.setattr("__doc__", doc)?;
    Ok(made.unbind())
}

pub(super) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("PriorityClass", class_enum(module.py())?)?;
    module.add_class::<PyPriority>()
}
