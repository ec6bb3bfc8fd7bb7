//! Error messages contain their causes: a field that is an error itself must be in the message, or
//! the variant must be transparent. Otherwise `the model failed` is all that a user learns.

use crate::lexer::is_word;
use crate::offence::Offence;
use crate::repository::Repository;
use crate::source::{Source, line_of, words};
use anyhow::Result;

const ATTRIBUTE: &str = "#[error(";

/// Reports error variants whose message does not contain their cause.
pub(crate) fn run(repository: &Repository) -> Result<Vec<Offence>> {
    Ok(repository.sources()?.iter().flat_map(in_source).collect())
}

fn in_source(source: &Source) -> Vec<Offence> {
    let code = &source.masked.code;
    let mut offences = Vec::new();
    for (at, _) in code.match_indices(ATTRIBUTE) {
        let line = line_of(code, at);
        if source.is_test(line) {
            continue;
        }
        let end = closing(code, at + 1);
        let message = &source.masked.code_and_literals[at..end];
        let Some((name, fields)) = variant(code, end) else { continue };
        let hidden = causes(fields).filter(|cause| !shows(message, cause));
        offences.extend(hidden.map(|cause| {
            let what = format!(
                "the message of {name} hides its cause {cause}; put {{{cause}}} into it, or make it transparent"
            );
            Offence::at(&source.path, line, what)
        }));
    }
    offences
}

/// End of the bracket that opens at `open`; the end of the text if it is not closed.
fn closing(code: &str, open: usize) -> usize {
    let mut depth = 0;
    for (offset, byte) in code[open..].bytes().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' if depth == 1 => return open + offset + 1,
            b')' | b']' | b'}' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

/// Name and fields, with brackets, of the variant or struct after an attribute that ends at `at`.
fn variant(code: &str, at: usize) -> Option<(&str, &str)> {
    let mut at = at;
    loop {
        at += code[at..].len() - code[at..].trim_start().len();
        if code[at..].starts_with("#[") {
            at = closing(code, at + 1);
            continue;
        }
        let length = code[at..].bytes().take_while(|&byte| is_word(byte)).count();
        let name = &code[at..at + length];
        at += length;
        if ["pub", "struct"].contains(&name) {
            // `pub(crate)` as well.
            at = if code[at..].starts_with('(') { closing(code, at) } else { at };
            continue;
        }
        at += code[at..].len() - code[at..].trim_start().len();
        let has_fields = !name.is_empty() && code[at..].starts_with(['(', '{']);
        return has_fields.then(|| (name, &code[at..closing(code, at)]));
    }
}

/// Names of the error fields of a variant; indices for unnamed fields.
fn causes(fields: &str) -> impl Iterator<Item = String> {
    let named = fields.starts_with('{');
    let inner = &fields[1..fields.len().max(2) - 1];
    split(inner).into_iter().enumerate().filter_map(move |(index, field)| {
        let marked = field.contains("#[source]") || field.contains("#[from]");
        let bare = match field.rfind("#[") {
            Some(attribute) => &field[closing(field, attribute + 1)..],
            None => field,
        };
        let (name, kind) = match bare.split_once(':').filter(|_| named) {
            Some((name, kind)) => (name.split_whitespace().last()?.to_owned(), kind),
            None => (index.to_string(), bare),
        };
        let is_error = kind
            .split(|c: char| !(c.is_alphanumeric() || c == '_'))
            .any(|word| word.ends_with("Error") || word.ends_with("Fault"));
        (marked || is_error || name == "source").then_some(name)
    })
}

/// Splits fields at the commas between them.
fn split(fields: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, byte) in fields.bytes().enumerate() {
        match byte {
            b'(' | b'[' | b'{' | b'<' => depth += 1,
            b')' | b']' | b'}' | b'>' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(&fields[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&fields[start..]);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

fn shows(message: &str, cause: &str) -> bool {
    words(message, "transparent").next().is_some() && !message.contains('"')
        || message.contains(&format!("{{{cause}}}"))
        || message.contains(&format!("{{{cause}:"))
        // As an argument after the text.
        || message.rsplit_once('"').is_some_and(|(_, rest)| {
            words(rest, cause).next().is_some()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let source = Source::new("a.rs", text);
        in_source(&source).into_iter().map(|offence| offence.to_string()).collect()
    }

    #[test]
    fn a_cause_that_the_message_hides_is_found() {
        for (hidden, cause) in [
            (
                "#[error(\"{place}: it failed\")]\nModel { place: String, source: Box<dyn Error> }",
                "source",
            ),
            ("#[error(\"it failed\")]\n/// Why.\nRead(#[from] io::Error),", "0"),
            ("#[error(\n    \"{path}\"\n)]\nIo { path: PathBuf, #[source] why: Word }", "why"),
            ("#[error(\"the source {path}\")]\nA { path: P, source: Option<io::Error> }", "source"),
            ("#[error(\"no\")]\npub(crate) struct No(u8, FileFault);", "1"),
        ] {
            let found = found(hidden);
            assert!(found.len() == 1 && found[0].contains(&format!(" {cause};")), "{found:?}");
        }
    }

    #[test]
    fn a_cause_in_the_message_or_a_transparent_one_is_shown() {
        for shown in [
            "#[error(\"{}: {source}\", path.display())]\nRead { path: P, source: io::Error }",
            "#[error(transparent)]\nOutput(#[from] OutputError),",
            "#[error(\"the cache: {0}\")]\nCache(#[source] OutputError),",
            "#[error(\"{}\", brief(source))]\nA { source: Error }",
            "#[error(\"{found} bytes\")]\nTooLarge { found: u64 },\nB(#[from] X)",
            "#[error(\"interrupted\")]\nInterrupted,\n#[error(transparent)]\nA(AError)",
        ] {
            assert_eq!(found(shown), [""; 0], "{shown}");
        }
    }

    #[test]
    fn no_error_of_this_repository_hides_its_cause() {
        let sources = Repository::open().unwrap().sources().unwrap();
        let messages = sources.iter().map(|source| source.masked.code.matches(ATTRIBUTE).count());
        assert!(messages.sum::<usize>() > 200, "few messages were looked at");
        assert_eq!(sources.iter().flat_map(in_source).collect::<Vec<_>>(), []);
    }
}
