//! Division of a set into images for training, validation and test.

use super::{ImageError, Images};
use linwright_tensor::RngKey;
use serde::{Deserialize, Serialize};

/// How a set is divided; all images that are neither for validation nor for test are for training.
///
/// Without a key, training takes the first images, validation the next, test the last; with one,
/// images are drawn. If stratified, every class is divided in the same proportion: numbers are
/// rounded by largest remainders, ties to the lower class, so that the parts have the same sizes as
/// without stratification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Split {
    /// Images for validation.
    pub validation: Share,
    /// Images for test.
    pub test: Share,
    /// Whether every class is divided separately.
    pub stratified: bool,
}

/// Some of the images of a set.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Share {
    /// A number of images, an integer in files.
    Count(usize),
    /// A share from 0 to 1, a decimal number in files, rounded to the nearest number of images.
    Part(f64),
}

impl Default for Share {
    fn default() -> Self {
        Self::Count(0)
    }
}

impl Share {
    /// Number of images of `len`.
    fn of(self, len: usize, name: &str) -> Result<usize, ImageError> {
        match self {
            Self::Count(count) => Ok(count),
            Self::Part(part) if (0.0..=1.0).contains(&part) => {
                Ok((part * len as f64).round() as usize)
            }
            Self::Part(part) => Err(wrong(format!("{name} is {part}, expected 0 to 1"))),
        }
    }
}

/// Indices of the images of each part, ascending. Every image is in exactly one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SplitParts {
    /// Images for training.
    pub training: Vec<usize>,
    /// Images for validation.
    pub validation: Vec<usize>,
    /// Images for test.
    pub test: Vec<usize>,
}

impl Split {
    /// Divides a set. Equal sets, options and keys give equal parts.
    ///
    /// # Errors
    /// [`ImageError::BadOption`] for shares beyond the set, or a stratified split without labels.
    pub fn divide(&self, images: &Images, key: Option<RngKey>) -> Result<SplitParts, ImageError> {
        let held = self.sizes(images.len())?;
        let mut order: Vec<usize> = (0..images.len()).collect();
        if let Some(key) = key {
            key.fold("split").stream().shuffle(&mut order);
        }
        let groups = match (self.stratified, images.labels()) {
            (false, _) => vec![order],
            (true, Some(labels)) => {
                let mut groups = vec![Vec::new(); images.classes()];
                for index in order {
                    groups[labels[index] as usize].push(index);
                }
                groups
            }
            (true, None) => {
                return Err(wrong("is stratified, but the images have no labels".into()));
            }
        };
        Ok(cut(&groups, held))
    }

    /// Numbers of images for validation, and for test.
    fn sizes(&self, len: usize) -> Result<[usize; 2], ImageError> {
        let validation = self.validation.of(len, "validation")?;
        let test = self.test.of(len, "test")?;
        let test = match (self.validation, self.test) {
            // Two shares of a whole, each rounded up, may be more than the whole.
            (Share::Part(a), Share::Part(b)) if a + b <= 1.0 => test.min(len - validation),
            (Share::Part(_) | Share::Count(_), _) => test,
        };
        if validation.checked_add(test).is_none_or(|held| held > len) {
            return Err(wrong(format!(
                "validation takes {validation} and test {test} images, expected at most {len} in all"
            )));
        }
        Ok([validation, test])
    }
}

fn wrong(reason: String) -> ImageError {
    ImageError::BadOption { option: "split", reason }
}

/// Divides every group in the same proportion: training first, then validation, then test.
fn cut(groups: &[Vec<usize>], [validation, test]: [usize; 2]) -> SplitParts {
    // The held-out part of each group is then divided again, so that no group has to give more
    // images than it has.
    let lengths: Vec<usize> = groups.iter().map(Vec::len).collect();
    let held = apportion(validation + test, &lengths);
    let tests = apportion(test, &held);
    let mut parts = SplitParts::default();
    for ((group, held), test) in groups.iter().zip(held).zip(tests) {
        let (training, held) = group.split_at(group.len() - held);
        let (validation, test) = held.split_at(held.len() - test);
        parts.training.extend(training);
        parts.validation.extend(validation);
        parts.test.extend(test);
    }
    for part in [&mut parts.training, &mut parts.validation, &mut parts.test] {
        part.sort_unstable();
    }
    parts
}

