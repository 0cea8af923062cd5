//! The base of a text file: what must be quick is here (`text_state.rs`, `text_call.rs`). Everything else is Python
//! (`_text.py`), which keeps its state here.

use super::ascii::{ascii, LineEnd};
use super::binary::BinaryFile;
use super::text_call::{TextCall, Verb};
use super::text_state::{Encoder, Run, Slow, Text};
use crate::attached::Attached;
use crate::errors;
use crate::memory;
use crate::python_code;
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::gc::PyVisit;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyList, PyString, PyType};
use pyo3::PyTraverseError;
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// How many calls of a text file have its turn or wait for it. `_text_base.py` derives `Turn` from it, which lets them wait.
#[pyclass(subclass, frozen, module = "proactor._native")]
#[derive(Default)]
pub(crate) struct Users {
    users: AtomicUsize,
    taken: AtomicBool,
}

impl Users {
    pub(super) fn none(&self) -> bool {
        self.users.load(Ordering::Relaxed) == 0
    }

    fn set(&self, users: usize) {
        self.users.store(users, Ordering::Relaxed);
        self.taken.store(users > 0, Ordering::Relaxed);
    }
}

/// The turn of a text file: others wait until this is dropped.
pub(super) struct HasTurn(Option<Py<Users>>);

impl HasTurn {
    /// Takes the turn that nobody has and nobody waits for.
    pub(super) fn take(py: Python<'_>, turn: &Py<Users>) -> Self {
        turn.get().set(1);
        HasTurn(Some(turn.clone_ref(py)))
    }

    /// Somebody else will leave it.
    pub(super) fn hand_over(mut self) {
        self.0 = None;
    }

    pub(super) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.0.as_ref().map_or(Ok(()), |turn| visit.call(turn))
    }
}

impl Drop for HasTurn {
    fn drop(&mut self) {
        let Some(turn) = self.0.take() else {
            return;
        };
        if turn.get().users() == 1 {
            turn.get().set(0);
            return;
        }
        errors::in_drop(|py| {
            if let Err(e) = python_code::call_method(turn.bind(py).as_any(), intern!(py, "leave"), []) {
                e.write_unraisable(py, None);
            }
        });
    }
}

#[pymethods]
impl Users {
    #[new]
    fn new() -> Self {
        Users::default()
    }

    #[getter]
    fn users(&self) -> usize {
        self.users.load(Ordering::Relaxed)
    }

    #[setter]
    fn set_users(&self, users: usize) {
        self.users.store(users, Ordering::Relaxed);
    }

    #[getter]
    fn _taken(&self) -> bool {
        self.taken.load(Ordering::Relaxed)
    }

    #[setter(_taken)]
    fn set_taken(&self, taken: bool) {
        self.taken.store(taken, Ordering::Relaxed);
    }
}

/// A text file's state. `_text.py` derives `TextFile` from it.
#[pyclass(subclass, frozen, module = "proactor._native")]
pub(crate) struct TextCore(pub(super) Attached<Text>);

// What a setter replaces goes when nothing is borrowed any more: that may run Python code.
#[pymethods]
impl TextCore {
    /// `turn` is shared with the calls that have to wait.
    #[new]
    #[pyo3(signature = (buffer, turn))]
    fn new(py: Python<'_>, buffer: Py<BinaryFile>, turn: Py<Users>) -> Self {
        TextCore(Attached::new(Text::new(py, buffer, turn)))
    }

    /// None once it is detached.
    #[getter]
    fn _buffer(&self, py: Python<'_>) -> PyResult<Option<Py<BinaryFile>>> {
        Ok(self.0.borrow(py)?.buffer(py).map(Bound::unbind))
    }

    #[setter(_buffer)]
    fn set_buffer(&self, py: Python<'_>, buffer: Option<Py<BinaryFile>>) -> PyResult<()> {
        let old = self.0.borrow_mut(py)?.set_buffer(py, buffer);
        drop(old);
        Ok(())
    }

    /// Characters, of which `_used` have been read.
    #[getter]
    fn _decoded(&self, py: Python<'_>) -> PyResult<Py<PyString>> {
        Ok(self.0.borrow(py)?.decoded.clone_ref(py))
    }

