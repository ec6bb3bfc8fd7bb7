//! Prefill: many queries. Scores of blocks of keys with columns of queries, through the tiles of
//! the matrix product.
//!
//! Everything is transposed, with one query per lane: `Sᵀ = K Qᵀ`, then `Oᵀ += Vᵀ Pᵀ`. So maxima
//! and sums are lane-wise, the exponentials are the right factor of the next product without
//! repacking, and keys and values, the left factors, are packed once for all queries of a work
//! item. A column holds the queries of all heads that share a key.

use super::softmax::{RunningSoftmax, WIDTH, cap, hide, multiply, powers};
use super::{Attention, Results, Sequence};
use crate::kernels::gemm::panels::{Columns, PanelsRef};
use crate::kernels::gemm::{Arg, Destination, Write, product_on_this_thread as product};
use crate::kernels::transpose::{from_columns, to_columns};
use crate::parallel;
use crate::{MatMut, MatRef, Scratch};
use std::f32::consts::LOG2_E;
use std::ops::Range;

/// Keys per block: eight panels of the highest tile. Their scores stay in the first-level cache.
const KEYS: usize = 112;
/// Size of the key and value blocks that a column passes while it is in the first-level cache, and
/// number of columns that pass while the blocks are in the second-level cache.
const STRETCH: usize = 1 << 17;
const ROUND: usize = 8;
/// Columns per work item, each of which packs keys and values for itself.
const PIECE: usize = 32;

/// Attends with the queries of sequences.
pub(super) fn forward(
    attention: &Attention,
    query: MatRef<'_, f32>,
    sequences: &[&Sequence<'_>],
    results: &Results<'_>,
) {
    let mut pieces = Vec::new();
    for &sequence in sequences {
        let columns = (sequence.queries.len() * attention.group()).div_ceil(WIDTH);
        for kv_head in 0..attention.kv_heads {
            let heads = Heads { attention, query, sequence, kv_head };
            // The last columns have the most keys and start first.
            for first in (0..columns).step_by(PIECE).rev() {
                pieces.push((heads, first..columns.min(first + PIECE)));
            }
        }
    }
    parallel::for_each(pieces, |_, (heads, columns)| heads.attend(columns, results));
}

/// The query heads of one sequence that share a key and value head.
#[derive(Clone, Copy)]
struct Heads<'a> {
    attention: &'a Attention,
    query: MatRef<'a, f32>,
    sequence: &'a Sequence<'a>,
    kv_head: usize,
}

/// A column of queries during its pass over the keys.
struct Column<'a> {
    /// First key and end of the keys of each query; unused lanes repeat the last query.
    from: [i32; WIDTH],
    to: [i32; WIDTH],
    attended: RunningSoftmax,
    /// Queries (head_dim, WIDTH).
    query: &'a [f32],
    /// Whether its first block is still to come, before which the sums are uninitialised.
    fresh: bool,
    /// Sums of values (head_dim, WIDTH), weighted by the exponentials.
    sums: &'a mut [f32],
}

/// A block of keys and values.
struct Block<'a> {
    positions: Range<usize>,
    /// (keys, head_dim).
    keys: Factor<'a>,
    /// (head_dim, keys).
    values: Factor<'a>,
}

