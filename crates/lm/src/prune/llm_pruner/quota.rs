//! How many groups of heads and channels are kept, and which.

use super::Blocks;
use super::salience::most_important;
use crate::prune::branches::{Branch, Part};
use crate::prune::{Cut, PruneError};
use linwright_model::Transformer;
use linwright_ops::Sites;

/// Branches to be pruned, and the size that their model is to have.
#[derive(Debug)]
pub(super) struct Quota {
    /// Branches that lose groups.
    pub(super) branches: Vec<Branch>,
    /// Multiple of the channels that each keeps.
    aligned: Vec<usize>,
    head_dim: usize,
    /// Parameters of all linear layers of the cut's layers.
    dense: usize,
    size: Target,
    keep: f64,
}

/// The size.
#[derive(Clone, Copy, Debug)]
enum Target {
    /// Share of groups that leaves.
    Ratio(f64),
    /// Most parameters, of [`Quota::dense`].
    Parameters(usize),
}

/// Shares of groups that leave.
#[derive(Clone, Copy, Debug)]
struct Gone {
    attention: f64,
    mlp: f64,
}

impl Quota {
    /// The branches of a cut in these blocks. Heads stay where a norm spans several.
    pub(super) fn new(model: &Transformer, cut: &Cut, blocks: &Blocks, ratio: Option<f64>) -> Self {
        let separate = model.config().heads_can_leave();
        let is_in = |layers: &Option<Vec<usize>>, layer: usize| {
            layers.as_ref().is_none_or(|layers| layers.contains(&layer))
        };
        let mut branches = Branch::all(model, cut);
        branches.retain(|branch| match branch.part {
            Part::Attention => separate && is_in(&blocks.attention, branch.layer),
            Part::Mlp => is_in(&blocks.mlp, branch.layer),
        });
        let slots = model.slots().into_iter();
        let slots = slots.filter(|slot| slot.layer().is_some_and(|layer| cut.has(layer)));
        let dense: usize = slots.map(|slot| slot.shape().dense_parameters()).sum();
        let size = match ratio {
            Some(ratio) => Target::Ratio(ratio),
            // A share of a whole number of parameters may be rounded down in f64.
            None => Target::Parameters((cut.keep * dense as f64 + 1e-6) as usize),
        };
        let align = |branch: &Branch| match (branch.part, size) {
            (Part::Attention, _) => 1,
            (Part::Mlp, Target::Ratio(_)) => cut.align.unwrap_or(1).clamp(1, branch.groups),
            (Part::Mlp, Target::Parameters(_)) => {
                cut.alignment(branch.groups).clamp(1, branch.groups)
            }
        };
        let aligned = branches.iter().map(align).collect();
        Self { branches, aligned, head_dim: model.config().head_dim, dense, size, keep: cut.keep }
    }

    /// Groups that each branch keeps after `step` of `steps`, where every branch loses the same
    /// share.
    ///
    /// # Errors
    /// [`PruneError::TooSmall`].
    pub(super) fn local(&self, step: usize, steps: usize) -> Result<Vec<usize>, PruneError> {
        let gone = match self.size {
            Target::Ratio(ratio) => Gone { attention: ratio, mlp: ratio },
            Target::Parameters(most) => self.least_gone(most)?,
        };
        let part = step as f64 / steps as f64;
        Ok(self.counts(Gone { attention: part * gone.attention, mlp: part * gone.mlp }))
    }

    /// The most important groups of each branch, given the importance of those that are left.
    pub(super) fn pick_local(
        &self,
        importance: &[Vec<f64>],
        step: usize,
        steps: usize,
    ) -> Result<Vec<Vec<usize>>, PruneError> {
        let counts = self.local(step, steps)?;
        Ok(importance.iter().zip(counts).map(|(of, count)| most_important(of, count)).collect())
    }

