//! The steps that operators say they take are those that are taken: forward runs on numbers that
//! count what is done with them.

use linwright_ops::{Op, OpSpec, Shape, Workspace};
use linwright_tensor::{Counted, Mat, RngKey, Scalar};

/// Rows of a batch that fills registers of every machine: what fills others up would be counted.
const ROWS: usize = 32;

fn normal(rows: usize, cols: usize, label: &str) -> Mat<Counted> {
    Mat::from_vec(rows, cols, RngKey::new(5).fold(label).stream().normals(rows * cols, 1.0))
}

/// Declared and counted steps of a row.
fn costs(spec: &OpSpec, shape: Shape) -> (u64, f64) {
    let op: Op<Counted> = spec.random(shape, RngKey::new(3)).unwrap();
    let (x, mut y) = (normal(ROWS, shape.inp, "x"), Mat::zeros(ROWS, shape.out));
    let mut ws = Workspace::default();
    // What is derived from the parameters is made in the first call.
    op.map().forward(x.view(), y.view_mut(), None, &mut ws);
    let steps = Counted::steps_of(|| op.map().forward(x.view(), y.view_mut(), None, &mut ws));
    assert!(y.data().iter().all(|v| v.is_finite()), "{spec:?}");
    (op.map().macs_per_row(), steps as f64 / ROWS as f64)
}

fn spec(json: &str) -> OpSpec {
    serde_json::from_str(json).unwrap()
}

#[test]
fn operators_take_the_steps_they_declare() {
    let mut cases = OpSpec::examples();
    let square = |features| Shape { out: features, inp: features };
    for (json, shape) in [
        (r#"{"kind":"dense"}"#, Shape { out: 33, inp: 70 }),
        (r#"{"kind":"low_rank","rank":5}"#, Shape { out: 40, inp: 90 }),
        (r#"{"kind":"diagonal_low_rank","rank":3}"#, Shape { out: 90, inp: 40 }),
        (r#"{"kind":"monarch"}"#, Shape { out: 96, inp: 64 }),
        (r#"{"kind":"kronecker","terms":3}"#, Shape { out: 60, inp: 64 }),
        (r#"{"kind":"submatrix","outputs":20,"inputs":50}"#, Shape { out: 60, inp: 64 }),
        (r#"{"kind":"butterfly"}"#, square(128)),
        (r#"{"kind":"block_hadamard","block":16,"depth":3}"#, Shape { out: 64, inp: 100 }),
        (r#"{"kind":"circulant_diagonal","factors":3}"#, square(128)),
        (r#"{"kind":"circulant_diagonal","factors":2}"#, square(101)),
        (r#"{"kind":"circulant_diagonal","factors":2}"#, square(105)),
        (r#"{"kind":"rotor"}"#, square(128)),
        (r#"{"kind":"rotor","chunk":64}"#, Shape { out: 150, inp: 97 }),
        (r#"{"kind":"rotor","single":true,"order":"binary"}"#, square(256)),
        (r#"{"kind":"rotor_network"}"#, square(128)),
    ] {
        cases.push((spec(json), shape));
    }
    let mut wrong = Vec::new();
    for (spec, shape) in cases {
        let (declared, counted) = costs(&spec, shape);
        if declared as f64 != counted {
            wrong.push(format!("{declared} declared, {counted} counted: {shape:?} {spec:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
