//! Every compressor against the product of its maps with the whole gradient, in f64.

use super::*;
use crate::map_file::Parts;
use crate::maps::{Rows, read_map};
use linwright_tensor::Mat;
use std::collections::BTreeSet;

/// Largest difference of sums in f32, relative to the largest number.
const TOLERANCE: f64 = 2e-5;
const KEY: CompressorKey = CompressorKey { seed: 3, checkpoint: 0 };
const SHAPES: [LayerShape; 4] = [
    LayerShape { out: 9, inp: 11, bias: true },
    LayerShape { out: 40, inp: 33, bias: false },
    LayerShape { out: 3, inp: 50, bias: true },
    LayerShape { out: 1, inp: 1, bias: false },
];

fn draw(rows: usize, cols: usize, seed: u64) -> Mat<f32> {
    Mat::from_vec(rows, cols, RngKey::new(seed).stream().normals(rows * cols, 1.0))
}

/// What could have been learned for a compressor with a second stage.
fn learned(shape: LayerShape, size: usize) -> Learned {
    let wide = (4 * size).isqrt();
    let pick = |inp: usize, out: usize, seed| {
        let mut order = RngKey::new(seed).stream().permutation(inp);
        order.truncate(out.min(inp));
        Some(order)
    };
    Learned {
        inp: pick(shape.width(), wide, 1),
        out: pick(shape.out, wide, 2),
        flat: pick(shape.numbers(), 4 * size, 3),
        inp_directions: Some(draw(shape.width(), shape.width(), 4)),
        out_directions: Some(draw(shape.out, shape.out, 5)),
    }
}

/// The learned masks at the sizes of a compressor without a second stage.
fn narrow(mut learned: Learned, size: usize) -> Learned {
    let side = size.isqrt();
    for (mask, size) in
        [(&mut learned.inp, side), (&mut learned.out, side), (&mut learned.flat, size)]
    {
        mask.as_mut().expect("learned").truncate(size);
    }
    learned
}

fn built(kind: CompressorKind, shape: LayerShape) -> LayerMap {
    let is_unchanged = kind == CompressorKind::Unchanged;
    let spec = CompressorSpec::new(kind, (!is_unchanged).then_some(16));
    let mut of_layer = learned(shape, 16);
    if matches!(kind, CompressorKind::SelectiveMask | CompressorKind::SelectiveFactorisedMask) {
        of_layer = narrow(of_layer, 16);
    }
    spec.build(("layer", shape), KEY, Some(&of_layer)).expect("exists")
}

/// The rows of a map's matrix (inp, out).
fn matrix(parts: &Parts) -> Mat<f64> {
    let map = read_map(parts).expect("a map");
    let mut image = Mat::zeros(map.inp(), map.out());
    map.apply(Rows::plain(Mat::identity(map.inp()).view()), image.view_mut());
    image.cast()
}

fn product(a: &Mat<f64>, b: &Mat<f64>) -> Mat<f64> {
    Mat::from_fn(a.rows(), b.cols(), |i, j| (0..a.cols()).map(|k| a.at(i, k) * b.at(k, j)).sum())
}

/// The compressed gradient by its definition.
fn oracle(map: &LayerMap, dy: &Mat<f32>, x: &Mat<f32>) -> Vec<f64> {
    let (shape, parts) = (map.shape(), map.parts());
    let with_one = Mat::from_fn(x.rows(), shape.width(), |t, i| {
        if i < shape.inp { f64::from(x.at(t, i)) } else { 1.0 }
    });
    let gradient = product(&dy.cast().transpose(), &with_one);
    let reduced = product(&matrix(&parts.out[0]).transpose(), &gradient);
    let reduced = product(&reduced, &matrix(&parts.inp[0]));
    let mut flat = Mat::from_vec(1, reduced.rows() * reduced.cols(), reduced.into_vec());
    for map in &parts.flat {
        flat = product(&flat, &matrix(map));
    }
    flat.into_vec()
}

