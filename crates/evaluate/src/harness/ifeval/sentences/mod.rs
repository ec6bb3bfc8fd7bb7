//! Sentences of English texts, by the algorithm of Punkt as nltk has it.
//!
//! A `.`, `?` or `!` before white space or certain marks is a candidate. It ends a sentence unless
//! the word before it is an abbreviation, an initial, a number or an ellipsis and the word behind
//! it does not begin a sentence. Closing quotation marks and brackets belong to the sentence
//! before.
//!
//! Source: Kiss and Strunk 2006, Unsupervised multilingual sentence boundary detection, sections 3
//! and 4, with the tokens and contexts of nltk 3.10.4.
//!
//! Deviation: nltk looks abbreviations, first words of sentences and the cases of words up in a
//! model of 20,000 words that was trained on newspapers; here they are lists of our own
//! ([`vocabulary`]), without collocations. `docs/parity.md` states the agreement.

mod vocabulary;

use regex::Regex;
use std::sync::LazyLock;
use vocabulary::{begins_sentences, is_abbreviation, is_ordinary, is_usually_small};

/// Marks behind which a word may end, besides white space.
const MARKS: &str = ")\";}]*:@'({[\u{2018}\u{2019}\u{201c}\u{201d}\u{ab}\u{bb}?!";
/// Marks that begin no word.
const NO_WORD: &str = "(\"`{[:;&#*@)}]-,";
/// Marks that close a sentence behind its stop.
const CLOSING: &str = "\"')]}\u{2018}\u{2019}\u{201c}\u{201d}\u{ab}\u{bb}";

/// The sentences of a text.
pub(super) fn sentences(text: &str) -> Vec<&str> {
    let mut spans = Vec::new();
    let mut begin = 0;
    for candidate in candidates(text) {
        if ends_sentence(&text[candidate.context.0..candidate.context.1]) {
            spans.push((begin, candidate.stop + 1));
            begin = candidate.next.unwrap_or(candidate.stop + 1);
        }
    }
    spans.push((begin, text.trim_end_matches(super::python::is_space).len()));
    realigned(text, &spans)
}

/// Moves closing marks at the beginning of a sentence to the end of the one before.
fn realigned<'t>(text: &'t str, spans: &[(usize, usize)]) -> Vec<&'t str> {
    static CLOSED: LazyLock<Regex> = LazyLock::new(|| {
        let marks = regex::escape(CLOSING);
        // White space behind the marks belongs to neither sentence.
        super::fixed(&format!(r"^(?:[{marks}]+?)(?:\s+|--|$)"))
    });
    let mut sentences = Vec::new();
    let mut moved = 0;
    for (index, &(begin, end)) in spans.iter().enumerate() {
        let begin = begin + moved;
        let next =
            spans.get(index + 1).map(|&(begin, end)| (begin, text.get(begin..end).unwrap_or("")));
        let closing = next.and_then(|(at, next)| {
            let found = CLOSED.find(next)?.as_str();
            // Dashes are only looked at.
            Some((at, found.strip_suffix("--").unwrap_or(found)))
        });
        moved = 0;
        if let Some((at, closing)) = closing {
            sentences.push(text.get(begin..at + closing.trim_end().len()).unwrap_or(""));
            moved = closing.len();
        } else if begin < end {
            sentences.push(&text[begin..end]);
        }
    }
    sentences
}

/// A stop that may end a sentence.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    /// Its position.
    stop: usize,
    /// Where the next word begins, if there is white space behind the stop.
    next: Option<usize>,
    /// From the word before the stop to the end of the mark or word behind it.
    context: (usize, usize),
}

/// Candidates with their contexts. Of several in one word, the last.
fn candidates(text: &str) -> Vec<Candidate> {
    let mut found: Vec<Candidate> = Vec::new();
    // The word before the stop at hand, and that stop.
    let (mut word, mut last): ((usize, usize), Option<Candidate>) = ((0, 0), None);
    for (stop, _) in text.match_indices(['.', '?', '!']) {
        let Some((next, end)) = behind(text, stop + 1) else { continue };
        let before = &text[word.1..stop];
        // A space at the very beginning is not looked at, as in nltk.
        let space = before.rfind([' ', '\t', '\n', '\r', '\x0b', '\x0c']).filter(|&at| at > 0);
        let begin = space.map_or(word.0, |at| word.1 + at + 1);
        if let Some(last) = last.filter(|_| word.1 <= begin) {
            found.push(last);
        }
        word = (begin, stop);
        last = Some(Candidate { stop, next, context: (begin, end) });
    }
    found.extend(last);
    found
}

/// What is behind a stop: where the next word begins, if there is white space before it, and the
/// end of that word or of the mark. `None` if the stop is inside a word or at the end.
fn behind(text: &str, at: usize) -> Option<(Option<usize>, usize)> {
    let rest = &text[at..];
    let first = rest.chars().next()?;
    if MARKS.contains(first) {
        return Some((None, at + first.len_utf8()));
    }
    let word = rest.trim_start();
    if word.is_empty() || word.len() == rest.len() {
        return None;
    }
    let begin = text.len() - word.len();
    Some((Some(begin), begin + word.find(char::is_whitespace).unwrap_or(word.len())))
}

