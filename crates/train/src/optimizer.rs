//! Adam, AdamW and Adamax over all parameters of a problem.

use crate::{Gradient, Slice};
use linwright_tensor::kernels::adam::{Adam, ProductGradient, adam, adam_of_product, adamax};
use linwright_tensor::kernels::gemm::{Arg, Write, linear, product};
use linwright_tensor::{Mat, MatMut, MatRef, parallel};
use serde::{Deserialize, Serialize};

/// How moments become an update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OptimizerKind {
    /// Adam, or AdamW with a weight decay.
    #[default]
    Adam,
    /// Adamax: the largest gradient so far, which decays, in place of the root of the second
    /// moment.
    Adamax,
}

impl OptimizerKind {
    /// All kinds.
    pub const ALL: [Self; 2] = [Self::Adam, Self::Adamax];

    /// Its name in options and files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Adam => "adam",
            Self::Adamax => "adamax",
        }
    }

    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Optimiser settings, constant over a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OptimizerSettings {
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Epsilon, added to the root of the second moment.
    pub epsilon: f64,
    /// Decoupled weight decay, for slices that request it.
    pub weight_decay: f64,
    /// Clipping norm: the gradient of all parameters together is scaled down to it.
    pub clip_norm: Option<f64>,
    /// How moments become an update.
    #[serde(default, skip_serializing_if = "OptimizerKind::is_default")]
    pub kind: OptimizerKind,
}

impl Default for OptimizerSettings {
    fn default() -> Self {
        let (weight_decay, clip_norm, kind) = (0.0, None, OptimizerKind::Adam);
        Self { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay, clip_norm, kind }
    }
}

/// Moments of every parameter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Optimizer {
    /// First moments, slice by slice.
    pub(crate) first: Vec<Vec<f32>>,
    /// Second moments, slice by slice.
    pub(crate) second: Vec<Vec<f32>>,
}

/// Numbers per work item; the work is elementwise, so the boundaries do not affect the result.
const PIECE: usize = 1 << 16;

impl Optimizer {
    /// Clips the gradient if a norm is set, and updates the parameters. Returns the norm of the
    /// gradient before clipping. `step` counts from one.
    pub fn update(
        &mut self,
        settings: &OptimizerSettings,
        rate: f64,
        step: u64,
        slices: Vec<Slice<'_>>,
    ) -> f64 {
        let clipped = settings.clip_norm.map(|limit| {
            let norm =
                parallel::map(slices.iter().collect(), |_, slice: &Slice<'_>| squares_of(slice));
            let norm = norm.into_iter().sum::<f64>().sqrt();
            Clipped { norm, scale: (limit / norm.max(1e-30)).min(1.0) as f32 }
        });
        let scale = clipped.as_ref().map_or(1.0, |clipped| clipped.scale);
        self.first.resize_with(slices.len(), Vec::new);
        self.second.resize_with(slices.len(), Vec::new);
        let (mut pieces, mut squares_of_products) = (Vec::new(), 0.0);
        let moments = self.first.iter_mut().zip(&mut self.second);
        for (slice, (first, second)) in slices.into_iter().zip(moments) {
            first.resize(slice.values.len(), 0.0);
            second.resize(slice.values.len(), 0.0);
            let weight_decay = if slice.decay { settings.weight_decay } else { 0.0 };
            let OptimizerSettings { beta1, beta2, epsilon, .. } = *settings;
            let constants = Adam { rate, beta1, beta2, epsilon, weight_decay };
            match slice.gradient {
                Gradient::Product { dy, x } if settings.kind == OptimizerKind::Adamax => {
                    let mut formed = vec![0.0; slice.values.len()];
                    let into = MatMut::new(&mut formed, dy.cols(), x.cols());
                    let (dy, x) = (Arg::Transposed(dy), Arg::Plain(x));
                    product(scale, dy, x, into, Write::Set);
                    squares_of_products += squares(&formed);
                    adamax(&constants, step, [slice.values, first, second], &formed);
                }
                Gradient::Product { dy, x } => {
                    let of = ProductGradient { dy, x, scale };
                    let parameter = [slice.values, first, second];
                    squares_of_products += adam_of_product(&constants, step, parameter, of);
                }
                Gradient::Numbers(gradient) => {
                    let parts = slice.values.chunks_mut(PIECE).zip(gradient.chunks_mut(PIECE));
                    let moments = first.chunks_mut(PIECE).zip(second.chunks_mut(PIECE));
                    let piece = |((p, g), (m, v))| (constants, p, g, m, v);
                    pieces.extend(parts.zip(moments).map(piece));
                }
            }
        }
        let of_pieces = parallel::map(pieces, |_, (constants, values, gradient, first, second)| {
            if scale < 1.0 {
                gradient.iter_mut().for_each(|g| *g *= scale);
            }
            // Read once, with the update.
            let own = if clipped.is_some() { 0.0 } else { squares(gradient) };
            match settings.kind {
                OptimizerKind::Adam => adam(&constants, step, values, gradient, first, second),
                OptimizerKind::Adamax => {
                    adamax(&constants, step, [values, first, second], gradient);
                }
            }
            own
        });
        match clipped {
            Some(clipped) => clipped.norm,
            None => (squares_of_products + of_pieces.into_iter().sum::<f64>()).sqrt(),
        }
    }
}

/// The norm of a gradient before clipping, and its factor.
struct Clipped {
    norm: f64,
    scale: f32,
}

/// Sum of squares of a gradient. That of `dyᵀ x` is the inner product of `dy dyᵀ` and `x xᵀ`, which
/// are small.
fn squares_of(slice: &Slice<'_>) -> f64 {
    let gram = |mat: MatRef<'_, f32>| {
        let mut gram = Mat::zeros(mat.rows(), mat.rows());
        linear(mat, mat, gram.view_mut(), Write::Set);
        gram
    };
    match &slice.gradient {
        Gradient::Numbers(gradient) => squares(gradient),
        Gradient::Product { dy, x } => {
            let (dy, x) = (gram(*dy), gram(*x));
            let pairs = dy.data().iter().zip(x.data());
            pairs.map(|(dy, x)| f64::from(*dy) * f64::from(*x)).sum()
        }
    }
}

