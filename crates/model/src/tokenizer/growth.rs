//! Limits on the growth of texts in the components of a `tokenizer.json`, and on the backtracking
//! of their patterns.
//!
//! A normalizer that replaces a letter by two, repeated forty times, turns one byte into 10^12.
//! Each step multiplies the length by a factor; only steps whose patterns can occur in the output
//! of an earlier step multiply with it.

use super::TokenizerError;
use super::files::malformed;
use serde_json::Value;
use std::path::Path;

/// Largest number of bytes from one byte. A space as U+2581 has three, compatibility forms have up
/// to eleven.
const MAX_GROWTH: usize = 64;
/// Largest number of bytes or tokens added around a text.
const MAX_AROUND: usize = 1024;
/// Number of repetitions that counts as unlimited.
const MANY: u32 = 16;

/// A step that lengthens texts.
struct Step {
    /// The replaced text; any text if absent.
    reads: Option<String>,
    writes: String,
    factor: usize,
}

/// Checks a component and its nested components.
pub(super) fn check(path: &Path, place: &str, component: &Value) -> Result<(), TokenizerError> {
    let mut components = Found::default();
    components.collect(component);
    let wrong =
        |found: String, expected: String| Err(malformed(path, place.to_owned(), found, expected));
    let growth = growth(&components.steps);
    if growth > MAX_GROWTH {
        let found = match growth {
            usize::MAX => "steps that multiply texts without limit".to_owned(),
            growth => format!("steps that make up to {growth} bytes of one"),
        };
        return wrong(found, format!("at most {MAX_GROWTH}"));
    }
    if components.around > MAX_AROUND {
        let around = components.around;
        return wrong(
            format!("{around} bytes or tokens around every text"),
            format!("at most {MAX_AROUND}"),
        );
    }
    if let Some(pattern) = components.patterns.iter().find(|pattern| backtracks(pattern)) {
        let pattern: String = pattern.chars().take(60).collect();
        return wrong(
            format!("the pattern {pattern:?}"),
            "no repetition inside a repetition beside what looks around or back: the search for it can \
             take time without end"
                .into(),
        );
    }
    Ok(())
}

/// Largest number of bytes from one byte.
fn growth(steps: &[Step]) -> usize {
    let mut after: Vec<usize> = Vec::with_capacity(steps.len());
    for step in steps {
        let before = steps.iter().zip(&after);
        let fed = before.filter(|(earlier, _)| match &step.reads {
            None => true,
            Some(reads) => reads.chars().any(|letter| earlier.writes.contains(letter)),
        });
        let most = fed.map(|(_, growth)| *growth).max().unwrap_or(1);
        after.push(step.factor.saturating_mul(most));
    }
    after.into_iter().max().unwrap_or(1)
}

/// The nested components of a component.
#[derive(Default)]
struct Found {
    steps: Vec<Step>,
    /// Bytes or tokens around a text.
    around: usize,
    patterns: Vec<String>,
}

impl Found {
    fn collect(&mut self, component: &Value) {
        match component {
            Value::Array(parts) => parts.iter().for_each(|part| self.collect(part)),
            Value::Object(fields) => {
                self.step(component);
                for (name, part) in fields {
                    if name == "Regex"
                        && let Some(pattern) = part.as_str()
                    {
                        self.patterns.push(pattern.to_owned());
                    }
                    self.collect(part);
                }
            }
            _ => {}
        }
    }

    /// Components are recognised by their fields, since the library accepts some without a type.
    fn step(&mut self, component: &Value) {
        let text = |name: &str| component.get(name).and_then(Value::as_str);
        let length = |name: &str| component.get(name).and_then(Value::as_array).map_or(0, Vec::len);
        if let (Some(pattern), Some(content)) = (component.get("pattern"), text("content")) {
            self.steps.push(replacement(pattern, content));
        }
        if let Some(letter) = text("replacement") {
            self.replaces(" ", letter);
        }
        // A charsmap writes its replacements, whose length is checked there.
        if component.get("precompiled_charsmap").is_some() {
            self.steps.push(Step { reads: None, writes: String::new(), factor: 4 });
        }
        // Two bytes for each non-ASCII byte.
        if text("type") == Some("ByteLevel") {
            self.steps.push(Step { reads: None, writes: String::new(), factor: 2 });
        }
        for name in ["suffix", "word_delimiter_token"] {
            if let Some(replaced) = text(name) {
                self.replaces(replaced, " ");
            }
        }
        self.around += text("prepend").map_or(0, str::len);
        self.around += ["ids", "single", "pair"].map(length).iter().sum::<usize>();
    }

    fn replaces(&mut self, reads: &str, writes: &str) {
        self.steps.push(replacement(&Value::from(reads), writes));
    }
}

/// Replacement of a string or of pattern matches.
fn replacement(pattern: &Value, content: &str) -> Step {
    let writes = content.to_owned();
    let reads = pattern.as_str().or_else(|| pattern.get("String").and_then(Value::as_str));
    if let Some(reads) = reads.filter(|reads| !reads.is_empty()) {
        let factor = content.len().div_ceil(reads.len()).max(1);
        return Step { reads: Some(reads.to_owned()), writes, factor };
    }
    // A match has one byte, or possibly none.
    let regex = pattern.get("Regex").and_then(Value::as_str).unwrap_or_default();
    let fits_nothing = regex.is_empty()
        || ["*", "?", "|", "^", "$", "\\b", "{0", "{,"].iter().any(|part| regex.contains(part));
    let factor = content.len().max(1) + usize::from(fits_nothing && !content.is_empty());
    Step { reads: None, writes, factor }
}

