//! Scores: the influence of every stored example on queries.
//!
//! `score(i, q) = Σ_l y_ilᵀ (F_l + λ_l)⁻¹ q_l` over layers, with the compressed gradient `y_i` of
//! the loss of example i and `q` of a query; without curvature `Σ_l ⟨y_il, q_l⟩` (GradDot). A
//! positive score is that of a proponent: a step on the loss of example i lowers the query's loss.
//! Queries are preconditioned, a layer at a time, then the store is read once, from its first
//! example to its last. Sums are in f64.
//!
//! Sources: GraSS, arXiv:2505.18976; TracIn, arXiv:2002.08484, for GradDot; RelatIF,
//! arXiv:2003.11630, for the division by the root of self-influence.

use crate::AttributeError;
use crate::curvature::{Curvature, Damping};
use crate::store::{GradientStore, ShardFile};
use linwright_run::Monitor;
use linwright_tensor::Mat;
use linwright_tensor::kernels::gemm::{Arg, Write, product};
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// How gradients are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Comparison {
    /// Inner products.
    GradDot,
    /// Inner products of directions: cosines.
    GradCos,
    /// Influence by the empirical Fisher matrix of each layer.
    Influence(Damping),
    /// Influence over the root of the self-influence of the stored example.
    RelatIf(Damping),
}

/// A way of comparing gradients, without its damping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum ComparisonKind {
    /// See [`Comparison::GradDot`].
    GradDot,
    /// See [`Comparison::GradCos`].
    GradCos,
    /// See [`Comparison::Influence`].
    Influence,
    /// See [`Comparison::RelatIf`].
    RelatIf,
}

impl ComparisonKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::GradDot, Self::GradCos, Self::Influence, Self::RelatIf];

    /// Its name in options and results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::GradDot => "grad_dot",
            Self::GradCos => "grad_cos",
            Self::Influence => "influence",
            Self::RelatIf => "relatif",
        }
    }

    /// Whether it has a damping.
    #[must_use]
    pub fn is_damped(self) -> bool {
        match self {
            Self::GradDot | Self::GradCos => false,
            Self::Influence | Self::RelatIf => true,
        }
    }

    /// The comparison with a damping, which kinds without one do not read.
    #[must_use]
    pub fn with(self, damping: Damping) -> Comparison {
        match self {
            Self::GradDot => Comparison::GradDot,
            Self::GradCos => Comparison::GradCos,
            Self::Influence => Comparison::Influence(damping),
            Self::RelatIf => Comparison::RelatIf(damping),
        }
    }
}

impl FromStr for ComparisonKind {
    type Err = AttributeError;

    fn from_str(text: &str) -> Result<Self, AttributeError> {
        let names = Self::ALL.map(Self::name).join(", ");
        let refused = || AttributeError::Setting {
            name: "comparison",
            found: text.into(),
            expected: format!("one of {names}"),
        };
        Self::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(refused)
    }
}

impl From<ComparisonKind> for String {
    fn from(kind: ComparisonKind) -> Self {
        kind.name().into()
    }
}

impl TryFrom<String> for ComparisonKind {
    type Error = AttributeError;

    fn try_from(text: String) -> Result<Self, AttributeError> {
        text.parse()
    }
}

impl Comparison {
    fn damping(self) -> Option<Damping> {
        match self {
            Self::GradDot | Self::GradCos => None,
            Self::Influence(damping) | Self::RelatIf(damping) => Some(damping),
        }
    }
}

/// A store that queries are compared with: its shards, and for each layer where its numbers are.
#[derive(Debug)]
pub struct Attribution<'a> {
    store: &'a GradientStore,
    shards: Vec<ShardFile>,
}

impl<'a> Attribution<'a> {
    /// Opens all shards of a store.
    ///
    /// # Errors
    /// As [`GradientStore::all_shards`].
    pub fn open(store: &'a GradientStore) -> Result<Self, AttributeError> {
        Ok(Self { store, shards: store.all_shards()? })
    }

