use super::*;
use crate::RngKey;
use crate::kernels::registers::Plain;

type Matrix = [[f64; 3]; 3];

/// Rounding of single precision in sums of a few hundred numbers near one.
const SINGLE: f64 = 2e-5;
/// Central differences in double precision with a step of 1e-5.
const DIFFERENCES: f64 = 1e-8;

fn random<T: Scalar>(len: usize, seed: u64) -> Vec<T> {
    RngKey::new(seed).stream().normals(len, 1.0)
}

/// The definitions of the module's page.
fn parts(x: Matrix) -> [f64; COMPONENTS] {
    let trace = (x[0][0] + x[1][1] + x[2][2]) / 3.0;
    let s = |i: usize, j: usize| (x[i][j] + x[j][i]) / 2.0 - if i == j { trace } else { 0.0 };
    let a = [(x[2][1] - x[1][2]) / 2.0, (x[0][2] - x[2][0]) / 2.0, (x[1][0] - x[0][1]) / 2.0];
    let two = 2.0_f64.sqrt();
    [
        3.0_f64.sqrt() * trace,
        two * a[0],
        two * a[1],
        two * a[2],
        (s(0, 0) - s(1, 1)) / two,
        1.5_f64.sqrt() * s(2, 2),
        two * s(0, 1),
        two * s(0, 2),
        two * s(1, 2),
    ]
}

/// The inverse of [`parts`], which is orthogonal: its columns are the parts of unit matrices.
fn matrix(t: [f64; COMPONENTS]) -> Matrix {
    let mut x = [[0.0; 3]; 3];
    for i in 0..3 {
        for j in 0..3 {
            let mut unit = [[0.0; 3]; 3];
            unit[i][j] = 1.0;
            x[i][j] = parts(unit).iter().zip(t).map(|(part, t)| part * t).sum();
        }
    }
    x
}

fn times(a: Matrix, b: Matrix) -> Matrix {
    [0, 1, 2].map(|i| [0, 1, 2].map(|j| (0..3).map(|k| a[i][k] * b[k][j]).sum()))
}

/// The numbers of one atom and channel.
fn tensor(x: &[f64], channels: usize, atom: usize, c: usize) -> [f64; COMPONENTS] {
    std::array::from_fn(|number| x[(atom * COMPONENTS + number) * channels + c])
}

/// Compares a kernel with its definition for one channel, at every atom and channel.
fn compare(channels: usize, found: &[f64], want: impl Fn(usize, usize) -> [f64; COMPONENTS]) {
    for atom in 0..found.len() / (COMPONENTS * channels) {
        for c in 0..channels {
            let found = tensor(found, channels, atom, c);
            for (found, want) in found.iter().zip(want(atom, c)) {
                assert!((found - want).abs() < 1e-12, "{found} is not {want}");
            }
        }
    }
}

/// Compares `gradient` with central differences of `Σ weights f(x)`.
fn compare_with_differences(
    x: &[f64],
    weights: &[f64],
    gradient: &[f64],
    f: impl Fn(&[f64]) -> Vec<f64>,
) {
    let value = |x: &[f64]| -> f64 { f(x).iter().zip(weights).map(|(y, w)| y * w).sum() };
    for k in 0..x.len() {
        let at = |step: f64| {
            let mut moved = x.to_vec();
            moved[k] += step;
            value(&moved)
        };
        let slope = (at(1e-5) - at(-1e-5)) / 2e-5;
        assert!((slope - gradient[k]).abs() < DIFFERENCES, "{} is not {slope}", gradient[k]);
    }
}

#[test]
fn parts_follow_their_definition_and_compose_again() {
    let numbers: Vec<f64> = random(9, 1);
    let x = [0, 1, 2].map(|i| [0, 1, 2].map(|j| numbers[3 * i + j]));
    let found = decompose(x.map(|row| row.map(Plain::<f64, 1>::splat)));
    let again = compose(found);
    for (part, want) in found.iter().zip(parts(x)) {
        assert!((part.first() - want).abs() < 1e-14);
    }
    for (again, x) in again.iter().flatten().zip(x.iter().flatten()) {
        assert!((again.first() - x).abs() < 1e-14);
    }
}

