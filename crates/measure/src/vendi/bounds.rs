//! Bounds of the entropy of m probabilities with a given sum of squares.
//!
//! For a purity `P = Σ p²` of m probabilities, the Shannon entropy is largest if one is large and
//! all others are equal, and smallest if as many as possible are equal and one takes the rest
//! (Harremoës and Topsøe, *Inequalities between Entropy and Index of Coincidence*, 2001). Both
//! bounds are tighter than `-ln P <= S <= ln m`.

/// Largest entropy, in nats.
pub(super) fn most_entropy(purity: f64, m: usize) -> f64 {
    let count = m as f64;
    let excess = (count * purity - 1.0).max(0.0);
    let large = ((1.0 + ((count - 1.0) * excess).sqrt()) / count).min(1.0);
    let others = 1.0 - large;
    if m < 2 || others <= 0.0 {
        return 0.0;
    }
    -large * large.ln() - others * (others / (count - 1.0)).ln()
}

/// Smallest entropy, in nats.
pub(super) fn least_entropy(purity: f64) -> f64 {
    let purity = purity.min(1.0);
    let alike = (1.0 / purity).floor();
    let square = 1.0 - (alike + 1.0) * (1.0 - purity) / alike;
    let share = (1.0 + square.max(0.0).sqrt()) / (alike + 1.0);
    let rest = 1.0 - alike * share;
    let last = if rest > 0.0 { -rest * rest.ln() } else { 0.0 };
    -alike * share * share.ln() + last
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_tensor::RngKey;

    fn entropy(shares: &[f64]) -> f64 {
        shares.iter().filter(|p| **p > 0.0).map(|p| -p * p.ln()).sum()
    }

    #[test]
    fn random_shares_lie_between() {
        let mut stream = RngKey::new(1).stream();
        for trial in 0..20_000 {
            let m = 1 + stream.below(12);
            let power = f64::from(1 << (trial % 6));
            let mut shares: Vec<f64> = (0..m).map(|_| stream.uniform().powf(power)).collect();
            let sum: f64 = shares.iter().sum();
            shares.iter_mut().for_each(|p| *p /= sum);
            let purity = shares.iter().map(|p| p * p).sum();
            let found = entropy(&shares);
            let (least, most) = (least_entropy(purity), most_entropy(purity, m));
            assert!(least <= found + 1e-12 && found <= most + 1e-12, "{least} {found} {most}");
            assert!(-f64::ln(purity) <= least + 1e-12, "no worse than the order-two entropy");
        }
    }

    #[test]
    fn extreme_shares_reach_the_bounds() {
        for (large, others) in [(0.4, 3), (0.9, 7), (0.25, 3)] {
            let mut shares = vec![(1.0 - large) / f64::from(others); others as usize];
            shares.push(large);
            let purity = shares.iter().map(|p| p * p).sum();
            let bound = most_entropy(purity, shares.len());
            assert!((bound - entropy(&shares)).abs() < 1e-12, "{shares:?}");
        }
        for shares in [&[0.3, 0.3, 0.3, 0.1][..], &[0.5, 0.5], &[0.8, 0.2], &[1.0]] {
            let purity = shares.iter().map(|p| p * p).sum();
            assert!((least_entropy(purity) - entropy(shares)).abs() < 1e-7, "{shares:?}");
        }
        // Rounding may exceed the possible range slightly.
        assert_eq!(most_entropy(1.0 + 1e-15, 5), 0.0);
        assert!((most_entropy(0.2 - 1e-16, 5) - 5f64.ln()).abs() < 1e-12);
        assert!(least_entropy(1.0 + 1e-15).abs() < 1e-7);
    }
}
