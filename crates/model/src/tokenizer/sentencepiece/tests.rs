use crate::tokenizer::{Tokenizer, TokenizerError};
use serde_json::{Value, json};
use std::path::Path;

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 128 {
        bytes.push((value % 128) as u8 | 128);
        value /= 128;
    }
    bytes.push(value as u8);
    bytes
}

fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

fn message(field: u64, content: &[u8]) -> Vec<u8> {
    [varint(field << 3 | 2), varint(content.len() as u64), content.to_vec()].concat()
}

fn piece(text: &[u8], score: f32, kind: u64) -> Vec<u8> {
    let score = [varint(2 << 3 | 5), score.to_le_bytes().to_vec()].concat();
    message(1, &[message(1, text), score, number(3, kind)].concat())
}

/// A model of `<unk> <s> </s>`, the given pieces and, last, the settings.
fn model(pieces: &[Vec<u8>], trainer: &[u8], normalizer: &[u8]) -> Vec<u8> {
    let first = [piece(b"<unk>", 0.0, 2), piece(b"<s>", 0.0, 3), piece(b"</s>", 0.0, 3)].concat();
    [first, pieces.concat(), message(2, trainer), message(3, normalizer)].concat()
}

fn letters() -> Vec<Vec<u8>> {
    let row = ["▁a", "b", "▁", "a", "ab"].into_iter().zip([-1.0, -4.0, -5.0, -6.0, -2.0]);
    row.map(|(text, score)| piece(text.as_bytes(), score, 1)).collect()
}

fn bpe(pieces: &[Vec<u8>]) -> Vec<u8> {
    model(pieces, &number(3, 2), &[])
}

fn load(name: &str, bytes: Vec<u8>, settings: Value) -> Result<Tokenizer, TokenizerError> {
    let files = [
        (name.to_owned(), bytes),
        ("tokenizer_config.json".to_owned(), settings.to_string().into_bytes()),
    ];
    Tokenizer::from_files(Path::new("x"), &files, None).map(Option::unwrap)
}

fn error(bytes: Vec<u8>) -> TokenizerError {
    match load("tokenizer.model", bytes, json!({})) {
        Err(error) => error,
        Ok(_) => panic!("the model was taken"),
    }
}

#[test]
fn merges_follow_scores_and_the_model_says_whether_a_space_comes_first() {
    let tokenizer = load("tokenizer.model", bpe(&letters()), json!({})).unwrap();
    // "▁ab": "▁a" has the higher score, so it is merged before "ab".
    assert_eq!(tokenizer.encode("ab", false).unwrap(), [3, 4]);
    assert_eq!(tokenizer.encode(" ab<s>ab", false).unwrap(), [3, 4, 1, 7]);
    assert_eq!((tokenizer.bos(), tokenizer.eos(), tokenizer.vocab()), (Some(1), Some(2), 8));
    let bare = model(&letters(), &number(3, 2), &number(3, 0));
    let bare = load("tokenizer.model", bare, json!({})).unwrap();
    assert_eq!(bare.encode("ab", false).unwrap(), [7]);
    let llama = json!({"tokenizer_class": "LlamaTokenizer", "legacy": true});
    let legacy = load("tokenizer.model", bpe(&letters()), llama).unwrap();
    assert_eq!(legacy.encode("ab<s>ab", false).unwrap(), [3, 4, 1, 3, 4]);
}

#[test]
fn every_truncation_is_an_error_or_a_smaller_model() {
    let whole = bpe(&letters());
    for length in 0..whole.len() {
        let cut = load("tokenizer.model", whole[..length].to_vec(), json!({}));
        if let Err(error) = cut {
            assert!(error.to_string().starts_with("x/tokenizer.model: "), "{error}");
        }
    }
    let cut = error(whole[..whole.len() - 1].to_vec()).to_string();
    assert!(cut.contains("truncated"), "{cut}");
}

#[test]
fn every_changed_byte_is_an_error_or_a_model_that_encodes() {
    let whole = bpe(&letters());
    for at in 0..whole.len() {
        for change in [1, 8, 64, 128, 255] {
            let mut bytes = whole.clone();
            bytes[at] ^= change;
            if let Ok(tokenizer) = load("tokenizer.model", bytes, json!({}))
                && let Ok(ids) = tokenizer.encode("a b<s>\u{0}x", true)
            {
                let _ = tokenizer.decode(&ids, true);
            }
        }
    }
}

#[test]
fn broken_messages_are_said_with_their_place() {
    let huge = [varint(1 << 3 | 2), varint(u64::MAX)].concat();
    let endless = vec![0x80; 40];
    let group = varint(9 << 3 | 3);
    let zero = vec![0, 0];
    let text = message(1, &number(1, 5));
    let word = message(1, &[varint(2 << 3), varint(7)].concat());
    let latin = bpe(&[piece(b"\xe9", 0.0, 1)]);
    let infinite = bpe(&[piece(b"x", f32::INFINITY, 1)]);
    let kind = bpe(&[piece(b"x", 0.0, 9)]);
    let algorithm = model(&[], &number(3, 7), &[]);
    for (bytes, said) in [
        (huge, "truncated"),
        (endless, "more than 64 bits"),
        (group, "wire type 3"),
        (zero, "number 0"),
        (text, "a whole number in field 1, expected bytes"),
        (word, "a whole number in field 2, expected a number of four bytes"),
        (latin, "not UTF-8"),
        (infinite, "score inf"),
        (kind, "piece type 9"),
        (algorithm, "model type 7"),
        (b"aGVsbG8= 0\nd29ybGQ= 1\n".to_vec(), "sentencepiece model"),
    ] {
        let error = error(bytes);
        assert!(matches!(error, TokenizerError::Malformed { .. }), "{error}");
        assert!(error.to_string().contains("x/tokenizer.model: byte "), "{error}");
        assert!(error.to_string().contains(said), "{said}: {error}");
    }
}

