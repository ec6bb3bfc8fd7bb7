//! Importance of channels: how much the loss changes without them, by their weights.
//!
//! With a weight w, the gradient g of the mean loss and the mean F of the squared gradients of
//! single examples, an element has the salience |w| (`l1`), w² (`l2`), w g (`vectorize`,
//! `param_first`), w F w (`param_second`) or w g − w F w / 2 (`param_mix`). A row or column has the
//! sum of their magnitudes, or the magnitude of the sum (`vectorize`). A channel has the sum over
//! its rows and columns in all weights of its group; `l1` and `l2` have the mean.
//!
//! Source: Ma, Fang and Wang 2023, arXiv:2305.11627, and its code.

use linwright_tensor::MatRef;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Importance of a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Criterion {
    /// Random numbers.
    Random,
    /// Magnitudes of the weights.
    L1,
    /// Squares of the weights.
    L2,
    /// First order in the loss, of each row or column as a whole.
    Vectorize,
    /// First order in the loss, of each element.
    #[default]
    ParamFirst,
    /// Second order in the loss, of each element.
    ParamSecond,
    /// Both orders, of each element.
    ParamMix,
}

/// What a criterion reads besides a weight (out, inp); both are of its shape.
#[derive(Clone, Copy, Debug)]
pub struct LossGradients<'a> {
    /// Gradient of the mean loss.
    pub mean: MatRef<'a, f32>,
    /// Mean of the squared gradients of single examples, for [`Criterion::needs_squares`].
    pub squares: Option<MatRef<'a, f32>>,
}

/// Which query heads count for a key-value head in the importance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// Those that read it: consecutive ones.
    Readers,
    /// Head h counts for h modulo the number of key-value heads, as released. Which heads are
    /// removed together is right there, too.
    Released,
}

impl Criterion {
    /// All criteria.
    pub const ALL: [Self; 7] = [
        Self::Random,
        Self::L1,
        Self::L2,
        Self::Vectorize,
        Self::ParamFirst,
        Self::ParamSecond,
        Self::ParamMix,
    ];

    /// Its name in recipes and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::L1 => "l1",
            Self::L2 => "l2",
            Self::Vectorize => "vectorize",
            Self::ParamFirst => "param_first",
            Self::ParamSecond => "param_second",
            Self::ParamMix => "param_mix",
        }
    }

    /// Whether it reads gradients.
    #[must_use]
    pub fn needs_gradients(self) -> bool {
        match self {
            Self::Random | Self::L1 | Self::L2 => false,
            Self::Vectorize | Self::ParamFirst | Self::ParamSecond | Self::ParamMix => true,
        }
    }

    /// Whether it reads squared gradients.
    #[must_use]
    pub fn needs_squares(self) -> bool {
        matches!(self, Self::ParamSecond | Self::ParamMix)
    }

    /// Importance of every row of a weight.
    ///
    /// # Panics
    /// If gradients are needed and missing, or of another shape.
    #[must_use]
    pub fn of_rows(
        self,
        weight: MatRef<'_, f32>,
        gradients: Option<LossGradients<'_>>,
    ) -> Vec<f64> {
        let of_row = |i: usize| {
            let row = self.saliences(weight, gradients, i);
            if self == Self::Vectorize { row.sum::<f64>().abs() } else { row.map(f64::abs).sum() }
        };
        (0..weight.rows()).map(of_row).collect()
    }

    /// Importance of every column of a weight.
    ///
    /// # Panics
    /// If gradients are needed and missing, or of another shape.
    #[must_use]
    pub fn of_columns(
        self,
        weight: MatRef<'_, f32>,
        gradients: Option<LossGradients<'_>>,
    ) -> Vec<f64> {
        let mut sums = vec![0.0; weight.cols()];
        for i in 0..weight.rows() {
            for (sum, salience) in sums.iter_mut().zip(self.saliences(weight, gradients, i)) {
                *sum += if self == Self::Vectorize { salience } else { salience.abs() };
            }
        }
        sums.iter_mut().for_each(|sum| *sum = sum.abs());
        sums
    }

    /// Importance of channels from that of their rows and columns in each weight of the group.
    ///
    /// # Panics
    /// If there are none, or not equally many in each.
    #[must_use]
    #[track_caller]
    pub fn joined(self, members: &[Vec<f64>]) -> Vec<f64> {
        let channels = members[0].len();
        assert!(members.iter().all(|member| member.len() == channels), "one of each channel");
        let is_mean = matches!(self, Self::L1 | Self::L2);
        let scale = if is_mean { 1.0 / members.len() as f64 } else { 1.0 };
        (0..channels).map(|c| scale * members.iter().map(|member| member[c]).sum::<f64>()).collect()
    }

    /// Saliences of the elements of row `i`.
    fn saliences<'a>(
        self,
        weight: MatRef<'a, f32>,
        gradients: Option<LossGradients<'a>>,
        i: usize,
    ) -> impl Iterator<Item = f64> + 'a {
        let mean = gradients.map(|gradients| gradients.mean.row(i));
        let squares = gradients.and_then(|gradients| Some(gradients.squares?.row(i)));
        assert!(mean.is_some() || !self.needs_gradients(), "gradients for {self:?}");
        assert!(squares.is_some() || !self.needs_squares(), "squared gradients for {self:?}");
        weight.row(i).iter().enumerate().map(move |(j, &w)| {
            let [g, f] = [mean, squares].map(|row| row.map_or(0.0, |row| f64::from(row[j])));
            let w = f64::from(w);
            match self {
                Self::Random => 0.0,
                Self::L1 => w.abs(),
                Self::L2 => w * w,
                Self::Vectorize | Self::ParamFirst => w * g,
                Self::ParamSecond => w * f * w,
                Self::ParamMix => w * g - 0.5 * w * f * w,
            }
        })
    }
}

