//! Networks that are trained on parts of the examples, and their margins, a file each.

use super::AttributeLds;
use crate::jobs::kit::training::{Forward, advised};
use crate::jobs::kit::{Failure, FailureKind, Session, room};
use linwright_attribute::{Classified, Objective, Reduction, Target, values};
use linwright_data::Indices;
use linwright_nets::{Labelled, Net, NetSpec, NetTraining, TrainingPlan};
use linwright_run::{Checked, Fingerprint, Monitor, shown, shown_reason, state};
use linwright_tensor::{Mat, RngKey};
use linwright_train::train;
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

const PLAN: &str = "plan.json";
const PARTS: &str = "parts";
/// Longest file of a part, in bytes.
const MAX_BYTES: u64 = 1 << 28;

/// Training data of the networks of a directory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Plan {
    fingerprint: Fingerprint,
}

/// The examples of one part, and the margins of the queries of its networks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    part: usize,
    examples: Vec<usize>,
    margins: Vec<f64>,
}

/// The retraining of networks on parts.
pub(super) struct Retraining<'a> {
    pub(super) job: &'a AttributeLds,
    pub(super) spec: NetSpec,
    pub(super) examples: &'a Labelled,
    pub(super) queries: &'a Labelled,
    /// Identifies network, examples and queries.
    pub(super) identity: String,
}

