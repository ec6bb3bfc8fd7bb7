//! Tests of neighbour lists.

use super::*;
use linwright_tensor::{RngKey, RngStream};

/// Random lists that are compared with the definition.
const LISTS: u64 = 100_000;

fn between(random: &mut RngStream, low: f64, high: f64) -> f64 {
    low + (high - low) * random.uniform()
}

fn atoms(positions: Vec<[f64; 3]>, cell: Option<Cell>) -> Structure {
    Structure { species: vec![1; positions.len()], positions, cell, ..Structure::default() }
}

/// Cells of all kinds: none, orthorhombic, triclinic, far from reduced, left-handed, smaller than
/// the cutoff, and repeating along some vectors only.
fn random_cell(kind: u64, random: &mut RngStream) -> Option<Cell> {
    let mut rows = [[0.0; 3]; 3];
    let longest = if kind.is_multiple_of(2) { 2.0 } else { 7.0 };
    for (k, row) in rows.iter_mut().enumerate() {
        row[k] = between(random, 0.8, longest);
    }
    if kind >= 2 {
        let tilt = if kind < 4 { 0.5 } else { 1.6 };
        for (k, x) in [(1, 0), (2, 0), (2, 1)] {
            rows[k][x] = between(random, -tilt, tilt) * rows[x][x];
        }
    }
    if kind >= 6 {
        rows = rows.map(|[x, y, z]| [0.6 * x - 0.8 * z, y, 0.8 * x + 0.6 * z]);
        rows.swap(0, 2);
    }
    let periodic = match kind {
        8 => [true, false, true],
        9 => [false, false, true],
        _ => [true; 3],
    };
    if kind >= 8 && random.below(2) == 0 {
        // Rows that do not repeat need not mean anything.
        (0..3).filter(|k| !periodic[*k]).for_each(|k| rows[k] = [f64::NAN; 3]);
    }
    (kind < 10).then_some(Cell { rows, periodic })
}

fn random_structure(kind: u64, random: &mut RngStream) -> Structure {
    let cell = random_cell(kind, random);
    let count = 1 + random.below(if cell.is_some() { 5 } else { 12 });
    let spread = 6.0;
    let mut positions: Vec<[f64; 3]> = Vec::new();
    for _ in 0..count {
        positions.push([0; 3].map(|_| between(random, -spread, spread)));
    }
    atoms(positions, cell)
}

#[test]
fn random_lists_equal_the_definition() {
    let key = RngKey::new(26).fold("lists");
    let mut pairs = 0;
    for index in 0..LISTS {
        let mut random = key.fold_index(index).stream();
        let structure = random_structure(index % 11, &mut random);
        let lower = if index % 5 == 0 { 0.7 } else { 0.0 };
        let upper = between(&mut random, 0.8, 3.0);
        let expected =
            Neighbours::brute_force(&structure, Cutoff::angstroms(lower, upper)).unwrap();
        let binned = Neighbours::cell_list(&structure, Cutoff::angstroms(lower, upper)).unwrap();
        assert_eq!(binned, expected, "list {index} of {structure:?}, {lower} to {upper}");
        assert_eq!(
            Neighbours::within(&structure, Cutoff::angstroms(lower, upper)).unwrap(),
            expected
        );
        pairs += expected.pairs.len();
    }
    assert!(pairs > 10 * LISTS as usize, "{pairs}");
}

/// Pairs of all images within four cells, measured one by one without any geometry.
fn by_images(structure: &Structure, upper: f64) -> Vec<(u32, u32, [i32; 3])> {
    let cell = structure.cell.unwrap();
    let range = |k: usize| if cell.periodic[k] { -9..=9 } else { 0..=0 };
    let mut pairs = Vec::new();
    let count = structure.positions.len();
    for (first, second) in (0..count).flat_map(|a| (a..count).map(move |b| (a, b))) {
        for a in range(0) {
            for b in range(1) {
                for c in range(2) {
                    let image = [a, b, c];
                    let v = vector(&structure.positions, Some(&cell), first, second, image);
                    if dot(&v, &v).sqrt() < upper && (first < second || image > [0; 3]) {
                        pairs.push((first as u32, second as u32, image));
                    }
                }
            }
        }
    }
    pairs
}

#[test]
fn the_definition_misses_no_image() {
    let key = RngKey::new(26).fold("images");
    for index in 0..60 {
        let mut random = key.fold_index(index).stream();
        let mut structure = random_structure(index % 8, &mut random);
        structure.positions.truncate(3);
        structure.species.truncate(3);
        structure.positions.iter_mut().flatten().for_each(|x| *x *= 0.2);
        let found = Neighbours::brute_force(&structure, Cutoff::angstroms(0.0, 1.5)).unwrap();
        let found: Vec<_> = found.pairs.iter().map(|p| (p.first, p.second, p.image)).collect();
        assert_eq!(found, by_images(&structure, 1.5), "{structure:?}");
    }
}

