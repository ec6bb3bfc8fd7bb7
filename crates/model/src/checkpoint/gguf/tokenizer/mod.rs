//! The tokenizer of a GGUF file as a `tokenizer.json`.

mod bytelevel;
mod pieces;
mod words;

pub(super) use bytelevel::cut_name;

use crate::checkpoint::gguf_fault::GgufFault;
use linwright_files::gguf::{MetaValue, Metadata};
use serde_json::{Map, Value, json};

/// Tokenizer files for the tokenizers library and for transformers.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenizerFiles {
    /// `tokenizer.json`.
    pub tokenizer: Value,
    /// `tokenizer_config.json`.
    pub config: Value,
    /// Omitted parts, for a report.
    pub notes: Vec<String>,
}

/// Keys of the vocabulary.
const MODEL: &str = "tokenizer.ggml.model";
const TOKENS: &str = "tokenizer.ggml.tokens";
const TYPES: &str = "tokenizer.ggml.token_type";
const SCORES: &str = "tokenizer.ggml.scores";
const MERGES: &str = "tokenizer.ggml.merges";
/// Key of a whole `tokenizer.json`.
const WHOLE: &str = "tokenizer.huggingface.json";
/// Longest token in bytes; known ones are far shorter.
const MAX_TOKEN_BYTES: usize = 1 << 12;

/// Token types by their ids in files.
pub(super) const NORMAL: u8 = 1;
pub(super) const UNKNOWN: u8 = 2;
pub(super) const CONTROL: u8 = 3;
pub(super) const USER_DEFINED: u8 = 4;
pub(super) const UNUSED: u8 = 5;
pub(super) const BYTE: u8 = 6;

/// Tokens with their types, and the ids of special tokens.
struct Vocabulary<'a> {
    tokens: Vec<&'a str>,
    kinds: Vec<u8>,
    bos: Option<usize>,
    eos: Option<usize>,
    unknown: Option<usize>,
    separator: Option<usize>,
    padding: Option<usize>,
    adds_bos: Option<bool>,
    adds_eos: Option<bool>,
    space_prefix: Option<bool>,
}

fn wrong(reason: impl Into<String>) -> GgufFault {
    GgufFault::Tokenizer { reason: reason.into() }
}

/// The tokenizer of a model with `vocab` tokens.
pub(super) fn files(
    bytes: &[u8],
    metadata: &Metadata,
    vocab: usize,
) -> Result<TokenizerFiles, GgufFault> {
    let kind = match metadata.get(MODEL) {
        Some(MetaValue::Text(kind)) => kind.as_str(),
        Some(other) => return Err(wrong(format!("{MODEL} is {}", other.describe()))),
        None => return Err(wrong(format!("the file has no key {MODEL}"))),
    };
    let mut notes = Vec::new();
    let whole = match metadata.get(WHOLE) {
        Some(MetaValue::Text(text)) => match serde_json::from_str::<Value>(text) {
            Ok(whole) => Some(whole),
            Err(error) => {
                notes.push(format!("{WHOLE} is not JSON ({error}) and is ignored"));
                None
            }
        },
        _ => None,
    };
    if whole.is_none() && !matches!(kind, "llama" | "gpt2" | "bert") {
        let known = "\"llama\", \"gpt2\" and \"bert\"";
        return Err(wrong(format!("{MODEL} is {kind:?}, known are {known}")));
    }
    let vocabulary = Vocabulary::read(bytes, metadata, vocab, &mut notes)?;
    let tokenizer = match (whole, kind) {
        (Some(whole), _) => vocabulary.with_ends(whole),
        (None, "llama") => pieces::tokenizer(bytes, metadata, &vocabulary)?,
        (None, "gpt2") => bytelevel::tokenizer(bytes, metadata, &vocabulary)?,
        (None, _) => words::tokenizer(&vocabulary)?,
    };
    Ok(TokenizerFiles { tokenizer, config: vocabulary.config(metadata, kind), notes })
}

impl<'a> Vocabulary<'a> {
    fn read(
        bytes: &'a [u8],
        metadata: &Metadata,
        vocab: usize,
        notes: &mut Vec<String>,
    ) -> Result<Self, GgufFault> {
        let tokens: Vec<&str> = match metadata.get(TOKENS) {
            Some(MetaValue::Array(array)) => match array.texts(bytes) {
                Some(texts) => texts.collect(),
                None => return Err(wrong(format!("{TOKENS} is not an array of texts"))),
            },
            _ => return Err(wrong(format!("the file has no array {TOKENS}"))),
        };
        if tokens.len() > vocab {
            let found = tokens.len();
            return Err(wrong(format!("it has {found} tokens, the embedding {vocab}")));
        }
        if let Some(id) = tokens.iter().position(|token| token.len() > MAX_TOKEN_BYTES) {
            let found = tokens[id].len();
            return Err(wrong(format!(
                "token {id} has {found} bytes, at most {MAX_TOKEN_BYTES} are allowed"
            )));
        }
        let kinds = match metadata.get(TYPES) {
            None => vec![NORMAL; tokens.len()],
            Some(MetaValue::Array(array)) if array.len() == tokens.len() => {
                let numbers = array.numbers(bytes).map(|n| n.map(|kind| kind as u8).collect());
                numbers.ok_or_else(|| wrong(format!("{TYPES} is not an array of numbers")))?
            }
            Some(other) => {
                let (found, count) = (other.describe(), tokens.len());
                return Err(wrong(format!("{TYPES} is {found}, expected {count} numbers")));
            }
        };
        let count = tokens.len();
        let mut id = |name: &str| id(metadata, name, count, notes);
        let mut vocabulary = Self {
            tokens,
            kinds,
            bos: id("bos"),
            eos: id("eos"),
            unknown: id("unknown"),
            separator: id("seperator"),
            padding: id("padding"),
            adds_bos: flag(metadata, "add_bos_token")?,
            adds_eos: flag(metadata, "add_eos_token")?,
            space_prefix: flag(metadata, "add_space_prefix")?,
        };
        if vocabulary.unknown.is_none() {
            vocabulary.unknown = vocabulary.kinds.iter().position(|kind| *kind == UNKNOWN);
        }
        Ok(vocabulary)
    }

