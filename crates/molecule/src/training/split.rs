//! Division into training, validation and test structures by the permutation of torchmd-net,
//! `numpy.random.default_rng(seed).permutation(n)`, so that the same seed gives the same division
//! in both programs.
//!
//! Sources: O'Neill 2014, "PCG: A Family of Simple Fast Space-Efficient Statistically Good
//! Algorithms" (XSL-RR 128/64), and numpy's documentation of `SeedSequence`. Its numbers are
//! compared with numpy's in the tests.

use crate::MoleculeError;
use linwright_files::{FileError, NpzFile};
use linwright_run::{input, shown_reason};
use std::path::Path;

/// Sets of a division by their names in torchmd-net's file.
const ARRAYS: [&str; 3] = ["idx_train", "idx_val", "idx_test"];

/// Structures by purpose, as indices into the set.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Split {
    /// Training structures, in the order drawn.
    pub train: Vec<usize>,
    /// Those validated on.
    pub validation: Vec<usize>,
    /// Those tested on.
    pub test: Vec<usize>,
}

impl Split {
    /// The first `train` of a permutation of `count` structures, the next `validation`, and the
    /// next `test`. The rest is unused.
    ///
    /// # Panics
    /// If there are fewer structures.
    #[must_use]
    pub fn random(seed: u64, count: usize, [train, validation, test]: [usize; 3]) -> Self {
        let end = train + validation + test;
        assert!(end <= count, "{train} + {validation} + {test} of {count} structures");
        let order = permutation(seed, count);
        Self {
            train: order[..train].to_vec(),
            validation: order[train..train + validation].to_vec(),
            test: order[train + validation..end].to_vec(),
        }
    }

    /// The division of `count` structures in a file: `split.json` of `molecule train`, or
    /// `splits.npz` of torchmd-net.
    ///
    /// # Errors
    /// An unreadable file, or one that is not a division, has an index out of range or a structure
    /// twice, or has no structures for training or validation.
    pub fn read(path: &Path, count: usize) -> Result<Self, MoleculeError> {
        let wrong = |what: String| MoleculeError::Checkpoint {
            path: path.to_owned(),
            what: shown_reason(&what),
        };
        let split = match path.extension().is_some_and(|end| end == "npz") {
            true => Self::of_arrays(&NpzFile::open_packed(path, linwright_data::inflate)?)
                .map_err(wrong)?,
            false => {
                let text = input::read_text(path, input::MAX_SETTINGS_BYTES);
                let text = text.map_err(FileError::read(path))?;
                serde_json::from_str(&text).map_err(|error| {
                    wrong(format!(
                        "is no division of structures: {error}; expected split.json of `molecule \
                         train`, or splits.npz of torchmd-net"
                    ))
                })?
            }
        };
        split.check(count).map_err(wrong)?;
        Ok(split)
    }

    fn of_arrays(file: &NpzFile) -> Result<Self, String> {
        let mut sets = ARRAYS.into_iter().map(|name| {
            let found = file.array(name).map_err(|error| error.to_string())?;
            let numbers = found.map_or(Vec::new(), |array| array.numbers);
            let index = |number: f64| {
                let is_index = number.fract() == 0.0 && (0.0..1e15).contains(&number);
                is_index.then_some(number as usize)
            };
            let indices: Option<Vec<usize>> = numbers.into_iter().map(index).collect();
            indices.ok_or_else(|| format!("has numbers in {name} that are not indices"))
        });
        let mut next = || sets.next().unwrap_or_else(|| Ok(Vec::new()));
        Ok(Self { train: next()?, validation: next()?, test: next()? })
    }

    /// Rejects a division that is not one of `count` structures. The error is a description.
    fn check(&self, count: usize) -> Result<(), String> {
        let mut seen = vec![false; count];
        for index in self.train.iter().chain(&self.validation).chain(&self.test) {
            match seen.get_mut(*index) {
                Some(seen) if !*seen => *seen = true,
                Some(_) => return Err(format!("has structure {index} twice")),
                None => {
                    return Err(format!("has structure {index}, and there are {count} structures"));
                }
            }
        }
        match (self.train.is_empty(), self.validation.is_empty()) {
            (false, false) => Ok(()),
            (true, _) => Err("has no structures to train on".into()),
            (_, true) => Err("has no structures to validate on".into()),
        }
    }
}

/// `numpy.random.default_rng(seed).permutation(numpy.arange(count))`.
fn permutation(seed: u64, count: usize) -> Vec<usize> {
    let mut stream = Pcg::seeded(seed);
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        order.swap(last, stream.up_to(last as u64) as usize);
    }
    order
}

/// Words of the entropy pool of a seed.
const POOL: usize = 4;

/// The running constant of the pool's hash.
struct Hash {
    constant: u32,
    factor: u32,
}

impl Hash {
    fn of(&mut self, value: u32) -> u32 {
        let mixed = value ^ self.constant;
        self.constant = self.constant.wrapping_mul(self.factor);
        let product = mixed.wrapping_mul(self.constant);
        product ^ (product >> 16)
    }
}

