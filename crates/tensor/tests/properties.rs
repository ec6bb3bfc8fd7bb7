//! Kernels against their definition at random extents, widths and strides. A case that breaks
//! shrinks to a small one. Every run tries the same cases.

use linwright_tensor::kernels::circulant::{CirculantChain, CyclicTransform};
use linwright_tensor::kernels::gemm::{ColumnBlocks, Destination, Direction, Order, Write};
use linwright_tensor::kernels::hadamard;
use linwright_tensor::kernels::transpose::{from_columns, to_columns};
use linwright_tensor::{Mat, RngKey, Scalar};
use proptest::prelude::{ProptestConfig, Strategy, any, prop_assert, prop_assert_eq};
use proptest::test_runner::{RngSeed, TestCaseError};
use std::sync::Arc;

type Law = Result<(), TestCaseError>;

fn config() -> ProptestConfig {
    let rng_seed = RngSeed::Fixed(20_251_121);
    ProptestConfig { cases: 192, rng_seed, failure_persistence: None, ..ProptestConfig::default() }
}

fn normal<T: Scalar>(rows: usize, cols: usize, seed: u64, label: &str) -> Mat<T> {
    let mut stream = RngKey::new(seed).fold(label).stream();
    Mat::from_vec(rows, cols, stream.normals(rows * cols, 1.0))
}

/// Every number within `terms` roundings of the size of what is expected.
fn close<T: Scalar>(found: &[T], expected: &[f64], terms: usize) -> Law {
    let size = expected.iter().fold(1.0, |most: f64, v| most.max(v.abs()));
    let bound = 8.0 * (1.0 + terms as f64) * T::EPSILON.to_f64() * size;
    prop_assert_eq!(found.len(), expected.len());
    for (k, (found, expected)) in found.iter().zip(expected).enumerate() {
        let off = (found.to_f64() - expected).abs();
        prop_assert!(off <= bound, "{}: number {k} is {found}, expected {expected}", T::NAME);
    }
    Ok(())
}

/// `Σ_j (-1)^popcount(i & j) x_j`.
fn walsh_hadamard(x: &[f64]) -> Vec<f64> {
    let sign = |i: usize, j: usize| if (i & j).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 };
    let entry = |i| x.iter().enumerate().map(|(j, x)| sign(i, j) * x).sum();
    (0..x.len()).map(entry).collect()
}

fn column<T: Scalar>(m: &Mat<T>, b: usize) -> Vec<f64> {
    (0..m.rows()).map(|k| m.at(k, b).to_f64()).collect()
}

fn transforms<T: Scalar>(power: u32, width: usize, gap: usize, seed: u64) -> Law {
    let size = 1 << power;
    let x: Mat<T> = normal(width, size + gap, seed, "rows");
    let mut y = x.clone();
    hadamard::rows(y.view_mut().columns(gap, size));
    for i in 0..width {
        let row: Vec<f64> = x.row(i)[gap..].iter().map(|v| v.to_f64()).collect();
        close(&y.row(i)[gap..], &walsh_hadamard(&row), power as usize)?;
        prop_assert_eq!(&y.row(i)[..gap], &x.row(i)[..gap]);
    }
    let x: Mat<T> = normal(size, width, seed, "columns");
    let mut y = x.clone();
    hadamard::columns(y.data_mut(), width);
    for b in 0..width {
        let found: Vec<T> = (0..size).map(|k| y.at(k, b)).collect();
        close(&found, &walsh_hadamard(&column(&x, b)), power as usize)?;
    }
    Ok(())
}

fn transposes<T: Scalar>(
    (rows, features): (usize, usize),
    gap: usize,
    more: usize,
    seed: u64,
) -> Law {
    let width = rows + more;
    let x: Mat<T> = normal(rows, features + gap, seed, "x");
    let before: Mat<T> = normal(features, width, seed, "columns");
    let mut columns = before.clone();
    to_columns(x.view().columns(gap, features), width, columns.data_mut());
    for k in 0..features {
        for b in 0..width {
            let expected = if b < rows { x.at(b, gap + k) } else { before.at(k, b) };
            prop_assert_eq!(columns.at(k, b), expected);
        }
    }
    let mut back: Mat<T> = normal(rows, features + gap, seed, "back");
    let beside = back.clone();
    from_columns(columns.data(), width, &mut back.view_mut().columns(gap, features));
    for i in 0..rows {
        prop_assert_eq!(&back.row(i)[gap..], &x.row(i)[gap..]);
        prop_assert_eq!(&back.row(i)[..gap], &beside.row(i)[..gap]);
    }
    Ok(())
}

/// `diag(d_0) circ(c_0) diag(d_1) ⋯ x` by its definition.
fn chain_of(diagonals: &Mat<f64>, columns: &Mat<f64>, x: &[f64]) -> Vec<f64> {
    let n = x.len();
    let scaled = |k: usize, x: &[f64]| -> Vec<f64> {
        diagonals.row(k).iter().zip(x).map(|(d, x)| d * x).collect()
    };
    let mut y = scaled(columns.rows(), x);
    for k in (0..columns.rows()).rev() {
        let c = columns.row(k);
        let entry = |i: usize| (0..n).map(|j| c[(n + i - j) % n] * y[j]).sum();
        let turned: Vec<f64> = (0..n).map(entry).collect();
        y = scaled(k, &turned);
    }
    y
}