    /// Calls `visit` with the scores (examples of a tile, queries) of tile after tile, and the
    /// number of the first example. `queries`: (queries, numbers of a gradient), from the maps of
    /// the store.
    ///
    /// # Errors
    /// Those of reading and of [`Curvature::damping`], and [`AttributeError::Interrupted`].
    ///
    /// # Panics
    /// If the queries have other numbers.
    pub fn scores(
        &self,
        queries: &Mat<f32>,
        comparison: Comparison,
        monitor: &mut dyn Monitor,
        visit: &mut dyn FnMut(usize, &Mat<f64>),
    ) -> Result<(), AttributeError> {
        assert_eq!(queries.cols(), self.store.manifest().size(), "numbers of a query");
        let mut queries: Mat<f64> = queries.cast();
        let mut divisors = None;
        if let Some(damping) = comparison.damping() {
            divisors = self.precondition(&mut queries, comparison, damping, monitor)?;
        }
        if comparison == Comparison::GradCos {
            queries = directions(queries);
            let norms = self.shards.iter().flat_map(ShardFile::rows).map(|row| row.norm);
            divisors = Some(norms.collect());
        }
        monitor.step("scores");
        let mut first = 0;
        let (mut values, mut scores) = (Mat::default(), Mat::default());
        for shard in &self.shards {
            for tile in 0..shard.tiles() {
                if monitor.interrupted() {
                    return Err(AttributeError::Interrupted);
                }
                let tile = shard.tile(tile)?;
                scores.reset(tile.rows().len(), queries.rows());
                for (layer, columns) in self.columns().into_iter().enumerate() {
                    tile.layer(layer, &mut values)?;
                    let (wide, of_layer) =
                        (values.cast(), queries.view().columns(columns.start, columns.len()));
                    let (rows, of_layer) = (Arg::Plain(wide.view()), Arg::Transposed(of_layer));
                    product(1.0, rows, of_layer, scores.view_mut(), Write::Add);
                }
                if let Some(divisors) = &divisors {
                    for row in 0..scores.rows() {
                        let divisor = divisors[first + row];
                        scores.row_mut(row).iter_mut().for_each(|score| *score /= divisor);
                    }
                }
                visit(first, &scores);
                first += tile.rows().len();
                tile.release();
                monitor.progress(first as u64, self.store.manifest().count as u64);
            }
        }
        Ok(())
    }

    /// The influence of every example on itself, `y_iᵀ (F + λ)⁻¹ y_i` summed over layers.
    ///
    /// # Errors
    /// As [`Self::scores`].
    pub fn self_influence(
        &self,
        damping: Damping,
        monitor: &mut dyn Monitor,
    ) -> Result<Vec<f64>, AttributeError> {
        let mut sums = vec![0.0; self.store.manifest().count];
        self.each_layer(monitor, &mut |layer, fisher| {
            self.add_self_influence(layer, fisher, damping, &mut sums)
        })?;
        Ok(sums)
    }

    /// Preconditions queries; returns the roots of self-influence, if the comparison needs them.
    fn precondition(
        &self,
        queries: &mut Mat<f64>,
        comparison: Comparison,
        damping: Damping,
        monitor: &mut dyn Monitor,
    ) -> Result<Option<Vec<f64>>, AttributeError> {
        let is_relative = matches!(comparison, Comparison::RelatIf(_));
        let mut sums = vec![0.0; self.store.manifest().count];
        let columns = self.columns();
        self.each_layer(monitor, &mut |layer, fisher| {
            let columns = columns[layer].clone();
            let mut part = queries.view().columns(columns.start, columns.len()).to_mat();
            fisher.precondition(&mut part, damping)?;
            for query in 0..queries.rows() {
                queries.row_mut(query)[columns.clone()].copy_from_slice(part.row(query));
            }
            match is_relative {
                true => self.add_self_influence(layer, fisher, damping, &mut sums),
                false => Ok(()),
            }
        })?;
        Ok(is_relative.then(|| sums.into_iter().map(f64::sqrt).collect()))
    }

    /// Decomposes the Fisher matrix of layer after layer, of which one is in memory at a time.
    fn each_layer(
        &self,
        monitor: &mut dyn Monitor,
        work: &mut dyn FnMut(usize, &Curvature) -> Result<(), AttributeError>,
    ) -> Result<(), AttributeError> {
        monitor.step("curvature");
        let layers = self.store.manifest().layers.len();
        for layer in 0..layers {
            if monitor.interrupted() {
                return Err(AttributeError::Interrupted);
            }
            work(layer, &Curvature::of_layer(self.store, &self.shards, layer)?)?;
            monitor.progress(layer as u64 + 1, layers as u64);
        }
        Ok(())
    }

    fn add_self_influence(
        &self,
        layer: usize,
        fisher: &Curvature,
        damping: Damping,
        sums: &mut [f64],
    ) -> Result<(), AttributeError> {
        let (mut values, mut first) = (Mat::default(), 0);
        for shard in &self.shards {
            for tile in 0..shard.tiles() {
                let tile = shard.tile(tile)?;
                tile.layer(layer, &mut values)?;
                let own = fisher.self_influence(&values.cast(), damping)?;
                let sums = sums[first..first + own.len()].iter_mut();
                sums.zip(&own).for_each(|(sum, own)| *sum += own);
                first += own.len();
            }
        }
        Ok(())
    }

    /// Where the numbers of each layer are in a row.
    fn columns(&self) -> Vec<std::ops::Range<usize>> {
        let mut end = 0;
        let layers = self.store.manifest().layers.iter();
        layers
            .map(|layer| {
                let start = end;
                end += layer.size;
                start..end
            })
            .collect()
    }
}

/// Rows over their lengths; a row of zeros stays.
fn directions(mut rows: Mat<f64>) -> Mat<f64> {
    for i in 0..rows.rows() {
        let row = rows.row_mut(i);
        let norm = row.iter().map(|number| number * number).sum::<f64>().sqrt();
        if norm > 0.0 {
            row.iter_mut().for_each(|number| *number /= norm);
        }
    }
    rows
}

#[cfg(test)]
mod tests;
