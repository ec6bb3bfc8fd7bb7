//! Sentence encoders: from the vectors of all tokens to one embedding of a text, as in
//! sentence-transformers (version 6.2).
//!
//! `modules.json` lists the modules after the transformer: a pooling with its own `config.json`,
//! and normalisations, dense layers and layer norms before and after it. Further files set the
//! longest text and the prompt that is put before each text. Unsupported features give a reason
//! that names file and field, reported when embeddings are requested. Source: Reimers and Gurevych
//! 2019, arXiv:1908.10084.

mod modules;
mod settings;
mod step;
#[cfg(test)]
mod tests;

pub(super) use modules::files;

use crate::batch::Batch;
use crate::config::TransformerConfig;
use crate::tokenizer::{Tokenizer, TokenizerError};
use crate::transformer::Pooling;
use linwright_files::{SENTENCE_TRANSFORMER, transformer_folder};
use linwright_run::shown;
use linwright_tensor::{HalfType, Mat, MatRef};
use modules::{ENCODER, Module};
use serde_json::Value;
use settings::Settings;
use std::path::Path;
use step::{Of, Step};

/// Modes of pooling: the name, the field of older files, and what it is; in the order in which
/// vectors of older files are joined.
const MODES: [(&str, &str, Pooling); 6] = [
    ("cls", "pooling_mode_cls_token", Pooling::First),
    ("max", "pooling_mode_max_tokens", Pooling::Max),
    ("mean", "pooling_mode_mean_tokens", Pooling::Mean),
    ("mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens", Pooling::MeanSqrtLength),
    ("weightedmean", "pooling_mode_weightedmean_tokens", Pooling::WeightedMean),
    ("lasttoken", "pooling_mode_lasttoken", Pooling::Last),
];
/// Types of weights that change nothing.
const USUAL_TYPES: [&str; 3] = ["float32", "torch.float32", "auto"];
/// A limit of a tokenizer above this is none, as in transformers.
const NO_LIMIT: f64 = 1e20;

/// How an encoder makes one vector of a text.
#[derive(Clone, Debug)]
pub struct Sentence {
    /// Vectors that are joined.
    poolings: Vec<Pooling>,
    /// What is put before a text, and its name.
    prompt: Option<(String, String)>,
    /// Tokens at the start of a text that are not pooled.
    skipped: usize,
    /// Longest text in tokens, with special ones.
    max_tokens: Option<usize>,
    /// Modules before the pooling.
    of_tokens: Vec<Step>,
    /// Modules after it.
    of_text: Vec<Step>,
    /// Features of the embedding that are kept.
    kept: Option<usize>,
    /// What the reader should know.
    note: Option<String>,
}

impl Sentence {
    /// One pooling alone, without limits: [`Pooling::Mean`] is the default of encoders without
    /// modules.
    #[must_use]
    pub fn of(pooling: Pooling) -> Self {
        Self {
            poolings: vec![pooling],
            prompt: None,
            skipped: 0,
            max_tokens: None,
            of_tokens: Vec::new(),
            of_text: Vec::new(),
            kept: None,
            note: None,
        }
    }

    /// A note for the reader.
    #[must_use]
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// The pooling, if there is one that all else leaves as it is, but for the length of vectors.
    #[cfg(feature = "gguf")]
    pub(super) fn plain(&self) -> Option<Pooling> {
        let scales = |step: &Step| matches!(step, Step::Normalise);
        let plain = self.of_tokens.is_empty() && self.of_text.iter().all(scales);
        match self.poolings[..] {
            [one] if plain && self.skipped == 0 && self.kept.is_none() => Some(one),
            _ => None,
        }
    }

    /// Name for protocols: the poolings, and what else changes scores.
    #[must_use]
    pub fn name(&self) -> String {
        let poolings: Vec<&str> = self.poolings.iter().map(|pooling| pooling.name()).collect();
        let mut name = poolings.join("+");
        if let Some((of, _)) = &self.prompt {
            name += &format!("_prompt-{of}");
        }
        if self.skipped > 0 {
            name += "_prompt-left-out";
        }
        if let Some(tokens) = self.max_tokens {
            name += &format!("_len-{tokens}");
        }
        for step in self.of_tokens.iter().chain(&self.of_text).filter_map(Step::name) {
            name += &format!("_{step}");
        }
        if let Some(kept) = self.kept {
            name += &format!("_dim-{kept}");
        }
        name
    }

