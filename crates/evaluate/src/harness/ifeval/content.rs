//! Placeholders and postscripts.

use super::arguments::Arguments;
use super::catalogue::Instruction;
use super::pattern::{compiled, occurs};
use super::python::strip;
use fancy_regex::Regex as Pattern;
use regex::Regex;
use std::sync::LazyLock;

/// There are at least this number of placeholders in square brackets.
pub(super) struct Placeholders(u64);

impl Placeholders {
    pub(super) fn read(arguments: &mut Arguments<'_>) -> Result<Self, String> {
        arguments.count("num_placeholders").map(Self)
    }
}

impl Instruction for Placeholders {
    fn is_followed(&self, answer: &str) -> Result<bool, String> {
        static BRACKETS: LazyLock<Regex> = LazyLock::new(|| super::fixed(r"\[.*?\]"));
        Ok(BRACKETS.find_iter(answer).count() as u64 >= self.0)
    }
}

/// There is a postscript with this marker.
pub(super) struct Postscript(Pattern);

impl Postscript {
    pub(super) fn read(arguments: &mut Arguments<'_>) -> Result<Self, String> {
        // Of the two usual markers, the letters may be apart; another one is a pattern.
        let marker = match strip(arguments.text("postscript_marker")?) {
            "P.P.S" => r"p\.\s?p\.\s?s".to_owned(),
            "P.S." => r"p\.\s?s\.".to_owned(),
            other => other.to_lowercase(),
        };
        compiled(&format!(r"\s*{marker}.*$"), false, true).map(Self)
    }
}

impl Instruction for Postscript {
    fn is_followed(&self, answer: &str) -> Result<bool, String> {
        occurs(&self.0, &answer.to_lowercase())
    }
}
