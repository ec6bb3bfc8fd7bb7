//! Rotor maps against direct multivector arithmetic, and the laws that rotors obey.

use super::{Rotor, RotorNetwork, RotorNetworkSpec, RotorOrder, RotorSpec, rotor_planes};
use crate::{Backward, Grads, LinearOp, Map, Shape, Structured, Tape, Workspace, parameter_count};
use linwright_tensor::kernels::adam::{Adam, adam};
use linwright_tensor::kernels::spin::{bivector_pairs, graded_blades};
use linwright_tensor::{Mat, RngKey};

/// Product of multivectors in binary order of blades, `e_i² = 1`.
fn geometric_product(x: &[f64], y: &[f64]) -> Vec<f64> {
    let mut product = vec![0.0; x.len()];
    for (a, &x) in x.iter().enumerate().filter(|(_, x)| **x != 0.0) {
        // Generator k of b has to pass those of a above it, whose number matters up to parity: it
        // is the parity of the generators in b that an odd number of a's has to pass.
        let odd = (1..usize::BITS).fold(0, |odd, shift| odd ^ a >> shift);
        for (b, &y) in y.iter().enumerate() {
            let sign = if (odd & b).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 };
            product[a ^ b] += sign * x * y;
        }
    }
    product
}

/// `exp(sign · b)` as the fourth power of the Taylor series of a quarter, whose terms are small
/// enough that they do not cancel.
fn taylor_rotor(bivector: &[f64], n: usize, sign: f64) -> Vec<f64> {
    let mut b = vec![0.0; 1 << n];
    for ((i, j), v) in bivector_pairs(n).zip(bivector) {
        b[1 << i | 1 << j] = 0.25 * sign * v;
    }
    let mut sum = vec![0.0; 1 << n];
    sum[0] = 1.0;
    let mut term = sum.clone();
    for k in 1..50 {
        // The sparse factor first: the product of commuting elements.
        term = geometric_product(&b, &term);
        term.iter_mut().for_each(|t| *t /= f64::from(k));
        sum.iter_mut().zip(&term).for_each(|(s, t)| *s += t);
    }
    let square = geometric_product(&sum, &sum);
    geometric_product(&square, &square)
}

fn rotor(n: usize, single: bool, seed: u64) -> Rotor<f64> {
    let spec = RotorSpec { single, ..RotorSpec::default() };
    let shape = Shape { out: 1 << n, inp: 1 << n };
    Rotor::random(&spec, shape, RngKey::new(seed)).unwrap()
}

fn apply(op: &dyn Map<f64>, x: &Mat<f64>) -> Mat<f64> {
    let mut y = Mat::zeros(x.rows(), op.shape().out);
    op.forward(x.view(), y.view_mut(), None, &mut Workspace::default());
    y
}

fn normal(rows: usize, cols: usize, seed: u64) -> Mat<f64> {
    Mat::from_vec(rows, cols, RngKey::new(seed).stream().normals(rows * cols, 1.0))
}

fn distance(a: &Mat<f64>, b: &Mat<f64>) -> f64 {
    let gaps = a.data().iter().zip(b.data()).map(|(a, b)| (a - b).abs());
    // `max` would drop a NaN.
    gaps.fold(0.0, |worst, gap| if gap > worst || gap.is_nan() { gap } else { worst })
}

/// The blade of each coordinate.
fn blades_of(n: usize, order: RotorOrder) -> Vec<u32> {
    match order {
        RotorOrder::Graded => graded_blades(n),
        RotorOrder::Binary => (0..1 << n).collect(),
    }
}

/// `r x reverse(s)` of the rotors of two bivectors, for one multivector in each of two orders.
struct Direct {
    r: Vec<f64>,
    reverse_s: Vec<f64>,
}

impl Direct {
    fn new(n: usize, left: &[f64], right: &[f64]) -> Self {
        Self { r: taylor_rotor(left, n, 1.0), reverse_s: taylor_rotor(right, n, -1.0) }
    }

    /// Of the coordinates in an order of blades.
    fn apply(&self, blades: &[u32], x: &[f64]) -> Vec<f64> {
        let mut binary = vec![0.0; x.len()];
        blades.iter().zip(x).for_each(|(&blade, &v)| binary[blade as usize] = v);
        let y = geometric_product(&geometric_product(&self.r, &binary), &self.reverse_s);
        blades.iter().map(|&blade| y[blade as usize]).collect()
    }
}

