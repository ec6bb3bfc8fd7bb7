//! Times the decomposition of one random matrix and its cuts at nine rates, for `tools/bench/laser.py`:
//!
//! ```text
//! components ROWS COLS REPEATS
//! ```
//!
//! Prints a line of JSON: seconds of each repeat, to decompose and to cut.
#![allow(clippy::print_stdout, reason = "an example prints its result")]

use linwright_compress::intervention::{Cut, Intervention, Size, cut};
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
            let how = Cut::new(Intervention::RankReduction, Size::Rate(rate));
            cut(&weight, &how, Some(&all), RngKey::new(0)).expect("is cut");
        }
        cuts.push(began.elapsed().as_secs_f64());
    }
    println!("{}", serde_json::json!({"decompose": decompose, "decompose_and_cut": cuts}));
}
