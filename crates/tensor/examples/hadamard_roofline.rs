//! Speed of the Walsh-Hadamard transform of rows relative to that of memory: 4,096 rows of 2,048
//! numbers transformed in place, against the same rows multiplied by a number in place, which reads
//! and writes as much and computes next to nothing. Rounds alternate both; argument: threads.
#![allow(clippy::print_stdout, reason = "figures and nothing else go to the output")]

use linwright_tensor::kernels::hadamard;
use linwright_tensor::{Mat, RngKey, parallel};
use std::error::Error;
use std::time::Instant;

const ROWS: usize = 4096;
const FEATURES: usize = 2048;
const ROUNDS: usize = 101;

fn scale(x: &mut Mat<f32>, factor: f32) {
    parallel::for_each(x.view_mut().row_blocks(parallel::ROW_BLOCK), |_, mut rows| {
        for row in 0..rows.rows() {
            rows.row_mut(row).iter_mut().for_each(|v| *v *= factor);
        }
    });
}

/// Milliseconds of one call.
fn timed(work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    1e3 * began.elapsed().as_secs_f64()
}

fn main() -> Result<(), Box<dyn Error>> {
    let threads = std::env::args().nth(1).map_or(Ok(2), |threads| threads.parse())?;
    parallel::set_threads(threads)?;
    let normals = RngKey::new(1).stream().normals(ROWS * FEATURES, 1.0);
    let mut x = Mat::from_vec(ROWS, FEATURES, normals);
    let norm = 1.0 / (FEATURES as f32).sqrt();
    let mut milliseconds = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        milliseconds[0].push(timed(|| hadamard::rows(x.view_mut())));
        // The factor makes the transform orthogonal, so that numbers stay as large as they are.
        milliseconds[1].push(timed(|| scale(&mut x, norm)));
    }
    let [transform, memory] = milliseconds.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[ROUNDS / 2]
    });
    println!(
        "transform {transform:.3} ms, scaling {memory:.3} ms: {:.0} %",
        1e2 * memory / transform
    );
    Ok(())
}
