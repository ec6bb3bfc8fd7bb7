//! Laws of every map.

use super::*;
use crate::map_file::{Content, LayerParts};
use linwright_ops::Shape;
use linwright_tensor::{Mat, RngKey, parallel};
use std::collections::BTreeSet;
use std::path::Path;

/// Largest difference of sums in f32, relative to the largest number.
const TOLERANCE: f32 = 2e-5;

fn draw(rows: usize, cols: usize, seed: u64) -> Mat<f32> {
    Mat::from_vec(rows, cols, RngKey::new(seed).stream().normals(rows * cols, 1.0))
}

fn shape(out: usize, inp: usize) -> Shape {
    Shape { out, inp }
}

fn boxed(map: impl VectorMap + 'static) -> Box<dyn VectorMap> {
    Box::new(map)
}

/// Maps of every kind, on vectors of odd lengths too.
fn examples() -> Vec<Box<dyn VectorMap>> {
    let key = RngKey::new(5);
    let mut all = vec![boxed(Mask::new(6, vec![4, 0, 5]).unwrap())];
    for inp in [1, 2, 7, 65, 300] {
        all.push(boxed(Identity::new(inp)));
        all.push(boxed(Mask::random(inp, 5, key).unwrap()));
        for (out, signs) in [(4, 1), (9, 3), (2, 2)] {
            all.push(boxed(SparseSigns::random(shape(out, inp), signs, key).unwrap()));
        }
        all.push(boxed(Dense::normal(shape(6, inp), key).unwrap()));
        all.push(boxed(Dense::rademacher(shape(3, inp), key).unwrap()));
        all.push(boxed(Dense::directions(draw(inp, 2, 4)).unwrap()));
        all.push(boxed(Hadamard::random(shape(4, inp), key).unwrap()));
    }
    let mut kinds: Vec<&str> = all.iter().map(|map| map.kind()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds.len(), KINDS.len(), "an example of every kind");
    all
}

fn image(map: &dyn VectorMap, x: Rows<'_>) -> Mat<f32> {
    let mut y = Mat::from_fn(x.x.rows(), map.out(), |_, _| 7.0);
    map.apply(x, y.view_mut());
    y
}

fn assert_close(found: &[f32], expected: &[f32], what: &str) {
    let scale = expected.iter().fold(1.0f32, |most, v| most.max(v.abs()));
    assert_eq!(found.len(), expected.len(), "{what}");
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() <= TOLERANCE * scale, "{what}: {a} and {b} of {scale}");
    }
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>() as f32
}

fn named(map: &dyn VectorMap) -> String {
    format!("{} of {} to {}", map.kind(), map.inp(), map.out())
}

#[test]
fn maps_are_linear_and_parts_add_up_to_the_whole() {
    for map in examples() {
        let (x, z) = (draw(70, map.inp(), 1), draw(70, map.inp(), 2));
        let sum = Mat::from_fn(70, map.inp(), |i, j| 2.0 * x.at(i, j) - z.at(i, j));
        let (of_x, of_z) =
            (image(&*map, Rows::plain(x.view())), image(&*map, Rows::plain(z.view())));
        let expected = Mat::from_fn(70, map.out(), |i, j| 2.0 * of_x.at(i, j) - of_z.at(i, j));
        let of_sum = image(&*map, Rows::plain(sum.view()));
        assert_close(of_sum.data(), expected.data(), &named(&*map));
        for piece in [1, 3, map.inp()] {
            let mut y = vec![0.0; map.out()];
            for first in (0..map.inp()).step_by(piece) {
                let part = &x.row(69)[first..map.inp().min(first + piece)];
                map.add_part(first, part, &mut y);
            }
            assert_close(&y, of_x.row(69), &format!("{} in pieces of {piece}", named(&*map)));
        }
    }
}

#[test]
fn a_column_of_ones_is_that_of_a_bias() {
    for map in examples() {
        let x = draw(3, map.inp() - 1, 1);
        let with_ones =
            Mat::from_fn(3, map.inp(), |i, j| if j < x.cols() { x.at(i, j) } else { 1.0 });
        let found = image(&*map, Rows { x: x.view(), one: true });
        let expected = image(&*map, Rows::plain(with_ones.view()));
        assert_close(found.data(), expected.data(), &named(&*map));
    }
}

#[test]
fn adjoints_have_the_same_inner_products() {
    for map in examples() {
        let (x, y) = (draw(3, map.inp(), 1), draw(3, map.out(), 2));
        let of_x = image(&*map, Rows::plain(x.view()));
        let mut back = Mat::from_fn(3, map.inp(), |_, _| 7.0);
        map.adjoint(y.view(), back.view_mut());
        for i in 0..3 {
            let (a, b) = (dot(of_x.row(i), y.row(i)), dot(x.row(i), back.row(i)));
            let scale = 1.0 + a.abs() + dot(x.row(i), x.row(i)).sqrt();
            assert!((a - b).abs() < 1e-4 * scale, "{}: {a} and {b}", named(&*map));
        }
    }
}

