//! Permutations of the features of every row.

use crate::{MatMut, MatRef, Scalar, parallel};

/// `y[:, k] = x[:, order[k]]`.
///
/// # Panics
/// If the shapes differ, or an index is out of range.
#[track_caller]
pub fn gather<T: Scalar>(x: MatRef<'_, T>, order: &[u32], y: MatMut<'_, T>) {
    assert_eq!((x.rows(), order.len()), (y.rows(), y.cols()), "rows and order of a permutation");
    let block = parallel::ROW_BLOCK;
    parallel::for_each(y.row_blocks(block), |k, mut y| {
        for i in 0..y.rows() {
            let x = x.row(k * block + i);
            y.row_mut(i).iter_mut().zip(order).for_each(|(y, &from)| *y = x[from as usize]);
        }
    });
}

/// `y[:, order[k]] = x[:, k]`: the inverse and the gradient of [`gather`].
///
/// # Panics
/// If the shapes differ, or an index is out of range.
#[track_caller]
pub fn scatter<T: Scalar>(x: MatRef<'_, T>, order: &[u32], y: MatMut<'_, T>) {
    assert_eq!((y.rows(), order.len()), (x.rows(), x.cols()), "rows and order of a permutation");
    let block = parallel::ROW_BLOCK;
    parallel::for_each(y.row_blocks(block), |k, mut y| {
        for i in 0..y.rows() {
            let y = y.row_mut(i);
            x.row(k * block + i).iter().zip(order).for_each(|(&x, &to)| y[to as usize] = x);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mat, RngKey};

    #[test]
    fn scatter_undoes_gather() {
        let x: Mat<f64> = Mat::from_fn(70, 9, |i, j| (10 * i + j) as f64);
        let order = RngKey::new(1).stream().permutation(9);
        let (mut y, mut back) = (Mat::zeros(70, 9), Mat::zeros(70, 9));
        gather(x.view(), &order, y.view_mut());
        assert_eq!(y.at(69, 2), x.at(69, order[2] as usize));
        scatter(y.view(), &order, back.view_mut());
        assert_eq!(back, x);
    }
}
