//! Scores: the influence of every stored example on queries.
//!
//! `score(i, q) = Σ_l y_ilᵀ (F_l + λ_l)⁻¹ q_l` over layers, with the compressed gradient `y_i` of
//! the loss of example i and `q` of a query; without curvature `Σ_l ⟨y_il, q_l⟩` (GradDot).
//! Examples with a positive score are proponents: a step on the loss of example i lowers the
//! query's loss. Queries are preconditioned, a layer at a time, then the store is read once, from
//! its first example to its last. Sums are in f64.
//!
//! Sources: GraSS, arXiv:2505.18976; TracIn, arXiv:2002.08484, for GradDot; RelatIF,
//! arXiv:2003.11630, for the division by the root of self-influence.

use crate::AttributeError;
use crate::curvature::Curvature;
use crate::damping::{Damping, Precondition};
use crate::kronecker::Kronecker;
use crate::store::{GradientStore, ShardFile};
use linwright_run::Monitor;
use linwright_tensor::kernels::elementwise::all_finite;
use linwright_tensor::kernels::wide_products::WideRows;
use linwright_tensor::{Mat, parallel};
use std::collections::BTreeSet;
use std::ops::Range;

/// Tiles that are scored at a time, by all threads.
const TILES: usize = 8;

/// How gradients are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Comparison {
    /// Inner products.
    GradDot,
    /// Inner products of directions: cosines.
    GradCos,
    /// Influence by the curvature of the [`Geometry`].
    Influence(Damping),
    /// Influence over the root of the self-influence of the stored example.
    RelatIf(Damping),
}

impl Comparison {
    fn damping(self) -> Option<Damping> {
        match self {
            Self::GradDot | Self::GradCos => None,
            Self::Influence(damping) | Self::RelatIf(damping) => Some(damping),
        }
    }
}

/// The curvature by which influence is measured.
#[derive(Clone, Copy, Debug, Default)]
pub enum Geometry<'a> {
    /// The empirical Fisher matrix of each layer.
    #[default]
    Layers,
    /// One empirical Fisher matrix of all layers, as TRAK has.
    Whole,
    /// Products of the moments of inputs and gradients of each layer: K-FAC and EK-FAC.
    Kronecker(&'a [Kronecker]),
}

/// Callback for a block of layers and its curvature.
type OnBlock<'a> = dyn FnMut(Range<usize>, &dyn Precondition) -> Result<(), AttributeError> + 'a;

/// Queries prepared for a comparison.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The queries (queries, numbers of a gradient).
    queries: Mat<f64>,
    /// Divisors of the scores of the stored examples.
    divisors: Option<Vec<f64>>,
}

impl Prepared {
    /// The prepared queries (queries, numbers of a gradient): the score of a gradient is its inner
    /// product with them, up to the divisor of a stored example.
    #[must_use]
    pub fn queries(&self) -> &Mat<f64> {
        &self.queries
    }
}

/// A store for comparison with queries: its shards, and the range of numbers of each layer.
#[derive(Debug)]
pub struct Attribution<'a> {
    store: &'a GradientStore,
    shards: Vec<ShardFile>,
    geometry: Geometry<'a>,
    /// The shards whose examples are compared, by number; all if there are none.
    only: Option<BTreeSet<usize>>,
}

impl<'a> Attribution<'a> {
    /// Opens all shards of a store. Influence is that of [`Geometry::Layers`].
    ///
    /// # Errors
    /// As [`GradientStore::all_shards`].
    pub fn open(store: &'a GradientStore) -> Result<Self, AttributeError> {
        Ok(Self { store, shards: store.all_shards()?, geometry: Geometry::Layers, only: None })
    }

    /// Compares only the examples of some shards, by number. The curvature is still that of all
    /// examples, and their numbers are unchanged.
    #[must_use]
    pub fn only(self, shards: BTreeSet<usize>) -> Self {
        Self { only: Some(shards), ..self }
    }

