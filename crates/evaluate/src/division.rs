//! Division of items into a part for selection and a part for testing.

use linwright_tensor::RngKey;

/// Indices of the first fifth of `count` items and of the others, in an order drawn with the seed
/// `shuffle`, or without one in the given order, as in LASER. `None` if the fifth would be empty.
#[must_use]
pub fn first_fifth(count: usize, shuffle: Option<u64>) -> Option<(Vec<usize>, Vec<usize>)> {
    let mut order: Vec<usize> = (0..count).collect();
    if let Some(seed) = shuffle {
        RngKey::new(seed).fold("validation").stream().shuffle(&mut order);
    }
    let others = order.split_off(count / 5);
    (!order.is_empty()).then_some((order, others))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_in_one_part() {
        assert_eq!(first_fifth(4, None), None);
        assert_eq!(first_fifth(6, None), Some((vec![0], vec![1, 2, 3, 4, 5])));
        let (first, others) = first_fifth(20, Some(3)).unwrap();
        assert_eq!(first.len(), 4);
        let mut all = [first.clone(), others].concat();
        all.sort_unstable();
        assert_eq!(all, (0..20).collect::<Vec<_>>());
        assert_ne!(first, [0, 1, 2, 3]);
    }
}