fn squares(values: &[f32]) -> f64 {
    // Eight partial sums in a fixed order: fast, and the same bits everywhere.
    let mut sums = [0.0f64; 8];
    let chunks = values.chunks_exact(8);
    let rest: f64 = chunks.remainder().iter().map(|v| f64::from(*v).powi(2)).sum();
    for chunk in chunks {
        for (sum, v) in sums.iter_mut().zip(chunk) {
            *sum += f64::from(*v) * f64::from(*v);
        }
    }
    sums.iter().sum::<f64>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_tensor::RngKey;

    /// A weight after two steps, and the norms, with its gradient as numbers or as factors.
    fn updated(clip_norm: Option<f64>, formed: bool) -> (Vec<f32>, [f64; 2]) {
        let random = |rows: usize, cols: usize, key| -> Mat<f32> {
            Mat::from_vec(rows, cols, RngKey::new(key).stream().normals(rows * cols, 1.0))
        };
        let (dy, x, mut weight) = (random(9, 80, 1), random(9, 70, 2), random(80, 70, 3));
        let settings = OptimizerSettings { clip_norm, weight_decay: 0.1, ..Default::default() };
        let mut optimizer = Optimizer::default();
        let norms = [1, 2].map(|step| {
            let mut numbers = Mat::zeros(80, 70);
            let (a, b) = (Arg::Transposed(dy.view()), Arg::Plain(x.view()));
            product(1.0, a, b, numbers.view_mut(), Write::Set);
            let gradient = match formed {
                true => numbers.data_mut().into(),
                false => Gradient::Product { dy: dy.view(), x: x.view() },
            };
            let (name, values) = ("weight".to_owned(), weight.data_mut());
            optimizer.update(
                &settings,
                0.1,
                step,
                vec![Slice { name, values, gradient, decay: true }],
            )
        });
        (weight.into_vec(), norms)
    }

    #[test]
    fn gradients_as_factors_update_and_clip_as_those_of_numbers() {
        for clip_norm in [None, Some(0.5), Some(1e6)] {
            let (numbers, norms) = updated(clip_norm, true);
            let (factors, other) = updated(clip_norm, false);
            for (a, b) in numbers.iter().zip(&factors) {
                assert!((a - b).abs() < 2e-5, "{clip_norm:?}: {a}, {b}");
            }
            for (a, b) in norms.iter().zip(other) {
                assert!((a / b - 1.0).abs() < 1e-5, "{clip_norm:?}: {a}, {b}");
            }
        }
    }
}
