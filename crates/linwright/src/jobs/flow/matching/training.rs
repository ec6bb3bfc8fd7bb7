//! The training, and what it writes.

use super::FlowMatch;
use super::result::VelocitiesTrained;
use crate::jobs::kit::saving::beside_trained;
use crate::jobs::kit::training::{Forward, Resumable, advised};
use crate::jobs::kit::{Failure, Outcome, Session, outputs, room};
use linwright_flow::{
    Extent, FlowExamples, FlowSpec, MixSpec, Values, VelocitySpec, picture, velocity_examples,
    velocity_nll, velocity_samples,
};
use linwright_nets::{Labelled, Loss, Net, NetTraining, TrainingPlan};
use linwright_ops::{Network, OpSpec};
use linwright_report::number::grouped;
use linwright_run::{Fingerprint, Measured, Monitor, shown};
use linwright_tensor::RngKey;
use linwright_train::{
    Checkpoint, OptimizerSettings, Outcome as Trained, Rules, Schedule, TrainSettings, train,
};
use serde_json::json;

/// Factor of the first held-out loss beyond which training is stopped.
const DIVERGENCE: f64 = 10.0;
/// The learning rate ends at this share of its peak.
const FLOOR: f64 = 0.01;
/// Points of the curve after the first.
const POINTS: u64 = 10;
/// Pairs that are held out for the curve.
const HELD_OUT: u32 = 2048;

/// The operator of a text: none for dense weights.
fn operator(text: &str) -> Result<Option<OpSpec>, Failure> {
    let wrong = |reason: String| {
        Failure::usage(format!("--layer {}: {reason}", shown(text)))
            .hint("give dense, cd:M, or an operator in JSON")
    };
    if text == "dense" {
        return Ok(None);
    }
    let value = match text.strip_prefix("cd:") {
        Some(count) => {
            let factors: usize =
                count.parse().map_err(|_| wrong("no number of diagonals".into()))?;
            json!({"kind": "circulant_diagonal", "factors": factors})
        }
        None => serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?,
    };
    serde_json::from_value(value).map(Some).map_err(|error| wrong(error.to_string()))
}

pub(super) fn run(job: &FlowMatch, session: &mut Session<'_>) -> Result<Outcome, Failure> {
    if !(job.rate > 0.0 && job.rate.is_finite()) {
        let rate = job.rate;
        return Err(Failure::usage(format!("--rate {rate}: expected a finite number above zero")));
    }
    let operator = operator(&job.layer)?;
    let mut inputs = outputs::inputs_of(job, session);
    inputs.extend(job.checkpoint.iter().map(|path| path.to_path_buf()));
    outputs::directory(&job.output, job.force, &inputs, session)?;
    session.step("reading the data");
    let prepared = Prepared::new(job, operator)?;
    let resumable = Resumable {
        job,
        output: &job.output,
        checkpoint: job.checkpoint.as_deref(),
        every: prepared.settings.validate_every,
        fingerprint: prepared.fingerprint(),
    };
    resumable.run(session, |checkpoint, session| prepared.train(checkpoint, session))
}

impl FlowMatch {
    /// Refuses pairs or fresh points for which there is no memory: a pair is a point with a time
    /// and a velocity, fresh points pass through the network together.
    fn check_memory(&self, dimensions: usize) -> Result<(), Failure> {
        let of_number = size_of::<f32>() as u64;
        let pair = 2 * dimensions as u64 + 1;
        let what = || format!("{} pairs of {dimensions} numbers", self.training.pairs);
        room::ensure(
            what,
            &[self.training.pairs.into(), pair, of_number],
            "give fewer pairs by --training",
        )?;
        let widest = dimensions.max(self.network.hidden) as u64;
        let what = || format!("{} fresh points, {widest} wide", self.count);
        let hint = "give a smaller --count, or hidden of --architecture";
        room::ensure(what, &[self.count as u64, 2 * widest, of_number], hint)
    }
}

/// A network to be trained, with its pairs.
struct Prepared<'a> {
    job: &'a FlowMatch,
    examples: FlowExamples,
    training: Labelled,
    held_out: Labelled,
    net: Net,
    key: RngKey,
    settings: TrainSettings,
}

