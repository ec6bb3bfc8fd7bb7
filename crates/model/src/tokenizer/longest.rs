//! Largest number of bytes per token, by which too long texts are detected before they are encoded.

use super::Tokenizer;
use serde_json::Value;
use tokenizers::Model;
use tokenizers::models::ModelWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;

/// Largest shrinkage by a Unicode normal form: four bytes of a mathematical letter become one ASCII
/// letter. Canonical forms shrink less.
const NORMAL_FORM: usize = 4;

impl Tokenizer {
    /// Largest number of bytes that one token represents, so that `n` bytes are at least `n /
    /// longest_token` tokens. None without such a bound: if spaces or accents are dropped, or
    /// unknown text of any length becomes one token.
    #[must_use]
    pub fn longest_token(&self) -> Option<usize> {
        let added = self.inner.get_added_tokens_decoder();
        if added.values().any(|token| token.lstrip || token.rstrip) {
            return None;
        }
        let normalizer = serde_json::to_value(self.inner.get_normalizer()).ok()?;
        let cuts = serde_json::to_value(self.inner.get_pre_tokenizer()).ok()?;
        let shrinks = shrinkage(&normalizer)?;
        let in_bytes = [&normalizer, &cuts].into_iter().any(is_byte_level);
        if !keeps(&cuts) || !self.knows_every_byte(in_bytes) {
            return None;
        }
        // In a byte-level vocabulary each character is one byte; elsewhere bytes count as they are.
        let length = |token: &String| if in_bytes { token.chars().count() } else { token.len() };
        let own = self.inner.get_model().get_vocab();
        let own = own.keys().map(length);
        let longest = own.chain(added.values().map(|token| token.content.len())).max()?;
        Some(longest.max(1) * shrinks)
    }

    /// Whether the model can encode any text without an unknown token.
    fn knows_every_byte(&self, in_bytes: bool) -> bool {
        let falls_back = match self.inner.get_model() {
            ModelWrapper::BPE(model) if in_bytes => {
                let mut bytes = ByteLevel::alphabet().into_iter();
                return bytes.all(|byte| model.token_to_id(&byte.to_string()).is_some());
            }
            ModelWrapper::BPE(model) => model.byte_fallback,
            ModelWrapper::Unigram(model) => model.byte_fallback(),
            ModelWrapper::WordPiece(_) | ModelWrapper::WordLevel(_) => false,
        };
        let model = self.inner.get_model();
        falls_back && (0..=255).all(|b| model.token_to_id(&format!("<0x{b:02X}>")).is_some())
    }
}

/// The list of components under this key; a single component as a list of one.
fn parts<'a>(part: &'a Value, list: &str) -> &'a [Value] {
    match part.get(list) {
        Some(Value::Array(parts)) => parts,
        _ => std::slice::from_ref(part),
    }
}

fn kind(part: &Value) -> Option<&str> {
    part.get("type").and_then(Value::as_str)
}

fn is_byte_level(part: &Value) -> bool {
    let all = parts(part, "pretokenizers").iter().chain(parts(part, "normalizers"));
    all.into_iter().any(|part| kind(part) == Some("ByteLevel"))
}

/// Largest number of input bytes per output byte of a normalizer; none if it drops text.
fn shrinkage(normalizer: &Value) -> Option<usize> {
    if normalizer.is_null() {
        return Some(1);
    }
    let of_part = |part: &Value| match kind(part)? {
        "NFC" | "NFD" | "NFKC" | "NFKD" => Some(NORMAL_FORM),
        "Prepend" | "ByteLevel" => Some(1),
        "Replace" => {
            let replaced = part.get("pattern")?.get("String")?.as_str()?;
            (part.get("content")?.as_str()?.len() >= replaced.len()).then_some(1)
        }
        _ => None,
    };
    parts(normalizer, "normalizers").iter().map(of_part).product()
}

/// Whether a pre-tokenizer keeps all text.
fn keeps(cuts: &Value) -> bool {
    let keeps = |part: &Value| match kind(part) {
        Some("ByteLevel" | "Metaspace" | "Digits" | "UnicodeScripts" | "FixedLength") => true,
        Some("Split" | "Punctuation") => {
            part.get("behavior").is_some_and(|behavior| behavior != "Removed")
        }
        _ => false,
    };
    cuts.is_null() || parts(cuts, "pretokenizers").iter().all(keeps)
}

#[cfg(test)]
mod tests {
    use super::super::train::train_bpe;
    use super::*;
    use serde_json::json;
    use std::path::Path;

    fn read(json: &Value) -> Tokenizer {
        let bytes = json.to_string();
        Tokenizer::from_bytes(Path::new("tokenizer.json"), bytes.as_bytes(), None).unwrap()
    }

    #[test]
    fn a_text_has_at_least_as_many_tokens_as_its_bytes_say() {
        let texts = ["the barn by the lake, the barn by the mill".to_owned()];
        let trained = train_bpe(&texts, 270, 64).unwrap().json;
        let json: Value = serde_json::from_str(&trained).unwrap();
        let tokenizer = read(&json);
        let longest = tokenizer.longest_token().unwrap();
        assert!((4..64).contains(&longest), "{longest}");
        let spaces = " ".repeat(999);
        for text in
            ["the barn by the lake", "é→😀", "<|endoftext|>", spaces.as_str(), "\u{0}\u{7f}"]
        {
            let tokens = tokenizer.encode(text, false).unwrap();
            assert!(tokens.len() * longest >= text.len(), "{text:?}: {tokens:?}");
        }
        // Some token is as long as that.
        let all = (0..tokenizer.vocab() as u32).map(|id| tokenizer.decode(&[id], false).unwrap());
        assert_eq!(all.map(|text| text.len()).max(), Some(longest));

        let changed = |part: &str, value: Value| {
            let mut json = json.clone();
            json[part] = value;
            read(&json).longest_token()
        };
        assert_eq!(changed("normalizer", json!({"type": "NFC"})), Some(4 * longest));
        let grows = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
        let both = json!({"type": "Sequence", "normalizers": [grows, {"type": "NFKC"}]});
        assert_eq!(changed("normalizer", both), Some(4 * longest));
        // A component that drops text, or unknown text as one token, leaves no bound.
        for normalizer in [
            json!({"type": "Lowercase"}),
            json!({"type": "Strip", "strip_left": true, "strip_right": true}),
            json!({"type": "Replace", "pattern": {"String": "  "}, "content": " "}),
        ] {
            assert_eq!(changed("normalizer", normalizer.clone()), None, "{normalizer}");
        }
        let bytes = json["pre_tokenizer"].clone();
        let words =
            json!({"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, bytes]});
        assert_eq!(changed("pre_tokenizer", words), None);
        assert_eq!(changed("pre_tokenizer", Value::Null), None, "its bytes have no tokens");
        let eats = json!([{"id": 0, "content": json["added_tokens"][0]["content"], "special": true,
                           "single_word": false, "lstrip": false, "rstrip": true, "normalized": false}]);
        assert_eq!(changed("added_tokens", eats), None);
    }
}
