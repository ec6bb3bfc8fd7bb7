//! Singular components of weights in a store, by the content of the weight.

use crate::CompressError;
use crate::intervention::failed;
use linwright_measure::spectra::MatrixId;
use linwright_ops::SiteId;
use linwright_run::Store;
use linwright_tensor::linalg::Components;
use linwright_tensor::{Mat, little_endian_bytes};

/// Kind of the pieces.
const KIND: &str = "components";

/// Components of a weight, from the store or computed. Those that are computed are stored for all
/// rates, interventions and runs, and so are the singular values, for `inspect`.
///
/// # Errors
/// [`CompressError::Fit`] if the decomposition fails, [`CompressError::Store`] if the store fails.
pub fn components_of(
    store: &Store,
    site: &SiteId,
    weight: &Mat<f32>,
) -> Result<Components, CompressError> {
    let compute = || {
        let found = Components::of(weight.view()).map_err(failed);
        found.map_err(|source| CompressError::Fit { site: site.clone(), source })
    };
    if store.keeps_nothing() {
        return compute();
    }
    let id = MatrixId::of(weight.view());
    let key = id.key(KIND);
    let decode = |bytes: Vec<u8>| decode(&bytes, weight.rows(), weight.cols());
    if let Some(found) = store.decoded(&key, decode)? {
        return Ok(found);
    }
    let found = compute()?;
    let Components { values, left, right } = &found;
    // First: with components in the store, nobody would store what a killed command left out.
    id.put_singular_values(store, values)?;
    let numbers: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let [left, right] = [left, right].map(|side| little_endian_bytes(side.data()));
    store.put(&key, &[&numbers, left, right])?;
    Ok(found)
}

/// Components of a matrix (m, n) from their numbers: values in f64, left and right in f32.
fn decode(bytes: &[u8], m: usize, n: usize) -> Result<Components, String> {
    let side = m.min(n);
    let expected = 8 * side + 4 * side * (m + n);
    if bytes.len() != expected {
        return Err(format!("it has {} bytes, components of {m} x {n} {expected}", bytes.len()));
    }
    let (values, vectors) = bytes.split_at(8 * side);
    let (left, right) = vectors.split_at(4 * side * m);
    let values: Vec<f64> = values.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect();
    let matrix = |bytes: &[u8], rows, cols| {
        let numbers = bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
        Mat::from_vec(rows, cols, numbers)
    };
    let (left, right) = (matrix(left, m, side), matrix(right, side, n));
    let finite = left.data().iter().chain(right.data()).all(|x| x.is_finite())
        && values.iter().all(|x| x.is_finite());
    if !finite {
        return Err("a number is not finite".to_owned());
    }
    Ok(Components { values, left, right })
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_measure::spectra::Spectrum;
    use linwright_tensor::RngKey;

    fn random(rows: usize, cols: usize) -> Mat<f32> {
        Mat::from_vec(rows, cols, RngKey::new(1).stream().normals(rows * cols, 1.0))
    }

    #[test]
    fn a_weight_is_decomposed_once_and_damage_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("new")).unwrap();
        let site = SiteId("a".into());
        for (rows, cols) in [(6, 4), (4, 6)] {
            let weight = random(rows, cols);
            let found = |store: &Store| components_of(store, &site, &weight).unwrap();
            let expected = Components::of(weight.view()).unwrap();
            assert_eq!(found(&Store::none()), expected);
            assert_eq!(found(&store), expected);
            assert_eq!(found(&store), expected);
            let key = MatrixId::of(weight.view()).key(KIND);
            let good = store.get(&key).unwrap().unwrap();
            let nan = [&good[..good.len() - 4], &f32::NAN.to_le_bytes()].concat();
            for damaged in [&good[1..], b"", &nan] {
                store.put(&key, &[damaged]).unwrap();
                assert_eq!(found(&store), expected);
                assert_eq!(store.take_notes().len(), 1);
                assert_eq!(store.get(&key).unwrap().unwrap(), good);
            }
            // What is stored is used: this is not a component of the weight.
            let planted = [&good[..good.len() - 4], &7.0f32.to_le_bytes()].concat();
            store.put(&key, &[&planted]).unwrap();
            assert_eq!(found(&store).right.data().last(), Some(&7.0));
            let mut other = weight.clone();
            *other.at_mut(0, 0) += 1.0;
            let of_other = components_of(&store, &site, &other).unwrap();
            assert_eq!(of_other, Components::of(other.view()).unwrap());
        }
    }

    #[test]
    fn a_weight_that_was_cut_has_a_spectrum() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let weight = random(7, 5);
        components_of(&store, &SiteId("a".into()), &weight).unwrap();
        let before = store.entries().unwrap();
        assert_eq!(before.len(), 2);
        let found = Spectrum::stored(&store, weight.view()).unwrap();
        assert_eq!(found, Spectrum::of(weight.view()).unwrap(), "the same bits");
        let after = store.entries().unwrap();
        assert!(before.iter().all(|entry| after.iter().any(|other| other.path() == entry.path())));
        assert_eq!(after.len(), 3, "only the Vendi score was missing");
    }
}
