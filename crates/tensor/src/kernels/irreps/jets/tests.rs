use super::*;
use crate::RngKey;
use crate::kernels::gemm::Write;

/// Central differences in double precision with a step of 1e-5.
const DIFFERENCES: f64 = 1e-8;
const STEP: f64 = 1e-5;
/// Atoms and channels: whole registers, and a rest.
const ATOMS: usize = 3;
const CHANNELS: [usize; 3] = [1, 8, 12];

fn random(len: usize, seed: u64) -> Vec<f64> {
    RngKey::new(seed).stream().normals(len, 0.7)
}

/// A kernel from some arrays to others, with or without tangents.
type Kernel<'a> = dyn Fn(&[Jets<'_, f64>], Vec<JetsMut<'_, f64>>) + 'a;

/// Runs a kernel: values, and tangents along a direction of its inputs if there is one.
fn run_kernel(
    kernel: &Kernel<'_>,
    inputs: &[Vec<f64>],
    along: Option<&[Vec<f64>]>,
    outputs: &[usize],
) -> (Vec<Vec<f64>>, Vec<Vec<f64>>) {
    let jets: Vec<Jets<'_, f64>> = inputs
        .iter()
        .enumerate()
        .map(|(k, value)| Jets { value, tangent: along.map_or(&[][..], |along| &along[k]) })
        .collect();
    let mut values: Vec<Vec<f64>> = outputs.iter().map(|len| vec![0.0; *len]).collect();
    let tangents = |len: &usize| vec![0.0; if along.is_some() { *len } else { 0 }];
    let mut tangents: Vec<Vec<f64>> = outputs.iter().map(tangents).collect();
    let to = values.iter_mut().zip(&mut tangents);
    kernel(&jets, to.map(|(value, tangent)| JetsMut { value, tangent }).collect());
    (values, tangents)
}

fn moved(inputs: &[Vec<f64>], along: &[Vec<f64>], by: f64) -> Vec<Vec<f64>> {
    let pairs = inputs.iter().zip(along);
    pairs.map(|(x, d)| x.iter().zip(d).map(|(x, d)| x + by * d).collect()).collect()
}

#[track_caller]
fn close(what: &str, found: &[Vec<f64>], want: &[Vec<f64>]) {
    for (found, want) in found.iter().flatten().zip(want.iter().flatten()) {
        assert!((found - want).abs() < DIFFERENCES * (1.0 + want.abs()), "{what}: {found}, {want}");
    }
}

/// Tangents equal central differences of values, which are the same without them.
#[track_caller]
fn check_tangents(what: &str, kernel: &Kernel<'_>, inputs: &[usize], outputs: &[usize]) {
    let random = |seed: u64| -> Vec<Vec<f64>> {
        inputs.iter().enumerate().map(|(k, len)| random(*len, seed + k as u64)).collect()
    };
    let (x, along) = (random(1), random(50));
    let (values, tangents) = run_kernel(kernel, &x, Some(&along), outputs);
    let at = |by: f64| run_kernel(kernel, &moved(&x, &along, by), None, outputs).0;
    close(what, &values, &at(0.0));
    let (above, below) = (at(STEP), at(-STEP));
    let slopes: Vec<Vec<f64>> = above
        .iter()
        .zip(&below)
        .map(|(a, b)| a.iter().zip(b).map(|(a, b)| (a - b) / (2.0 * STEP)).collect())
        .collect();
    close(what, &tangents, &slopes);
}