/// Importance of the channels of key-value heads, of which there are `kv_heads` with `size`
/// features, from that of all channels of their query heads.
#[must_use]
pub fn of_kv_heads(queries: &[f64], size: usize, kv_heads: usize, pairing: Pairing) -> Vec<f64> {
    let heads = queries.len() / size;
    let mut sums = vec![0.0; kv_heads * size];
    for (head, channels) in queries.chunks_exact(size).enumerate() {
        let kv = match pairing {
            Pairing::Readers => head / (heads / kv_heads),
            Pairing::Released => head % kv_heads,
        };
        sums[kv * size..].iter_mut().zip(channels).for_each(|(sum, channel)| *sum += channel);
    }
    sums
}

/// Importance of groups of `size` consecutive channels: the sum.
#[must_use]
pub fn of_groups(channels: &[f64], size: usize) -> Vec<f64> {
    channels.chunks_exact(size).map(|group| group.iter().sum()).collect()
}

/// The `count` most important groups in their order. Of equal ones the last ones stay.
#[must_use]
pub fn most_important(importance: &[f64], count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..importance.len()).collect();
    order.sort_by(|&a, &b| importance[a].total_cmp(&importance[b]));
    let mut kept = order.split_off(importance.len().saturating_sub(count));
    kept.sort_unstable();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_tensor::Mat;

    #[test]
    fn rows_and_columns_are_summed_with_or_without_signs() {
        let weight = Mat::from_vec(2, 2, vec![1.0, -2.0, 3.0, 4.0]);
        let mean = Mat::from_vec(2, 2, vec![1.0, 1.0, -1.0, 1.0]);
        let squares = Mat::from_vec(2, 2, vec![2.0, 0.0, 0.0, 1.0]);
        let gradients = Some(LossGradients { mean: mean.view(), squares: Some(squares.view()) });
        for (criterion, rows, columns) in [
            (Criterion::L1, [3.0, 7.0], [4.0, 6.0]),
            (Criterion::L2, [5.0, 25.0], [10.0, 20.0]),
            (Criterion::Vectorize, [1.0, 1.0], [2.0, 2.0]),
            (Criterion::ParamFirst, [3.0, 7.0], [4.0, 6.0]),
            (Criterion::ParamSecond, [2.0, 16.0], [2.0, 16.0]),
            (Criterion::ParamMix, [2.0, 7.0], [3.0, 6.0]),
        ] {
            assert_eq!(criterion.of_rows(weight.view(), gradients), rows, "{criterion:?}");
            assert_eq!(criterion.of_columns(weight.view(), gradients), columns, "{criterion:?}");
        }
    }

    #[test]
    fn query_heads_count_for_the_head_that_they_read() {
        let queries = [1.0, 2.0, 10.0, 20.0, 100.0, 200.0, 1000.0, 2000.0];
        let of = |pairing| of_kv_heads(&queries, 2, 2, pairing);
        assert_eq!(of(Pairing::Readers), [11.0, 22.0, 1100.0, 2200.0]);
        assert_eq!(of(Pairing::Released), [101.0, 202.0, 1010.0, 2020.0]);
        assert_eq!(of_groups(&of(Pairing::Readers), 2), [33.0, 3300.0]);
    }

    #[test]
    fn the_last_of_equal_groups_stay() {
        assert_eq!(most_important(&[2.0, 1.0, 1.0, 3.0], 3), [0, 2, 3]);
        assert_eq!(most_important(&[1.0; 4], 2), [2, 3]);
        assert_eq!(most_important(&[1.0; 4], 9), [0, 1, 2, 3]);
    }
}
