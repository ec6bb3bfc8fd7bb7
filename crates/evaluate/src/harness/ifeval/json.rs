//! Whether a text is JSON, by the rules of Python's `json.loads`: also `NaN` and infinities, any
//! number and any escaped surrogate, but no integer of more than 4300 digits.
//!
//! Deviation: values are nested without a limit, where Python stops with an error.

/// Most digits of an integer that Python converts.
const MOST_DIGITS: usize = 4300;

/// Whether the text is one JSON value.
pub(super) fn is_json(text: &str) -> bool {
    let mut reader = Reader { bytes: text.as_bytes(), at: 0 };
    reader.document().is_some() && reader.at == text.len()
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    /// One value with white space around it. A stack instead of recursion, since nesting is
    /// only limited by the text.
    fn document(&mut self) -> Option<()> {
        let mut open = Vec::new();
        loop {
            self.space();
            match self.peek()? {
                begin @ (b'[' | b'{') => {
                    self.at += 1;
                    self.space();
                    let end = begin + 2;
                    if self.peek()? != end {
                        open.push(end);
                        self.key(end)?;
                        continue;
                    }
                    self.at += 1;
                }
                b'"' => self.string()?,
                _ => self.scalar()?,
            }
            // Behind a value.
            loop {
                self.space();
                let Some(&end) = open.last() else { return Some(()) };
                match self.peek()? {
                    b',' => {
                        self.at += 1;
                        self.key(end)?;
                        break;
                    }
                    found if found == end => {
                        self.at += 1;
                        open.pop();
                    }
                    _ => return None,
                }
            }
        }
    }

    /// The key of an entry and its colon, in an object.
    fn key(&mut self, end: u8) -> Option<()> {
        if end == b'}' {
            self.space();
            self.string()?;
            self.space();
            self.take(b":")?;
        }
        Some(())
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, word: &[u8]) -> Option<()> {
        self.bytes[self.at..].starts_with(word).then(|| self.at += word.len())
    }

    fn string(&mut self) -> Option<()> {
        self.take(b"\"")?;
        loop {
            let byte = self.peek()?;
            self.at += 1;
            match byte {
                b'"' => return Some(()),
                0..=0x1f => return None,
                b'\\' => {
                    let escaped = self.peek()?;
                    self.at += 1;
                    if escaped == b'u' {
                        let digits = self.bytes.get(self.at..self.at + 4)?;
                        if !digits.iter().all(u8::is_ascii_hexdigit) {
                            return None;
                        }
                        self.at += 4;
                    } else if !b"\"\\/bfnrt".contains(&escaped) {
                        return None;
                    }
                }
                _ => {}
            }
        }
    }

    fn scalar(&mut self) -> Option<()> {
        for word in ["true", "false", "null", "NaN", "Infinity", "-Infinity"] {
            if self.take(word.as_bytes()).is_some() {
                return Some(());
            }
        }
        self.number()
    }

    fn number(&mut self) -> Option<()> {
        let _ = self.take(b"-");
        let begin = self.at;
        let whole = self.digits();
        if whole == 0 || (whole > 1 && self.bytes[begin] == b'0') {
            return None;
        }
        let mut is_integer = true;
        if self.take(b".").is_some() {
            is_integer = false;
            if self.digits() == 0 {
                return None;
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            is_integer = false;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            if self.digits() == 0 {
                return None;
            }
        }
        (!is_integer || whole <= MOST_DIGITS).then_some(())
    }

    fn digits(&mut self) -> usize {
        let begin = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        self.at - begin
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Python 3.11 accepts.
    #[test]
    fn texts_are_judged_as_by_python() {
        for text in [
            "{}",
            "[]",
            " {\"a\": [1, -2.5e+3, true, null]} ",
            "\"x\"",
            "1",
            "-0",
            "0.5",
            "1E400",
            "NaN",
            "-Infinity",
            "\"\\ud800\"",
            "{\"a\": 1, \"a\": {}}",
            "[[], {}, [{}]]",
            "\"é\u{7f}\"",
        ] {
            assert!(is_json(text), "{text}");
        }
        for text in [
            "",
            "{",
            "[1,]",
            "{\"a\"}",
            "{\"a\": }",
            "{a: 1}",
            "'x'",
            "01",
            "1.",
            ".5",
            "-",
            "+1",
            "-NaN",
            "\"a\nb\"",
            "\"\\x\"",
            "\"\\u12g4\"",
            "\"\\u12",
            "1 2",
            "[1 2]",
            "{} x",
            "\u{feff}{}",
            "tru",
            "[1}",
            "{\"a\": 1]",
            "1e",
            "\"",
            "[,]",
            "{,}",
        ] {
            assert!(!is_json(text), "{text}");
        }
        assert!(is_json(&"1".repeat(4300)) && !is_json(&"1".repeat(4301)));
        assert!(is_json(&format!("{}{}", "[".repeat(100_000), "]".repeat(100_000))));
    }
}