/// A left factor: packed on machines with tiles.
#[derive(Clone, Copy)]
enum Factor<'a> {
    Packed(PanelsRef<'a>),
    Plain(Arg<'a, f32>),
}

impl<'a> Factor<'a> {
    fn new(matrix: Arg<'a, f32>, memory: &'a mut [f32]) -> Self {
        PanelsRef::pack(matrix, memory).map_or(Self::Plain(matrix), Self::Packed)
    }

    /// Product of a leading part of the factor with columns, times a constant.
    fn times(self, rows: usize, depth: usize, x: &[f32], to: Destination<'_, f32>) {
        match self {
            Self::Packed(panels) => {
                let columns = Columns { groups: 1, run: WIDTH, group: 0, row: WIDTH };
                panels.corner(rows, depth).apply(columns, x, to);
            }
            Self::Plain(matrix) => {
                let Destination { y, scale, write } = to;
                let corner = match matrix {
                    Arg::Plain(m) => Arg::Plain(m.rows_range(0, rows).columns(0, depth)),
                    Arg::Transposed(m) => Arg::Transposed(m.rows_range(0, depth).columns(0, rows)),
                };
                let x = MatRef::new(&x[..depth * WIDTH], depth, WIDTH);
                let y = MatMut::new(&mut y[..rows * WIDTH], rows, WIDTH);
                product(scale, corner, x.into(), y, write);
            }
        }
    }
}

impl<'a> Heads<'a> {
    /// Computes attention for the queries of some columns.
    fn attend(self, columns: Range<usize>, results: &Results<'_>) {
        let dim = self.attention.head_dim;
        let attended = self.attended(columns.clone());
        let first = attended.start - attended.start % KEYS;
        let blocks = attended.end.saturating_sub(first).div_ceil(KEYS);
        let [of_keys, of_values] =
            [(KEYS, dim), (dim, KEYS)].map(|(rows, depth)| PanelsRef::numbers(rows, depth).max(1));
        let mut memory = Scratch::new(blocks * (of_keys + of_values));
        let blocks: Vec<_> = memory
            .chunks_exact_mut(of_keys + of_values)
            .zip((first..).step_by(KEYS))
            .map(|(memory, start)| {
                let (of_keys, of_values) = memory.split_at_mut(of_keys);
                let (key, value) = (self.sequence.key, self.sequence.value);
                let count = KEYS.min(attended.end - start);
                let rows = |mat: MatRef<'a, f32>| {
                    mat.rows_range(start, count).columns(self.kv_head * dim, dim)
                };
                Block {
                    positions: start..start + count,
                    keys: Factor::new(Arg::Plain(rows(key)), of_keys),
                    values: Factor::new(Arg::Transposed(rows(value)), of_values),
                }
            })
            .collect();
        let mut memory = Scratch::new(2 * ROUND * dim * WIDTH);
        let mut scores = Scratch::new(KEYS * WIDTH);
        let mut rows = Scratch::new(WIDTH * dim);
        for first in columns.clone().step_by(ROUND) {
            let indices = first..columns.end.min(first + ROUND);
            let mut round: Vec<_> = indices
                .clone()
                .zip(memory.chunks_exact_mut(2 * dim * WIDTH))
                .map(|(column, memory)| self.column(column, &mut rows, memory))
                .collect();
            for stretch in blocks.chunks((STRETCH / (2 * KEYS * dim)).max(1)) {
                for column in &mut round {
                    for block in stretch {
                        self.pass(block, column, &mut scores);
                    }
                }
            }
            for (index, column) in indices.zip(round) {
                self.finish(index, column, &mut rows, results);
            }
        }
    }

    /// Rows and heads of the queries of a column.
    fn members(self, column: usize) -> impl Iterator<Item = (usize, usize)> {
        let group = self.attention.group();
        let end = self.sequence.queries.len() * group;
        let members = column * WIDTH..end.min((column + 1) * WIDTH);
        members.map(move |member| (member / group, self.kv_head * group + member % group))
    }

    /// Positions of the keys that any query of some columns attends to.
    fn attended(self, columns: Range<usize>) -> Range<usize> {
        let (queries, keys) = (self.sequence.queries.len(), self.sequence.key.rows());
        let group = self.attention.group();
        let last = (columns.end * WIDTH).min(queries * group) - 1;
        let of = |member: usize| self.attention.attended(member / group, queries, keys);
        of(columns.start * WIDTH).start..of(last).end
    }

    /// A new column; `rows` is working memory.
    fn column<'m>(self, column: usize, rows: &mut [f32], memory: &'m mut [f32]) -> Column<'m> {
        let dim = self.attention.head_dim;
        let (queries, keys) = (self.sequence.queries.len(), self.sequence.key.rows());
        let (mut from, mut to) = ([0; WIDTH], [0; WIDTH]);
        let mut count = 0;
        for ((row, head), target) in self.members(column).zip(rows.chunks_exact_mut(dim)) {
            let query = self.query.row(self.sequence.queries.start + row);
            target.copy_from_slice(&query[head * dim..][..dim]);
            let attended = self.attention.attended(row, queries, keys);
            from[count..].fill(attended.start as i32);
            to[count..].fill(attended.end as i32);
            count += 1;
        }
        rows[count * dim..].fill(0.0);
        let (query, sums) = memory.split_at_mut(dim * WIDTH);
        to_columns(MatRef::new(rows, WIDTH, dim), WIDTH, query);
        Column { from, to, attended: RunningSoftmax::empty(), query, fresh: true, sums }
    }

    /// Adds a block of keys to a column.
    fn pass(self, block: &Block<'_>, column: &mut Column<'_>, scores: &mut [f32]) {
        let Attention { head_dim: dim, scale, softcap, .. } = *self.attention;
        let Range { start, end } = block.positions;
        let (from, to) = (column.from.map(|k| k as usize), column.to.map(|k| k as usize));
        let last = end.min(to[WIDTH - 1]);
        if from[0] >= end || last <= start {
            return;
        }
        let count = last - start;
        let factor = softcap.map_or(scale * LOG2_E, |cap| scale / cap);
        let scores = &mut scores[..count * WIDTH];
        let products = Destination { y: &mut *scores, scale: factor, write: Write::Set };
        block.keys.times(count, dim, column.query, products);
        if let Some(most) = softcap {
            cap(scores, most);
        }
        if from[WIDTH - 1] > start || to[0] < last {
            hide(scores, start, &column.from, &column.to);
        }
        let changes = powers(scores, &mut column.attended);
        let write = if column.fresh { Write::Set } else { Write::Add };
        if write == Write::Add && changes != [1.0; WIDTH] {
            multiply(column.sums, &changes);
        }
        let sums = Destination { y: &mut *column.sums, scale: 1.0, write };
        block.values.times(dim, count, scores, sums);
        column.fresh = false;
    }

    /// Writes the results of a column's queries; `rows` is working memory.
    #[allow(unsafe_code, reason = "pieces of work write disjoint parts of one matrix")]
    fn finish(self, index: usize, column: Column<'_>, rows: &mut [f32], results: &Results<'_>) {
        let dim = self.attention.head_dim;
        if column.fresh {
            column.sums.fill(0.0);
        }
        multiply(column.sums, &column.attended.shares());
        from_columns(column.sums, WIDTH, &mut MatMut::new(rows, WIDTH, dim));
        for (k, ((row, head), from)) in self.members(index).zip(rows.chunks_exact(dim)).enumerate()
        {
            let row = self.sequence.queries.start + row;
            // SAFETY: sequences have rows of their own, and each column belongs to one piece of
            // work.
            unsafe { results.write(row, head, from, column.attended.log_sum(k)) };
        }
    }
}
