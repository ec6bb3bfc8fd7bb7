//! Samples of a normalizing flow.

mod result;

use self::result::FlowSamples;
use crate::jobs::flow::eval::opened_for;
use crate::jobs::flow::train::data_file;
use crate::jobs::kit::{Failure, Job, Outcome, OutputPath, Session, bounds, outputs};
use linwright_files::NpzArray;
use linwright_flow::{Flow, FlowError, OpenedFlow, SOFTWARE, Samples, picture};
use linwright_report::ReportKind;
use linwright_run::atomic::{OutputError, check_file};
use linwright_run::{Monitor, state};
use linwright_tensor::{Mat, RngKey};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::path::{Path, PathBuf};

/// First bytes of a picture, which identify the program that made it.
const START_BYTES: u64 = 4096;

/// Samples of a flow as a picture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FlowSample {
    /// A directory that `flow train` wrote.
    #[schemars(extend("x-positional" = true, "x-path" = true))]
    pub flow: PathBuf,
    /// Number of samples; of a path, its examples with both ends.
    #[schemars(range(min = 1, max = 1_000_000), extend("x-short" = "n"))]
    pub count: u64,
    /// Factor of the standard deviations of latents; zero gives the most likely latents.
    #[schemars(range(min = 0.0, max = bounds::SCALE))]
    pub temperature: f64,
    /// The path from the first to the second example of these data, instead of samples.
    #[schemars(extend("x-value" = "FILE|moons|checkerboard|circles"))]
    #[schemars(extend("x-conflicts" = ["temperature"]))]
    pub between: Option<String>,
    /// Seed of random numbers.
    #[schemars(range(min = 0, max = bounds::SEED))]
    pub seed: u64,
    /// Picture in PNG: images side by side, or a scatter plot of points in the plane.
    #[schemars(extend("x-short" = "o", "x-value" = "FILE"))]
    pub output: Option<OutputPath>,
    /// Numbers of the samples: an array (samples, height, width, channels), or (samples, numbers)
    /// of points, as `.npy`; or as text, a line for each sample, as `.csv`. A file that exists is
    /// never replaced.
    #[schemars(extend("x-value" = "FILE"))]
    pub points: Option<OutputPath>,
    /// Overwrite an existing picture.
    #[schemars(extend("x-requires" = ["output"]))]
    pub force: bool,
}

impl Default for FlowSample {
    fn default() -> Self {
        Self {
            flow: PathBuf::new(),
            count: 64,
            temperature: 1.0,
            between: None,
            seed: 0,
            output: None,
            points: None,
            force: false,
        }
    }
}

/// Whether a file is a picture of this command.
fn is_picture(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = state::open(path).and_then(|file| file.take(START_BYTES).read_to_end(&mut start));
    read.is_ok() && start.windows(SOFTWARE.len()).any(|part| part == SOFTWARE.as_bytes())
}

impl Job for FlowSample {
    const VERB: &str = "flow-sample";
    const ABOUT: &str = "Draw samples of a flow as a picture or as numbers.\n\n\
        Each sample has its own random numbers: the first ones are the same for any count. \
        With --between, the examples on a path between two are shown.";
    const OUTPUT_ENDING: &str = ".png";
    const RESULTS: &'static [ReportKind] = &[ReportKind::of::<FlowSamples>()];

