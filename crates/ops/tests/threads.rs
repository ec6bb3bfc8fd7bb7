//! Results do not depend on the number of threads, to the last bit.

use linwright_ops::{Backward, Grads, OpSpec, Shape, Tape, Workspace};
use linwright_tensor::{Mat, RngKey, parallel};

/// Rows that make several pieces of every kernel.
const ROWS: usize = 300;

fn normal(rows: usize, cols: usize, label: &str) -> Mat<f32> {
    Mat::from_vec(rows, cols, RngKey::new(9).fold(label).stream().normals(rows * cols, 1.0))
}

/// The bits of the result, of the gradient of the input, and of all gradients of parameters.
fn bits(spec: &OpSpec, shape: Shape) -> Vec<u32> {
    let op = spec.random::<f32>(shape, RngKey::new(4)).unwrap();
    let (map, mut tape, mut ws) = (op.map(), Tape::default(), Workspace::default());
    let (x, dy) = (normal(ROWS, shape.inp, "x"), normal(ROWS, shape.out, "dy"));
    let (mut y, mut dx) = (Mat::zeros(ROWS, shape.out), Mat::zeros(ROWS, shape.inp));
    let mut grads = Grads::zeros(&map.params());
    map.forward(x.view(), y.view_mut(), Some(&mut tape), &mut ws);
    let (dx_view, grads_here) = (Some(dx.view_mut()), Some(&mut grads));
    let args = Backward { x: x.view(), dy: dy.view(), tape: &tape, dx: dx_view, grads: grads_here };
    map.backward(args, &mut ws);
    let numbers = y.data().iter().chain(dx.data()).chain(grads.iter().flatten());
    numbers.map(|v| v.to_bits()).collect()
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    let mut cases = OpSpec::examples();
    // Large enough that products are split.
    let square = |features| Shape { out: features, inp: features };
    for (kind, shape) in [
        ("dense", Shape { out: 200, inp: 150 }),
        ("monarch", square(256)),
        ("kronecker", square(256)),
        ("butterfly", square(256)),
        ("block_hadamard", square(256)),
        ("rotor", Shape { out: 300, inp: 256 }),
        ("rotor_network", square(256)),
    ] {
        cases.push((OpSpec::default_of(kind).unwrap(), shape));
    }
    for (spec, shape) in cases {
        let alone = parallel::with_threads(1, || bits(&spec, shape)).unwrap();
        for threads in [2, 3, 5] {
            let (used, found) =
                parallel::with_threads(threads, || (parallel::threads(), bits(&spec, shape)))
                    .unwrap();
            assert_eq!(used, threads);
            let equal = alone.iter().zip(&found).filter(|(a, b)| a == b).count();
            assert_eq!(
                (equal, found.len()),
                (alone.len(), alone.len()),
                "{threads} threads, {shape:?}, {spec:?}"
            );
        }
    }
}
