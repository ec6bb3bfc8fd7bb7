//! Sums as bytes: both parts of every sum, so that pieces add up to the same bits.

use super::sums::ExactSums;
use super::{InputSums, TargetSums};

/// Largest number of samples: more than any text has, so that numbers of samples can be added.
const MOST_SAMPLES: u64 = 1 << 48;
/// Bytes of a number.
const NUMBER: usize = size_of::<f64>();

impl InputSums {
    /// Bytes of the stored sums over an input of `inp` features: `8 (inp² + 5 inp + 2)`, whatever
    /// the number of samples.
    #[must_use]
    pub fn stored_bytes(inp: usize) -> usize {
        NUMBER * (inp * inp + 5 * inp + 2)
    }

    /// The sums as bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let inp = self.first.cols;
        let mut bytes = Vec::with_capacity(Self::stored_bytes(inp));
        bytes.extend((inp as u64).to_le_bytes());
        bytes.extend(self.count.to_le_bytes());
        let mut put = |numbers: &[f64]| {
            numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        };
        for part in [&self.second.high, &self.second.low] {
            (0..inp).for_each(|i| put(&part[i * inp..=i * inp + i]));
        }
        for sums in [&self.first, &self.absolute] {
            put(&sums.high);
            put(&sums.low);
        }
        bytes
    }

    /// The sums from bytes.
    ///
    /// # Errors
    /// The error in the bytes, for a message.
    pub fn of_bytes(bytes: &[u8]) -> Result<Self, String> {
        let (words, rest) = bytes.as_chunks::<NUMBER>();
        let [inp, count, numbers @ ..] = words else {
            return Err(format!("{} bytes are not sums over inputs", bytes.len()));
        };
        let inp = usize::try_from(u64::from_le_bytes(*inp)).unwrap_or(usize::MAX);
        let expected = inp.checked_add(5).and_then(|more| more.checked_mul(inp));
        if !rest.is_empty() || expected != Some(numbers.len()) {
            return Err(format!("{} bytes do not match {inp} features", bytes.len()));
        }
        let count = u64::from_le_bytes(*count);
        if count > MOST_SAMPLES {
            return Err(format!("{count} samples, expected at most {MOST_SAMPLES}"));
        }
        let mut numbers = numbers.iter().map(|number| f64::from_le_bytes(*number));
        let mut sums = Self { count, ..Self::new(inp) };
        let ExactSums { high, low, .. } = &mut sums.second;
        for part in [high, low] {
            for i in 0..inp {
                fill(&mut part[i * inp..=i * inp + i], &mut numbers);
            }
        }
        for own in [&mut sums.first, &mut sums.absolute] {
            fill(&mut own.high, &mut numbers);
            fill(&mut own.low, &mut numbers);
        }
        check_finite(&[&sums.second, &sums.first, &sums.absolute])?;
        Ok(sums)
    }
}

impl TargetSums {
    /// The sums as bytes: the numbers of features of targets and inputs, then all sums.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let (out, inp) = (self.cross.rows, self.cross.cols);
        let mut bytes = Vec::with_capacity(NUMBER * (2 * out * inp + 2 * out + 4));
        [out as u64, inp as u64].iter().for_each(|size| bytes.extend(size.to_le_bytes()));
        let ExactSums { high, low, .. } = &self.cross;
        let first = &self.first;
        for numbers in [high, low, &first.high, &first.low, &self.power[..]] {
            numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        }
        bytes
    }

    /// The sums from bytes.
    ///
    /// # Errors
    /// The error in the bytes, for a message.
    pub fn of_bytes(bytes: &[u8]) -> Result<Self, String> {
        let (words, rest) = bytes.as_chunks::<NUMBER>();
        let [out, inp, numbers @ ..] = words else {
            return Err(format!("{} bytes are not sums over targets", bytes.len()));
        };
        let size = |word: &[u8; NUMBER]| usize::try_from(u64::from_le_bytes(*word)).ok();
        let suits = |(out, inp): &(usize, usize)| {
            let count = inp.checked_add(1).and_then(|more| more.checked_mul(*out));
            let count =
                count.and_then(|count| count.checked_mul(2)).and_then(|count| count.checked_add(2));
            rest.is_empty() && count == Some(numbers.len())
        };
        let Some((out, inp)) = size(out).zip(size(inp)).filter(suits) else {
            return Err(format!("{} bytes do not match their sizes", bytes.len()));
        };
        let mut numbers = numbers.iter().map(|number| f64::from_le_bytes(*number));
        let mut sums = Self::new(out, inp);
        for own in [&mut sums.cross, &mut sums.first] {
            fill(&mut own.high, &mut numbers);
            fill(&mut own.low, &mut numbers);
        }
        fill(&mut sums.power, &mut numbers);
        check_finite(&[&sums.cross, &sums.first])?;
        match sums.power.iter().all(|sum| sum.is_finite()) {
            true => Ok(sums),
            false => Err("a sum is not finite".into()),
        }
    }
}

fn check_finite(all: &[&ExactSums]) -> Result<(), String> {
    let mut numbers = all.iter().flat_map(|sums| sums.high.iter().chain(&sums.low));
    match numbers.all(|number| number.is_finite()) {
        true => Ok(()),
        false => Err("a sum is not finite".into()),
    }
}

fn fill(to: &mut [f64], numbers: &mut impl Iterator<Item = f64>) {
    to.iter_mut().zip(numbers).for_each(|(to, number)| *to = number);
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_tensor::{Mat, RngKey};

    #[test]
    fn stored_sums_go_on_as_if_they_had_never_been_stored() {
        let x: Mat<f32> = Mat::from_vec(900, 6, RngKey::new(1).stream().normals(5400, 1.0));
        let (mut first, mut second) = (InputSums::new(6), InputSums::new(6));
        first.add(x.view().rows_range(0, 500));
        second.add(x.view().rows_range(500, 400));
        let bytes = first.to_bytes();
        assert_eq!(bytes.len(), InputSums::stored_bytes(6));
        let mut read = InputSums::of_bytes(&bytes).expect("reads");
        read.merge(&second);
        first.merge(&second);
        assert!(read.finish() == first.finish());
        let y: Mat<f32> = Mat::from_vec(900, 3, RngKey::new(2).stream().normals(2700, 1.0));
        let part = |start: usize, count: usize| {
            let mut sums = TargetSums::new(3, 6);
            sums.add(x.view().rows_range(start, count), y.view().rows_range(start, count));
            sums
        };
        let (mut first, second) = (part(0, 500), part(500, 400));
        let mut read = TargetSums::of_bytes(&first.to_bytes()).expect("reads");
        read.merge(&second);
        first.merge(&second);
        assert_eq!(read, first);
        let of_targets = first.to_bytes();
        for wrong in [&of_targets[..of_targets.len() - 8], &of_targets[..9], &of_targets[8..], &[]]
        {
            assert!(TargetSums::of_bytes(wrong).is_err());
        }
        for wrong in [&bytes[..bytes.len() - 8], &bytes[..5], &bytes[8..], &[][..]] {
            assert!(InputSums::of_bytes(wrong).is_err());
        }
        let mut spoilt = bytes.clone();
        spoilt[16..24].copy_from_slice(&f64::NAN.to_le_bytes());
        assert!(InputSums::of_bytes(&spoilt).expect_err("is refused").contains("not finite"));
        // Nor what rounding lost, at the end.
        spoilt = bytes.clone();
        spoilt[bytes.len() - 8..].copy_from_slice(&f64::INFINITY.to_le_bytes());
        assert!(InputSums::of_bytes(&spoilt).expect_err("is refused").contains("not finite"));
    }
}
