//! Correlations of two lists of numbers, and ranks for Spearman's.

/// Ranks from one; equal numbers share their mean rank.
#[must_use]
pub fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut next = 0;
    for run in order.chunk_by(|&a, &b| values[a] == values[b]) {
        let mean = next as f64 + (run.len() as f64 + 1.0) / 2.0;
        for &index in run {
            ranks[index] = mean;
        }
        next += run.len();
    }
    ranks
}

/// Pearson's correlation; none if all numbers of a side are equal. Of [`ranks`] it is Spearman's.
#[must_use]
pub fn pearson(a: &[f64], b: &[f64]) -> Option<f64> {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (mean_a, mean_b) = (mean(a), mean(b));
    let (mut both, mut own_a, mut own_b) = (0.0, 0.0, 0.0);
    for (x, y) in a.iter().zip(b) {
        let (x, y) = (x - mean_a, y - mean_b);
        both += x * y;
        own_a += x * x;
        own_b += y * y;
    }
    (own_a > 0.0 && own_b > 0.0).then(|| both / (own_a * own_b).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_numbers_share_a_rank_and_order_alone_counts() {
        assert_eq!(ranks(&[3.0, 1.0, 3.0, 2.0]), [3.5, 1.0, 3.5, 2.0]);
        let (a, b) = ([1.0, 2.0, 3.0, 10.0], [0.1, 0.2, 0.9, 1.0]);
        assert_eq!(pearson(&ranks(&a), &ranks(&b)), Some(1.0));
        assert!(pearson(&a, &b).unwrap() < 0.9);
        let reversed: Vec<f64> = b.iter().rev().copied().collect();
        assert_eq!(pearson(&ranks(&a), &ranks(&reversed)), Some(-1.0));
        assert_eq!(pearson(&a, &[2.0; 4]), None);
    }
}
