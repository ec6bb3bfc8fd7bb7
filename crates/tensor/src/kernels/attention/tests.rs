//! Attention against naive twins in double precision, and gradients against central differences of
//! those.

use super::*;
use crate::{Mat, RngKey};

/// Sequences that end inside, at and beyond blocks of queries and keys; empty ones and single rows.
const SPANS: [Range<usize>; 6] = [0..70, 70..71, 71..71, 71..200, 200..203, 203..460];
const ROWS: usize = 460;
/// Of outputs, sums of numbers of about one with weights whose sum is one.
const TOLERANCE: f64 = 4e-6;

const CAUSAL: Mask = Mask::Causal { window: None };
const NEAR: Mask = Mask::Causal { window: Some(5) };
const FAR: Mask = Mask::Causal { window: Some(130) };

fn attention(heads: usize, kv_heads: usize, head_dim: usize, mask: Mask) -> Attention {
    let scale = 1.0 / (head_dim as f32).sqrt();
    Attention { heads, kv_heads, head_dim, scale, mask, softcap: None }
}

fn capped(cap: f32, attention: Attention) -> Attention {
    Attention { softcap: Some(cap), ..attention }
}

fn cases() -> Vec<Attention> {
    vec![
        attention(4, 4, 6, CAUSAL),
        attention(4, 2, 10, CAUSAL),
        attention(6, 2, 5, NEAR),
        attention(3, 1, 16, FAR),
        attention(7, 1, 64, CAUSAL),
        attention(2, 2, 80, FAR),
        attention(2, 1, 96, Mask::None),
        attention(1, 1, 256, CAUSAL),
        attention(3, 3, 8, Mask::None),
        capped(1.5, attention(4, 2, 16, FAR)),
        capped(50.0, attention(2, 1, 24, CAUSAL)),
        capped(0.7, attention(40, 1, 4, Mask::None)),
        Attention { scale: 0.7, ..attention(2, 1, 12, NEAR) },
    ]
}

/// Queries and keys in double precision: of one head, what each row attends to.
fn naive(
    case: &Attention,
    query: MatRef<'_, f64>,
    key: MatRef<'_, f64>,
    value: MatRef<'_, f64>,
) -> (Mat<f64>, Mat<f64>) {
    let (dim, scale) = (case.head_dim, f64::from(case.scale));
    let (mut output, mut sums) =
        (Mat::zeros(query.rows(), query.cols()), Mat::zeros(query.rows(), case.heads));
    for (head, i) in (0..case.heads).flat_map(|head| (0..query.rows()).map(move |i| (head, i))) {
        let (at, kv_at) = (head * dim, head / (case.heads / case.kv_heads) * dim);
        let keys: Vec<usize> = (0..key.rows())
            .filter(|j| match case.mask {
                Mask::None => true,
                Mask::Causal { window } => {
                    let position = i + key.rows() - query.rows();
                    *j <= position && window.is_none_or(|window| j + window > position)
                }
            })
            .collect();
        let score = |&j: &usize| {
            let dot: f64 = (0..dim).map(|d| query.at(i, at + d) * key.at(j, kv_at + d)).sum();
            let cap = case.softcap.map(f64::from);
            cap.map_or(dot * scale, |cap| cap * (dot * scale / cap).tanh()).exp()
        };
        let powers: Vec<f64> = keys.iter().map(score).collect();
        let total: f64 = powers.iter().sum();
        *sums.at_mut(i, head) = total.ln();
        for (j, power) in keys.into_iter().zip(powers) {
            for d in 0..dim {
                *output.at_mut(i, at + d) += power / total * value.at(j, kv_at + d);
            }
        }
    }
    (output, sums)
}

/// The same of all sequences.
fn naive_packed(case: &Attention, [query, key, value]: &[Mat<f64>; 3]) -> (Mat<f64>, Mat<f64>) {
    let (mut output, mut sums) = (Vec::new(), Vec::new());
    for span in SPANS {
        let [query, key, value] =
            [query, key, value].map(|mat| mat.view().rows_range(span.start, span.len()));
        let (of_span, sums_of_span) = naive(case, query, key, value);
        output.extend(of_span.into_vec());
        sums.extend(sums_of_span.into_vec());
    }
    (Mat::from_vec(ROWS, query.cols(), output), Mat::from_vec(ROWS, case.heads, sums))
}

fn random(rows: usize, cols: usize, seed: u64) -> Mat<f32> {
    Mat::from_vec(rows, cols, RngKey::new(seed).stream().normals(rows * cols, 1.0))
}

