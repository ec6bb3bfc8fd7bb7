//! The tokenizer of a new model, new or from a directory, and the tokens of its text.

use super::ModelOptions;
use super::documents::Texts;
use crate::jobs::kit::{Failure, Session};
use crate::new_model::{encode, pretty};
use linwright_files::{COMPANION_BYTES, TOKENIZER_FILES};
use linwright_model::tokenizer::train::{MIN_VOCAB, train_bpe};
use linwright_model::tokenizer::{Tokenizer, TokenizerError};
use linwright_model::train_lm::Documents;
use linwright_run::{Monitor, input, sha256_hex};
use std::path::Path;

/// A tokenizer with its files, and the tokens of a text.
pub(super) struct Tokens {
    pub(super) tokenizer: Tokenizer,
    /// Names and contents of its files.
    pub(super) files: Vec<(String, Vec<u8>)>,
    /// SHA-256 of the files.
    pub(super) sha256: String,
    /// Windows of the documents that are trained on.
    pub(super) train: Documents,
    /// Windows of the documents that are held out, without ends of sequence.
    pub(super) held_out: Documents,
}

impl Tokens {
    /// Trains or reads the tokenizer, and encodes the texts.
    pub(super) fn new(
        options: &ModelOptions,
        texts: &Texts,
        session: &mut Session<'_>,
    ) -> Result<Self, Failure> {
        let (tokenizer, files) = match &options.tokenizer {
            Some(folder) => read(folder)?,
            None => {
                session.step("training the tokenizer");
                train(options, &texts.training())?
            }
        };
        session.step("encoding");
        let context = Some(options.context);
        let train = encode(&tokenizer, &texts.training(), true, context)?;
        let held_out = encode(&tokenizer, &texts.held_out(), false, context)?;
        if train.predicted_count() == 0 || held_out.predicted_count() == 0 {
            return Err(Failure::general("the tokenizer gives the texts no tokens"));
        }
        let list = files.iter().map(|(name, bytes)| format!("{name} {}\n", sha256_hex(bytes)));
        let sha256 = sha256_hex(list.collect::<String>().as_bytes());
        Ok(Self { tokenizer, files, sha256, train, held_out })
    }
}

type Found = (Tokenizer, Vec<(String, Vec<u8>)>);

fn train(options: &ModelOptions, texts: &[&str]) -> Result<Found, Failure> {
    // Each merge needs a pair of bytes of its own, and the library reserves room for all of them.
    let most = texts.iter().map(|text| text.len()).sum::<usize>().saturating_add(MIN_VOCAB);
    if options.vocab > most {
        let message =
            format!("--vocab {}: the training text can have at most {most} tokens", options.vocab);
        return Err(Failure::usage(message));
    }
    let trained =
        train_bpe(texts, options.vocab, options.context).map_err(|error| match error {
            TokenizerError::Invalid { reason, .. } => {
                Failure::usage(format!("--vocab {}: {reason}", options.vocab))
            }
            error => error.into(),
        })?;
    let json = trained.json.into_bytes();
    let tokenizer =
        Tokenizer::from_bytes(Path::new("new tokenizer"), &json, Some(&trained.config))?;
    let config = pretty(&trained.config);
    let files = [("tokenizer.json", json), ("tokenizer_config.json", config)];
    Ok((tokenizer, files.map(|(name, bytes)| (name.to_owned(), bytes)).to_vec()))
}

/// Reads the tokenizer of a directory.
fn read(folder: &Path) -> Result<Found, Failure> {
    let tokenizer = Tokenizer::from_folder(folder)?;
    let mut files = Vec::new();
    for name in TOKENIZER_FILES {
        let path = folder.join(name);
        if path.is_file() {
            let bytes = input::read(&path, COMPANION_BYTES);
            let bytes = bytes.map_err(|error| Failure::io(&path.display().to_string(), &error))?;
            files.push((name.to_owned(), bytes));
        }
    }
    Ok((tokenizer, files))
}
