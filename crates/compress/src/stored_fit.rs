//! Finished fits in a store, from which an interrupted run resumes.
//!
//! A fit is stored under the fingerprint of everything it depends on: model, calibration, seed,
//! method and every earlier edit. The payload is a safetensors file; its time is a piece of its
//! own.

use crate::methods::{Fit, FitReport};
use crate::{CompressError, times};
use linwright_ops::archive::{self, Header, Tensor, Tensors};
use linwright_ops::{Op, SiteId};
use linwright_run::{Fingerprint, Measured, PieceKey, Store};
use linwright_tensor::{Mapped, MappedFile, Mat, little_endian_bytes};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Arc;

/// Kind of the pieces.
const KIND: &str = "fit";

/// Name of the tensor with the bias shift; no operator has a parameter with this name.
const BIAS_SHIFT: &str = "slot.bias_shift";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    header: Header,
    report: FitReport,
}

fn key(fingerprint: &Fingerprint) -> PieceKey {
    PieceKey::new(KIND, fingerprint.clone())
}

/// Loads a finished fit, if there is one.
///
/// # Errors
/// [`CompressError::Store`].
pub fn get(store: &Store, fingerprint: &Fingerprint) -> Result<Option<Fit>, CompressError> {
    let Some(mut fit) = store.decoded(&key(fingerprint), |bytes| parse(&bytes))? else {
        return Ok(None);
    };
    fit.report.seconds = times::get(store, fingerprint)?.unwrap_or_default().into();
    Ok(Some(fit))
}

/// Whether there is a finished fit; its content is not verified.
pub(crate) fn has(store: &Store, fingerprint: &Fingerprint) -> bool {
    store.contains(&key(fingerprint))
}

/// Stores the finished fit of a site.
///
/// # Errors
/// [`CompressError::Store`], and [`CompressError::Unstorable`] for an operator without an archive.
pub fn put(
    store: &Store,
    fingerprint: &Fingerprint,
    site: &SiteId,
    fit: &Fit,
) -> Result<(), CompressError> {
    let mut bytes =
        encode(fit).map_err(|reason| CompressError::Unstorable { site: site.clone(), reason })?;
    align(&mut bytes, key(fingerprint).payload_start());
    times::put(store, fingerprint, *fit.report.seconds)?;
    Ok(store.put(&key(fingerprint), &[&bytes])?)
}

/// A fit as a message for other processes, with its time.
///
/// # Errors
/// [`CompressError::Unstorable`] for an operator without an archive.
pub(crate) fn to_bytes(site: &SiteId, fit: &Fit) -> Result<Vec<u8>, CompressError> {
    let bytes =
        encode(fit).map_err(|reason| CompressError::Unstorable { site: site.clone(), reason })?;
    Ok([&fit.report.seconds.to_le_bytes()[..], &bytes].concat())
}

/// A fit from a message.
///
/// # Errors
/// What is wrong with the message.
pub(crate) fn of_bytes(message: &[u8]) -> Result<Fit, String> {
    let (seconds, bytes) = message.split_first_chunk().ok_or("an empty message is no fit")?;
    let mut fit = parse(bytes)?;
    fit.report.seconds = f64::from_le_bytes(*seconds).into();
    Ok(fit)
}