fn problem(case: &Attention) -> [Mat<f32>; 4] {
    let [wide, narrow] = [case.heads, case.kv_heads].map(|heads| heads * case.head_dim);
    [(wide, 1), (narrow, 2), (narrow, 3), (wide, 4)].map(|(cols, seed)| random(ROWS, cols, seed))
}

fn inputs([query, key, value, _]: &[Mat<f32>; 4]) -> Inputs<'_> {
    Inputs { query: query.view(), key: key.view(), value: value.view() }
}

fn attend(case: &Attention, problem: &[Mat<f32>; 4]) -> (Mat<f32>, Mat<f32>) {
    let mut output = Mat::zeros(ROWS, problem[0].cols());
    let mut sums = Mat::zeros(ROWS, case.heads);
    case.forward_packed(&SPANS, inputs(problem), output.view_mut(), Some(sums.view_mut()));
    (output, sums)
}

#[track_caller]
fn assert_close(case: &Attention, found: MatRef<'_, f32>, want: MatRef<'_, f64>) {
    assert_eq!((found.rows(), found.cols()), (want.rows(), want.cols()));
    for (i, j) in (0..want.rows()).flat_map(|i| (0..want.cols()).map(move |j| (i, j))) {
        let (found, want) = (f64::from(found.at(i, j)), want.at(i, j));
        assert!((found - want).abs() < TOLERANCE, "{case:?}: ({i}, {j}) is {found}, not {want}");
    }
}

#[test]
fn output_and_log_sums_equal_their_naive_twins() {
    for case in cases() {
        let problem = problem(&case);
        let (output, sums) = attend(&case, &problem);
        let [query, key, value, _] = problem.map(|mat| mat.cast());
        let (want, want_sums) = naive_packed(&case, &[query, key, value]);
        assert_close(&case, output.view(), want.view());
        assert_close(&case, sums.view(), want_sums.view());
    }
}

/// The last queries of a sequence, behind keys of earlier calls, get what they get of the whole.
#[test]
fn cached_keys_come_first() {
    for case in cases().into_iter().filter(|case| case.mask != Mask::None) {
        let problem = problem(&case);
        let Inputs { query, key, value } = inputs(&problem);
        let wide = [query, key, value].map(|mat| mat.to_mat().cast::<f64>());
        let (want, _) = naive(&case, wide[0].view(), wide[1].view(), wide[2].view());
        for count in [0, 1, 2, 9, 33, 150] {
            let mut output = Mat::zeros(count, query.cols());
            let last = query.rows_range(ROWS - count, count);
            let sequence = Sequence { queries: 0..count, key, value };
            case.forward(last, &[sequence], output.view_mut(), None);
            assert_close(&case, output.view(), want.view().rows_range(ROWS - count, count));
        }
    }
}

/// Queries of an encoder may be more than keys, and keys may be none.
#[test]
fn encoders_have_keys_of_any_number() {
    let case = attention(4, 2, 16, Mask::None);
    let problem = problem(&case);
    let Inputs { query, key, value } = inputs(&problem);
    for (count, keys) in [(3, 50), (1, 400), (60, 7), (40, 0), (1, 0)] {
        let [key, value] = [key, value].map(|mat| mat.rows_range(20, keys));
        let (mut output, mut sums) = (Mat::zeros(100, query.cols()), Mat::zeros(100, case.heads));
        let sequence = Sequence { queries: 30..30 + count, key, value };
        let query = query.rows_range(0, 100);
        case.forward(query, &[sequence], output.view_mut(), Some(sums.view_mut()));
        let own = output.view().rows_range(30, count);
        if keys == 0 {
            let infinite = |sum: &f32| *sum == f32::NEG_INFINITY;
            assert!(own.to_mat().data().iter().all(|number| *number == 0.0));
            assert!(sums.view().rows_range(30, count).to_mat().data().iter().all(infinite));
        } else {
            let wide = [query.rows_range(30, count), key, value].map(|mat| mat.to_mat().cast());
            let (want, _) = naive(&case, wide[0].view(), wide[1].view(), wide[2].view());
            assert_close(&case, own, want.view());
        }
        let others = [(0, 30), (30 + count, 70 - count)];
        for (start, count) in others {
            let rows = output.view().rows_range(start, count).to_mat();
            assert!(rows.data().iter().all(|number| *number == 0.0), "rows of no sequence");
        }
    }
}