#[test]
fn the_fast_path_is_the_product_of_multivectors() {
    for n in 1..=12 {
        for single in [false, true] {
            let op = rotor(n, single, 3);
            let params = op.params();
            let left = params[0].values;
            let right = if single { left } else { params[1].values };
            let (direct, shape) = (Direct::new(n, left, right), op.shape());
            for order in [RotorOrder::Graded, RotorOrder::Binary] {
                let spec = RotorSpec { single, order, ..RotorSpec::default() };
                // The bivectors do not depend on the order.
                let op: Rotor<f64> = Rotor::random(&spec, shape, RngKey::new(3)).unwrap();
                let x = normal(1, 1 << n, 9);
                let y = direct.apply(&blades_of(n, order), x.row(0));
                let off = distance(&apply(&op, &x), &Mat::from_vec(1, 1 << n, y));
                assert!(off < 1e-10, "n {n}, single {single}, {order:?}: off by {off}");
            }
        }
    }
}

/// Chunk `k` of `count` starts at `floor(k · features / count)`.
fn feature(chunk: usize, count: usize, at: usize, features: usize) -> usize {
    (chunk * features / count + at) % features
}

/// The equation on the module's page, pair by pair.
fn chunk_by_chunk(op: &Rotor<f64>, n: usize, x: &[f64]) -> Vec<f64> {
    let (Shape { out, inp }, spec) = (op.shape(), op.spec);
    let (size, bivector) = (1 << n, n * (n - 1) / 2);
    let (ins, outs) = (inp.div_ceil(size), out.div_ceil(size));
    let params = op.params();
    let (left, alpha) = (params[0].values, params[params.len() - 1].values);
    let right = if spec.single { left } else { params[1].values };
    let blades = blades_of(n, spec.order);
    let (mut y, mut reached) = (vec![0.0; out], vec![0; out]);
    for (i, o) in (0..ins).flat_map(|i| (0..outs).map(move |o| (i, o))) {
        let pair = i * outs + o;
        let of_pair = |all: &[f64]| all[pair * bivector..][..bivector].to_vec();
        let direct = Direct::new(n, &of_pair(left), &of_pair(right));
        let chunk: Vec<f64> = (0..size).map(|k| x[feature(i, ins, k, inp)]).collect();
        for (k, v) in direct.apply(&blades, &chunk).into_iter().enumerate() {
            y[feature(o, outs, k, out)] += alpha[pair] * v;
            reached[feature(o, outs, k, out)] += 1;
        }
    }
    y.iter().zip(reached).map(|(y, pairs)| y / f64::from(pairs)).collect()
}

#[test]
fn chunks_of_rectangles_are_products_of_multivectors() {
    for (n, out, inp) in [
        (1, 5, 2),
        (2, 10, 7),
        (3, 20, 13),
        (4, 16, 40),
        (5, 70, 33),
        (6, 64, 150),
        (7, 300, 129),
        (8, 257, 256),
    ] {
        for order in [RotorOrder::Graded, RotorOrder::Binary] {
            for single in [false, true] {
                let spec = RotorSpec { chunk: Some(1 << n), single, order, ..RotorSpec::default() };
                let shape = Shape { out, inp };
                let op: Rotor<f64> = Rotor::random(&spec, shape, RngKey::new(13)).unwrap();
                // Factors that differ between pairs.
                let op = moved(&op, 0.3);
                let x = normal(2, inp, 14);
                let y = (0..2).flat_map(|row| chunk_by_chunk(&op, n, x.row(row))).collect();
                let off = distance(&apply(&op, &x), &Mat::from_vec(2, out, y));
                assert!(off < 1e-10, "n {n}, {shape:?}, {spec:?}: off by {off}");
            }
        }
    }
}

/// Largest distance from orthogonality of rotors in `f32`.
const ORTHOGONAL: f64 = 1e-6;
/// Largest number of generators for which all inner products of columns are formed.
const SMALL: usize = 4;

/// The largest error of an inner product of unit vectors behind the rotor.
fn off_orthogonal(op: &Rotor<f32>, n: usize, seed: u64) -> f64 {
    let side = 1 << n;
    let x: Mat<f32> = if n <= SMALL {
        Mat::identity(side)
    } else {
        let x = normal(4, side, seed);
        let norm = |i| x.row(i).iter().map(|v| v * v).sum::<f64>().sqrt();
        Mat::from_fn(4, side, |i, j| (x.at(i, j) / norm(i)) as f32)
    };
    let mut y = Mat::zeros(x.rows(), side);
    op.forward(x.view(), y.view_mut(), None, &mut Workspace::default());
    let inner = |m: &Mat<f32>, i: usize, j: usize| -> f64 {
        m.row(i).iter().zip(m.row(j)).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
    };
    let pairs = (0..x.rows()).flat_map(|i| (0..=i).map(move |j| (i, j)));
    let gaps = pairs.map(|(i, j)| (inner(&y, i, j) - inner(&x, i, j)).abs());
    gaps.fold(0.0, |worst, gap| if gap > worst || gap.is_nan() { gap } else { worst })
}

