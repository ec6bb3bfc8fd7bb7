//! Spectra of matrices in a store, by content.
//!
//! The identity of a matrix is its shape and the digest of its numbers in f32, so that a weight is
//! recognised whether it comes from a file in bf16, f16 or f32, or from a model. Singular values
//! alone and those of components have the same bits (`linalg::Components`), hence one spectrum
//! serves every command.

use super::{Spectrum, vendi_score};
use linwright_run::{Fingerprint, PieceKey, Store, StoreError, sha256_hex};
use linwright_tensor::linalg::{NoConvergence, singular_values};
use linwright_tensor::{MatRef, little_endian_bytes};

/// Kind of the pieces with singular values.
const SPECTRUM: &str = "spectrum";
/// Kind of the pieces with a Vendi score.
const VENDI: &str = "vendi";
/// Version of the definitions.
const VERSION: u32 = 1;

/// A spectrum that could not be computed or stored.
#[derive(Debug, thiserror::Error)]
pub enum SpectrumError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The decomposition failed.
    #[error(transparent)]
    NoConvergence(#[from] NoConvergence),
}

/// Identity of a matrix: shape and content in f32.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatrixId {
    fingerprint: Fingerprint,
    /// Smaller side of the matrix.
    side: usize,
}

impl MatrixId {
    /// Identity of a matrix.
    #[must_use]
    pub fn of(matrix: MatRef<'_, f32>) -> Self {
        let (rows, cols) = (matrix.rows(), matrix.cols());
        let digest = if matrix.stride() == cols {
            sha256_hex(little_endian_bytes(&matrix.data()[..rows * cols]))
        } else {
            sha256_hex(little_endian_bytes(matrix.to_mat().data()))
        };
        let fingerprint = Fingerprint::of(&[
            ("version", &VERSION),
            ("rows", &rows),
            ("cols", &cols),
            ("f32", &digest),
        ]);
        Self { fingerprint, side: rows.min(cols) }
    }

    /// Key of a piece that depends on the matrix alone.
    ///
    /// # Panics
    /// As [`PieceKey::new`].
    #[must_use]
    #[track_caller]
    pub fn key(&self, kind: &'static str) -> PieceKey {
        PieceKey::new(kind, self.fingerprint.clone())
    }

    /// Singular values of the matrix, descending, from the store or computed and stored.
    ///
    /// # Errors
    /// [`SpectrumError`].
    pub fn singular_values(
        &self,
        store: &Store,
        matrix: MatRef<'_, f32>,
    ) -> Result<Vec<f64>, SpectrumError> {
        let decode = |bytes: Vec<u8>| numbers(&bytes, self.side);
        if let Some(found) = store.decoded(&self.key(SPECTRUM), decode)? {
            return Ok(found);
        }
        let found = singular_values(matrix)?;
        self.put_singular_values(store, &found)?;
        Ok(found)
    }

    /// Stores singular values that were computed together with components.
    ///
    /// # Errors
    /// [`StoreError`].
    ///
    /// # Panics
    /// If their number is not that of the matrix.
    #[track_caller]
    pub fn put_singular_values(&self, store: &Store, values: &[f64]) -> Result<(), StoreError> {
        let (found, expected) = (values.len(), self.side);
        assert_eq!(found, expected, "{found} singular values, the matrix has {expected}");
        let key = self.key(SPECTRUM);
        if store.contains(&key) { Ok(()) } else { store.put(&key, &[&encode(values)]) }
    }
}

impl Spectrum {
    /// Spectrum of a matrix, from the store or computed and stored.
    ///
    /// # Errors
    /// [`SpectrumError`].
    pub fn stored(store: &Store, matrix: MatRef<'_, f32>) -> Result<Self, SpectrumError> {
        if store.keeps_nothing() {
            return Ok(Self::of(matrix)?);
        }
        let id = MatrixId::of(matrix);
        let singular_values = id.singular_values(store, matrix)?;
        let key = id.key(VENDI);
        let decode = |bytes: Vec<u8>| numbers(&bytes, 1).map(|numbers| numbers[0]);
        let vendi_score = match store.decoded(&key, decode)? {
            Some(found) => found,
            None => {
                let found = vendi_score(matrix)?;
                store.put(&key, &[&encode(&[found])])?;
                found
            }
        };
        Ok(Self { rows: matrix.rows(), cols: matrix.cols(), singular_values, vendi_score })
    }
}

fn encode(numbers: &[f64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// As many finite numbers, or the reason why the bytes are not.
fn numbers(bytes: &[u8], count: usize) -> Result<Vec<f64>, String> {
    if bytes.len() != 8 * count {
        return Err(format!("it has {} bytes, expected {count} numbers in f64", bytes.len()));
    }
    let numbers: Vec<f64> = bytes.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect();
    match numbers.iter().find(|number| !number.is_finite()) {
        Some(number) => Err(format!("it has the number {number}")),
        None => Ok(numbers),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_tensor::linalg::Components;
    use linwright_tensor::{Mat, RngKey};

    fn random(rows: usize, cols: usize, seed: u64) -> Mat<f32> {
        Mat::from_vec(rows, cols, RngKey::new(seed).stream().normals(rows * cols, 1.0))
    }

    /// Kinds of the pieces of a store.
    fn kinds(store: &Store) -> Vec<String> {
        store.entries().unwrap().into_iter().map(|entry| entry.kind).collect()
    }

    #[test]
    fn a_spectrum_is_computed_once_for_a_content() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let matrix = random(9, 6, 1);
        let expected = Spectrum::of(matrix.view()).unwrap();
        let with =
            |store: &Store, matrix: &Mat<f32>| Spectrum::stored(store, matrix.view()).unwrap();
        assert_eq!(with(&Store::none(), &matrix), expected);
        assert_eq!(with(&store, &matrix), expected);
        assert_eq!(kinds(&store), ["spectrum", "vendi"]);
        assert_eq!(with(&store, &matrix), expected);
        // Same numbers in another shape, and other numbers.
        let reshaped = Mat::from_vec(6, 9, matrix.data().to_vec());
        assert_eq!(with(&store, &reshaped), Spectrum::of(reshaped.view()).unwrap());
        assert_eq!(kinds(&store).len(), 4);
        // Found pieces are used: these are not of this matrix.
        let id = MatrixId::of(matrix.view());
        store.put(&id.key(SPECTRUM), &[&encode(&[6.0, 5.0, 4.0, 3.0, 2.0, 1.0])]).unwrap();
        assert_eq!(with(&store, &matrix).singular_values, [6.0, 5.0, 4.0, 3.0, 2.0, 1.0]);
    }

    #[test]
    fn values_of_components_are_the_spectrum() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let matrix = random(7, 12, 2);
        let components = Components::of(matrix.view()).unwrap();
        MatrixId::of(matrix.view()).put_singular_values(&store, &components.values).unwrap();
        let found = Spectrum::stored(&store, matrix.view()).unwrap();
        assert_eq!(found, Spectrum::of(matrix.view()).unwrap());
    }

    #[test]
    fn impossible_numbers_are_damage() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let matrix = random(3, 2, 3);
        let expected = Spectrum::of(matrix.view()).unwrap();
        let id = MatrixId::of(matrix.view());
        for bad in [encode(&[1.0]), encode(&[1.0, f64::NAN]), vec![0; 15], Vec::new()] {
            store.put(&id.key(SPECTRUM), &[&bad]).unwrap();
            assert_eq!(Spectrum::stored(&store, matrix.view()).unwrap(), expected);
            assert_eq!(store.take_notes().len(), 1, "{bad:?}");
        }
    }
}
