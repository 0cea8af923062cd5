//! Freeing long chains of objects one after the other, and not one within the other.
//!
//! An object whose end frees the next one, whose end frees the next, takes some stack for each: 50,000 of them overflow a
//! stack of 8 MiB. CPython's containers have a trashcan for that, native classes have this.

use pyo3::prelude::*;
use std::cell::RefCell;

thread_local! {
    /// To be freed by whoever is freeing one already, further up. None: nobody is.
    static LATER: RefCell<Option<Vec<Py<PyAny>>>> = const { RefCell::new(None) };
}

/// Gives up a reference: now, or when the object is free whose end this belongs to. For `Drop` of a class.
pub(crate) fn release(object: Py<PyAny>) {
    let mut now = Some(object);
    // At the thread's end there is no list, and nobody to wait for.
    let is_first = LATER.try_with(|later| match &mut *later.borrow_mut() {
        Some(list) => {
            // allocates: one reference
            list.extend(now.take());
            false
        }
        none => {
            *none = Some(Vec::new());
            true
        }
    });
    while let Some(object) = now.take() {
        drop(object);
        if is_first != Ok(true) {
            return;
        }
        let _ = LATER.try_with(|later| {
            let mut later = later.borrow_mut();
            now = later.as_mut().and_then(Vec::pop);
            if now.is_none() {
                *later = None;
            }
        });
    }
}