/// Lets the matrices of a stored fit's operator stand in the file of the piece. False if they do
/// not, since the piece cannot be read where it stands or the kind holds no matrices.
pub(crate) fn place(
    store: &Store,
    fingerprint: &Fingerprint,
    op: &mut Op<f32>,
) -> Result<bool, CompressError> {
    let Some((file, payload)) = store.file(&key(fingerprint))? else { return Ok(false) };
    let Ok(map) = MappedFile::part(&Arc::new(file), payload).map(Arc::new) else {
        return Ok(false);
    };
    let Ok(tensors) = SafeTensors::deserialize(map.bytes()) else { return Ok(false) };
    let names: Vec<String> = op.map().params().into_iter().map(|param| param.name).collect();
    let places: Option<Vec<Mat<f32>>> = op
        .map_mut()
        .matrices_mut()
        .iter()
        .zip(&names)
        .map(|(matrix, name)| {
            let data = tensors.tensor(name).ok()?.data().as_ptr_range();
            let base = map.bytes().as_ptr() as usize;
            let numbers = Mapped::new(&map, data.start as usize - base..data.end as usize - base)?;
            let same = numbers.numbers() == matrix.data();
            same.then(|| Mat::mapped(matrix.rows(), matrix.cols(), numbers))
        })
        .collect();
    let matrices = op.map_mut().matrices_mut();
    let Some(places) = places.filter(|places| !places.is_empty() && places.len() == names.len())
    else {
        return Ok(false);
    };
    matrices.into_iter().zip(places).for_each(|(matrix, place)| *matrix = place);
    op.map().release();
    Ok(true)
}

/// Lengthens the header of a safetensors file with spaces, so that its numbers are aligned in a
/// file where it begins at `start`.
fn align(bytes: &mut Vec<u8>, start: usize) {
    const ALIGNED: usize = 8;
    let Some(length) = bytes.first_chunk::<8>().copied().map(u64::from_le_bytes) else { return };
    let end = 8 + length as usize;
    let spaces = (start + end).next_multiple_of(ALIGNED) - (start + end);
    bytes.splice(end..end, std::iter::repeat_n(b' ', spaces));
    bytes[..8].copy_from_slice(&(length + spaces as u64).to_le_bytes());
}

fn encode(fit: &Fit) -> Result<Vec<u8>, String> {
    let (header, tensors) = archive::save(&fit.op).map_err(|error| error.to_string())?;
    let report = FitReport { seconds: Measured::default(), ..fit.report.clone() };
    let stored = Stored { header, report };
    let stored = serde_json::to_string(&stored).map_err(|error| error.to_string())?;
    let shift = fit.bias_shift.as_ref().map(|shift| {
        let tensor = Tensor::Values(vec![shift.len()], shift.clone());
        (BIAS_SHIFT.to_owned(), tensor)
    });
    let views = tensors
        .iter()
        .chain(shift.iter().map(|(name, tensor)| (name, tensor)))
        .map(|(name, tensor)| {
            let view = match tensor {
                Tensor::Values(shape, values) => {
                    TensorView::new(Dtype::F32, shape.clone(), little_endian_bytes(values))
                }
                Tensor::Indices(values) => TensorView::new(
                    Dtype::U32,
                    vec![values.len()],
                    linwright_tensor::index_bytes(values),
                ),
            };
            view.map(|view| (name.as_str(), view))
        })
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| error.to_string())?;
    let metadata = HashMap::from([("fit".to_owned(), stored)]);
    safetensors::serialize(views, Some(metadata)).map_err(|error| error.to_string())
}

