//! Lists of the best training examples for all queries, for training without them.

mod result;

use self::result::BestLists;
use crate::jobs::attribute::recall::{AttributeRecall, Relevance};
use crate::jobs::attribute::{ExampleOptions, Opened, Scorer, ScoringOptions};
use crate::jobs::kit::named::Names;
use crate::jobs::kit::{Failure, Folding, Job, Outcome, OutputPath, Session, bounds, outputs};
use linwright_attribute::{Method, Scored};
use linwright_report::ReportKind;
use linwright_run::Monitor;
use linwright_run::atomic::AtomicDir;
use linwright_tensor::RngKey;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Lists of the best training examples of all queries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AttributeBest {
    /// A store that `attribute cache` wrote.
    #[schemars(extend("x-positional" = true))]
    pub store: PathBuf,
    /// Queries: texts, rows with `prompt` and `completion`, or labelled images.
    #[schemars(extend("x-value" = "FILE", "x-path" = true, "x-required" = true))]
    pub query: String,
    /// How the file of queries is read.
    #[serde(flatten, with = "Folding::<ExampleOptions>")]
    pub files: ExampleOptions,
    /// Methods; each writes a list.
    #[schemars(with = "Vec<Names<Method>>")]
    pub methods: Vec<Method>,
    /// Damping of the methods that have one: relative:D or absolute:D [default: relative:0.1].
    #[schemars(extend("x-value" = "D", "examples" = ["relative:0.1"]))]
    pub damping: Option<String>,
    /// Number of examples for each query.
    #[schemars(range(min = 1, max = bounds::EXAMPLES), extend("x-value" = "N"))]
    pub count: usize,
    /// Field with a list of ids of relevant examples; these are written as a list as well.
    #[schemars(extend("x-value" = "NAME"))]
    pub relevant: Option<String>,
    /// Seed of the list of random examples.
    #[schemars(range(min = 0, max = bounds::SEED))]
    pub seed: u64,
    /// Directory of the lists.
    #[schemars(extend("x-short" = "o", "x-required" = true))]
    pub output: OutputPath,
    /// Replace the directory if it exists.
    pub force: bool,
}

impl Default for AttributeBest {
    fn default() -> Self {
        Self {
            store: PathBuf::new(),
            query: String::new(),
            files: ExampleOptions::default(),
            methods: vec![Method::Influence, Method::Bm25],
            damping: None,
            count: 10,
            relevant: None,
            seed: 0,
            output: OutputPath::default(),
            force: false,
        }
    }
}

impl Job for AttributeBest {
    const VERB: &str = "attribute-best";
    const ABOUT: &str = "List the best training examples for all queries by method, and the same \
        number of random ones: what does a model not learn when it is trained without them?\n\n\
        Each METHOD.txt has the indices of the best examples of each query, a line each; \
        random.txt has as many as the longest of them. `train-lm --without FILE` reads these \
        files.";
    const RESULTS: &'static [ReportKind] = &[ReportKind::of::<BestLists>()];

    fn inputs(&self) -> Vec<PathBuf> {
        let own = [self.store.clone(), PathBuf::from(&self.query)];
        own.into_iter().chain(self.files.inputs()).collect()
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        if self.methods.is_empty() {
            return Err(Failure::usage("no method is given").hint("give --methods influence,bm25"));
        }
        outputs::directory(&self.output, self.force, &outputs::inputs_of(self, session), session)?;
        let opened = Opened::open(&self.store, (None, None), session)?;
        let mut lists: Vec<(String, BTreeSet<usize>)> = Vec::new();
        for &method in &self.methods {
            let damping = self.damping.clone().filter(|_| method.is_damped());
            let plan =
                ScoringOptions { query: self.query.clone(), method, damping, ..Default::default() };
            plan.check()?;
            let scorer = Scorer::new((&plan, &self.files), &opened, session)?;
            let [best, _] = scorer.best(self.count, session).map_err(Failure::not_resumable)?;
            let all = best.best().iter().flatten().map(|Scored { index, .. }| *index);
            lists.push((method.name().into(), all.collect()));
        }
        let longest = lists.iter().map(|(_, list)| list.len()).max().unwrap_or(0);
        let key = RngKey::new(self.seed).fold("attribute best");
        let order = key.stream().permutation(opened.store.manifest().count);
        lists.push(("random".into(), order[..longest].iter().map(|at| *at as usize).collect()));
        if let Some(field) = &self.relevant {
            let (query, files) = (self.query.clone(), self.files.clone());
            let asked =
                AttributeRecall { query, files, relevant: field.clone(), ..Default::default() };
            let relevance = Relevance::read(&asked, &opened.origin.ids)?;
            lists.push(("relevant".into(), relevance.relevant()));
        }
        let mut directory = AtomicDir::create(&self.output, self.force)?;
        for (name, list) in &lists {
            directory.write(&format!("{name}.txt"), |out| {
                list.iter().try_for_each(|index| writeln!(out, "{index}"))
            })?;
        }
        directory.commit()?;
        session.finish();
        session.note(&format!("wrote {}", self.output.display()));
        Ok(Outcome::of(BestLists {
            output: session.portable(&self.output),
            store: session.portable(&self.store),
            query: session.portable(&self.query),
            compressor: opened.store.manifest().compressor,
            examples: opened.store.manifest().count,
            examples_of_a_query: self.count,
            lists: lists.into_iter().map(|(name, list)| (name, list.len())).collect(),
        }))
    }
}