    /// The same with another curvature.
    ///
    /// # Panics
    /// Unless there is one product of moments for each layer.
    #[must_use]
    pub fn in_geometry(mut self, geometry: Geometry<'a>) -> Self {
        if let Geometry::Kronecker(layers) = geometry {
            assert_eq!(layers.len(), self.store.manifest().layers.len(), "one for each layer");
        }
        self.geometry = geometry;
        self
    }

    /// Its shards.
    #[must_use]
    pub fn shards(&self) -> &[ShardFile] {
        &self.shards
    }

    /// The differentiated quantity of every example, summed or averaged like its gradient.
    #[must_use]
    pub fn values(&self) -> Vec<f64> {
        self.shards.iter().flat_map(ShardFile::rows).map(|row| row.loss).collect()
    }

    /// The stored gradients of some examples (examples, numbers of a gradient).
    ///
    /// # Errors
    /// Those of reading.
    ///
    /// # Panics
    /// If there is no such example.
    pub fn rows(&self, examples: &[usize]) -> Result<Mat<f32>, AttributeError> {
        let manifest = self.store.manifest();
        let mut found = Mat::zeros(examples.len(), manifest.size());
        let mut values = Mat::default();
        for (at, &example) in examples.iter().enumerate() {
            let shard = &self.shards[example / manifest.shard_rows];
            let row = example % manifest.shard_rows;
            let tile = shard.tile(row / manifest.tile_rows)?;
            for (layer, columns) in self.columns().into_iter().enumerate() {
                tile.layer(layer, &mut values)?;
                found.row_mut(at)[columns].copy_from_slice(values.row(row - tile.rows().start));
            }
        }
        Ok(found)
    }

    /// Prepares queries (queries, numbers of a gradient), from the maps of the store, for a
    /// comparison.
    ///
    /// # Errors
    /// Errors of reading and of [`Curvature::damping`], and [`AttributeError::Interrupted`].
    ///
    /// # Panics
    /// If the queries have other numbers.
    pub fn prepare(
        &self,
        queries: &Mat<f32>,
        comparison: Comparison,
        monitor: &mut dyn Monitor,
    ) -> Result<Prepared, AttributeError> {
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
        Ok(Prepared { queries, divisors })
    }