#[test]
fn models_that_make_no_sense_are_refused() {
    let twice = bpe(&[piece(b"b", 0.0, 1), piece(b"b", 0.0, 1)]);
    let empty = bpe(&[piece(b"", 0.0, 1)]);
    let long = bpe(&[piece("x".repeat(5000).as_bytes(), 0.0, 1)]);
    let unknown = model(&letters(), &[number(3, 2), number(40, 99)].concat(), &[]);
    let negative = model(&letters(), &[number(3, 2), number(40, u64::MAX)].concat(), &[]);
    let letter = model(&letters(), &[number(3, 2), number(40, 3)].concat(), &[]);
    let words = model(&letters(), &number(3, 3), &[]);
    let suffix = model(&letters(), &[number(3, 2), number(24, 1)].concat(), &[]);
    let table = model(&letters(), &number(3, 2), &message(2, b"abc"));
    for (bytes, said) in [
        (twice, "piece 4: found \"b\", as piece 3"),
        (empty, "piece 3: found 0 bytes"),
        (long, "piece 3: found 5000 bytes"),
        (unknown, "unk_id: found 99 among 8"),
        (negative, "unk_id: found -1"),
        (letter, "unk_id: found 3"),
        (words, "model_type: found Word"),
        (suffix, "spaces that are not marked before words"),
        (table, "precompiled_charsmap"),
        (Vec::new(), "unk_id: found 0 among 0"),
    ] {
        let error = error(bytes).to_string();
        assert!(error.contains(said), "{said}: {error}");
    }
    let class = |name: &str| json!({"tokenizer_class": name});
    let other = load("tokenizer.model", bpe(&letters()), class("T5Tokenizer")).unwrap_err();
    assert!(other.to_string().contains("Bpe for Prefixed"), "{other}");
    let other = load("tokenizer.model", bpe(&letters()), class("XLNetTokenizer")).unwrap_err();
    assert!(matches!(other, TokenizerError::Unsupported { .. }), "{other}");
}

/// A table whose trie has one entry, "a" to the text at `value`; the library would follow it
/// blindly.
fn table(root: u32, units: usize, leaf: u32, texts: &[u8]) -> Vec<u8> {
    let mut trie = vec![0_u32; units];
    trie[0] = root;
    // From node 256 the letter a leads to 256 ^ 97, whose offset 1 leads to its leaf.
    trie[256 ^ 97] = 1 << 10 | 1 << 8 | 97;
    trie[256 ^ 97 ^ 1] = 1 << 31 | leaf;
    let trie: Vec<u8> = trie.into_iter().flat_map(u32::to_le_bytes).collect();
    [(trie.len() as u32).to_le_bytes().to_vec(), trie, texts.to_vec()].concat()
}

#[test]
fn tables_that_lead_outside_are_refused() {
    let good = table(256 << 10, 512, 0, "ab\0é\0".as_bytes());
    assert_eq!(super::charsmap::check(&good), Ok(()));
    let trained = model(&letters(), &number(3, 2), &message(2, &good));
    let tokenizer = load("tokenizer.model", trained, json!({})).unwrap();
    assert_eq!(tokenizer.encode("a", false).unwrap(), [3, 4], "a becomes ab");
    let texts = "ab\0é\0".as_bytes();
    for (bad, said) in [
        (table(4096 << 10, 512, 0, texts), "a node at 4096"),
        (table(256 << 10, 511, 0, texts), "a node at 256"),
        (table(256 << 10, 512, 4, texts), "a replacement at byte 4"),
        (table(256 << 10, 512, 99, texts), "a replacement at byte 99"),
        (table(256 << 10, 512, 0, b"\xff"), "not UTF-8"),
        (good[..good.len() - 2000].to_vec(), "a trie of 2048 bytes"),
        (vec![0, 0, 0, 0], "a trie of 0 bytes"),
        (vec![7, 0, 0, 0, 1, 2, 3], "a trie of 7 bytes"),
    ] {
        let found = super::charsmap::check(&bad).unwrap_err();
        assert!(found.contains(said), "{said}: {found}");
    }
}

#[test]
fn a_vocabulary_of_32_thousand_pieces_loads_at_once() {
    let mut pieces: Vec<String> = Vec::new();
    for length in 1..=4_u32 {
        let count = 13_usize.pow(length).min(31_000);
        pieces.extend((0..count).map(|index| {
            let letter = |place: u32| char::from(b'a' + (index / 13_usize.pow(place) % 13) as u8);
            (0..length).map(letter).collect()
        }));
    }
    let rows: Vec<Vec<u8>> = pieces
        .iter()
        .enumerate()
        .map(|(id, text)| piece(text.as_bytes(), -(id as f32), 1))
        .collect();
    assert!(rows.len() > 30_000, "{}", rows.len());
    let start = std::time::Instant::now();
    load("tokenizer.model", bpe(&rows), json!({})).unwrap();
    let seconds = start.elapsed().as_secs_f64();
    // A tenth of this on an idle core; a quadratic search takes minutes.
    assert!(seconds < 20.0, "{seconds}");
}
