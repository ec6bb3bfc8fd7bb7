//! How answers are generated: `generation_kwargs` and `repeats` of a task file.
//!
//! The rules are those of lm-evaluation-harness 0.4.13 with its model `hf`: tokens are sampled if
//! `do_sample` is true, or if it is absent and the temperature is above 0. `top_k` is 50 unless
//! given, the default of transformers; 0 turns it off. A checkpoint's `generation_config.json` is
//! not read, in contrast to transformers.
//!
//! A random stream belongs to a seed, a task, a document (by its index in the split) and the number
//! of its answer, so that an answer depends neither on batches and threads nor on `--limit`. Its
//! tokens are not those of torch.

use super::description::TaskFile;
use super::prompt::text_of;
use crate::{EvaluationError, Generation, Sampling};
use linwright_run::shown;
use linwright_tensor::RngKey;
use serde_json::{Map, Value, json};

/// Default seed of sampling, that of torch in the harness.
pub(super) const SEED: u64 = 1234;
/// Number of the most likely tokens to sample from, the default of transformers.
const TOP_K: usize = 50;
/// Largest temperature.
const MAX_TEMPERATURE: f64 = 1e3;
/// Most answers of one document.
const MAX_REPEATS: usize = 1 << 16;
/// Names of the largest number of new tokens, in the order in which one counts.
const NEW_TOKENS: [&str; 4] =
    ["max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens"];

/// Generation of the answers of a task.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Answers {
    /// Without seeds.
    generation: Generation,
    /// Number of answers of each document.
    pub(super) repeats: usize,
    key: RngKey,
    seed: u64,
}

impl Answers {
    /// The settings of a task file.
    pub(super) fn of(file: &TaskFile, seed: u64) -> Result<Self, EvaluationError> {
        let d = &file.description;
        let repeats = d.repeats.unwrap_or(1);
        if !(1..=MAX_REPEATS).contains(&repeats) {
            let reason = format!("repeats is {repeats}, expected 1 to {MAX_REPEATS}");
            return Err(file.wrong(reason));
        }
        let none = Map::new();
        let settings = d.generation_kwargs.as_ref().unwrap_or(&none);
        let generation = generation(settings, &d.fewshot_delimiter);
        let generation =
            generation.map_err(|reason| file.wrong(format!("generation_kwargs: {reason}")))?;
        let key = RngKey::new(seed).fold(&d.task);
        Ok(Self { generation, repeats, key, seed })
    }

    /// Generation of one of the answers of the document with this index.
    pub(super) fn generation(&self, document: usize, repeat: usize) -> Generation {
        let mut generation = self.generation.clone();
        if let Some(sampling) = &mut generation.sampling {
            let key = self.key.fold_index(document as u64).fold_index(repeat as u64);
            sampling.seeds = vec![key.stream().bits()];
        }
        generation
    }

    /// The seed, if tokens are sampled.
    pub(super) fn seed(&self) -> Option<u64> {
        self.generation.sampling.as_ref().map(|_| self.seed)
    }

    /// Sampling parameters and seed, for the notes of a result.
    pub(super) fn note(&self) -> Option<String> {
        let Sampling { temperature, top_k, top_p, min_p, seeds: _ } =
            self.generation.sampling.as_ref()?;
        let mut text =
            format!("answers are sampled with seed {}, temperature {temperature}", self.seed);
        let mut add = |name: &str, value: Option<String>| {
            text.extend(value.map(|value| format!(", {name} {value}")));
        };
        add("top-k", top_k.map(|k| k.to_string()));
        add("top-p", top_p.map(|share| share.to_string()));
        add("min-p", min_p.map(|share| share.to_string()));
        add("answers of each document:", (self.repeats > 1).then(|| self.repeats.to_string()));
        Some(text)
    }

    /// The settings, as samples have them.
    pub(super) fn json(&self) -> Value {
        let Generation { until, new_tokens, sampling } = &self.generation;
        let mut settings = json!({"until": until, "max_gen_toks": new_tokens});
        if let Some(Sampling { temperature, top_k, top_p, min_p, seeds: _ }) = sampling {
            settings["do_sample"] = true.into();
            settings["temperature"] = (*temperature).into();
            settings["top_k"] = top_k.unwrap_or(0).into();
            let shares = [("top_p", top_p), ("min_p", min_p)];
            for (name, share) in
                shares.into_iter().filter_map(|(name, share)| Some((name, (*share)?)))
            {
                settings[name] = share.into();
            }
            settings["seed"] = self.seed.into();
        }
        settings
    }
}

