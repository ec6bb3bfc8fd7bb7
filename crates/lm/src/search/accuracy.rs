//! The decision for one linear layer by the number of right answers.
//!
//! Answers come in blocks of documents, so that a check can stop as soon as its outcome is certain.
//! The shortcuts of [`decide`], none of which changes a decision:
//!
//! 1. The largest rank stands for the dense layer and ends a scan whether it passes or not, so it
//!    is never scored.
//! 2. If the largest rank found so far passes on a later chunk, the smallest one that passes there
//!    is no larger, so the maximum stays.
//! 3. A check ends when the missing answers cannot change its outcome.
//! 4. The chunks are part of the search documents, so the last check has answers already.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;

/// Documents of a search in blocks that are scored at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// Number of documents in each block.
    pub documents: Vec<usize>,
    /// The blocks of each chunk.
    pub chunks: [Range<usize>; 3],
}

impl Blocks {
    /// Number of documents in some blocks.
    fn count(&self, blocks: &Range<usize>) -> usize {
        self.documents[blocks.clone()].iter().sum()
    }

    fn all(&self) -> Range<usize> {
        0..self.documents.len()
    }
}

/// Number of right answers that a part of the documents needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bar {
    /// Number of right answers of the dense model.
    pub base: usize,
    /// Smallest number that passes: one more than the documents if none does.
    pub needed: usize,
    /// Number of documents.
    pub documents: usize,
}

impl Bar {
    /// The bar for accuracies of at least that of the dense model less `delta`.
    #[must_use]
    pub fn new(base: usize, documents: usize, delta: f64) -> Self {
        let accuracy = |right: usize| right as f64 / documents as f64;
        let passes = |right: &usize| accuracy(*right) >= accuracy(base) - delta;
        Self { base, needed: (0..=documents).find(passes).unwrap_or(documents + 1), documents }
    }
}

/// The rule by which layers are decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The documents.
    pub blocks: Blocks,
    /// Bars of the chunks.
    pub chunks: [Bar; 3],
    /// Bar of all search documents.
    pub whole: Bar,
}

impl Rule {
    /// The rule for right answers of the dense model by block.
    ///
    /// # Panics
    /// If there is not one number for each block.
    #[must_use]
    #[track_caller]
    pub fn new(blocks: Blocks, base: &[usize], delta: f64) -> Self {
        assert_eq!(blocks.documents.len(), base.len(), "one number for each block");
        let bar = |part: Range<usize>| {
            Bar::new(base[part.clone()].iter().sum(), blocks.count(&part), delta)
        };
        let chunks = blocks.chunks.clone().map(bar);
        let whole = bar(blocks.all());
        Self { blocks, chunks, whole }
    }
}

/// A check of one rank on a part of the documents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Index of the rank.
    pub level: usize,
    /// The chunk; none for all search documents.
    pub chunk: Option<usize>,
    /// Number of right answers among those known when the outcome was certain.
    pub right: usize,
    /// Number of answers known then.
    pub known: usize,
    /// Number of right answers needed.
    pub needed: usize,
    /// The outcome.
    pub passes: bool,
}

/// The decision for one layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Index of the largest of the smallest ranks that pass on each chunk.
    pub level: usize,
    /// Whether the layer gets that rank; otherwise it stays dense.
    pub accepted: bool,
    /// The checks, in order.
    pub checks: Vec<Check>,
}

/// Decides a layer with so many ranks, of which the last stands for the dense layer; `right` is
/// the number of right answers at a rank in a block.
///
/// # Errors
/// Those of `right`.
pub fn decide<E>(
    rule: &Rule,
    levels: usize,
    right: impl FnMut(usize, usize) -> Result<usize, E>,
) -> Result<Verdict, E> {
    let last = levels.saturating_sub(1);
    let mut found = 0;
    let mut checks = Checks { rule, right, known: BTreeMap::new(), done: Vec::new() };
    for chunk in 0..3 {
        if chunk > 0 && (found == last || checks.passes(found, Some(chunk))?) {
            continue;
        }
        let mut smallest = last;
        for level in (0..last).filter(|level| chunk == 0 || *level != found) {
            if checks.passes(level, Some(chunk))? {
                smallest = level;
                break;
            }
        }
        found = found.max(smallest);
    }
    let accepted = found < last && checks.passes(found, None)?;
    Ok(Verdict { level: found, accepted, checks: checks.done })
}