    /// The map from tokens to ids. Fails on two tokens with the same text.
    fn map(&self, change: impl Fn(usize, &str) -> String) -> Result<Map<String, Value>, GgufFault> {
        let mut map = Map::new();
        for (id, token) in self.tokens.iter().enumerate() {
            if let Some(other) = map.insert(change(id, token), json!(id)) {
                return Err(wrong(format!("tokens {other} and {id} are both {token:?}")));
            }
        }
        Ok(map)
    }

    /// Added tokens, which are matched before pre-tokenization.
    fn added(&self) -> Vec<Value> {
        let added = |(id, kind): (usize, &u8)| {
            let special = *kind == CONTROL || *kind == UNKNOWN;
            (special || *kind == USER_DEFINED).then(|| {
                json!({
                    "id": id,
                    "content": self.tokens[id],
                    "single_word": false,
                    "lstrip": false,
                    "rstrip": false,
                    "normalized": false,
                    "special": special,
                })
            })
        };
        self.kinds.iter().enumerate().filter_map(added).collect()
    }

    /// A complete tokenizer whose post-processor adds the first and last token according to the
    /// flags of the file, which llama.cpp reads.
    fn with_ends(&self, mut whole: Value) -> Value {
        let processor = whole["post_processor"].to_string();
        let puts = |id: usize| processor.contains(&Value::from(self.tokens[id]).to_string());
        let differs = |said: Option<bool>, id: Option<usize>| {
            id.is_some_and(|id| said.is_some_and(|said| said != puts(id)))
        };
        if differs(self.adds_bos, self.bos) || differs(self.adds_eos, self.eos) {
            let bos = self.bos.filter(|&id| self.adds_bos.unwrap_or_else(|| puts(id)));
            let eos = self.eos.filter(|&id| self.adds_eos.unwrap_or_else(|| puts(id)));
            whole["post_processor"] = self.template(bos, eos).unwrap_or_default();
        }
        whole
    }

    /// The post-processor that adds special tokens, if any.
    fn template(&self, first: Option<usize>, last: Option<usize>) -> Option<Value> {
        if first.is_none() && last.is_none() {
            return None;
        }
        let special = |id: Option<usize>, type_id: u32| {
            id.map(|id| json!({"SpecialToken": {"id": self.tokens[id], "type_id": type_id}}))
        };
        let text =
            |name: &str, type_id: u32| Some(json!({"Sequence": {"id": name, "type_id": type_id}}));
        let of = |name: &str, type_id: u32| {
            [special(first, type_id), text(name, type_id), special(last, type_id)]
        };
        let single: Vec<Value> = of("A", 0).into_iter().flatten().collect();
        let pair: Vec<Value> = of("A", 0).into_iter().chain(of("B", 1)).flatten().collect();
        let mut specials = Map::new();
        for id in [first, last].into_iter().flatten() {
            let token = self.tokens[id];
            specials.insert(token.into(), json!({"id": token, "ids": [id], "tokens": [token]}));
        }
        Some(json!({
            "type": "TemplateProcessing",
            "single": single,
            "pair": pair,
            "special_tokens": specials,
        }))
    }

    /// `tokenizer_config.json`.
    fn config(&self, metadata: &Metadata, kind: &str) -> Value {
        let token = |id: Option<usize>| id.map(|id| self.tokens[id]);
        let mut config = Map::new();
        config.insert("tokenizer_class".into(), json!("PreTrainedTokenizerFast"));
        for (field, id) in [
            ("bos_token", self.bos),
            ("eos_token", self.eos),
            ("unk_token", self.unknown),
            ("pad_token", self.padding),
        ] {
            if let Some(token) = token(id) {
                config.insert(field.into(), json!(token));
            }
        }
        config.insert("add_bos_token".into(), json!(self.adds_bos.unwrap_or(kind == "llama")));
        config.insert("add_eos_token".into(), json!(self.adds_eos.unwrap_or(false)));
        config.insert("clean_up_tokenization_spaces".into(), json!(false));
        if let Some(MetaValue::Text(template)) = metadata.get("tokenizer.chat_template") {
            config.insert("chat_template".into(), json!(template));
        }
        Value::Object(config)
    }
}

/// Id of a special token. Files mark an absent one by leaving it out, or by the largest 32-bit
/// integer; any other invalid id is ignored with a note, as llama.cpp warns about it.
fn id(metadata: &Metadata, name: &str, count: usize, notes: &mut Vec<String>) -> Option<usize> {
    let key = format!("tokenizer.ggml.{name}_token_id");
    let value = metadata.get(&key)?;
    match value.as_u64() {
        Some(id) if id < count as u64 => return Some(id as usize),
        Some(id) if id == u64::from(u32::MAX) => {}
        _ => notes.push(format!(
            "{key} is {}, there are {count} tokens: it is ignored",
            value.describe()
        )),
    }
    None
}

fn flag(metadata: &Metadata, name: &str) -> Result<Option<bool>, GgufFault> {
    let key = format!("tokenizer.ggml.{name}");
    match metadata.get(&key) {
        None => Ok(None),
        Some(MetaValue::Bool(flag)) => Ok(Some(*flag)),
        Some(other) => Err(wrong(format!("{key} is {}", other.describe()))),
    }
}