/// Generation by `generation_kwargs`. Errors are the reason only.
fn generation(settings: &Map<String, Value>, delimiter: &str) -> Result<Generation, String> {
    let mut generation = Generation::greedy(vec![delimiter.to_owned()], 256);
    let (mut do_sample, mut temperature) = (None, 0.0);
    let (mut top_k, mut top_p, mut min_p) = (Some(TOP_K), None, None);
    for (name, value) in settings {
        let number = |most: f64| {
            let number = value.as_f64().filter(|number| (0.0..=most).contains(number));
            number.ok_or_else(|| {
                format!(
                    "{name} is {}, expected a number from 0 to {most}",
                    shown(&value.to_string())
                )
            })
        };
        match (name.as_str(), value) {
            ("until", Value::String(text)) => generation.until = vec![text.clone()],
            ("until", Value::Array(texts)) => {
                generation.until = texts.iter().cloned().map(text_of).collect();
            }
            ("do_sample", Value::Bool(is_sampled)) => do_sample = Some(*is_sampled),
            ("num_beams", Value::Number(number)) if number.as_u64() == Some(1) => {}
            ("temperature", _) => temperature = number(MAX_TEMPERATURE)?,
            ("top_k", Value::Number(number)) => {
                let k = number.as_u64().ok_or_else(|| format!("top_k is {number}"))?;
                top_k = Some(k as usize).filter(|&k| k > 0);
            }
            ("top_p", _) => top_p = Some(number(1.0)?).filter(|&share| share < 1.0),
            ("min_p", _) => min_p = Some(number(1.0)?).filter(|&share| share > 0.0),
            (name, Value::Number(_)) if NEW_TOKENS.contains(&name) => {}
            _ => {
                return Err(format!(
                    "{}: {} is not supported; known are until, do_sample, temperature, top_k, \
                     top_p, min_p and max_gen_toks, without a search of beams",
                    shown(name),
                    shown(&value.to_string())
                ));
            }
        }
    }
    let lengths = NEW_TOKENS.iter().filter_map(|name| Some((name, settings.get(*name)?)));
    if let Some((name, value)) = lengths.into_iter().next() {
        let tokens = value.as_u64().filter(|&tokens| tokens > 0);
        generation.new_tokens = tokens.ok_or_else(|| format!("{name} is {value}"))? as usize;
    }
    generation.until.retain(|stop| !stop.is_empty());
    if do_sample == Some(true) && temperature == 0.0 {
        return Err("do_sample is true and the temperature 0, or absent, which transformers \
                    refuses; set a temperature above 0, or do_sample: false"
            .into());
    }
    if do_sample.unwrap_or(temperature > 0.0) {
        let seeds = Vec::new();
        generation.sampling = Some(Sampling { temperature, top_k, top_p, min_p, seeds });
    }
    Ok(generation)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(settings: Value) -> Result<Generation, String> {
        generation(settings.as_object().unwrap(), "\n\n")
    }

    #[test]
    fn tokens_are_sampled_where_the_harness_samples() {
        let sampled = |settings: Value| of(settings).unwrap().sampling;
        for greedy in [
            json!({}),
            json!({"temperature": 0.0, "top_p": 0.9}),
            json!({"do_sample": false, "temperature": 0.7}),
        ] {
            assert_eq!(sampled(greedy), None);
        }
        let found = sampled(json!({"temperature": 0.5})).unwrap();
        assert_eq!((found.temperature, found.top_k, found.top_p), (0.5, Some(50), None));
        let all =
            json!({"do_sample": true, "temperature": 0.8, "top_p": 0.95, "top_k": 0, "min_p": 0.1});
        let found = sampled(all).unwrap();
        let want = (None, Some(0.95), Some(0.1));
        assert_eq!((found.top_k, found.top_p, found.min_p), want);
        let lengths = of(json!({"max_tokens": 7, "max_gen_toks": 9, "until": "x"})).unwrap();
        assert_eq!((lengths.new_tokens, lengths.until), (9, vec!["x".to_owned()]));
    }

    #[test]
    fn other_settings_are_refused() {
        for (settings, want) in [
            (json!({"do_sample": true}), "set a temperature above 0"),
            (json!({"do_sample": true, "temperature": 0}), "set a temperature above 0"),
            (json!({"do_sample": "yes"}), "do_sample: \"yes\" is not supported"),
            (json!({"temperature": -1}), "temperature is -1, expected a number from 0 to 1000"),
            (json!({"temperature": null}), "temperature is null"),
            (json!({"top_p": 2}), "top_p is 2, expected a number from 0 to 1"),
            (json!({"top_k": -1}), "top_k is -1"),
            (json!({"num_beams": 4}), "num_beams: 4 is not supported"),
            (json!({"max_gen_toks": 0}), "max_gen_toks is 0"),
        ] {
            let error = of(settings).unwrap_err();
            assert!(error.contains(want), "{error}");
        }
    }
}
