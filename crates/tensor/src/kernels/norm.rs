//! RMS norm and layer norm of rows, or of groups of features within rows.
//!
//! With m the mean and r one over the deviation of a group of n features, and weight w, bias b:
//!
//! ```text
//! y_i = (w_i + offset) x̂_i + b_i        x̂_i = (x_i - m) r
//! Rms:    m = 0            r = 1 / sqrt(Σ x² / n + epsilon)
//! Layer:  m = Σ x / n      r = 1 / sqrt(Σ (x - m)² / n + epsilon)
//! ```
//!
//! Sources: Zhang and Sennrich 2019, arXiv:1910.07467, eq. 4; Ba et al. 2016, arXiv:1607.06450,
//! eq. 4, with epsilon inside the root as in the models' own code.
//!
//! The mean is subtracted before squares are summed, and its own rounding error, measured as the
//! sum of the differences, is corrected in both (Chan et al. 1983, The American Statistician 37,
//! eq. 1.7): rows far from zero keep their digits.

use super::instructions::vectorised;
use super::lanes::{self, multiply_add};
use crate::parallel::{self, ROW_BLOCK, rows_of_piece};
use crate::{MatMut, MatRef, Scratch};

/// Kind of norm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormKind {
    /// RMS norm: division by the root mean square.
    Rms,
    /// Layer norm: subtraction of the mean, and division by the standard deviation.
    Layer,
}

/// A norm with its parameters.
#[derive(Clone, Copy, Debug)]
pub struct Norm<'a> {
    /// Kind of norm.
    pub kind: NormKind,
    /// Epsilon, added to the mean square or the variance.
    pub epsilon: f64,
    /// Weight: one factor per feature of a group, shared by all groups, or one per feature of the
    /// row. Without a weight (OLMo) the factors are one, whatever the offset.
    pub weight: Option<&'a [f32]>,
    /// Bias; of the same length as a weight.
    pub bias: Option<&'a [f32]>,
    /// Offset added to the weight: one in Gemma's checkpoints, zero in others.
    pub offset: f32,
    /// Features that are normalised together: the row, or one head.
    pub group: usize,
}

impl Norm<'_> {
    /// Factors of the features, with offset.
    fn gain(&self) -> Scratch<f32> {
        let mut gain = Scratch::new(self.weight.map_or(self.group, <[f32]>::len));
        match self.weight {
            Some(weight) => {
                gain.iter_mut().zip(weight).for_each(|(gain, w)| *gain = w + self.offset);
            }
            None => gain.fill(1.0),
        }
        gain
    }

    #[track_caller]
    fn check(&self, cols: usize) {
        let group = self.group;
        assert!(group > 0 && cols.is_multiple_of(group), "{cols} features in groups of {group}");
        for (what, numbers) in [("weight", self.weight), ("bias", self.bias)] {
            let len = numbers.map_or(group, <[f32]>::len);
            let fits = len == group || len == cols;
            assert!(fits, "{what} of {len} for {cols} features in groups of {group}");
        }
    }
}

/// Normalises the rows of `x` (rows, features) to `y`.
///
/// # Panics
/// If shapes or lengths do not match.
#[track_caller]
pub fn norm(x: MatRef<'_, f32>, norm: &Norm<'_>, y: MatMut<'_, f32>) {
    assert_eq!((x.rows(), x.cols()), (y.rows(), y.cols()), "norm between shapes");
    norm.check(x.cols());
    let gain = norm.gain();
    let (gain, block) = (&*gain, rows_of_piece(x.cols()));
    parallel::for_each(y.row_blocks(block), |k, mut y| {
        for i in 0..y.rows() {
            normalise_row(x.row(k * block + i), norm, gain, y.row_mut(i));
        }
    });
}