#[test]
fn normalised_tensors_and_their_gradients_equal_their_naive_twins() {
    for channels in [1, 8, 24] {
        let len = 2 * COMPONENTS * channels;
        let (x, g): (Vec<f64>, Vec<f64>) = (random(len, 1), random(len, 2));
        let forward = |x: &[f64]| {
            let (mut y, mut inverse) = (vec![0.0; len], vec![0.0; 2 * channels]);
            normalise(channels, x, &mut y, &mut inverse);
            (y, inverse)
        };
        let (y, inverse) = forward(&x);
        compare(channels, &y, |atom, c| {
            let x = tensor(&x, channels, atom, c);
            let by = 1.0 + x.iter().map(|x| x * x).sum::<f64>();
            x.map(|x| x / by)
        });
        let mut dx = g.clone();
        normalise_backward(channels, &y, &inverse, &mut dx);
        compare_with_differences(&x, &g, &dx, |x| forward(x).0);
    }
}

#[test]
fn products_and_their_gradients_equal_their_naive_twins() {
    for (channels, square) in
        [(1, Square::OneSided), (8, Square::Symmetric { factor: 1.3 }), (12, Square::OneSided)]
    {
        let len = 2 * COMPONENTS * channels;
        let [y, m, g]: [Vec<f64>; 3] = [1, 2, 3].map(|seed| random(len, seed));
        let forward = |y: &[f64], m: &[f64]| {
            let mut p = vec![0.0; len];
            product(channels, square, y, m, &mut p);
            p
        };
        compare(channels, &forward(&y, &m), |atom, c| {
            let [y, m] = [&y, &m].map(|x| matrix(tensor(x, channels, atom, c)));
            let (ym, my) = (parts(times(y, m)), parts(times(m, y)));
            let p: [f64; COMPONENTS] = std::array::from_fn(|k| match square {
                Square::Symmetric { factor } => factor * (ym[k] + my[k]),
                Square::OneSided => 2.0 * ym[k],
            });
            let by = 1.0 + p.iter().map(|p| p * p).sum::<f64>();
            p.map(|p| p / by)
        });
        let (mut dm, mut dy) = (g.clone(), vec![0.0; len]);
        product_backward(channels, square, &y, &m, &mut dm, &mut dy);
        compare_with_differences(&y, &g, &dy, |y| forward(y, &m));
        compare_with_differences(&m, &g, &dm, |m| forward(&y, m));
    }
}

#[test]
fn updates_and_their_gradients_equal_their_naive_twins() {
    let (channels, factor) = (8, 0.9);
    let len = 2 * COMPONENTS * channels;
    let [y, d, g]: [Vec<f64>; 3] = [1, 2, 3].map(|seed| random(len, seed));
    let forward = |d: &[f64]| {
        let mut x = vec![0.0; len];
        update(channels, factor, &y, d, &mut x);
        x
    };
    compare(channels, &forward(&d), |atom, c| {
        let [y, d] = [&y, &d].map(|x| tensor(x, channels, atom, c));
        let square = parts(times(matrix(d), matrix(d)));
        std::array::from_fn(|k| y[k] + d[k] + factor * square[k])
    });
    let mut dd = vec![0.0; len];
    update_backward(channels, factor, &d, &g, &mut dd);
    compare_with_differences(&d, &g, &dd, forward);
}

#[test]
fn squares_and_factors_of_parts_have_the_gradients_of_their_differences() {
    let channels = 4;
    let (len, few) = (2 * COMPONENTS * channels, 2 * PARTS * channels);
    let x: Vec<f64> = random(len, 1);
    let (s, g, weights): (Vec<f64>, Vec<f64>, Vec<f64>) =
        (random(few, 2), random(few, 3), random(len, 4));
    let norms = |x: &[f64]| {
        let mut norms = vec![0.0; few];
        squares(channels, x, &mut norms);
        norms
    };
    let first: f64 = (4..9).map(|number| x[number * channels].powi(2)).sum();
    assert!((norms(&x)[2 * channels] - first).abs() < 1e-12);
    let mut dx = vec![0.0; len];
    squares_backward(channels, &x, &g, &mut dx);
    compare_with_differences(&x, &g, &dx, norms);
    let scaled = |s: &[f64], x: &[f64]| {
        let mut y = vec![0.0; len];
        scale_parts(channels, s, x, &mut y);
        y
    };
    let (mut dx, mut ds) = (weights.clone(), vec![0.0; few]);
    scale_parts_backward(channels, &s, &x, &mut dx, &mut ds);
    compare_with_differences(&x, &weights, &dx, |x| scaled(&s, x));
    compare_with_differences(&s, &weights, &ds, |s| scaled(s, &x));
}