    #[setter(_decoded)]
    fn set_decoded(&self, py: Python<'_>, decoded: Py<PyString>) -> PyResult<()> {
        let old = std::mem::replace(&mut self.0.borrow_mut(py)?.decoded, decoded);
        drop(old);
        Ok(())
    }

    #[getter]
    fn _used(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.0.borrow(py)?.used)
    }

    #[setter(_used)]
    fn set_used(&self, py: Python<'_>, used: usize) -> PyResult<()> {
        self.0.borrow_mut(py)?.used = used;
        Ok(())
    }

    /// Bytes below 128 are characters now, with nothing to be remembered of them.
    #[getter]
    fn _ascii_as_is(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.0.borrow(py)?.ascii_as_is)
    }

    #[setter(_ascii_as_is)]
    fn set_ascii_as_is(&self, py: Python<'_>, as_is: bool) -> PyResult<()> {
        self.0.borrow_mut(py)?.ascii_as_is = as_is;
        Ok(())
    }

    #[getter]
    fn _ratio(&self, py: Python<'_>) -> PyResult<f64> {
        Ok(self.0.borrow(py)?.ratio)
    }

    #[setter(_ratio)]
    fn set_ratio(&self, py: Python<'_>, ratio: f64) -> PyResult<()> {
        self.0.borrow_mut(py)?.ratio = ratio;
        Ok(())
    }

    #[getter]
    fn _iterating(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.0.borrow(py)?.iterating)
    }

    #[setter(_iterating)]
    fn set_iterating(&self, py: Python<'_>, iterating: bool) -> PyResult<()> {
        self.0.borrow_mut(py)?.iterating = iterating;
        Ok(())
    }

    #[getter]
    fn _snapshot(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.0.borrow(py)?.snapshot)
    }

    #[setter(_snapshot)]
    fn set_snapshot(&self, py: Python<'_>, snapshot: bool) -> PyResult<()> {
        self.0.borrow_mut(py)?.snapshot = snapshot;
        Ok(())
    }

    #[getter]
    fn _turn(&self, py: Python<'_>) -> PyResult<Py<Users>> {
        Ok(self.0.borrow(py)?.turn.clone_ref(py))
    }

    /// A list of `Chunk`s: what was decoded, and from what.
    #[getter]
    fn _chunks<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let (chunks, run, decoded) = {
            let mut text = self.0.borrow_mut(py)?;
            let decoded = text.decoded.clone_ref(py).into_bound(py);
            (text.chunks.bind(py).clone(), text.run.take(), decoded)
        };
        if let Some(Run { start, place }) = run {
            let data = ascii(&decoded)
                .map(|text| memory::bytes(py, &text[start..]))
                .transpose()?;
            let chunk = py.import("proactor._cookie")?.getattr("Chunk")?;
            chunks.append(chunk.call1((start, place, 0, data))?)?;
        }
        Ok(chunks)
    }

    #[setter(_chunks)]
    fn set_chunks(&self, py: Python<'_>, chunks: Py<PyList>) -> PyResult<()> {
        let mut text = self.0.borrow_mut(py)?;
        let old = std::mem::replace(&mut text.chunks, chunks);
        text.run = None;
        drop(text);
        drop(old);
        Ok(())
    }

    /// Decodes one more chunk if it is that simple, and says whether; the caller has the turn of the file. Or what is to be
    /// awaited before it is asked again: the loop has to go round.
    fn _decode_as_is<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let (decoded, buffer) = {
            let mut text = self.0.borrow_mut(py)?;
            (text.decode_more(py)?, text.buffer(py))
        };
        if let (Err(Slow::Pause), Some(buffer)) = (&decoded, buffer) {
            return BinaryFile::wait_in_line(&buffer).map(Bound::into_any);
        }
        Ok(PyBool::new(py, decoded.is_ok()).to_owned().into_any())
    }

    /// A call that has let the loop go round has its turn.
    pub(super) fn _go_on(&self, py: Python<'_>) -> PyResult<()> {
        if let Some(file) = self.0.borrow(py)?.buffer(py) {
            file.borrow().driver.borrow_mut(py).turn.go_on();
        }
        Ok(())
    }

    /// What ends a line: `open`'s argument `newline`.
    fn _end_lines_with(&self, py: Python<'_>, newline: Option<Bound<'_, PyString>>) -> PyResult<()> {
        let line_end = match newline {
            None => LineEnd::LineFeed,
            Some(newline) => match newline.to_str()? {
                "\n" => LineEnd::LineFeed,
                "" => LineEnd::Any,
                _ => LineEnd::Other(newline.unbind()),
            },
        };
        self.0.borrow_mut(py)?.line_end = line_end;
        Ok(())
    }

    /// How short strings are encoded: "utf-8", "ascii" (for all encodings that have it within) or None for in Python.
    fn _encode_as(&self, py: Python<'_>, encoding: Option<&str>) -> PyResult<()> {
        let encoder = match encoding {
            None => Encoder::Slow,
            Some("ascii") => Encoder::Ascii,
            Some("utf-8") => Encoder::Utf8,
            Some(other) => return Err(PyValueError::new_err(format!("not encoded here: {other}"))),
        };
        self.0.borrow_mut(py)?.encoder = encoder;
        Ok(())
    }

    /// A derived class has the quick methods itself: the interpreter goes round about for those of a base.
    #[classmethod]
    fn __init_subclass__(cls: &Bound<'_, PyType>) -> PyResult<()> {
        for method in quick_methods(cls)? {
            inherit(cls, &method)?;
        }
        Ok(())
    }

    // A limiter may know its file.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.0
            .seen_by_collector()
            .map_or(Ok(()), |text| text.traverse(&visit))
    }

    fn __clear__(&self, py: Python<'_>) {
        let held = self.0.get(py).map(|mut text| text.set_buffer(py, None));
        drop(held);
    }

    // (The type's own slot is faster: `anext`.)
    fn __anext__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, TextCall>> {
        TextCall::new(slf, Verb::Next)
    }
}