    /// Reads the files of a folder; mean pooling if it lists no modules. `settings` is the content
    /// of `tokenizer_config.json`; the numbers of modules are rounded to a type, if one is given.
    /// Errors are the reason only, with file and field.
    pub(super) fn read(
        dir: &Path,
        config: &TransformerConfig,
        tokenizer: Option<&Tokenizer>,
        settings: Option<&Value>,
        rounding: Option<HalfType>,
    ) -> Result<Self, String> {
        let limit = settings.and_then(|settings| settings.get("model_max_length"));
        let limit = limit.and_then(Value::as_f64).filter(|limit| (1.0..NO_LIMIT).contains(limit));
        let mut sentence = Self::of(Pooling::Mean);
        sentence.max_tokens = limit.map(|limit| limit as usize);
        if let Some(modules) = Module::all(dir)? {
            sentence.take_modules(dir, &modules, config.hidden, rounding)?;
            sentence.take_prompt(dir, tokenizer)?;
        }
        // What the model can do anyway is no limit.
        sentence.max_tokens = sentence.max_tokens.filter(|tokens| *tokens < config.max_positions);
        Ok(sentence)
    }

    fn take_modules(
        &mut self,
        dir: &Path,
        modules: &[Module],
        hidden: usize,
        rounding: Option<HalfType>,
    ) -> Result<(), String> {
        let list = dir.join(modules::MODULES);
        let list = list.display();
        let mut width = hidden;
        let (mut transformed, mut pooled) = (false, false);
        for module in modules {
            match module.kind.as_str() {
                _ if !module.is_known => {
                    let kind = shown(&module.kind);
                    return Err(format!(
                        "{list} lists {kind}, which is not a module of sentence-transformers: its code is never run"
                    ));
                }
                "Transformer" if transformed => {
                    return Err(format!("{list} lists two transformers; one is supported"));
                }
                "Transformer" => {
                    transformed = true;
                    self.take_limits(dir, module)?;
                }
                kind if !transformed => {
                    return Err(format!("{list} lists {kind} first, expected the transformer"));
                }
                "Pooling" if pooled => {
                    return Err(format!("{list} lists two poolings; one is supported"));
                }
                "Pooling" => {
                    pooled = true;
                    let settings = Settings::of(dir, module.file("config.json"), true)?;
                    self.poolings = poolings(&settings)?;
                    self.skipped = usize::from(!settings.flag("include_prompt", true)?);
                    width *= self.poolings.len();
                }
                _ => match Step::read(dir, module, rounding)? {
                    Some((Of::Text, step)) if pooled => {
                        width = step.width(width).map_err(|reason| format!("{list}: {reason}"))?;
                        self.of_text.push(step);
                    }
                    // There is no vector of the text yet.
                    Some((Of::Text, Step::Normalise)) | None => {}
                    Some((Of::Text, _)) => {
                        return Err(format!(
                            "{list} lists {} before the pooling, whose output it takes",
                            module.kind
                        ));
                    }
                    // The vectors of tokens are no longer read.
                    Some((Of::Tokens, _)) if pooled => {}
                    Some((Of::Tokens, step)) => {
                        width = step.width(width).map_err(|reason| format!("{list}: {reason}"))?;
                        self.of_tokens.push(step);
                    }
                },
            }
        }
        match pooled {
            true => Ok(()),
            false => Err(format!("{list} lists no pooling, so a text has no vector")),
        }
    }

