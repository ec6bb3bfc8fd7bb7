//! Operators: rows in, rows out.
#![allow(unsafe_code, reason = "handles and arrays of C; symbols of C have their own names")]

use crate::failure::{guarded, number};
use crate::pointers::{self, apart, fits, read, shared, unique, write};
use linwright::jobs::{Failure, message_of};
use linwright::operators::{OperatorFileError, is_double, load};
use linwright::ops::{Backward, Op, Shape, Tape, Workspace};
use linwright::tensor::{Mat, MatMut, MatRef, Scalar};
use std::ffi::c_char;

/// An operator in one of two precisions.
pub enum LinwrightOperator {
    /// In single precision.
    F32(Op<f32>),
    /// In double precision.
    F64(Op<f64>),
}

/// A number of either precision.
trait Number: Scalar {
    const WIDTH: u32;
    fn of(held: &LinwrightOperator) -> Option<&Op<Self>>;
}

impl Number for f32 {
    const WIDTH: u32 = 32;
    fn of(held: &LinwrightOperator) -> Option<&Op<Self>> {
        if let LinwrightOperator::F32(op) = held { Some(op) } else { None }
    }
}

impl Number for f64 {
    const WIDTH: u32 = 64;
    fn of(held: &LinwrightOperator) -> Option<&Op<Self>> {
        if let LinwrightOperator::F64(op) = held { Some(op) } else { None }
    }
}

impl LinwrightOperator {
    fn shape(&self) -> Shape {
        match self {
            Self::F32(op) => op.map().shape(),
            Self::F64(op) => op.map().shape(),
        }
    }

    fn bits(&self) -> u32 {
        match self {
            Self::F32(_) => f32::WIDTH,
            Self::F64(_) => f64::WIDTH,
        }
    }

    fn of<T: Number>(&self) -> Result<&Op<T>, Failure> {
        T::of(self).ok_or_else(|| {
            let (own, asked) = (self.bits(), T::WIDTH);
            Failure::usage(format!("the operator has {own} bits, the function is for {asked}"))
                .hint(format!("open it with bits = {asked}"))
        })
    }
}

fn of_file(error: OperatorFileError) -> Failure {
    if let OperatorFileError::Output(error) = error {
        return error.into();
    }
    Failure::general(message_of(&error))
}

fn length<T>(rows: usize, features: usize, name: &str) -> Result<usize, Failure> {
    fits::<T>(rows.saturating_mul(features), name)
}

/// Opens an operator.
///
/// # Safety
/// As in the header: `path` is null or a string, `op` null or points to a handle variable.
// SAFETY: no other symbol begins with `linwright_`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linwright_operator_open(
    path: *const c_char,
    bits: u32,
    op: *mut *mut LinwrightOperator,
) -> i32 {
    guarded(|| {
        // SAFETY: the pointer was checked.
        let place = unsafe { unique(op, "op") }?;
        *place = std::ptr::null_mut();
        // SAFETY: the pointer was checked.
        let path = unsafe { pointers::path(path, "path") }?;
        let double = match bits {
            0 => is_double(&path).map_err(of_file)?,
            32 => false,
            64 => true,
            _ => return Err(Failure::usage(format!("bits is {bits}, expected 0, 32 or 64"))),
        };
        let held = match double {
            false => LinwrightOperator::F32(load(&path).map_err(of_file)?),
            true => LinwrightOperator::F64(load(&path).map_err(of_file)?),
        };
        *place = Box::into_raw(Box::new(held));
        Ok(())
    })
}

/// Frees an operator.
///
/// # Safety
/// As in the header: `op` is null, or an opened handle that is not used again.
// SAFETY: no other symbol begins with `linwright_`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linwright_operator_free(op: *mut LinwrightOperator) {
    guarded(|| {
        if !op.is_null() {
            // SAFETY: it was made by `Box::into_raw` and is freed once, as guaranteed by the
            // caller.
            drop(unsafe { Box::from_raw(op) });
        }
        Ok(())
    });
}

/// Number of features in.
///
/// # Safety
/// As in the header: `op` is null or a handle.
// SAFETY: no other symbol begins with `linwright_`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linwright_operator_inputs(op: *const LinwrightOperator) -> usize {
    // SAFETY: the handle was checked.
    number(0, || Ok(unsafe { shared(op, "op") }?.shape().inp))
}

/// Number of features out.
///
/// # Safety
/// As in the header: `op` is null or a handle.
// SAFETY: no other symbol begins with `linwright_`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linwright_operator_outputs(op: *const LinwrightOperator) -> usize {
    // SAFETY: the handle was checked.
    number(0, || Ok(unsafe { shared(op, "op") }?.shape().out))
}

