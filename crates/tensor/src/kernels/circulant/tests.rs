//! Chains against sums over all pairs of features.

use super::*;
use crate::{Mat, RngKey};

/// Lengths of every radix, products of them, large primes and their multiples.
const LENGTHS: [usize; 26] = [
    1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 16, 17, 24, 30, 31, 34, 49, 60, 64, 96, 97, 121, 169, 256,
    513,
];
/// Largest relative error of a chain in either precision, for each circulant.
const ROUNDING: [(&str, f64); 2] = [("f32", 3e-6), ("f64", 1e-14)];

struct Case<T> {
    diagonals: Vec<T>,
    columns: Vec<Vec<f64>>,
    chain: CirculantChain<T>,
}

fn case<T: Scalar>(features: usize, circulants: usize) -> Case<T> {
    let mut stream = RngKey::new((100 * features + circulants) as u64).stream();
    let columns: Vec<Vec<f64>> = (0..circulants)
        .map(|_| {
            let column: Vec<T> = stream.normals(features, 1.0);
            column.into_iter().map(Scalar::to_f64).collect()
        })
        .collect();
    let diagonals = stream.normals((circulants + 1) * features, 1.0);
    let transform = Arc::new(CyclicTransform::new(features));
    let spectra: Vec<_> = columns.iter().map(|c| transform.half_spectrum(c)).collect();
    let chain = CirculantChain::new(transform, diagonals.clone(), &spectra);
    Case { diagonals, columns, chain }
}

fn circulant(column: &[f64], z: &[f64]) -> Vec<f64> {
    let n = z.len();
    (0..n).map(|i| (0..n).map(|j| column[(i + n - j) % n] * z[j]).sum()).collect()
}

impl<T: Scalar> Case<T> {
    fn diagonal(&self, index: usize, z: &[f64]) -> Vec<f64> {
        let n = z.len();
        z.iter().zip(&self.diagonals[index * n..]).map(|(z, d)| z * d.to_f64()).collect()
    }

    /// The inputs of all factors, and the output, from the input on.
    fn naive(&self, x: &[f64]) -> Vec<Vec<f64>> {
        let mut steps = vec![x.to_vec()];
        let last = self.columns.len();
        steps.push(self.diagonal(last, x));
        for j in (0..last).rev() {
            steps.push(circulant(&self.columns[j], steps.last().unwrap()));
            steps.push(self.diagonal(j, steps.last().unwrap()));
        }
        steps
    }

    /// Gradients and `dx` of one row.
    fn naive_back(&self, x: &[f64], dy: &[f64], grads: &mut ChainGrads) -> Vec<f64> {
        let (mut steps, n) = (self.naive(x), x.len());
        let mut g = dy.to_vec();
        steps.pop();
        for j in 0..=self.columns.len() {
            let u = steps.pop().unwrap();
            for i in 0..n {
                grads.diagonals[j * n + i] += g[i] * u[i];
            }
            g = self.diagonal(j, &g);
            if j < self.columns.len() {
                let z = steps.pop().unwrap();
                for k in 0..n {
                    let sum: f64 = (0..n).map(|t| g[t] * z[(t + n - k) % n]).sum();
                    grads.columns[j * n + k] += sum;
                }
                let reversed: Vec<f64> = (0..n).map(|k| self.columns[j][(n - k) % n]).collect();
                g = circulant(&reversed, &g);
            }
        }
        g
    }
}

fn wide<T: Scalar>(row: &[T]) -> Vec<f64> {
    row.iter().map(|v| v.to_f64()).collect()
}

#[track_caller]
fn close(found: &[f64], want: &[f64], tolerance: f64, what: &str) {
    let size = want.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
    for (k, (found, want)) in found.iter().zip(want).enumerate() {
        let off = (found - want).abs();
        assert!(off <= tolerance * size, "{what}: number {k} is {found}, expected {want}");
    }
}

fn agrees<T: Scalar>(features: usize, circulants: usize, rows: usize) {
    let case = case::<T>(features, circulants);
    let rounding = ROUNDING.iter().find(|(name, _)| *name == T::NAME).unwrap().1;
    let tolerance = rounding * (1 + circulants) as f64 * (features as f64).sqrt();
    let what = format!("{} features, {circulants} circulants, {rows} rows, {}", features, T::NAME);
    let mut stream = RngKey::new(5).stream();
    let (x, dy): (Mat<T>, Mat<T>) = (
        Mat::from_fn(rows, features, |_, _| T::from_f64(stream.normal())),
        Mat::from_fn(rows, features, |i, j| T::from_f64(((i * 7 + j * 3) % 11) as f64 - 4.5)),
    );
    let nan = || Mat::from_fn(rows, features, |_, _| T::from_f64(f64::NAN));
    let (mut y, mut dx) = (nan(), nan());
    case.chain.forward(x.view(), y.view_mut());
    let grads = case.chain.backward(x.view(), dy.view(), Some(dx.view_mut()));
    let numbers = (case.diagonals.len(), circulants * features);
    let mut want = ChainGrads { diagonals: vec![0.0; numbers.0], columns: vec![0.0; numbers.1] };
    for i in 0..rows {
        let x = wide(x.row(i));
        let steps = case.naive(&x);
        close(&wide(y.row(i)), steps.last().unwrap(), tolerance, &format!("{what}: y {i}"));
        let want = case.naive_back(&x, &wide(dy.row(i)), &mut want);
        close(&wide(dx.row(i)), &want, tolerance, &format!("{what}: dx {i}"));
    }
    let each = |all: &[f64], want: &[f64], name: &str| {
        for (all, want) in all.chunks(features).zip(want.chunks(features)) {
            close(all, want, 4.0 * tolerance, &format!("{what}: gradient of {name}"));
        }
    };
    assert_eq!((grads.diagonals.len(), grads.columns.len()), numbers);
    each(&grads.diagonals, &want.diagonals, "diagonals");
    each(&grads.columns, &want.columns, "columns");
    assert_eq!(case.chain.backward(x.view(), dy.view(), None), grads, "{what}: without dx");
}