impl Retraining<'_> {
    fn key(&self) -> RngKey {
        RngKey::new(self.job.seed).fold("lds")
    }

    /// The examples of each part, ascending.
    ///
    /// # Errors
    /// [`Failure`] for a list of examples that there are not.
    pub(super) fn parts(&self) -> Result<Vec<Vec<usize>>, Failure> {
        let count = self.examples.len();
        if let Some(list) = &self.job.leave_out {
            let wrong = |why: String| Failure::usage(format!("--leave-out {}: {why}", shown(list)));
            let indices = Indices::parse(list).map_err(wrong)?;
            if indices.last() >= count {
                let last = indices.last();
                let why = format!("there is no example {last}: there are {count}, from zero");
                return Err(wrong(why));
            }
            let chosen: Vec<usize> = (0..count).filter(|&index| indices.contains(index)).collect();
            if chosen.len() < 2 {
                return Err(wrong("a correlation needs at least two".into()));
            }
            let without = |out: &usize| (0..count).filter(|index| index != out).collect();
            return Ok(chosen.iter().map(without).collect());
        }
        let size = ((count as f64 * self.job.share).round() as usize).clamp(1, count);
        let subsets = self.job.subsets as u64;
        let what = || format!("{subsets} subsets of {size} examples");
        let factors = [subsets, size as u64, size_of::<usize>() as u64];
        room::ensure(what, &factors, "give fewer --subsets or a smaller --share")?;
        let part = |index: usize| {
            let order = self.key().fold("part").fold_index(index as u64).stream();
            let order = { order }.permutation(count);
            let mut part: Vec<usize> = order[..size].iter().map(|at| *at as usize).collect();
            part.sort_unstable();
            part
        };
        Ok((0..self.job.subsets).map(part).collect())
    }

    /// Checks that the directory belongs to this job, or creates it.
    fn begin(&self, parts: &[Vec<usize>]) -> Result<(), Failure> {
        let job = self.job;
        let parts = (!job.remove.is_empty()).then_some(parts);
        let plan = Plan {
            fingerprint: Fingerprint::of(&[
                ("identity", &self.identity),
                ("subsets", &job.subsets),
                ("share", &job.share),
                ("leave out", &job.leave_out),
                ("removed", &parts),
                ("repeats", &job.repeats),
                ("training", &job.training),
                ("seed", &job.seed),
            ]),
        };
        let path = job.output.join(PLAN);
        let shown = job.output.display();
        if state::exists(&path) {
            let found: Plan = read(&path)?;
            return match found == plan {
                true => Ok(()),
                false => Err(Failure::new(
                    FailureKind::Fingerprint,
                    format!("{shown} holds networks of another store, of other queries or another training"),
                )
                .hint("choose another directory")),
            };
        }
        // Other processes may begin here at the same time.
        let is_ours = |name: &OsStr| {
            name == PARTS || name == PLAN || name.to_string_lossy().starts_with(".plan.json.")
        };
        let entries = std::fs::read_dir(&job.output).into_iter().flatten().flatten();
        if entries.map(|entry| entry.file_name()).any(|name| !is_ours(&name)) {
            return Err(Failure::usage(format!("output {shown} is not empty"))
                .hint("choose another directory"));
        }
        std::fs::create_dir_all(&job.output)
            .and_then(|()| state::make_folder(&job.output, PARTS))
            .map_err(|error| Failure::io(&job.output.display().to_string(), &error))?;
        write(&path, &plan)
    }

    fn path(&self, part: usize) -> Result<PathBuf, Failure> {
        let below = Path::new(PARTS).join(format!("{part:04}.json"));
        let failed = |error| Failure::io(&self.job.output.display().to_string(), &error);
        state::inside(&self.job.output, below).map_err(failed)
    }

    /// Trains the networks of this process that are not there yet; the number of parts that are
    /// there then.
    pub(super) fn train(
        &self,
        parts: &[Vec<usize>],
        session: &mut Session<'_>,
    ) -> Result<usize, Failure> {
        self.begin(parts)?;
        session.step(&format!("training {} networks", parts.len() * self.job.repeats));
        let mut known = 0;
        for (index, part) in parts.iter().enumerate() {
            let path = self.path(index)?;
            if !state::exists(&path) {
                if !session.shard().owns(index) {
                    continue;
                }
                let margins = self.margins(index, part, session)?;
                write(&path, &Part { part: index, examples: part.clone(), margins })?;
            }
            known += 1;
            session.progress(known as u64, parts.len() as u64);
        }
        Ok(known)
    }

    /// The outcomes of all parts (parts, queries).
    pub(super) fn outcomes(&self, parts: &[Vec<usize>]) -> Result<Mat<f64>, Failure> {
        let queries = self.queries.len();
        let mut all = Mat::zeros(parts.len(), queries);
        for (index, examples) in parts.iter().enumerate() {
            let path = self.path(index)?;
            let part: Part = read(&path)?;
            if (part.part, &part.examples, part.margins.len()) != (index, examples, queries) {
                let message = format!("{}: it belongs to another part", path.display());
                return Err(Failure::general(message).hint("remove the file and run again"));
            }
            all.row_mut(index).copy_from_slice(&part.margins);
        }
        Ok(all)
    }

    /// Mean margins of the queries over networks that are trained on some examples.
    fn margins(
        &self,
        index: usize,
        part: &[usize],
        session: &mut Session<'_>,
    ) -> Result<Vec<f64>, Failure> {
        let chosen: Vec<u32> = part.iter().map(|example| *example as u32).collect();
        let training = self.examples.select(&chosen);
        let mut sums = vec![0.0; self.queries.len()];
        for repeat in 0..self.job.repeats {
            let key = self.key().fold("network").fold_index(index as u64);
            let net = self.trained(&training, key.fold_index(repeat as u64), session)?;
            let objective = Objective { target: Target::Margin, reduction: Reduction::Mean };
            let of_queries = Classified::new(self.queries)?;
            let margins = values(&net, &of_queries, objective, self.job.training.batch)?;
            sums.iter_mut().zip(margins).for_each(|(sum, value)| *sum -= value);
        }
        let repeats = self.job.repeats as f64;
        Ok(sums.into_iter().map(|sum| sum / repeats).collect())
    }

    fn trained(
        &self,
        training: &Labelled,
        key: RngKey,
        session: &mut Session<'_>,
    ) -> Result<Net, Failure> {
        let options = &self.job.training;
        let mut net = Net::random(&self.spec, key.fold("weights"))?;
        let of_epoch = training.len().div_ceil(options.batch) as u64;
        let steps = options.steps.unwrap_or(options.epochs.saturating_mul(of_epoch));
        let mut settings = options.settings(steps);
        // The last weights, so that queries choose nothing.
        (settings.keep_best, settings.validate_every) = (false, steps.max(1));
        let plan = TrainingPlan { loss: options.loss, batch: options.batch, key };
        let mut problem = NetTraining::new(&mut net, training, self.queries, plan)?;
        let mut control = Forward { session, steps: 0 };
        train(&mut problem, &settings, None, &mut control).map_err(advised)?;
        Ok(net)
    }
}

fn write<T: Serialize>(path: &Path, value: &T) -> Result<(), Failure> {
    let failed =
        |error: serde_json::Error| Failure::general(format!("{}: {error}", path.display()));
    let text = Checked::of(value).and_then(|checked| serde_json::to_string(&checked));
    Ok(state::write(path, (text.map_err(failed)? + "\n").as_bytes())?)
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, Failure> {
    let shown = path.display().to_string();
    let bytes = state::read(path, MAX_BYTES).map_err(|error| Failure::io(&shown, &error))?;
    Checked::read(&bytes).map_err(|reason| {
        Failure::general(format!("{shown}: {}", shown_reason(&reason)))
            .hint("remove the file and run again, which computes it alone")
    })
}