/// Backward pass, from `dy` (rows, features): adds the gradient of `x` to `dx`, and those of weight
/// and bias to `d_weight` and `d_bias`, which have their lengths.
///
/// With g = (w + offset) dy: `dx = r (g - mean(g) - x̂ mean(g x̂))`, without the middle term for
/// [`NormKind::Rms`]; `dw = Σ dy x̂` and `db = Σ dy` over rows, and over groups that share them.
///
/// # Panics
/// If shapes or lengths do not match, or the gradient of an absent parameter is requested.
#[track_caller]
pub fn norm_backward(
    x: MatRef<'_, f32>,
    norm: &Norm<'_>,
    dy: MatRef<'_, f32>,
    dx: MatMut<'_, f32>,
    d_weight: Option<&mut [f32]>,
    d_bias: Option<&mut [f32]>,
) {
    assert_eq!((x.rows(), x.cols()), (dx.rows(), dx.cols()), "gradient of the norm");
    assert_eq!((x.rows(), x.cols()), (dy.rows(), dy.cols()), "gradient of the norm");
    norm.check(x.cols());
    let weights = part_len("weight", norm.weight, d_weight.as_deref());
    let biases = part_len("bias", norm.bias, d_bias.as_deref());
    let gain = norm.gain();
    // Every block of rows has its own gradient sums of the parameters.
    let (width, blocks) = (weights + biases, x.rows().div_ceil(ROW_BLOCK));
    let mut parts = Scratch::zeros(width * blocks);
    let (gain, mut left) = (&*gain, &mut parts[..]);
    let mut pieces = Vec::with_capacity(blocks);
    for dx in dx.row_blocks(ROW_BLOCK) {
        let (part, others) = left.split_at_mut(width);
        pieces.push((dx, part.split_at_mut(weights)));
        left = others;
    }
    parallel::for_each(pieces, |k, (mut dx, (weights, biases))| {
        for i in 0..dx.rows() {
            let row = k * ROW_BLOCK + i;
            let (x, dy) = (x.row(row), dy.row(row));
            let grads = Grads { dx: dx.row_mut(i), d_weight: weights, d_bias: biases };
            normalise_row_backward(x, norm, gain, dy, grads);
        }
    });
    for (sum, start) in [(d_weight, 0), (d_bias, weights)] {
        if let Some(sum) = sum {
            add_parts(sum, &parts, start, width);
        }
    }
}

/// Length of a parameter's gradient; none if it is not requested.
#[track_caller]
fn part_len(what: &str, parameter: Option<&[f32]>, gradient: Option<&[f32]>) -> usize {
    let Some(gradient) = gradient else {
        return 0;
    };
    let parameter = parameter.map(<[f32]>::len);
    assert_eq!(parameter, Some(gradient.len()), "{what} of the norm and its gradient");
    gradient.len()
}

/// Adds the partial gradients from `start` on, of parts of `width` numbers, in order.
fn add_parts(sum: &mut [f32], parts: &[f32], start: usize, width: usize) {
    /// Columns that are summed together.
    const COLUMNS: usize = 256;
    parallel::for_each_chunk(sum, COLUMNS, |chunk, sum| {
        let start = start + chunk * COLUMNS;
        let mut totals = [0.0f64; COLUMNS];
        for part in parts.chunks_exact(width) {
            let numbers = &part[start..][..sum.len()];
            totals.iter_mut().zip(numbers).for_each(|(total, &n)| *total += f64::from(n));
        }
        sum.iter_mut().zip(totals).for_each(|(sum, total)| *sum += total as f32);
    });
}

/// Gradients that a row adds to: of itself, and of the parameters, empty where they are absent.
struct Grads<'a> {
    dx: &'a mut [f32],
    d_weight: &'a mut [f32],
    d_bias: &'a mut [f32],
}

/// Normalisation of a group: `x̂ = (x - mean) scale - shift`.
#[derive(Clone, Copy)]
struct Moments {
    mean: f32,
    scale: f32,
    /// The scaled error of the mean.
    shift: f32,
}