// What makes an awaitable cannot fail but for want of memory, runs no Python code and drops nothing: it needs none of what
// PyO3 puts around a method. That would take 280 of the 2,800 instructions of an awaited write, 60 of a read's 800.

/// `am_anext`.
unsafe extern "C" fn anext(slf: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: attached, as all callers of slots are; a TextCore.
    unsafe { call(slf, Verb::Next) }
}

/// `write`, METH_O.
unsafe extern "C" fn write(slf: *mut ffi::PyObject, text: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as above: the descriptor has looked at its type. The argument is a live object.
    unsafe {
        let text = Borrowed::from_ptr(Python::assume_attached(), text);
        let text = text.to_owned().unbind();
        call(slf, Verb::Write { text })
    }
}

/// `readline`, METH_FASTCALL.
unsafe extern "C" fn readline(
    slf: *mut ffi::PyObject,
    args: *mut *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
) -> *mut ffi::PyObject {
    // SAFETY: attached; a TextCore and `count` live objects. `__index__` may run Python code, which finds nothing borrowed.
    unsafe {
        let size = match count {
            0 => -1,
            1 => ffi::PyNumber_AsSsize_t(*args, ffi::PyExc_OverflowError),
            _ => {
                let text = c"readline() takes at most 1 argument";
                ffi::PyErr_SetString(ffi::PyExc_TypeError, text.as_ptr());
                return std::ptr::null_mut();
            }
        };
        if size == -1 && count == 1 && !ffi::PyErr_Occurred().is_null() {
            return std::ptr::null_mut();
        }
        call(slf, Verb::Line { size })
    }
}

/// # Safety
/// The thread is attached, and it is a TextCore.
unsafe fn call(slf: *mut ffi::PyObject, verb: Verb) -> *mut ffi::PyObject {
    // SAFETY: as the caller says.
    let (py, file) = unsafe {
        let py = Python::assume_attached();
        (py, Bound::ref_from_ptr(py, &slf).cast_unchecked::<TextCore>())
    };
    match TextCall::new(file, verb) {
        Ok(call) => call.into_ptr(),
        Err(e) => {
            e.restore(py);
            std::ptr::null_mut()
        }
    }
}

