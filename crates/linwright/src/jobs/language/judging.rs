//! Evaluation in commands that do something else as well: texts, tasks and how much of them are
//! options of their own, all other keys are in one, `--evaluation window=256,bos=always`.
//!
//! Which keys there are, with their bounds and help, follows from the schema of
//! [`EvaluationOptions`], so that `eval` and other commands cannot differ.

use crate::jobs::kit::{Folded, bounds, catalogue};
use crate::jobs::language::evaluation::EvaluationOptions;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::Deref;

/// Options with a flag of their own in all commands.
const OWN: &[&str] = &["text", "text_field", "tasks", "data", "limit"];

impl Folded for EvaluationOptions {
    const NAME: &'static str = "evaluation";
    const OPTION: &'static str = "evaluation";
    const HELP: &'static str = "How texts and tasks are read, asked and scored, with keys that are \
        options of `eval`: `window=256,num_fewshot=2`, `bos=always`.";
    const OWN: &'static [&'static str] = OWN;

    catalogue!(EvaluationOptions);
}

/// An evaluation by which one of several models is chosen: a fifth of the items chooses, the others
/// test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ChoiceOptions {
    /// The evaluation.
    #[serde(flatten)]
    pub evaluation: EvaluationOptions,
    /// Metric by which models are compared [default: the first of the
    /// task; in search acc_norm, else acc, and it must be 1 or 0 for each document].
    pub metric: Option<String>,
    /// Seed that shuffles the items before they are split into validation and test [default: the
    /// order of the file; in search 42, as of Python's `random.Random`].
    #[schemars(range(min = 0, max = bounds::SEED), extend("x-value" = "SEED"))]
    pub shuffle: Option<u64>,
}

impl Folded for ChoiceOptions {
    const NAME: &'static str = "choice";
    const OPTION: &'static str = "evaluation";
    const HELP: &'static str = "How texts and tasks are read, asked and scored, with keys that are \
        options of `eval`, and with the metric that chooses and the order of the items: \
        `window=256,bos=always`, `metric=acc,shuffle=3`.";
    const OWN: &'static [&'static str] = OWN;

    catalogue!(ChoiceOptions);
}

impl Deref for ChoiceOptions {
    type Target = EvaluationOptions;

    fn deref(&self) -> &EvaluationOptions {
        &self.evaluation
    }
}

/// An evaluation by which ranks are searched.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SearchEvaluation {
    /// The evaluation.
    #[serde(flatten)]
    pub choice: ChoiceOptions,
    /// As the published code, lose the last test document.
    pub compat: bool,
}

impl Folded for SearchEvaluation {
    const NAME: &'static str = "search";
    const OPTION: &'static str = "evaluation";
    const HELP: &'static str = "How texts and tasks are read, asked and scored, with keys that are \
        options of `eval`, and with the metric that selects, the order of the documents and what \
        follows the published code: `window=256,bos=always`, `metric=acc,shuffle=3,compat`.";
    const OWN: &'static [&'static str] = OWN;

    catalogue!(SearchEvaluation);
}

impl Deref for SearchEvaluation {
    type Target = ChoiceOptions;

    fn deref(&self) -> &ChoiceOptions {
        &self.choice
    }
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
            (
                "batch_size=2,metric=acc,shuffle=3",
                json!({"metric": "acc", "shuffle": 3, "batch_size": 2}),
            ),
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
            (json!({"evaluation": "batch_size=none"}), "expected auto, or thousands"),
            (json!({"evaluation": "shuffle=-1"}), "shuffle is -1, expected a whole number from 0"),
            (json!({"evaluation": "compat"}), "evaluation has no option compat"),
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