impl Moments {
    #[inline(always)]
    fn of<const FUSED: bool>(x: &[f32], norm: &Norm<'_>) -> Self {
        let (count, epsilon) = (x.len() as f32, norm.epsilon as f32);
        match norm.kind {
            NormKind::Rms => {
                let scale = 1.0 / (lanes::dot::<FUSED>(x, x) / count + epsilon).sqrt();
                Self { mean: 0.0, scale, shift: 0.0 }
            }
            NormKind::Layer => {
                let mean = lanes::sum(x) / count;
                let (sum, squares) = lanes::moments_about::<FUSED>(x, mean);
                let error = sum / count;
                let variance = squares / count - error * error;
                let scale = 1.0 / (variance + epsilon).sqrt();
                Self { mean, scale, shift: error * scale }
            }
        }
    }

    #[inline(always)]
    fn normalised<const FUSED: bool>(self, x: f32) -> f32 {
        multiply_add::<FUSED>(x - self.mean, self.scale, -self.shift)
    }
}

/// The part of a parameter that belongs to the group at `start`, shared or its own.
#[inline(always)]
fn of_group(numbers: &[f32], start: usize, group: usize) -> &[f32] {
    let start = if numbers.len() == group { 0 } else { start };
    &numbers[start..][..group]
}

/// As [`of_group`]; none if the parameter is absent.
#[inline(always)]
fn of_group_mut(numbers: &mut [f32], start: usize, group: usize) -> &mut [f32] {
    let start = if numbers.len() <= group { 0 } else { start };
    let end = (start + group).min(numbers.len());
    &mut numbers[start..end]
}

vectorised! {
    fn normalise_row<const FUSED: bool>(x: &[f32], norm: &Norm<'_>, gain: &[f32], y: &mut [f32]) {
        let group = norm.group;
        let groups = x.chunks_exact(group).zip(y.chunks_exact_mut(group));
        for (k, (x, y)) in groups.enumerate() {
            let moments = Moments::of::<FUSED>(x, norm);
            let gain = of_group(gain, k * group, group);
            match norm.bias {
                None => lanes::each([y], [x, gain], |_, [x, gain]| {
                    [moments.normalised::<FUSED>(x) * gain]
                }),
                Some(bias) => {
                    let bias = of_group(bias, k * group, group);
                    lanes::each([y], [x, gain, bias], |_, [x, gain, bias]| {
                        [multiply_add::<FUSED>(moments.normalised::<FUSED>(x), gain, bias)]
                    });
                }
            }
        }
    }
}

