//! Laws of selections and reconstructions; selections against the plain way.

use super::gaussian::log_add;
use super::*;
use linwright_tensor::linalg::eigh;
use linwright_tensor::{MatRef, RngKey, parallel};

fn random(rows: usize, cols: usize, seed: u64, scale: f64) -> Mat<f32> {
    Mat::from_vec(rows, cols, RngKey::new(seed).stream().normals(rows * cols, scale))
}

fn quiet(_: usize, _: usize) -> bool {
    true
}

fn chosen(rows: &Mat<f32>, count: usize, criterion: &Criterion) -> Selected {
    select(rows.view(), count, criterion, &mut quiet).unwrap()
}

fn square(x: &[f32], y: &[f32]) -> f64 {
    x.iter().zip(y).map(|(x, y)| (f64::from(*x) - f64::from(*y)).powi(2)).sum()
}

/// The logarithm of the score of a set, from a decomposition of its kernel.
fn log_score(rows: &Mat<f32>, set: &[usize], criterion: &Criterion) -> f64 {
    let gamma = criterion.gamma.resolve(rows.view()).unwrap();
    let count = set.len() as f64;
    let kernel = Mat::from_fn(set.len(), set.len(), |i, j| {
        (-0.5 * gamma * square(rows.row(set[i]), rows.row(set[j]))).exp() / count
    });
    let order = if criterion.diversity == Diversity::One { Order::ONE } else { Order::TWO };
    let entropy = order.log_score(&eigh(kernel.view()).unwrap().values);
    if !criterion.quality {
        return entropy;
    }
    let zero = vec![0.0; rows.cols()];
    let logs = set.iter().map(|&row| -square(rows.row(row), &zero));
    entropy + logs.fold(f64::NEG_INFINITY, log_add) - count.ln()
}

/// The plain way: decompose everything. Of those within 1e-12 of the best, the first of the best
/// quality.
fn brute_force(rows: &Mat<f32>, count: usize, criterion: &Criterion) -> Vec<usize> {
    let mut set: Vec<usize> = Vec::new();
    for _ in 0..count {
        let mut scored = Vec::new();
        for row in (0..rows.rows()).filter(|row| !set.contains(row)) {
            let with = [&set[..], &[row]].concat();
            let score = log_score(rows, &with, criterion);
            scored.push((row, if criterion.goal == Goal::Most { score } else { -score }));
        }
        let best = scored.iter().fold(f64::NEG_INFINITY, |most, (_, score)| most.max(*score));
        let mut equal: Vec<usize> = scored
            .iter()
            .filter(|(_, score)| *score >= best - 1e-12)
            .map(|(row, _)| *row)
            .collect();
        if criterion.quality {
            let norm = |row: usize| square(rows.row(row), &vec![0.0; rows.cols()]);
            let sign = if criterion.goal == Goal::Most { 1.0 } else { -1.0 };
            let least = equal.iter().map(|&row| sign * norm(row)).fold(f64::INFINITY, f64::min);
            equal.retain(|&row| sign * norm(row) <= least + 1e-12 * least.abs().max(1.0));
        }
        set.push(equal[0]);
    }
    set
}

fn criteria(gamma: Gamma) -> Vec<Criterion> {
    let mut all = Vec::new();
    for diversity in Diversity::ALL {
        for goal in [Goal::Most, Goal::Least] {
            all.extend([false, true].map(|quality| Criterion { diversity, goal, gamma, quality }));
        }
    }
    all
}

#[test]
fn selections_equal_those_of_the_plain_way() {
    let mut compared = 0;
    for seed in 0..12 {
        let n = 6 + 2 * (seed as usize % 10);
        for (name, rows) in [
            ("random", random(n, 7, seed, 0.5)),
            ("near each other", random(n, 3, seed, 1e-3)),
            ("far apart", random(n, 9, seed, 2.0)),
            ("in clusters", {
                let (centres, noise) = (random(3, 5, seed, 1.0), random(n, 5, seed + 99, 0.05));
                Mat::from_fn(n, 5, |i, j| centres.at(i % 3, j) + noise.at(i, j))
            }),
        ] {
            let count = n.min(9);
            for gamma in [Gamma::Value(1.0), Gamma::Value(30.0), Gamma::Value(0.01), Gamma::Median]
            {
                for criterion in criteria(gamma) {
                    let found = chosen(&rows, count, &criterion);
                    let expected = brute_force(&rows, count, &criterion);
                    assert_eq!(found.indices, expected, "{name}, seed {seed}: {criterion:?}");
                    for (t, log) in found.log_scores.iter().enumerate() {
                        let exact = log_score(&rows, &expected[..=t], &criterion);
                        assert!(
                            (log - exact).abs() < 1e-11 * exact.abs().max(1.0),
                            "{log} {exact}"
                        );
                    }
                    compared += 1;
                }
            }
        }
    }
    assert_eq!(compared, 12 * 4 * 4 * 8);
}

