//! `linwright generate`: continuations of prompts.

use super::{Pieces, print_json};
use crate::args::{Shared, one_of};
use crate::console::Console;
use crate::face::Face;
use crate::failure::{Failure, Kind};
use crate::interrupt;
use clap::Args;
use clap::builder::RangedU64ValueParser;
use linwright::evaluate::Bos;
use linwright::jobs::source::open_model_as;
use linwright::jobs::{PrecisionOptions, Session};
use linwright::model::checkpoint::LoadedModel;
use linwright::model::generate::{Generated, SamplingSettings, Stopping, TextEnd, generate_text};
use linwright::model::tokenizer::Tokenizer;
use linwright::run::{Monitor, input};
use linwright::tensor::RngKey;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Default largest number of new tokens.
const NEW_TOKENS: usize = 128;
/// Largest prompt file, in bytes.
const PROMPT_BYTES: u64 = 1 << 26;

/// Generate continuations of prompts, greedily unless the model or an option says otherwise.
#[derive(Debug, Args)]
pub(crate) struct GenerateArgs {
    /// A checkpoint directory, `pocket` for the built-in model, or `owner/name[@revision]` on the
    /// hub.
    model: String,
    /// The prompt; may be given more than once.
    #[arg(short, long, required_unless_present = "prompt_file")]
    prompt: Vec<String>,
    /// A text file with one more prompt.
    #[arg(long, value_name = "FILE", alias = "prompt_file")]
    prompt_file: Option<PathBuf>,
    /// Whether prompts start with the beginning-of-sequence token.
    #[arg(long, default_value = "auto", value_parser = one_of(&Bos::ALL, Bos::name))]
    bos: Bos,
    #[command(flatten)]
    sampling: SamplingArgs,
}

/// Options of sampling, and of the end of generation.
#[derive(Debug, Args)]
pub(crate) struct SamplingArgs {
    /// Largest number of new tokens [default: that of the model, or 128].
    #[arg(short = 'n', long, alias = "max_new_tokens")]
    max_new_tokens: Option<usize>,
    /// Sampling temperature, by which logits are divided; 0 is greedy decoding [default: that of
    /// the model, or 0].
    #[arg(long, allow_negative_numbers = true)]
    temperature: Option<f32>,
    /// Sample only from this many of the most likely tokens.
    #[arg(long, alias = "top_k", value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    top_k: Option<usize>,
    /// Sample only from the most likely tokens with this total probability.
    #[arg(long, alias = "top_p")]
    top_p: Option<f32>,
    /// Sample only from tokens with at least this share of the largest probability.
    #[arg(long, alias = "min_p")]
    min_p: Option<f32>,
    /// Penalty of tokens that already occurred: positive logits are divided by it, negative ones
    /// multiplied.
    #[arg(long, alias = "repetition_penalty")]
    repetition_penalty: Option<f32>,
    #[command(flatten)]
    precision: Face<PrecisionOptions>,
    /// Seed of sampling.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// A stop string; may be given more than once.
    #[arg(long)]
    stop: Vec<String>,
}

/// A model with its sampling options.
pub(crate) struct Writer {
    pub(crate) loaded: LoadedModel,
    pub(crate) tokenizer: Tokenizer,
    settings: SamplingSettings,
    stopping: Stopping,
}

/// End-of-sequence tokens, from the generation configuration, the model configuration and the
/// tokenizer.
pub(super) fn end_tokens(own: Vec<u32>, loaded: &LoadedModel, tokenizer: &Tokenizer) -> Vec<u32> {
    let config = loaded.decoder.config().eos_tokens.iter().copied();
    let mut all: Vec<u32> = own.into_iter().chain(config).chain(tokenizer.eos()).collect();
    all.sort_unstable();
    all.dedup();
    all
}

impl SamplingArgs {
    /// Opens a model, and combines its generation configuration with the options.
    pub(crate) fn writer(&self, model: &str, session: &mut Session<'_>) -> Result<Writer, Failure> {
        let mut loaded = open_model_as(model, self.precision.dtype, session)?.loaded;
        if !loaded.decoder.has_head() || !loaded.decoder.config().is_causal() {
            return Err(Failure::general(format!(
                "{model} is an encoder, which cannot generate text; give a causal language model"
            )));
        }
        let Some(tokenizer) = loaded.tokenizer.take() else {
            return Err(Failure::general(format!(
                "{model} has no tokenizer; put tokenizer.json or tokenizer.model beside config.json"
            )));
        };
        let mut settings = self.settings(&loaded)?;
        let own = std::mem::take(&mut settings.end_tokens);
        let end_tokens = end_tokens(own, &loaded, &tokenizer);
        let new_tokens = self.max_new_tokens.or(settings.new_tokens).unwrap_or(NEW_TOKENS);
        let stopping = Stopping { new_tokens, end_tokens, stop: self.stop.clone() };
        Ok(Writer { loaded, tokenizer, settings, stopping })
    }

