//! Operators of a given size.

use crate::{FitError, Size, SizeError, Unit};
use linwright_ops::{OpSpec, Shape};
use linwright_tensor::RngKey;

/// The rank of two factors of a size. `values` are the singular values of the weight, for sizes
/// that need them.
///
/// # Errors
/// [`FitError::Size`] if the rank is zero, above the full rank, or at or above break-even, where
/// two factors have at least as many parameters as the dense weight.
pub fn low_rank_for(size: Size, shape: Shape, values: Option<&[f64]>) -> Result<usize, FitError> {
    let Shape { out, inp } = shape;
    let refuse = |reason: String| Err(FitError::Size { shape, reason });
    if let Err(error) = size.check_saves() {
        return refuse(error.to_string());
    }
    let largest = shape.largest_rank();
    let rank = size.rank(shape, values)?;
    if rank == 0 {
        return refuse(format!(
            "{size} leaves rank 0; at least {:.4} of the parameters are needed",
            (out + inp) as f64 / (out * inp) as f64
        ));
    }
    if rank > largest {
        return refuse(format!(
            "rank {rank} has {} parameters, the dense weight {}; the largest rank with fewer parameters is {largest}",
            rank.saturating_mul(out + inp),
            out * inp
        ));
    }
    Ok(rank)
}

/// As [`low_rank_for`], or an upper bound while the singular values are not known.
pub(crate) fn rank_bound(
    size: Size,
    shape: Shape,
    values: Option<&[f64]>,
) -> Result<usize, FitError> {
    match (size.needs_values(), values) {
        (true, None) => Ok(shape.largest_rank().max(1)),
        _ => low_rank_for(size, shape, values),
    }
}

/// Units of the sizes that an operator of a kind can have.
pub(crate) fn units_of(spec: &OpSpec) -> &'static [Unit] {
    if spec.with_rank(1).is_some() { &Unit::ALL } else { &[Unit::Keep] }
}