#[test]
fn chains_are_sums_over_all_pairs() {
    for features in LENGTHS {
        for (circulants, rows) in [(1, 37), (0, 5), (3, 2), (2, 1), (1, 0)] {
            agrees::<f64>(features, circulants, rows);
            agrees::<f32>(features, circulants, rows);
        }
    }
}

fn dense_agrees<T: Scalar>(features: usize, circulants: usize) {
    let case = case::<T>(features, circulants);
    let rounding = ROUNDING.iter().find(|(name, _)| *name == T::NAME).unwrap().1;
    let tolerance = rounding * (1 + circulants) as f64 * (features as f64).sqrt();
    let transform = &case.chain.transform;
    let spectra: Vec<_> = case.columns.iter().map(|c| transform.half_spectrum(c)).collect();
    let found = dense(transform, &wide(&case.diagonals), &spectra).transpose();
    for j in [0, features / 2, features - 1] {
        let unit: Vec<f64> = (0..features).map(|i| f64::from(u8::from(i == j))).collect();
        let want = case.naive(&unit).pop().unwrap();
        let what = format!("{features} features, {circulants} circulants, {}: {j}", T::NAME);
        close(&wide(found.row(j)), &want, tolerance, &what);
    }
}

#[test]
fn dense_forms_are_chains_of_unit_vectors() {
    for features in LENGTHS {
        for circulants in 0..4 {
            dense_agrees::<f64>(features, circulants);
            dense_agrees::<f32>(features, circulants);
        }
    }
}

#[test]
fn dense_forms_do_not_depend_on_threads() {
    let features = 256;
    let case = case::<f32>(features, 2);
    assert!(case.chain.piece(features) < features, "more than one piece");
    let form = |threads| {
        let mut matrix = Mat::identity(features);
        crate::parallel::with_threads(threads, || case.chain.forward_columns(matrix.view_mut()))
            .unwrap();
        matrix
    };
    assert_eq!(form(1), form(3));
}

#[test]
fn a_large_row_does_not_blur_a_small_one() {
    let (case, features) = (case::<f32>(96, 1), 96);
    let mut stream = RngKey::new(2).stream();
    let sizes = [1e18, 1e-18, 1.0, 1e-30, 1e9, 0.0, 1e3, 1e-9];
    let x = Mat::from_fn(40, features, |i, _| (sizes[i % 8] * stream.normal()) as f32);
    let mut y = Mat::zeros(40, features);
    case.chain.forward(x.view(), y.view_mut());
    for i in 0..40 {
        let want = case.naive(&wide(x.row(i))).pop().unwrap();
        close(&wide(y.row(i)), &want, 3e-6, &format!("row {i}"));
    }
}

#[test]
fn a_view_of_columns_and_no_rows() {
    let case = case::<f64>(6, 1);
    let x = Mat::from_fn(9, 10, |i, j| (i * 3 + j) as f64);
    let mut within = Mat::zeros(9, 10);
    case.chain.forward(x.view().columns(2, 6), within.view_mut().columns(3, 6));
    for i in 0..9 {
        let want = case.naive(&x.row(i)[2..8]).pop().unwrap();
        close(&within.row(i)[3..9], &want, 1e-13, &format!("row {i}"));
        let around = within.row(i)[..3].iter().chain(&within.row(i)[9..]);
        assert!(around.into_iter().all(|&v| v == 0.0), "row {i}");
    }
    // The same where rows are columns, and nothing where there are none.
    let mut columns = Mat::from_fn(6, 11, |i, j| (i * 5 + j * j) as f64 - 20.0);
    let before = columns.clone();
    case.chain.forward_columns(columns.view_mut());
    for j in 0..11 {
        let column = |mat: &Mat<f64>| (0..6).map(|i| mat.at(i, j)).collect::<Vec<f64>>();
        let want = case.naive(&column(&before)).pop().unwrap();
        close(&column(&columns), &want, 1e-13, &format!("column {j}"));
    }
    let (none, mut nothing) = (Mat::<f64>::zeros(0, 6), Mat::zeros(0, 6));
    case.chain.forward(none.view(), nothing.view_mut());
}
