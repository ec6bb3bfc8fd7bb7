//! Duplicate tensors: found by fingerprint, confirmed byte by byte.

use super::source::Stored;
use linwright_tensor::parallel;
use std::collections::BTreeMap;

/// Bytes compared between two checks for cancellation.
const PIECE: usize = 64 << 20;
/// Bytes that one thread compares at a time.
const BLOCK: usize = 1 << 20;

/// For each tensor, the index of the first one with the same type, shape and bytes, which may be
/// its own. `prints` are the fingerprints. `None` if cancelled.
pub(super) fn first_alike(
    tensors: &[Stored<'_>],
    prints: &[u128],
    cancelled: &dyn Fn() -> bool,
) -> Option<Vec<usize>> {
    let mut first: Vec<usize> = (0..tensors.len()).collect();
    // Distinct tensors by fingerprint, type and shape; more than one only if fingerprints collide.
    let mut kinds: BTreeMap<(u128, &'static str, &[usize]), Vec<usize>> = BTreeMap::new();
    for (place, (tensor, print)) in tensors.iter().zip(prints).enumerate() {
        // Empty tensors are not duplicates.
        if tensor.bytes() == 0 {
            continue;
        }
        let kind = kinds.entry((*print, tensor.dtype(), tensor.shape())).or_default();
        for &candidate in &*kind {
            if same_bytes(&tensors[candidate], tensor, cancelled)? {
                first[place] = candidate;
                break;
            }
        }
        if first[place] == place {
            kind.push(place);
        }
    }
    Some(first)
}

fn same_bytes(a: &Stored<'_>, b: &Stored<'_>, cancelled: &dyn Fn() -> bool) -> Option<bool> {
    for start in (0..a.bytes()).step_by(PIECE) {
        if cancelled() {
            return None;
        }
        let range = start..a.bytes().min(start + PIECE);
        let (left, right) = (a.part(range.clone()), b.part(range.clone()));
        let pairs: Vec<(&[u8], &[u8])> = left.chunks(BLOCK).zip(right.chunks(BLOCK)).collect();
        let same = parallel::map(pairs, |_, (left, right)| left == right).into_iter().all(|s| s);
        a.release(range.clone());
        b.release(range);
        if !same {
            return Some(false);
        }
    }
    Some(true)
}