vectorised! {
    fn normalise_row_backward<const FUSED: bool>(
        x: &[f32],
        norm: &Norm<'_>,
        gain: &[f32],
        dy: &[f32],
        grads: Grads<'_>,
    ) {
        let Grads { dx, d_weight, d_bias } = grads;
        let group = norm.group;
        let groups = x.chunks_exact(group).zip(dy.chunks_exact(group));
        for (k, ((x, dy), dx)) in groups.zip(dx.chunks_exact_mut(group)).enumerate() {
            let moments = Moments::of::<FUSED>(x, norm);
            let gain = of_group(gain, k * group, group);
            let along = lanes::sum_of([x, gain, dy], |[x, gain, dy]| {
                moments.normalised::<FUSED>(x) * gain * dy
            });
            let total = match norm.kind {
                NormKind::Rms => 0.0,
                NormKind::Layer => lanes::dot::<FUSED>(gain, dy),
            };
            let scale = moments.scale;
            let pull = -scale * along / group as f32;
            let push = -scale * total / group as f32;
            lanes::each([dx], [x, gain, dy], |[dx], [x, gain, dy]| {
                let direct = multiply_add::<FUSED>(scale * gain, dy, push);
                [dx + multiply_add::<FUSED>(moments.normalised::<FUSED>(x), pull, direct)]
            });
            let d_weight = of_group_mut(d_weight, k * group, group);
            lanes::each([d_weight], [x, dy], |[d], [x, dy]| {
                [multiply_add::<FUSED>(moments.normalised::<FUSED>(x), dy, d)]
            });
            let d_bias = of_group_mut(d_bias, k * group, group);
            lanes::each([d_bias], [dy], |[d], [dy]| [d + dy]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mat, RngKey};

    const EPSILON: f64 = 1e-2;
    /// Rows, features, features of a group.
    const SHAPE: (usize, usize, usize) = (130, 150, 75);

    /// Parameters of a norm in f64.
    #[derive(Clone, Debug)]
    struct Wide {
        kind: NormKind,
        weight: Option<Vec<f64>>,
        bias: Option<Vec<f64>>,
        offset: f64,
        group: usize,
    }

    fn naive(x: &Mat<f64>, norm: &Wide) -> Mat<f64> {
        let mut y = Mat::zeros(x.rows(), x.cols());
        for (i, start) in (0..x.rows()).flat_map(|i| (0..x.cols()).map(move |j| (i, j))) {
            if !start.is_multiple_of(norm.group) {
                continue;
            }
            let group = &x.row(i)[start..start + norm.group];
            let mean_of = |f: &dyn Fn(f64) -> f64| {
                group.iter().map(|&v| f(v)).sum::<f64>() / norm.group as f64
            };
            let mean = if norm.kind == NormKind::Layer { mean_of(&|v| v) } else { 0.0 };
            let variance = mean_of(&|v| (v - mean).powi(2));
            for (k, v) in group.iter().enumerate() {
                let of = |numbers: &Option<Vec<f64>>| {
                    let place = |v: &Vec<f64>| if v.len() == norm.group { k } else { start + k };
                    numbers.as_ref().map(|v| v[place(v)])
                };
                let gain = of(&norm.weight).map_or(1.0, |w| w + norm.offset);
                let hat = (v - mean) / (variance + EPSILON).sqrt();
                *y.at_mut(i, start + k) = gain * hat + of(&norm.bias).unwrap_or(0.0);
            }
        }
        y
    }

    fn random(seed: u64, len: usize, scale: f64) -> Vec<f32> {
        RngKey::new(seed).stream().normals(len, scale)
    }

    fn input(seed: u64, scale: f64) -> Mat<f32> {
        Mat::from_vec(SHAPE.0, SHAPE.1, random(seed, SHAPE.0 * SHAPE.1, scale))
    }

    fn wide(numbers: &[f32]) -> Vec<f64> {
        numbers.iter().map(|&v| f64::from(v)).collect()
    }

    /// Every kind with every way to have parameters.
    fn each(mut check: impl FnMut(Norm<'_>, Wide)) {
        let (_, cols, group) = SHAPE;
        for kind in [NormKind::Rms, NormKind::Layer] {
            for (weights, biases, group) in [
                (None, None, cols),
                (Some(cols), None, cols),
                (Some(cols), Some(cols), cols),
                (Some(group), None, group),
                (Some(cols), Some(group), group),
                (None, Some(cols), group),
            ] {
                let weight = weights.map(|len| random(4, len, 1.0));
                let bias = biases.map(|len| random(5, len, 1.0));
                let twin = Wide {
                    kind,
                    weight: weight.as_deref().map(wide),
                    bias: bias.as_deref().map(wide),
                    offset: 1.0,
                    group,
                };
                let (weight, bias) = (weight.as_deref(), bias.as_deref());
                check(Norm { kind, epsilon: EPSILON, weight, bias, offset: 1.0, group }, twin);
            }
        }
    }

    #[test]
    fn equals_its_naive_twin_and_leaves_alone_what_is_beside() {
        let (rows, cols, _) = SHAPE;
        let x = input(3, 0.3);
        each(|params, twin| {
            let mut y = Mat::from_fn(rows, cols + 2, |_, _| 7.0);
            norm(x.view(), &params, y.view_mut().columns(1, cols));
            let want = naive(&x.cast(), &twin);
            for i in 0..rows {
                assert_eq!((y.at(i, 0), y.at(i, cols + 1)), (7.0, 7.0), "beside row {i}");
                for j in 0..cols {
                    let (y, want) = (f64::from(y.at(i, j + 1)), want.at(i, j));
                    assert!((y - want).abs() < 3e-6, "{twin:?}: {y} is not {want}");
                }
            }
        });
    }

    #[test]
    fn rows_far_from_zero_keep_their_digits() {
        let x = Mat::from_fn(1, 4096, |_, j| 10_000.0 + ((j * 37) % 101) as f32 * 0.01);
        let params = Norm {
            kind: NormKind::Layer,
            epsilon: EPSILON,
            weight: None,
            bias: None,
            offset: 0.0,
            group: 4096,
        };
        let mut y = Mat::zeros(1, 4096);
        norm(x.view(), &params, y.view_mut());
        let twin =
            Wide { kind: NormKind::Layer, weight: None, bias: None, offset: 0.0, group: 4096 };
        for (y, want) in y.data().iter().zip(naive(&x.cast(), &twin).data()) {
            assert!((f64::from(*y) - want).abs() < 1e-5, "{y} is not {want}");
        }
    }

    #[test]
    fn gradients_equal_central_differences() {
        let (x, dy) = (input(3, 0.3), input(6, 1.0));
        let loss = |x: &Mat<f64>, twin: &Wide| -> f64 {
            let y = naive(x, twin);
            y.data().iter().zip(dy.data()).map(|(y, d)| y * f64::from(*d)).sum()
        };
        let slope = |moved: &dyn Fn(f64) -> f64| (moved(1e-5) - moved(-1e-5)) / 2e-5;
        each(|params, twin| {
            let mut dx = Mat::from_fn(SHAPE.0, SHAPE.1, |_, _| 1.0f32);
            let mut d_weight = params.weight.map(|weight| vec![2.0f32; weight.len()]);
            let mut d_bias = params.bias.map(|bias| vec![3.0f32; bias.len()]);
            norm_backward(
                x.view(),
                &params,
                dy.view(),
                dx.view_mut(),
                d_weight.as_deref_mut(),
                d_bias.as_deref_mut(),
            );
            for at in [0, 5, 20, 700, 9_000, SHAPE.0 * SHAPE.1 - 1] {
                let want = 1.0
                    + slope(&|by| {
                        let mut x = x.cast::<f64>();
                        x.data_mut()[at] += by;
                        loss(&x, &twin)
                    });
                let found = f64::from(dx.data()[at]);
                assert!((found - want).abs() < 1e-4, "{twin:?} dx {at}: {found} is not {want}");
            }
            for (found, before, pick) in [
                (&d_weight, 2.0, (|t| &mut t.weight) as fn(&mut Wide) -> &mut Option<Vec<f64>>),
                (&d_bias, 3.0, |t| &mut t.bias),
            ] {
                for (at, &found) in found.iter().flatten().enumerate().step_by(17) {
                    let want = before
                        + slope(&|by| {
                            let mut twin = twin.clone();
                            pick(&mut twin).as_mut().expect("a parameter")[at] += by;
                            loss(&x.cast(), &twin)
                        });
                    let found = f64::from(found);
                    assert!((found - want).abs() < 2e-4, "{twin:?} {at}: {found} is not {want}");
                }
            }
        });
    }

    #[test]
    fn bits_do_not_depend_on_the_number_of_threads() {
        let (x, dy, weight) = (input(3, 0.3), input(6, 1.0), random(4, SHAPE.1, 1.0));
        let gradients = |threads| {
            let (mut dx, mut d_weight) = (Mat::zeros(SHAPE.0, SHAPE.1), vec![0.0; SHAPE.1]);
            let params = Norm {
                kind: NormKind::Layer,
                epsilon: EPSILON,
                weight: Some(&weight),
                bias: None,
                offset: 0.0,
                group: SHAPE.1,
            };
            parallel::with_threads(threads, || {
                let dx = dx.view_mut();
                norm_backward(x.view(), &params, dy.view(), dx, Some(&mut d_weight), None);
            })
            .expect("threads");
            (dx, d_weight)
        };
        assert_eq!(gradients(1), gradients(3));
    }

    #[test]
    #[should_panic(expected = "weight of 5 for 150 features in groups of 75")]
    fn a_weight_of_another_length_is_refused() {
        let params = Norm {
            kind: NormKind::Rms,
            epsilon: EPSILON,
            weight: Some(&[1.0; 5]),
            bias: None,
            offset: 0.0,
            group: 75,
        };
        norm(input(3, 1.0).view(), &params, Mat::zeros(SHAPE.0, SHAPE.1).view_mut());
    }
}