/// The operator of a kind with a size. A share of parameters gives the one whose number of
/// parameters is nearest; of two equally near, the smaller. Each kind has its own set of sizes,
/// which may all be far from the share; [`OpSpec::cost`] gives the actual number. The other units
/// give a rank, which must save parameters; it is an upper bound while `values`, the singular
/// values of the weight, are needed and not given.
///
/// # Errors
/// [`FitError::Size`] if the kind has no such size for the shape, or the size is out of range.
pub fn operator_for(
    spec: &OpSpec,
    size: Size,
    shape: Shape,
    values: Option<&[f64]>,
) -> Result<OpSpec, FitError> {
    let refuse = |error: SizeError| FitError::Size { shape, reason: error.to_string() };
    size.check_saves().map_err(refuse)?;
    let Some(keep) = size.keep() else {
        let rank = rank_bound(size, shape, values)?;
        let (method, takes) = (spec.kind().to_owned(), units_of(spec));
        let ranked = spec.with_rank(rank);
        return ranked.ok_or_else(|| refuse(SizeError::Unit { method, size, takes }));
    };
    let asked = keep * shape.dense_parameters() as f64;
    let mut sizes: Vec<(u64, OpSpec)> =
        spec.sizes(shape).into_iter().map(|spec| (parameters(&spec, shape), spec)).collect();
    let far = |numbers: u64| (numbers as f64 - asked).abs();
    sizes.sort_by(|(a, _), (b, _)| far(*a).total_cmp(&far(*b)).then(a.cmp(b)));
    let mut refused = None;
    for (_, spec) in sizes {
        match spec.random::<f32>(shape, RngKey::new(0)) {
            Ok(_) => return Ok(spec),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    Err(refused.map_or_else(
        || FitError::Size { shape, reason: format!("{} has no size here", spec.kind()) },
        FitError::Operator,
    ))
}

/// Number of parameters of an operator of a shape, from the specification. Operators with
/// permutations and signs, which do not count, are small enough to be built and counted.
fn parameters(spec: &OpSpec, shape: Shape) -> u64 {
    let numbers = spec.numbers(shape);
    match spec.counts_indices() {
        true => spec.cost(shape).map_or(numbers, |cost| cost.parameters as u64),
        false => numbers,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_ops::{DiagonalLowRankSpec, LowRankSpec, SumSpec};

    const SHAPE: Shape = Shape { out: 128, inp: 256 };

    #[test]
    fn keep_buys_at_most_its_share() {
        for keep in [0.05, 0.3, 0.5, 0.8, 0.99] {
            let rank = low_rank_for(Size::Keep(keep), SHAPE, None).expect("a rank");
            assert!(
                (rank * 384) as f64 <= keep * 32768.0 && ((rank + 1) * 384) as f64 > keep * 32768.0
            );
        }
    }

    #[test]
    fn ranks_past_break_even_and_shares_outside_the_open_interval_are_refused() {
        assert!(low_rank_for(Size::Rank(85), SHAPE, None).is_ok());
        for size in [
            Size::Rank(86),
            Size::Rank(0),
            Size::Keep(0.0),
            Size::Keep(1.0),
            Size::Keep(f64::NAN),
            Size::Keep(1e-6),
            Size::Rho(0.9),
            Size::Rate(10.0),
        ] {
            assert!(
                matches!(low_rank_for(size, SHAPE, None), Err(FitError::Size { .. })),
                "{size:?}"
            );
        }
    }

    #[test]
    fn every_kind_takes_the_size_nearest_to_a_share_first() {
        let square = Shape { out: 64, inp: 64 };
        for spec in OpSpec::examples().into_iter().map(|(spec, _)| spec) {
            let Ok(chosen) = operator_for(&spec, Size::Keep(0.3), square, None) else { continue };
            let far = |spec: &OpSpec| {
                let cost = spec.cost(square).expect("exists");
                (cost.keep - 0.3).abs()
            };
            let (kind, chosen) = (spec.kind(), far(&chosen));
            assert_eq!(
                operator_for(&spec, Size::Keep(0.3), square, None).expect("exists").kind(),
                kind
            );
            for other in spec.sizes(square).iter().filter(|spec| spec.cost(square).is_ok()) {
                // Products of them also store permutations and signs, which are not parameters.
                assert!(chosen <= far(other) + 0.02, "{kind}: {chosen} is not nearest: {other:?}");
            }
        }
    }

    #[test]
    fn kinds_with_many_sizes_come_near_a_share_and_others_as_near_as_they_can() {
        let shape = Shape { out: 128, inp: 256 };
        let of = |kind: &str, keep: f64, shape: Shape| {
            let spec = match kind {
                "diagonal_low_rank" => OpSpec::DiagonalLowRank(DiagonalLowRankSpec { rank: 1 }),
                kind => OpSpec::default_of(kind).expect("has defaults"),
            };
            let spec = operator_for(&spec, Size::Keep(keep), shape, None).expect("exists");
            spec.cost(shape).expect("exists").keep
        };
        for keep in [0.1, 0.3, 0.6] {
            for (kind, off) in [("diagonal_low_rank", 0.01), ("kronecker", 0.01), ("monarch", 0.2)]
            {
                let found = of(kind, keep, shape);
                assert!((found - keep).abs() <= off, "{kind}: {found}, asked {keep}");
            }
        }
        assert_eq!(of("block_hadamard", 0.3, shape), 0.25);
        assert!(of("rotor_network", 0.5, shape) < 0.1, "a network has few parameters at any size");
        let square = Shape { out: 64, inp: 64 };
        assert_eq!(of("butterfly", 0.99, square), 2.0 * 64.0 * 12.0 / 4096.0);
        assert_eq!(of("circulant_diagonal", 0.05, square), 3.0 * 64.0 / 4096.0);
        let butterfly = OpSpec::default_of("butterfly").expect("has defaults");
        assert!(operator_for(&butterfly, Size::Keep(0.3), shape, None).is_err(), "it is square");
        for keep in [0.0, 1.0, -0.5, f64::NAN] {
            let error = operator_for(&butterfly, Size::Keep(keep), square, None);
            let error = error.expect_err("no share").to_string();
            assert!(error.contains("between 0 and 1"), "{error}");
        }
        let terms = vec![butterfly, OpSpec::LowRank(LowRankSpec { rank: 1 })];
        let sum = operator_for(&OpSpec::Sum(SumSpec { terms }), Size::Keep(0.5), square, None)
            .expect("exists");
        let reached = sum.cost(square).expect("exists").keep;
        assert!((reached - 0.5).abs() < 0.02, "{sum:?} has {reached}");
    }
}
