//! `linwright train-lm --text`: trains tokenizer and model on any text.

use super::TrainLm;
use super::documents::{Texts, listed};
use super::result::{
    Estimate, HeldOutDocuments, ModelTrained, TextFile, TokenizerOfText, TrainingCost,
    TrainingDocuments, TrainingPlanned,
};
use super::shape::{check_memory, training_bytes};
use super::tokens::Tokens;
use crate::jobs::kit::saving::beside_trained;
use crate::jobs::kit::training::{Forward, Resumable, advised};
use crate::jobs::kit::{Failure, FailureKind, Outcome, Session, message_of, outputs};
use crate::new_model::{Length, LmTraining, Shape, generation_config, optimizer, pretty};
use linwright_model::checkpoint::{Form, SaveOptions, Source, save};
use linwright_model::train_lm::{Batching, Documents};
use linwright_model::{Transformer, TransformerConfig};
use linwright_report::number::grouped;
use linwright_run::memory::peak_resident_bytes;
use linwright_run::{Fingerprint, Measured, Monitor};
use linwright_tensor::RngKey;
use linwright_train::{Checkpoint, Control, Outcome as Trained, Progress, Schedule};
use std::f64::consts::LN_2;

/// Steps of a dry run; the first is not timed, since it allocates.
const TIMED: u64 = 4;
/// Cost of a token in validation, as a share of one in training: no backward pass.
const FORWARD_SHARE: f64 = 1.0 / 3.0;

/// A model to be trained: texts, tokens, shape and length.
struct Planned<'a> {
    job: &'a TrainLm,
    texts: Texts,
    tokens: Tokens,
    shape: Shape,
    config: TransformerConfig,
    key: RngKey,
    length: Length,
}

pub(super) fn run(
    job: &TrainLm,
    name: &str,
    session: &mut Session<'_>,
) -> Result<Outcome, Failure> {
    job.documents.check(name)?;
    job.training.check()?;
    let shape = job.model.shape()?;
    if !job.dry_run {
        let mut inputs = outputs::inputs_of(job, session);
        inputs.extend(job.checkpoint.iter().map(|path| path.to_path_buf()));
        outputs::directory(&job.output, job.force, &inputs, session)?;
    }
    let planned = Planned::new(job, name, shape, session)?;
    if job.dry_run {
        return planned.estimate(session);
    }
    let resumable = Resumable {
        job,
        output: &job.output,
        checkpoint: job.checkpoint.as_deref(),
        every: planned.length.validate_every,
        fingerprint: planned.fingerprint(),
    };
    resumable.run(session, |checkpoint, session| planned.train(checkpoint, session))
}

impl<'a> Planned<'a> {
    fn new(
        job: &'a TrainLm,
        name: &str,
        shape: Shape,
        session: &mut Session<'_>,
    ) -> Result<Self, Failure> {
        session.step("reading the text");
        let key = RngKey::new(job.seed.unwrap_or_default()).fold("text");
        let texts = Texts::read(job, name, key, session)?;
        let tokens = Tokens::new(&job.model, &texts, session)?;
        if session.interrupted() {
            return Err(Failure::new(FailureKind::Interrupted, "interrupted"));
        }
        let tokenizer = &tokens.tokenizer;
        let config = shape
            .config(tokenizer.vocab(), tokenizer.bos(), tokenizer.eos())
            .map_err(|error| Failure::usage(message_of(&error)))?;
        let batch = job.training.batch_tokens.min(tokens.train.token_count());
        check_memory(&config, training_bytes(&config, &shape, batch))?;
        let batching = batching(job, key);
        let steps = match job.training.steps {
            Some(steps) => steps,
            None => batching.steps(&tokens.train, job.epochs.unwrap_or(1)),
        };
        let length = job.training.length(steps);
        Ok(Self { job, texts, tokens, shape, config, key, length })
    }

    /// The training, with the held-out loss on `validation`.
    fn training<'b>(&'b self, validation: &'b Documents) -> LmTraining<'b> {
        LmTraining {
            name: "model",
            config: self.config.clone(),
            weights: self.key.fold("weights"),
            train: &self.tokens.train,
            validation,
            batching: batching(self.job, self.key),
            schedule: self.schedule(),
            optimizer: optimizer(),
        }
    }

    fn schedule(&self) -> Schedule {
        self.job.training.schedule(self.shape.hidden, self.length.steps)
    }

    /// Identifies the training in its checkpoint.
    fn fingerprint(&self) -> String {
        let other = self.texts.other.as_ref().map(|(_, corpus)| &corpus.sha256);
        Fingerprint::of(&[
            ("text", &self.texts.corpus.sha256),
            ("separator", &self.job.documents.separator),
            ("documents", &self.texts.training),
            ("held out", &(&self.texts.held_out, other)),
            ("tokenizer", &self.tokens.sha256),
            ("shape", &self.shape),
            ("seed", &self.job.seed),
            ("training", &(self.length, self.schedule(), self.job.training.batch_tokens)),
        ])
        .0
    }