#[test]
fn larger_systems_with_far_atoms_equal_the_definition() {
    let mut random = RngKey::new(26).fold("larger").stream();
    for kind in 0..11 {
        let cell = random_cell(kind, &mut random)
            .map(|cell| Cell { rows: cell.rows.map(|row| row.map(|x| 3.0 * x)), ..cell });
        let mut positions: Vec<[f64; 3]> =
            (0..60).map(|_| [0; 3].map(|_| between(&mut random, -9.0, 9.0))).collect();
        positions[7] = [1e4, -2e5, 3e3];
        let structure = atoms(positions, cell);
        let found = Neighbours::cell_list(&structure, Cutoff::angstroms(0.0, 2.5)).unwrap();
        assert_eq!(
            found,
            Neighbours::brute_force(&structure, Cutoff::angstroms(0.0, 2.5)).unwrap(),
            "{kind}"
        );
    }
}

#[test]
fn rows_hold_both_directions_in_order() {
    let cell = Cell::periodic([[2.0, 0.0, 0.0], [0.0, 9.0, 0.0], [0.0, 0.0, 9.0]]);
    let structure = atoms(vec![[0.0; 3], [0.5, 0.0, 0.0]], Some(cell));
    let list = Neighbours::within(&structure, Cutoff::angstroms(0.0, 2.1)).unwrap();
    // Each atom sees its own image, and the other one four times: at -3/2 - 1/2, and so on.
    let pairs: Vec<_> = list.pairs.iter().map(|p| (p.first, p.second, p.image[0])).collect();
    assert_eq!(pairs, [(0, 0, 1), (0, 1, -1), (0, 1, 0), (1, 1, 1)]);
    for atom in 0..2 {
        let row = list.of(atom);
        assert_eq!(row.len(), 4);
        assert!(row.is_sorted_by_key(|entry| (entry.atom, entry.pair, entry.reversed)));
        for entry in row {
            let pair = &list.pairs[entry.pair as usize];
            let ends =
                if entry.reversed { (pair.second, pair.first) } else { (pair.first, pair.second) };
            assert_eq!(ends, (atom as u32, entry.atom));
        }
    }
    assert_eq!(list.pairs[0].vector, [-2.0, 0.0, 0.0]);
}

#[test]
fn batches_are_numbered_through() {
    let one = atoms(vec![[0.0; 3], [1.0, 0.0, 0.0]], None);
    let two = atoms(vec![[0.0; 3], [0.0, 1.0, 0.0], [0.0, 2.0, 0.0]], None);
    let list = Neighbours::of_batch([&one, &two], Cutoff::angstroms(0.0, 1.5)).unwrap();
    let pairs: Vec<_> = list.pairs.iter().map(|p| (p.first, p.second)).collect();
    assert_eq!(pairs, [(0, 1), (2, 3), (3, 4)]);
    assert_eq!((list.atoms(), list.starts.clone()), (5, vec![0, 1, 2, 3, 5, 6]));
    assert_eq!(list.of(3).iter().map(|e| (e.atom, e.pair)).collect::<Vec<_>>(), [(2, 1), (4, 2)]);
    let bad = atoms(vec![[0.0; 3]; 2], None);
    let error =
        Neighbours::of_batch([&one, &bad], Cutoff::angstroms(0.0, 1.5)).unwrap_err().to_string();
    assert!(error.starts_with("structure 1: atoms 0 and 1 are 0 apart"), "{error}");
}

#[test]
fn skin_lists_equal_fresh_ones_along_a_walk() {
    let mut random = RngKey::new(26).fold("walk").stream();
    for kind in 0..11 {
        let mut structure = random_structure(kind, &mut random);
        structure.positions.extend([[0.1, 0.2, 0.3], [1.4, 2.2, -0.7], [-1.0, 0.9, 0.5]]);
        structure.species.resize(structure.positions.len(), 1);
        let mut list = SkinList::new(Cutoff::angstroms(0.3, 2.0), 0.5).unwrap();
        for step in 0..100 {
            for x in structure.positions.iter_mut().flatten() {
                *x += 0.02 * random.normal();
            }
            if step == 60
                && let Some(cell) = &mut structure.cell
            {
                cell.rows.iter_mut().flatten().for_each(|x| *x *= 1.01);
            }
            let fresh = Neighbours::within(&structure, Cutoff::angstroms(0.3, 2.0)).unwrap();
            assert_eq!(*list.update(&structure).unwrap(), fresh, "{kind}, step {step}");
        }
        assert!((2..60).contains(&list.searches()), "{} searches", list.searches());
    }
}

