//! Elementwise nonlinearities of matrices of any scalar.

pub use super::nonlinearity::Activation;

use super::feed_forward;
use crate::parallel::{self, rows_of_piece};
use crate::{MatMut, MatRef, Scalar};
use std::any::TypeId;

/// Writes `f(x)` into `y` in any scalar, both of one shape: `f32` by
/// [`activate`](super::feed_forward::activate), others one number at a time.
///
/// # Panics
/// If the shapes differ.
#[track_caller]
pub fn activate_any<T: Scalar>(f: Activation<T>, x: MatRef<'_, T>, y: MatMut<'_, T>) {
    if is_f32::<T>() {
        return feed_forward::activate(f.cast(), x.of_scalar(), y.of_scalar());
    }
    assert_eq!((x.rows(), x.cols()), (y.rows(), y.cols()), "numbers and their activations");
    let block = rows_of_piece(y.cols());
    parallel::for_each(y.row_blocks(block), |k, mut y| {
        for i in 0..y.rows() {
            let numbers = y.row_mut(i).iter_mut().zip(x.row(k * block + i));
            numbers.for_each(|(y, x)| *y = f.value(*x));
        }
    });
}

/// Backward pass of [`activate_any`]: `x` is overwritten by its gradient, from that of the output.
///
/// # Panics
/// If the shapes differ.
#[track_caller]
pub fn activate_any_backward<T: Scalar>(f: Activation<T>, x: MatMut<'_, T>, dy: MatRef<'_, T>) {
    if is_f32::<T>() {
        return feed_forward::activate_backward(f.cast(), x.of_scalar(), dy.of_scalar());
    }
    assert_eq!((x.rows(), x.cols()), (dy.rows(), dy.cols()), "numbers and their gradients");
    let block = rows_of_piece(x.cols());
    parallel::for_each(x.row_blocks(block), |k, mut x| {
        for i in 0..x.rows() {
            let numbers = x.row_mut(i).iter_mut().zip(dy.row(k * block + i));
            numbers.for_each(|(x, dy)| *x = *dy * f.slope(*x));
        }
    });
}

fn is_f32<T: Scalar>() -> bool {
    TypeId::of::<T>() == TypeId::of::<f32>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mat;

    #[test]
    fn any_scalar_gives_the_numbers_of_f32() {
        let numbers = crate::RngKey::new(6).stream().normals::<f64>(900 * 70, 2.0);
        let x = Mat::from_vec(900, 70, numbers);
        for f in [Activation::Tanh, Activation::Gelu, Activation::Leaky { slope: 0.25 }] {
            let (mut y, mut dx) = (Mat::zeros(900, 70), x.clone());
            activate_any(f, x.view(), y.view_mut());
            activate_any_backward(f, dx.view_mut(), x.view());
            let (mut y32, mut dx32) = (Mat::<f32>::zeros(900, 70), x.cast::<f32>());
            activate_any(f.cast(), x.cast().view(), y32.view_mut());
            activate_any_backward(f.cast(), dx32.view_mut(), x.cast().view());
            for (wide, narrow) in [(&y, &y32), (&dx, &dx32)] {
                let close =
                    |(a, b): (&f64, &f32)| (a - f64::from(*b)).abs() < 2e-6 * a.abs().max(1.0);
                assert!(wide.data().iter().zip(narrow.data()).all(close), "{f:?}");
            }
        }
    }
}