    /// The longest text, and settings of the transformer that must not differ from ours.
    fn take_limits(&mut self, dir: &Path, module: &Module) -> Result<(), String> {
        if let Some(folder) = module.folder.as_ref().filter(|_| transformer_folder(dir).is_none()) {
            let list = dir.join(modules::MODULES);
            return Err(format!(
                "{}: the path of the transformer is {folder:?}, expected \"\": put its files beside the list",
                list.display()
            ));
        }
        let there = |name: &&&str| dir.join(module.file(name)).is_file();
        let name = SENTENCE_TRANSFORMER.iter().find(there).unwrap_or(&SENTENCE_TRANSFORMER[0]);
        let settings = Settings::of(dir, module.file(name), false)?;
        let is = |field: &str, value: &str| match settings.text(field)? {
            Some(found) if found != value => Err(settings.refuse(field, value)),
            _ => Ok(()),
        };
        is("transformer_task", "feature-extraction")?;
        is("module_output_name", step::TOKENS)?;
        let plain = [("method", "forward"), ("method_output_name", "last_hidden_state")];
        let is_plain = |of: &Value| plain.iter().all(|(field, value)| of[field] == *value);
        if let Some(modalities) = settings.object("modality_config")?
            && !(modalities.len() == 1 && modalities.get("text").is_some_and(is_plain))
        {
            let expected = "the last hidden state of texts alone";
            return Err(settings.refuse("modality_config", expected));
        }
        if settings.flag("do_lower_case", false)? {
            return Err(
                settings.refuse("do_lower_case", "false: let tokenizer.json write small letters")
            );
        }
        const TOKENIZER: [&str; 2] = ["tokenizer_args", "processor_kwargs"];
        const LIMIT: &str = "model_max_length";
        let unread = ["config_args", "config_kwargs", "processing_kwargs", "query_expansion"];
        for field in unread.into_iter().chain(TOKENIZER).chain(["model_args", "model_kwargs"]) {
            // These change neither the model nor the tokens.
            let harmless = [
                "torch_dtype",
                "dtype",
                "attn_implementation",
                "use_safetensors",
                "add_pooling_layer",
            ];
            let Some(own) = settings.object(field)? else { continue };
            let is_read = |key: &str| match field {
                "model_args" | "model_kwargs" => harmless.contains(&key),
                _ => TOKENIZER.contains(&field) && key == LIMIT,
            };
            if let Some(key) = own.keys().find(|key| !is_read(key)) {
                return Err(settings.refuse(field, &format!("no {}", shown(key))));
            }
            let types = ["torch_dtype", "dtype"].map(|key| own.get(key).and_then(Value::as_str));
            let other = types.into_iter().flatten().find(|name| !USUAL_TYPES.contains(name));
            if field.starts_with("model") && other.is_some() {
                let refused = settings.refuse(field, "float32");
                self.say(format!("{refused}: the weights still have the type given by --dtype"));
            }
        }
        let limit = TOKENIZER.iter().find_map(|field| settings.get(field)?.get(LIMIT));
        let limit = match limit {
            Some(value) => value.as_u64().and_then(|limit| usize::try_from(limit).ok()),
            None => settings.count("max_seq_length", 1..=1 << 31)?,
        };
        self.max_tokens = limit.or(self.max_tokens);
        Ok(())
    }

    /// Adds to the note.
    fn say(&mut self, note: String) {
        self.note = Some(match self.note.take() {
            Some(before) => format!("{before}; {note}"),
            None => note,
        });
    }

    /// The default prompt, the length of the embedding, and how many tokens are not pooled.
    fn take_prompt(&mut self, dir: &Path, tokenizer: Option<&Tokenizer>) -> Result<(), String> {
        let settings = Settings::of(dir, ENCODER.to_owned(), false)?;
        self.kept = settings.count("truncate_dim", 1..=1 << 31)?;
        if settings.text("similarity_fn_name")?.is_some_and(|name| name != "cosine") {
            let refused = settings.refuse("similarity_fn_name", "cosine");
            self.say(format!("{refused}: texts are still compared by cosine"));
        }
        let prompts = settings.object("prompts")?;
        let left_out = std::mem::take(&mut self.skipped) > 0;
        let Some(name) = settings.text("default_prompt_name")? else { return Ok(()) };
        let usual = matches!(name, "query" | "document");
        let prompt = match prompts.and_then(|prompts| prompts.get(name)) {
            Some(Value::String(prompt)) => prompt.clone(),
            Some(Value::Null) => String::new(),
            None if usual => String::new(),
            _ => {
                let known = prompts.into_iter().flat_map(|prompts| prompts.keys()).take(16);
                let known: Vec<String> = known.map(|key| shown(key)).collect();
                let expected = format!("the name of a text in prompts, which has {known:?}");
                return Err(settings.refuse("default_prompt_name", &expected));
            }
        };
        if prompt.is_empty() {
            return Ok(());
        }
        if let (true, Some(tokenizer)) = (left_out, tokenizer) {
            let limit = self.max_tokens.unwrap_or(usize::MAX);
            let (tokens, _) =
                tokenizer.encode_cut(&prompt, limit).map_err(|error| error.to_string())?;
            let ends = tokens.last().is_some_and(|last| tokenizer.is_special(*last));
            self.skipped = tokens.len() - usize::from(ends);
        }
        self.prompt = Some((name.to_owned(), prompt));
        Ok(())
    }

