//! One weight at several ranks, each of which reuses the products of the smaller ones.

use linwright_ops::{Backward, LinearOp, Map, Op, OpSpec, Param, ParamMut, Shape, Tape, Workspace};
use linwright_tensor::kernels::gemm::{Arg, Write, product};
use linwright_tensor::linalg::Components;
use linwright_tensor::{Mat, MatMut, MatRef};
use std::sync::{Arc, Mutex, PoisonError};

/// Data shared by all ranks of a weight.
#[derive(Debug)]
struct Shared {
    components: Components,
    /// Ranks, ascending.
    ranks: Vec<usize>,
    last: Mutex<Last>,
}

/// Products of the last call. They are reused if the next call has the same input; the result does
/// not depend on that, since sums run over the same blocks in the same order.
#[derive(Debug, Default)]
struct Last {
    /// Input (rows, inp); empty before the first call.
    x: Mat<f32>,
    /// Projections of the input on the components, (rows, largest rank).
    z: Mat<f32>,
    /// Sum over the ranks below `levels`, (rows, out).
    y: Mat<f32>,
    levels: usize,
}

/// A weight truncated to one of several ranks, for sweeps: `y = Σ_{k<r} left_k (right_k x)`, summed
/// in blocks from rank to rank. On the same input, all ranks together cost as much as the largest
/// one. It cannot be archived; a low-rank operator is saved instead.
#[derive(Clone, Debug)]
pub struct NestedRanks {
    shared: Arc<Shared>,
    level: usize,
}

impl NestedRanks {
    /// A weight at each of some ranks, which ascend from at least 1.
    ///
    /// # Panics
    /// If ranks do not ascend, from at least 1 to at most the number of components.
    #[must_use]
    #[track_caller]
    pub fn all(mut components: Components, ranks: &[usize]) -> Vec<Self> {
        let largest = ranks.last().copied().unwrap_or(0);
        assert!(
            ranks.is_sorted_by(|a, b| a < b) && ranks.first().is_none_or(|r| *r > 0),
            "{ranks:?}"
        );
        assert!(largest <= components.values.len(), "rank {largest}");
        components.truncate(largest);
        let last = Mutex::new(Last::default());
        let shared = Arc::new(Shared { components, ranks: ranks.to_vec(), last });
        (0..ranks.len()).map(|level| Self { shared: Arc::clone(&shared), level }).collect()
    }

    fn rank(&self) -> usize {
        self.shared.ranks[self.level]
    }
}

impl Map<f32> for NestedRanks {
    fn spec(&self) -> OpSpec {
        OpSpec::External { name: "nested_ranks" }
    }

    fn shape(&self) -> Shape {
        let Components { left, right, .. } = &self.shared.components;
        Shape { out: left.rows(), inp: right.cols() }
    }

    fn macs_per_row(&self) -> u64 {
        let Shape { out, inp } = self.shape();
        (self.rank() * (out + inp)) as u64
    }

    fn params(&self) -> Vec<Param<'_, f32>> {
        Vec::new()
    }

    fn params_mut(&mut self) -> Vec<ParamMut<'_, f32>> {
        Vec::new()
    }

    fn forward(
        &self,
        x: MatRef<'_, f32>,
        mut y: MatMut<'_, f32>,
        _tape: Option<&mut Tape<f32>>,
        _ws: &mut Workspace<f32>,
    ) {
        let Shared { components: Components { left, right, .. }, ranks, last } = &*self.shared;
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        let rows = x.rows();
        if !same(&last.x, x) {
            last.x.resize(rows, x.cols());
            last.x.view_mut().copy_from(x);
            last.z.resize(rows, right.rows());
            let z = last.z.view_mut();
            product(1.0, Arg::Plain(x), Arg::Transposed(right.view()), z, Write::Set);
            last.levels = 0;
        }
        if last.levels > self.level + 1 {
            last.levels = 0;
        }
        let Last { z, y: sum, levels, .. } = &mut *last;
        while *levels <= self.level {
            let from = levels.checked_sub(1).map_or(0, |below| ranks[below]);
            let count = ranks[*levels] - from;
            let (part, basis) = (z.view().columns(from, count), left.view().columns(from, count));
            let write = if *levels == 0 { Write::Set } else { Write::Add };
            if *levels == 0 {
                sum.resize(rows, left.rows());
            }
            product(1.0, Arg::Plain(part), Arg::Transposed(basis), sum.view_mut(), write);
            *levels += 1;
        }
        y.copy_from(sum.view());
    }

    fn backward(&self, args: Backward<'_, '_, f32>, _ws: &mut Workspace<f32>) {
        let Components { left, right, .. } = &self.shared.components;
        let rank = self.rank();
        if let Some(dx) = args.dx {
            let mut inner = Mat::zeros(args.dy.rows(), rank);
            let basis = left.view().columns(0, rank);
            product(1.0, Arg::Plain(args.dy), Arg::Plain(basis), inner.view_mut(), Write::Set);
            let rows = right.view().rows_range(0, rank);
            product(1.0, Arg::Plain(inner.view()), Arg::Plain(rows), dx, Write::Set);
        }
    }

    fn clone_op(&self) -> Op<f32> {
        Op::Linear(Box::new(self.clone()))
    }
}