    fn inputs(&self) -> Vec<PathBuf> {
        let between = self.between.as_deref().and_then(data_file);
        std::iter::once(self.flow.clone()).chain(between).collect()
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        if self.output.is_none() && self.points.is_none() {
            return Err(Failure::usage("nothing would be written")
                .hint("give --output for a picture, or --points for numbers"));
        }
        let inputs = outputs::inputs_of(self, session);
        if let Some(path) = &self.output {
            outputs::file(path, self.force, &inputs, session, is_picture)?;
        }
        if let Some(path) = &self.points {
            outputs::check_place(path, &inputs, session)?;
            check_file(path, false, |_| false).map_err(of_points)?;
            is_csv(path)?;
        }
        session.step(&format!("loading {}", self.flow.display()));
        let OpenedFlow { flow, hash } = Flow::open(&self.flow)?;
        session.step("sampling");
        let Samples { rows, redrawn } = self.samples(&flow)?;
        if redrawn > 0 {
            session.note(&format!(
                "note: {redrawn} of {} samples were not finite and were drawn again; a \
                 --temperature below {} makes fewer of them",
                self.count, self.temperature
            ));
        }
        let drawn = self.output.as_ref().map(|_| picture(flow.spec(), &rows)).transpose()?;
        session.finish();
        let mut files = Vec::new();
        if let Some((path, bytes)) = self.output.as_ref().zip(drawn) {
            files.push(outputs::prepared(path, &bytes, self.force, is_picture)?);
        }
        if let Some(path) = &self.points {
            let bytes = numbers(&flow, &rows, is_csv(path)?);
            files.push(outputs::prepared(path, &bytes, false, |_| false)?);
        }
        outputs::write_all(files)?;
        Ok(Outcome::of(FlowSamples {
            flow: session.portable(&self.flow),
            flow_sha256: hash,
            samples: rows.rows() / flow.spec().input.places(),
            redrawn,
            temperature: self.between.is_none().then_some(self.temperature),
            output: self.output.as_ref().map(|path| session.portable(path)),
            points: self.points.as_ref().map(|path| session.portable(path)),
        }))
    }
}

impl FlowSample {
    fn samples(&self, flow: &Flow) -> Result<Samples, Failure> {
        let key = RngKey::new(self.seed).fold("flow-sample");
        let Some(data) = &self.between else {
            let samples = flow.samples(0..self.count, self.temperature, key);
            return samples.map_err(|error| match error {
                FlowError::Sample { .. } if self.temperature > 0.0 => Failure::from(error).hint(
                    format!("give a --temperature below {}, or train longer", self.temperature),
                ),
                other => other.into(),
            });
        };
        let examples = opened_for(flow, data)?;
        if examples.count().is_some_and(|count| count < 2) {
            return Err(Failure::usage(format!("{data}: one example, expected two or more")));
        }
        linwright_flow::check_extent(flow, &examples)?;
        let rows = flow.between(&examples.batch(&[0, 1], key), self.count as usize)?;
        Ok(Samples { rows, redrawn: 0 })
    }
}

/// Files of numbers cannot be recognised as ours, so none are replaced, with or without --force.
fn of_points(error: OutputError) -> Failure {
    match error {
        OutputError::Exists { path } => {
            Failure::usage(format!("--points {}: the file exists already", path.display()))
                .hint("choose another name, or remove the file")
        }
        other => other.into(),
    }
}

/// Whether numbers are written as text.
fn is_csv(path: &Path) -> Result<bool, Failure> {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("csv") => Ok(true),
        Some("npy") => Ok(false),
        _ => {
            let path = path.display();
            Err(Failure::usage(format!("--points {path}: expected a name in .npy or .csv")))
        }
    }
}

/// The bytes of a file of samples.
fn numbers(flow: &Flow, rows: &Mat<f32>, csv: bool) -> Vec<u8> {
    let input = flow.spec().input;
    let samples = rows.rows() / input.places();
    if csv {
        let line = |row: &[f32]| {
            let words: Vec<String> = row.iter().map(|number| format!("{number:?}")).collect();
            words.join(",") + "\n"
        };
        return rows.data().chunks(input.numbers()).map(line).collect::<String>().into_bytes();
    }
    match flow.spec().is_image() {
        true => {
            let shape = [samples, input.height, input.width, input.channels];
            NpzArray::file_of(&shape, rows.data())
        }
        false => NpzArray::file_of(&[samples, input.channels], rows.data()),
    }
}