/// A backward kernel, given inputs and then gradients of outputs, is the adjoint of the forward
/// one.
#[track_caller]
fn check_adjoint(
    what: &str,
    (forward, outputs): (&Kernel<'_>, &[usize]),
    (backward, inputs): (&Kernel<'_>, &[usize]),
) {
    let vectors = |lens: &[usize], seed: u64| -> Vec<Vec<f64>> {
        lens.iter().enumerate().map(|(k, len)| random(*len, seed + k as u64)).collect()
    };
    let (x, along, g) = (vectors(inputs, 1), vectors(inputs, 50), vectors(outputs, 90));
    let (_, tangents) = run_kernel(forward, &x, Some(&along), outputs);
    let given: Vec<Vec<f64>> = x.iter().chain(&g).cloned().collect();
    let (gradients, _) = run_kernel(backward, &given, None, inputs);
    let dot = |a: &[Vec<f64>], b: &[Vec<f64>]| -> f64 {
        a.iter().flatten().zip(b.iter().flatten()).map(|(a, b)| a * b).sum()
    };
    let (found, want) = (dot(&gradients, &along), dot(&g, &tangents));
    assert!((found - want).abs() < 1e-10 * (1.0 + want.abs()), "{what}: {found} is not {want}");
}

fn one(mut to: Vec<JetsMut<'_, f64>>) -> JetsMut<'_, f64> {
    to.swap_remove(0)
}

fn two(to: Vec<JetsMut<'_, f64>>) -> [JetsMut<'_, f64>; 2] {
    to.try_into().expect("two outputs")
}

#[test]
fn kernels_of_nodes_have_tangents_and_adjoints() {
    for h in CHANNELS {
        let (all, factors) = (ATOMS * COMPONENTS * h, random(ATOMS, 7));
        let zeros = vec![0.0; all];
        let forward = |x: &[Jets<'_, f64>], y: Vec<JetsMut<'_, f64>>| normalise(h, x[0], one(y));
        let backward = |x: &[Jets<'_, f64>], y: Vec<JetsMut<'_, f64>>| {
            let tangent = if x[0].tangent.is_empty() { &[][..] } else { &zeros };
            normalise_backward(h, x[0], [x[1], Jets { value: &zeros, tangent }], one(y));
        };
        check_tangents("normalise", &forward, &[all], &[all]);
        check_tangents("normalise_backward", &backward, &[all; 2], &[all]);
        check_adjoint("normalise", (&forward, &[all]), (&backward, &[all]));
        for square in [JetSquare::Symmetric { factors: &factors }, JetSquare::OneSided] {
            let forward = |x: &[Jets<'_, f64>], y: Vec<JetsMut<'_, f64>>| {
                product(h, square, x[0], x[1], one(y));
            };
            let backward = |x: &[Jets<'_, f64>], y: Vec<JetsMut<'_, f64>>| {
                product_backward(h, square, [x[0], x[1], x[2]], two(y));
            };
            check_tangents("product", &forward, &[all; 2], &[all]);
            check_tangents("product_backward", &backward, &[all; 3], &[all; 2]);
            check_adjoint("product", (&forward, &[all]), (&backward, &[all; 2]));
        }
        // Of y the gradient is g itself.
        let forward = |x: &[Jets<'_, f64>], y: Vec<JetsMut<'_, f64>>| {
            let still = Jets { value: &zeros[..], tangent: &zeros[..x[0].tangent.len()] };
            update(h, &factors, [still, x[0]], one(y));
        };
        let backward = |x: &[Jets<'_, f64>], y: Vec<JetsMut<'_, f64>>| {
            update_backward(h, &factors, [x[0], x[1]], one(y));
        };
        check_tangents("update", &forward, &[all], &[all]);
        check_tangents("update_backward", &backward, &[all; 2], &[all]);
        check_adjoint("update", (&forward, &[all]), (&backward, &[all]));
    }
}

#[test]
fn kernels_of_parts_have_tangents_and_adjoints() {
    for h in CHANNELS {
        let (all, parts, each) = (ATOMS * COMPONENTS * h, ATOMS * PARTS * h, ATOMS * h);
        let forward = |x: &[Jets<'_, f64>], y: Vec<JetsMut<'_, f64>>| norms(h, x[0], one(y));
        let backward = |x: &[Jets<'_, f64>], y: Vec<JetsMut<'_, f64>>| {
            norms_backward(h, x[0], x[1], one(y));
        };
        check_tangents("norms", &forward, &[all], &[each]);
        check_tangents("norms_backward", &backward, &[all, each], &[all]);
        check_adjoint("norms", (&forward, &[each]), (&backward, &[all]));
        let forward = |x: &[Jets<'_, f64>], y: Vec<JetsMut<'_, f64>>| squares(h, x[0], one(y));
        let backward = |x: &[Jets<'_, f64>], y: Vec<JetsMut<'_, f64>>| {
            squares_backward(h, x[0], x[1], one(y));
        };
        check_tangents("squares", &forward, &[all], &[parts]);
        check_tangents("squares_backward", &backward, &[all, parts], &[all]);
        check_adjoint("squares", (&forward, &[parts]), (&backward, &[all]));
        let forward = |x: &[Jets<'_, f64>], y: Vec<JetsMut<'_, f64>>| {
            scale_parts(h, x[1], x[0], one(y));
        };
        let backward = |x: &[Jets<'_, f64>], y: Vec<JetsMut<'_, f64>>| {
            scale_parts_backward(h, [x[1], x[0], x[2]], two(y));
        };
        check_tangents("scale_parts", &forward, &[all, parts], &[all]);
        check_tangents("scale_parts_backward", &backward, &[all, parts, all], &[all, parts]);
        check_adjoint("scale_parts", (&forward, &[all]), (&backward, &[all, parts]));
    }
}

/// A chain of three atoms: pairs (0, 1) and (1, 2).
const STARTS_OF_ROWS: [u32; 4] = [0, 1, 3, 4];
const SENDERS: [u32; 4] = [1, 0, 2, 1];
const PAIRS: [u32; 4] = [0, 0, 1, 1];
const ENDS: [[u32; 2]; 2] = [[0, 1], [1, 2]];

/// Filters of a pair are their values, moved along the distance by the slopes.
fn filters_at(filters: &[f64], slopes: &[f64], h: usize, along: &[f64], by: f64) -> Vec<f64> {
    let at = |(k, (value, slope)): (usize, (&f64, &f64))| {
        value + by * slope * along.get(k / (PARTS * h)).copied().unwrap_or(0.0)
    };
    filters.iter().zip(slopes).enumerate().map(at).collect()
}

#[test]
fn messages_and_gradients_of_their_filters_equal_differences() {
    for h in CHANNELS {
        let (all, rows) = (ATOMS * COMPONENTS * h, 3 * PARTS * h);
        let [y, dy, g, dg] = [1, 2, 3, 4].map(|seed| random(all, seed));
        let (filters, slopes) = (random(rows, 5), random(rows, 6));
        let along = random(2, 7);
        let edges =
            JetEdges { starts: &STARTS_OF_ROWS, senders: &SENDERS, pairs: &PAIRS, along: &along };
        let message = |y: &[f64], filters: &[f64]| {
            let mut m = vec![0.0; all];
            let filters = Jets { value: filters, tangent: &slopes };
            let (y, to) = (Jets { value: y, tangent: &[] }, &mut m);
            gather(edges, filters, y, JetsMut { value: to, tangent: &mut [] }, Write::Set);
            m
        };
        let (mut m, mut dm) = (vec![0.0; all], vec![0.0; all]);
        let of_filters = Jets { value: &filters[..], tangent: &slopes[..] };
        let to = JetsMut { value: &mut m, tangent: &mut dm };
        gather(edges, of_filters, Jets { value: &y, tangent: &dy }, to, Write::Set);
        let at = |by: f64| {
            let moved: Vec<f64> = y.iter().zip(&dy).map(|(y, d)| y + by * d).collect();
            message(&moved, &filters_at(&filters, &slopes, h, &along, by))
        };
        close("messages", &[m], &[at(0.0)]);
        let (above, below) = (at(STEP), at(-STEP));
        let slope: Vec<f64> =
            above.iter().zip(&below).map(|(a, b)| (a - b) / (2.0 * STEP)).collect();
        close("tangents of messages", &[dm], &[slope]);
        // By distances: <g, m> when one pair's filters move along their slopes.
        let mut distances = vec![0.0; 2];
        distance_gradients((&ENDS, ATOMS), of_filters, [&y, &g], &mut distances);
        for (pair, found) in distances.iter().enumerate() {
            let unit: Vec<f64> = (0..2).map(|k| f64::from(k == pair)).collect();
            let moved = message(&y, &filters_at(&filters, &slopes, h, &unit, 1.0));
            let want: f64 = moved
                .iter()
                .zip(message(&y, &filters))
                .zip(&g)
                .map(|((a, b), g)| g * (a - b))
                .sum();
            assert!((found - want).abs() < 1e-10, "{found} {want}");
        }
        // By filters: the derivative along the direction of <g, m> is linear in values and slopes.
        let (mut by_slope, mut by_value) = (vec![0.0; rows], vec![0.0; rows]);
        let to = JetsMut { value: &mut by_slope, tangent: &mut by_value };
        let (jets_y, jets_g) =
            (Jets { value: &y[..], tangent: &dy[..] }, Jets { value: &g[..], tangent: &dg[..] });
        filter_gradients((&ENDS, ATOMS), &along, [jets_y, jets_g], to);
        let derivative = |filters: &[f64], slopes: &[f64]| -> f64 {
            let (mut m, mut dm) = (vec![0.0; all], vec![0.0; all]);
            let to = JetsMut { value: &mut m, tangent: &mut dm };
            gather(edges, Jets { value: filters, tangent: slopes }, jets_y, to, Write::Set);
            g.iter().zip(&dm).map(|(g, d)| g * d).sum::<f64>()
                + dg.iter().zip(&m).map(|(g, m)| g * m).sum::<f64>()
        };
        let zeros = vec![0.0; rows];
        for k in 0..rows {
            let unit: Vec<f64> = (0..rows).map(|other| f64::from(other == k)).collect();
            let (value, slope) = (derivative(&unit, &zeros), derivative(&zeros, &unit));
            assert!((by_value[k] - value).abs() < 1e-10, "{k}: {} {value}", by_value[k]);
            assert!((by_slope[k] - slope).abs() < 1e-10, "{k}: {} {slope}", by_slope[k]);
        }
    }
}

#[test]
fn gradients_of_the_embedding_equal_differences() {
    for h in CHANNELS {
        let (all, rows, kinds) = (ATOMS * COMPONENTS * h, 3 * PARTS * h, 2);
        let (filters, slopes, species) = (random(rows, 1), random(rows, 2), random(kinds * h, 3));
        let (shapes, shape_tangents) = (random(4 * COMPONENTS, 4), random(4 * COMPONENTS, 5));
        let ([g, dg], along) = ([6, 7].map(|seed| random(all, seed)), random(2, 8));
        let edges =
            JetEdges { starts: &STARTS_OF_ROWS, senders: &SENDERS, pairs: &PAIRS, along: &along };
        let which = [0, 1, 1, 0, 1, 0, 1];
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        // Value of <g, x>, and its derivative along the direction with a gradient that moves too.
        let value = |filters: &[f64], slopes: &[f64], shapes: &[f64], species: &[f64]| {
            let of = EmbeddingJets {
                kinds: &which,
                shapes: Jets { value: shapes, tangent: &shape_tangents },
                species,
            };
            let (mut x, mut dx) = (vec![0.0; all], vec![0.0; all]);
            let to = JetsMut { value: &mut x, tangent: &mut dx };
            embed(edges, of, Jets { value: filters, tangent: slopes }, to);
            (dot(&g, &x), dot(&g, &dx) + dot(&dg, &x))
        };
        let of = EmbeddingJets {
            kinds: &which,
            shapes: Jets { value: &shapes, tangent: &shape_tangents },
            species: &species,
        };
        let of_filters = Jets { value: &filters[..], tangent: &slopes[..] };
        let (mut distances, mut by_shape) = (vec![0.0; 2], vec![[0.0; COMPONENTS]; 4]);
        embed_distances(edges, of, of_filters, &g, (&mut distances, &mut by_shape));
        let start = value(&filters, &slopes, &shapes, &species).0;
        for (pair, found) in distances.iter().enumerate() {
            let unit: Vec<f64> = (0..2).map(|k| f64::from(k == pair)).collect();
            let moved = filters_at(&filters, &slopes, h, &unit, 1.0);
            let want = value(&moved, &slopes, &shapes, &species).0 - start;
            assert!((found - want).abs() < 1e-10, "{found} {want}");
        }
        for (k, found) in by_shape.as_flattened().iter().enumerate() {
            let mut moved = shapes.clone();
            moved[k] += 1.0;
            let want = value(&filters, &slopes, &moved, &species).0 - start;
            assert!((found - want).abs() < 1e-10, "shape {k}: {found} {want}");
        }
        let (mut by_slope, mut by_value) = (vec![0.0; rows], vec![0.0; rows]);
        let mut by_species = vec![0.0; kinds * h];
        let to = EmbeddingGradients {
            filters: JetsMut { value: &mut by_slope, tangent: &mut by_value },
            species: &mut by_species,
        };
        embed_gradients(edges, of, of_filters, Jets { value: &g, tangent: &dg }, to);
        let start = value(&filters, &slopes, &shapes, &species).1;
        for k in 0..rows {
            let (mut moved, mut steeper) = (filters.clone(), slopes.clone());
            (moved[k], steeper[k]) = (moved[k] + 1.0, steeper[k] + 1.0);
            let want = value(&moved, &slopes, &shapes, &species).1 - start;
            assert!((by_value[k] - want).abs() < 1e-10, "filter {k}: {} {want}", by_value[k]);
            let want = value(&filters, &steeper, &shapes, &species).1 - start;
            assert!((by_slope[k] - want).abs() < 1e-10, "slope {k}: {} {want}", by_slope[k]);
        }
        for k in 0..kinds * h {
            let mut moved = species.clone();
            moved[k] += 1.0;
            let want = value(&filters, &slopes, &shapes, &moved).1 - start;
            assert!((by_species[k] - want).abs() < 1e-10, "pair {k}: {} {want}", by_species[k]);
        }
    }
}

#[test]
fn silu_has_tangents_and_an_adjoint() {
    let forward = |x: &[Jets<'_, f64>], y: Vec<JetsMut<'_, f64>>| silu(x[0], one(y));
    let backward = |x: &[Jets<'_, f64>], y: Vec<JetsMut<'_, f64>>| {
        let y = one(y);
        y.value.copy_from_slice(x[1].value);
        y.tangent.copy_from_slice(x[1].tangent);
        silu_backward(x[0], y);
    };
    check_tangents("silu", &forward, &[41], &[41]);
    check_tangents("silu_backward", &backward, &[41; 2], &[41]);
    check_adjoint("silu", (&forward, &[41]), (&backward, &[41]));
}

#[test]
fn silu_in_single_precision_equals_its_twin() {
    let wide: Vec<Vec<f64>> = (1..=4).map(|seed| random(301, seed)).collect();
    let narrow: Vec<Vec<f32>> =
        wide.iter().map(|all| all.iter().map(|x| *x as f32).collect()).collect();
    for tangents in [false, true] {
        let len = if tangents { 301 } else { 0 };
        let (mut y, mut dy) = ([vec![0.0; 301], vec![0.0; len]], [wide[2].clone(), Vec::new()]);
        let mut single = [vec![0.0_f32; 301], vec![0.0_f32; len]];
        let mut single_dy = [narrow[2].clone(), narrow[3][..len].to_vec()];
        dy[1] = wide[3][..len].to_vec();
        let x = Jets { value: &wide[0][..], tangent: &wide[1][..len] };
        let [value, tangent] = &mut y;
        silu(x, JetsMut { value, tangent });
        let [value, tangent] = &mut dy;
        silu_backward(x, JetsMut { value, tangent });
        let x = Jets { value: &narrow[0][..], tangent: &narrow[1][..len] };
        let [value, tangent] = &mut single;
        silu(x, JetsMut { value, tangent });
        let [value, tangent] = &mut single_dy;
        silu_backward(x, JetsMut { value, tangent });
        for (found, want) in [(single, y), (single_dy, dy)] {
            for (found, want) in found.iter().flatten().zip(want.iter().flatten()) {
                assert!((f64::from(*found) - want).abs() < 2e-6, "{found} is not {want}");
            }
        }
    }
}