/// Four atoms: two pairs, one of them seen twice, and an atom alone.
struct Graph {
    starts: Vec<u32>,
    senders: Vec<u32>,
    stencils: Vec<Stencil>,
}

impl Graph {
    const ROWS: usize = 6;

    fn new() -> Self {
        let pairs = [(0, 1, 0.3_f64), (0, 2, 1.8), (0, 1, 3.2), (1, 2, 2.5), (2, 2, 0.0)];
        let mut graph = Self { starts: vec![0], senders: Vec::new(), stencils: Vec::new() };
        for atom in 0..4 {
            for (first, second, d) in pairs {
                let stencil = Stencil::within(d as u32, d - d.floor(), 1.0);
                for (receiver, sender) in [(first, second), (second, first)] {
                    if receiver == atom {
                        graph.senders.push(sender);
                        graph.stencils.push(stencil);
                    }
                }
            }
            graph.starts.push(graph.senders.len() as u32);
        }
        graph
    }

    fn edges(&self) -> Edges<'_> {
        Edges { starts: &self.starts, senders: &self.senders, stencils: &self.stencils }
    }

    fn receiver(&self, entry: usize) -> usize {
        (0..4).find(|atom| self.starts[atom + 1] as usize > entry).expect("an entry of an atom")
    }
}

/// Coefficients of three filters on each interval, and the same as a table.
fn table(channels: usize) -> (Vec<[Vec<f32>; COEFFICIENTS]>, Vec<f32>) {
    let mut rows = vec![0.0; Graph::ROWS * row_len(channels)];
    let intervals = (0..Graph::ROWS as u64)
        .zip(rows.chunks_exact_mut(row_len(channels)))
        .map(|(interval, row)| {
            let by_power: [Vec<f32>; COEFFICIENTS] =
                [0, 1, 2, 3].map(|power| random(3 * channels, 4 * interval + power + 10));
            filter_row(by_power.each_ref().map(Vec::as_slice), row);
            by_power
        })
        .collect();
    (intervals, rows)
}

/// Value and derivative of a filter.
fn filter(intervals: &[[Vec<f32>; COEFFICIENTS]], stencil: &Stencil, k: usize) -> [f64; 2] {
    let at = intervals[stencil.row as usize].each_ref().map(|by_power| f64::from(by_power[k]));
    let sum = |weights: [f32; 3]| -> f64 {
        at[1..].iter().zip(weights).map(|(at, weight)| at * f64::from(weight)).sum()
    };
    [at[0] + sum(stencil.value), sum(stencil.slope)]
}

#[test]
fn messages_and_their_gradients_equal_their_naive_twins() {
    for channels in [16, 48, 64] {
        let (graph, (nodes, rows)) = (Graph::new(), table(channels));
        let own: Vec<f32> = random(3 * channels, 1);
        let size = COMPONENTS * channels;
        let (y, dm): (Vec<f32>, Vec<f32>) = (random(4 * size, 2), random(4 * size, 3));
        let mut m = vec![0.0; 4 * size];
        gather(graph.edges(), 0..4, &rows, &own, &y, &mut m);
        let before: Vec<f32> = random(4 * size, 4);
        let (mut dy, mut dd) = (before.clone(), vec![0.5; graph.senders.len()]);
        let to = Adjoint { dm: &dm, dy: &mut dy, dd: &mut dd };
        gather_backward(graph.edges(), 0..4, &rows, &own, &y, to);
        for (k, (found, back)) in m.iter().zip(&dy).enumerate() {
            let (atom, number, c) = (k / size, k % size / channels, k % channels);
            let part = PART_OF[number] * channels + c;
            let mut want = [f64::from(own[part] * y[k]), f64::from(before[k] + own[part] * dm[k])];
            for entry in graph.starts[atom]..graph.starts[atom + 1] {
                let sender = graph.senders[entry as usize] as usize * size + k % size;
                let [f, _] = filter(&nodes, &graph.stencils[entry as usize], part);
                want[0] += f * f64::from(y[sender]);
                want[1] += f * f64::from(dm[sender]);
            }
            assert!((f64::from(*found) - want[0]).abs() < SINGLE, "{found} is not {}", want[0]);
            assert!((f64::from(*back) - want[1]).abs() < SINGLE, "{back} is not {}", want[1]);
        }
        for (entry, found) in dd.iter().enumerate() {
            let (sender, receiver) = (graph.senders[entry] as usize, graph.receiver(entry));
            let term = |k: usize| {
                let [_, slope] = filter(
                    &nodes,
                    &graph.stencils[entry],
                    PART_OF[k / channels] * channels + k % channels,
                );
                slope * f64::from(dm[sender * size + k]) * f64::from(y[receiver * size + k])
            };
            let want = 0.5 + (0..size).map(term).sum::<f64>();
            assert!((f64::from(*found) - want).abs() < 20.0 * SINGLE, "{found} is not {want}");
        }
    }
}

