//! A branch of the rotor network: permutation, layer normalisation, nonlinearity and weight in one
//! pass over columns, in which one feature of many samples is contiguous.
//!
//! `y_k += weight · f((x_order(k) - mean) / sqrt(variance + epsilon))`, mean and biased variance
//! over the features of a sample.

#[cfg(target_arch = "x86_64")]
mod x86;

use super::activation::Activation;
use super::gemm::Write;
use super::instructions::vectorised;
use crate::Scalar;

/// Samples per register group; widths are multiples of it.
const LANES: usize = 16;
/// Features per partial sum in the scalar's own precision; partial sums are added in f64.
const STRETCH: usize = 64;

/// Parameters of a branch.
#[derive(Clone, Copy, Debug)]
pub struct Branch<'a, T> {
    /// Feature k of the result is feature `order[k]` of the input.
    pub order: Option<&'a [u32]>,
    /// Added to the variance; without it nothing is normalised.
    pub epsilon: Option<f64>,
    /// The nonlinearity.
    pub activation: Activation<T>,
    /// Factor of the result.
    pub weight: T,
}

/// Gradients of the two parameters of `weight f(x)`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BranchSums {
    /// With respect to the weight: `Σ dy f(v)`.
    pub weight: f64,
    /// With respect to the slope of [`Activation::Leaky`]: `Σ weight dy min(v, 0)`.
    pub slope: f64,
}

impl<T: Scalar> Branch<'_, T> {
    /// Writes or adds the branch of `x` (features, width) to `y`, of the same layout, and stores
    /// mean and inverse deviation of each sample in `moments` (2, width).
    ///
    /// # Panics
    /// If the lengths do not fit, the width is not a multiple of 16, or the order is out of range.
    #[track_caller]
    pub fn forward(&self, x: &[T], moments: &mut [T], y: &mut [T], write: Write) {
        let width = self.check(x, moments, y);
        let (means, scales) = moments.split_at_mut(width);
        let (means, scales) = (groups_mut(means), groups_mut(scales));
        let step = width / LANES;
        for (first, (mean, scale)) in means.iter_mut().zip(scales).enumerate() {
            [*mean, *scale] = match self.epsilon {
                Some(epsilon) => moments_of(groups(x), first, step, epsilon),
                None => [[T::ZERO; LANES], [T::ONE; LANES]],
            };
            let group = Group { x: groups(x), first, step, mean: *mean, scale: *scale };
            let y = groups_mut(y);
            match self.activation {
                Activation::Identity => forward_leaky(*self, group, y, write, T::ONE),
                Activation::Leaky { slope } => forward_leaky(*self, group, y, write, slope),
                Activation::Relu
                | Activation::ReluSquared
                | Activation::Gelu
                | Activation::GeluTanh
                | Activation::QuickGelu
                | Activation::Silu
                | Activation::Elu
                | Activation::Tanh => {
                    let of = self.activation;
                    forward_group(*self, group, y, write, |v| of.value(v));
                }
            }
        }
    }

    /// From `dy`, the gradient of the output of [`Self::forward`], writes the gradient of its `x`
    /// to `dx` and returns those of weight and slope.
    ///
    /// # Panics
    /// As [`Self::forward`].
    #[track_caller]
    pub fn backward(&self, x: &[T], moments: &[T], dy: &[T], dx: &mut [T]) -> BranchSums {
        let width = self.check(x, moments, dx);
        assert_eq!(x.len(), dy.len(), "input and gradient of a branch");
        let (means, scales) = moments.split_at(width);
        let back = self.order.map(inverse);
        let branch = Branch { order: back.as_deref(), ..*self };
        let mut sums = BranchSums::default();
        let step = width / LANES;
        for (first, (mean, scale)) in groups(means).iter().zip(groups(scales)).enumerate() {
            let group = Group { x: groups(x), first, step, mean: *mean, scale: *scale };
            let (dy, dx) = (groups(dy), groups_mut(dx));
            let of_group = match self.activation {
                Activation::Identity => backward_leaky(branch, group, dy, dx, T::ONE),
                Activation::Leaky { slope } => backward_leaky(branch, group, dy, dx, slope),
                Activation::Relu
                | Activation::ReluSquared
                | Activation::Gelu
                | Activation::GeluTanh
                | Activation::QuickGelu
                | Activation::Silu
                | Activation::Elu
                | Activation::Tanh => {
                    let of = self.activation;
                    backward_group(branch, group, dy, dx, |v| (of.value(v), of.slope(v)))
                }
            };
            sums.weight += of_group.weight;
            sums.slope += of_group.slope;
        }
        sums
    }

    /// Width of the columns.
    #[track_caller]
    fn check(&self, x: &[T], moments: &[T], y: &[T]) -> usize {
        let width = moments.len() / 2;
        assert!(width.is_multiple_of(LANES) && width > 0, "{width} samples side by side");
        assert_eq!(x.len(), y.len(), "input and output of a branch");
        let features = x.len() / width;
        if let Some(order) = self.order {
            assert_eq!(order.len(), features, "features of an order");
            // Without an early exit, so that it vectorises.
            let last = order.iter().fold(0, |last, &k| last.max(k));
            assert!(features == 0 || (last as usize) < features, "an order out of range");
        }
        width
    }

    fn source(&self, feature: usize) -> usize {
        self.order.map_or(feature, |order| order[feature] as usize)
    }
}

