//! The largest and smallest scores of each query, from scores that arrive in parts.

use linwright_tensor::Mat;
use serde::{Deserialize, Serialize};

/// A score of an example.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scored {
    /// Number of the example, from zero.
    pub index: usize,
    /// Its score.
    pub score: f64,
}

/// The `count` best examples for each query. Ties go to the lower example number, for any order of
/// the parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Top {
    count: usize,
    /// For each query, best first.
    best: Vec<Vec<Scored>>,
    /// 1 for the largest scores, -1 for the smallest.
    sign: f64,
}

impl Top {
    /// The largest scores, of proponents.
    #[must_use]
    pub fn largest(queries: usize, count: usize) -> Self {
        Self { count, best: vec![Vec::new(); queries], sign: 1.0 }
    }

    /// The smallest scores, of opponents.
    #[must_use]
    pub fn smallest(queries: usize, count: usize) -> Self {
        Self { sign: -1.0, ..Self::largest(queries, count) }
    }

    /// Adds the scores (examples, queries) of examples from `first` on.
    ///
    /// # Panics
    /// If there are other queries.
    pub fn add(&mut self, first: usize, scores: &Mat<f64>) {
        assert_eq!(scores.cols(), self.best.len(), "scores of each query");
        for row in 0..scores.rows() {
            for (query, &score) in scores.row(row).iter().enumerate() {
                self.insert(query, Scored { index: first + row, score });
            }
        }
    }

    /// Whether it has this number of queries and the same kind as another one.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        let of = |top: &Self| (top.best.len(), top.count, top.sign.to_bits());
        of(self) == of(other)
    }

    /// Merges another one.
    ///
    /// # Panics
    /// If it has other queries.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!(other.best.len(), self.best.len(), "queries");
        for (query, best) in other.best.iter().enumerate() {
            best.iter().for_each(|scored| self.insert(query, *scored));
        }
    }

    /// For each query its examples, best first.
    #[must_use]
    pub fn best(&self) -> &[Vec<Scored>] {
        &self.best
    }

    fn insert(&mut self, query: usize, new: Scored) {
        let (sign, best) = (self.sign, &mut self.best[query]);
        let is_better = |a: &Scored, b: &Scored| {
            let order = (sign * b.score).total_cmp(&(sign * a.score));
            order.then(a.index.cmp(&b.index)).is_lt()
        };
        if best.len() == self.count && best.last().is_none_or(|last| !is_better(&new, last)) {
            return;
        }
        let place = best.partition_point(|old| is_better(old, &new));
        best.insert(place, new);
        best.truncate(self.count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_tensor::RngKey;

    #[test]
    fn parts_in_any_order_give_what_sorting_gives() {
        let mut stream = RngKey::new(1).stream();
        // Few different scores, so that there are ties.
        let scores = Mat::from_fn(50, 3, |_, _| stream.below(9) as f64 - 4.0);
        for count in [0, 1, 7, 50, 60] {
            for (mut found, sign) in
                [(Top::largest(3, count), 1.0), (Top::smallest(3, count), -1.0)]
            {
                let mut other = found.clone();
                let part = |rows: std::ops::Range<usize>| {
                    scores.view().rows_range(rows.start, rows.len()).to_mat()
                };
                other.add(30, &part(30..50));
                found.add(9, &part(9..30));
                found.add(0, &part(0..9));
                found.merge(&other);
                for query in 0..3 {
                    let mut sorted: Vec<usize> = (0..50).collect();
                    let key = |i: usize| -sign * scores.at(i, query);
                    sorted.sort_by(|&i, &j| key(i).total_cmp(&key(j)).then(i.cmp(&j)));
                    sorted.truncate(count);
                    let indices: Vec<usize> =
                        found.best()[query].iter().map(|scored| scored.index).collect();
                    assert_eq!(indices, sorted, "{count} of query {query}");
                    let of = |s: &Scored| s.score == scores.at(s.index, query);
                    assert!(found.best()[query].iter().all(of));
                }
            }
        }
    }
}