#[test]
fn some_receivers_have_the_bits_of_all() {
    let channels = 32;
    let (graph, (_, rows)) = (Graph::new(), table(channels));
    let (own, y): (Vec<f32>, Vec<f32>) = (random(3 * channels, 1), random(4 * 9 * channels, 2));
    let mut all = vec![0.0; y.len()];
    gather(graph.edges(), 0..4, &rows, &own, &y, &mut all);
    let mut some = vec![0.0; 2 * COMPONENTS * channels];
    gather(graph.edges(), 1..3, &rows, &own, &y, &mut some);
    assert_eq!(some, all[COMPONENTS * channels..3 * COMPONENTS * channels]);
}

#[test]
fn embeddings_and_their_gradients_equal_their_naive_twins() {
    for channels in [16, 32] {
        let (graph, (nodes, rows)) = (Graph::new(), table(channels));
        let entries = graph.senders.len();
        let kinds: Vec<u32> = (0..entries as u32).map(|entry| entry % 3).collect();
        let pairs: Vec<f32> = random(3 * channels, 1);
        let shapes: Vec<[f32; COMPONENTS]> = (0..entries as u64)
            .map(|entry| {
                let u: Vec<f64> = random(3, 20 + entry);
                let norm = u.iter().map(|u| u * u).sum::<f64>().sqrt();
                shape_of_direction([u[0] / norm, u[1] / norm, u[2] / norm]).map(|t| t as f32)
            })
            .collect();
        let (own, dx): (Vec<f32>, Vec<f32>) =
            (random(4 * channels, 2), random(4 * COMPONENTS * channels, 3));
        let all =
            EmbeddingEdges { edges: graph.edges(), kinds: &kinds, shapes: &shapes, pairs: &pairs };
        let mut x = vec![0.0; dx.len()];
        embed(all, 0..4, &rows, &own, &mut x);
        let mut back = vec![[0.0; COMPONENTS]; entries];
        embed_backward(all, 0..4, &rows, &dx, &mut back);
        let mut want = vec![0.0; x.len()];
        let mut want_back = vec![[0.0; COMPONENTS]; entries];
        for (k, own) in own.iter().enumerate() {
            want[k / channels * 9 * channels + k % channels] = 3.0_f64.sqrt() * f64::from(*own);
        }
        for entry in 0..entries {
            let atom = graph.receiver(entry);
            for (number, c) in (0..COMPONENTS).flat_map(|n| (0..channels).map(move |c| (n, c))) {
                let [f, slope] =
                    filter(&nodes, &graph.stencils[entry], PART_OF[number] * channels + c);
                let pair = f64::from(pairs[kinds[entry] as usize * channels + c]);
                let (shape, k) =
                    (f64::from(shapes[entry][number]), (atom * COMPONENTS + number) * channels + c);
                want[k] += pair * f * shape;
                want_back[entry][0] += pair * slope * shape * f64::from(dx[k]);
                if number > 0 {
                    want_back[entry][number] += pair * f * f64::from(dx[k]);
                }
            }
        }
        let found = x.iter().chain(back.iter().flatten());
        for (found, want) in found.zip(want.iter().chain(want_back.iter().flatten())) {
            assert!((f64::from(*found) - want).abs() < 20.0 * SINGLE, "{found} is not {want}");
        }
    }
}

#[test]
fn shapes_of_directions_are_the_parts_of_their_tensors() {
    let u = [0.36, 0.48, 0.8];
    let of_matrix = parts([0, 1, 2].map(|i| [0, 1, 2].map(|j| u[i] * u[j])));
    let axial = parts([[0.0, -u[2], u[1]], [u[2], 0.0, -u[0]], [-u[1], u[0], 0.0]]);
    for (number, found) in shape_of_direction(u).into_iter().enumerate() {
        let want = match PART_OF[number] {
            0 => 3.0_f64.sqrt(),
            1 => axial[number],
            _ => of_matrix[number],
        };
        assert!((found - want).abs() < 1e-14, "{found} is not {want}");
    }
}
