//! Densities of data under a normalizing flow.

mod result;

use self::result::FlowDensities;
use crate::jobs::flow::train::data_file;
use crate::jobs::kit::{Failure, Job, Outcome, OutputPath, Session, bounds, outputs, room};
use linwright_flow::{Flow, FlowExamples, OpenedFlow, score_flow};
use linwright_report::ReportKind;
use linwright_run::Monitor;
use linwright_run::place::is_result;
use linwright_tensor::RngKey;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Bytes of the index and the density of an example.
const EXAMPLE_BYTES: u64 = 12;
/// Points of a density, if no number is given.
const POINTS: usize = 10_000;

/// A normalizing flow scored on images or points.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FlowEval {
    /// A directory that `flow train` wrote.
    #[schemars(extend("x-positional" = true, "x-path" = true))]
    pub flow: PathBuf,
    /// The data, as for `flow train`; images are resized to those of the flow.
    #[schemars(extend("x-value" = "FILE|moons|checkerboard|circles", "x-required" = true))]
    pub data: String,
    /// Use only the first N examples, or N generated points [default: all, 10,000 points].
    #[schemars(range(min = 1, max = bounds::EXAMPLES), extend("x-short" = "L"))]
    pub limit: Option<usize>,
    /// Draws of the dequantisation noise; the standard error of the bits is over these draws.
    #[schemars(range(min = 1, max = 10_000))]
    pub draws: usize,
    /// Seed of the noise and of generated points.
    #[schemars(range(min = 0, max = bounds::SEED))]
    pub seed: u64,
    /// Also write the result as JSON to this file.
    #[schemars(extend("x-short" = "o"))]
    pub output: Option<OutputPath>,
    /// Overwrite an existing result.
    #[schemars(extend("x-requires" = ["output"]))]
    pub force: bool,
}

impl Default for FlowEval {
    fn default() -> Self {
        Self {
            flow: PathBuf::new(),
            data: String::new(),
            limit: None,
            draws: 4,
            seed: 0,
            output: None,
            force: false,
        }
    }
}

impl Job for FlowEval {
    const VERB: &str = "flow-eval";
    const ABOUT: &str = "Measure bits per dimension of images or points under a flow.\n\n\
        Intensities v of 0 to 255 become numbers by noise u of [0, 1), (v + u) / 256 - 0.5; the \
        standard error of the bits is that over draws of this noise. Of numbers in any units it is \
        that over examples.";
    const OUTPUT_ENDING: &str = ".json";
    const RESULTS: &'static [ReportKind] = &[ReportKind::of::<FlowDensities>()];

    fn inputs(&self) -> Vec<PathBuf> {
        std::iter::once(self.flow.clone()).chain(data_file(&self.data)).collect()
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        if let Some(path) = &self.output {
            let inputs = outputs::inputs_of(self, session);
            outputs::file(path, self.force, &inputs, session, is_result)?;
        }
        session.step(&format!("loading {}", self.flow.display()));
        let OpenedFlow { flow, hash } = Flow::open(&self.flow)?;
        session.step("reading the data");
        let examples = opened_for(&flow, &self.data)?;
        examples.notes().iter().for_each(|note| session.note(note));
        let all = examples.count().unwrap_or(POINTS.max(self.limit.unwrap_or(0)));
        let most = if examples.count().is_some() { all } else { self.limit.unwrap_or(POINTS) };
        let count = all.min(most).min(self.limit.unwrap_or(most)).min(u32::MAX as usize);
        let what = || format!("the densities of {count} examples");
        room::ensure(what, &[count as u64, EXAMPLE_BYTES], "give a smaller --limit")?;
        let indices: Vec<u32> = (0..count as u32).collect();
        session.step("evaluating");
        let key = RngKey::new(self.seed).fold("flow-eval");
        let scores = score_flow(&flow, &examples, &indices, (self.draws, key), session)?;
        let norms = flow.norms()?;
        session.finish();
        let result = FlowDensities {
            flow: session.portable(&self.flow),
            flow_sha256: hash,
            layer: flow.spec().layer.clone(),
            parameters: flow.parameters(),
            mixing_parameters: flow.mixing_parameters(),
            data: session.portable(Path::new(&self.data)),
            data_sha256: examples.sha256().to_owned(),
            changes: examples.notes().to_vec(),
            scores,
            dimensions: flow.spec().input.numbers(),
            entropy: examples.entropy(),
            mixes: norms,
        };
        if let Some(path) = &self.output {
            outputs::write_report(path, &result, self.force)?;
            session.note(&format!("wrote {}", path.display()));
        }
        Ok(Outcome::of(result))
    }
}

/// Data in the extent of a flow.
pub(in crate::jobs) fn opened_for(flow: &Flow, data: &str) -> Result<FlowExamples, Failure> {
    let input = flow.spec().input;
    let size = flow.spec().is_image().then_some([input.height, input.width]);
    Ok(FlowExamples::open(data, size)?)
}