/// Four words of 64 bits from a seed.
fn state_of(seed: u64) -> [u64; 4] {
    let mut hash = Hash { constant: 0x43b0_d7e5, factor: 0x931e_8875 };
    let entropy = [seed as u32, (seed >> 32) as u32, 0, 0];
    let mut pool = entropy.map(|word| hash.of(word));
    for from in 0..POOL {
        for to in (0..POOL).filter(|to| *to != from) {
            let other = hash.of(pool[from]);
            let mixed =
                pool[to].wrapping_mul(0xca01_f9dd).wrapping_sub(other.wrapping_mul(0x4973_f715));
            pool[to] = mixed ^ (mixed >> 16);
        }
    }
    let mut hash = Hash { constant: 0x8b51_f9dd, factor: 0x58f3_8ded };
    let mut word = |place: usize| u64::from(hash.of(pool[place % POOL]));
    let mut words = [0; 4];
    for (index, to) in words.iter_mut().enumerate() {
        let low = word(2 * index);
        *to = low | word(2 * index + 1) << 32;
    }
    words
}

/// PCG XSL-RR 128/64.
struct Pcg {
    state: u128,
    increment: u128,
    /// The upper half of a number whose lower half was used.
    half: Option<u32>,
}

impl Pcg {
    const FACTOR: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;

    fn seeded(seed: u64) -> Self {
        let [a, b, c, d] = state_of(seed);
        let wide = |high: u64, low: u64| (u128::from(high) << 64) | u128::from(low);
        let mut pcg = Self { state: 0, increment: (wide(c, d) << 1) | 1, half: None };
        pcg.step();
        pcg.state = pcg.state.wrapping_add(wide(a, b));
        pcg.step();
        pcg
    }

    fn step(&mut self) {
        self.state = self.state.wrapping_mul(Self::FACTOR).wrapping_add(self.increment);
    }

    fn next(&mut self) -> u64 {
        self.step();
        let folded = (self.state >> 64) as u64 ^ self.state as u64;
        folded.rotate_right((self.state >> 122) as u32)
    }

    fn next_half(&mut self) -> u32 {
        self.half.take().unwrap_or_else(|| {
            let both = self.next();
            self.half = Some((both >> 32) as u32);
            both as u32
        })
    }

    /// A number from zero to `most`, inclusive: drawn with as many bits as `most` has, until it is
    /// in range.
    fn up_to(&mut self, most: u64) -> u64 {
        let mask = u64::MAX >> most.leading_zeros().min(63);
        loop {
            let drawn = match u32::try_from(most) {
                Ok(_) => u64::from(self.next_half()),
                Err(_) => self.next(),
            };
            if drawn & mask <= most {
                return drawn & mask;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permutations_are_those_of_numpy() {
        assert_eq!(permutation(0, 10), [4, 6, 2, 7, 3, 5, 9, 0, 8, 1]);
        assert_eq!(permutation(1, 12), [8, 11, 4, 7, 5, 0, 1, 9, 2, 10, 6, 3]);
        assert_eq!(permutation(12_345_678_901_234_567, 7), [5, 2, 6, 4, 1, 0, 3]);
        let long = permutation(1, 1000);
        assert_eq!(long[..8], [705, 649, 543, 927, 577, 471, 608, 252]);
        assert_eq!(long[997..], [102, 499, 255]);
    }

    #[test]
    fn a_division_is_read_from_either_kind_of_file() {
        let folder = tempfile::tempdir().unwrap();
        let split = Split::random(7, 20, [12, 5, 2]);
        let path = folder.path().join("split.json");
        std::fs::write(&path, serde_json::to_string(&split).unwrap()).unwrap();
        assert_eq!(Split::read(&path, 20).unwrap(), split);
        let told = |count| Split::read(&path, count).unwrap_err().to_string();
        assert!(told(10).contains("10 structures"), "{}", told(10));
        for (text, words) in [
            (r#"{"train": [0, 1], "validation": [1], "test": []}"#, "structure 1 twice"),
            (r#"{"train": [], "validation": [1], "test": []}"#, "to train on"),
            (r#"{"train": [0], "validation": [], "test": [2]}"#, "to validate on"),
            (r#"{"train": [-1], "validation": [1], "test": []}"#, "split.json"),
            ("[]", "split.json"),
        ] {
            std::fs::write(&path, text).unwrap();
            assert!(told(20).contains(words), "{}", told(20));
        }
    }

    /// `numpy.savez` of torchmd-net's division of 12 structures into 8, 2 and 2, seed 1.
    #[test]
    fn a_division_of_torchmd_net_is_ours_of_the_same_seed() {
        let path = crate::reference::reference("splits.npz");
        assert_eq!(Split::read(&path, 12).unwrap(), Split::random(1, 12, [8, 2, 2]));
    }

    #[test]
    fn a_split_has_no_structure_twice() {
        let split = Split::random(7, 20, [12, 5, 2]);
        assert_eq!([split.train.len(), split.validation.len(), split.test.len()], [12, 5, 2]);
        let mut all = [split.train, split.validation, split.test].concat();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 19);
        assert!(all.iter().all(|index| *index < 20));
    }
}