/// As [`decide`], with the steps of the published code: every block of every check is scored.
///
/// # Errors
/// Those of `right`.
pub fn decide_as_published<E>(
    rule: &Rule,
    levels: usize,
    mut right: impl FnMut(usize, usize) -> Result<usize, E>,
) -> Result<Verdict, E> {
    let last = levels.saturating_sub(1);
    let (mut found, mut done): (Vec<usize>, Vec<Check>) = (Vec::new(), Vec::new());
    let mut passes = |level: usize, chunk: Option<usize>| {
        let (blocks, bar) = part(rule, chunk);
        let mut sum = 0;
        for block in blocks {
            sum += right(level, block)?;
        }
        let passes = sum >= bar.needed;
        let (known, needed) = (bar.documents, bar.needed);
        done.push(Check { level, chunk, right: sum, known, needed, passes });
        Ok(passes)
    };
    for chunk in 0..3 {
        if found.iter().max() == Some(&last) {
            break;
        }
        let mut smallest = last;
        for level in 0..levels {
            if passes(level, Some(chunk))? {
                smallest = level;
                break;
            }
        }
        found.push(smallest);
    }
    let level = found.into_iter().max().unwrap_or(last);
    let accepted = level != last && passes(level, None)?;
    Ok(Verdict { level, accepted, checks: done })
}

/// How often the published steps score each chunk, and all search documents, at least: where a
/// shortcut was taken, they score one rank or more.
#[must_use]
pub fn published_scores(verdict: &Verdict, levels: usize) -> ([u64; 3], u64) {
    let (mut found, mut scores) = (None, [0; 3]);
    for (chunk, scores) in scores.iter_mut().enumerate() {
        if found.is_some_and(|found| found + 1 >= levels) {
            break;
        }
        let of_chunk = || verdict.checks.iter().filter(|check| check.chunk == Some(chunk));
        let is_short = |check: &&Check| found == Some(check.level);
        if of_chunk().next().is_some_and(|check| is_short(&check) && check.passes) {
            *scores = 1;
            continue;
        }
        // They scan from the smallest rank on.
        let smallest = of_chunk().find(|check| check.passes).map(|check| check.level);
        *scores = smallest.map_or(levels, |level| level + 1) as u64;
        found = found.max(Some(smallest.unwrap_or(levels.saturating_sub(1))));
    }
    (scores, u64::from(verdict.level + 1 < levels))
}

/// Blocks and bar of a chunk, or of all search documents.
fn part(rule: &Rule, chunk: Option<usize>) -> (Range<usize>, &Bar) {
    match chunk {
        Some(chunk) => (rule.blocks.chunks[chunk].clone(), &rule.chunks[chunk]),
        None => (rule.blocks.all(), &rule.whole),
    }
}

/// Checks of one layer, with the answers known so far.
struct Checks<'r, F> {
    rule: &'r Rule,
    right: F,
    /// Number of right answers by rank and block.
    known: BTreeMap<(usize, usize), usize>,
    done: Vec<Check>,
}

impl<F> Checks<'_, F> {
    /// Whether a rank passes on a part; blocks are scored until that is certain.
    fn passes<E>(&mut self, level: usize, chunk: Option<usize>) -> Result<bool, E>
    where
        F: FnMut(usize, usize) -> Result<usize, E>,
    {
        let (blocks, bar) = part(self.rule, chunk);
        let documents = &self.rule.blocks.documents;
        let (scored, open): (Vec<usize>, Vec<usize>) =
            blocks.partition(|block| self.known.contains_key(&(level, *block)));
        let mut right: usize = scored.iter().map(|block| self.known[&(level, *block)]).sum();
        let mut known: usize = scored.iter().map(|block| documents[*block]).sum();
        for block in open {
            if is_certain(bar, right, known) {
                break;
            }
            let own = (self.right)(level, block)?;
            self.known.insert((level, block), own);
            (right, known) = (right + own, known + documents[block]);
        }
        let (needed, passes) = (bar.needed, right >= bar.needed);
        self.done.push(Check { level, chunk, right, known, needed, passes });
        Ok(passes)
    }
}

