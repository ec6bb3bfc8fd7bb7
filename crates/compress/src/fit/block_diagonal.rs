//! Block-diagonal operators (BH1): every block is fitted separately.
//!
//! A block reads only its own features, so its least-squares solution is `D_kk S_kk⁺`, or for a
//! weight the block itself.

use super::kind::{Effort, KindFit, LeastSquares};
use super::regression::{Regression, solve_normal};
use super::{Context, Found, Procedure, assemble, work};
use crate::FitError;
use linwright_ops::{BlockHadamardSpec, OpSpec, Shape};
use linwright_tensor::{Mat, RngKey};

impl KindFit for BlockHadamardSpec {
    fn fit(
        &self,
        problem: &LeastSquares<'_, '_>,
        context: &mut Context<'_>,
    ) -> Result<Found, FitError> {
        match self.depth {
            1 => fit(problem.spec, problem.regression),
            _ => problem.trained(context),
        }
    }

    fn work(&self, effort: &Effort<'_>) -> Result<f64, FitError> {
        if self.depth != 1 {
            return effort.trained(effort.iterations);
        }
        let (out, inp) = work::sides(effort.shape);
        let (_, parameters) = work::cost(effort.spec, effort.shape)?;
        let columns = parameters / out;
        Ok(work::eigen(columns) * inp / columns + effort.error())
    }
}

fn fit(spec: &OpSpec, regression: &Regression<'_>) -> Result<Found, FitError> {
    let shape = regression.shape();
    let Shape { out, inp } = shape;
    let template = spec.random::<f64>(shape, RngKey::new(0))?;
    let blocks = template.map().params()[0].shape[0];
    let (rows, cols) = (out / blocks, inp / blocks);
    let mut weights = Vec::with_capacity(out * cols);
    let mut dense = Mat::zeros(out, inp);
    for k in 0..blocks {
        let cross = regression.cross().view().rows_range(k * rows, rows).columns(k * cols, cols);
        let block = if regression.second().is_some() {
            let columns = k * cols..(k + 1) * cols;
            let second = regression.second_block(columns.clone(), columns);
            solve_normal(second.view(), cross, "moments of a block")?
        } else {
            cross.to_mat()
        };
        dense.view_mut().rows_range(k * rows, rows).columns(k * cols, cols).copy_from(block.view());
        weights.extend(block.into_vec());
    }
    let op = assemble(spec, shape, &[&weights])?;
    Ok(Found { op, error: regression.error(&dense), procedure: Procedure::Closed, iterations: 0 })
}

#[cfg(test)]
mod tests {
    use crate::fit::planted::{assert_recovers, distance, fitted, noisy};
    use crate::fit::{FitOptions, Procedure, Target};
    use linwright_ops::{BlockHadamardSpec, OpSpec, Shape};
    use linwright_tensor::Mat;
    use linwright_tensor::kernels::gemm::Arg;

    fn spec(blocks: usize) -> OpSpec {
        OpSpec::BlockHadamard(BlockHadamardSpec { depth: 1, block: 64, blocks: Some(blocks) })
    }

    #[test]
    fn members_are_recovered() {
        assert_recovers(&spec(3), Shape { out: 9, inp: 6 });
        assert_recovers(&spec(2), Shape { out: 4, inp: 10 });
    }

    #[test]
    fn each_block_is_the_least_squares_of_its_own_features() {
        let (x, y) = noisy(Shape { out: 6, inp: 8 }, 4);
        let target = Target::Samples { x: x.view(), y: y.view() };
        let fit = fitted(&spec(2), &target, &FitOptions::default());
        assert_eq!(fit.procedure, Procedure::Closed);
        let found = fit.op.to_dense().expect("is linear");
        for k in 0..2 {
            let x = x.view().columns(4 * k, 4).to_mat();
            let y = y.view().columns(3 * k, 3).to_mat();
            let inputs = crate::fit::planted::inputs_of(&x);
            let cross =
                super::super::regression::multiply(Arg::Transposed(y.view()), x.view().into());
            let alone = super::Regression::of_moments(&inputs, cross.view(), 0.0).least_squares();
            let block = Mat::from_fn(3, 4, |i, j| found.at(3 * k + i, 4 * k + j));
            assert!(distance(&block, &alone) < 1e-10, "block {k}");
        }
    }
}