/// The columns of one group of samples.
#[derive(Clone, Copy)]
struct Group<'a, T> {
    /// The columns of all groups.
    x: &'a [[T; LANES]],
    /// Which group.
    first: usize,
    /// Number of groups.
    step: usize,
    /// Mean of each sample.
    mean: [T; LANES],
    /// Inverse deviation of each sample.
    scale: [T; LANES],
}

/// Destination of each feature.
fn inverse(order: &[u32]) -> Vec<u32> {
    let mut back = vec![0; order.len()];
    order.iter().enumerate().for_each(|(k, &from)| back[from as usize] = k as u32);
    back
}

fn groups<T>(numbers: &[T]) -> &[[T; LANES]] {
    numbers.as_chunks().0
}

fn groups_mut<T>(numbers: &mut [T]) -> &mut [[T; LANES]] {
    numbers.as_chunks_mut().0
}

vectorised! {
    /// Mean and inverse deviation of each sample of group `first` of `step`.
    fn moments_of<const FUSED: bool, T: Scalar>(
        x: &[[T; LANES]],
        first: usize,
        step: usize,
        epsilon: f64,
    ) -> [[T; LANES]; 2] {
        let count = (x.len() / step).max(1) as f64;
        let mut means = [0.0; LANES];
        for stretch in x.chunks(STRETCH * step) {
            let mut sums = [T::ZERO; LANES];
            for x in stretch.iter().skip(first).step_by(step) {
                sums = std::array::from_fn(|lane| sums[lane] + x[lane]);
            }
            means = std::array::from_fn(|lane| means[lane] + sums[lane].to_f64());
        }
        let mean = means.map(|sum| T::from_f64(sum / count));
        let mut squares = [0.0; LANES];
        for stretch in x.chunks(STRETCH * step) {
            let mut sums = [T::ZERO; LANES];
            for x in stretch.iter().skip(first).step_by(step) {
                sums = std::array::from_fn(|lane| {
                    let off = x[lane] - mean[lane];
                    sums[lane] + off * off
                });
            }
            squares = std::array::from_fn(|lane| squares[lane] + sums[lane].to_f64());
        }
        [mean, squares.map(|sum| T::from_f64(1.0 / (sum / count + epsilon).sqrt()))]
    }
}

/// A leaky nonlinearity, or with a slope of one the identity.
fn forward_leaky<T: Scalar>(
    branch: Branch<'_, T>,
    group: Group<'_, T>,
    y: &mut [[T; LANES]],
    write: Write,
    slope: T,
) {
    #[cfg(target_arch = "x86_64")]
    if x86::forward(branch, group, y, write, slope) {
        return;
    }
    forward_group(branch, group, y, write, |v| leaky(slope, v));
}

/// As [`backward_group`].
fn backward_leaky<T: Scalar>(
    branch: Branch<'_, T>,
    group: Group<'_, T>,
    dy: &[[T; LANES]],
    dx: &mut [[T; LANES]],
    slope: T,
) -> BranchSums {
    #[cfg(target_arch = "x86_64")]
    if let Some(sums) = x86::backward(branch, group, dy, dx, slope) {
        return sums;
    }
    let below = |v| if v > T::ZERO { T::ONE } else { slope };
    backward_group(branch, group, dy, dx, |v| (leaky(slope, v), below(v)))
}

#[inline(always)]
fn leaky<T: Scalar>(slope: T, v: T) -> T {
    if v > T::ZERO { v } else { slope * v }
}

#[inline(always)]
fn forward_group<T: Scalar>(
    branch: Branch<'_, T>,
    Group { x, first, step, mean, scale }: Group<'_, T>,
    y: &mut [[T; LANES]],
    write: Write,
    f: impl Fn(T) -> T,
) {
    let normalized = branch.epsilon.is_some();
    for (k, y) in y.iter_mut().skip(first).step_by(step).enumerate() {
        let x = &x[branch.source(k) * step + first];
        let before = if write == Write::Set { [T::ZERO; LANES] } else { *y };
        for lane in 0..LANES {
            let v = if normalized { (x[lane] - mean[lane]) * scale[lane] } else { x[lane] };
            y[lane] = before[lane] + branch.weight * T::uncounted(|| f(v));
        }
    }
}

