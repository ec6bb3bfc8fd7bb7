//! Shares of tokens in scores.

use super::result::ShownExample;
use crate::jobs::attribute::{Data, Opened, ScoredExample, Scorer, Subject, Work};
use crate::jobs::kit::{Failure, Session};
use linwright_attribute::{Examples, GradientStore, Prepared, Scored, Top, gradients_by_row};
use linwright_ops::Differentiable;
use linwright_run::Monitor;

/// What the shares of tokens are computed from.
pub(super) struct Page<'a> {
    pub(super) opened: &'a Opened,
    pub(super) train: &'a Data,
    pub(super) scorer: &'a Scorer<'a>,
    /// Queries whose inner products with gradients are scores.
    pub(super) prepared: Option<&'a Prepared>,
}

impl Page<'_> {
    /// Proponents and opponents of each query with the shares of their tokens.
    pub(super) fn examples(
        &self,
        [best, worst]: &[Top; 2],
        session: &mut Session<'_>,
    ) -> Result<[Vec<Vec<ShownExample>>; 2], Failure> {
        session.step("shares of tokens");
        let [mut proponents, mut opponents] = [Vec::new(), Vec::new()];
        for (query, (best, worst)) in best.best().iter().zip(worst.best()).enumerate() {
            let of = |all: &[Scored]| all.iter().map(|one| self.shown(query, one)).collect();
            let (best, worst): (Result<_, Failure>, Result<_, Failure>) = (of(best), of(worst));
            proponents.push(best?);
            opponents.push(worst?);
            session.progress(proponents.len() as u64, self.scorer.queries.len() as u64);
        }
        Ok([proponents, opponents])
    }

    fn shown(&self, query: usize, scored: &Scored) -> Result<ShownExample, Failure> {
        let tokens = self.tokens(query, scored.index)?;
        Ok(ShownExample { example: ScoredExample::of(scored, &self.opened.origin.ids), tokens })
    }

    /// The tokens of a training text with their shares.
    fn tokens(&self, query: usize, example: usize) -> Result<Vec<(String, f64)>, Failure> {
        let (Some(prepared), Subject::Text(model)) = (self.prepared, &self.opened.subject) else {
            return Ok(Vec::new());
        };
        let store = &self.opened.store;
        let shares =
            self.opened.subject.with(self.train, Shares { store, prepared, query, example })?;
        let tokenizer = model.tokenizer()?;
        let Some(texts) = self.train.texts() else { return Ok(Vec::new()) };
        let tokens = &texts.documents.tokens()[example];
        let piece = |&token: &u32| {
            let found = tokenizer.decode(&[token], false);
            found.map_err(|error| Failure::general(error.to_string()))
        };
        let pieces = tokens.iter().map(piece).collect::<Result<Vec<_>, _>>()?;
        Ok(pieces.into_iter().zip(shares).collect())
    }
}

/// The share of every token of an example in its score for a query.
struct Shares<'a> {
    store: &'a GradientStore,
    prepared: &'a Prepared,
    query: usize,
    example: usize,
}

impl Work for Shares<'_> {
    type Output = Vec<f64>;

    fn run<N: Differentiable>(
        self,
        network: &N,
        examples: &dyn Examples<N::Input>,
    ) -> Result<Vec<f64>, Failure> {
        let map = self.store.map(network)?;
        let batch = examples.batch(self.example..self.example + 1);
        let objective = self.store.manifest().objective();
        let rows = gradients_by_row(network, &map, &batch, objective, self.example)?;
        let query = self.prepared.queries().row(self.query);
        let share = |row: usize| -> f64 {
            rows.row(row).iter().zip(query).map(|(a, b)| f64::from(*a) * b).sum()
        };
        Ok((0..rows.rows()).map(share).collect())
    }
}
