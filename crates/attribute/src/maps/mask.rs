//! Masks: some numbers of a vector, unscaled.
//!
//! `y[j] = x[index[j]]`, with indices in the order given: ascending for a random mask, by rank for
//! a selective one.
//!
//! | | |
//! |---|---|
//! | stored | `out` indices |
//! | time | `out` loads |
//!
//! Source: Hu et al. 2025, GraSS, arXiv:2505.18976. As there, a random mask is not scaled by
//! `√(inp/out)`, so inner products shrink by `out/inp` on average.

use super::{Rows, VectorMap, check_adjoint, check_part, check_shapes};
use crate::AttributeError;
use crate::map_file::{Content, Parts};
use linwright_tensor::kernels::select::select_columns;
use linwright_tensor::{MatMut, MatRef, RngKey};
use std::collections::BTreeSet;

/// `y[j] = x[index[j]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mask {
    inp: usize,
    indices: Vec<u32>,
    /// Position and index by ascending index, to find those of a part.
    by_index: Vec<(u32, u32)>,
}

impl Mask {
    pub(super) const KIND: &'static str = "mask";

    /// The mask of these indices, in this order.
    ///
    /// # Errors
    /// [`AttributeError::Map`] if there are none, one is not below `inp`, or one occurs twice.
    pub fn new(inp: usize, indices: Vec<u32>) -> Result<Self, AttributeError> {
        let parts = Parts::new(Self::KIND, inp);
        let mut by_index: Vec<(u32, u32)> =
            indices.iter().enumerate().map(|(place, &index)| (index, place as u32)).collect();
        by_index.sort_unstable();
        if let Some(&(index, _)) = by_index.last().filter(|(index, _)| *index as usize >= inp) {
            return Err(parts.refused(format!("index {index}"), format!("indices below {inp}")));
        }
        if let Some(pair) = by_index.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let found = format!("index {} twice", pair[0].0);
            return Err(parts.refused(found, "each index once".into()));
        }
        if indices.is_empty() {
            return Err(parts.refused("no indices".into(), "at least one".into()));
        }
        Ok(Self { inp, indices, by_index })
    }

    /// A uniformly random set of `out` indices, ascending; all of them if there are no more.
    ///
    /// # Errors
    /// [`AttributeError::Map`] for vectors or masks of no numbers.
    pub fn random(inp: usize, out: usize, key: RngKey) -> Result<Self, AttributeError> {
        if out >= inp {
            return Self::new(inp, (0..inp as u32).collect());
        }
        // Floyd's sampling without replacement, whose memory is that of the result.
        let (mut stream, mut chosen) = (key.stream(), BTreeSet::new());
        for last in inp - out..inp {
            let drawn = stream.below(last + 1) as u32;
            if !chosen.insert(drawn) {
                chosen.insert(last as u32);
            }
        }
        Self::new(inp, chosen.into_iter().collect())
    }

    /// A uniformly random set of aligned groups of `block` indices, ascending, the last of which
    /// may be truncated: much less memory is read for them.
    ///
    /// # Errors
    /// As [`Self::random`].
    pub fn random_groups(
        inp: usize,
        out: usize,
        block: usize,
        key: RngKey,
    ) -> Result<Self, AttributeError> {
        if block <= 1 || out >= inp {
            return Self::random(inp, out, key);
        }
        let order = key.stream().permutation(inp.div_ceil(block));
        let mut indices = Vec::with_capacity(out);
        for group in order {
            let start = group as usize * block;
            let count = block.min(inp - start).min(out - indices.len());
            indices.extend((start..start + count).map(|index| index as u32));
        }
        indices.sort_unstable();
        Self::new(inp, indices)
    }

    pub(super) fn read(parts: &Parts) -> Result<Self, AttributeError> {
        Self::new(parts.inp, parts.indices("idx")?)
    }
}

impl VectorMap for Mask {
    fn kind(&self) -> &'static str {
        Self::KIND
    }

    fn inp(&self) -> usize {
        self.inp
    }

    fn out(&self) -> usize {
        self.indices.len()
    }

    fn apply(&self, x: Rows<'_>, y: MatMut<'_, f32>) {
        check_shapes(self, &x, &y);
        select_columns(x.x, &self.indices, y);
    }

    fn add_part(&self, first: usize, part: &[f32], y: &mut [f32]) {
        check_part(self, first, part, y);
        let start = self.by_index.partition_point(|(index, _)| (*index as usize) < first);
        let within = self.by_index[start..].iter().map(|&(index, place)| (index as usize, place));
        for (index, place) in within.take_while(|(index, _)| *index < first + part.len()) {
            y[place as usize] += part[index - first];
        }
    }

    fn adjoint(&self, y: MatRef<'_, f32>, mut x: MatMut<'_, f32>) {
        check_adjoint(self, &y, &x);
        for i in 0..x.rows() {
            let row = x.row_mut(i);
            row.fill(0.0);
            for (&index, y) in self.indices.iter().zip(y.row(i)) {
                row[index as usize] = *y;
            }
        }
    }

    fn picks(&self) -> Option<&[u32]> {
        Some(&self.indices)
    }

    fn steps(&self) -> u64 {
        self.indices.len() as u64
    }

    fn bytes(&self) -> u64 {
        12 * self.indices.len() as u64
    }

    fn parts(&self) -> Parts {
        Parts::new(Self::KIND, self.inp).with("idx", Content::Indices(self.indices.clone()))
    }
}
