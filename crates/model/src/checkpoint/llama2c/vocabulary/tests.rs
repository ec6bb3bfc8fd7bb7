use super::*;
use crate::tokenizer::{Bos, Tokenizer};
use linwright_tensor::{RngKey, RngStream};

/// The bytes of a tokenizer with these pieces after the byte tokens; scores fall from 0.
fn file(pieces: &[String]) -> Vec<u8> {
    let special = ["<unk>", "\n<s>\n", "\n</s>\n"].map(str::to_owned);
    let bytes = (0..256).map(|b| format!("<0x{b:02X}>"));
    let mut file = 16i32.to_le_bytes().to_vec();
    let mut push = |score: f32, piece: &str| {
        file.extend(score.to_le_bytes());
        file.extend((piece.len() as i32).to_le_bytes());
        file.extend(piece.as_bytes());
    };
    special.into_iter().chain(bytes).for_each(|piece| push(0.0, &piece));
    for (index, piece) in pieces.iter().enumerate() {
        push(-(index as f32), piece);
    }
    file
}

/// llama2.c's own procedure, without any cleverness: look at every adjacent pair, merge the best,
/// begin again.
fn direct(pieces: &[String], scores: &[f32], text: &str) -> Vec<u32> {
    let find = |piece: &str| pieces.iter().skip(3).position(|p| p == piece).map(|at| at + 3);
    let mut ids = vec![BOS as usize];
    if !text.is_empty() {
        ids.extend(find(" "));
    }
    for c in text.chars() {
        let piece = c.to_string();
        match find(&piece) {
            Some(id) => ids.push(id),
            None => ids.extend(piece.bytes().map(|b| b as usize + FIRST_BYTE)),
        }
    }
    loop {
        let mut best: Option<(f32, usize, usize)> = None;
        for at in 1..ids.len().max(1) - 1 {
            let joined = format!("{}{}", pieces[ids[at]], pieces[ids[at + 1]]);
            if let Some(id) = find(&joined)
                && best.is_none_or(|(score, ..)| scores[id] > score)
            {
                best = Some((scores[id], at, id));
            }
        }
        let Some((_, at, id)) = best else { break };
        ids[at] = id;
        ids.remove(at + 1);
    }
    ids.into_iter().map(|id| id as u32).collect()
}

/// Characters, and then pieces that join two earlier ones, as training makes them.
fn random_pieces(stream: &mut RngStream) -> Vec<String> {
    let mut pieces: Vec<String> =
        [" ", "a", "b", "c", "e", "n", "t", ".", "ñ", "€", "ab", " t"].map(str::to_owned).to_vec();
    while pieces.len() < 90 {
        let [left, right] = [0, 1].map(|_| pieces[stream.below(pieces.len())].clone());
        let joined = left + &right;
        if joined.len() <= 16 && !pieces.contains(&joined) {
            pieces.push(joined);
        }
    }
    // As sentencepiece has it: pieces of several characters first, single ones last.
    let (mut long, short): (Vec<String>, Vec<String>) =
        pieces.into_iter().partition(|piece| piece.chars().count() > 1);
    long.extend(short);
    long
}

fn random_text(stream: &mut RngStream) -> String {
    const PARTS: [&str; 18] = [
        "a", "b", "c", "e", "n", "t", " ", " ", ".", "\n", "ñ", "€", "x", "▁", "日本", "🙂", "<s>",
        "tent",
    ];
    (0..stream.below(40)).map(|_| PARTS[stream.below(PARTS.len())]).collect()
}

#[test]
fn ids_are_those_of_the_direct_procedure() {
    let mut stream = RngKey::new(3).fold("vocabulary").stream();
    for _ in 0..4 {
        let extra = random_pieces(&mut stream);
        let bytes = file(&extra);
        let vocab = 259 + extra.len();
        let (pieces, scores) = read_pieces(&bytes, vocab).unwrap();
        let vocabulary = Vocabulary::parse(Path::new("tok.bin"), &bytes, vocab).unwrap();
        let json = vocabulary.tokenizer_json().to_string();
        let config = vocabulary.tokenizer_config(32);
        let path = Path::new("tokenizer.json");
        let tokenizer = Tokenizer::from_bytes(path, json.as_bytes(), Some(&config)).unwrap();
        assert_eq!(
            (tokenizer.bos(), tokenizer.eos(), tokenizer.vocab()),
            (Some(1), Some(2), vocab)
        );
        let fixed =
            ["", " ", "  ", "\n", "\n\n a", "a\r\n", "tab\t", "<s> </s> <0x41>", "▁a", "ñandú €5"];
        let fixed = fixed.into_iter().map(str::to_owned);
        for text in fixed.chain((0..400).map(|_| random_text(&mut stream))).collect::<Vec<_>>() {
            let ids = tokenizer.encode_document(&text, Bos::Auto).unwrap();
            assert_eq!(ids, direct(&pieces, &scores, &text), "{text:?}");
            assert_eq!(tokenizer.encode(&text, true).unwrap(), ids);
            assert_eq!(tokenizer.decode(&ids, true).unwrap(), text);
        }
    }
}

#[test]
fn hostile_files_are_refused_with_the_token() {
    let pieces = ["a", "b", "ab"].map(str::to_owned);
    let good = file(&pieces);
    let parse = |bytes: &[u8], vocab| match Vocabulary::parse(Path::new("tok.bin"), bytes, vocab) {
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    };
    assert_eq!(parse(&good, 262), "");
    for cut in 0..good.len() {
        assert!(parse(&good[..cut], 262).contains("ends inside token"), "cut at {cut}");
    }
    let changed = |at: usize, with: [u8; 4]| {
        let mut bytes = good.clone();
        bytes[at..at + 4].copy_from_slice(&with);
        bytes
    };
    let last = good.len() - 2;
    let cases = [
        (good.clone(), 261, "bytes follow the last"),
        (good.clone(), 200, "needs 259"),
        (changed(4, f32::NAN.to_le_bytes()), 262, "token 0 has score NaN"),
        (changed(8, (-1i32).to_le_bytes()), 262, "token 0 has -1 bytes"),
        (changed(8, i32::MAX.to_le_bytes()), 262, "token 0 has 2147483647 bytes"),
        (changed(12, *b"nope"), 262, "token 0 is \"nope>\""),
        ([&good[..last], &[0xff, 0xfe]].concat(), 262, "token 261 is not valid UTF-8"),
        (file(&["a", "b", "a"].map(str::to_owned)), 262, "tokens 259 and 261 are both \"a\""),
    ];
    for (bytes, vocab, said) in cases {
        let error = parse(&bytes, vocab);
        assert!(error.starts_with("tok.bin: ") && error.contains(said), "{error}");
    }
    let mut tied = file(&["a", "b", "ab", "ba"].map(str::to_owned));
    let (len, score) = (tied.len(), (-2.0f32).to_le_bytes());
    tied[len - 10..len - 6].copy_from_slice(&score);
    assert!(parse(&tied, 263).contains("the same score -2"), "{}", parse(&tied, 263));
}