impl<'a> Prepared<'a> {
    fn new(job: &'a FlowMatch, operator: Option<OpSpec>) -> Result<Self, Failure> {
        let key = RngKey::new(job.seed).fold("flow-match");
        let examples = FlowExamples::open(&job.data, None)?;
        let dimensions = examples.extent().channels;
        job.check_memory(dimensions)?;
        let training = velocity_examples(&examples, job.training.pairs, key.fold("training"))?;
        let held_out = velocity_examples(&examples, HELD_OUT, key.fold("held out"))?;
        let spec = VelocitySpec {
            dimensions,
            hidden: job.network.hidden,
            layers: job.network.depth,
            operator,
        };
        let net = Net::random(&spec.net(), key.fold("weights"))?;
        let settings = TrainSettings {
            name: "velocity".into(),
            steps: job.steps,
            schedule: Schedule {
                peak: job.rate,
                warmup: (job.steps / 20).min(200),
                floor: FLOOR * job.rate,
            },
            optimizer: OptimizerSettings::default(),
            validate_every: job.steps.div_ceil(POINTS),
            keep_best: true,
            divergence_factor: DIVERGENCE,
            rules: Rules::default(),
        };
        Ok(Self { job, examples, training, held_out, net, key, settings })
    }

    /// Identifies the training in its checkpoint.
    fn fingerprint(&self) -> String {
        Fingerprint::of(&[
            ("data", &self.examples.sha256()),
            ("net", self.net.spec()),
            ("pairs", &self.job.training.pairs),
            ("seed", &self.job.seed),
            ("training", &(self.job.training.batch, &self.settings)),
        ])
        .0
    }

    fn train(
        mut self,
        checkpoint: Option<&Checkpoint>,
        session: &mut Session<'_>,
    ) -> Result<Outcome, Failure> {
        session.step("training");
        let (began, mut net) = (session.seconds(), self.net.clone());
        let batch = self.job.training.batch;
        let plan = TrainingPlan { loss: Loss::SquaredError, batch, key: self.key };
        let mut problem = NetTraining::new(&mut net, &self.training, &self.held_out, plan)?;
        let mut control = Forward { session: &mut *session, steps: 0 };
        let trained = train(&mut problem, &self.settings, checkpoint, &mut control);
        let trained = trained.map_err(advised)?;
        let seconds = session.seconds() - began;
        self.net = net;
        session.step("measuring densities");
        let (count, steps) = (self.job.count as u32, self.job.ode_steps);
        let of_data = match self.examples.count() {
            Some(all) => (0..count.min(all as u32)).collect::<Vec<u32>>(),
            None => (0..count).collect(),
        };
        let points = self.examples.batch(&of_data, self.key.fold("density"));
        let nll = velocity_nll(&mut self.net, &points, steps, session)?;
        session.step("writing");
        let mut result = self.result(&trained, &nll, seconds);
        let hash = self.write(&trained, &result, session)?;
        result.output = Some(session.portable(&self.job.output));
        result.sha256 = Some(hash);
        Ok(Outcome::of(result))
    }

    fn result(&self, trained: &Trained, nll: &[f64], seconds: f64) -> VelocitiesTrained {
        let count = nll.len() as f64;
        let mean = nll.iter().sum::<f64>() / count;
        let squares: f64 = nll.iter().map(|nll| (nll - mean).powi(2)).sum();
        let bits = 1.0 / (self.examples.extent().channels as f64 * std::f64::consts::LN_2);
        VelocitiesTrained {
            data: self.job.data.clone(),
            data_sha256: self.examples.sha256().to_owned(),
            layer: self.job.layer.clone(),
            parameters: self.net.parameters(),
            steps: trained.steps,
            best_step: trained.best_step,
            loss: trained.best_loss,
            points: nll.len(),
            nll: mean,
            bits_per_dim: bits * mean,
            stderr: bits * (squares / (count - 1.0).max(1.0) / count).sqrt(),
            entropy: self.examples.entropy(),
            output: None,
            sha256: None,
            seconds: Measured(seconds),
        }
    }

    /// Writes the network, and returns its hash.
    fn write(
        &self,
        trained: &Trained,
        result: &VelocitiesTrained,
        session: &Session<'_>,
    ) -> Result<String, Failure> {
        let what = format!(
            "A network of velocities of {} parameters with hidden layers {}, trained by flow matching on {}.",
            grouped(self.net.parameters()),
            self.job.layer,
            session.portable(&self.job.data)
        );
        let mut files = beside_trained(session, &what, result, &trained.curve)?;
        let channels = self.examples.extent().channels;
        if channels == 2 {
            let (count, steps) = (self.job.count, self.job.ode_steps);
            let samples =
                velocity_samples(&self.net, count, steps, self.key.fold("samples"), session)?;
            let extent = Extent { channels, height: 1, width: 1 };
            let layer = MixSpec::parse("permutation")?;
            let points = FlowSpec::for_data(extent, Values::Numbers, layer);
            files.push(("samples.png".to_owned(), picture(&points, &samples)?));
        }
        Ok(self.net.save(&self.job.output, self.job.force, &files)?.hash)
    }
}
