//! Pointers of C as references, after all checks that can be made.
#![allow(unsafe_code, reason = "memory of C is read and written here")]

use linwright::jobs::Failure;
use std::ffi::{CStr, c_char};
use std::path::PathBuf;

/// Rejects a null or misaligned pointer, by its name in the header.
fn usable<T>(pointer: *const T, name: &str) -> Result<*const T, Failure> {
    if pointer.is_null() {
        return Err(Failure::usage(format!("{name} is null, expected a pointer")));
    }
    if !pointer.is_aligned() {
        let align = align_of::<T>();
        return Err(Failure::usage(format!("{name} is not aligned to {align} bytes")));
    }
    Ok(pointer)
}

/// The object of a handle.
///
/// # Errors
/// A null pointer.
///
/// # Safety
/// A pointer that is not null points to a live object that nothing changes during `'a`.
pub(crate) unsafe fn shared<'a, T>(pointer: *const T, name: &str) -> Result<&'a T, Failure> {
    let pointer = usable(pointer, name)?;
    // SAFETY: not null and aligned; alive and unchanged as guaranteed by the caller.
    Ok(unsafe { &*pointer })
}

/// The object of a handle, to be changed.
///
/// # Errors
/// A null pointer.
///
/// # Safety
/// A pointer that is not null points to a live object that nothing else uses during `'a`.
pub(crate) unsafe fn unique<'a, T>(pointer: *mut T, name: &str) -> Result<&'a mut T, Failure> {
    let pointer = usable(pointer, name)?.cast_mut();
    // SAFETY: not null and aligned; alive and not used elsewhere as guaranteed by the caller.
    Ok(unsafe { &mut *pointer })
}

/// A length, if an allocation can hold this many numbers.
///
/// # Errors
/// If it cannot.
pub(crate) fn fits<T>(length: usize, name: &str) -> Result<usize, Failure> {
    let bytes = length.checked_mul(size_of::<T>()).filter(|bytes| isize::try_from(*bytes).is_ok());
    match bytes {
        Some(_) => Ok(length),
        None => {
            let what = format!("{name} would have {length} numbers, more than memory can hold");
            Err(Failure::usage(what))
        }
    }
}

/// Numbers to read. For length zero, the pointer may be null.
///
/// # Errors
/// A null or misaligned pointer, or an impossible length.
///
/// # Safety
/// A pointer that is not null points to this many numbers, which nothing changes during `'a`.
pub(crate) unsafe fn read<'a, T>(
    pointer: *const T,
    length: usize,
    name: &str,
) -> Result<&'a [T], Failure> {
    if length == 0 {
        return Ok(&[]);
    }
    let (pointer, length) = (usable(pointer, name)?, fits::<T>(length, name)?);
    // SAFETY: not null, aligned and of a possible size; the caller guarantees the rest.
    Ok(unsafe { std::slice::from_raw_parts(pointer, length) })
}

/// Numbers to write. For length zero, the pointer may be null.
///
/// # Errors
/// A null or misaligned pointer, or an impossible length.
///
/// # Safety
/// A pointer that is not null points to this many numbers, which nothing else uses during `'a`.
pub(crate) unsafe fn write<'a, T>(
    pointer: *mut T,
    length: usize,
    name: &str,
) -> Result<&'a mut [T], Failure> {
    if length == 0 {
        return Ok(&mut []);
    }
    let (pointer, length) = (usable(pointer, name)?.cast_mut(), fits::<T>(length, name)?);
    // SAFETY: not null, aligned and of a possible size; the caller guarantees the rest.
    Ok(unsafe { std::slice::from_raw_parts_mut(pointer, length) })
}

/// Rejects numbers to write that share memory with numbers to read.
///
/// # Errors
/// An overlap.
pub(crate) fn apart<T>(
    read: (*const T, usize, &str),
    written: (*mut T, usize, &str),
) -> Result<(), Failure> {
    let range = |start: usize, length: usize| {
        (start, start.saturating_add(length.saturating_mul(size_of::<T>())))
    };
    let (from, to) = range(read.0.addr(), read.1);
    let (first, last) = range(written.0.addr(), written.1);
    match from < last && first < to {
        true => Err(Failure::usage(format!(
            "{} overlaps {}, expected separate memory",
            written.2, read.2
        ))),
        false => Ok(()),
    }
}

/// A path.
///
/// # Errors
/// A null pointer, or a text that is not a path.
///
/// # Safety
/// A pointer that is not null points to a zero-terminated string.
pub(crate) unsafe fn path(pointer: *const c_char, name: &str) -> Result<PathBuf, Failure> {
    let pointer = usable(pointer, name)?;
    // SAFETY: not null, and with an end as guaranteed by the caller.
    let text = unsafe { CStr::from_ptr(pointer) };
    match text.to_str() {
        Ok("") => Err(Failure::usage(format!("{name} is empty, expected a path"))),
        Ok(text) => Ok(text.into()),
        Err(_) => Err(Failure::usage(format!(
            "{name} is not UTF-8: {:?}, expected a path in UTF-8",
            text.to_string_lossy()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text<T>(result: Result<T, Failure>) -> String {
        result.err().map(|failure| failure.message().to_owned()).unwrap_or_default()
    }

    #[test]
    fn bad_pointers_are_refused() {
        let numbers = [1.0_f64, 2.0, 3.0];
        let start = numbers.as_ptr();
        let crooked = start.cast::<u8>().wrapping_add(1).cast::<f64>();
        let null = std::ptr::null::<f64>();
        // SAFETY: the pointers are null, misaligned, or point to three numbers, of which at most
        // three are read; impossible lengths are rejected before anything is read.
        let cases = unsafe {
            [
                (text(read(null, 3, "x")), "x is null"),
                (text(read(crooked, 2, "x")), "x is not aligned to 8 bytes"),
                (text(read(start, usize::MAX, "x")), "more than memory can hold"),
                (text(read(start, isize::MAX.cast_unsigned() / 8 + 1, "x")), "more than memory"),
                (text(shared(null, "op")), "op is null"),
                (text(unique(null.cast_mut(), "op")), "op is null"),
                (text(write(null.cast_mut(), 1, "y")), "y is null"),
                (text(path(std::ptr::null(), "path")), "path is null"),
                (text(path(c"".as_ptr(), "path")), "path is empty"),
                (text(path(c"\xff.ckpt".as_ptr(), "path")), "path is not UTF-8"),
            ]
        };
        for (found, expected) in cases {
            assert!(found.contains(expected), "{found:?} has no {expected:?}");
        }
        // SAFETY: none, or as many as there are.
        unsafe {
            assert_eq!(read(null, 0, "x").unwrap(), [0.0; 0]);
            assert_eq!(write(null.cast_mut(), 0, "x").unwrap(), [0.0; 0]);
            assert_eq!(read(start, 3, "x").unwrap(), numbers);
        }
    }

    #[test]
    fn shared_memory_is_found() {
        let mut numbers = [0.0_f32; 8];
        let start = numbers.as_mut_ptr();
        let at = |offset: usize| start.wrapping_add(offset);
        let apart = |a, n, b, m| apart((at(a).cast_const(), n, "x"), (at(b), m, "y")).is_ok();
        assert!(apart(0, 4, 4, 4) && apart(4, 4, 0, 4) && apart(0, 0, 0, 8));
        assert!(!apart(0, 4, 3, 4) && !apart(3, 1, 0, 8) && !apart(0, 8, 0, 8));
        assert!(!apart(0, usize::MAX, 7, 1));
    }
}
