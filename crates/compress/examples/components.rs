//! Times the decomposition of one random matrix and its cuts at nine rates, for
//! `tools/bench/laser.py`:
//!
//! ```text
//! components ROWS COLS REPEATS
//! ```
//!
//! Prints a line of JSON: seconds of each repeat, to decompose and to cut; how far the singular
//! vectors are from orthogonal, and all components together from the matrix.
#![allow(clippy::print_stdout, reason = "an example prints its result")]

use linwright_compress::Size;
use linwright_compress::intervention::cut;
use linwright_compress::methods::LaserMethod;
use linwright_tensor::kernels::gemm::{Arg, Write, product};
use linwright_tensor::linalg::Components;
use linwright_tensor::{Mat, RngKey};
use std::time::Instant;

/// The rates of the paper's search.
const RATES: [f64; 9] = [9.95, 9.9, 9.5, 9.0, 8.0, 6.0, 4.0, 2.0, 1.0];

fn main() {
    let numbers: Vec<usize> =
        std::env::args().skip(1).map(|text| text.parse().expect("a number")).collect();
    let [rows, cols, repeats] = numbers[..] else { panic!("expected ROWS COLS REPEATS") };
    let weight = Mat::from_vec(rows, cols, RngKey::new(1).stream().normals(rows * cols, 1.0));
    let (mut decompose, mut cuts) = (Vec::new(), Vec::new());
    for _ in 0..repeats {
        let began = Instant::now();
        let all = Components::of(weight.view()).expect("decomposes");
        decompose.push(began.elapsed().as_secs_f64());
        for rate in RATES {
            let (how, size) = (LaserMethod::default(), Size::Rate(rate));
            cut(&weight, &how, size, Some(&all), RngKey::new(0)).expect("is cut");
        }
        cuts.push(began.elapsed().as_secs_f64());
    }
    let all = Components::of(weight.view()).expect("decomposes");
    let [left, right, whole] = departures(&weight, &all);
    println!(
        "{}",
        serde_json::json!({
            "decompose": decompose, "decompose_and_cut": cuts,
            "left": left, "right": right, "whole": whole,
        })
    );
}

/// Root mean squares of a row of `Uᵀ U - 1` and of `V Vᵀ - 1`, and the share of the matrix that the
/// components miss.
fn departures(weight: &Mat<f32>, all: &Components) -> [f64; 3] {
    let times = |a: Arg<'_, f64>, b: Arg<'_, f64>, (rows, cols): (usize, usize)| {
        let mut c = Mat::zeros(rows, cols);
        product(1.0, a, b, c.view_mut(), Write::Set);
        c
    };
    let count = all.values.len();
    let (left, right): (Mat<f64>, Mat<f64>) = (all.left.cast(), all.right.cast());
    // Columns and rows have the root of the singular value as length.
    let from_one = |inner: &Mat<f64>| {
        let square = |i: usize, j: usize| {
            let unit = inner.at(i, j) / (all.values[i] * all.values[j]).sqrt();
            (unit - if i == j { 1.0 } else { 0.0 }).powi(2)
        };
        let sum: f64 = (0..count).map(|i| (0..count).map(|j| square(i, j)).sum::<f64>()).sum();
        (sum / count as f64).sqrt()
    };
    let of_left =
        from_one(&times(Arg::Transposed(left.view()), Arg::Plain(left.view()), (count, count)));
    let of_right =
        from_one(&times(Arg::Plain(right.view()), Arg::Transposed(right.view()), (count, count)));
    let shape = (weight.rows(), weight.cols());
    let whole = times(Arg::Plain(left.view()), Arg::Plain(right.view()), shape);
    let pairs = || whole.data().iter().zip(weight.data()).map(|(a, b)| (a, f64::from(*b)));
    let missed: f64 = pairs().map(|(a, b)| (a - b).powi(2)).sum();
    let norm: f64 = pairs().map(|(_, b)| b * b).sum();
    [of_left, of_right, (missed / norm).sqrt()]
}
