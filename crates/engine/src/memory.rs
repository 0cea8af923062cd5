//! Memory whose size comes from a file or a caller: there may not be enough, which is an error and no abort.
//!
//! It must not know ops or backends.

use std::collections::TryReserveError;
use std::ffi::{CStr, CString};

/// Makes room for `count` more bytes, with some to spare, so that a vector that grows byte by byte is copied rarely.
///
/// # Errors
/// If there is no memory for them, as for all functions here.
#[inline]
pub fn reserve(vec: &mut Vec<u8>, count: usize) -> Result<(), TryReserveError> {
    if count <= vec.capacity() - vec.len() {
        return Ok(());
    }
    reserve_more(vec, count)
}

#[cold]
fn reserve_more(vec: &mut Vec<u8>, count: usize) -> Result<(), TryReserveError> {
    vec.try_reserve(count).or_else(|_| vec.try_reserve_exact(count))
}

/// Adds bytes to the end.
///
/// # Errors
/// As [`reserve`].
#[inline]
pub fn append(vec: &mut Vec<u8>, bytes: &[u8]) -> Result<(), TryReserveError> {
    reserve(vec, bytes.len())?;
    // allocates: there is room
    vec.extend_from_slice(bytes);
    Ok(())
}

/// Makes a vector of `len` zeros.
///
/// # Errors
/// As [`reserve`].
pub fn zeroed(len: usize) -> Result<Vec<u8>, TryReserveError> {
    let mut vec = Vec::new();
    vec.try_reserve_exact(len)?;
    // allocates: there is room
    vec.resize(len, 0);
    Ok(vec)
}

/// Adds a value to the end.
///
/// # Errors
/// As [`reserve`]. The value is lost.
pub fn push<T>(vec: &mut Vec<T>, value: T) -> Result<(), TryReserveError> {
    vec.try_reserve(1)?;
    vec.push(value);
    Ok(())
}

/// Collects values, of which some may be errors. `lacking` makes the error of a lack of memory.
///
/// # Errors
/// The first error among the values, or as [`reserve`].
pub fn collect<T, E>(
    values: impl IntoIterator<Item = Result<T, E>>,
    lacking: impl Fn() -> E,
) -> Result<Vec<T>, E> {
    let values = values.into_iter();
    let mut vec = Vec::new();
    vec.try_reserve_exact(values.size_hint().0)
        .map_err(|_| lacking())?;
    for value in values {
        push(&mut vec, value?).map_err(|_| lacking())?;
    }
    Ok(vec)
}

/// Copies a text that ends with a NUL.
///
/// # Errors
/// As [`reserve`].
pub fn c_string(text: &CStr) -> Result<CString, TryReserveError> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(text.count_bytes() + 1)?;
    // allocates: there is room
    bytes.extend_from_slice(text.to_bytes_with_nul());
    // SAFETY: the bytes of a C string, with its NUL at the end and no other.
    Ok(unsafe { CString::from_vec_with_nul_unchecked(bytes) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_collected_is_all_that_came_or_the_first_error() {
        let lacking = || "no memory";
        assert_eq!(collect([Ok(1), Ok(2)], lacking), Ok(vec![1, 2]));
        assert_eq!(
            collect([Ok(1), Err("second"), Err("third")], lacking),
            Err("second")
        );
        let endless = std::iter::repeat_with(|| Ok::<u8, _>(0));
        assert_eq!(collect(endless, lacking), Err("no memory"));
    }

    #[test]
    fn a_copy_of_a_text_is_the_text() {
        for text in [c"", c"name", c"/a/b"] {
            assert_eq!(c_string(text).unwrap().as_c_str(), text);
        }
    }

    #[test]
    fn a_size_that_no_memory_has_is_an_error() {
        assert!(zeroed(isize::MAX as usize).is_err());
        assert!(reserve(&mut Vec::new(), isize::MAX as usize).is_err());
        let mut vec = vec![1];
        append(&mut vec, &[2, 3]).unwrap();
        assert_eq!(vec, [1, 2, 3]);
        assert_eq!(zeroed(2).unwrap(), [0, 0]);
    }
}
