//! States between the stages of a network.

use super::super::number::Rows;
use super::super::parts::invariants;
use super::super::pass::{LayerPass, Pass};
use super::super::{Batch, Group, TensorNet};
use super::{Comparison, every_system};

/// The nine numbers of an atom and channel.
fn nine(rows: &Rows<f64>, atom: usize, channel: usize) -> [f64; 9] {
    let atoms = rows.rows() / 9;
    std::array::from_fn(|c| rows.at(c * atoms + atom, channel))
}

/// The matrix of nine numbers, by the definition of [`super::parts`].
fn compose(t: [f64; 9]) -> [[f64; 3]; 3] {
    let half = std::f64::consts::FRAC_1_SQRT_2;
    let (trace, zz) = (t[0] / 3.0_f64.sqrt(), t[5] * (2.0_f64 / 3.0).sqrt());
    let [a1, a2, a3, difference] = [t[1], t[2], t[3], t[4]].map(|x| x * half);
    let [xy, xz, yz] = [t[6], t[7], t[8]].map(|x| x * half);
    [
        [trace - zz / 2.0 + difference, xy - a3, xz + a2],
        [xy + a3, trace - zz / 2.0 - difference, yz - a1],
        [xz - a2, yz + a1, trace + zz],
    ]
}

/// Components of parts by atom as in the sets: I, A (three) or S (xx, xy, xz, yy, yz).
fn parts(rows: &Rows<f64>, part: &str) -> Vec<f64> {
    let (atoms, h) = (rows.rows() / 9, rows.cols());
    let mut found = Vec::new();
    for atom in 0..atoms {
        let all: Vec<Vec<f64>> =
            (0..h).map(|j| part_of(compose(nine(rows, atom, j)), part)).collect();
        (0..all[0].len()).for_each(|c| found.extend(all.iter().map(|parts| parts[c])));
    }
    found
}

fn part_of(x: [[f64; 3]; 3], part: &str) -> Vec<f64> {
    let third = (x[0][0] + x[1][1] + x[2][2]) / 3.0;
    let even = |i: usize, j: usize| (x[i][j] + x[j][i]) / 2.0 - if i == j { third } else { 0.0 };
    match part {
        "I" => vec![third],
        "A" => [(2, 1), (0, 2), (1, 0)].map(|(i, j)| (x[i][j] - x[j][i]) / 2.0).to_vec(),
        "S" => [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2)].map(|(i, j)| even(i, j)).to_vec(),
        _ => x.into_iter().flatten().collect(),
    }
}

fn numbers(rows: &Rows<f64>) -> &[f64] {
    rows.planes[0].data()
}

/// `k (Y M + M Y)` or `2 Y M` of a layer, by atom, entry and channel.
fn products(model: &TensorNet<f64>, batch: &Batch, layer: &LayerPass<f64>) -> Vec<f64> {
    let mut found = Vec::new();
    for atom in 0..batch.atoms() {
        let k = 1.0 + 0.1 * batch.charges[batch.molecules[atom]];
        for entry in 0..9 {
            for channel in 0..layer.mixed.cols() {
                let y = compose(nine(&layer.mixed, atom, channel));
                let m = compose(nine(&layer.message, atom, channel));
                let of = |a: [[f64; 3]; 3], b: [[f64; 3]; 3]| -> f64 {
                    (0..3).map(|j| a[entry / 3][j] * b[j][entry % 3]).sum()
                };
                found.push(match model.config().group {
                    Group::Orthogonal => k * (of(y, m) + of(m, y)),
                    Group::Rotations => 2.0 * of(y, m),
                });
            }
        }
    }
    found
}

/// Compares all states of a system in a set.
pub(in super::super) fn check(one: &mut Comparison<'_>) {
    let tolerance = one.set.tolerance("f64", "intermediate");
    let model = one.set.model::<f64>();
    let batch = one.set.batch(one.system, model.config());
    let pass: Pass<f64> = model.pass(&batch, &model.filters(&batch), None);
    let mut states = vec![("embsum".to_owned(), &pass.sums)];
    states.push(("emb".into(), pass.layers.first().map_or(&pass.last, |layer| &layer.input)));
    for layer in 0..pass.layers.len() {
        let after = pass.layers.get(layer + 1).map_or(&pass.last, |next| &next.input);
        states.push((format!("layer{layer}"), after));
    }
    for (name, rows) in &states {
        for part in ["I", "A", "S"] {
            one.check(&format!("{name}.{part}"), &parts(rows, part), tolerance);
        }
    }
    one.check("emb_scale", numbers(&pass.scales), tolerance);
    one.check("invariants", numbers(&invariants(&pass.last)), tolerance);
    one.check("x", numbers(&pass.readout_pass[1].0), tolerance);
    one.check("e_atom_unscaled", numbers(&pass.outputs), tolerance);
    for (index, layer) in pass.layers.iter().enumerate() {
        one.check(&format!("layer{index}.C"), &products(&model, &batch, layer), tolerance);
        for (key, rows) in [("Y", &layer.mixed), ("M", &layer.message), ("D", &layer.update)] {
            one.check(&format!("layer{index}.{key}"), &parts(rows, "all"), tolerance);
        }
    }
    if let Some(lengths) = one.set.get(one.system, "edge_d") {
        let functions = model.radial(lengths.iter().copied()).functions;
        let found = &functions.planes[0].data()[..lengths.len() * functions.cols()];
        one.check("rbf", found, tolerance);
    }
}

#[test]
fn golden_states_equal_the_reference() {
    every_system("emb", check);
}
