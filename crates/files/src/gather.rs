//! Gathering the numbers of a strided tensor.

use std::ops::Range;

/// Gathers the numbers `numbers` (row-major indices) of a tensor of `size` bytes each into
/// contiguous memory. `bytes` begins with its first number; `strides` count numbers.
///
/// # Panics
/// If an index is out of range.
pub(crate) fn gather(
    bytes: &[u8],
    shape: &[usize],
    strides: &[usize],
    size: usize,
    numbers: Range<usize>,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(numbers.len() * size);
    let mut index = index_of(shape, numbers.start);
    let (&inner, &step) = shape.last().zip(strides.last()).unwrap_or((&1, &1));
    let mut left = numbers.len();
    while left > 0 {
        let column = index.last().copied().unwrap_or(0);
        let run = left.min(inner - column);
        let first: usize = index.iter().zip(strides).map(|(i, s)| i * s).sum();
        for number in 0..run {
            let at = (first + number * step) * size;
            out.extend_from_slice(&bytes[at..at + size]);
        }
        left -= run;
        if let Some(last) = index.last_mut() {
            *last += run;
        }
        carry(&mut index, shape);
    }
    out
}

/// Multi-index of a row-major index.
fn index_of(shape: &[usize], mut place: usize) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (i, &extent) in index.iter_mut().zip(shape).rev() {
        // An empty tensor has no valid index.
        (*i, place) = (place % extent.max(1), place / extent.max(1));
    }
    index
}

/// Carries an index that exceeds its extent to the dimension before.
fn carry(index: &mut [usize], shape: &[usize]) {
    for at in (1..index.len()).rev() {
        if index[at] < shape[at] {
            return;
        }
        index[at] = 0;
        index[at - 1] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The naive twin: each index by itself.
    fn naive(bytes: &[u8], shape: &[usize], strides: &[usize], size: usize) -> Vec<u8> {
        let count: usize = shape.iter().product();
        let mut out = Vec::new();
        for place in 0..count {
            let at: usize =
                index_of(shape, place).iter().zip(strides).map(|(i, s)| i * s).sum::<usize>();
            out.extend_from_slice(&bytes[at * size..(at + 1) * size]);
        }
        out
    }

    #[test]
    fn any_part_of_any_strided_tensor_is_what_its_indices_say() {
        let bytes: Vec<u8> = (0..=255).collect();
        for (shape, strides) in [
            (vec![4, 3], vec![1, 4]),
            (vec![4, 3], vec![6, 2]),
            (vec![2, 3, 4], vec![4, 8, 1]),
            (vec![2, 1, 3], vec![9, 5, 2]),
            (vec![7], vec![3]),
            (vec![], vec![]),
            (vec![3, 0], vec![1, 1]),
        ] {
            for size in [1, 2, 4] {
                let all = naive(&bytes, &shape, &strides, size);
                let count: usize = shape.iter().product();
                for start in 0..=count {
                    for end in start..=count {
                        let part = gather(&bytes, &shape, &strides, size, start..end);
                        assert_eq!(part, all[start * size..end * size], "{shape:?} {strides:?}");
                    }
                }
            }
        }
    }
}