fn compressed(map: &LayerMap, dy: &Mat<f32>, x: &Mat<f32>) -> Vec<f32> {
    let mut y = vec![0.0; map.size()];
    map.add(map.reduce_gradients(dy.view()).view(), map.reduce_inputs(x.view()).view(), &mut y);
    y
}

#[track_caller]
fn assert_close(found: &[f32], expected: &[f64], what: &str) {
    let scale = expected.iter().fold(1.0f64, |most, v| most.max(v.abs()));
    assert_eq!(found.len(), expected.len(), "{what}");
    for (a, b) in found.iter().zip(expected) {
        assert!((f64::from(*a) - b).abs() <= TOLERANCE * scale, "{what}: {a} and {b} of {scale}");
    }
}

#[test]
fn every_compressor_is_the_product_of_its_maps_with_the_gradient() {
    for &kind in CompressorKind::ALL {
        for shape in SHAPES {
            let map = built(kind, shape);
            for tokens in [1, 7, 130] {
                let (dy, x) = (draw(tokens, shape.out, 1), draw(tokens, shape.inp, 2));
                let what = format!("{} of {shape:?}, {tokens} rows", kind.name());
                let found = compressed(&map, &dy, &x);
                assert_close(&found, &oracle(&map, &dy, &x), &what);
            }
        }
    }
}

#[test]
fn rows_add_up_and_rows_without_gradient_contribute_exactly_nothing() {
    for &kind in CompressorKind::ALL {
        let shape = SHAPES[0];
        let map = built(kind, shape);
        let (mut dy, x) = (draw(6, shape.out, 1), draw(6, shape.inp, 2));
        let whole = compressed(&map, &dy, &x);
        let mut sum = vec![0.0; map.size()];
        for t in 0..6 {
            let row = |m: &Mat<f32>| m.view().rows_range(t, 1).to_mat();
            let single = compressed(&map, &row(&dy), &row(&x));
            sum.iter_mut().zip(single).for_each(|(sum, y)| *sum += f64::from(y));
        }
        assert_close(&whole, &sum, kind.name());
        dy.row_mut(4).fill(0.0);
        dy.row_mut(5).fill(0.0);
        let first = |m: &Mat<f32>| m.view().rows_range(0, 4).to_mat();
        let (padded, alone) =
            (compressed(&map, &dy, &x), compressed(&map, &first(&dy), &first(&x)));
        assert_eq!(padded, alone, "{}", kind.name());
    }
}

#[test]
fn a_factorised_mask_is_a_flat_one_of_a_product_set() {
    let shape = LayerShape { out: 40, inp: 33, bias: true };
    let factorised = built(CompressorKind::FactGrass, shape);
    let parts = factorised.parts();
    let [rows, columns] =
        [&parts.out[0], &parts.inp[0]].map(|map| map.indices("idx").expect("a mask"));
    let width = shape.width() as u32;
    let entries = rows.iter().flat_map(|o| columns.iter().map(move |i| o * width + i)).collect();
    let mask = Mask::new(shape.numbers(), entries).expect("a mask");
    let sketch = read_map(&parts.flat[0]).expect("a map");
    let identity = |size| -> Box<dyn VectorMap> { Box::new(Identity::new(size)) };
    let flat = vec![Box::new(mask) as Box<dyn VectorMap>, sketch];
    let flat = LayerMap::new(shape, identity(shape.width()), identity(shape.out), flat).unwrap();
    let (dy, x) = (draw(20, shape.out, 1), draw(20, shape.inp, 2));
    let expected: Vec<f64> = compressed(&flat, &dy, &x).into_iter().map(f64::from).collect();
    assert_close(&compressed(&factorised, &dy, &x), &expected, "factgrass and grass");
    assert!(flat.kept() <= columns.len() && factorised.kept() == columns.len());
}