    fn train(
        &self,
        checkpoint: Option<&Checkpoint>,
        session: &mut Session<'_>,
    ) -> Result<Outcome, Failure> {
        session.step(&format!("training on {}", self.planned().told()));
        let began = session.seconds();
        let mut control = Forward { session: &mut *session, steps: 0 };
        let training = self.training(&self.tokens.held_out);
        let trained = training.run(self.length, checkpoint, &mut control);
        let (decoder, trained) = trained.map_err(advised)?;
        let steps = control.steps;
        let seconds = session.seconds() - began;
        session.step("writing");
        let mut result = self.result(&trained);
        result.seconds = Measured(seconds);
        result.tokens_per_second = Measured(self.tokens_per_step() * steps as f64 / seconds);
        self.write(&decoder, &trained, &result, session)?;
        result.output = Some(session.portable(&self.job.output));
        Ok(Outcome::of(result))
    }

    /// What was trained, without times.
    fn result(&self, trained: &Trained) -> ModelTrained {
        let planned = self.planned();
        let HeldOutDocuments { bytes, tokens, .. } = planned.held_out;
        let nats_per_byte = trained.best_loss * tokens as f64 / bytes as f64;
        ModelTrained {
            planned,
            nats_per_token: trained.best_loss,
            perplexity: trained.best_loss.exp(),
            nats_per_byte,
            bits_per_byte: nats_per_byte / LN_2,
            output: None,
            seconds: Measured::default(),
            tokens_per_second: Measured::default(),
        }
    }

    /// The model and its data.
    fn planned(&self) -> TrainingPlanned {
        let (texts, tokens) = (&self.texts, &self.tokens);
        let (training, held_out) = (texts.training(), texts.held_out());
        let bytes = |texts: &[&str]| texts.iter().map(|text| text.len()).sum();
        TrainingPlanned {
            text: TextFile {
                path: texts.name.clone(),
                sha256: texts.corpus.sha256.clone(),
                documents: texts.corpus.documents.len(),
            },
            training: TrainingDocuments {
                documents: listed(&texts.training),
                document_count: training.len(),
                bytes: bytes(&training),
                tokens: tokens.train.predicted_count(),
                steps: self.length.steps,
                epochs: self.epochs(),
            },
            held_out: HeldOutDocuments {
                path: texts.other.as_ref().map(|(name, _)| name.clone()),
                sha256: texts.other.as_ref().map(|(_, corpus)| corpus.sha256.clone()),
                documents: listed(&texts.held_out),
                document_count: held_out.len(),
                bytes: bytes(&held_out),
                tokens: tokens.held_out.predicted_count(),
            },
            tokenizer: TokenizerOfText { vocab: self.config.vocab, sha256: tokens.sha256.clone() },
            model: self.shape,
            parameters: self.config.parameters(),
        }
    }

    fn write(
        &self,
        decoder: &Transformer,
        trained: &Trained,
        result: &ModelTrained,
        session: &Session<'_>,
    ) -> Result<(), Failure> {
        let job = self.job;
        let (bos, eos) = (self.tokens.tokenizer.bos(), self.tokens.tokenizer.eos());
        let mut companions = self.tokens.files.clone();
        companions.push(("generation_config.json".into(), pretty(&generation_config(bos, eos))));
        let source = Source::of_new_model(decoder.config(), companions);
        let mut options = SaveOptions::new(Form::Dense);
        options.dtype = Some(job.training.dtype.dtype());
        options.force = job.force;
        let what = format!(
            "A language model of {} parameters, trained on {} (SHA-256 {}).",
            grouped(self.config.parameters()),
            result.planned.told(),
            self.texts.corpus.sha256
        );
        options.files = beside_trained(session, &what, result, &trained.curve)?;
        save(decoder, &source, &options, &job.output)?;
        Ok(())
    }

    /// Size, steps, time and memory, from a few steps without a checkpoint.
    fn estimate(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        session.step("timing a step");
        let mut one = Documents::default();
        one.push(self.tokens.held_out.get(0));
        let length = Length { steps: TIMED, validate_every: TIMED };
        let mut clock = Clock { session: &mut *session, times: Vec::new() };
        self.training(&one).run(length, None, &mut clock).map_err(advised)?;
        let times = clock.times;
        let step = (times[times.len() - 1] - times[0]) / (TIMED - 1) as f64;
        session.finish();
        let Length { steps, validate_every } = self.length;
        let token = step / self.tokens_per_step();
        let validation = FORWARD_SHARE * token * self.tokens.held_out.token_count() as f64;
        let validations = 1 + steps.div_ceil(validate_every);
        let total = steps as f64 * step + validations as f64 * validation;
        let estimate = Estimate {
            seconds_per_step: step,
            seconds: total,
            tokens_per_second: 1.0 / token,
            memory_bytes: peak_resident_bytes(),
        };
        let planned = self.planned();
        Ok(Outcome::of(TrainingCost { planned, estimate: Measured(estimate) }))
    }

    fn steps_of_an_epoch(&self) -> u64 {
        batching(self.job, self.key).steps(&self.tokens.train, 1)
    }

    fn tokens_per_step(&self) -> f64 {
        self.tokens.train.token_count() as f64 / self.steps_of_an_epoch() as f64
    }

    fn epochs(&self) -> f64 {
        self.length.steps as f64 / self.steps_of_an_epoch() as f64
    }
}

fn batching(job: &TrainLm, key: RngKey) -> Batching {
    Batching { tokens: job.training.batch_tokens, key: key.fold("batches") }
}

/// Notes when each step ends.
struct Clock<'a, 's> {
    session: &'a mut Session<'s>,
    times: Vec<f64>,
}

impl Control for Clock<'_, '_> {
    fn progress(&mut self, _: &Progress<'_>) {
        self.times.push(self.session.seconds());
    }

    fn interrupted(&self) -> bool {
        self.session.interrupted()
    }
}