/// Whether a pattern may backtrack exponentially: one with look-around or back-references, which no
/// automaton can run, and a repetition inside a repetition.
fn backtracks(pattern: &str) -> bool {
    let looks = ["(?=", "(?!", "(?<=", "(?<!", "(?>", "\\k", "\\K", "\\G", "(?("];
    let refers = (1..10).any(|group| pattern.contains(&format!("\\{group}")));
    (refers || looks.iter().any(|look| pattern.contains(look))) && repeats_repetition(pattern)
}

fn repeats_repetition(pattern: &str) -> bool {
    let letters: Vec<char> = pattern.chars().collect();
    // For each open group whether it contains a repetition.
    let mut open = vec![false];
    let mut at = 0;
    while at < letters.len() {
        let mut repeated_inside = false;
        match letters[at] {
            '\\' => at += 2,
            '[' => at = end_of_class(&letters, at),
            '(' => {
                open.push(false);
                at += 1;
                continue;
            }
            ')' => {
                repeated_inside = open.pop().unwrap_or(false);
                if open.is_empty() {
                    open.push(false);
                }
                at += 1;
            }
            _ => at += 1,
        }
        let is_repeated = is_repetition(&letters[at.min(letters.len())..]);
        if is_repeated && repeated_inside {
            return true;
        }
        if let Some(last) = open.last_mut() {
            *last |= is_repeated || repeated_inside;
        }
    }
    false
}

/// Index after a character class, which may be nested.
fn end_of_class(letters: &[char], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0_usize);
    while at < letters.len() {
        match letters[at] {
            '\\' => at += 1,
            '[' => depth += 1,
            // A bracket at the start of a class is a literal.
            ']' if at > start + 1 && letters[at - 1] != '[' => depth -= 1,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            break;
        }
    }
    at
}

/// Whether a quantifier follows that repeats without limit, or many times.
fn is_repetition(rest: &[char]) -> bool {
    match rest.first() {
        Some('*' | '+') => true,
        Some('{') => {
            let inner: String = rest[1..].iter().take_while(|c| **c != '}').collect();
            let most = inner.rsplit(',').next().unwrap_or_default().trim();
            match most.parse::<u32>() {
                Ok(most) => most > MANY,
                Err(_) => most.is_empty() && inner.contains(','),
            }
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fault(component: &Value) -> Option<String> {
        check(Path::new("t.json"), "normalizer", component).err().map(|error| error.to_string())
    }

    fn replace(pattern: &Value, content: &str) -> Value {
        json!({"type": "Replace", "pattern": pattern, "content": content})
    }

    fn sequence(parts: &[Value]) -> Value {
        json!({"type": "Sequence", "normalizers": parts})
    }

    #[test]
    fn steps_that_multiply_are_refused() {
        let doubles = replace(&json!({"String": "a"}), "aa");
        let anything = replace(&json!({"Regex": "."}), "xy");
        let between = replace(&json!({"String": ""}), "x");
        let bytes = json!({"type": "ByteLevel"});
        let suffix = json!({"type": "BPEDecoder", "suffix": ""});
        for part in [doubles, anything, between, bytes, suffix] {
            assert_eq!(fault(&sequence(std::slice::from_ref(&part))), None, "{part}");
            let message = fault(&sequence(&vec![part.clone(); 40])).unwrap();
            assert!(message.contains("bytes of one"), "{message}");
            let message = fault(&sequence(&vec![part; 400])).unwrap();
            assert!(message.contains("without limit"), "{message}");
        }
        let long = replace(&json!({"String": "a"}), &"b".repeat(100));
        assert!(fault(&long).unwrap().contains("up to 100 bytes of one"));
    }

    #[test]
    fn what_stands_around_every_text_is_bounded() {
        let prepend = |text: &str| json!({"type": "Prepend", "prepend": text});
        assert_eq!(fault(&prepend("\u{2581}")), None);
        assert!(fault(&prepend(&"x".repeat(1 << 20))).unwrap().contains("1048576 bytes or tokens"));
        let many = vec![prepend("xxxxxxxxxxxxxxxx"); 100];
        assert!(fault(&sequence(&many)).unwrap().contains("1600 bytes or tokens"));
        let tokens = vec![json!({"SpecialToken": {"id": "a", "type_id": 0}}); 2000];
        assert!(fault(&json!({"single": tokens})).is_some());
    }

    #[test]
    fn steps_that_do_not_feed_each_other_do_not_multiply() {
        let letters = ["a", "b", "c", "d", "e", "f", "g"];
        let parts: Vec<Value> =
            letters.iter().map(|letter| replace(&json!({"String": letter}), "\u{2581}")).collect();
        assert_eq!(fault(&sequence(&parts)), None);
        let llama = [
            json!({"type": "Prepend", "prepend": "\u{2581}"}),
            replace(&json!({"String": " "}), "\u{2581}"),
        ];
        assert_eq!(fault(&sequence(&llama)), None);
    }

    #[test]
    fn patterns_that_search_without_end_are_refused() {
        let split = |pattern: &str| json!({"type": "Split", "pattern": {"Regex": pattern}});
        for pattern in [
            r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}]*[\p{Ll}\p{Lm}]+(?i:'s|'t)?|\s+(?!\S)",
            r"(?=(\d{3})+(?!\d))",
            r"(a+)+b",
            r"[(+]+(?=x)",
            r"\(+(?!\S)",
        ] {
            assert_eq!(fault(&split(pattern)), None, "{pattern}");
        }
        for pattern in [r"(a+)+(?!b)", r"(?:a*)*\1", r"(?<=x)(?:\w+\s?)*$", r"((x{2,})y){3,}(?=z)"]
        {
            let message = fault(&split(pattern)).unwrap();
            assert!(message.contains("the pattern"), "{message}");
        }
    }
}