#[test]
fn names_are_read_back_and_bad_ones_are_refused() {
    for &kind in CompressorKind::ALL {
        let size = (kind != CompressorKind::Unchanged).then_some(64);
        let spec = CompressorSpec { blow_up: 9, ..CompressorSpec::new(kind, size) };
        for spec in [spec, CompressorSpec::new(kind, size), CompressorSpec { signs: 2, ..spec }] {
            let read: CompressorSpec = spec.to_string().parse().expect("a compressor");
            assert_eq!(read.to_string(), spec.to_string());
            assert!(size.is_none() || read == spec);
        }
    }
    for (text, expected) in [
        ("fjlt:512", "expected one of identity, mask,"),
        ("factgrass", "factgrass:4096"),
        ("factgrass:0", "not a number above zero"),
        ("factgrass:x", "not a number above zero"),
        ("logra:4294967296", "above zero, of at most 16777216"),
        ("sjlt:16,blow_up=18446744073709551615", "above zero, of at most 16777216"),
        ("sjlt:16,signs=-1", "above zero, of at most 4096"),
        ("sjlt:1048576,signs=1048576", "above zero, of at most 4096"),
        ("sjlt:16,block=", "above zero, of at most 16777216"),
        ("grass:16,blow=2", "expected blow_up=C, signs=S or block=B"),
        ("identity:4", "has no size"),
    ] {
        let message = text.parse::<CompressorSpec>().unwrap_err().to_string();
        assert!(message.contains(expected) && message.contains(text), "{message}");
    }
}

#[test]
fn sizes_that_do_not_fit_are_refused_with_the_nearest_ones() {
    let shape = SHAPES[1];
    for (text, expected) in [
        ("factgrass:20", "such as 64 or 81"),
        ("logra:15", "such as 9 or 16"),
        ("sjlt:3,signs=4", "4 signs for each input"),
        ("selective_grass:16", "learned with 5 indices, expected 64"),
    ] {
        let spec: CompressorSpec = text.parse().expect("a compressor");
        let few = Learned { flat: Some(vec![0, 1, 2, 3, 4]), ..Learned::default() };
        let error = spec.build(("fc1", shape), KEY, Some(&few)).unwrap_err().to_string();
        assert!(error.contains(expected) && error.starts_with("layer fc1: "), "{error}");
    }
    let spec: CompressorSpec = "logra_pca:16".parse().expect("a compressor");
    let error = spec.build(("fc1", shape), KEY, None).unwrap_err().to_string();
    assert!(spec.kind.is_learned() && error.contains("learn it first"), "{error}");
}

#[test]
fn equal_keys_give_equal_maps_and_other_layers_and_checkpoints_others() {
    let shape = SHAPES[1];
    for &kind in CompressorKind::ALL {
        if kind == CompressorKind::Unchanged || kind.is_learned() {
            continue;
        }
        let spec = CompressorSpec::new(kind, Some(16));
        let parts = |site, key| spec.build((site, shape), key, None).expect("exists").parts();
        let one = parts("a", KEY);
        assert_eq!(one, parts("a", KEY), "{}", kind.name());
        for other in [
            parts("b", KEY),
            parts("a", CompressorKey { checkpoint: 1, ..KEY }),
            parts("a", CompressorKey { seed: 4, ..KEY }),
        ] {
            assert_ne!(one, other, "{}", kind.name());
        }
        if one.inp[0].kind == one.out[0].kind && !one.inp[0].tensors.is_empty() {
            assert_ne!(one.inp[0].tensors, one.out[0].tensors, "factors of {}", kind.name());
        }
    }
    // These numbers are those of files that exist.
    let mask = Mask::random(1000, 4, KEY.of_layer("a").fold("inp").fold("mask")).expect("a mask");
    assert_eq!(mask.picks(), Some(&[181, 613, 650, 990][..]));
    let names: BTreeSet<&str> = CompressorKind::ALL.iter().map(|kind| kind.name()).collect();
    assert_eq!(names.len(), CompressorKind::ALL.len());
    assert!(CompressorKind::ALL.iter().all(|kind| !kind.about().is_empty()));
}