/// Columns of one result of a fused projection, and results among other columns.
#[test]
fn views_may_be_columns_of_wider_matrices() {
    let case = attention(4, 2, 8, CAUSAL);
    let whole = random(ROWS, 80, 1);
    let [query, key, value] =
        [(5, 32), (40, 16), (60, 16)].map(|(start, count)| whole.view().columns(start, count));
    let mut output = Mat::from_fn(ROWS, 40, |_, _| 7.0);
    let target = output.view_mut().columns(3, 32);
    case.forward_packed(&SPANS, Inputs { query, key, value }, target, None);
    let wide = [query, key, value].map(|mat| mat.to_mat().cast());
    let (want, _) = naive_packed(&case, &wide);
    assert_close(&case, output.view().columns(3, 32), want.view());
    let around = |j: &usize| !(3..35).contains(j);
    for (i, j) in (0..ROWS).flat_map(|i| (0..40).filter(around).map(move |j| (i, j))) {
        assert_eq!(output.at(i, j), 7.0);
    }
}

#[test]
fn gradients_equal_central_differences() {
    for case in cases() {
        let problem = problem(&case);
        let (output, sums) = attend(&case, &problem);
        let mut grads = [problem[0].clone(), problem[1].clone(), problem[2].clone()];
        let [d_query, d_key, d_value] = &mut grads;
        let targets = Gradients {
            query: d_query.view_mut(),
            key: d_key.view_mut(),
            value: d_value.view_mut(),
        };
        let d_output = problem[3].view();
        let given = Given { output: output.view(), log_sums: sums.view(), d_output };
        case.backward(&SPANS, inputs(&problem), given, targets);
        let [query, key, value, d_output] = problem.map(|mat| mat.cast::<f64>());
        let wide = [query, key, value];
        for which in 0..3 {
            let cols = wide[which].cols();
            for (row, col) in [(0, 3), (69, 1), (70, 0), (75, 2), (140, 3), (201, 1), (459, 2)] {
                let at = row * cols + col * 7 % cols;
                let span = SPANS.iter().find(|span| span.contains(&row)).expect("a span");
                let loss = |by: f64| -> f64 {
                    let mut moved = wide.clone();
                    moved[which].data_mut()[at] += by;
                    let [query, key, value] = [0, 1, 2]
                        .map(|which| moved[which].view().rows_range(span.start, span.len()));
                    let (output, _) = naive(&case, query, key, value);
                    let d_output = d_output.view().rows_range(span.start, span.len()).to_mat();
                    output.data().iter().zip(d_output.data()).map(|(o, d)| o * d).sum()
                };
                let want = (loss(1e-5) - loss(-1e-5)) / 2e-5;
                let found = f64::from(grads[which].data()[at]);
                let error = (found - want).abs();
                assert!(
                    error < 2e-5 * (1.0 + want.abs()),
                    "{case:?}: {which} at {row} is {found}, not {want}"
                );
            }
        }
    }
}

#[test]
fn bits_depend_neither_on_threads_nor_on_other_sequences() {
    for case in cases() {
        let problem = problem(&case);
        let [one, three] = [1, 3].map(|threads| {
            crate::parallel::with_threads(threads, || attend(&case, &problem)).expect("threads")
        });
        assert_eq!(one, three, "{case:?}");
        for span in SPANS {
            let rows = |mat: &Mat<f32>| mat.view().rows_range(span.start, span.len()).to_mat();
            let [query, key, value, _] = [0, 1, 2, 3].map(|k| rows(&problem[k]));
            let mut output = Mat::zeros(span.len(), query.cols());
            let alone = Inputs { query: query.view(), key: key.view(), value: value.view() };
            let whole = 0..span.len();
            case.forward_packed(std::slice::from_ref(&whole), alone, output.view_mut(), None);
            assert_eq!(output, rows(&one.0), "{case:?}");
        }
    }
}

/// Scores too large for their exponentials, and so far apart that most of those vanish.
#[test]
fn large_scores_stay_finite() {
    for count in [1, 300] {
        let case = Attention { scale: 300.0, ..attention(1, 1, 16, CAUSAL) };
        let [query, key, value] = [1, 2, 3].map(|seed| random(300, 16, seed));
        let mut output = Mat::zeros(count, 16);
        let last = query.view().rows_range(300 - count, count);
        let sequence = Sequence { queries: 0..count, key: key.view(), value: value.view() };
        case.forward(last, &[sequence], output.view_mut(), None);
        assert!(output.data().iter().all(|number| number.is_finite()));
    }
}
