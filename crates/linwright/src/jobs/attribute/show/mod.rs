//! A page of queries with their proponents and opponents among the training examples.

mod page;
mod result;

use self::page::Page;
use self::result::ExamplesShown;
use crate::jobs::attribute::{Data, ExampleOptions, Opened, Scorer, ScoringOptions};
use crate::jobs::kit::{Failure, Folding, Job, Outcome, OutputPath, Session, bounds, outputs};
use linwright_attribute::Method;
use linwright_report::{ReportKind, html};
use linwright_run::Monitor;
use linwright_run::place::is_page;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Queries with their proponents and opponents, token by token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AttributeShow {
    /// A store that `attribute cache` wrote.
    #[schemars(extend("x-positional" = true))]
    pub store: PathBuf,
    /// How examples are scored, and for what.
    #[serde(flatten)]
    pub scoring: ScoringOptions,
    /// What of the file of queries is used.
    #[serde(flatten, with = "Folding::<ExampleOptions>")]
    pub files: ExampleOptions,
    /// Show the N best and the N worst examples for each query.
    #[schemars(range(min = 1, max = bounds::EXAMPLES), extend("x-value" = "N", "x-short" = "n"))]
    pub top: usize,
    /// Write an HTML page with coloured texts.
    #[schemars(extend("x-value" = "FILE"))]
    pub html: Option<OutputPath>,
    /// Overwrite an existing page.
    #[schemars(extend("x-requires" = ["html"]))]
    pub force: bool,
}

impl Default for AttributeShow {
    fn default() -> Self {
        Self {
            store: PathBuf::new(),
            scoring: ScoringOptions::default(),
            files: ExampleOptions::default(),
            top: 3,
            html: None,
            force: false,
        }
    }
}

impl Job for AttributeShow {
    const VERB: &str = "attribute-show";
    const ABOUT: &str = "Show queries with the training examples that most support and oppose the \
        answer of the model.\n\n\
        Each token of an example is coloured by its share of the score: blue supports the answer, \
        red opposes it. The share of a token is that of the gradient at its position in the text, \
        after the model has read up to this token.";
    const RESULTS: &'static [ReportKind] = &[ReportKind::of::<ExamplesShown>()];

    fn inputs(&self) -> Vec<PathBuf> {
        let own = std::iter::once(self.store.clone());
        own.chain(self.scoring.inputs()).chain(self.files.inputs()).collect()
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        self.scoring.check()?;
        self.files.check(&self.scoring.query)?;
        if let Some(path) = &self.html {
            let inputs = outputs::inputs_of(self, session);
            outputs::file(path, self.force, &inputs, session, is_page)?;
        }
        let moved = (self.scoring.model.as_deref(), self.scoring.train.as_deref());
        let opened = Opened::open(&self.store, moved, session)?;
        let train = opened.train(session)?;
        let scorer = Scorer::new((&self.scoring, &self.files), &opened, session)?;
        let best = scorer.best(self.top, session).map_err(Failure::not_resumable)?;
        // One checkpoint has the gradients of a token; a method without gradients has none.
        let has_tokens = self.scoring.method.has_gradients()
            && self.scoring.method != Method::Trak
            && self.scoring.checkpoints.is_empty()
            && matches!(train, Data::Texts(_));
        let prepared = match has_tokens {
            true => Some(scorer.prepare(session).map_err(Failure::not_resumable)?),
            false => None,
        };
        let page = Page { opened: &opened, train: &train, scorer: &scorer, prepared };
        let examples = page.examples(&best, session).map_err(Failure::not_resumable)?;
        session.finish();
        let [results, opponents] = examples;
        let outcome = Outcome::of(ExamplesShown {
            store: session.portable(&self.store),
            method: self.scoring.method,
            compressor: opened.store.manifest().compressor,
            examples: opened.store.manifest().count,
            query_ids: scorer.queries.ids().to_vec(),
            query_texts: scorer.queries.texts().map(|texts| texts.texts.clone()),
            results,
            opponents,
        });
        if let Some(path) = &self.html {
            let page = html::render(&outcome.report)?;
            outputs::write(path, page.as_bytes(), self.force, is_page)?;
            session.note(&format!("wrote {}", path.display()));
        }
        Ok(outcome)
    }
}