/// The order gives the feature of `dy` for each feature of `x`, so the saved input, which is no
/// longer in the cache, is read sequentially.
#[inline(always)]
fn backward_group<T: Scalar>(
    branch: Branch<'_, T>,
    Group { x, first, step, mean, scale }: Group<'_, T>,
    dy: &[[T; LANES]],
    dx: &mut [[T; LANES]],
    f: impl Fn(T) -> (T, T),
) -> BranchSums {
    let zero = [T::ZERO; LANES];
    let (mut by_value, mut below, mut total, mut along) = (zero, zero, zero, zero);
    let weight = branch.weight;
    for (k, (x, dx)) in x.iter().zip(&mut *dx).skip(first).step_by(step).enumerate() {
        let dy = &dy[branch.source(k) * step + first];
        for lane in 0..LANES {
            let v = (x[lane] - mean[lane]) * scale[lane];
            let (value, slope) = f(v);
            let d = weight * dy[lane] * slope;
            by_value[lane] += dy[lane] * value;
            below[lane] += dy[lane] * if v > T::ZERO { T::ZERO } else { v };
            total[lane] += d;
            along[lane] += d * v;
            dx[lane] = d;
        }
    }
    if branch.epsilon.is_some() {
        let count = T::from_f64(1.0 / (x.len() / step).max(1) as f64);
        let (total, along) = (total.map(|sum| sum * count), along.map(|sum| sum * count));
        for (d, x) in dx.iter_mut().zip(x).skip(first).step_by(step) {
            for lane in 0..LANES {
                let v = (x[lane] - mean[lane]) * scale[lane];
                d[lane] = scale[lane] * (d[lane] - total[lane] - v * along[lane]);
            }
        }
    }
    let sum = |lanes: [T; LANES]| lanes.into_iter().map(Scalar::to_f64).sum::<f64>();
    BranchSums { weight: sum(by_value), slope: branch.weight.to_f64() * sum(below) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RngKey;

    const FEATURES: usize = 7;
    const WIDTH: usize = 2 * LANES;

    fn normals(seed: u64) -> Vec<f64> {
        RngKey::new(seed).stream().normals(FEATURES * WIDTH, 1.0)
    }

    /// The branch by its definition, feature by feature of each sample.
    fn naive(branch: Branch<'_, f64>, x: &[f64]) -> Vec<f64> {
        let of_sample =
            |b: usize| -> Vec<f64> { (0..FEATURES).map(|k| x[k * WIDTH + b]).collect() };
        let value = |(k, b): (usize, usize)| {
            let sample = of_sample(b);
            let mean = sample.iter().sum::<f64>() / FEATURES as f64;
            let variance =
                sample.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / FEATURES as f64;
            let from = branch.order.map_or(k, |order| order[k] as usize);
            let v = branch.epsilon.map_or(sample[from], |epsilon| {
                (sample[from] - mean) / (variance + epsilon).sqrt()
            });
            branch.weight * branch.activation.value(v)
        };
        (0..FEATURES * WIDTH).map(|at| value((at / WIDTH, at % WIDTH))).collect()
    }

    fn each_branch(mut check: impl FnMut(Branch<'_, f64>)) {
        let order = RngKey::new(1).stream().permutation(FEATURES);
        let leaky = Activation::Leaky { slope: 0.25 };
        for activation in [Activation::Identity, leaky, Activation::Gelu] {
            for order in [None, Some(&order[..])] {
                for epsilon in [None, Some(1e-5)] {
                    check(Branch { order, epsilon, activation, weight: 0.7 });
                }
            }
        }
    }

    #[test]
    fn forward_equals_the_naive_twin() {
        let x = normals(2);
        each_branch(|branch| {
            let expected = naive(branch, &x);
            for (write, before) in [(Write::Set, 0.0), (Write::Add, 3.0)] {
                let (mut y, mut moments) = (vec![3.0; x.len()], vec![0.0; 2 * WIDTH]);
                branch.forward(&x, &mut moments, &mut y, write);
                for (y, expected) in y.iter().zip(&expected) {
                    assert!((y - before - expected).abs() < 1e-12, "{branch:?}");
                }
            }
        });
    }

    #[test]
    fn gradients_are_central_differences() {
        let (x, dy) = (normals(2), normals(3));
        let run = |branch: Branch<'_, f64>, x: &[f64]| -> f64 {
            naive(branch, x).iter().zip(&dy).map(|(y, d)| y * d).sum()
        };
        each_branch(|branch| {
            let (mut y, mut moments) = (vec![0.0; x.len()], vec![0.0; 2 * WIDTH]);
            branch.forward(&x, &mut moments, &mut y, Write::Set);
            let mut dx = vec![0.0; x.len()];
            let sums = branch.backward(&x, &moments, &dy, &mut dx);
            for (k, &d) in dx.iter().enumerate() {
                let (mut up, mut down) = (x.clone(), x.clone());
                up[k] += 1e-5;
                down[k] -= 1e-5;
                let slope = (run(branch, &up) - run(branch, &down)) / 2e-5;
                assert!((slope - d).abs() < 1e-7, "{branch:?} {k}: {slope} {d}");
            }
            let with = |weight| run(Branch { weight, ..branch }, &x);
            assert!(((with(0.8) - with(0.6)) / 0.2 - sums.weight).abs() < 1e-9, "{branch:?}");
            if let Activation::Leaky { slope } = branch.activation {
                let with =
                    |slope| run(Branch { activation: Activation::Leaky { slope }, ..branch }, &x);
                let difference = (with(slope + 0.1) - with(slope - 0.1)) / 0.2;
                assert!((difference - sums.slope).abs() < 1e-9, "{branch:?}");
            }
        });
    }
}