fn chains<T: Scalar>(features: usize, circulants: usize, rows: usize, seed: u64) -> Law {
    let wide = |m: Mat<T>| m.cast::<f64>();
    let diagonals: Mat<T> = normal(circulants + 1, features, seed, "diagonals");
    let columns = wide(normal(circulants, features, seed, "columns"));
    let transform = Arc::new(CyclicTransform::<T>::new(features));
    let spectra: Vec<_> =
        (0..circulants).map(|k| transform.half_spectrum(columns.row(k))).collect();
    let chain = CirculantChain::new(transform, diagonals.data().to_vec(), &spectra);
    let x: Mat<T> = normal(rows, features, seed, "x");
    let mut y = Mat::from_fn(rows, features, |_, _| T::from_f64(f64::NAN));
    chain.forward(x.view(), y.view_mut());
    let (diagonals, x) = (wide(diagonals), wide(x));
    let expected: Vec<Vec<f64>> =
        (0..rows).map(|i| chain_of(&diagonals, &columns, x.row(i))).collect();
    // Rows that go side by side share the rounding of the largest, which is of its largest inputs.
    let size = expected.iter().flatten().fold(1.0, |most: f64, v| most.max(v.abs()));
    let bound = 64.0 * (1 + circulants) as f64 * T::EPSILON.to_f64() * size;
    for (i, expected) in expected.iter().enumerate() {
        for (k, (found, expected)) in y.row(i).iter().zip(expected).enumerate() {
            let off = (found.to_f64() - expected).abs();
            prop_assert!(off <= bound, "row {i}, number {k} is {found}, expected {expected}");
        }
    }
    Ok(())
}

/// Which feature number `i` of block `k` is.
fn place(order: Order, (k, count): (usize, usize), (i, size): (usize, usize)) -> usize {
    match order {
        Order::Consecutive => k * size + i,
        Order::Interleaved => i * count + k,
    }
}

fn blocks_multiply<T: Scalar>(
    (count, out, inp, width): (usize, usize, usize, usize),
    direction: Direction,
    order: Order,
    write: Write,
    seed: u64,
) -> Law {
    let weights: Mat<T> = normal(count * out, inp, seed, "weights");
    let back = direction == Direction::Back;
    let (to, from) = if back { (inp, out) } else { (out, inp) };
    let x: Mat<T> = normal(count * from, width, seed, "x");
    let before: Mat<T> = normal(count * to, width, seed, "y");
    let mut y = before.clone();
    let blocks = ColumnBlocks::new(weights.view(), count, order);
    let destination = Destination { y: y.data_mut(), scale: T::ONE, write };
    blocks.apply(direction, x.data(), width, destination);
    for k in 0..count {
        for i in 0..to {
            let at = place(order, (k, count), (i, to));
            let weight = |j: usize| {
                let (row, col) = if back { (j, i) } else { (i, j) };
                weights.at(k * out + row, col).to_f64()
            };
            let term = |j, b| weight(j) * x.at(place(order, (k, count), (j, from)), b).to_f64();
            let expected: Vec<f64> = (0..width)
                .map(|b| {
                    let start = if write == Write::Add { before.at(at, b).to_f64() } else { 0.0 };
                    start + (0..from).map(|j| term(j, b)).sum::<f64>()
                })
                .collect();
            close(y.row(at), &expected, from)?;
        }
    }
    Ok(())
}

fn block_extents() -> impl Strategy<Value = (usize, usize, usize, usize)> {
    (1..=9_usize, 1..=40_usize, 1..=40_usize, 1..=70_usize)
}

proptest::proptest! {
    #![proptest_config(config())]

    #[test]
    fn walsh_hadamard_transforms_equal_their_definition(
        power in 0_u32..=9,
        width in 1_usize..=70,
        gap in 0_usize..=3,
        seed in 0_u64..1000,
    ) {
        transforms::<f32>(power, width, gap, seed)?;
        transforms::<f64>(power, width, gap, seed)?;
    }

    #[test]
    fn transposes_equal_their_definition(
        extents in (1_usize..=90, 1_usize..=120),
        gap in 0_usize..=5,
        more in 0_usize..=20,
        seed in 0_u64..1000,
    ) {
        transposes::<f32>(extents, gap, more, seed)?;
        transposes::<f64>(extents, gap, more, seed)?;
    }

    #[test]
    fn circulant_chains_equal_their_definition(
        features in 1_usize..=130,
        circulants in 0_usize..=3,
        rows in 1_usize..=40,
        seed in 0_u64..1000,
    ) {
        chains::<f32>(features, circulants, rows, seed)?;
        chains::<f64>(features, circulants, rows, seed)?;
    }

    #[test]
    fn block_diagonal_products_equal_their_definition(
        extents in block_extents(),
        (back, interleaved, add) in any::<(bool, bool, bool)>(),
        seed in 0_u64..1000,
    ) {
        let direction = if back { Direction::Back } else { Direction::Forward };
        let order = if interleaved { Order::Interleaved } else { Order::Consecutive };
        let write = if add { Write::Add } else { Write::Set };
        blocks_multiply::<f32>(extents, direction, order, write, seed)?;
        blocks_multiply::<f64>(extents, direction, order, write, seed)?;
    }
}