/// Whether a stop in a context ends a sentence before the last token.
fn ends_sentence(context: &str) -> bool {
    let tokens: Vec<Token<'_>> = context.split('\n').flat_map(tokens).map(Token::new).collect();
    tokens.windows(2).any(|pair| pair[0].ends_before(&pair[1]))
}

/// A word or mark.
struct Token<'t> {
    text: &'t str,
    /// In lower case; numbers are one type.
    kind: String,
    is_number: bool,
    is_ellipsis: bool,
    is_abbreviation: bool,
    /// Whether it ends a sentence, from the token alone.
    ends: bool,
}

impl<'t> Token<'t> {
    fn new(text: &'t str) -> Self {
        static NUMBER: LazyLock<Regex> = LazyLock::new(|| super::fixed(r"^-?[.,]?\d[\d,.\-]*$"));
        let lower = text.to_lowercase();
        let is_number = NUMBER.is_match(&lower);
        let is_ellipsis = text.len() > 1 && text.bytes().all(|byte| byte == b'.');
        let has_stop = text.ends_with('.') && !text.ends_with("..");
        let word = lower.strip_suffix('.').unwrap_or(&lower);
        let last_part = word.rsplit('-').next().unwrap_or(word);
        let is_single = matches!(text, "." | "?" | "!");
        let is_abbreviation =
            has_stop && !is_single && (is_abbreviation(word) || is_abbreviation(last_part));
        let ends = is_single || (has_stop && !is_abbreviation);
        let kind = match is_number {
            true => String::from("0"),
            false => lower,
        };
        Self { text, kind, is_number, is_ellipsis, is_abbreviation, ends }
    }

    /// The type without the stop that ends a sentence.
    fn word(&self) -> &str {
        match self.kind.strip_suffix('.') {
            Some(word) if self.ends && !word.is_empty() => word,
            _ => &self.kind,
        }
    }

    fn begins_with(&self, is_it: fn(char) -> bool) -> bool {
        self.text.chars().next().is_some_and(is_it)
    }

    /// A letter and a stop.
    fn is_initial(&self) -> bool {
        static INITIAL: LazyLock<Regex> = LazyLock::new(|| super::fixed(r"^[\w--\d]\.$"));
        INITIAL.is_match(self.text)
    }

    /// Whether it ends a sentence, given the token behind it.
    fn ends_before(&self, next: &Self) -> bool {
        if !self.text.ends_with('.') {
            return self.ends;
        }
        let is_initial = self.is_initial();
        let (word, is_upper) = (next.word(), next.begins_with(char::is_uppercase));
        let mut ends = self.ends;
        let is_open = (self.is_abbreviation || self.is_ellipsis) && !is_initial;
        if is_open && (next.begins() == Some(true) || (is_upper && begins_sentences(word))) {
            return true;
        }
        if is_initial || self.is_number {
            let begins = next.begins();
            let may_be_name = begins.is_none() && is_initial && is_upper && !is_usually_small(word);
            if begins == Some(false) || may_be_name {
                ends = false;
            }
        }
        ends
    }

    /// Whether its case shows that it begins a sentence; `None` if that is open.
    fn begins(&self) -> Option<bool> {
        if matches!(self.text, ";" | ":" | "," | "." | "!" | "?") {
            return Some(false);
        }
        if self.begins_with(char::is_lowercase) {
            return Some(false);
        }
        let is_upper = self.begins_with(char::is_uppercase);
        (is_upper && is_ordinary(self.word())).then_some(true)
    }
}

/// Tokens of a line: words with their stop, and marks.
fn tokens(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        let first = rest.chars().next()?;
        let length = match run(rest) {
            Some(length) => length,
            None if NO_WORD.contains(first) => first.len_utf8(),
            None => word_length(rest),
        };
        let (token, behind) = rest.split_at(length);
        rest = behind;
        Some(token)
    })
}

/// Length of the word at the beginning of a text.
fn word_length(text: &str) -> usize {
    let ends_at = |rest: &str| {
        let next = rest.chars().next();
        next.is_none_or(|c| c.is_whitespace() || MARKS.contains(c)) || run(rest).is_some()
    };
    let mut ends = text.char_indices().skip(1).map(|(at, _)| at);
    let end = ends.find(|&at| {
        let rest = &text[at..];
        ends_at(rest) || rest.strip_prefix(',').is_some_and(ends_at)
    });
    end.unwrap_or(text.len())
}

/// Length of the dashes, dots or dots with spaces at the beginning of a text, if there are several.
fn run(text: &str) -> Option<usize> {
    for mark in ['-', '.'] {
        let length = text.len() - text.trim_start_matches(mark).len();
        if length > 1 {
            return Some(length);
        }
    }
    static SPACED: LazyLock<Regex> = LazyLock::new(|| super::fixed(r"^(?:\.\s){2,}\."));
    // Most texts have no dot here, and a pattern is slower.
    text.starts_with('.').then(|| SPACED.find(text).map(|found| found.len())).flatten()
}

#[cfg(test)]
mod tests;