#[test]
fn ten_thousand_rotors_are_orthogonal_in_single_precision() {
    let mut worst = (0.0, 0);
    for seed in 0..10_000_u64 {
        let n = 1 + seed as usize % 8;
        let order = if seed / 8 % 2 == 0 { RotorOrder::Graded } else { RotorOrder::Binary };
        let spec = RotorSpec { single: seed / 16 % 2 == 1, order, ..RotorSpec::default() };
        let shape = Shape { out: 1 << n, inp: 1 << n };
        let op: Rotor<f32> = Rotor::random(&spec, shape, RngKey::new(seed)).unwrap();
        let off = off_orthogonal(&op, n, seed);
        if off > worst.0 || off.is_nan() {
            worst = (off, seed);
        }
    }
    assert!(worst.0 < ORTHOGONAL, "off by {} at seed {}", worst.0, worst.1);
}

#[test]
fn rotors_are_orthogonal_and_mix_only_the_grades_they_may() {
    for n in 0..=8 {
        for single in [false, true] {
            let dense = rotor(n, single, 5).to_dense();
            let blades = graded_blades(n);
            for i in 0..1 << n {
                for j in 0..1 << n {
                    let product: f64 =
                        dense.row(i).iter().zip(dense.row(j)).map(|(a, b)| a * b).sum();
                    let want = if i == j { 1.0 } else { 0.0 };
                    assert!((product - want).abs() < 1e-12, "n {n}, rows {i} and {j}");
                    let (a, b) = (blades[i].count_ones(), blades[j].count_ones());
                    let mixes = if single { a == b } else { a % 2 == b % 2 };
                    assert!(mixes || dense.at(i, j).abs() < 1e-12, "n {n}: grades {a} and {b}");
                }
            }
            // A double rotor does mix grades of equal parity.
            let first_column = (1..1 << n).map(|i| dense.at(i, 0).abs()).fold(0.0, f64::max);
            assert_eq!(first_column > 1e-3, !single && n > 1, "n {n}");
        }
    }
}

#[test]
fn large_rotors_keep_norms_and_their_reverse_undoes_them() {
    for n in [0usize, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13] {
        let op = rotor(n, false, 6);
        let mut reverse = op.clone();
        for param in reverse.params_mut().into_iter().filter(|p| p.name != "alpha") {
            param.values.iter_mut().for_each(|v| *v = -*v);
        }
        let x = normal(2, 1 << n, 7);
        let y = apply(&op, &x);
        let norm = |m: &Mat<f64>| m.data().iter().map(|v| v * v).sum::<f64>();
        assert!((norm(&y) / norm(&x) - 1.0).abs() < 1e-12, "n {n}");
        assert!(distance(&apply(&reverse, &y), &x) < 1e-11, "n {n}");
    }
}

/// The products of f32 take another path than those of f64, which the oracle checks.
#[test]
fn single_precision_follows_double_in_every_dimension_and_length_of_batch() {
    for n in 0..=11 {
        for rows in [1, 16, 37, 150] {
            let shape = Shape { out: 1 << n, inp: 1 << n };
            let single: Rotor<f32> =
                Rotor::random(&RotorSpec::default(), shape, RngKey::new(5)).unwrap();
            let mut double = rotor(n, false, 5);
            for (to, from) in double.params_mut().into_iter().zip(single.params()) {
                to.values.iter_mut().zip(from.values).for_each(|(to, &v)| *to = f64::from(v));
            }
            let (x, dy) = (normal(rows, 1 << n, 1), normal(rows, 1 << n, 2));
            let mut y = Mat::zeros(rows, 1 << n);
            single.forward(x.cast().view(), y.view_mut(), None, &mut Workspace::default());
            let gap = distance(&y.cast(), &apply(&double, &x));
            assert!(gap < 2e-5, "n {n}, {rows} rows: {gap}");
            let (mut grads, mut dx) = (Grads::zeros(&single.params()), Mat::zeros(rows, 1 << n));
            let (x32, dy32) = (x.cast(), dy.cast());
            let args = Backward {
                x: x32.view(),
                dy: dy32.view(),
                tape: &Tape::default(),
                dx: Some(dx.view_mut()),
                grads: Some(&mut grads),
            };
            single.backward(args, &mut Workspace::default());
            // The map is orthogonal, so that the gradient of its input goes back to that of its
            // output.
            let gap = distance(&apply(&double, &dx.cast()), &dy);
            assert!(gap < 2e-5, "gradient of the input, n {n}, {rows} rows: {gap}");
            let want = gradients(&double, &x, &dy, &mut Tape::default());
            for k in 0..single.params().len() {
                let size = want.get(k).iter().fold(1.0f64, |most, g| most.max(g.abs()));
                for (found, want) in grads.get(k).iter().zip(want.get(k)) {
                    let off = (f64::from(*found) - want).abs();
                    assert!(off < 2e-4 * size, "n {n}, {rows} rows: {found} is not {want}");
                }
            }
        }
    }
}

