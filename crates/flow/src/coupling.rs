//! Affine couplings: half of the channels determines scale and shift of the other half.
//!
//! With a network of the first half `x_a` that gives shift t and raw scale r:
//! `y_a = x_a`, `y_b = (x_b + t) s`, `s = sigmoid(r + 2)`, `log|det| = Σ log s`.
//!
//! Source: Kingma and Dhariwal 2018, table 1, and their code for the sigmoid. Deviations: the
//! outputs of the network are all shifts, then all raw scales, where Glow interleaves them; the
//! last convolution starts at zero without a learnt gain, which Adam does not need.

use crate::{Extent, FlowError};
use linwright_nets::layers::{Conv, Linear};
use linwright_nets::{Batch, InputSpec, LayerSpec, Net, NetError, NetSpec, NetTensor};
use linwright_ops::Workspace;
use linwright_tensor::{Mat, MatMut, RngKey, Scalar, parallel};
use std::collections::BTreeMap;

/// Added to the raw scale: a fresh coupling scales by `sigmoid(2)`, 0.88.
const SHIFT_OF_SCALE: f64 = 2.0;

/// An affine coupling.
#[derive(Clone, Debug)]
pub(crate) struct Coupling<T: Scalar> {
    name: String,
    /// Channels that decide.
    kept: usize,
    net: Net<T>,
}

/// Description of a network from `inp` to `out` channels over positions.
pub(crate) fn net_spec(extent: Extent, inp: usize, widths: &[(usize, usize)]) -> NetSpec {
    let mut layers = Vec::new();
    for (index, &(out, kernel)) in widths.iter().enumerate() {
        if index > 0 {
            layers.push(LayerSpec::Relu);
        }
        let name = format!("c{}", index + 1);
        layers.push(match kernel {
            1 => LayerSpec::Linear(Linear { name, out, bias: true }),
            _ => LayerSpec::Conv(Conv {
                name,
                out,
                kernel,
                stride: 1,
                padding: kernel / 2,
                bias: true,
            }),
        });
    }
    let Extent { height, width, .. } = extent;
    let input = InputSpec { channels: inp, height, width, mean: Vec::new(), std: Vec::new() };
    NetSpec { input, layers, operators: BTreeMap::new() }
}

/// A network whose last layer is zero and whose others are normal with standard deviation
/// `sqrt(2 / inp)`.
pub(crate) fn random_net<T: Scalar>(spec: &NetSpec, key: RngKey) -> Result<Net<T>, NetError> {
    let last = spec.layers.iter().filter_map(LayerSpec::name).next_back().unwrap_or_default();
    let zeros = format!("{last}.");
    Net::build(spec, |name, shape| {
        let count = shape.iter().product::<usize>();
        if name.starts_with(&zeros) || name.ends_with(".bias") {
            return Ok(vec![T::ZERO; count]);
        }
        let inp = count / shape[0].max(1);
        Ok(key.fold(name).stream().normals(count, (2.0 / inp as f64).sqrt()))
    })
}

/// Tensors of a network, with the name of its layer as prefix.
pub(crate) fn named<'a, T: Scalar>(name: &str, net: &'a mut Net<T>) -> Vec<NetTensor<'a, T>> {
    let tensors = net.tensors_mut().into_iter();
    tensors.map(|tensor| NetTensor { name: format!("{name}.{}", tensor.name), ..tensor }).collect()
}

/// Scale of a raw scale, and one minus it.
fn scale_of<T: Scalar>(raw: T) -> (T, T) {
    let tail = (-(raw + T::from_f64(SHIFT_OF_SCALE))).exp();
    let scale = T::ONE / (T::ONE + tail);
    // tail / (1 + tail) is infinity over infinity if the scale is zero.
    let rest = if scale == T::ZERO { T::ONE } else { tail * scale };
    (scale, rest)
}

/// `log s`, accurate for s close to zero or one.
fn log_scale_of<T: Scalar>(raw: T) -> f64 {
    let logit = raw.to_f64() + SHIFT_OF_SCALE;
    logit.min(0.0) - (-logit.abs()).exp().ln_1p()
}

impl<T: Scalar> Coupling<T> {
    pub(crate) fn new(
        name: String,
        extent: Extent,
        hidden: usize,
        key: RngKey,
    ) -> Result<Self, FlowError> {
        let kept = extent.channels / 2;
        let kernel = if extent.places() > 1 { 3 } else { 1 };
        let out = 2 * (extent.channels - kept);
        let widths = [(hidden, kernel), (hidden, 1), (out, kernel)];
        let net = random_net(&net_spec(extent, kept, &widths), key);
        let net =
            net.map_err(|source| FlowError::Net { layer: name.clone(), source: source.into() })?;
        Ok(Self { name, kept, net })
    }

