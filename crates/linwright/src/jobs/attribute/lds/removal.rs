//! Brittleness: which answers change when the best examples of a query are left out.

use super::AttributeLds;
use super::result::{Change, mean};
use crate::jobs::attribute::{ExampleOptions, Opened, Scorer, ScoringOptions};
use crate::jobs::kit::{Failure, Session};
use linwright_attribute::Scored;
use linwright_tensor::{Mat, RngKey};
use std::collections::BTreeSet;

/// The method that draws random examples.
const RANDOM: &str = "random";

/// Which examples are left out for a query.
pub(super) struct Arm {
    method: String,
    damping: Option<String>,
    count: usize,
    query: usize,
}

/// The arms, and what the network of each is trained on: first all examples, then all but the best
/// of each query by each method, and all but as many random ones.
pub(super) fn arms(
    job: &AttributeLds,
    plans: &[ScoringOptions],
    (opened, files): (&Opened, &ExampleOptions),
    session: &mut Session<'_>,
) -> Result<(Vec<Arm>, Vec<Vec<usize>>), Failure> {
    let total = opened.store.manifest().count;
    let most = job.remove.iter().copied().max().unwrap_or(0);
    if job.remove.contains(&0) || most >= total {
        let message = format!("--remove: expected numbers from 1 to {}", total - 1);
        return Err(Failure::usage(message));
    }
    let (mut arms, mut parts) = (Vec::new(), vec![(0..total).collect()]);
    let mut add = |plan: (&str, Option<&String>), query: usize, best: &[usize]| {
        for &count in &job.remove {
            let without: BTreeSet<usize> = best[..count].iter().copied().collect();
            parts.push((0..total).filter(|index| !without.contains(index)).collect());
            let (method, damping) = (plan.0.to_owned(), plan.1.cloned());
            arms.push(Arm { method, damping, count, query });
        }
    };
    let mut queries = 0;
    for plan in plans {
        let scorer = Scorer::new((plan, files), opened, session)?;
        let [best, _] = scorer.best(most, session)?;
        queries = best.best().len();
        for (query, best) in best.best().iter().enumerate() {
            let best: Vec<usize> = best.iter().map(|Scored { index, .. }| *index).collect();
            add((plan.method.name(), plan.damping.as_ref()), query, &best);
        }
    }
    for query in 0..queries {
        let key = RngKey::new(job.seed).fold("removed").fold_index(query as u64);
        let order = key.stream().permutation(total);
        let drawn: Vec<usize> = order[..most].iter().map(|at| *at as usize).collect();
        add((RANDOM, None), query, &drawn);
    }
    Ok((arms, parts))
}

/// Summary of the outcomes (parts, queries) of the arms.
pub(super) fn changes(arms: &[Arm], outcomes: &Mat<f64>) -> Vec<Change> {
    let mut seen: Vec<(&str, Option<&String>, usize)> = Vec::new();
    for Arm { method, damping, count, .. } in arms {
        let of = (method.as_str(), damping.as_ref(), *count);
        if !seen.contains(&of) {
            seen.push(of);
        }
    }
    let change = |(method, damping, count): (&str, Option<&String>, usize)| {
        let (mut flips, mut drops) = (Vec::new(), Vec::new());
        for (part, arm) in arms.iter().enumerate() {
            if (arm.method.as_str(), arm.damping.as_ref(), arm.count) != (method, damping, count) {
                continue;
            }
            let (whole, left) = (outcomes.at(0, arm.query), outcomes.at(1 + part, arm.query));
            drops.push(whole - left);
            if whole > 0.0 {
                flips.push(f64::from(u8::from(left <= 0.0)));
            }
        }
        let (flipped, flipped_stderr) = mean(&flips);
        let (margin_drop, margin_drop_stderr) = mean(&drops);
        Change {
            method: method.to_owned(),
            damping: damping.cloned(),
            removed: count,
            queries: flips.len(),
            flipped,
            flipped_stderr,
            margin_drop,
            margin_drop_stderr,
        }
    };
    seen.into_iter().map(change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_flip_where_the_margin_was_above_zero_and_no_longer_is() {
        let arm =
            |method: &str, query| Arm { method: method.into(), damping: None, count: 3, query };
        let arms = [arm("influence", 0), arm("influence", 1), arm("random", 0), arm("random", 1)];
        let margins = [[2.0, -1.0], [-1.0, 9.0], [9.0, -3.0], [1.5, 9.0], [9.0, -0.5]];
        let outcomes = Mat::from_fn(5, 2, |part, query| margins[part][query]);
        let found = changes(&arms, &outcomes);
        let of = |at: usize| (found[at].queries, found[at].flipped, found[at].margin_drop);
        assert_eq!(of(0), (1, 1.0, 2.5), "margins fall by 3 and 2");
        assert_eq!(of(1), (1, 0.0, 0.0), "margins fall by 0.5 and -0.5");
        assert_eq!((found[0].margin_drop_stderr, found[0].removed), (0.5, 3));
    }
}