    /// Tokenizes a text with its prompt and all special tokens, to at most `limit` tokens and those
    /// of the encoder; returns the number of tokens cut as well.
    ///
    /// # Errors
    /// [`TokenizerError::Encode`].
    pub fn encode(
        &self,
        tokenizer: &Tokenizer,
        text: &str,
        limit: usize,
    ) -> Result<(Vec<u32>, usize), TokenizerError> {
        let limit = limit.min(self.max_tokens.unwrap_or(usize::MAX));
        match &self.prompt {
            Some((_, prompt)) => tokenizer.encode_cut(&format!("{prompt}{text}"), limit),
            None => tokenizer.encode_cut(text, limit),
        }
    }

    /// Embeddings (sequences, features) of the sequences of a batch, from the output (rows, hidden)
    /// of the last layer.
    ///
    /// # Panics
    /// If there is not one row for each token.
    #[must_use]
    pub fn vectors(&self, hidden: MatRef<'_, f32>, batch: &Batch) -> Mat<f32> {
        let mut tokens = None;
        for step in &self.of_tokens {
            tokens = Some(step.apply(tokens.unwrap_or_else(|| hidden.to_mat())));
        }
        let tokens = tokens.as_ref().map_or(hidden, Mat::view);
        let pooled = self.poolings.iter().map(|pooling| pooling.pool(tokens, batch, self.skipped));
        let parts: Vec<Mat<f32>> = pooled.collect();
        let mut vectors = joined(parts);
        for step in &self.of_text {
            vectors = step.apply(vectors);
        }
        match self.kept.filter(|kept| *kept < vectors.cols()) {
            Some(kept) => Mat::from_fn(vectors.rows(), kept, |row, col| vectors.row(row)[col]),
            None => vectors,
        }
    }
}

/// The rows of all parts, one beside the other.
fn joined(mut parts: Vec<Mat<f32>>) -> Mat<f32> {
    if parts.len() == 1 {
        return parts.remove(0);
    }
    let rows = parts.first().map_or(0, Mat::rows);
    let width = parts.iter().map(Mat::cols).sum();
    let mut joined = Mat::zeros(rows, width);
    for row in 0..rows {
        let numbers = parts.iter().flat_map(|part| part.row(row));
        joined.row_mut(row).iter_mut().zip(numbers).for_each(|(into, number)| *into = *number);
    }
    joined
}

/// The poolings of a configuration: by name, or by the fields of older files.
fn poolings(settings: &Settings) -> Result<Vec<Pooling>, String> {
    const FIELD: &str = "pooling_mode";
    if settings.has(FIELD) {
        let names = match settings.get(FIELD) {
            Some(Value::Array(names)) => names.iter().collect(),
            other => other.into_iter().collect::<Vec<&Value>>(),
        };
        let expected =
            "cls, max, mean, mean_sqrt_len_tokens, weightedmean, lasttoken, or a list of these";
        let one = |name: &&Value| {
            let known = MODES.iter().find(|(mode, ..)| name.as_str() == Some(mode));
            known.map(|(.., pooling)| *pooling).ok_or_else(|| settings.refuse(FIELD, expected))
        };
        return match names.len() {
            0 => Err(settings.refuse(FIELD, expected)),
            1..=6 => names.iter().map(one).collect(),
            _ => Err(settings.refuse(FIELD, "at most 6 of them")),
        };
    }
    let mut poolings = Vec::new();
    for (_, field, pooling) in MODES {
        if settings.flag(field, false)? {
            poolings.push(pooling);
        }
    }
    Ok(if poolings.is_empty() { vec![Pooling::Mean] } else { poolings })
}
