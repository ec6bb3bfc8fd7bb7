//! Runs one kernel once on fixed input, to be counted by a tool that counts instructions:
//! `tools/bench/instructions.py`. Without a name it lists the kernels, and with `machine` it names
//! the instructions that they use here.
#![allow(clippy::print_stdout, reason = "names and nothing else go to the output")]

use linwright_tensor::kernels::circulant::{CirculantChain, CyclicTransform};
use linwright_tensor::kernels::gemm::{Destination, Direction, Write};
use linwright_tensor::kernels::hadamard;
use linwright_tensor::kernels::spin::{BladeOrder, Chunk, Sandwich, Side, SpinBasis};
use linwright_tensor::{Mat, RngKey, parallel};
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;

/// Names, and what makes the kernel ready to be run.
const KERNELS: [(&str, fn()); 3] =
    [("hadamard", walsh_hadamard), ("rotor", rotor), ("circulant", circulant)];

fn normal(rows: usize, cols: usize) -> Mat<f32> {
    Mat::from_vec(rows, cols, RngKey::new(1).stream().normals(rows * cols, 1.0))
}

/// Everything between its call and its return is counted.
#[inline(never)]
fn counted(kernel: impl FnOnce()) {
    kernel();
}

/// Walsh-Hadamard transforms of 16 rows of 2048 features.
fn walsh_hadamard() {
    let mut x = normal(16, 2048);
    counted(|| hadamard::rows(x.view_mut()));
    black_box(x);
}

/// A double rotor of 11 generators on 16 vectors, with the change of basis there and back.
fn rotor() {
    let basis = SpinBasis::new(11, BladeOrder::Graded);
    let (side, width) = (basis.dimension(), 16);
    let bivectors = normal(2, 55);
    let left = basis.rotor(bivectors.row(0), Side::Left);
    let right = basis.rotor(bivectors.row(1), Side::Right);
    let x = normal(side, width);
    let chunk = Chunk { start: 0, features: side, width };
    let (mut sheets, mut turned) = (vec![0.0; side * width], vec![0.0; side * width]);
    let mut y = vec![0.0; side * width];
    counted(|| {
        basis.represent(x.data(), chunk, &mut sheets);
        let rotors = Sandwich { left: &left, right: &right };
        let to = Destination { y: &mut turned[..], scale: 1.0, write: Write::Set };
        basis.sandwich(rotors, Direction::Forward, &sheets, to);
        basis.recover(&mut turned, chunk, &mut y, Write::Set);
    });
    black_box(y);
}

/// `diag circ diag x` of 16 rows of 2048 features.
fn circulant() {
    let transform = Arc::new(CyclicTransform::<f32>::new(2048));
    let column: Vec<f64> = RngKey::new(2).stream().normals(2048, 1.0);
    let spectrum = transform.half_spectrum(&column);
    let chain = CirculantChain::new(transform, normal(2, 2048).into_vec(), &[spectrum]);
    let (x, mut y) = (normal(16, 2048), Mat::zeros(16, 2048));
    counted(|| chain.forward(x.view(), y.view_mut()));
    black_box(y);
}

fn main() -> ExitCode {
    let name = std::env::args().nth(1).unwrap_or_default();
    if name == "machine" {
        println!("{}", parallel::instruction_set());
    } else if let Some((_, run)) = KERNELS.iter().find(|(kernel, _)| *kernel == name) {
        // With one thread a kernel stays on the thread that calls it, where it is counted.
        if parallel::set_threads(1).is_err() {
            return ExitCode::FAILURE;
        }
        run();
    } else {
        KERNELS.iter().for_each(|(kernel, _)| println!("{kernel}"));
    }
    ExitCode::SUCCESS
}
