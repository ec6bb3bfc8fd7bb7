//! IFEval: does an answer follow the verifiable instructions of its prompt?
//!
//! The 25 kinds of instructions and both metrics of Zhou et al. 2023 (arXiv:2311.07911), checked as
//! by lm-evaluation-harness 0.4.13 with nltk 3.10.4 and langdetect 1.0.9. A document has the fields
//! `prompt`, `instruction_id_list` and, in the same order, `kwargs`: the arguments of each
//! instruction. An answer follows an instruction strictly if it does as it is, loosely if it does
//! as it is or without asterisks, its first line, its last line, or several of these. A blank
//! answer follows nothing.
//!
//! Deviations:
//!
//! | kind | here | in the harness |
//! | --- | --- | --- |
//! | a missing or empty argument | an error before anything is generated | drawn at random |
//! | a count of zero | zero | drawn at random |
//! | `letter_frequency` of a character outside a to z | that one | a letter, drawn at random |
//! | language | langdetect with the seed 0, so every run gives the same | without a seed |
//! | `number_sentences` | Punkt with words of our own ([`sentences`]) | with a trained model |
//!
//! | file | contents |
//! | --- | --- |
//! | [`catalogue`], [`arguments`] | the kinds by name; their arguments |
//! | [`keywords`], [`lengths`], [`content`], [`format`] | the kinds, by group |
//! | [`combination`], [`ends`], [`case`], [`language`] | more kinds |
//! | [`sentences`], [`words`] | sentences and words of English texts, as nltk splits them |
//! | [`pattern`], [`json`], [`python`] | what differs between Python and Rust |

mod arguments;
mod case;
mod catalogue;
mod combination;
mod content;
mod ends;
mod format;
#[cfg(test)]
mod golden;
mod json;
mod keywords;
mod language;
mod lengths;
mod pattern;
mod python;
mod sentences;
mod words;

use super::functions::Outcome;
use super::value::Value as Measured;
use catalogue::Instruction;
use linwright_data::Fields;
use linwright_run::shown;
use python::strip;
use regex::Regex;
use serde_json::{Map, Value};

/// Checks the instructions of a document. Errors are the reason only.
pub(super) fn check(fields: &Fields) -> Result<(), String> {
    instructions(fields).map(|_| ())
}

/// The four metrics of an answer. Errors are the reason only.
pub(super) fn score(fields: &Fields, answer: &str) -> Result<Outcome, String> {
    let instructions = instructions(fields)?;
    let strict = followed(&instructions, &[answer.to_owned()])?;
    let loose = followed(&instructions, &variants(answer))?;
    let all =
        |followed: &[bool]| Measured::Number(f64::from(u8::from(followed.iter().all(|f| *f))));
    Ok(Outcome::from([
        ("prompt_level_strict_acc".to_owned(), all(&strict)),
        ("inst_level_strict_acc".to_owned(), Measured::Truths(strict)),
        ("prompt_level_loose_acc".to_owned(), all(&loose)),
        ("inst_level_loose_acc".to_owned(), Measured::Truths(loose)),
    ]))
}

/// The instructions of a document.
fn instructions(fields: &Fields) -> Result<Vec<Box<dyn Instruction>>, String> {
    let list = |name: &str| match fields.get(name) {
        Some(Value::Array(items)) => Ok(items),
        Some(other) => {
            Err(format!("field {name} is {}, expected a list", shown(&other.to_string())))
        }
        None => Err(format!("the field {name} is missing")),
    };
    let (names, arguments) = (list("instruction_id_list")?, list("kwargs")?);
    if names.is_empty() {
        return Err("instruction_id_list is empty".into());
    }
    if names.len() != arguments.len() {
        return Err(format!("{} instructions have {} kwargs", names.len(), arguments.len()));
    }
    let one = |(name, arguments): (&Value, &Value)| {
        let name = name.as_str().ok_or_else(|| {
            format!("instruction_id_list contains {}, expected a name", shown(&name.to_string()))
        })?;
        match arguments {
            Value::Object(arguments) => catalogue::instruction(name, arguments),
            Value::Null => catalogue::instruction(name, &Map::new()),
            other => Err(format!(
                "the kwargs of {name} are {}, expected an object",
                shown(&other.to_string())
            )),
        }
    };
    names.iter().zip(arguments).map(one).collect()
}

/// For each instruction, whether one of these texts follows it.
fn followed(instructions: &[Box<dyn Instruction>], texts: &[String]) -> Result<Vec<bool>, String> {
    let texts: Vec<&String> = texts.iter().filter(|text| !strip(text).is_empty()).collect();
    let one = |instruction: &dyn Instruction| {
        for text in &texts {
            if instruction.is_followed(text)? {
                return Ok(true);
            }
        }
        Ok(false)
    };
    instructions.iter().map(|instruction| one(instruction.as_ref())).collect()
}

/// The texts of which one has to follow an instruction loosely.
fn variants(answer: &str) -> Vec<String> {
    let lines: Vec<&str> = answer.split('\n').collect();
    let joined = |lines: &[&str]| strip(&lines.join("\n")).to_owned();
    let last = lines.len() - 1;
    let parts = [
        answer.to_owned(),
        joined(&lines[1..]),
        joined(&lines[..last]),
        joined(lines.get(1..last).unwrap_or_default()),
    ];
    let plain = parts.clone().map(|part| part.replace('*', ""));
    parts.into_iter().chain(plain).collect()
}

/// A pattern of ours.
fn fixed(pattern: &str) -> Regex {
    Regex::new(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"))
}

#[cfg(test)]
mod tests;