    fn settings(&self, loaded: &LoadedModel) -> Result<SamplingSettings, Failure> {
        let vocab = loaded.decoder.config().vocab;
        let mut settings = loaded.source.generation_settings(vocab)?;
        let choice = &mut settings.choice;
        let within = |flag: &str, value: Option<f32>, most: f32| match value {
            Some(v) if !(0.0..=most).contains(&v) => {
                Err(Failure::usage(format!("{flag} is {v}; expected a number from 0 to {most}")))
            }
            _ => Ok(value),
        };
        if let Some(temperature) = within("--temperature", self.temperature, 1e3)? {
            choice.temperature = temperature;
        }
        choice.top_k = self.top_k.or(choice.top_k);
        choice.top_p = within("--top-p", self.top_p, 1.0)?.or(choice.top_p);
        choice.min_p = within("--min-p", self.min_p, 1.0)?.or(choice.min_p);
        let draws = self.top_k.is_some() || self.top_p.is_some() || self.min_p.is_some();
        if draws && choice.temperature == 0.0 {
            if self.temperature.is_some() {
                let text = "--temperature 0 is greedy decoding, to which --top-k and the like do not apply";
                return Err(Failure::usage(text.to_owned()));
            }
            choice.temperature = 1.0;
        }
        if let Some(penalty) = within("--repetition-penalty", self.repetition_penalty, 1e3)? {
            if penalty == 0.0 {
                return Err(Failure::usage("--repetition-penalty must be above 0".to_owned()));
            }
            choice.repetition_penalty = penalty;
        }
        choice.key = RngKey::new(self.seed);
        Ok(settings)
    }
}

impl Writer {
    /// Continues prompts; `on_text` as in [`generate_text`].
    pub(crate) fn write(
        &self,
        prompts: &[Vec<u32>],
        on_text: &mut dyn FnMut(usize, &str) -> bool,
    ) -> Result<Vec<Generated>, Failure> {
        let mut on_text = |index, piece: &str| on_text(index, piece) && !interrupt::is_requested();
        let written = generate_text(
            &self.loaded.decoder,
            &self.tokenizer,
            prompts,
            &self.settings.choice,
            &self.stopping,
            &mut on_text,
        );
        let written = written.map_err(Failure::from)?;
        if interrupt::is_requested() {
            return Err(Failure::new(Kind::Interrupted, "interrupted"));
        }
        Ok(written)
    }

    /// The sampling options, for results.
    fn protocol(&self) -> Value {
        let choice = &self.settings.choice;
        json!({
            "temperature": choice.temperature,
            "top_k": choice.top_k,
            "top_p": choice.top_p,
            "min_p": choice.min_p,
            "repetition_penalty": choice.repetition_penalty,
            "max_new_tokens": self.stopping.new_tokens,
            "end_tokens": self.stopping.end_tokens,
            "stop": self.stopping.stop,
        })
    }
}

pub(crate) fn run(args: &GenerateArgs, shared: &Shared) -> Result<(), Failure> {
    let mut console = Console::new(shared);
    let writer = args.sampling.writer(&args.model, &mut console.session())?;
    let texts = args.texts()?;
    let encode = |text: &String| writer.tokenizer.encode_document(text, args.bos);
    let prompts: Vec<Vec<u32>> = texts.iter().map(encode).collect::<Result<_, _>>()?;
    if let Some(index) = prompts.iter().position(Vec::is_empty) {
        return Err(Failure::usage(format!(
            "prompt {} is empty, and the model has no beginning-of-sequence token; give some text",
            index + 1
        )));
    }
    console.finish();
    let streams = texts.len() == 1 && !shared.json;
    let mut shown = Pieces::default();
    let written = writer.write(&prompts, &mut |_, piece| !streams || shown.write(piece));
    if streams {
        if written.is_ok() {
            shown.write("\n");
        }
        // Lost output is the cause of the early end, so it is reported first.
        shown.finish()?;
        return written.map(drop);
    }
    let written = written?;
    if shared.json {
        return print_json(&result(args, &writer, &texts, &written));
    }
    for (text, written) in texts.iter().zip(&written) {
        super::print(&format!("{text}{}\n", written.text))?;
    }
    Ok(())
}

impl GenerateArgs {
    fn texts(&self) -> Result<Vec<String>, Failure> {
        let mut texts = self.prompt.clone();
        if let Some(path) = &self.prompt_file {
            let text = input::read_text(path, PROMPT_BYTES);
            texts.push(text.map_err(|e| Failure::io(&path.display().to_string(), &e))?);
        }
        Ok(texts)
    }
}

fn result(args: &GenerateArgs, writer: &Writer, texts: &[String], written: &[Generated]) -> Value {
    let one = |(prompt, written): (&String, &Generated)| {
        let (finish, stop) = match &written.end {
            TextEnd::End => ("end", None),
            TextEnd::Stop(stop) => ("stop", Some(stop)),
            TextEnd::Length => ("length", None),
            TextEnd::Positions => ("positions", None),
            TextEnd::Caller => ("caller", None),
        };
        json!({
            "prompt": prompt,
            "text": written.text,
            "tokens": written.tokens,
            "prompt_tokens": written.prompt_tokens,
            "finish": finish,
            "stop": stop,
        })
    };
    json!({
        "model": args.model,
        "model_hash": writer.loaded.hash,
        "version": env!("CARGO_PKG_VERSION"),
        "seed": args.sampling.seed,
        "protocol": writer.protocol(),
        "results": texts.iter().zip(written).map(one).collect::<Vec<_>>(),
    })
}