#[test]
fn rotors_compose_as_products() {
    // Every class of n modulo 8, and quaternionic pairs in 12.
    for n in 2..=12 {
        let (r, s) = (rotor(n, true, 1), rotor(n, true, 2));
        let x = normal(1, 1 << n, 3);
        let one_after_the_other = apply(&r, &apply(&s, &x));
        let product = geometric_product(
            &taylor_rotor(r.params()[0].values, n, 1.0),
            &taylor_rotor(s.params()[0].values, n, 1.0),
        );
        let mut reverse = product.clone();
        for (blade, v) in reverse.iter_mut().enumerate() {
            if blade.count_ones() % 4 >= 2 {
                *v = -*v;
            }
        }
        let blades = graded_blades(n);
        let mut binary = vec![0.0; 1 << n];
        blades.iter().zip(x.row(0)).for_each(|(&blade, &v)| binary[blade as usize] = v);
        let y = geometric_product(&geometric_product(&product, &binary), &reverse);
        let y = Mat::from_fn(1, 1 << n, |_, k| y[blades[k] as usize]);
        let off = distance(&one_after_the_other, &y);
        assert!(off < 1e-10, "n {n}: off by {off}");
    }
}

/// Gradients of `Σ weight · y`.
fn gradients(op: &dyn Map<f64>, x: &Mat<f64>, dy: &Mat<f64>, tape: &mut Tape<f64>) -> Grads<f64> {
    let (mut grads, mut ws) = (Grads::zeros(&op.params()), Workspace::default());
    let mut y = Mat::zeros(x.rows(), op.shape().out);
    tape.clear();
    op.forward(x.view(), y.view_mut(), Some(tape), &mut ws);
    let args = Backward { x: x.view(), dy: dy.view(), tape, dx: None, grads: Some(&mut grads) };
    op.backward(args, &mut ws);
    grads
}

#[test]
fn equal_and_zero_plane_angles_have_true_gradients() {
    for (n, angles) in [(4, [0.7, 0.7]), (6, [1.1, 1.1]), (5, [0.0, 0.0]), (4, [0.5, 0.5 + 1e-9])] {
        let mut op = rotor(n, false, 4);
        for param in op.params_mut().into_iter().take(2) {
            for ((i, j), v) in bivector_pairs(n).zip(param.values) {
                *v = if i % 2 == 0 && j == i + 1 { angles[i / 2 % 2] } else { 0.0 };
            }
        }
        let (x, dy) = (normal(3, 1 << n, 5), normal(3, 1 << n, 6));
        let grads = gradients(&op, &x, &dy, &mut Tape::default());
        for tensor in 0..2 {
            for k in 0..grads.get(tensor).len() {
                let mut loss = |by: f64| {
                    op.params_mut()[tensor].values[k] += by;
                    let y = apply(&op, &x);
                    y.data().iter().zip(dy.data()).map(|(a, b)| a * b).sum::<f64>()
                };
                let slope = (loss(1e-5) - loss(-2e-5)) / 2e-5;
                loss(1e-5);
                assert!((slope - grads.get(tensor)[k]).abs() < 1e-7, "n {n}, {tensor}, {k}");
            }
        }
    }
}

#[test]
fn planes_need_a_bivector() {
    assert!(rotor_planes(&[1.0, 2.0]).unwrap_err().to_string().contains("number of coefficients"));
    assert!(rotor_planes(&[f64::NAN]).unwrap_err().to_string().contains("not finite"));
    assert_eq!(rotor_planes(&[]).unwrap(), []);
    assert!((rotor_planes(&[-2.0]).unwrap()[0].angle - 2.0).abs() < 1e-14);
}

#[test]
fn the_batch_is_summed_in_the_same_order_every_time() {
    let op = rotor(6, false, 8);
    let (x, dy) = (normal(200, 64, 1), normal(200, 64, 2));
    let run = || gradients(&op, &x, &dy, &mut Tape::default());
    assert_eq!(run(), run());
}

