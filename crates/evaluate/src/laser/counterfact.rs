//! Facts with two or three prompts each (Meng et al. 2022, arXiv:2202.05262).
//!
//! Fields as in ROME (`requested_rewrite` with `prompt`, in which `{}` is replaced by the
//! `subject`, and `target_true`; `paraphrase_prompts`), or as in the version for model editing
//! (`prompt`, `ground_truth`, `rephrase_prompt`). The groups separate prompts from paraphrases.

use super::set::{Form, LaserSet, Mask, Reading, Record, Source};
use linwright_data::DataError;
use serde_json::Value;

/// Registry entry of this set.
pub(super) const ENTRY: LaserSet = LaserSet {
    name: "laser_counterfact",
    summary: "facts, each with paraphrases (CounterFact)",
    form: Form::Generated { new_tokens: 10, longest: None },
    mask: Some(Mask { after: ".", filled_masks: 1, ..Mask::PROMPT }),
    read,
};

/// Prompts of a fact, the original first, and the answer.
type Fact<'a> = (Vec<String>, &'a str);

fn rome<'a>(source: &Source<'a>, rewrite: &'a Value) -> Result<Fact<'a>, DataError> {
    let part = |path: &str| {
        let value = rewrite.pointer(path).unwrap_or(&Value::Null);
        source.text_in(&format!("requested_rewrite{}", path.replace('/', ".")), value)
    };
    let (prompt, subject) = (part("/prompt")?, part("/subject")?);
    if !prompt.contains("{}") {
        let place = "requested_rewrite.prompt";
        return Err(source.expected(place, &Value::from(prompt), "{} in place of the subject"));
    }
    let (name, others) = source.one_of(&["paraphrase_prompts"])?;
    let others = source.texts_in(name, others)?.into_iter().map(str::to_owned);
    let prompts = std::iter::once(prompt.replace("{}", subject)).chain(others);
    Ok((prompts.collect(), part("/target_true/str")?))
}

fn cut<'a>(source: &Source<'a>) -> Result<Fact<'a>, DataError> {
    let prompts = [source.text(&["prompt"])?, source.text(&["rephrase_prompt"])?];
    Ok((prompts.map(str::to_owned).to_vec(), source.text(&["ground_truth"])?))
}

fn read(sources: &[Source<'_>]) -> Result<Reading, DataError> {
    let mut records = Vec::new();
    for source in sources {
        let (prompts, answer) = match source.one_of(&["requested_rewrite", "prompt"])? {
            ("requested_rewrite", rewrite) => rome(source, rewrite)?,
            _ => cut(source)?,
        };
        for (index, prompt) in prompts.into_iter().enumerate() {
            let prompt = prompt.trim().to_owned();
            records.push(Record {
                place: format!("{}, prompt {index}", source.place()),
                question: prompt.clone(),
                prompt,
                answer: answer.to_owned(),
                group: Some(if index == 0 { "main" } else { "paraphrase" }),
                ..Record::default()
            });
        }
    }
    Ok(Reading { records, left_out: Vec::new() })
}
