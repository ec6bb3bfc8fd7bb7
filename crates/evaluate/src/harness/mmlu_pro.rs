//! The functions of MMLU-Pro's task files: prompts with lettered options, and reasoning as the
//! answers of examples.

use super::functions::{Function, Kind, text};
use linwright_data::Fields;
use serde_json::Value;

/// The group of the tasks.
pub(super) const GROUP: &str = "mmlu_pro";
/// Most options of a question that are shown.
const OPTIONS: usize = 10;

const fn function(name: &'static str, harness: &'static str, kind: Kind) -> Function {
    Function { name, harness: (harness, GROUP), kind }
}

/// Keeps the rows of subjects.
macro_rules! subjects {
    ($($name:literal, $category:literal;)*) => {
        [
            function("mmlu_pro.doc_to_text", "utils.doc_to_text", Kind::Field(question)),
            function("mmlu_pro.fewshot_to_text", "utils.fewshot_to_text", Kind::Field(question)),
            function("mmlu_pro.fewshot_to_target", "utils.fewshot_to_target", Kind::Field(reasoning)),
            $(function(
                concat!("mmlu_pro.process_", $name),
                concat!("utils.process_", $name),
                Kind::Rows("category", $category),
            )),*
        ]
    };
}

/// The functions.
pub(super) static FUNCTIONS: [Function; 17] = subjects! {
    "biology", "biology";
    "business", "business";
    "chemistry", "chemistry";
    "computer_science", "computer science";
    "economics", "economics";
    "engineering", "engineering";
    "health", "health";
    "history", "history";
    "law", "law";
    "math", "math";
    "other", "other";
    "philosophy", "philosophy";
    "physics", "physics";
    "psychology", "psychology";
};

fn question(fields: &Fields) -> Result<Value, String> {
    let options = fields.get("options").and_then(Value::as_array);
    let options = options.ok_or("the list options is missing")?;
    let mut prompt = format!("Question:\n{}\nOptions:\n", text(fields, "question")?);
    for (letter, option) in ('A'..).zip(options).take(OPTIONS) {
        let option = option.as_str().ok_or("an option is not text")?;
        prompt += &format!("{letter}. {}\n", option.trim());
    }
    Ok((prompt + "Answer: Let's think step by step.").into())
}

/// The reasoning of an example, whose beginning is part of the question.
fn reasoning(fields: &Fields) -> Result<Value, String> {
    Ok(text(fields, "cot_content")?.replace("A: Let's think step by step. ", "").into())
}
