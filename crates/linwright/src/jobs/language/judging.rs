//! Evaluation in commands that do something else as well: texts, tasks and how much of them are
//! options of their own, all other keys are in one, `--evaluation window=256,bos=always`.
//!
//! Which keys there are, with their bounds and help, follows from the schema of
//! [`EvaluationOptions`], so that `eval` and other commands cannot differ.

use crate::jobs::kit::{Folded, Folding, catalogue};
use crate::jobs::language::evaluation::EvaluationOptions;

/// The form of [`EvaluationOptions`] in commands other than `eval`: `#[serde(flatten, with =
/// "Judging")]`.
pub(in crate::jobs) type Judging = Folding<EvaluationOptions>;

impl Folded for EvaluationOptions {
    const NAME: &'static str = "evaluation";
    const OPTION: &'static str = "evaluation";
    const HELP: &'static str = "How texts and tasks are read, asked and scored, with keys that are \
        options of `eval`: `window=256,num_fewshot=2`, `bos=always`.";
    const OWN: &'static [&'static str] =
        &["text", "text_field", "questions", "tasks", "data", "batch_size", "limit"];

    catalogue!(EvaluationOptions);
}

#[cfg(test)]
mod tests {
    use crate::jobs::kit::read;
    use crate::jobs::language::sweep::Sweep;
    use serde_json::{Value, json};

    fn sweep(options: &Value) -> Result<Sweep, String> {
        read(options.as_object().unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_text_and_a_map_are_the_same_evaluation_and_it_reads_back() {
        for (text, map) in [
            ("window=256,bos=always", json!({"bos": "always", "window": 256})),
            ("more_texts=a.txt", json!({"more_texts": ["a.txt"]})),
            ("more_texts=[a.txt,\"b c.txt\"]", json!({"more-texts": ["a.txt", "b c.txt"]})),
            ("date=2026-11-27T14:05", json!({"date": "2026-11-27T14:05"})),
            (
                "system_instruction=\"say \\\"a, b\\\"\",join=space",
                json!({"system_instruction": "say \"a, b\"", "join": "space"}),
            ),
            ("system-instruction=Be brief.", json!({"system_instruction": "Be brief."})),
            ("samples={\"arc_easy\":[0,7]}", json!({"samples": {"arc_easy": [0, 7]}})),
            (
                "apply_chat_template,fewshot_as_multiturn",
                json!({
                    "apply_chat_template": true, "fewshot_as_multiturn": true,
                }),
            ),
            (
                "chat_template_args={\"enable_thinking\":false}",
                json!({"chat_template_args": {"enable_thinking": false}}),
            ),
            ("window=512", json!({})),
        ] {
            let job = |evaluation: Value| {
                sweep(&json!({"model": "m", "text": "t", "evaluation": evaluation})).unwrap()
            };
            let (of_text, of_map) = (job(text.into()), job(map));
            assert_eq!(of_text, of_map, "{text}");
            let written = serde_json::to_value(&of_text).unwrap();
            assert_eq!(job(written["evaluation"].clone()), of_text, "{written}");
            assert_eq!(sweep(&written), Ok(of_text), "{written}");
        }
    }

    #[test]
    fn keys_that_contradict_each_other_are_refused() {
        for (options, expected) in [
            (json!({"evaluation": "more_texts=a.txt"}), "more_texts needs text"),
            (json!({"evaluation": "samples={}", "limit": 3}), "samples cannot be used with limit"),
            (json!({"evaluation": "fewshot_as_multiturn"}), "needs apply_chat_template"),
            (json!({"evaluation": "max_length=1"}), "expected a whole number from 2"),
            (json!({"evaluation": "windows=1"}), "evaluation has no option windows"),
            (json!({"evaluation": "date=now"}), "evaluation is \"date=now\""),
            (json!({"evaluation": "limit=3"}), "evaluation has no option limit"),
        ] {
            let mut job = json!({"model": "m"});
            job.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
            let error = sweep(&job).unwrap_err();
            assert!(error.contains(expected), "{options}: {error}");
        }
    }
}
