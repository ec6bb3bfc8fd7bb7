//! Attention against a naive twin in double precision, and its gradient against central
//! differences of that twin.

use super::*;
use crate::{Mat, RngKey};

/// Sequences that end inside, at and beyond a block of queries.
const SPANS: [Range<usize>; 4] = [0..70, 70..71, 71..71, 71..200];
const ROWS: usize = 200;

fn cases() -> [Attention<'static>; 4] {
    [(4, 4, None), (4, 2, None), (6, 2, Some(5)), (3, 1, Some(90))].map(
        |(heads, kv_heads, window)| Attention {
            spans: &SPANS,
            heads,
            kv_heads,
            head_dim: 6,
            window,
        },
    )
}

fn naive(case: &Attention<'_>, query: &Mat<f64>, key: &Mat<f64>, value: &Mat<f64>) -> Mat<f64> {
    let dim = case.head_dim;
    let mut output = Mat::zeros(query.rows(), query.cols());
    for span in case.spans {
        for (head, i) in (0..case.heads).flat_map(|head| span.clone().map(move |i| (head, i))) {
            let (at, kv_at) = (head * dim, head / (case.heads / case.kv_heads) * dim);
            let visible = |j: &usize| case.window.is_none_or(|window| j + window > i);
            let keys: Vec<usize> = (span.start..=i).filter(visible).collect();
            let score = |&j: &usize| {
                let dot: f64 = (0..dim).map(|d| query.at(i, at + d) * key.at(j, kv_at + d)).sum();
                (dot / (dim as f64).sqrt()).exp()
            };
            let total: f64 = keys.iter().map(score).sum();
            for d in 0..dim {
                let sum: f64 = keys.iter().map(|j| score(j) * value.at(*j, kv_at + d)).sum();
                *output.at_mut(i, at + d) = sum / total;
            }
        }
    }
    output
}

fn random(cols: usize, seed: u64) -> Mat<f32> {
    Mat::from_vec(ROWS, cols, RngKey::new(seed).stream().normals(ROWS * cols, 1.0))
}

fn problem(case: &Attention<'_>) -> [Mat<f32>; 4] {
    let [wide, narrow] = [case.heads, case.kv_heads].map(|heads| heads * case.head_dim);
    [random(wide, 1), random(narrow, 2), random(narrow, 3), random(wide, 4)]
}

#[test]
fn output_equals_its_naive_twin() {
    for case in cases() {
        let [query, key, value, _] = problem(&case);
        let inputs = Inputs { query: query.view(), key: key.view(), value: value.view() };
        let mut output = Mat::zeros(ROWS, query.cols());
        case.forward(inputs, output.view_mut(), None);
        let want = naive(&case, &query.cast(), &key.cast(), &value.cast());
        for (at, (found, want)) in output.data().iter().zip(want.data()).enumerate() {
            let error = (f64::from(*found) - want).abs();
            assert!(error < 2e-6, "{case:?}: number {at} is {found}, not {want}");
        }
    }
}

#[test]
fn gradients_equal_central_differences() {
    for case in cases() {
        let [query, key, value, d_output] = problem(&case);
        let inputs = Inputs { query: query.view(), key: key.view(), value: value.view() };
        let mut output = Mat::zeros(ROWS, query.cols());
        let mut sums = Mat::zeros(ROWS, case.heads);
        case.forward(inputs, output.view_mut(), Some(sums.view_mut()));
        let mut grads = [query.clone(), key.clone(), value.clone()];
        let [d_query, d_key, d_value] = &mut grads;
        let targets = Gradients {
            query: d_query.view_mut(),
            key: d_key.view_mut(),
            value: d_value.view_mut(),
        };
        case.backward(inputs, (output.view(), sums.view()), d_output.view(), targets);
        let wide = [&query, &key, &value].map(Mat::cast::<f64>);
        let d_output = d_output.cast::<f64>();
        for which in 0..3 {
            for at in [3, 433, 434, 839, 1199] {
                let loss = |by: f64| -> f64 {
                    let mut moved = wide.clone();
                    moved[which].data_mut()[at] += by;
                    let output = naive(&case, &moved[0], &moved[1], &moved[2]);
                    output.data().iter().zip(d_output.data()).map(|(o, d)| o * d).sum()
                };
                let want = (loss(1e-5) - loss(-1e-5)) / 2e-5;
                let found = f64::from(grads[which].data()[at]);
                let error = (found - want).abs();
                assert!(error < 1e-5 * (1.0 + want.abs()), "{case:?}: {found} is not {want}");
            }
        }
    }
}
