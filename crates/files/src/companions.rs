//! Names of the files that accompany the weights of a model.

/// File name of the configuration.
pub const CONFIG: &str = "config.json";
/// Name of the settings for generation.
pub const GENERATION_CONFIG: &str = "generation_config.json";
/// Companion files that are copied unchanged, besides those of the tokenizer and of generation.
pub const LICENCES: [&str; 4] = ["LICENSE", "LICENSE.txt", "NOTICE", "NOTICE.txt"];
/// Largest companion file in bytes.
pub const COMPANION_BYTES: u64 = 1 << 28;

/// Every file that a tokenizer is read from.
pub const TOKENIZER_FILES: [&str; 14] = [
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "vocab.json",
    "merges.txt",
    "encoder.json",
    "vocab.bpe",
    "vocab.txt",
    "chat_template.jinja",
    "chat_template.json",
];

/// File name of the list of modules of a sentence encoder.
pub const SENTENCE_MODULES: &str = "modules.json";
/// Configuration of a sentence encoder: prompts, and the length of its vectors.
pub const SENTENCE_ENCODER: &str = "config_sentence_transformers.json";
/// Configuration of the transformer of a sentence encoder; the first that exists is used.
pub const SENTENCE_TRANSFORMER: [&str; 7] = [
    "sentence_bert_config.json",
    "sentence_roberta_config.json",
    "sentence_distilbert_config.json",
    "sentence_camembert_config.json",
    "sentence_albert_config.json",
    "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json",
];

/// Names of all files that are read or kept with the weights.
pub fn companion_names() -> impl Iterator<Item = &'static str> {
    let sentence = [SENTENCE_MODULES, SENTENCE_ENCODER].into_iter().chain(SENTENCE_TRANSFORMER);
    let own = [CONFIG, GENERATION_CONFIG].into_iter().chain(TOKENIZER_FILES);
    own.chain(LICENCES).chain(sentence)
}
