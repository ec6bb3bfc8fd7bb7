//! Counter-based random numbers: a key names a stream, and equal keys always give equal numbers,
//! whatever else was drawn before.

use crate::Scalar;
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

/// Key of a random stream. Derive keys by [`RngKey::fold`] instead of sharing a generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RngKey(u64);

impl RngKey {
    /// The key of a user's seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(mix(seed ^ 0x6c69_6e77_7269_6768))
    }

    /// The key of a named purpose below this one.
    #[must_use]
    pub fn fold(self, label: &str) -> Self {
        let mut hash = self.0;
        for byte in label.bytes() {
            hash = mix(hash ^ u64::from(byte));
        }
        Self(mix(hash ^ 0x9e37_79b9_7f4a_7c15))
    }

    /// The key of the `index`-th of many equal purposes below this one.
    #[must_use]
    pub fn fold_index(self, index: u64) -> Self {
        Self(mix(mix(self.0) ^ index))
    }

    /// The stream of this key, from its start.
    #[must_use]
    pub fn stream(self) -> RngStream {
        RngStream { rng: ChaCha8Rng::seed_from_u64(self.0), spare: None }
    }
}

/// The finaliser of splitmix64: a bijection of 64 bits without visible pattern.
fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The random numbers of one key, in order.
#[derive(Clone, Debug)]
pub struct RngStream {
    rng: ChaCha8Rng,
    spare: Option<f64>,
}

impl RngStream {
    /// Sixty-four random bits.
    pub fn bits(&mut self) -> u64 {
        self.rng.next_u64()
    }

    /// Uniform in [0, 1), a multiple of 2^-53.
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * 2f64.powi(-53)
    }

    /// Uniform in `0 .. n`, without bias.
    ///
    /// # Panics
    /// If `n` is zero.
    pub fn below(&mut self, n: usize) -> usize {
        assert!(n > 0, "a draw from an empty range");
        let n = n as u64;
        let limit = u64::MAX - u64::MAX % n;
        loop {
            let bits = self.bits();
            if bits < limit {
                return (bits % n) as usize;
            }
        }
    }

    /// A standard normal number (Box-Muller).
    pub fn normal(&mut self) -> f64 {
        if let Some(value) = self.spare.take() {
            return value;
        }
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        let angle = std::f64::consts::TAU * self.uniform();
        self.spare = Some(radius * angle.sin());
        radius * angle.cos()
    }

    /// `count` normal numbers with standard deviation `scale`.
    pub fn normals<T: Scalar>(&mut self, count: usize, scale: f64) -> Vec<T> {
        (0..count).map(|_| T::from_f64(scale * self.normal())).collect()
    }

    /// Shuffles in place (Fisher-Yates).
    pub fn shuffle<I>(&mut self, items: &mut [I]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }

    /// A random permutation of `0 .. n`.
    pub fn permutation(&mut self, n: usize) -> Vec<u32> {
        let mut order: Vec<u32> = (0..n as u32).collect();
        self.shuffle(&mut order);
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_key_same_numbers_other_key_other_numbers() {
        let key = RngKey::new(7).fold("weights");
        let a: Vec<u64> = (0..8).scan(key.stream(), |s, _| Some(s.bits())).collect();
        let b: Vec<u64> = (0..8).scan(key.stream(), |s, _| Some(s.bits())).collect();
        let c: Vec<u64> = (0..8).scan(key.fold_index(1).stream(), |s, _| Some(s.bits())).collect();
        assert_eq!(a, b);
        assert_ne!(a, c);
    }

    #[test]
    fn normal_has_unit_variance_and_permutation_is_one() {
        let mut stream = RngKey::new(1).stream();
        let draws: Vec<f64> = stream.normals(20_000, 1.0);
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / draws.len() as f64;
        assert!(
            mean.abs() < 0.03 && (variance - 1.0).abs() < 0.05,
            "mean {mean}, variance {variance}"
        );
        let mut order = stream.permutation(100);
        order.sort_unstable();
        assert_eq!(order, (0..100).collect::<Vec<u32>>());
    }
}