#[test]
fn zero_rows_stay_zero_and_threads_change_no_bit() {
    for map in examples() {
        let mut x = draw(200, map.inp(), 1);
        x.row_mut(100).fill(0.0);
        let bits = |threads| {
            let run = || image(&*map, Rows::plain(x.view())).into_vec();
            let y = parallel::with_threads(threads, run).unwrap();
            y.into_iter().map(f32::to_bits).collect::<Vec<_>>()
        };
        let one = bits(1);
        assert!(one[100 * map.out()..101 * map.out()].iter().all(|b| b << 1 == 0));
        assert_eq!(one, bits(3), "{}", named(&*map));
    }
}

#[test]
fn files_give_back_the_map_and_refuse_what_is_none() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("maps.safetensors");
    for map in examples() {
        let parts = LayerParts { flat: vec![map.parts()], ..LayerParts::default() };
        parts.clone().write(&path).unwrap();
        let read = LayerParts::read(&path).unwrap();
        assert_eq!(read, parts, "{}", named(&*map));
        let again = read_map(&read.flat[0]).unwrap();
        let x = draw(2, map.inp(), 3);
        let of = |map: &dyn VectorMap| image(map, Rows::plain(x.view()));
        assert_eq!(of(&*map), of(&*again), "{}", named(&*map));
    }
    std::fs::write(&path, [0; 40]).unwrap();
    assert!(LayerParts::read(&path).is_err());
    linwright_run::state::write(&path, &other_file("{}", "F32", 4, &[0; 4])).unwrap();
    refused(&path, "no description of maps");
    for (maps, dtype, expected) in [
        (r#"{"inp":[],"out":[],"flat":[],"more":1}"#, "F32", "unknown field"),
        (r#"{"inp":[],"out":[],"flat":[]}"#, "I32", "ROLE.PLACE.NAME"),
        (r#"{"inp":[],"out":[],"flat":[{"kind":"mask","inp":3}]}"#, "BOOL", "type BOOL"),
        (r#"{"inp":[],"out":[],"flat":[{"kind":"mask","inp":3}]}"#, "F32", "a matrix (inp, out)"),
    ] {
        let metadata = format!("{{\"maps\":{}}}", serde_json::to_string(maps).unwrap());
        let size = if dtype == "BOOL" { 1 } else { 4 };
        let file = other_file(&metadata, dtype, size, &vec![0; size]);
        linwright_run::state::write(&path, &file).unwrap();
        refused(&path, expected);
    }
}

/// A file whose only tensor is `flat.0.idx`.
fn other_file(metadata: &str, dtype: &str, size: usize, data: &[u8]) -> Vec<u8> {
    let header = format!(
        "{{\"__metadata__\":{metadata},\"flat.0.idx\":{{\"dtype\":\"{dtype}\",\"shape\":[1],\"data_offsets\":[0,{size}]}}}}"
    );
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), data].concat()
}

#[track_caller]
fn refused(path: &Path, expected: &str) {
    let message = LayerParts::read(path).unwrap_err().to_string();
    assert!(message.contains(expected) && message.contains("maps.safetensors"), "{message}");
}

#[test]
fn impossible_maps_are_refused_with_what_was_expected() {
    let with = |kind, inp, tensors: Vec<(&str, Content)>| {
        let parts = Parts::new(kind, inp).with_option("out", 4).with_option("per_input", 1);
        tensors.into_iter().fold(parts, |parts, (name, content)| parts.with(name, content))
    };
    let indices = |list: &[u32]| ("idx", Content::Indices(list.to_vec()));
    let signs = |count| ("sign", Content::Signs(vec![true; count]));
    let cases = [
        (with("wavelet", 3, vec![]), "one of"),
        (with("mask", 3, vec![]), "indices called idx"),
        (with("mask", 3, vec![indices(&[])]), "at least one"),
        (with("mask", 3, vec![indices(&[1, 3])]), "indices below 3"),
        (with("mask", 3, vec![indices(&[1, 1])]), "each index once"),
        (with("mask", 3, vec![("idx", Content::Signs(vec![]))]), "found signs"),
        (with("sparse_signs", 2, vec![indices(&[0, 4]), signs(2)]), "targets below 4"),
        (with("sparse_signs", 2, vec![indices(&[0, 1]), signs(1)]), "1 for each of 2 inputs"),
        (with("sparse_signs", 2, vec![indices(&[0, 1])]), "signs called sign"),
        (with("hadamard", 2, vec![indices(&[2]), signs(2)]), "indices below 2"),
        (with("hadamard", 2, vec![indices(&[0]), signs(3)]), "2 inputs"),
        (with("dense", 2, vec![("matrix", Content::Matrix(draw(3, 2, 1)))]), "2 rows"),
    ];
    for (parts, expected) in cases {
        let message = read_map(&parts).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    }
    let key = RngKey::new(1);
    let message = SparseSigns::random(shape(2, 5), 3, key).unwrap_err().to_string();
    assert!(message.contains("3 signs for each input"), "{message}");
    assert!(
        Dense::normal(shape(1 << 20, 1 << 20), key).unwrap_err().to_string().contains("factgrass")
    );
    let bad = Mat::from_vec(1, 2, vec![1.0, f32::NAN]);
    assert!(Dense::of_entries(bad).unwrap_err().to_string().contains("NaN in row 0, column 1"));
}

#[test]
fn random_masks_are_sorted_unique_uniform_and_clipped() {
    let mut counts = [0u32; 20];
    for seed in 0..2000 {
        let mask = Mask::random(20, 5, RngKey::new(seed)).unwrap();
        let picked = mask.picks().unwrap();
        assert!(picked.len() == 5 && picked.windows(2).all(|pair| pair[0] < pair[1]));
        picked.iter().for_each(|&index| counts[index as usize] += 1);
    }
    let expected = 2000.0 * 5.0 / 20.0;
    let squares = counts.iter().map(|&count| (f64::from(count) - expected).powi(2) / expected);
    let chi_square: f64 = squares.sum();
    // 19 degrees of freedom: beyond 50 once in ten thousand.
    assert!(chi_square < 50.0, "{chi_square}");
    let mut seen = [0u32; 5];
    for seed in 0..4000 {
        let mask = Mask::random_groups(18, 7, 4, RngKey::new(seed)).unwrap();
        let picks = mask.picks().unwrap();
        assert!(picks.len() == 7 && picks.is_sorted_by(|a, b| a < b));
        // A group is whole, but for the last one that is drawn.
        let groups: BTreeSet<u32> = picks.iter().map(|index| index / 4).collect();
        let whole = groups.iter().filter(|&&group| {
            let all = 4 * group..(4 * group + 4).min(18);
            all.clone().all(|index| picks.contains(&index))
        });
        assert!(whole.count() + 1 >= groups.len(), "{picks:?}");
        groups.iter().for_each(|&group| seen[group as usize] += 1);
    }
    // Four groups of 4 and one of 2: two of them, and a third where the small one is among them.
    let mean = f64::from(seen.iter().sum::<u32>()) / 4000.0;
    assert!((mean - 2.4).abs() < 0.05, "{mean} groups");
    let all = Mask::random(3, 9, RngKey::new(1)).unwrap();
    assert_eq!(all.picks(), Some(&[0, 1, 2][..]));
}

/// Makes a map of 40 numbers to 16.
type Make = fn(RngKey) -> Box<dyn VectorMap>;

#[test]
fn inner_products_are_unbiased_and_have_the_variance_of_theory() {
    let (x, z) = (draw(1, 40, 1), draw(1, 40, 2));
    let both = Mat::from_fn(2, 40, |i, j| [&x, &z][i].at(0, j));
    let exact = f64::from(dot(x.data(), z.data()));
    let of_theory = {
        let (xx, zz) = (dot(x.data(), x.data()), dot(z.data(), z.data()));
        let fours: f64 = x.data().iter().zip(z.data()).map(|(a, b)| f64::from(a * a * b * b)).sum();
        (f64::from(xx) * f64::from(zz) + exact * exact - 2.0 * fours) / 16.0
    };
    let makes: [(&str, Make); 5] = [
        ("sjlt", |key| boxed(SparseSigns::random(shape(16, 40), 1, key).unwrap())),
        ("sjlt, 3 signs", |key| boxed(SparseSigns::random(shape(16, 40), 3, key).unwrap())),
        ("normal", |key| boxed(Dense::normal(shape(16, 40), key).unwrap())),
        ("rademacher", |key| boxed(Dense::rademacher(shape(16, 40), key).unwrap())),
        ("hadamard", |key| boxed(Hadamard::random(shape(16, 40), key).unwrap())),
    ];
    for (name, make) in makes {
        let samples: Vec<f64> = (0..3000)
            .map(|seed| {
                let y = image(&*make(RngKey::new(seed)), Rows::plain(both.view()));
                f64::from(dot(y.row(0), y.row(1)))
            })
            .collect();
        let count = samples.len() as f64;
        let mean = samples.iter().sum::<f64>() / count;
        let variance = samples.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let error = (variance / count).sqrt();
        assert!((mean - exact).abs() < 4.0 * error, "{name}: {mean}, {exact} within {error}");
        if name == "sjlt" {
            // The relative error of a variance of 3,000 samples is about 1/40.
            assert!((variance / of_theory - 1.0).abs() < 0.15, "{variance}, {of_theory}");
        }
    }
}

#[test]
fn columns_of_sparse_signs_have_length_one_unless_targets_coincide() {
    let map = SparseSigns::new(shape(5, 2), 2, &[0, 3, 1, 1], &[false, true, true, true]).unwrap();
    let y = image(&map, Rows::plain(Mat::identity(2).view()));
    let half = 0.5f32.sqrt();
    assert_eq!(y.row(0), [half, 0.0, 0.0, -half, 0.0]);
    assert!((y.at(1, 1) + 2.0 * half).abs() < 1e-6 && dot(y.row(1), y.row(1)) > 1.9);
}