    /// The most important groups of all branches together, given the importance of those that are
    /// left: all above one threshold.
    ///
    /// # Errors
    /// [`PruneError::TooSmall`].
    pub(super) fn pick_global(
        &self,
        importance: &[Vec<f64>],
        step: usize,
        steps: usize,
    ) -> Result<Vec<Vec<usize>>, PruneError> {
        let least = self.counts(Gone { attention: 1.0, mlp: 1.0 });
        // The most important groups of a branch stay, whatever the threshold.
        let fixed: Vec<Vec<usize>> =
            importance.iter().zip(&least).map(|(of, &count)| most_important(of, count)).collect();
        let mut order: Vec<(f64, usize, usize)> = Vec::new();
        for (at, of) in importance.iter().enumerate() {
            order.extend(of.iter().enumerate().map(|(group, &value)| (value, at, group)));
        }
        order.sort_by(|a, b| a.0.total_cmp(&b.0));
        let part = step as f64 / steps as f64;
        let mut counts: Vec<usize> = importance.iter().map(Vec::len).collect();
        let free = |at: usize, group: usize| fixed[at].binary_search(&group).is_err();
        match self.size {
            Target::Ratio(ratio) => {
                let all: usize = self.branches.iter().map(|branch| branch.groups).sum();
                let leaving = order.len().saturating_sub(kept_channels(all, part * ratio));
                let threshold = leaving.checked_sub(1).map(|last| order[last].0);
                let below = |value: f64| threshold.is_some_and(|threshold| value <= threshold);
                for &(value, at, group) in &order {
                    counts[at] -= usize::from(below(value) && free(at, group));
                }
            }
            Target::Parameters(most) => {
                let most = self.dense - (part * (self.dense - most) as f64).floor() as usize;
                if self.parameters(&least) > most {
                    return Err(self.too_small());
                }
                let mut now = self.parameters(&counts);
                for &(_, at, group) in &order {
                    if now <= most {
                        break;
                    }
                    if free(at, group) {
                        counts[at] -= 1;
                        now -= self.branches[at].parameters() / self.branches[at].groups;
                    }
                }
            }
        }
        let kept = importance.iter().zip(&counts).enumerate().map(|(at, (of, &count))| {
            let whole = count == self.branches[at].groups;
            let aligned = if whole { count } else { count / self.aligned[at] * self.aligned[at] };
            most_important(of, aligned.max(least[at].min(of.len())))
        });
        Ok(kept.collect())
    }

    /// Groups that each branch keeps if it loses these shares. Channels are counted, and heads
    /// leave whole: as many as fit into the leaving channels.
    fn counts(&self, gone: Gone) -> Vec<usize> {
        let of = |(branch, &align): (&Branch, &usize)| match branch.part {
            Part::Attention => kept_heads(branch.groups, self.head_dim, gone.attention).max(1),
            Part::Mlp => match kept_channels(branch.groups, gone.mlp) {
                kept if kept == branch.groups => kept,
                kept => (kept / align * align).max(align),
            },
        };
        self.branches.iter().zip(&self.aligned).map(of).collect()
    }

    /// The least shares to lose for at most so many parameters: the same for heads and channels,
    /// then fewer channels, as long as they fit.
    fn least_gone(&self, most: usize) -> Result<Gone, PruneError> {
        let fits = |gone: Gone| self.parameters(&self.counts(gone)) <= most;
        let both = |gone: f64| Gone { attention: gone, mlp: gone };
        if !fits(both(1.0)) {
            return Err(self.too_small());
        }
        let attention = least(1.0, |gone| fits(both(gone)));
        Ok(Gone { attention, mlp: least(attention, |mlp| fits(Gone { attention, mlp })) })
    }

    fn too_small(&self) -> PruneError {
        let dense = self.dense as f64;
        let least = self.counts(Gone { attention: 1.0, mlp: 1.0 });
        PruneError::TooSmall {
            method: "llm_pruner",
            keep: self.keep,
            least: self.parameters(&least) as f64 / dense,
        }
    }

    /// Parameters of the cut's layers if the branches keep so many groups.
    fn parameters(&self, kept: &[usize]) -> usize {
        let gone = |(branch, kept): (&Branch, &usize)| {
            branch.parameters() / branch.groups * (branch.groups - kept)
        };
        self.dense - self.branches.iter().zip(kept).map(gone).sum::<usize>()
    }
}

/// Channels that LLM-Pruner keeps if this share leaves, in f64 as its code computes them.
#[must_use]
pub fn kept_channels(channels: usize, ratio: f64) -> usize {
    (channels as f64 * (1.0 - ratio)) as usize
}

/// Heads of `size` channels that LLM-Pruner keeps if this share of the channels leaves: as many
/// leave as fit whole into the leaving channels.
#[must_use]
pub fn kept_heads(heads: usize, size: usize, ratio: f64) -> usize {
    kept_channels(heads * size, ratio).div_ceil(size)
}

/// The least share up to `above`, which fits, that fits, where larger ones fit if it does.
fn least(above: f64, fits: impl Fn(f64) -> bool) -> f64 {
    if fits(0.0) {
        return 0.0;
    }
    let (mut below, mut above) = (0.0, above);
    for _ in 0..60 {
        let middle = 0.5 * (below + above);
        if fits(middle) { above = middle } else { below = middle }
    }
    above
}
