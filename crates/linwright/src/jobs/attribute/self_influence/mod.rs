//! The influence of training examples on themselves.

mod result;

use self::result::SelfInfluence;
use crate::jobs::attribute::{ScoredExample, damping_of, described};
use crate::jobs::kit::{Failure, Job, Outcome, OutputPath, Session, bounds, outputs};
use linwright_attribute::{Attribution, Top, detection_area};
use linwright_data::Indices;
use linwright_report::ReportKind;
use linwright_run::place::is_result;
use linwright_run::{Monitor, shown};
use linwright_tensor::Mat;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Self-influence of cached training examples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AttributeSelf {
    /// A store that `attribute cache` wrote.
    #[schemars(extend("x-positional" = true))]
    pub store: PathBuf,
    /// Damping of the curvature: relative:D, D times its mean, or absolute:D [default:
    /// relative:0.1].
    #[schemars(extend("x-value" = "D", "examples" = ["relative:0.1"]))]
    pub damping: Option<String>,
    /// Indices of examples that are known to be wrong, such as `3,7-9`: report how well
    /// self-influence finds them, as the area under the curve.
    #[schemars(extend("x-value" = "LIST", "examples" = ["0-1"]))]
    pub wrong: Option<String>,
    /// Show the N examples with the most influence on themselves.
    #[schemars(range(min = 1, max = bounds::EXAMPLES), extend("x-value" = "N", "x-short" = "n"))]
    pub top: usize,
    /// Also write the result as JSON to this file.
    #[schemars(extend("x-short" = "o"))]
    pub output: Option<OutputPath>,
    /// Overwrite an existing result.
    #[schemars(extend("x-requires" = ["output"]))]
    pub force: bool,
}

impl Default for AttributeSelf {
    fn default() -> Self {
        Self {
            store: PathBuf::new(),
            damping: None,
            wrong: None,
            top: 20,
            output: None,
            force: false,
        }
    }
}

impl Job for AttributeSelf {
    const VERB: &str = "attribute-self";
    const ABOUT: &str = "Measure the influence of each cached training example on itself.\n\n\
        Examples that a model memorised, such as wrong labels and rare texts, have much of it. --json \
        has `results`, the examples with most, and `scores`, that of every example.";
    const OUTPUT_ENDING: &str = ".json";
    const RESULTS: &'static [ReportKind] = &[ReportKind::of::<SelfInfluence>()];

    fn inputs(&self) -> Vec<PathBuf> {
        vec![self.store.clone()]
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        let damping = damping_of(self.damping.as_deref())?;
        if let Some(path) = &self.output {
            let inputs = outputs::inputs_of(self, session);
            outputs::file(path, self.force, &inputs, session, is_result)?;
        }
        let (store, origin) = described(&self.store)?;
        let scores = Attribution::open(&store)?.self_influence(damping, session);
        let scores = scores.map_err(|error| Failure::from(error).not_resumable())?;
        session.finish();
        let area = self.wrong.as_deref().map(|list| area(list, &scores)).transpose()?;
        let mut top = Top::largest(1, self.top);
        top.add(0, &Mat::from_vec(scores.len(), 1, scores.clone()));
        let best = top.best()[0].iter();
        let result = SelfInfluence {
            store: session.portable(&self.store),
            damping,
            examples: scores.len(),
            detection_area: area,
            results: best.map(|scored| ScoredExample::of(scored, &origin.ids)).collect(),
            scores,
        };
        if let Some(path) = &self.output {
            outputs::write_report(path, &result, self.force)?;
            session.note(&format!("wrote {}", path.display()));
        }
        Ok(Outcome::of(result))
    }
}

/// How well scores find the examples of a list.
fn area(list: &str, scores: &[f64]) -> Result<f64, Failure> {
    let refused = |why: String| Failure::usage(format!("--wrong {}: {why}", shown(list)));
    let indices = Indices::parse(list).map_err(refused)?;
    if indices.last() >= scores.len() {
        let (last, count) = (indices.last(), scores.len());
        return Err(refused(format!("there is no example {last}: there are {count}, from zero")));
    }
    let is_wrong: Vec<bool> = (0..scores.len()).map(|index| indices.contains(index)).collect();
    detection_area(scores, &is_wrong).ok_or_else(|| refused("every example is wrong".into()))
}
