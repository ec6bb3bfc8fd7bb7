//! Attention with softmax between the rows of an example, in any scalar: one pair at a time.

use crate::{Mat, MatMut, MatRef, Scalar, parallel};

/// Mask and number of heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionShape {
    /// Rows of an example.
    pub places: usize,
    /// Heads, which divide the columns.
    pub heads: usize,
    /// Whether a row attends only to itself and earlier rows.
    pub causal: bool,
}

/// Queries, keys and values (rows, features).
#[derive(Clone, Copy, Debug)]
pub struct Projections<'a, T> {
    /// Queries.
    pub query: MatRef<'a, T>,
    /// Keys.
    pub key: MatRef<'a, T>,
    /// Values.
    pub value: MatRef<'a, T>,
}

impl AttentionShape {
    fn seen(&self, row: usize) -> std::ops::Range<usize> {
        let start = row / self.places * self.places;
        start..if self.causal { row + 1 } else { start + self.places }
    }
}

fn dot<T: Scalar>(a: &[T], b: &[T]) -> T {
    a.iter().zip(b).map(|(a, b)| *a * *b).sum()
}

/// The output (rows, features), and the weights (rows, heads * places) for the gradient.
#[must_use]
pub fn attend<T: Scalar>(shape: AttentionShape, of: Projections<'_, T>) -> (Mat<T>, Mat<T>) {
    let (rows, width) = (of.query.rows(), of.query.cols() / shape.heads);
    let scale = T::from_f64(1.0 / (width as f64).sqrt());
    let mut y = Mat::zeros(rows, of.query.cols());
    let mut weights = Mat::zeros(rows, shape.heads * shape.places);
    let examples = y.view_mut().row_blocks(shape.places).into_iter();
    let examples = examples.zip(weights.view_mut().row_blocks(shape.places)).collect();
    parallel::for_each(
        examples,
        |example, (mut y, mut weights): (MatMut<'_, T>, MatMut<'_, T>)| {
            for own in 0..y.rows() {
                let row = example * shape.places + own;
                for head in 0..shape.heads {
                    let part = head * width..(head + 1) * width;
                    let seen = shape.seen(row);
                    let weights = &mut weights.row_mut(own)[head * shape.places..][..seen.len()];
                    let query = &of.query.row(row)[part.clone()];
                    for (weight, j) in weights.iter_mut().zip(seen.clone()) {
                        *weight = scale * dot(query, &of.key.row(j)[part.clone()]);
                    }
                    softmax(weights);
                    let y = &mut y.row_mut(own)[part.clone()];
                    for (weight, j) in weights.iter().zip(seen) {
                        let value = &of.value.row(j)[part.clone()];
                        y.iter_mut().zip(value).for_each(|(y, value)| *y += *weight * *value);
                    }
                }
            }
        },
    );
    (y, weights)
}

fn softmax<T: Scalar>(scores: &mut [T]) {
    let largest = scores.iter().copied().fold(scores[0], |a, b| if b > a { b } else { a });
    scores.iter_mut().for_each(|score| *score = (*score - largest).exp());
    let sum: T = scores.iter().copied().sum();
    scores.iter_mut().for_each(|score| *score = *score / sum);
}

/// Gradients of queries, keys and values, from that of the output and the weights of [`attend`].
#[must_use]
pub fn attend_backward<T: Scalar>(
    shape: AttentionShape,
    of: Projections<'_, T>,
    weights: MatRef<'_, T>,
    dy: MatRef<'_, T>,
) -> [Mat<T>; 3] {
    let (rows, cols) = (dy.rows(), dy.cols());
    let width = cols / shape.heads;
    let scale = T::from_f64(1.0 / (width as f64).sqrt());
    let mut all = [(); 3].map(|()| Mat::zeros(rows, cols));
    let [dq, dk, dv] = all.each_mut().map(|mat| mat.view_mut().row_blocks(shape.places));
    let examples = dq.into_iter().zip(dk).zip(dv).map(|((dq, dk), dv)| [dq, dk, dv]).collect();
    parallel::for_each(examples, |example, [mut dq, mut dk, mut dv]: [MatMut<'_, T>; 3]| {
        for own in 0..dq.rows() {
            let row = example * shape.places + own;
            for head in 0..shape.heads {
                let part = head * width..(head + 1) * width;
                let seen = shape.seen(row);
                let weights = &weights.row(row)[head * shape.places..][..seen.len()];
                let dy = &dy.row(row)[part.clone()];
                let slopes: Vec<T> =
                    seen.clone().map(|j| dot(dy, &of.value.row(j)[part.clone()])).collect();
                let mean = dot(weights, &slopes);
                for (((weight, slope), j), other) in weights.iter().zip(&slopes).zip(seen).zip(0..)
                {
                    let factor = scale * *weight * (*slope - mean);
                    for (at, c) in part.clone().enumerate() {
                        dv.row_mut(other)[c] += *weight * dy[at];
                        dk.row_mut(other)[c] += factor * of.query.at(row, c);
                        dq.row_mut(own)[c] += factor * of.key.at(j, c);
                    }
                }
            }
        }
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RngKey;

    #[test]
    fn equal_keys_give_the_mean_of_the_values_seen() {
        let shape = AttentionShape { places: 3, heads: 2, causal: true };
        let value: Mat<f64> = Mat::from_vec(6, 4, RngKey::new(1).stream().normals(24, 1.0));
        let key = Mat::zeros(6, 4);
        let of = Projections { query: value.view(), key: key.view(), value: value.view() };
        let (y, _) = attend(shape, of);
        for row in 0..6 {
            let seen = row / 3 * 3..row + 1;
            for c in 0..4 {
                let mean = seen.clone().map(|j| value.at(j, c)).sum::<f64>() / seen.len() as f64;
                assert!((y.at(row, c) - mean).abs() < 1e-12);
            }
        }
    }
}
