//! Bullets, highlights, sections, titles, JSON, and answers out of a list.

use super::arguments::Arguments;
use super::catalogue::Instruction;
use super::json::is_json;
use super::pattern::{compiled, count};
use super::python::strip;
use fancy_regex::Regex as Pattern;
use regex::Regex;
use std::sync::LazyLock;

/// The answers of which one has to be in a constrained response.
const ANSWERS: [&str; 3] = ["My answer is yes.", "My answer is no.", "My answer is maybe."];

/// There is exactly this number of bullets, of either form.
pub(super) struct Bullets(u64);

impl Bullets {
    pub(super) fn read(arguments: &mut Arguments<'_>) -> Result<Self, String> {
        arguments.count("num_bullets").map(Self)
    }
}

impl Instruction for Bullets {
    fn is_followed(&self, answer: &str) -> Result<bool, String> {
        static STARS: LazyLock<Regex> =
            LazyLock::new(|| super::fixed(r"(?m)^[\s\x1c-\x1f]*\*[^*].*$"));
        static DASHES: LazyLock<Regex> = LazyLock::new(|| super::fixed(r"(?m)^[\s\x1c-\x1f]*-.*$"));
        let found = STARS.find_iter(answer).count() + DASHES.find_iter(answer).count();
        Ok(found as u64 == self.0)
    }
}

/// The answer contains one of three sentences.
pub(super) struct Constrained;

impl Constrained {
    pub(super) fn read(_: &mut Arguments<'_>) -> Result<Self, String> {
        Ok(Self)
    }
}

impl Instruction for Constrained {
    fn is_followed(&self, answer: &str) -> Result<bool, String> {
        Ok(ANSWERS.iter().any(|option| answer.contains(option)))
    }
}

/// There are at least this number of highlights. One in double asterisks counts for each way to
/// read it.
pub(super) struct Highlights(u64);

impl Highlights {
    pub(super) fn read(arguments: &mut Arguments<'_>) -> Result<Self, String> {
        arguments.count("num_highlights").map(Self)
    }
}

impl Instruction for Highlights {
    fn is_followed(&self, answer: &str) -> Result<bool, String> {
        static SINGLE: LazyLock<Regex> = LazyLock::new(|| super::fixed(r"\*[^\n*]*\*"));
        static DOUBLE: LazyLock<Regex> = LazyLock::new(|| super::fixed(r"\*\*[^\n*]*\*\*"));
        let written = |pattern: &Regex| {
            let is_written = |text: &str| !strip(text.trim_matches('*')).is_empty();
            pattern.find_iter(answer).filter(|found| is_written(found.as_str())).count()
        };
        Ok((written(&SINGLE) + written(&DOUBLE)) as u64 >= self.0)
    }
}

/// There are at least this number of numbered sections. Their title is a pattern.
pub(super) struct Sections {
    title: Pattern,
    least: u64,
}

impl Sections {
    pub(super) fn read(arguments: &mut Arguments<'_>) -> Result<Self, String> {
        let title = strip(arguments.text("section_spliter")?);
        let title = compiled(&format!(r"\s?{title}\s?\d+\s?"), false, false)?;
        Ok(Self { title, least: arguments.count("num_sections")? })
    }
}

impl Instruction for Sections {
    fn is_followed(&self, answer: &str) -> Result<bool, String> {
        // Python's `split` returns groups of the pattern, too, and they are counted.
        let found = count(&self.title, answer)? * self.title.captures_len();
        Ok(found as u64 >= self.least)
    }
}

/// The answer is JSON, also as a block of code.
pub(super) struct Json;

impl Json {
    pub(super) fn read(_: &mut Arguments<'_>) -> Result<Self, String> {
        Ok(Self)
    }
}

impl Instruction for Json {
    fn is_followed(&self, answer: &str) -> Result<bool, String> {
        let mut text = strip(answer);
        for fence in ["```json", "```Json", "```JSON", "```"] {
            text = text.strip_prefix(fence).unwrap_or(text);
        }
        Ok(is_json(strip(text.strip_suffix("```").unwrap_or(text))))
    }
}

/// There is a title in double angular brackets.
pub(super) struct Title;

impl Title {
    pub(super) fn read(_: &mut Arguments<'_>) -> Result<Self, String> {
        Ok(Self)
    }
}

impl Instruction for Title {
    fn is_followed(&self, answer: &str) -> Result<bool, String> {
        static TITLE: LazyLock<Regex> = LazyLock::new(|| super::fixed(r"<<[^\n]+>>"));
        let is_written =
            |text: &str| !strip(text.trim_start_matches('<').trim_end_matches('>')).is_empty();
        Ok(TITLE.find_iter(answer).any(|found| is_written(found.as_str())))
    }
}