/// Divides `total`, at most the sum of `weights`, in proportion to them, by largest remainders. No
/// number is larger than its weight.
fn apportion(total: usize, weights: &[usize]) -> Vec<usize> {
    let sum = weights.iter().sum::<usize>().max(1) as u128;
    let quota = |&weight: &usize| total as u128 * weight as u128;
    let mut shares: Vec<usize> = weights.iter().map(|w| (quota(w) / sum) as usize).collect();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    // The sort is stable: equal remainders keep the order of the groups.
    order.sort_by_key(|&group| std::cmp::Reverse(quota(&weights[group]) % sum));
    let left = total - shares.iter().sum::<usize>();
    for &group in &order[..left] {
        shares[group] += 1;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::super::{ImageShape, Pixels};
    use super::*;

    fn images(labels: Option<Vec<u32>>, len: usize) -> Images {
        let shape = ImageShape { height: 1, width: 1, channels: 1 };
        Images::new(shape, Pixels::Bytes(vec![0; len]), labels)
    }

    fn sizes(parts: &SplitParts) -> [usize; 3] {
        [parts.training.len(), parts.validation.len(), parts.test.len()]
    }

    #[test]
    fn without_a_key_parts_follow_each_other() {
        let split =
            Split { validation: Share::Count(2), test: Share::Part(0.3), stratified: false };
        let parts = split.divide(&images(None, 10), None).unwrap();
        assert_eq!(parts.training, [0, 1, 2, 3, 4]);
        assert_eq!(parts.validation, [5, 6]);
        assert_eq!(parts.test, [7, 8, 9]);
        let whole = Split::default().divide(&images(None, 3), None).unwrap();
        assert_eq!(sizes(&whole), [3, 0, 0]);
        let halves = Split { validation: Share::Part(0.5), test: Share::Part(0.5), ..split };
        assert_eq!(sizes(&halves.divide(&images(None, 3), None).unwrap()), [0, 2, 1]);
    }

    #[test]
    fn a_key_draws_the_same_parts_again_and_every_image_once() {
        let split =
            Split { validation: Share::Count(30), test: Share::Count(20), stratified: true };
        let labels: Vec<u32> = (0..100).map(|index| u32::from(index % 10 >= 7)).collect();
        let set = images(Some(labels.clone()), 100);
        let parts = |seed| split.divide(&set, Some(RngKey::new(seed))).unwrap();
        assert_eq!(parts(1), parts(1));
        assert_ne!(parts(1), parts(2));
        let first = parts(1);
        assert_eq!(sizes(&first), [50, 30, 20]);
        let ones = |part: &[usize]| part.iter().filter(|&&index| labels[index] == 1).count();
        assert_eq!([&first.training, &first.validation, &first.test].map(|p| ones(p)), [15, 9, 6]);
        let mut all = [first.training, first.validation, first.test].concat();
        assert!(!all.is_sorted());
        all.sort_unstable();
        assert_eq!(all, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn proportions_are_rounded_to_the_exact_total_within_every_class() {
        assert_eq!(apportion(4, &[1, 1, 1, 9]), [1, 0, 0, 3]);
        assert_eq!(apportion(2, &[1, 1, 1]), [1, 1, 0]);
        assert_eq!(apportion(0, &[]), [0; 0]);
        let split =
            Split { validation: Share::Part(0.5), test: Share::Part(0.5), stratified: true };
        let set = images(Some(vec![0, 1, 1, 2, 2, 2, 4]), 7);
        let parts = split.divide(&set, None).unwrap();
        assert_eq!(sizes(&parts), [0, 4, 3]);
    }

    #[test]
    fn impossible_divisions_are_refused() {
        let split = |validation, test| Split { validation, test, stratified: false };
        let stratified = Split { stratified: true, ..Split::default() };
        for (split, want) in [
            (
                split(Share::Count(8), Share::Part(0.3)),
                "split: validation takes 8 and test 3 images, expected at most 10 in all",
            ),
            (
                split(Share::Part(0.6), Share::Part(0.6)),
                "split: validation takes 6 and test 6 images, expected at most 10 in all",
            ),
            (
                split(Share::Part(f64::NAN), Share::default()),
                "split: validation is NaN, expected 0 to 1",
            ),
            (split(Share::default(), Share::Part(-0.1)), "split: test is -0.1, expected 0 to 1"),
            (stratified, "split: is stratified, but the images have no labels"),
        ] {
            let error = split.divide(&images(None, 10), None).unwrap_err();
            assert_eq!(error.to_string(), want);
        }
    }

    #[test]
    fn files_hold_counts_and_shares() {
        let split: Split = serde_json::from_str(r#"{"validation": 5, "test": 0.25}"#).unwrap();
        assert_eq!((split.validation, split.test), (Share::Count(5), Share::Part(0.25)));
        let error = serde_json::from_str::<Split>(r#"{"valid": 5}"#).unwrap_err();
        assert!(error.to_string().contains("unknown field `valid`"), "{error}");
    }
}