#[test]
fn duplicates_and_zeros_go_to_the_lowest_index() {
    let base = random(4, 5, 3, 0.7);
    // Rows 0 to 3 three times, and rows whose numbers are permuted alike, of equal distances.
    let copies = Mat::from_fn(12, 5, |i, j| base.at(i % 4, j));
    let zeros = Mat::zeros(8, 3);
    let units = Mat::from_fn(9, 9, |i, j| if i == j { 0.6 } else { 0.0 });
    for criterion in criteria(Gamma::Value(1.0)) {
        for (name, rows) in [("copies", &copies), ("zeros", &zeros), ("units", &units)] {
            let found = chosen(rows, 7, &criterion);
            let expected = brute_force(rows, 7, &criterion);
            assert_eq!(found.indices, expected, "{name}: {criterion:?}");
        }
        assert_eq!(chosen(&zeros, 8, &criterion).indices, [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(chosen(&zeros, 8, &criterion).duplicates, 7);
        assert_eq!(chosen(&units, 9, &criterion).indices, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(chosen(&units, 9, &criterion).duplicates, 0);
        assert_eq!(chosen(&copies, 12, &criterion).duplicates, 8);
    }
}

#[test]
fn qualities_that_no_number_holds_still_decide() {
    // Norms of 100 to 1000: the largest quality is e^-10000, and all kernels are zero.
    let order = [4usize, 2, 7, 0, 1, 6, 3, 5];
    let rows = Mat::from_fn(8, 4, |i, j| {
        let place = order.iter().position(|&row| row == i).unwrap();
        if j == i % 4 { 100.0 + 128.0 * place as f32 } else { 0.0 }
    });
    for diversity in Diversity::ALL {
        let criterion = Criterion { diversity, quality: true, ..Criterion::default() };
        let found = chosen(&rows, 8, &criterion);
        assert_eq!(found.indices, order, "shortest first");
        assert!(found.log_scores[0] == -10_000.0 && found.scores[0] == 0.0);
        let least = Criterion { goal: Goal::Least, ..criterion };
        assert_eq!(chosen(&rows, 1, &least).indices, [5], "longest first");
    }
}

#[test]
fn selections_of_fewer_rows_are_the_beginning_of_longer_ones() {
    let rows = random(150, 12, 5, 0.3);
    for criterion in criteria(Gamma::Value(1.0)) {
        let long = chosen(&rows, 30, &criterion);
        let mut seen = long.indices.clone();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 30, "no row twice");
        assert!(criterion.quality || long.indices[0] == 0, "all rows alone are alike");
        for count in [1, 2, 17] {
            let short = chosen(&rows, count, &criterion);
            assert_eq!(short.indices, long.indices[..count]);
            assert_eq!(short.log_scores, long.log_scores[..count], "to the last bit");
        }
    }
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    let rows = random(500, 20, 6, 0.25);
    for criterion in criteria(Gamma::Median) {
        let with =
            |threads| parallel::with_threads(threads, || chosen(&rows, 25, &criterion)).unwrap();
        assert_eq!(with(1), with(3), "{criterion:?}");
    }
}

#[test]
fn permuted_rows_permute_the_choice() {
    let rows = random(60, 8, 7, 0.4);
    let to = RngKey::new(8).stream().permutation(60);
    let permuted = Mat::from_fn(60, 8, |i, j| rows.at(to[i] as usize, j));
    // With quality there is no tie at the first pick.
    let criterion = Criterion { quality: true, ..Criterion::default() };
    let (plain, moved) = (chosen(&rows, 20, &criterion), chosen(&permuted, 20, &criterion));
    let back: Vec<usize> = moved.indices.iter().map(|&row| to[row] as usize).collect();
    assert_eq!(plain.indices, back);
}

#[test]
fn bounds_exclude_candidates_and_change_nothing() {
    let rows = random(2000, 16, 9, 0.25);
    let found = chosen(&rows, 12, &Criterion::default());
    let Effort { spectra, excluded, .. } = found.effort;
    let candidates: u64 = (1..12).map(|t| 2000 - t).sum();
    assert_eq!(spectra + excluded, candidates);
    assert!(excluded > candidates / 2, "{:?}", found.effort);
    assert_eq!(found.indices, brute_force(&rows, 12, &Criterion::default()));
}

#[test]
fn impossible_selections_are_refused() {
    let rows = random(5, 3, 1, 1.0);
    let plain = Criterion::default();
    let refuse = |rows: &Mat<f32>, count, criterion: &Criterion| {
        select(rows.view(), count, criterion, &mut quiet).unwrap_err()
    };
    assert_eq!(refuse(&rows, 0, &plain), VendiError::Rank { asked: 0, rows: 5 });
    assert_eq!(refuse(&rows, 6, &plain), VendiError::Rank { asked: 6, rows: 5 });
    assert_eq!(refuse(&Mat::zeros(0, 3), 1, &plain), VendiError::Empty { what: "rows" });
    for gamma in [0.0, -1.0, f64::INFINITY] {
        let criterion = Criterion { gamma: Gamma::Value(gamma), ..plain };
        assert_eq!(refuse(&rows, 2, &criterion), VendiError::Gamma(gamma));
    }
    let median = Criterion { gamma: Gamma::Median, ..plain };
    assert_eq!(refuse(&Mat::zeros(5, 3), 2, &median), VendiError::NoScale);
    let mut bad = rows.clone();
    *bad.at_mut(3, 1) = f32::NAN;
    let refused = refuse(&bad, 2, &plain).to_string();
    assert!(refused.contains("row 3, column 1 is NaN"), "{refused}");
    let mut calls = 0;
    let stopped = select(rows.view(), 4, &plain, &mut |done, total| {
        calls += 1;
        assert_eq!((done, total), (calls - 1, 4));
        done < 2
    });
    assert_eq!((stopped.unwrap_err(), calls), (VendiError::Interrupted, 3));
}

#[test]
fn the_median_is_that_of_all_pairs_or_of_many() {
    let line = Mat::from_fn(4, 1, |i, _| [0.0, 1.0, 3.0, 7.0][i]);
    // Squared distances 1, 4, 9, 16, 36, 49.
    assert_eq!(Gamma::Median.resolve(line.view()), Ok(1.0 / 12.5));
    assert_eq!(Gamma::Median.resolve(random(1, 4, 1, 1.0).view()), Ok(1.0));
    let many = Gamma::Median.resolve(random(400, 50, 1, 1.0).view()).unwrap();
    assert!((many * 100.0 - 1.0).abs() < 0.05, "{many}: squared distances are about 100");
}

fn apart(a: MatRef<'_, f64>, b: MatRef<'_, f64>) -> f64 {
    let all = (0..a.rows()).flat_map(|i| a.row(i).iter().zip(b.row(i)));
    all.fold(0.0, |most: f64, (a, b)| most.max((a - b).abs()))
}

#[test]
fn reconstructions_are_orthogonal_projections() {
    for (n, d, r) in [(30, 12, 5), (12, 30, 7), (1100, 8, 8)] {
        let weight = random(n, d, 4, 0.5);
        let indices = chosen(&weight, r, &Criterion::default()).indices;
        let found = reconstruct(weight.view(), &indices).unwrap();
        let projected = found.apply(weight.view(), &indices);
        let wide = weight.cast::<f64>();
        for &row in &indices {
            assert_eq!(projected.row(row), wide.row(row), "chosen rows come back exactly");
        }
        let mut rest = wide.clone();
        rest.data_mut().iter_mut().zip(projected.data()).for_each(|(a, b)| *a -= b);
        let basis = Mat::from_fn(r, d, |i, j| wide.at(indices[i], j));
        let inner = multiply(rest.view().into(), Arg::Transposed(basis.view()));
        assert!(apart(inner.view(), Mat::zeros(n, r).view()) < 1e-12, "residuals are orthogonal");
        let again = reconstruct(projected.cast::<f32>().view(), &indices).unwrap();
        assert!(again.relative_residual < 1e-6, "idempotent");
        let norm = |m: &Mat<f64>| m.data().iter().map(|v| v * v).sum::<f64>().sqrt();
        assert!((found.relative_residual - norm(&rest) / norm(&wide)).abs() < 1e-14);
        assert!(found.condition >= 1.0 && found.condition < 1e3);
        if r == d {
            assert!(found.relative_residual < 1e-13, "a full span leaves nothing");
        }
    }
}

#[test]
fn nearly_dependent_rows_are_solved_and_dependent_ones_named() {
    let mut weight = random(20, 10, 5, 1.0);
    for j in 0..10 {
        *weight.at_mut(7, j) = weight.at(2, j);
        *weight.at_mut(8, j) = weight.at(2, j) + 1e-4 * weight.at(3, j);
    }
    let refused = reconstruct(weight.view(), &[1, 2, 5, 7, 9]).unwrap_err();
    assert_eq!(refused, VendiError::Dependent { row: 7, pick: 4 });
    let near = reconstruct(weight.view(), &[1, 2, 8]).unwrap();
    assert!(near.condition > 1e4, "{}", near.condition);
    let projected = near.apply(weight.view(), &[1, 2, 8]);
    let row = weight.cast::<f64>();
    let off = projected.row(3).iter().zip(row.row(3)).map(|(a, b)| (a - b).abs());
    assert!(off.fold(0.0, f64::max) < 1e-2, "row 3 is in the span up to rounding of row 8");
    let zeros = Mat::from_fn(4, 3, |i, j| if i == 2 { 0.0 } else { (i * j + 1) as f32 });
    let refused = reconstruct(zeros.view(), &[0, 2]).unwrap_err();
    assert_eq!(refused, VendiError::Dependent { row: 2, pick: 2 });
    let more = reconstruct(random(9, 3, 1, 1.0).view(), &[0, 1, 2, 3]).unwrap_err();
    assert_eq!(more, VendiError::Dependent { row: 3, pick: 4 });
}
