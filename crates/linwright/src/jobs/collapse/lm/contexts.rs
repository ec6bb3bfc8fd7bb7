//! A text in windows, with the class of each token.

use super::CollapseLm;
use crate::jobs::kit::source::OpenModel;
use crate::jobs::kit::{Failure, Session};
use linwright_data::Corpus;
use linwright_model::tokenizer::{Bos, Tokenizer};
use linwright_tensor::RngKey;

/// A text in windows, with the class of each token.
pub(super) struct Contexts {
    /// Tokens that are read.
    pub(super) windows: Vec<Vec<u32>>,
    /// The class of each of them, if it is kept, and one of a permutation of all of these.
    pub(super) labels: Vec<Vec<Option<[u32; 2]>>>,
    /// The tokens of the classes.
    pub(super) tokens: Vec<u32>,
    /// Different tokens that could be classes, kept or not.
    pub(super) seen: usize,
    /// Tokens with a class, kept or not.
    pub(super) contexts: u64,
}

/// Windows, and the token that names the class of each of their tokens.
type Named = (Vec<Vec<u32>>, Vec<Vec<Option<u32>>>);

impl Contexts {
    pub(super) fn of(
        job: &CollapseLm,
        corpus: &Corpus,
        model: &OpenModel,
        session: &Session<'_>,
    ) -> Result<Self, Failure> {
        let config = model.loaded.decoder.config();
        let window = job.window.min(config.max_positions);
        if window < job.window {
            session.note(&format!("note: windows of {window} tokens, the positions of the model"));
        }
        let tokenizer = model.tokenizer()?;
        let (windows, named) = match config.is_causal() {
            true => next_tokens(job, corpus, tokenizer, window)?,
            false => own_tokens(job, corpus, tokenizer, window)?,
        };
        let counts = counts(&named, config.vocab)?;
        let most = job.max_count.unwrap_or(u64::MAX);
        let is_kept = |token: &u32| (job.min_count..=most).contains(&counts[*token as usize]);
        let tokens: Vec<u32> = (0..config.vocab as u32).filter(is_kept).collect();
        let mut classes = vec![None; config.vocab];
        for (class, token) in tokens.iter().enumerate() {
            classes[*token as usize] = Some(class as u32);
        }
        let seen = counts.iter().filter(|count| **count > 0).count();
        if tokens.len() < 2 {
            return Err(Failure::usage(format!(
                "{} of {seen} tokens come {} to {most} times; collapse compares 2 or more",
                tokens.len(),
                job.min_count
            ))
            .hint("give more text, or other values of --min-count and --max-count"));
        }
        let class = |token: &Option<u32>| token.and_then(|token| classes[token as usize]);
        let labels: Vec<Vec<Option<u32>>> =
            named.iter().map(|window| window.iter().map(class).collect()).collect();
        let labels = with_permuted(&labels, RngKey::new(job.options.seed).fold("collapse"));
        Ok(Self { windows, labels, tokens, seen, contexts: counts.iter().sum() })
    }
}

/// Windows whose tokens are named by the next one; the last token of a document is in none. Where
/// a document begins with the beginning-of-sequence token, each window does, in place of its own
/// first token, which then names nothing.
fn next_tokens(
    job: &CollapseLm,
    corpus: &Corpus,
    tokenizer: &Tokenizer,
    window: usize,
) -> Result<Named, Failure> {
    let (mut windows, mut named) = Named::default();
    let mut left = job.num_tokens.unwrap_or(usize::MAX);
    let first = tokenizer.first(Bos::Auto)?;
    for document in &corpus.documents {
        let mut ids = tokenizer.encode_document(&document.text, Bos::Auto)?;
        ids.truncate(left);
        left -= ids.len();
        for start in (0..ids.len().saturating_sub(1)).step_by(window) {
            let end = (start + window).min(ids.len() - 1);
            let mut own = ids[start..end].to_vec();
            let mut next: Vec<Option<u32>> =
                ids[start + 1..=end].iter().copied().map(Some).collect();
            if let (Some(first), 1..) = (first, start) {
                (own[0], next[0]) = (first, None);
            }
            windows.push(own);
            named.push(next);
        }
    }
    Ok((windows, named))
}

/// Windows of an encoder, between the special tokens that it reads around a text, whose other
/// tokens are named by themselves.
fn own_tokens(
    job: &CollapseLm,
    corpus: &Corpus,
    tokenizer: &Tokenizer,
    window: usize,
) -> Result<Named, Failure> {
    let around = tokenizer.encode("", true)?;
    let (before, after) = around.split_at(around.len().min(1));
    let room = window.saturating_sub(around.len());
    if room == 0 {
        let message = format!("--window {window}: the tokens around a text leave no room in it");
        return Err(Failure::usage(message).hint("give a larger window"));
    }
    let (mut windows, mut named) = Named::default();
    let mut left = job.num_tokens.unwrap_or(usize::MAX);
    for document in &corpus.documents {
        let mut ids = tokenizer.encode(&document.text, false)?;
        ids.truncate(left);
        left -= ids.len();
        for ids in ids.chunks(room) {
            windows.push([before, ids, after].concat());
            let unnamed = |tokens: &[u32]| vec![None; tokens.len()];
            let own = ids.iter().copied().map(Some).collect();
            named.push([unnamed(before), own, unnamed(after)].concat());
        }
    }
    Ok((windows, named))
}

/// How often each token names a class.
fn counts(named: &[Vec<Option<u32>>], vocab: usize) -> Result<Vec<u64>, Failure> {
    let mut counts = vec![0u64; vocab];
    for token in named.iter().flatten().flatten() {
        match counts.get_mut(*token as usize) {
            Some(count) => *count += 1,
            None => {
                return Err(Failure::general(format!(
                    "the tokenizer gives token {token}, but the model has {vocab}"
                )));
            }
        }
    }
    Ok(counts)
}

/// Classes, each with one of a permutation of all.
fn with_permuted(labels: &[Vec<Option<u32>>], key: RngKey) -> Vec<Vec<Option<[u32; 2]>>> {
    let mut permuted: Vec<u32> = labels.iter().flatten().flatten().copied().collect();
    key.fold("labels").stream().shuffle(&mut permuted);
    let mut permuted = permuted.into_iter();
    let mut pair = |label: &Option<u32>| label.and_then(|label| Some([label, permuted.next()?]));
    labels.iter().map(|window| window.iter().map(&mut pair).collect()).collect()
}
