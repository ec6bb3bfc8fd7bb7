//! Narrower models that stock runtimes load.

use crate::jobs::kit::layers::parse_layers;
use crate::jobs::kit::named::{NameList, Names};
use crate::jobs::kit::{
    Failure, Job, JobError, Name, Outcome, OutputPath, Session, bounds, flag_of,
};
use crate::jobs::language::compress::Compress;
use crate::jobs::language::compress::{self, MethodName, StoredDType};
use crate::jobs::language::evaluation::EvaluationOptions;
use crate::jobs::language::form::{EditedForms, SavedForm};
use linwright_lm::prune::{Criterion, LayerOrder, PruneSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// Structured pruning of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Prune {
    /// A checkpoint directory, `pocket` for the built-in model, or `owner/name[@revision]` on the
    /// hub.
    #[schemars(extend("x-positional" = true))]
    pub model: String,
    /// What is removed, and how it is chosen [default: width].
    #[schemars(with = "Option<Names<PruneNames>>")]
    pub method: Option<MethodName>,
    /// Share of parameters kept in the linear layers of the selected transformer layers; never
    /// more, and --dry-run shows it.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub keep: Option<f64>,
    /// Widths are multiples of this number [default: 8, or 1 if a width is at most 512].
    #[schemars(range(min = 1, max = bounds::FEATURES))]
    pub align: Option<usize>,
    /// Layers to prune: `3`, `3,5`, `0-7` [default: all].
    pub layers: Option<String>,
    /// Share of key-value heads that is kept, with their query heads (width) [default: that of the
    /// parameters, rounded down].
    #[schemars(extend("x-value" = "SHARE"))]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub heads: Option<f64>,
    /// Ridge that draws refitted weights towards the original ones, as a share of the mean second
    /// moment of a feature (width, slicegpt, modegpt) [default: what is best on held-out windows,
    /// for each layer].
    #[schemars(extend("x-value" = "SHARE"), range(min = 0.0, max = bounds::SCALE))]
    pub ridge: Option<f64>,
    /// Temperature of the division over layers by their influence; 0 gives each layer the same
    /// share (modegpt) [default: 0.3].
    #[schemars(range(min = 0.0, max = bounds::SCALE))]
    pub temperature: Option<f64>,
    /// Importance of a head or channel: by the loss to first or second order, by magnitude, or at
    /// random (llm_pruner) [default: param_first].
    #[schemars(with = "Option<Names<Criterion>>")]
    pub criterion: Option<Criterion>,
    /// Share of channels that leaves, as LLM-Pruner counts, instead of --keep (llm_pruner).
    #[schemars(range(min = 0.0, max = 1.0))]
    pub ratio: Option<f64>,
    /// Layers that lose heads (llm_pruner) [default: all].
    pub attention_layers: Option<String>,
    /// Layers that lose MLP channels (llm_pruner) [default: all].
    pub mlp_layers: Option<String>,
    /// Rank heads and channels of all layers together; layers differ then (llm_pruner).
    pub global: bool,
    /// Steps, each with new gradients (llm_pruner) [default: 1].
    #[schemars(range(min = 0, max = bounds::STEPS))]
    pub steps: Option<usize>,
    /// Examples of the calibration text for gradients (llm_pruner) [default: 10].
    #[schemars(range(min = 0, max = bounds::EXAMPLES))]
    pub examples: Option<usize>,
    /// Tokens of an example (llm_pruner) [default: 64].
    #[schemars(range(min = 0, max = bounds::POSITIONS))]
    pub example_tokens: Option<usize>,
    /// Count query heads for key-value heads as in the released code (llm_pruner).
    pub compat: bool,
    /// Refit output projections, with this ridge towards the original weights, such as 0.01
    /// (llm_pruner); width always does.
    #[schemars(extend("x-value" = "RIDGE"))]
    #[schemars(range(min = 0.0, max = bounds::SCALE))]
    pub refit: Option<f64>,
    /// Leave layers as they are narrowed, without a refit to the original outputs (slicegpt,
    /// modegpt).
    pub no_refit: bool,
    /// Which layers leave: those whose absence costs least loss, one after the other, or those that
    /// turn the residual stream least (drop_layers) [default: loss].
    #[schemars(with = "Option<Names<LayerOrder>>")]
    pub order: Option<LayerOrder>,
    /// Calibration text, as for `compress`.
    pub dataset: Option<String>,
    /// Largest number of calibration tokens.
    #[schemars(range(min = 0, max = bounds::TOKENS))]
    pub num_tokens: usize,
    /// Length of a calibration window, in tokens.
    #[schemars(range(min = 2, max = bounds::POSITIONS))]
    pub seq_len: usize,
    /// Seed of random choices, and of calibration text that is drawn.
    #[schemars(range(min = 0, max = bounds::SEED))]
    pub seed: u64,
    /// Then train the pruned layers, and nothing else, for this many steps of Adam, as `compress`
    /// does.
    #[schemars(range(min = 1, max = bounds::STEPS), extend("x-value" = "STEPS"))]
    pub recover: Option<u64>,
    /// Evaluation before and after, if any task is given; `bos` applies to calibration documents
    /// as well.
    #[serde(flatten)]
    pub evaluation: EvaluationOptions,
    /// Output directory.
    #[schemars(extend("x-short" = "o", "x-required" = true))]
    pub output: OutputPath,
    /// Form of the saved model; `auto` is the one that most runtimes load and that is no larger
    /// than necessary.
    #[schemars(with = "Names<EditedForms>")]
    pub form: SavedForm,
    /// Storage type of the weights [default: that of the model].
    #[schemars(with = "Option<Names<StoredDType>>")]
    pub dtype: Option<StoredDType>,
    /// Replace the directory if it exists.
    pub force: bool,
    /// Print what is kept, and stop.
    pub dry_run: bool,
}

