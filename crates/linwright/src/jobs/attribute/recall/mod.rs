//! Whether attribution finds the documents that are known to be relevant.

mod relevance;
mod result;

use self::result::RecallMeasured;
use crate::jobs::attribute::{ExampleOptions, Opened, Scorer, ScoringOptions};
use crate::jobs::kit::named::Names;
use crate::jobs::kit::{Failure, Folding, Job, Outcome, OutputPath, Session, bounds, outputs};
use linwright_attribute::Method;
use linwright_report::ReportKind;
use linwright_run::Monitor;
use linwright_run::place::is_result;
pub(in crate::jobs) use relevance::Relevance;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Precision and recall of methods of attribution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AttributeRecall {
    /// A store that `attribute cache` wrote.
    #[schemars(extend("x-positional" = true))]
    pub store: PathBuf,
    /// Queries as rows with a list of the ids of relevant examples.
    #[schemars(extend("x-value" = "FILE", "x-path" = true, "x-required" = true))]
    pub query: String,
    /// What of the file of queries is used.
    #[serde(flatten, with = "Folding::<ExampleOptions>")]
    pub files: ExampleOptions,
    /// Field with the list of ids.
    #[schemars(extend("x-value" = "NAME"))]
    pub relevant: String,
    /// Field that divides the queries into groups, such as `band`.
    #[schemars(extend("x-value" = "NAME"))]
    pub group: Option<String>,
    /// Methods to compare; bm25 and similarity need no gradients.
    #[schemars(with = "Vec<Names<Method>>")]
    pub methods: Vec<Method>,
    /// Damping of the methods that have one: relative:D or absolute:D [default: relative:0.1].
    #[schemars(extend("x-value" = "D", "examples" = ["relative:0.1"]))]
    pub damping: Option<String>,
    /// Numbers k of best examples for precision and recall.
    #[schemars(extend("x-value" = "K"))]
    #[schemars(inner(range(min = 0, max = bounds::EXAMPLES)))]
    pub at: Vec<usize>,
    /// Also write the result as JSON to this file.
    #[schemars(extend("x-short" = "o"))]
    pub output: Option<OutputPath>,
    /// Overwrite an existing result.
    #[schemars(extend("x-requires" = ["output"]))]
    pub force: bool,
}

impl Default for AttributeRecall {
    fn default() -> Self {
        Self {
            store: PathBuf::new(),
            query: String::new(),
            files: ExampleOptions::default(),
            relevant: "relevant".into(),
            group: None,
            methods: vec![
                Method::Influence,
                Method::Relatif,
                Method::Cosine,
                Method::GradDot,
                Method::Bm25,
                Method::Similarity,
            ],
            damping: None,
            at: vec![1, 10, 50],
            output: None,
            force: false,
        }
    }
}

impl Job for AttributeRecall {
    const VERB: &str = "attribute-recall";
    const ABOUT: &str = "Measure whether methods of attribution find the training examples that are \
        known to be relevant for queries: precision and recall among the k best, compared with chance.\n\n\
        Each row of the queries has a list of ids of examples in the field `relevant`; queries \
        without any are left out. `attribute world` writes such texts and questions.";
    const OUTPUT_ENDING: &str = ".json";
    const RESULTS: &'static [ReportKind] = &[ReportKind::of::<RecallMeasured>()];

    fn inputs(&self) -> Vec<PathBuf> {
        let own = [self.store.clone(), PathBuf::from(&self.query)];
        own.into_iter().chain(self.files.inputs()).collect()
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        let Some(&most) = self.at.iter().max().filter(|_| !self.at.contains(&0)) else {
            return Err(Failure::usage("--at: expected numbers of at least 1"));
        };
        if let Some(path) = &self.output {
            let inputs = outputs::inputs_of(self, session);
            outputs::file(path, self.force, &inputs, session, is_result)?;
        }
        let opened = Opened::open(&self.store, (None, None), session)?;
        let relevance = Relevance::read(self, &opened.origin.ids)?;
        let mut results = vec![relevance.chance(&self.at)];
        for &method in &self.methods {
            let damping = self.damping.clone().filter(|_| method.is_damped());
            let plan =
                ScoringOptions { query: self.query.clone(), method, damping, ..Default::default() };
            plan.check()?;
            let scorer = Scorer::new((&plan, &self.files), &opened, session)?;
            let [best, _] = scorer.best(most, session).map_err(Failure::not_resumable)?;
            results.extend(relevance.of(method.name(), &best, &self.at));
        }
        session.finish();
        let manifest = opened.store.manifest();
        let result = RecallMeasured {
            store: session.portable(&self.store),
            query: session.portable(&self.query),
            compressor: manifest.compressor,
            examples: manifest.count,
            queries: relevance.queries(),
            without_relevant: relevance.without(),
            results,
        };
        if let Some(path) = &self.output {
            outputs::write_report(path, &result, self.force)?;
            session.note(&format!("wrote {}", path.display()));
        }
        Ok(Outcome::of(result))
    }
}
