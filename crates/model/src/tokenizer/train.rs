//! Training of a byte-level BPE tokenizer.
//!
//! Every byte has a token, so any text can be encoded; the most frequent pairs of neighbours are
//! merged until the vocabulary is full. Source: Sennrich et al. 2016, arXiv:1508.07909, on bytes
//! and with the pre-tokenizer of GPT-2. The beginning-of-sequence token has id 0, the
//! end-of-sequence token id 1, and the post-processor adds the former before every text.

use super::TokenizerError;
use serde_json::{Value, json};
use std::path::Path;
use tokenizers::models::TrainerWrapper;
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::processors::template::TemplateProcessing;
use tokenizers::{AddedToken, Tokenizer as Library};

/// The beginning-of-sequence token of trained tokenizers; its id is 0.
pub const BOS_TOKEN: &str = "<s>";
/// The end-of-sequence token of trained tokenizers; its id is 1.
pub const EOS_TOKEN: &str = "</s>";

/// Smallest vocabulary: one token per byte and the two special ones.
pub const MIN_VOCAB: usize = 258;

/// The two files of a trained tokenizer.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainedTokenizer {
    /// Content of `tokenizer.json`.
    pub json: String,
    /// Content of `tokenizer_config.json`.
    pub config: Value,
}

/// Trains a tokenizer of `vocab` tokens on `texts`, for a model with a context of `context` tokens.
/// Equal texts give equal bytes.
///
/// # Errors
/// [`TokenizerError::Invalid`] if the texts do not yield `vocab` tokens.
pub fn train_bpe<S: AsRef<str> + Sync + Send>(
    texts: &[S],
    vocab: usize,
    context: usize,
) -> Result<TrainedTokenizer, TokenizerError> {
    let json = train(texts, vocab).map_err(|source| failed(source.to_string()))?;
    let found = json.1;
    if found != vocab {
        return Err(failed(format!(
            "the texts yield {found} tokens, {vocab} were requested; give more text, or request fewer tokens, at least {MIN_VOCAB}"
        )));
    }
    let config = json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": BOS_TOKEN,
        "eos_token": EOS_TOKEN,
        "add_bos_token": true,
        "clean_up_tokenization_spaces": false,
        "model_max_length": context,
    });
    Ok(TrainedTokenizer { json: json.0, config })
}

fn train<S: AsRef<str> + Sync + Send>(
    texts: &[S],
    vocab: usize,
) -> tokenizers::Result<(String, usize)> {
    let mut tokenizer = Library::new(BPE::default());
    tokenizer.with_pre_tokenizer(Some(ByteLevel::new(false, true, true)));
    tokenizer.with_decoder(Some(ByteLevel::new(false, true, true)));
    let special = [BOS_TOKEN, EOS_TOKEN].map(|token| AddedToken::from(token, true));
    let trainer = BpeTrainer::builder()
        .vocab_size(vocab)
        .show_progress(false)
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .special_tokens(special.to_vec())
        .build();
    let mut trainer = TrainerWrapper::BpeTrainer(trainer);
    tokenizer.train(&mut trainer, texts.iter().map(AsRef::as_ref))?;
    let post_processor = TemplateProcessing::builder()
        .try_single(format!("{BOS_TOKEN} $A"))?
        .try_pair(format!("{BOS_TOKEN} $A {BOS_TOKEN}:1 $B:1"))?
        .special_tokens(vec![(BOS_TOKEN, 0)])
        .build()?;
    tokenizer.with_post_processor(Some(post_processor));
    Ok((tokenizer.to_string(false)?, tokenizer.get_vocab_size(true)))
}

fn failed(reason: String) -> TokenizerError {
    TokenizerError::Invalid { path: Path::new("new tokenizer").into(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer::{Bos, Tokenizer};

    fn texts() -> Vec<String> {
        let words = ["river", "harbour", "window", "garden", "letter", "morning"];
        (0..400)
            .map(|i| {
                let word = |step: usize| words[(i * step + i / 7) % words.len()];
                format!("The {} and the {} saw {i} of the {}s.", word(1), word(2), word(5))
            })
            .collect()
    }

    #[test]
    fn same_texts_same_bytes_and_any_text_survives() {
        let trained = train_bpe(&texts(), 320, 128).unwrap();
        assert_eq!(trained, train_bpe(&texts(), 320, 128).unwrap());
        let path = Path::new("t");
        let tokenizer =
            Tokenizer::from_bytes(path, trained.json.as_bytes(), Some(&trained.config)).unwrap();
        assert_eq!((tokenizer.vocab(), tokenizer.bos(), tokenizer.eos()), (320, Some(0), Some(1)));
        let words = tokenizer.encode_document("The garden.", Bos::Auto).unwrap();
        assert_eq!((words[0], words.len()), (0, 4), "{words:?}");
        for text in ["The garden and a letter.\n", "été 魚 \u{0}\t  x", ""] {
            let ids = tokenizer.encode(text, false).unwrap();
            assert_eq!(tokenizer.decode(&ids, true).unwrap(), text);
        }
    }

    #[test]
    fn too_little_text_is_said() {
        let error = train_bpe(&["one two"], 400, 128).unwrap_err();
        assert!(error.to_string().contains("400 were requested"), "{error}");
        let error = train_bpe(&texts(), 100, 128).unwrap_err();
        assert!(error.to_string().contains("258"), "{error}");
    }
}