const WRITE_DOC: &CStr = c"write($self, text, /)
--

Writes a string and returns its length in characters.";

const READLINE_DOC: &CStr = c"readline($self, size=-1, /)
--

Reads one line with its end, or at most `size` characters of it. \"\" is the end of the file.";

/// The raw methods of a class, TextCore or one that derives from it.
fn quick_methods<'py>(class: &Bound<'py, PyType>) -> PyResult<[Bound<'py, PyAny>; 2]> {
    let method = |name: &'static CStr, function, flags, doc: &'static CStr| {
        let definition = Box::leak(Box::new(ffi::PyMethodDef {
            ml_name: name.as_ptr(),
            ml_meth: function,
            ml_flags: flags,
            ml_doc: doc.as_ptr(),
        }));
        // SAFETY: the definition, of which a class needs one, is never freed; nor are its texts. A new descriptor, or null
        // with an exception.
        unsafe {
            let descriptor = ffi::PyDescr_NewMethod(class.as_type_ptr(), definition);
            Bound::from_owned_ptr_or_err(class.py(), descriptor)
        }
    };
    let write = ffi::PyMethodDefPointer { PyCFunction: write };
    let readline = ffi::PyMethodDefPointer {
        PyCFunctionFast: readline,
    };
    Ok([
        method(c"write", write, ffi::METH_O, WRITE_DOC)?,
        method(c"readline", readline, ffi::METH_FASTCALL, READLINE_DOC)?,
    ])
}

/// Gives a derived class a raw method, unless it or a base has one of its own in place of it. A base without was given the
/// raw one, which may stand before another base's own.
fn inherit(class: &Bound<'_, PyType>, method: &Bound<'_, PyAny>) -> PyResult<()> {
    let name = method.getattr("__name__")?.cast_into::<PyString>()?;
    if class.getattr("__dict__")?.contains(&name)? {
        return Ok(());
    }
    let core = class.py().get_type::<TextCore>();
    let mut hidden = false;
    for base in class.mro().iter().take_while(|base| !base.is(&core)) {
        match base.getattr("__dict__")?.get_item(&name) {
            Ok(own) if is_same(&own, method) => hidden = true,
            Ok(own) if hidden => return class.setattr(name, own),
            Ok(_) => return Ok(()),
            Err(_) => {}
        }
    }
    class.setattr(name, method)
}

/// Whether both are the same raw method, though of different classes.
fn is_same(one: &Bound<'_, PyAny>, other: &Bound<'_, PyAny>) -> bool {
    let function = |method: &Bound<'_, PyAny>| {
        // SAFETY: a live object, and the definition of a descriptor that is one.
        unsafe {
            let is_method = ffi::Py_TYPE(method.as_ptr()) == &raw mut ffi::PyMethodDescr_Type;
            is_method.then(|| (*(*method.as_ptr().cast::<ffi::PyMethodDescrObject>()).d_method).ml_meth)
        }
    };
    function(one).is_some_and(|one| Some(one) == function(other))
}

/// Puts the raw slot and the raw methods into the class, before `_text.py` derives from it.
pub(super) fn install(py: Python<'_>) -> PyResult<()> {
    let class = py.get_type::<TextCore>();
    let anext_method = class.getattr("__anext__")?;
    // SAFETY: a heap type of ours, which has its own `tp_as_async`. A derived class takes its slot from the descriptor
    // `__anext__` rather than from the base, if that is what it should be: the slot's wrapper.
    unsafe {
        if let Some(slots) = (*class.as_type_ptr()).tp_as_async.as_mut() {
            slots.am_anext = Some(anext);
        }
        if ffi::Py_TYPE(anext_method.as_ptr()) == &raw mut ffi::PyWrapperDescr_Type {
            let wrapper = anext_method.as_ptr().cast::<ffi::PyWrapperDescrObject>();
            (*wrapper).d_wrapped = anext as *mut std::ffi::c_void;
        }
    }
    // Also tells the interpreter that the type has changed.
    for method in quick_methods(&class)? {
        class.setattr(method.getattr("__name__")?.cast_into::<PyString>()?, method)?;
    }
    Ok(())
}
