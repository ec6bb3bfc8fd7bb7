//! The page: texts with their tokens coloured by their share of a score.

use crate::jobs::attribute::{Data, Opened, Scorer, Subject, Work, shown_id};
use crate::jobs::kit::outcome::{table, text};
use crate::jobs::kit::{Failure, Session};
use linwright_attribute::{
    Examples, GradientStore, Method, Prepared, Scored, Top, gradients_by_row,
};
use linwright_ops::Differentiable;
use linwright_report::{Block, ColouredText, Document};
use linwright_run::Monitor;

/// An example of a query.
pub(super) struct Shown {
    pub(super) scored: Scored,
    /// Its tokens, each with its share of the score; none where tokens have none.
    pub(super) tokens: Vec<(String, f64)>,
}

/// A query with its examples.
pub(super) struct Query {
    pub(super) proponents: Vec<Shown>,
    pub(super) opponents: Vec<Shown>,
}

/// Inputs of the page.
pub(super) struct Page<'a> {
    pub(super) opened: &'a Opened,
    pub(super) train: &'a Data,
    pub(super) scorer: &'a Scorer<'a>,
    /// Queries whose inner products with gradients are scores.
    pub(super) prepared: Option<&'a Prepared>,
}

impl Page<'_> {
    /// The examples of each query with the shares of their tokens.
    pub(super) fn queries(
        &self,
        [best, worst]: &[Top; 2],
        session: &mut Session<'_>,
    ) -> Result<Vec<Query>, Failure> {
        session.step("shares of tokens");
        let mut queries = Vec::new();
        for (query, (best, worst)) in best.best().iter().zip(worst.best()).enumerate() {
            let of = |scored: &[Scored]| -> Result<Vec<Shown>, Failure> {
                let mut shown = Vec::new();
                for one in scored {
                    let tokens = self.tokens(query, one.index)?;
                    shown.push(Shown { scored: *one, tokens });
                }
                Ok(shown)
            };
            queries.push(Query { proponents: of(best)?, opponents: of(worst)? });
            session.progress(queries.len() as u64, self.scorer.queries.len() as u64);
        }
        Ok(queries)
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

    pub(super) fn document(&self, queries: &[Query], method: Method) -> Document {
        let count = self.opened.store.manifest().count;
        let mut blocks = Vec::new();
        for (index, query) in queries.iter().enumerate() {
            let id = shown_id(&self.scorer.queries.ids()[index]);
            let asked = self.scorer.queries.texts().map(|texts| texts.texts[index].clone());
            blocks.push(text([format!("Query {id}: {}", asked.unwrap_or_default())]));
            for (kind, examples) in
                [("Proponent", &query.proponents), ("Opponent", &query.opponents)]
            {
                blocks.extend(self.examples(kind, examples));
            }
        }
        let compressor = self.opened.store.manifest().compressor.to_string();
        Document {
            title: "Which training examples support the answers?".into(),
            kicker: "Attribution".into(),
            facts: vec![
                ("examples".into(), count.to_string()),
                ("method".into(), method.to_string()),
                ("compressor".into(), compressor),
            ],
            blocks,
            ..Document::default()
        }
    }

    fn examples(&self, kind: &str, examples: &[Shown]) -> Vec<Block> {
        let ids = &self.opened.origin.ids;
        if examples.iter().any(|shown| shown.tokens.is_empty()) {
            let row = |shown: &Shown| {
                vec![
                    shown.scored.index.to_string(),
                    shown_id(&ids[shown.scored.index]),
                    format!("{:.5}", shown.scored.score),
                ]
            };
            let kind = format!("{}s", kind.to_lowercase());
            return vec![table(&["index", &kind, "score"], examples.iter().map(row).collect())];
        }
        let coloured = |(place, shown): (usize, &Shown)| {
            let id = shown_id(&ids[shown.scored.index]);
            Block::ColouredText(ColouredText {
                title: format!(
                    "{kind} {}: example {id}, score {:.5}",
                    place + 1,
                    shown.scored.score
                ),
                note: "Blue tokens support the answer, red ones oppose it.".into(),
                pieces: shown.tokens.clone(),
            })
        };
        examples.iter().enumerate().map(coloured).collect()
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