impl LinearOp<f32> for NestedRanks {}

/// Whether two matrices are equal in every bit.
fn same(a: &Mat<f32>, b: MatRef<'_, f32>) -> bool {
    let equal = |i: usize| a.row(i).iter().zip(b.row(i)).all(|(a, b)| a.to_bits() == b.to_bits());
    (a.rows(), a.cols()) == (b.rows(), b.cols()) && (0..a.rows()).all(equal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_ops::LowRank;
    use linwright_tensor::RngKey;

    #[test]
    fn every_rank_is_the_low_rank_operator_and_its_bits_do_not_depend_on_what_came_before() {
        let key = RngKey::new(3);
        let random = |rows, cols, seed| {
            Mat::from_vec(rows, cols, key.fold_index(seed).stream().normals(rows * cols, 1.0))
        };
        let weight = random(20, 12, 1);
        let all = Components::of(weight.view()).unwrap();
        let ranks = [1, 2, 5, 12];
        let nested = NestedRanks::all(all.clone(), &ranks);
        let run = |op: &dyn Map<f32>, x: &Mat<f32>| {
            let mut y = Mat::zeros(x.rows(), 20);
            op.forward(x.view(), y.view_mut(), None, &mut Workspace::default());
            y
        };
        let (first, second) = (random(7, 12, 2), random(9, 12, 3));
        let mut expected = Vec::new();
        for (op, rank) in nested.iter().zip(ranks) {
            let (u, v) = all.chosen(&(0..rank).collect::<Vec<_>>());
            let plain = run(&LowRank::new(u, v), &first);
            let found = run(op, &first);
            let off = found.data().iter().zip(plain.data()).map(|(a, b)| (a - b).abs());
            assert!(off.fold(0.0, f32::max) < 1e-4, "rank {rank}");
            assert_eq!(op.macs_per_row(), (rank * 32) as u64);
            expected.push(found);
        }
        for order in [vec![3, 0, 2, 2, 1], vec![1, 3, 0]] {
            for level in order {
                assert_eq!(run(&nested[level], &first), expected[level], "level {level}");
                run(&nested[level], &second);
            }
        }
        // Without cached products.
        let fresh = NestedRanks::all(all, &ranks);
        assert_eq!(run(&fresh[2], &first), expected[2]);
    }

    #[test]
    fn the_gradient_of_the_input_is_that_of_the_product() {
        let weight: Mat<f32> = Mat::from_vec(4, 3, RngKey::new(1).stream().normals(12, 1.0));
        let nested = NestedRanks::all(Components::of(weight.view()).unwrap(), &[2]);
        let dense = nested[0].to_dense();
        let dy = Mat::from_fn(2, 4, |i, j| (i + 2 * j) as f32);
        let (x, mut dx) = (Mat::zeros(2, 3), Mat::zeros(2, 3));
        let args = Backward {
            x: x.view(),
            dy: dy.view(),
            tape: &Tape::default(),
            dx: Some(dx.view_mut()),
            grads: None,
        };
        nested[0].backward(args, &mut Workspace::default());
        for i in 0..2 {
            for j in 0..3 {
                let want: f32 = (0..4).map(|o| dy.at(i, o) * dense.at(o, j)).sum();
                assert!((dx.at(i, j) - want).abs() < 1e-4);
            }
        }
    }
}
