//! Texts that the model writes itself: sampled at temperature 1, without cuts, from its
//! beginning-of-sequence token; of a model without one from its end-of-sequence token, after which
//! documents begin in training; of a model without either each from a token drawn uniformly
//! (LLM-QAT, Liu et al. 2023, arXiv:2305.17888, section 3.1). A text ends at the end-of-sequence
//! token or after `seq_len` tokens, its first token included.

use super::CalibrationOptions;
use crate::jobs::kit::source::OpenModel;
use crate::jobs::kit::{Failure, Session};
use linwright_model::generate::{Choice, Limits, generate};
use linwright_model::{Transformer, WindowsError};
use linwright_run::Monitor;
use linwright_tensor::RngKey;

/// Tokens of the texts that are written at once, which bounds the keys and values kept.
const ROOM: usize = 4096;

/// Writes texts until they have `num_tokens` tokens. A model that ends its texts at once may give
/// fewer, since no more than half as many texts are begun.
pub(super) fn write(
    options: &CalibrationOptions<'_>,
    model: &OpenModel,
    session: &mut Session<'_>,
) -> Result<Vec<Vec<u32>>, Failure> {
    let decoder = &model.loaded.decoder;
    check(options, decoder)?;
    if options.dry_run {
        return Ok(stand_in(options, decoder.config().vocab));
    }
    session.step("sampling calibration text");
    let key = RngKey::new(options.seed).fold("calibration samples");
    let (start, end_tokens) = (Start::of(model), ends(model));
    // The first token is given.
    let limits = Limits { new_tokens: options.seq_len.saturating_sub(1), end_tokens };
    let at_once = (ROOM / options.seq_len.max(1)).max(1);
    let most = options.num_tokens.div_ceil(2);
    let (mut texts, mut tokens) = (Vec::new(), 0);
    for (round, first) in (0..).zip((0..most).step_by(at_once)) {
        let count = at_once.min(most - first);
        let begun: Vec<[u32; 1]> =
            (first..first + count).map(|index| [start.token(index, key)]).collect();
        let prompts: Vec<&[u32]> = begun.iter().map(<[u32; 1]>::as_slice).collect();
        let choice = Choice {
            temperature: 1.0,
            key: key.fold("texts").fold_index(round),
            ..Choice::greedy()
        };
        let cancelled = session.cancelled();
        let mut on_token = |_, _| !cancelled();
        let written = generate(decoder, &prompts, &choice, &limits, &mut on_token)
            .map_err(|error| Failure::general(format!("sampling calibration text: {error}")))?;
        if cancelled() {
            return Err(Failure::interrupted(
                "interrupted while sampling calibration text".to_owned(),
            ));
        }
        for (prompt, written) in prompts.iter().zip(written) {
            if tokens >= options.num_tokens {
                return Ok(texts);
            }
            let text = [*prompt, &written.tokens].concat();
            // A first token alone says nothing of the model.
            if text.len() > 1 {
                tokens += text.len();
                texts.push(text);
            }
        }
        session.progress(tokens.min(options.num_tokens) as u64, options.num_tokens as u64);
    }
    Ok(texts)
}

/// Refuses models that continue no text, and windows beyond their positions.
fn check(options: &CalibrationOptions<'_>, decoder: &Transformer) -> Result<(), Failure> {
    let config = decoder.config();
    if !decoder.has_head() || !config.is_causal() {
        return Err(Failure::usage(format!(
            "--calibration samples: {} is an encoder, which cannot generate text",
            options.model
        ))
        .hint("give --calibration FILE or task:NAME"));
    }
    let (window, positions) = (options.seq_len, config.max_positions);
    match window > positions {
        true => Err(WindowsError::TooLong { window, positions }.into()),
        false => Ok(()),
    }
}

/// As many tokens as would be written, for estimates.
fn stand_in(options: &CalibrationOptions<'_>, vocab: usize) -> Vec<Vec<u32>> {
    let tokens: Vec<u32> =
        (0..options.num_tokens).map(|index| (index % vocab.max(1)) as u32).collect();
    tokens.chunks(options.seq_len.max(1)).map(<[u32]>::to_vec).collect()
}

/// How texts begin.
enum Start {
    /// All with this token.
    Token(u32),
    /// Each with one of so many, drawn.
    Drawn(usize),
}

impl Start {
    fn of(model: &OpenModel) -> Self {
        let (config, tokenizer) = (model.loaded.decoder.config(), &model.loaded.tokenizer);
        let bos = tokenizer.as_ref().and_then(|tokenizer| tokenizer.bos()).or(config.bos_token);
        let eos = tokenizer.as_ref().and_then(|tokenizer| tokenizer.eos());
        let eos = eos.or(config.eos_tokens.first().copied());
        let known = |token: &u32| (*token as usize) < config.vocab;
        match bos.or(eos).filter(known) {
            Some(token) => Self::Token(token),
            None => Self::Drawn(config.vocab),
        }
    }

    /// The first token of a text.
    fn token(&self, index: usize, key: RngKey) -> u32 {
        match self {
            Self::Token(token) => *token,
            Self::Drawn(vocab) => {
                let key = key.fold("first tokens").fold_index(index as u64);
                key.stream().below(*vocab) as u32
            }
        }
    }
}

/// End-of-sequence tokens of a model.
fn ends(model: &OpenModel) -> Vec<u32> {
    let tokenizer = model.loaded.tokenizer.as_ref();
    let own = tokenizer.and_then(|tokenizer| tokenizer.eos());
    let mut all = model.loaded.decoder.config().eos_tokens.clone();
    all.extend(own);
    all.sort_unstable();
    all.dedup();
    all
}
