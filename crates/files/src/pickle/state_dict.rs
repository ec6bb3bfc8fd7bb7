//! Checked tensors from the values of a pickle.

use super::PickleFault as Fault;
use super::machine::{Node, Pickled, Rebuilt, Storage, Value};
use crate::header::{Header, StoredType, TensorInfo};
use linwright_run::shown;
use std::ops::Range;

/// Keys under which a state dict may be nested.
const NESTED: [&str; 4] = ["state_dict", "model_state_dict", "model", "module"];
/// Largest number of dimensions of a tensor.
const EXTENTS: usize = 8;
/// Largest number of names in a note.
const SHOWN: usize = 8;

/// A storage that is checked to lie in the file.
#[derive(Clone, Debug)]
pub(super) struct Place {
    bytes: Range<usize>,
    dtype: Option<StoredType>,
}

impl Place {
    /// Checks that a storage has the bytes that its type and length need.
    pub(super) fn new(storage: &Storage, bytes: Range<usize>) -> Result<Self, Fault> {
        if storage.size() == Some(bytes.len()) {
            return Ok(Self { bytes, dtype: storage.dtype });
        }
        let what = format!(
            "asks for {} numbers of {}, the file has {} bytes of them",
            storage.numbers,
            storage.dtype.map_or("one byte", StoredType::name),
            bytes.len()
        );
        Err(Fault::Storage { at: storage.at, what })
    }
}

/// The tensors of the state dict in a pickle, checked against their storages.
pub(super) fn header(pickled: &Pickled<'_>, places: &[Place]) -> Result<Header, Fault> {
    let mut header = Header::default();
    let entries = find(pickled, &mut header.notes)?;
    let mut others = Vec::new();
    let mut left_out = 0;
    // An entry takes some bytes for its name and several instructions.
    let limit = pickled.length / 16 + 16;
    for (key, value) in entries {
        let (Some(name), Some(Node::Tensor(index))) = (pickled.as_text(*key), pickled.node(*value))
        else {
            left_out += 1;
            if others.len() < SHOWN {
                others.push(pickled.as_text(*key).map_or("?".into(), shown));
            }
            continue;
        };
        if header.tensors.len() == limit {
            return Err(Fault::Limit { at: pickled.end(), what: "tensors for its size", limit });
        }
        let info = check(pickled, &pickled.tensors[*index as usize], places);
        let shown = || shown(name);
        let info = info.map_err(|what| Fault::Tensor { name: shown(), what })?;
        if header.tensors.insert(name.into(), info).is_some() {
            return Err(Fault::Tensor { name: shown(), what: "is there twice".into() });
        }
    }
    if left_out > 0 {
        let more = if left_out > others.len() { ", ..." } else { "" };
        let list = others.join(", ");
        header
            .notes
            .push(format!("{left_out} entries that are not tensors were left out: {list}{more}"));
    }
    Ok(header)
}

/// The entries of the state dict, and a note if it is nested.
fn find<'a>(
    pickled: &'a Pickled<'_>,
    notes: &mut Vec<String>,
) -> Result<&'a [(Value, Value)], Fault> {
    let is_tensor =
        |(_, value): &(Value, Value)| matches!(pickled.node(*value), Some(Node::Tensor(_)));
    let root = match pickled.node(pickled.root) {
        Some(Node::Dict(entries)) => entries,
        Some(Node::Tensor(_)) => return Err(Fault::Root { found: "a single tensor" }),
        _ => return Err(Fault::Root { found: "no dict" }),
    };
    if root.iter().any(is_tensor) {
        return Ok(root);
    }
    for name in NESTED {
        let entry = root.iter().find(|(key, _)| pickled.as_text(*key) == Some(name));
        if let Some(Node::Dict(entries)) = entry.and_then(|(_, value)| pickled.node(*value))
            && entries.iter().any(is_tensor)
        {
            let others = root.len() - 1;
            notes.push(format!(
                "the weights are its entry {name:?}; {others} other entries were left out"
            ));
            return Ok(entries);
        }
    }
    Err(Fault::Root { found: "a dict without tensors" })
}

