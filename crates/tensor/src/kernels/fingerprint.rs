//! A fast 128-bit hash (not cryptographic), at the speed of reading memory.
//!
//! Equal bytes have equal fingerprints; different bytes usually differ, but collisions can be
//! constructed. It finds candidates for duplicates, which are then compared byte by byte.
//!
//! Sixteen lanes of 64 bits each absorb every sixteenth word by exclusive or, then shift and
//! multiply by an odd number. Each step is a bijection of the lane, so contents that differ in one
//! word end in different lanes. The lanes and the length are then mixed in order.

use super::instructions::vectorised;

/// Number of lanes.
const LANES: usize = 16;
/// Bytes per round.
const ROUND: usize = 8 * LANES;
/// Odd constants without pattern: the fractions of the golden ratio and of the square root of 2.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
const ROOT: u64 = 0x6a09_e667_f3bc_c909;

/// Fingerprint of some bytes.
#[must_use]
pub fn fingerprint(bytes: &[u8]) -> u128 {
    Fingerprinting::default().finish(bytes)
}

/// The fingerprint of bytes that arrive in parts, computed while they are in the cache for other
/// work.
#[derive(Clone, Debug)]
pub struct Fingerprinting {
    lanes: [u64; LANES],
    /// Bytes taken so far, a whole number of rounds.
    taken: usize,
}

impl Default for Fingerprinting {
    fn default() -> Self {
        let lanes = std::array::from_fn(|lane| ROOT.wrapping_mul(lane as u64 + 1));
        Self { lanes, taken: 0 }
    }
}

impl Fingerprinting {
    /// Number of bytes that were taken.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.taken
    }

    /// Takes the next bytes, except for the last few that do not fill a round, which must be passed
    /// again with the following ones. [`Self::taken`] says where to continue.
    pub fn take(&mut self, bytes: &[u8]) {
        let whole = bytes.len() - bytes.len() % ROUND;
        self.lanes = lanes(self.lanes, &bytes[..whole]);
        self.taken += whole;
    }

    /// The fingerprint, with the last bytes.
    #[must_use]
    pub fn finish(mut self, bytes: &[u8]) -> u128 {
        self.take(bytes);
        let (rest, length) = (bytes.len() % ROUND, bytes.len() - bytes.len() % ROUND);
        let mut last = [0; ROUND];
        last[..rest].copy_from_slice(&bytes[length..]);
        let lanes = lanes(self.lanes, &last);
        join(lanes.into_iter().map(u128::from).chain([(self.taken + rest) as u128]))
    }
}

/// Fingerprint of several parts in order.
#[must_use]
pub fn join(parts: impl IntoIterator<Item = u128>) -> u128 {
    let (mut low, mut high) = (GOLDEN, ROOT);
    for part in parts {
        for word in [part as u64, (part >> 64) as u64] {
            low = mix(low ^ word);
            high = mix(high.rotate_left(29).wrapping_add(word ^ GOLDEN));
        }
    }
    u128::from(high) << 64 | u128::from(low)
}

/// Spreads every bit over all (the finalizer of Steele and Vigna's SplitMix).
fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// A lane after one more word. The shift comes before the product: otherwise a change in the
/// highest bit would stay there, where the next word could undo it.
#[inline(always)]
fn step(lane: u64, word: u64) -> u64 {
    let mixed = lane ^ word;
    (mixed ^ (mixed >> 29)).wrapping_mul(GOLDEN)
}

vectorised! {
    fn lanes<const FUSED: bool>(start: [u64; LANES], bytes: &[u8]) -> [u64; LANES] {
        let mut lanes = start;
        for round in bytes.as_chunks::<ROUND>().0 {
            let words = round.as_chunks::<8>().0;
            for lane in 0..LANES {
                lanes[lane] = step(lanes[lane], u64::from_le_bytes(words[lane]));
            }
        }
        lanes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_bit_byte_length_and_place_matters() {
        let bytes: Vec<u8> = (0..300u32).map(|k| (k * 7) as u8).collect();
        let mut seen = BTreeSet::from([fingerprint(&bytes)]);
        let mut fresh = |bytes: &[u8]| assert!(seen.insert(fingerprint(bytes)), "{bytes:?}");
        for place in 0..bytes.len() {
            for bit in 0..8 {
                let mut other = bytes.clone();
                other[place] ^= 1 << bit;
                fresh(&other);
            }
            fresh(&bytes[..place]);
        }
        let mut turned = bytes.clone();
        turned.rotate_left(128);
        fresh(&turned);
        for zeros in 2..300 {
            fresh(&vec![0; zeros]);
        }
        assert_eq!(fingerprint(&bytes), fingerprint(&bytes.clone()));
    }

    #[test]
    fn bytes_in_parts_have_the_fingerprint_of_all() {
        let bytes: Vec<u8> = (0..3000u32).map(|k| (k * k + 3) as u8).collect();
        for (length, step) in [(3000, 7), (3000, 128), (2944, 500), (100, 9), (0, 1), (128, 128)] {
            let bytes = &bytes[..length];
            let mut parts = Fingerprinting::default();
            for end in (0..length).step_by(step) {
                let from = parts.taken();
                parts.take(&bytes[from..end]);
                assert!(end - parts.taken() < ROUND);
            }
            let rest = parts.taken();
            assert_eq!(parts.finish(&bytes[rest..]), fingerprint(bytes), "{length} by {step}");
        }
    }

    #[test]
    fn parts_count_in_order() {
        assert_ne!(join([1, 2]), join([2, 1]));
        assert_ne!(join([1]), join([1 << 64]));
        assert_ne!(join([0]), join([0, 0]));
    }
}
