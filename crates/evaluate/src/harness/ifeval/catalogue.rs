//! All kinds of instructions by their names in IFEval.

use super::arguments::Arguments;
use super::{case, combination, content, ends, format, keywords, language, lengths};
use linwright_run::shown;
use serde_json::{Map, Value};

/// An instruction of a prompt with its arguments.
pub(super) trait Instruction {
    /// Whether an answer follows it. Errors are the reason only, for patterns that take too long.
    fn is_followed(&self, answer: &str) -> Result<bool, String>;
}

/// Reads the arguments of a kind. Errors are the reason only.
type Read = fn(&mut Arguments<'_>) -> Result<Box<dyn Instruction>, String>;

/// The kinds: a name and a type with `read`.
macro_rules! instructions {
    ($($name:literal => $kind:ty,)*) => {
        pub(super) static KINDS: &[(&str, Read)] =
            &[$(($name, |arguments| Ok(Box::new(<$kind>::read(arguments)?))),)*];
    };
}

instructions! {
    "keywords:existence" => keywords::Existence,
    "keywords:frequency" => keywords::Frequency,
    "keywords:forbidden_words" => keywords::Forbidden,
    "keywords:letter_frequency" => keywords::LetterFrequency,
    "language:response_language" => language::ResponseLanguage,
    "length_constraints:number_sentences" => lengths::Sentences,
    "length_constraints:number_paragraphs" => lengths::Paragraphs,
    "length_constraints:number_words" => lengths::Words,
    "length_constraints:nth_paragraph_first_word" => lengths::FirstWord,
    "detectable_content:number_placeholders" => content::Placeholders,
    "detectable_content:postscript" => content::Postscript,
    "detectable_format:number_bullet_lists" => format::Bullets,
    "detectable_format:constrained_response" => format::Constrained,
    "detectable_format:number_highlighted_sections" => format::Highlights,
    "detectable_format:multiple_sections" => format::Sections,
    "detectable_format:json_format" => format::Json,
    "detectable_format:title" => format::Title,
    "combination:two_responses" => combination::TwoResponses,
    "combination:repeat_prompt" => combination::RepeatPrompt,
    "startend:end_checker" => ends::EndPhrase,
    "startend:quotation" => ends::Quotation,
    "change_case:capital_word_frequency" => case::CapitalWords,
    "change_case:english_capital" => case::AllCapital,
    "change_case:english_lowercase" => case::AllLower,
    "punctuation:no_comma" => ends::NoComma,
}

/// The instruction with this name and these arguments. Errors are the reason only.
pub(super) fn instruction(
    name: &str,
    arguments: &Map<String, Value>,
) -> Result<Box<dyn Instruction>, String> {
    let Some((name, read)) = KINDS.iter().find(|(known, _)| *known == name) else {
        let known: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
        return Err(format!(
            "the instruction \"{}\" is unknown; known are {}",
            shown(name),
            known.join(", ")
        ));
    };
    let mut arguments = Arguments::new(arguments);
    let of = |reason| format!("{name}: {reason}");
    let instruction = read(&mut arguments).map_err(of)?;
    arguments.finish().map_err(of)?;
    Ok(instruction)
}
