//! Totals of tensors by name pattern and by layer.

use super::record::{
    Group, LayerTotals, RowCounts, SpectralMeans, TensorRecord, Totals, ValueStatistics,
};
use crate::spectra::SpectralStatistics;
use std::collections::BTreeMap;

impl Totals {
    /// Totals over tensors.
    pub(crate) fn of<'a>(tensors: impl IntoIterator<Item = &'a TensorRecord>) -> Self {
        let mut totals = Self::default();
        for tensor in tensors {
            let RowCounts { zero, constant } = tensor.rows.unwrap_or_default();
            totals.tensors += 1;
            totals.parameters += tensor.parameters;
            totals.bytes += tensor.bytes;
            totals.nan += tensor.values.map_or(0, |values| values.nan);
            totals.infinite += tensor.values.map_or(0, |values| values.infinite);
            totals.zero_rows += zero;
            totals.constant_rows += constant;
            totals.duplicate_bytes += if tensor.same_as.is_some() { tensor.bytes } else { 0 };
        }
        totals
    }
}

/// Tensors grouped by name pattern, in the order of their first tensor.
pub(super) fn by_name(tensors: &[TensorRecord]) -> Vec<Group> {
    let mut members: Vec<(&str, Vec<&TensorRecord>)> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for tensor in tensors {
        let place = *places.entry(&tensor.group).or_insert(members.len());
        if place == members.len() {
            members.push((&tensor.group, Vec::new()));
        }
        members[place].1.push(tensor);
    }
    members.into_iter().map(|(name, tensors)| group(name, &tensors)).collect()
}

fn group(name: &str, tensors: &[&TensorRecord]) -> Group {
    let first = tensors[0];
    let alike = |same: &dyn Fn(&TensorRecord) -> bool| tensors.iter().all(|tensor| same(tensor));
    Group {
        name: name.to_owned(),
        dtype: alike(&|t| t.dtype == first.dtype).then(|| first.dtype.clone()),
        shape: alike(&|t| t.shape == first.shape).then(|| first.shape.clone()),
        totals: Totals::of(tensors.iter().copied()),
        values: values(tensors),
        spectra: SpectralMeans::of(tensors.iter().filter_map(|t| t.spectrum.as_deref()).collect())
            .map(Box::new),
    }
}

/// Statistics of all numbers together, by the law of total variance.
fn values(tensors: &[&TensorRecord]) -> Option<ValueStatistics> {
    let mut parts = Vec::new();
    for tensor in tensors {
        let values = tensor.values?;
        let finite = tensor.parameters - values.nan - values.infinite;
        parts.push((finite as f64, values));
    }
    let count = parts.iter().map(|(finite, _)| finite).sum::<f64>().max(1.0);
    let mean = parts.iter().map(|(finite, v)| finite * v.mean).sum::<f64>() / count;
    let spread = |v: &ValueStatistics| v.std * v.std + (v.mean - mean) * (v.mean - mean);
    let variance = parts.iter().map(|(finite, v)| finite * spread(v)).sum::<f64>() / count;
    Some(ValueStatistics {
        nan: parts.iter().map(|(_, v)| v.nan).sum(),
        infinite: parts.iter().map(|(_, v)| v.infinite).sum(),
        mean,
        std: variance.sqrt(),
        abs_max: parts.iter().map(|(_, v)| v.abs_max).fold(0.0, f32::max),
    })
}

impl SpectralMeans {
    /// Means over spectra; `None` if there are none.
    #[must_use]
    pub fn of(all: Vec<&SpectralStatistics>) -> Option<Self> {
        let some = |f: &dyn Fn(&SpectralStatistics) -> Option<f64>| {
            let values: Vec<f64> = all.iter().filter_map(|figures| f(figures)).collect();
            let sum: f64 = values.iter().sum();
            (!values.is_empty()).then(|| sum / values.len() as f64)
        };
        let mean = |f: &dyn Fn(&SpectralStatistics) -> f64| some(&|figures| Some(f(figures)));
        Some(Self {
            matrices: all.len(),
            frobenius_norm: mean(&|f| f.frobenius_norm)?,
            largest: mean(&|f| f.largest)?,
            stable_rank: mean(&|f| f.stable_rank)?,
            effective_rank: mean(&|f| f.effective_rank)?,
            rank_90: mean(&|f| f.rank_90 as f64)?,
            rank_95: mean(&|f| f.rank_95 as f64)?,
            rank_99: mean(&|f| f.rank_99 as f64)?,
            break_even_rank: mean(&|f| f.break_even_rank as f64)?,
            condition_number: some(&|f| f.condition_number),
            above_edge: some(&|f| f.noise.map(|noise| noise.above as f64)),
            alpha: some(&|f| f.power_law.map(|law| law.alpha)),
            vendi_score: mean(&|f| f.vendi_score)?,
        })
    }
}

/// Totals by layer, tensors without a layer first.
pub(super) fn by_layer(tensors: &[TensorRecord]) -> Vec<LayerTotals> {
    let mut layers: BTreeMap<Option<usize>, Vec<&TensorRecord>> = BTreeMap::new();
    for tensor in tensors {
        layers.entry(tensor.layer).or_default().push(tensor);
    }
    layers
        .into_iter()
        .map(|(layer, tensors)| LayerTotals { layer, totals: Totals::of(tensors) })
        .collect()
}
