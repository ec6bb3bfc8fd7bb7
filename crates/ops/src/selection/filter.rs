//! Name patterns: a glob, or a regular expression after `re:`.

use linwright_run::shown;
use regex::Regex;

/// A pattern that is not a regular expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the pattern \"{pattern}\" is not valid: {reason}", pattern = shown(pattern))]
pub struct PatternError {
    /// The pattern.
    pub pattern: String,
    /// What is wrong.
    pub reason: String,
}

/// A pattern for tensor names.
///
/// In a glob, `*` matches any characters including dots, and `?` matches one; all others match
/// themselves. A glob must match the whole name. A regular expression matches anywhere unless
/// anchored by `^` or `$`.
///
/// Patterns of files and tasks (`linwright_data::sets`) follow Python's `fnmatch`, where brackets
/// are character sets. Tensor names may contain brackets, so here only regular expressions have
/// sets.
#[derive(Clone, Debug)]
pub struct NameFilter {
    pattern: String,
    regex: Regex,
}

impl NameFilter {
    /// Parses a pattern.
    ///
    /// # Errors
    /// [`PatternError`] if the regular expression is not valid.
    pub fn parse(pattern: &str) -> Result<Self, PatternError> {
        let expression = match pattern.strip_prefix("re:") {
            Some(expression) => expression.to_owned(),
            None => {
                let escaped = regex::escape(pattern).replace(r"\*", ".*").replace(r"\?", ".");
                format!("^(?s:{escaped})$")
            }
        };
        let wrong = |error: regex::Error| PatternError {
            pattern: pattern.to_owned(),
            reason: error.to_string(),
        };
        Ok(Self { pattern: pattern.to_owned(), regex: Regex::new(&expression).map_err(wrong)? })
    }

    /// Whether a name matches.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        self.regex.is_match(name)
    }

    /// The pattern as given.
    #[must_use]
    pub fn pattern(&self) -> &str {
        &self.pattern
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_and_expressions() {
        let name = "model.layers.3.self_attn.q_proj.weight";
        for (pattern, expected) in [
            ("*q_proj*", true),
            ("*.?_proj.weight", true),
            ("model.layers.3.self_attn.q_proj.weight", true),
            ("q_proj", false),
            ("modelXlayers*", false),
            ("re:q_proj", true),
            (r"re:layers\.[0-3]\.", true),
            ("re:^q_proj", false),
            ("", false),
            ("*", true),
        ] {
            let filter = NameFilter::parse(pattern).unwrap();
            assert_eq!(filter.matches(name), expected, "{pattern:?}");
        }
        assert!(NameFilter::parse("a(b[c").unwrap().matches("a(b[c"), "a glob has no other signs");
        let error = NameFilter::parse("re:a(b").unwrap_err().to_string();
        assert!(error.contains("re:a(b"), "{error}");
    }
}
