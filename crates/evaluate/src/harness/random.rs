//! Python's random numbers, with which lm-evaluation-harness draws examples and resamples.
//!
//! The Mersenne Twister with the seeding and the methods of CPython's `random` module: the same
//! seed draws the same documents.

use rand_mt::Mt;

/// `random.Random(seed)`.
#[derive(Clone, Debug)]
pub(super) struct PythonRandom(Mt);

impl PythonRandom {
    pub(super) fn new(seed: u64) -> Self {
        let (low, high) = (seed as u32, (seed >> 32) as u32);
        let key = if high == 0 { vec![low] } else { vec![low, high] };
        Self(Mt::new_with_key(key))
    }

    /// A number in [0, 1) with 53 random bits.
    fn unit(&mut self) -> f64 {
        let (a, b) = (self.0.next_u32() >> 5, self.0.next_u32() >> 6);
        (f64::from(a) * 67_108_864.0 + f64::from(b)) / 9_007_199_254_740_992.0
    }

    /// A number below `n` ≥ 1.
    fn below(&mut self, n: usize) -> usize {
        let bits = usize::BITS - n.leading_zeros();
        loop {
            let drawn = if bits <= 32 {
                (self.0.next_u32() >> (32 - bits)) as usize
            } else {
                let low = self.0.next_u32() as usize;
                low | (self.0.next_u32() as usize >> (64 - bits)) << 32
            };
            if drawn < n {
                return drawn;
            }
        }
    }

    /// `k` distinct indices below `n`, as `sample(range(n), k)`.
    ///
    /// # Panics
    /// If `k` is larger than `n`.
    pub(super) fn sample(&mut self, n: usize, k: usize) -> Vec<usize> {
        assert!(k <= n, "a sample of {k} from {n}");
        // CPython samples from a list where a set would not be smaller.
        let mut set_size = 21;
        if k > 5 {
            let mut power = 1;
            while power < k * 3 {
                power *= 4;
            }
            set_size += power;
        }
        if n <= set_size {
            let mut pool: Vec<usize> = (0..n).collect();
            return (0..k)
                .map(|i| {
                    // The last element of the pool moves to the position of the drawn one.
                    let j = self.below(n - i);
                    pool.swap_remove(j)
                })
                .collect();
        }
        let mut drawn = Vec::with_capacity(k);
        while drawn.len() < k {
            let j = self.below(n);
            if !drawn.contains(&j) {
                drawn.push(j);
            }
        }
        drawn
    }

    /// Shuffles a list in place, as `shuffle`.
    fn shuffle<T>(&mut self, list: &mut [T]) {
        for i in (1..list.len()).rev() {
            list.swap(i, self.below(i + 1));
        }
    }

    /// An index below `n`, as one of `choices(range(n))`.
    pub(super) fn choice(&mut self, n: usize) -> usize {
        ((self.unit() * n as f64) as usize).min(n - 1)
    }
}

/// The numbers below `count` in the order of `random.Random(seed).shuffle`.
#[must_use]
pub fn python_shuffle(seed: u64, count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    PythonRandom::new(seed).shuffle(&mut order);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_python() {
        // random.Random(1234): random(), then sample(range(10), 3), sample(range(1000), 8) and
        // choices(range(100), k=4).
        let mut random = PythonRandom::new(1234);
        assert!((random.unit() - 0.966_453_535_692_138_8).abs() < 1e-16);
        assert_eq!(random.sample(10, 3), [7, 1, 0]);
        assert_eq!(random.sample(1000, 8), [92, 932, 965, 961, 826, 596, 35, 687]);
        let choices: Vec<usize> = (0..4).map(|_| random.choice(100)).collect();
        assert_eq!(choices, [69, 9, 35, 1]);
        assert_eq!(python_shuffle(42, 10), [7, 3, 2, 8, 5, 6, 9, 4, 0, 1]);
        assert_eq!(python_shuffle(42, 1), [0]);
        assert_eq!(PythonRandom::new(1 << 40).below(1 << 20), 217_347);
    }
}