/// Whether the missing answers cannot change the outcome.
fn is_certain(bar: &Bar, right: usize, known: usize) -> bool {
    right >= bar.needed || right + (bar.documents - known) < bar.needed
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_tensor::RngKey;
    use std::cell::Cell;
    use std::convert::Infallible;

    /// Numbers of right answers from a table that depends on the accepted layers as well.
    struct Table {
        key: RngKey,
        blocks: Blocks,
        /// Whether larger ranks answer more.
        monotone: bool,
    }

    impl Table {
        fn right(
            &self,
            accepted: &[(usize, usize)],
            layer: usize,
            level: usize,
            block: usize,
        ) -> usize {
            let state = format!("{accepted:?} {layer}");
            let level_key = if self.monotone { 0 } else { level as u64 };
            let key = self.key.fold(&state).fold_index(level_key).fold_index(block as u64);
            let mut stream = key.stream();
            let share = if self.monotone { 40 + 6 * level } else { 70 };
            (0..self.blocks.documents[block]).filter(|_| stream.below(100) < share).count()
        }
    }

    fn blocks(stream: &mut linwright_tensor::RngStream) -> Blocks {
        let mut documents = Vec::new();
        let mut chunk = || {
            let start = documents.len();
            documents.extend((0..1 + stream.below(4)).map(|_| 1 + stream.below(5)));
            start..documents.len()
        };
        let chunks = [chunk(), chunk(), chunk()];
        documents.push(1 + stream.below(3));
        Blocks { documents, chunks }
    }

    /// Scores of one layer.
    type Right<'r> = dyn FnMut(usize, usize) -> Result<usize, Infallible> + 'r;

    /// Accepted layers and decisions of a walk.
    fn walk(
        table: &Table,
        decide: &dyn Fn(usize, &mut Right<'_>) -> Result<Verdict, Infallible>,
    ) -> Vec<(usize, bool)> {
        let (mut accepted, mut decisions) = (Vec::new(), Vec::new());
        for layer in (0..6).rev() {
            let levels = [11, 8, 1, 5, 2, 11][layer];
            let mut right = |level, block| Ok(table.right(&accepted, layer, level, block));
            let verdict = decide(levels, &mut right).unwrap();
            decisions.push((verdict.level, verdict.accepted));
            if verdict.accepted {
                accepted.push((layer, verdict.level));
            }
        }
        decisions
    }

    #[test]
    fn shortcuts_decide_as_the_published_steps_on_random_tables() {
        let (fast, published) = (Cell::new(0), Cell::new(0));
        let mut accepted = 0;
        for seed in 0..400 {
            let mut stream = RngKey::new(seed).stream();
            let blocks = blocks(&mut stream);
            let monotone = seed % 2 == 0;
            let delta = [0.0, 0.05, 0.2, -0.1][seed as usize / 2 % 4];
            let table = Table { key: RngKey::new(seed).fold("table"), blocks, monotone };
            let share = 60 + stream.below(40);
            let base: Vec<usize> = table.blocks.documents.iter().map(|n| n * share / 100).collect();
            let rule = Rule::new(table.blocks.clone(), &base, delta);
            let own = walk(&table, &|levels, right| {
                let verdict = decide(&rule, levels, |level, block| {
                    fast.set(fast.get() + rule.blocks.documents[block]);
                    right(level, block)
                })?;
                let all = decide_as_published(&rule, levels, right)?;
                let count = |chunk: Option<usize>| {
                    all.checks.iter().filter(|check| check.chunk == chunk).count() as u64
                };
                let (chunks, whole) = published_scores(&verdict, levels);
                assert_eq!([chunks[0], whole], [count(Some(0)), count(None)]);
                assert!((1..3).all(|chunk| chunks[chunk] <= count(Some(chunk))));
                Ok(verdict)
            });
            let other = walk(&table, &|levels, right| {
                decide_as_published(&rule, levels, |level, block| {
                    published.set(published.get() + rule.blocks.documents[block]);
                    right(level, block)
                })
            });
            assert_eq!(own, other, "seed {seed}");
            accepted += own.iter().filter(|(_, accepted)| *accepted).count();
        }
        assert!((100..2300).contains(&accepted), "{accepted} of 2400");
        let (fast, published) = (fast.get(), published.get());
        assert!(3 * fast < 2 * published, "{fast} and {published} documents");
    }

    #[test]
    fn the_bar_is_where_accuracies_compare() {
        assert_eq!(Bar::new(3, 10, 0.0).needed, 3);
        assert_eq!(Bar::new(3, 10, 0.1).needed, 2);
        // 0.8 - 0.1 is above 0.7 in double precision, as in the published code.
        assert_eq!(Bar::new(8, 10, 0.1).needed, 8);
        assert_eq!(Bar::new(10, 10, -0.1).needed, 11);
        assert_eq!(Bar::new(0, 10, 0.5).needed, 0);
    }

    #[test]
    fn a_layer_of_one_rank_stays_dense_without_a_score() {
        let blocks = Blocks { documents: vec![2, 2, 2], chunks: [0..1, 1..2, 2..3] };
        let rule = Rule::new(blocks, &[1, 1, 1], 0.0);
        let never = |_: usize, _: usize| -> Result<usize, String> { Err("scored".into()) };
        let verdict = decide(&rule, 1, never).unwrap();
        assert_eq!((verdict.level, verdict.accepted), (0, false));
        // The first error ends the decision.
        assert_eq!(decide(&rule, 3, never).unwrap_err(), "scored");
    }

    #[test]
    fn a_check_tells_how_much_it_needed() {
        let blocks = Blocks { documents: vec![2; 4], chunks: [0..2, 2..3, 3..4] };
        let rule = Rule::new(blocks, &[2, 2, 1, 1], 0.0);
        // Rank 0 fails in the first block of chunk 0, rank 1 is right everywhere.
        let right = |level: usize, _: usize| Ok::<_, Infallible>(2 * level);
        let verdict = decide(&rule, 3, right).unwrap();
        let told: Vec<_> =
            verdict.checks.iter().map(|c| (c.level, c.chunk, c.right, c.known, c.passes)).collect();
        let expected = [
            (0, Some(0), 0, 2, false),
            (1, Some(0), 4, 4, true),
            (1, Some(1), 2, 2, true),
            (1, Some(2), 2, 2, true),
            (1, None, 8, 8, true),
        ];
        assert_eq!(told, expected);
        assert!(verdict.accepted && verdict.level == 1);
    }
}