    pub(crate) fn tensors_mut(&mut self) -> Vec<NetTensor<'_, T>> {
        named(&self.name, &mut self.net)
    }

    fn batch(&self, rows: &Mat<T>, examples: usize, ws: &mut Workspace<T>) -> Batch<T> {
        let mut first = ws.take(rows.rows(), self.kept);
        first.view_mut().copy_from(rows.view().columns(0, self.kept));
        Batch { rows: first, examples }
    }

    fn failed(&self, source: NetError) -> FlowError {
        FlowError::Net { layer: self.name.clone(), source: source.into() }
    }

    /// Couples the rows, in place; adds the determinants to those of the examples.
    pub(crate) fn forward(
        &self,
        x: &mut Mat<T>,
        log_det: &mut [f64],
        ws: &mut Workspace<T>,
    ) -> Result<(), FlowError> {
        let out = self.outputs(x, log_det.len(), ws)?;
        let (kept, places) = (self.kept, x.rows() / log_det.len().max(1));
        let blocks = x.view_mut().row_blocks(places).into_iter().zip(log_det).collect();
        parallel::for_each(blocks, |example, (mut x, log_det): (MatMut<'_, T>, &mut f64)| {
            let mut sum = 0.0;
            for i in 0..places {
                let (shift, raw) = halves(out.row(example * places + i));
                for ((x, shift), raw) in x.row_mut(i)[kept..].iter_mut().zip(shift).zip(raw) {
                    *x = (*x + *shift) * scale_of(*raw).0;
                    sum += log_scale_of(*raw);
                }
            }
            *log_det += sum;
        });
        ws.give(out);
        Ok(())
    }

    fn outputs(
        &self,
        rows: &Mat<T>,
        examples: usize,
        ws: &mut Workspace<T>,
    ) -> Result<Mat<T>, FlowError> {
        let batch = self.batch(rows, examples, ws);
        self.net.outputs_in(batch, ws).map_err(|source| self.failed(source))
    }

    /// The inverse of the coupling, in place.
    pub(crate) fn inverse(
        &self,
        y: &mut Mat<T>,
        examples: usize,
        ws: &mut Workspace<T>,
    ) -> Result<(), FlowError> {
        let out = self.outputs(y, examples, ws)?;
        let (kept, places) = (self.kept, y.rows() / examples.max(1));
        parallel::for_each(y.view_mut().row_blocks(places), |example, mut y| {
            for i in 0..places {
                let (shift, raw) = halves(out.row(example * places + i));
                for ((y, shift), raw) in y.row_mut(i)[kept..].iter_mut().zip(shift).zip(raw) {
                    *y = *y / scale_of(*raw).0 - *shift;
                }
            }
        });
        ws.give(out);
        Ok(())
    }

    /// Converts outputs and their gradients to those of the inputs, in place; writes the gradients
    /// of the network. `of_log_det` is the gradient of the determinant of each example.
    pub(crate) fn backward(
        &mut self,
        [y, dy]: [&mut Mat<T>; 2],
        (examples, of_log_det): (usize, f64),
        grads: &mut [Vec<T>],
        ws: &mut Workspace<T>,
    ) -> Result<(), FlowError> {
        let batch = self.batch(y, examples, ws);
        // With a key, as in training: the loss shows numbers that are not finite.
        let passed = self.net.pass_in(batch, Some(RngKey::new(0)), ws);
        let (mut out, passed) = passed.map_err(|source| self.failed(source))?;
        let (kept, places) = (self.kept, y.rows() / examples.max(1));
        let of_log_det = T::from_f64(of_log_det);
        let [y_blocks, dy_blocks] =
            [&mut *y, &mut *dy].map(|rows| rows.view_mut().row_blocks(places));
        let all = y_blocks.into_iter().zip(dy_blocks).zip(out.view_mut().row_blocks(places));
        parallel::for_each(all.collect(), |_, ((mut y, mut dy), mut out): Blocks<'_, T>| {
            for i in 0..y.rows() {
                let out = out.row_mut(i);
                let (shift, raw) = out.split_at_mut(out.len() / 2);
                let both = y.row_mut(i)[kept..].iter_mut().zip(&mut dy.row_mut(i)[kept..]);
                for ((y, dy), (shift, raw)) in both.zip(shift.iter_mut().zip(raw)) {
                    let (scale, rest) = scale_of(*raw);
                    let shifted = *y / scale;
                    *raw = (*dy * *y + of_log_det) * rest;
                    *y = shifted - *shift;
                    *dy *= scale;
                    *shift = *dy;
                }
            }
        });
        let dx = self.net.gradients_into(passed, out, grads, ws);
        for i in 0..dy.rows() {
            let own = dy.row_mut(i)[..kept].iter_mut();
            own.zip(dx.row(i)).for_each(|(to, from)| *to += *from);
        }
        ws.give(dx);
        Ok(())
    }
}

/// Rows of an example: outputs, their gradients, and the output of the network.
type Blocks<'a, T> = ((MatMut<'a, T>, MatMut<'a, T>), MatMut<'a, T>);

/// Shifts and raw scales at a position.
fn halves<T>(out: &[T]) -> (&[T], &[T]) {
    out.split_at(out.len() / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_far_from_zero_keep_their_logarithm() {
        for raw in [-800.0, -60.0, -2.0, 0.0, 3.0, 60.0, 800.0_f64] {
            let (scale, rest) = scale_of(raw);
            let log = log_scale_of(raw);
            assert!(log.is_finite() && (0.0..=1.0).contains(&scale) && rest.is_finite(), "{raw}");
            assert!((scale + rest - 1.0).abs() < 1e-15, "{raw}: {scale}, {rest}");
            if scale > 1e-300 {
                assert!((log - scale.ln()).abs() < 1e-12 * log.abs().max(1.0), "{raw}: {log}");
            }
        }
        assert_eq!(log_scale_of(-802.0_f64), -800.0);
    }
}