/// Checks a tensor against its storage. The error is a description in words.
fn check(pickled: &Pickled<'_>, tensor: &Rebuilt, places: &[Place]) -> Result<TensorInfo, String> {
    let place = &places[tensor.storage as usize];
    let dtype = match (place.dtype, tensor.dtype) {
        (Some(dtype), None) | (None, Some(Some(dtype))) => dtype,
        (Some(stored), Some(Some(dtype))) if stored == dtype => dtype,
        (_, Some(None)) => return Err("has a complex or packed type, which is not read".into()),
        _ => return Err("has another type than its storage".into()),
    };
    let shape = extents(pickled, tensor.shape, "shape")?;
    let strides = extents(pickled, tensor.strides, "strides")?;
    if shape.len() != strides.len() {
        return Err(format!("has {} extents and {} strides", shape.len(), strides.len()));
    }
    // All types of pickles have whole bytes.
    let size = (dtype.bits() / 8) as usize;
    let held = place.bytes.len() / size;
    let offset = usize::try_from(tensor.offset).ok().filter(|offset| *offset <= held);
    let offset = offset
        .ok_or_else(|| format!("starts at {} of a storage of {held} numbers", tensor.offset))?;
    let overflow = || format!("has the impossible shape {shape:?}");
    let count = shape.iter().try_fold(1usize, |n, &extent| n.checked_mul(extent));
    let count = count.ok_or_else(overflow)?;
    let span = if count == 0 { 0 } else { span(&shape, &strides).ok_or_else(overflow)? };
    if span > held - offset {
        return Err(format!(
            "of shape {shape:?} and strides {strides:?} spans {span} numbers from {offset}, its \
             storage has {held}"
        ));
    }
    let start = place.bytes.start + offset * size;
    let bytes = start..start + span * size;
    if count == 0 || lies_by_rows(&shape, &strides) {
        return Ok(TensorInfo { dtype, shape, bytes, strides: None });
    }
    if shares_numbers(&shape, &strides) {
        return Err(format!(
            "of shape {shape:?} and strides {strides:?} holds the same number at several places; \
             save a contiguous copy"
        ));
    }
    Ok(TensorInfo { dtype, shape, bytes, strides: Some(strides) })
}

/// The integers of a tuple.
fn extents(pickled: &Pickled<'_>, tuple: u32, word: &str) -> Result<Vec<usize>, String> {
    let parts = match pickled.node(Value::Node(tuple)) {
        Some(Node::Tuple(parts)) if parts.len() <= EXTENTS => parts,
        _ => return Err(format!("has more than {EXTENTS} extents")),
    };
    let number = |value: &Value| match value {
        Value::Int(n) => {
            usize::try_from(*n).map_err(|_| format!("has {n} among its {word}, expected >= 0"))
        }
        _ => Err(format!("has a value among its {word} that is not a number")),
    };
    parts.iter().map(number).collect()
}

/// Span in numbers from the first to the last number of a non-empty tensor.
fn span(shape: &[usize], strides: &[usize]) -> Option<usize> {
    shape.iter().zip(strides).try_fold(1usize, |span, (extent, stride)| {
        span.checked_add((extent - 1).checked_mul(*stride)?)
    })
}

/// Whether a tensor is contiguous in row-major order. No product overflows: that of all extents
/// does not, and none is zero.
fn lies_by_rows(shape: &[usize], strides: &[usize]) -> bool {
    let mut expected = 1;
    shape.iter().zip(strides).rev().all(|(&extent, &stride)| {
        let fits = extent == 1 || stride == expected;
        expected *= extent;
        fits
    })
}

/// Whether two indices may share a number: unless each stride, sorted by size, exceeds the span of
/// all smaller ones.
fn shares_numbers(shape: &[usize], strides: &[usize]) -> bool {
    let steps = shape.iter().zip(strides).filter(|(extent, _)| **extent > 1);
    let mut steps: Vec<(usize, usize)> = steps.map(|(e, s)| (*s, *e)).collect();
    steps.sort_unstable();
    let mut reach = 0;
    for (stride, extent) in steps {
        if stride <= reach {
            return true;
        }
        // At most the span, which fits.
        reach += (extent - 1) * stride;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn shared_numbers_are_found_whenever_there_are_any() {
        let mut apart = 0;
        for shape in [[2, 3, 1], [1, 4, 2], [3, 3, 2], [2, 2, 2]] {
            for code in 0..8usize.pow(3) {
                let strides = [code % 8, code / 8 % 8, code / 64];
                let mut places = BTreeSet::new();
                let mut count = 0;
                for a in 0..shape[0] {
                    for b in 0..shape[1] {
                        for c in 0..shape[2] {
                            places.insert(a * strides[0] + b * strides[1] + c * strides[2]);
                            count += 1;
                        }
                    }
                }
                assert_eq!(places.last(), span(&shape, &strides).map(|s| s - 1).as_ref());
                if !shares_numbers(&shape, &strides) {
                    assert_eq!(places.len(), count, "{shape:?} {strides:?}");
                    apart += 1;
                }
                if lies_by_rows(&shape, &strides) {
                    assert_eq!((places.len(), *places.last().unwrap()), (count, count - 1));
                }
            }
        }
        assert!(apart > 100, "{apart}");
    }
}