/// Trains `student` on rows mapped by `teacher` (Adam, cosine to zero) and returns the mean squared
/// error on fresh rows before and after.
fn imitate(
    teacher: &dyn Map<f64>,
    student: &mut dyn Map<f64>,
    steps: u64,
    rate: f64,
) -> (f64, f64) {
    let (rows, Shape { inp, .. }) = (64, teacher.shape());
    let test = normal(256, inp, 1_000_003);
    let want = apply(teacher, &test);
    let error = |student: &dyn Map<f64>| {
        let y = apply(student, &test);
        let squares = y.data().iter().zip(want.data()).map(|(a, b)| (a - b) * (a - b));
        squares.sum::<f64>() / y.data().len() as f64
    };
    let before = error(student);
    let sizes: Vec<usize> = student.params().iter().map(|p| p.values.len()).collect();
    let mut moments: Vec<_> = sizes.iter().map(|&n| (vec![0.0; n], vec![0.0; n])).collect();
    let mut tape = Tape::default();
    for step in 1..=steps {
        let x = normal(rows, inp, step);
        let (y, want) = (apply(student, &x), apply(teacher, &x));
        let scale = 2.0 / y.data().len() as f64;
        let dy = Mat::from_fn(rows, y.cols(), |i, j| scale * (y.at(i, j) - want.at(i, j)));
        let grads = gradients(student, &x, &dy, &mut tape);
        let cosine = 0.5 * (1.0 + (std::f64::consts::PI * step as f64 / steps as f64).cos());
        let constants = Adam { rate: rate * cosine, ..Adam::default() };
        for (k, param) in student.params_mut().into_iter().enumerate() {
            let (first, second) = &mut moments[k];
            adam(&constants, step, param.values, grads.get(k), first, second);
        }
    }
    (before, error(student))
}

/// A copy with every parameter moved by normal noise.
fn moved<M: Map<f64> + Clone>(op: &M, by: f64) -> M {
    let (mut copy, mut stream) = (op.clone(), RngKey::new(77).stream());
    for param in copy.params_mut() {
        param.values.iter_mut().for_each(|v| *v += by * stream.normal());
    }
    copy
}

/// A copy with the parameters of another draw; permutations, which are not trained, stay.
fn redrawn(network: &RotorNetwork<f64>, spec: &RotorNetworkSpec, key: RngKey) -> RotorNetwork<f64> {
    let other: RotorNetwork<f64> = Structured::random(spec, network.shape(), key).unwrap();
    let mut copy = network.clone();
    for (to, from) in copy.params_mut().into_iter().zip(other.params()) {
        to.values.copy_from_slice(from.values);
    }
    copy
}

#[test]
fn a_planted_rotor_is_recovered() {
    for single in [true, false] {
        let teacher = rotor(4, single, 21);
        let (before, after) = imitate(&teacher, &mut rotor(4, single, 22), 400, 0.05);
        assert!(before > 0.1 && after < 1e-10, "single {single}: {before} to {after}");
    }
}

#[test]
fn a_network_far_from_a_planted_one_finds_it_with_enough_starts() {
    let shape = Shape { out: 8, inp: 8 };
    let spec = RotorNetworkSpec { hidden_layers: 1, breadth: 2, ..RotorNetworkSpec::default() };
    let teacher: RotorNetwork<f64> = Structured::random(&spec, shape, RngKey::new(31)).unwrap();
    let mut errors = Vec::new();
    for start in 32..40 {
        let mut student = redrawn(&teacher, &spec, RngKey::new(start));
        let (before, after) = imitate(&teacher, &mut student, 400, 0.05);
        assert!(before > 1.0, "start {start} is {before} from the teacher: not far");
        if after < before / 100.0 {
            return;
        }
        errors.push((before, after));
    }
    panic!("no start of {} found the teacher: {errors:?}", errors.len());
}

#[test]
fn a_network_of_the_papers_size_comes_down_from_far_away() {
    let (shape, spec) = (Shape { out: 16, inp: 16 }, RotorNetworkSpec::default());
    let teacher: RotorNetwork<f64> = Structured::random(&spec, shape, RngKey::new(31)).unwrap();
    let mut student = redrawn(&teacher, &spec, RngKey::new(32));
    assert_eq!(parameter_count(&student.params()), 8 * 13 + 6 + 1);
    let (before, after) = imitate(&teacher, &mut student, 300, 0.05);
    // Networks have local minima: it need not find the teacher.
    assert!(before > 1.0 && after < before / 4.0, "{before} to {after}");
}