fn parse(bytes: &[u8]) -> Result<Fit, String> {
    let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(|error| error.to_string())?;
    let entry = |key: &str| metadata.metadata().as_ref().and_then(|m| m.get(key));
    let stored = entry("fit").ok_or("its metadata have no fit")?;
    let file = SafeTensors::deserialize(bytes).map_err(|error| error.to_string())?;
    let views = file.tensors();
    let stored: Stored = serde_json::from_str(stored).map_err(|error| error.to_string())?;
    let mut tensors = Tensors::new();
    for (name, view) in views {
        let words = view.data().chunks_exact(4).map(|b| [b[0], b[1], b[2], b[3]]);
        let dtype = view.dtype();
        let tensor = if dtype == Dtype::F32 {
            Tensor::Values(view.shape().to_vec(), words.map(f32::from_le_bytes).collect())
        } else if dtype == Dtype::U32 {
            Tensor::Indices(words.map(u32::from_le_bytes).collect())
        } else {
            return Err(format!("tensor {name} is {dtype:?}, expected F32 or U32"));
        };
        tensors.insert(name, tensor);
    }
    let bias_shift = match tensors.remove(BIAS_SHIFT) {
        Some(Tensor::Values(_, values)) => Some(values),
        Some(Tensor::Indices(_)) => {
            return Err(format!("tensor {BIAS_SHIFT} is U32, expected F32"));
        }
        None => None,
    };
    let op = archive::load(&stored.header, tensors).map_err(|error| error.to_string())?;
    if let Some(shift) = &bias_shift {
        let (found, expected) = (shift.len(), op.map().shape().out);
        if found != expected {
            return Err(format!("tensor {BIAS_SHIFT} has {found} numbers, expected {expected}"));
        }
    }
    Ok(Fit { op, bias_shift, report: stored.report })
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_ops::{LowRankSpec, OpSpec, Shape};
    use linwright_tensor::RngKey;

    fn fit() -> Fit {
        let op = OpSpec::LowRank(LowRankSpec { rank: 2 });
        let op = op.random(Shape { out: 6, inp: 4 }, RngKey::new(3)).expect("exists");
        let report = FitReport {
            cut: None,
            relative_error: 0.25,
            train_relative_error: 0.2,
            target_power: 1.0,
            held_out: Some(true),
            ridge: None,
            dropped_directions: 0,
            shrinkage: None,
            curve: Vec::new(),
            seconds: Measured(1.5),
        };
        Fit { op, bias_shift: Some(vec![0.1, -2.0, 3.5e-8, 0.0, 1.0, 7.25]), report }
    }

    #[test]
    fn a_stored_fit_reads_back_bit_for_bit() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let store = Store::open(dir.path()).expect("opens");
        let print = Fingerprint::of(&[("seed", &1), ("method", &"x")]);
        assert!(get(&store, &print).expect("reads").is_none());
        put(&store, &print, &SiteId("a".into()), &fit()).expect("writes");
        let read = get(&store, &print).expect("reads").expect("is there");
        assert_eq!(archive::save(&read.op), archive::save(&fit().op));
        assert_eq!((read.report, read.bias_shift), (fit().report, fit().bias_shift));
    }

    #[test]
    fn a_stored_operator_stands_in_the_file_of_its_piece() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let store = Store::open(dir.path()).expect("opens");
        let print = Fingerprint::of(&[("seed", &3)]);
        let mut op = fit().op;
        assert!(!place(&store, &print, &mut op).expect("looks"), "there is no piece");
        put(&store, &print, &SiteId("a".into()), &fit()).expect("writes");
        assert!(place(&store, &print, &mut op).expect("looks"));
        assert!(op.map_mut().matrices_mut().iter().all(|matrix| matrix.is_mapped()));
        assert_eq!(archive::save(&op), archive::save(&fit().op));
        let mut other = fit().op;
        other.map_mut().params_mut()[0].values[0] += 1.0;
        assert!(!place(&store, &print, &mut other).expect("looks"), "another operator");
    }

    #[test]
    fn a_piece_that_is_no_fit_is_told_and_moved_aside() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let store = Store::open(dir.path()).expect("opens");
        let print = Fingerprint::of(&[("seed", &2)]);
        let good = encode(&fit()).expect("can be stored");
        let short = Fit { bias_shift: Some(vec![1.0]), ..fit() };
        let short = encode(&short).expect("can be stored");
        for bad in [&good[..good.len() - 3], &good[..5], &[], b"{}", &short] {
            store.put(&key(&print), &[bad]).expect("writes");
            assert!(get(&store, &print).expect("is no error").is_none());
            assert_eq!(store.take_notes().len(), 1);
            assert!(!store.contains(&key(&print)));
        }
        store.put(&key(&print), &[&good]).expect("writes");
        assert!(get(&store, &print).expect("reads").is_some());
    }
}
