//! The language of an answer.
//!
//! The crate `langdetect` has the profiles and the random walk of the Python package of this name.
//! With the seed 0, where the harness has none, an answer is judged the same in every run.

use super::arguments::Arguments;
use super::catalogue::Instruction;
use langdetect::{DetectorFactory, ErrorCode, Seed};
use linwright_run::shown;

/// Codes of the languages of IFEval.
const LANGUAGES: [&str; 30] = [
    "en", "es", "pt", "ar", "hi", "fr", "ru", "de", "ja", "it", "bn", "uk", "th", "ur", "ta", "te",
    "bg", "ko", "pl", "he", "fa", "vi", "ne", "sw", "kn", "mr", "gu", "pa", "ml", "fi",
];

/// The answer is in a language.
pub(super) struct ResponseLanguage(&'static str);

impl ResponseLanguage {
    pub(super) fn read(arguments: &mut Arguments<'_>) -> Result<Self, String> {
        let language = arguments.text("language")?;
        let known = LANGUAGES.iter().find(|known| **known == language);
        known.map(|known| Self(known)).ok_or_else(|| {
            format!(
                "the argument language is \"{}\", expected one of {}",
                shown(language),
                LANGUAGES.join(", ")
            )
        })
    }
}

impl Instruction for ResponseLanguage {
    fn is_followed(&self, answer: &str) -> Result<bool, String> {
        may_be(answer, self.0)
    }
}

/// Whether a text is in a language, or in none that can be detected. Errors are the reason only.
pub(super) fn may_be(text: &str, language: &str) -> Result<bool, String> {
    let failed = |error: langdetect::Error| format!("the language is not detected: {error}");
    let mut detector = DetectorFactory::builtin().create().map_err(failed)?;
    detector.seed = Seed::Int(0);
    detector.append(text);
    match detector.detect() {
        Ok(found) => Ok(found == language),
        Err(error) if error.code() == Some(ErrorCode::CantDetectError) => Ok(true),
        Err(error) => Err(failed(error)),
    }
}