#[test]
fn bad_input_is_named() {
    let cube = |a: f64| Cell::periodic([[a, 0.0, 0.0], [0.0, a, 0.0], [0.0, 0.0, a]]);
    let pair = vec![[0.0; 3], [1.0, 0.0, 0.0]];
    let flat = Cell::periodic([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0]]);
    let skewed = Cell::periodic([[1.0, 0.0, 0.0], [1e15, 1e-3, 0.0], [0.0, 0.0, 1.0]]);
    for (structure, said) in [
        (atoms(vec![[0.0; 3], [5.0; 3], [0.0; 3]], None), "atoms 0 and 2 are 0 apart"),
        (
            atoms(vec![[0.0; 3], [3.0, 0.0, 0.0]], Some(cube(3.0))),
            "and 1 (translated by [-1, 0, 0])",
        ),
        (atoms(vec![[0.0, f64::NAN, 0.0]], None), "coordinate y of atom 0 is NaN"),
        (atoms(vec![[0.0, 0.0, 1e200]], None), "coordinate z of atom 0"),
        (atoms(vec![[0.0, 0.0, 1e20]], Some(cube(3.0))), "within 200 million cells"),
        (atoms(pair.clone(), Some(cube(0.0))), "has no volume"),
        (atoms(pair.clone(), Some(flat)), "has no volume"),
        (atoms(pair.clone(), Some(cube(f64::NAN))), "not finite"),
        (atoms(pair.clone(), Some(skewed)), "the cell"),
        (atoms(pair.clone(), Some(cube(1e-3))), "more than any real material"),
        (Structure { species: vec![1], ..atoms(pair.clone(), None) }, "1 species, but 2 positions"),
    ] {
        let searches = [Neighbours::within, Neighbours::brute_force, Neighbours::cell_list];
        for search in searches {
            let error = search(&structure, Cutoff::angstroms(0.0, 2.0)).unwrap_err().to_string();
            assert!(error.contains(said), "{said:?} in {error}");
        }
        let mut skin = SkinList::new(Cutoff::angstroms(0.0, 2.0), 0.5).unwrap();
        assert!(skin.update(&structure).unwrap_err().to_string().contains(said));
    }
    for (lower, upper) in [(0.0, 0.0), (2.0, 1.0), (-1.0, 2.0), (0.0, f64::NAN), (f64::NAN, 1.0)] {
        let error = Neighbours::within(&atoms(pair.clone(), None), Cutoff::angstroms(lower, upper))
            .unwrap_err();
        assert!(error.to_string().contains("cutoff"), "{error}");
    }
}

#[test]
fn crowds_are_refused_before_their_pairs_are_kept() {
    // Far more pairs than memory has place for, if they were kept.
    let count = 100_000;
    let told = |positions: Vec<[f64; 3]>| {
        let error =
            Neighbours::within(&atoms(positions, None), Cutoff::angstroms(0.0, 5.0)).unwrap_err();
        error.to_string()
    };
    let same = told(vec![[1.0, 2.0, 3.0]; count]);
    assert!(same.contains("are 0 apart"), "{same}");
    let mut random = RngKey::new(4).fold("crowd").stream();
    let near: Vec<[f64; 3]> =
        (0..count).map(|_| std::array::from_fn(|_| 0.3 * random.uniform())).collect();
    let few = near[..100].to_vec();
    let near = told(near);
    assert!(near.contains("more than 12 others within 0.5"), "{near}");
    // Spread so that none has many close ones, but denser than any matter.
    let side = 30;
    let places = 0..side * side * side;
    let dense =
        places.map(|k| [k % side, k / side % side, k / side / side].map(|x| 0.45 * x as f64));
    let dense = told(dense.collect());
    assert!(dense.contains("pairs within 5, more than any real material"), "{dense}");
    // The unit is said, and not guessed from the size of the cutoff.
    let small = Neighbours::within(&atoms(few.clone(), None), Cutoff::angstroms(0.0, 2.0));
    assert!(small.unwrap_err().to_string().contains("more than 12 others within 0.5"));
    let length = Length::Nanometre;
    let apart = few.iter().map(|place| place.map(|x| 2.0 * x)).collect();
    Neighbours::within(&atoms(apart, None), Cutoff { lower: 0.0, upper: 2.0, length }).unwrap();
    // Hydrogen under pressure is matter.
    let places = (0..1000).map(|k| [k % 10, k / 10 % 10, k / 100].map(|x| 1.1 * x as f64));
    assert!(
        Neighbours::within(&atoms(places.collect(), None), Cutoff::angstroms(0.0, 5.0)).is_ok()
    );
}