    /// Calls `visit` with the scores (examples of a tile, queries) of tile after tile, and the
    /// number of the first example.
    ///
    /// # Errors
    /// Those of [`Self::prepare`].
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
        let prepared = self.prepare(queries, comparison, monitor)?;
        self.scores_of(&prepared, monitor, visit)
    }

    /// As [`Self::scores`], for prepared queries.
    ///
    /// # Errors
    /// Errors of reading, and [`AttributeError::Interrupted`].
    pub fn scores_of(
        &self,
        prepared: &Prepared,
        monitor: &mut dyn Monitor,
        visit: &mut dyn FnMut(usize, &Mat<f64>),
    ) -> Result<(), AttributeError> {
        let all = vec![(0..self.columns().len()).collect()];
        self.scores_of_groups(prepared, &all, monitor, visit)
    }

    /// As [`Self::scores_of`], for each of several groups of layers, by number: the scores
    /// (examples of a tile, groups · queries) are those of all queries in the first group, then in
    /// the second. Scores of groups that divide the layers add up to the score.
    ///
    /// # Errors
    /// As [`Self::scores_of`].
    ///
    /// # Panics
    /// If there is no such layer.
    pub fn scores_of_groups(
        &self,
        prepared: &Prepared,
        groups: &[Vec<usize>],
        monitor: &mut dyn Monitor,
        visit: &mut dyn FnMut(usize, &Mat<f64>),
    ) -> Result<(), AttributeError> {
        monitor.step("scores");
        let of_layer = |columns: Range<usize>| {
            WideRows::new(prepared.queries.view().columns(columns.start, columns.len()))
        };
        let queries: Vec<WideRows> = self.columns().into_iter().map(of_layer).collect();
        let mut all: Vec<(usize, &ShardFile, usize)> = Vec::new();
        for (first, shard) in self.compared() {
            let tiles = 0..shard.tiles();
            all.extend(tiles.map(|tile| (first + shard.rows_of(tile).start, shard, tile)));
        }
        let (mut done, count): (usize, usize) =
            (0, all.iter().map(|(_, shard, t)| shard.rows_of(*t).len()).sum());
        for some in all.chunks(TILES) {
            if monitor.interrupted() {
                return Err(AttributeError::Interrupted);
            }
            let scored = parallel::map(some.to_vec(), |_, (first, shard, tile)| {
                self.tile_scores(shard, tile, &queries, groups).map(|scores| (first, scores))
            });
            for scores in scored {
                let (first, mut scores) = scores?;
                if let Some(divisors) = &prepared.divisors {
                    for row in 0..scores.rows() {
                        // An example of zeros has no direction and no influence.
                        let divisor = divisors[first + row];
                        match divisor == 0.0 {
                            true => scores.row_mut(row).fill(0.0),
                            false => scores.row_mut(row).iter_mut().for_each(|s| *s /= divisor),
                        }
                    }
                }
                self.check_finite(&scores, first, prepared)?;
                visit(first, &scores);
                done += scores.rows();
            }
            monitor.progress(done as u64, count as u64);
        }
        Ok(())
    }

    /// Rejects scores that are not finite, naming the layer responsible.
    fn check_finite(
        &self,
        scores: &Mat<f64>,
        first: usize,
        prepared: &Prepared,
    ) -> Result<(), AttributeError> {
        let Some(at) = scores.data().iter().position(|score| !score.is_finite()) else {
            return Ok(());
        };
        let (example, query) = (first + at / scores.cols(), at % scores.cols());
        let query = query % prepared.queries.rows().max(1);
        let layers = &self.store.manifest().layers;
        let parts = prepared.queries.row(query);
        let bad = self.columns().into_iter().position(|columns| !all_finite(&parts[columns]));
        let site = bad.map_or_else(|| "the sum of all layers".into(), |at| layers[at].site.clone());
        Err(AttributeError::Score { example, query, site })
    }

    /// The scores (examples, groups · queries) of a tile, which is checked.
    fn tile_scores(
        &self,
        shard: &ShardFile,
        tile: usize,
        queries: &[WideRows],
        groups: &[Vec<usize>],
    ) -> Result<Mat<f64>, AttributeError> {
        let count = queries.first().map_or(0, WideRows::count);
        let mut scores = Mat::zeros(shard.rows_of(tile).len(), groups.len() * count);
        shard.scan(tile, &mut |layer, first, rows| {
            let has_it = |(_, layers): &(usize, &Vec<usize>)| layers.contains(&layer);
            // The next block to scan follows in the file.
            let mut ahead = rows.rows() * rows.cols();
            for (group, _) in groups.iter().enumerate().filter(has_it) {
                let into = scores.view_mut().columns(group * count, count);
                let into = into.rows_range(first, rows.rows());
                queries[layer].add_products(rows, into, std::mem::take(&mut ahead));
            }
        })?;
        let tile = shard.tile_that_was_checked(tile);
        if !all_finite(scores.data()) {
            // Names the layer responsible.
            let mut values = Mat::default();
            (0..queries.len()).try_for_each(|layer| tile.layer(layer, &mut values))?;
        }
        tile.release();
        Ok(scores)
    }

    /// The contribution of each layer to the score of an example, stored or not: `gradient` times a
    /// prepared query, layer by layer.
    ///
    /// # Panics
    /// If there is no such query, or the gradient has other numbers.
    #[must_use]
    pub fn layer_parts(&self, prepared: &Prepared, query: usize, gradient: &[f32]) -> Vec<f64> {
        let query = prepared.queries.row(query);
        assert_eq!(gradient.len(), query.len(), "numbers of a gradient");
        let part = |columns: Range<usize>| {
            let pairs = gradient[columns.clone()].iter().zip(&query[columns]);
            pairs.map(|(a, b)| f64::from(*a) * b).sum()
        };
        self.columns().into_iter().map(part).collect()
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
        self.each_block(monitor, &mut |layers, curvature| {
            self.add_self_influence(layers, curvature, damping, &mut sums)
        })?;
        match sums.iter().position(|sum| !sum.is_finite()) {
            Some(example) => {
                let site = "the sum of all layers".into();
                Err(AttributeError::Score { example, query: example, site })
            }
            None => Ok(sums),
        }
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
        let all = self.columns();
        self.each_block(monitor, &mut |layers, curvature| {
            let columns = all[layers.start].start..all[layers.end - 1].end;
            let mut part = queries.view().columns(columns.start, columns.len()).to_mat();
            curvature.precondition(&mut part, damping)?;
            for query in 0..queries.rows() {
                queries.row_mut(query)[columns.clone()].copy_from_slice(part.row(query));
            }
            match is_relative {
                true => self.add_self_influence(layers, curvature, damping, &mut sums),
                false => Ok(()),
            }
        })?;
        // Rounding may give a negative value for an example without influence.
        Ok(is_relative.then(|| {
            sums.into_iter().map(|sum| if sum < 0.0 { 0.0 } else { sum.sqrt() }).collect()
        }))
    }

    /// Visits blocks of layers with their curvature, one in memory at a time.
    fn each_block(
        &self,
        monitor: &mut dyn Monitor,
        work: &mut OnBlock<'_>,
    ) -> Result<(), AttributeError> {
        monitor.step("curvature");
        let layers = self.store.manifest().layers.len();
        if let Geometry::Whole = self.geometry {
            return work(0..layers, &Curvature::of_layers(self.store, &self.shards, 0..layers)?);
        }
        for layer in 0..layers {
            if monitor.interrupted() {
                return Err(AttributeError::Interrupted);
            }
            match self.geometry {
                Geometry::Kronecker(all) => work(layer..layer + 1, &all[layer])?,
                Geometry::Layers | Geometry::Whole => {
                    let fisher = Curvature::saved_or_computed(self.store, &self.shards, layer)?;
                    work(layer..layer + 1, &fisher)?;
                }
            }
            monitor.progress(layer as u64 + 1, layers as u64);
        }
        Ok(())
    }

    fn add_self_influence(
        &self,
        layers: Range<usize>,
        curvature: &dyn Precondition,
        damping: Damping,
        sums: &mut [f64],
    ) -> Result<(), AttributeError> {
        let mut rows = Mat::default();
        for (mut first, shard) in self.compared() {
            for tile in 0..shard.tiles() {
                shard.tile(tile)?.layers(layers.clone(), &mut rows)?;
                let own = curvature.self_influence(&rows, damping)?;
                let sums = sums[first..first + own.len()].iter_mut();
                sums.zip(&own).for_each(|(sum, own)| *sum += own);
                first += own.len();
            }
        }
        Ok(())
    }

    /// The shards whose examples are compared, with the number of the first example.
    fn compared(&self) -> impl Iterator<Item = (usize, &ShardFile)> {
        let rows = self.store.manifest().shard_rows;
        let is_chosen = |number: usize| self.only.as_ref().is_none_or(|o| o.contains(&number));
        let all = self.shards.iter().enumerate().filter(move |(number, _)| is_chosen(*number));
        all.map(move |(number, shard)| (number * rows, shard))
    }

    /// Range of the numbers of each layer in a row.
    pub(crate) fn columns(&self) -> Vec<Range<usize>> {
        self.store.manifest().columns()
    }
}

/// Rows divided by their lengths; a row of zeros is unchanged.
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