/// Bits of a number.
///
/// # Safety
/// As in the header: `op` is null or a handle.
// SAFETY: no other symbol begins with `linwright_`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linwright_operator_bits(op: *const LinwrightOperator) -> u32 {
    // SAFETY: the handle was checked.
    number(0, || Ok(unsafe { shared(op, "op") }?.bits()))
}

/// Maps rows.
///
/// # Safety
/// As for the functions of C below.
unsafe fn forward<T: Number>(
    op: *const LinwrightOperator,
    rows: usize,
    x: *const T,
    y: *mut T,
) -> i32 {
    guarded(|| {
        // SAFETY: the handle was checked.
        let op = unsafe { shared(op, "op") }?.of::<T>()?;
        let Shape { out, inp } = op.map().shape();
        let (given, wanted) = (length::<T>(rows, inp, "x")?, length::<T>(rows, out, "y")?);
        apart((x, given, "x"), (y, wanted, "y"))?;
        // SAFETY: the lengths were checked; y does not overlap x.
        let (x, y) = unsafe { (read(x, given, "x")?, write(y, wanted, "y")?) };
        let y = MatMut::new(y, rows, out);
        op.map().forward(MatRef::new(x, rows, inp), y, None, &mut Workspace::default());
        Ok(())
    })
}

/// Gradient of the input.
///
/// # Safety
/// As for the functions of C below.
unsafe fn backward<T: Number>(
    op: *const LinwrightOperator,
    rows: usize,
    x: *const T,
    dy: *const T,
    dx: *mut T,
) -> i32 {
    guarded(|| {
        // SAFETY: the handle was checked.
        let op = unsafe { shared(op, "op") }?.of::<T>()?;
        let Shape { out, inp } = op.map().shape();
        let (given, wanted) = (length::<T>(rows, inp, "x")?, length::<T>(rows, out, "dy")?);
        apart((x, given, "x"), (dx, given, "dx"))?;
        apart((dy, wanted, "dy"), (dx, given, "dx"))?;
        // SAFETY: the length was checked.
        let (x, dy) = unsafe { (read(x, given, "x")?, read(dy, wanted, "dy")?) };
        // SAFETY: the length was checked; it does not overlap x and dy.
        let dx = unsafe { write(dx, given, "dx") }?;
        let (x, dy) = (MatRef::new(x, rows, inp), MatRef::new(dy, rows, out));
        let (mut tape, mut ws) = (Tape::default(), Workspace::default());
        op.map().forward(x, Mat::zeros(rows, out).view_mut(), Some(&mut tape), &mut ws);
        let dx = Some(MatMut::new(dx, rows, inp));
        op.map().backward(Backward { x, dy, tape: &tape, dx, grads: None }, &mut ws);
        Ok(())
    })
}

/// Maps rows in single precision.
///
/// # Safety
/// As in the header: `op` is null or a handle, `x` null or points to `rows` x inputs numbers, `y`
/// null or to `rows` x outputs.
// SAFETY: no other symbol begins with `linwright_`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linwright_operator_forward_f32(
    op: *const LinwrightOperator,
    rows: usize,
    x: *const f32,
    y: *mut f32,
) -> i32 {
    // SAFETY: the contract of this function.
    unsafe { forward(op, rows, x, y) }
}

/// Maps rows in double precision.
///
/// # Safety
/// As [`linwright_operator_forward_f32`].
// SAFETY: no other symbol begins with `linwright_`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linwright_operator_forward_f64(
    op: *const LinwrightOperator,
    rows: usize,
    x: *const f64,
    y: *mut f64,
) -> i32 {
    // SAFETY: the contract of this function.
    unsafe { forward(op, rows, x, y) }
}

/// Gradient of the input in single precision.
///
/// # Safety
/// As in the header: `op` is null or a handle, `x` and `dx` null or point to `rows` x inputs
/// numbers, `dy` null or to `rows` x outputs.
// SAFETY: no other symbol begins with `linwright_`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linwright_operator_backward_f32(
    op: *const LinwrightOperator,
    rows: usize,
    x: *const f32,
    dy: *const f32,
    dx: *mut f32,
) -> i32 {
    // SAFETY: the contract of this function.
    unsafe { backward(op, rows, x, dy, dx) }
}

/// Gradient of the input in double precision.
///
/// # Safety
/// As [`linwright_operator_backward_f32`].
// SAFETY: no other symbol begins with `linwright_`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linwright_operator_backward_f64(
    op: *const LinwrightOperator,
    rows: usize,
    x: *const f64,
    dy: *const f64,
    dx: *mut f64,
) -> i32 {
    // SAFETY: the contract of this function.
    unsafe { backward(op, rows, x, dy, dx) }
}