impl Default for Prune {
    fn default() -> Self {
        let Compress { num_tokens, seq_len, .. } = Compress::default();
        Self {
            model: String::new(),
            method: None,
            keep: None,
            align: None,
            layers: None,
            heads: None,
            ridge: None,
            temperature: None,
            criterion: None,
            ratio: None,
            attention_layers: None,
            mlp_layers: None,
            global: false,
            steps: None,
            examples: None,
            example_tokens: None,
            compat: false,
            refit: None,
            no_refit: false,
            order: None,
            dataset: None,
            num_tokens,
            seq_len,
            seed: 0,
            recover: None,
            evaluation: EvaluationOptions::default(),
            output: OutputPath::default(),
            form: SavedForm::Auto,
            dtype: None,
            force: false,
            dry_run: false,
        }
    }
}

/// The ways of structured pruning.
struct PruneNames;

impl NameList for PruneNames {
    fn names() -> Vec<Name> {
        let methods = PruneSpec::IDS.iter().zip(PruneSpec::SUMMARIES);
        methods.map(|(id, summary)| Name::new(id).with_help(*summary)).collect()
    }
}

impl Job for Prune {
    const VERB: &'static str = "prune";
    const ABOUT: &'static str = "Remove heads, features, residual dimensions or layers, and save a \
        smaller model that stock runtimes load.\n\n\
        `linwright compress --method` knows the same methods with their default options.";
    const WRITES_MODEL: bool = true;
    const MEASURED: &'static [&'static str] = Compress::MEASURED;

    fn inputs(&self) -> Vec<PathBuf> {
        let mut inputs = vec![PathBuf::from(&self.model)];
        inputs.extend(crate::jobs::language::calibration::input_of(self.dataset.as_deref()));
        inputs.extend(self.evaluation.inputs());
        inputs
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        compress::run::run(&self.as_compress()?, self, session)
    }
}

impl Prune {
    /// The same as replacements of `compress`.
    fn as_compress(&self) -> Result<Compress, JobError> {
        let method = self.method.or_else(|| MethodName::named("width"));
        Ok(Compress {
            model: self.model.clone(),
            method,
            keep: self.keep.or(self.ratio.map(|_| 1.0)),
            align: self.align,
            layers: self.layers.clone(),
            recover: self.recover,
            dataset: self.dataset.clone(),
            num_tokens: self.num_tokens,
            seq_len: self.seq_len,
            seed: self.seed,
            evaluation: self.evaluation.clone(),
            output: self.output.clone(),
            form: self.form,
            dtype: self.dtype,
            force: self.force,
            dry_run: self.dry_run,
            pruning: Some(self.spec(method.map_or("", MethodName::name))?),
            ..Compress::default()
        })
    }

    /// The method with its options.
    fn spec(&self, id: &str) -> Result<PruneSpec, JobError> {
        if !PruneSpec::IDS.contains(&id) {
            let ids = PruneSpec::IDS.join(", ");
            return Err(JobError::new(format!("{id} does not narrow a model"))
                .hint(format!("the methods of prune are {ids}; compress has the others")));
        }
        let mut options = Map::from_iter([("method".to_owned(), json!(id))]);
        for (flag, value) in self.given()? {
            match flag {
                "attention_layers" => set(&mut options, "blocks", "attention", value),
                "mlp_layers" => set(&mut options, "blocks", "mlp", value),
                "examples" => set(&mut options, "sample", "examples", value),
                "no_refit" => {
                    options.insert("refit".to_owned(), value);
                }
                "example_tokens" => set(&mut options, "sample", "tokens", value),
                key => {
                    options.insert(key.to_owned(), value);
                }
            }
            if let Err(error) = read(&options) {
                let (flag, message) = (flag_of(flag), error.to_string());
                return Err(match message.contains("unknown field") {
                    true => JobError::new(format!("--{flag} does not go with --method {id}")),
                    false => JobError::new(format!("--{flag}: {message}")),
                });
            }
        }
        read(&options).map_err(|error| JobError::new(error.to_string()))
    }

    /// Options of methods that were given, by flag.
    fn given(&self) -> Result<Vec<(&'static str, Value)>, JobError> {
        let layers = |flag: &str, text: &Option<String>| {
            text.as_deref().map(|text| Ok(json!(parse_layers(flag, text)?))).transpose()
        };
        let options = [
            ("heads", self.heads.map(Value::from)),
            ("ridge", self.ridge.map(Value::from)),
            ("temperature", self.temperature.map(Value::from)),
            ("criterion", self.criterion.map(|criterion| json!(criterion))),
            ("ratio", self.ratio.map(Value::from)),
            ("attention_layers", layers("attention-layers", &self.attention_layers)?),
            ("mlp_layers", layers("mlp-layers", &self.mlp_layers)?),
            ("global", self.global.then_some(json!(true))),
            ("steps", self.steps.map(Value::from)),
            ("examples", self.examples.map(Value::from)),
            ("example_tokens", self.example_tokens.map(Value::from)),
            ("compat", self.compat.then_some(json!(true))),
            ("refit", self.refit.map(Value::from)),
            ("no_refit", self.no_refit.then_some(json!(false))),
            ("order", self.order.map(|order| json!(order))),
        ];
        Ok(options.into_iter().filter_map(|(flag, value)| Some((flag, value?))).collect())
    }
}

/// Sets an option of a group of options.
fn set(options: &mut Map<String, Value>, group: &str, key: &str, value: Value) {
    options.entry(group).or_insert_with(|| json!({}))[key] = value;
}

fn read(options: &Map<String, Value>) -> Result<PruneSpec, serde_json::Error> {
    serde_json::from_value(Value::Object(options.clone()))
}
