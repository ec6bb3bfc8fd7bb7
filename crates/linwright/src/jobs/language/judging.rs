//! Evaluation in commands that do something else as well: texts, tasks and how much of them are
//! options of their own, all other keys are in one, `--evaluation window=256,bos=always`.
//!
//! Which keys there are, with their bounds and help, follows from the schema of
//! [`EvaluationOptions`], so that `eval` and other commands cannot differ.

use crate::jobs::kit::terms::{Catalogue, Entry, Term, TermOf, Terms};
use crate::jobs::kit::{self, Options, bounds};
use crate::jobs::language::evaluation::EvaluationOptions;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::LazyLock;

/// Options with a flag of their own in all commands.
const OWN: [&str; 5] = ["text", "text_field", "tasks", "data", "limit"];

/// The option with the other keys.
const TERM: &str = "evaluation";

/// Options of an evaluation in commands other than `eval`.
pub(in crate::jobs) trait Judged: Options + Terms {
    /// What the help says of keys beyond the options of `eval`.
    const MORE: &'static str = "";
}

/// The keys of `--evaluation` of some options: all but those with flags of their own.
fn catalogue_of<E: Options>() -> Catalogue {
    let mut schema = kit::schema::<E>();
    let mut standard = options(&E::default());
    let is_of_term = |key: &String| !OWN.contains(&key.as_str());
    standard.retain(|key, _| is_of_term(key));
    if let Some(keys) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        keys.retain(|key, _| is_of_term(key));
    }
    let entry = Entry::new("", "how texts and tasks are read, asked and scored");
    let entry = entry.with_standard(standard).with_keys(&schema, &[]);
    Catalogue::new(TERM, vec![entry])
}

static EVALUATION: LazyLock<Catalogue> = LazyLock::new(catalogue_of::<EvaluationOptions>);

impl Terms for EvaluationOptions {
    const NAME: &'static str = TERM;

    fn catalogue() -> &'static Catalogue {
        &EVALUATION
    }
}

impl Judged for EvaluationOptions {}

/// An evaluation by which one of several models is chosen: a fifth of the items chooses, the others
/// test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ChoiceOptions {
    /// The evaluation.
    #[serde(flatten)]
    pub evaluation: EvaluationOptions,
    /// Metric by which models are compared (sweep, compose, search) [default: the first of the task;
    /// in search acc_norm, else acc, and it must be 1 or 0 for each document].
    pub metric: Option<String>,
    /// Seed that shuffles the items before they are split into validation and test (sweep, compose,
    /// search) [default: the order of the file; in search 42, as of Python's `random.Random`].
    #[schemars(range(min = 0, max = bounds::SEED), extend("x-value" = "SEED"))]
    pub shuffle: Option<u64>,
}

static CHOICE: LazyLock<Catalogue> = LazyLock::new(catalogue_of::<ChoiceOptions>);

impl Terms for ChoiceOptions {
    const NAME: &'static str = "choice";

    fn catalogue() -> &'static Catalogue {
        &CHOICE
    }
}

impl Judged for ChoiceOptions {
    const MORE: &'static str = ", and with the metric that chooses and the order of the items: \
        `metric=acc,shuffle=3`";
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
    /// As the published code, lose the last test document (search).
    pub compat: bool,
}

static SEARCH: LazyLock<Catalogue> = LazyLock::new(catalogue_of::<SearchEvaluation>);

impl Terms for SearchEvaluation {
    const NAME: &'static str = "search";

    fn catalogue() -> &'static Catalogue {
        &SEARCH
    }
}

impl Judged for SearchEvaluation {
    const MORE: &'static str = ", and with the metric that selects, the order of the documents and \
        what follows the published code: `metric=acc,shuffle=3,compat`";
}

impl Deref for SearchEvaluation {
    type Target = ChoiceOptions;

    fn deref(&self) -> &ChoiceOptions {
        &self.choice
    }
}

fn options(evaluation: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(evaluation) {
        Ok(Value::Object(options)) => options,
        other => unreachable!("options are a map of plain data: {other:?}"),
    }
}

/// The form of the options of an evaluation in commands other than `eval`: `#[serde(flatten, with =
/// "Judging::<EvaluationOptions>")]`.
pub(in crate::jobs) struct Judging<E>(PhantomData<E>);

impl<E: Judged> Judging<E> {
    /// The own options, and a term of the others that are not the standard ones.
    ///
    /// # Errors
    /// That of the serializer.
    pub(in crate::jobs) fn serialize<S: Serializer>(
        evaluation: &E,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let mut all = options(evaluation);
        let standard = options(&E::default());
        let mut own = Map::new();
        for key in OWN {
            own.insert(key.to_owned(), all.remove(key).unwrap_or_default());
        }
        let keys = E::catalogue().unnamed().into_iter().flat_map(|entry| &entry.keys);
        let given = keys.filter_map(|key| {
            let value = all.get(&key.name).filter(|value| standard.get(&key.name) != Some(value));
            Some((key.name.clone(), value?.clone()))
        });
        let term = Term { name: "", head: None, given: given.collect() };
        let text = (!term.given.is_empty()).then(|| term.to_string());
        own.insert(TERM.to_owned(), json!(text));
        own.serialize(serializer)
    }

    /// The options of both.
    ///
    /// # Errors
    /// That of the deserializer, if a value is wrong or keys contradict each other.
    pub(in crate::jobs) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<E, D::Error> {
        let mut given = Map::<String, Value>::deserialize(deserializer)?;
        let term = given.remove(TERM).unwrap_or_default();
        let term: Option<TermOf<E>> = serde_json::from_value(term).map_err(of_serde)?;
        given.retain(|key, _| OWN.contains(&key.as_str()));
        given.extend(term.into_iter().flat_map(|term| term.options()));
        // What keys refuse or need in `eval`, where they are options, holds here too.
        kit::check_together::<E>(&given).map_err(serde::de::Error::custom)?;
        serde_json::from_value(given.into()).map_err(of_serde)
    }
}

fn of_serde<E: serde::de::Error>(error: serde_json::Error) -> E {
    E::custom(error)
}

impl<E: Judged> JsonSchema for Judging<E> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("judging {}", E::NAME).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = E::json_schema(generator);
        let mut term = TermOf::<E>::json_schema(generator);
        let help = format!("{HELP}{}. `linwright ls evaluation` lists them.", E::MORE);
        term.insert("description".to_owned(), help.into());
        term.insert("default".to_owned(), Value::Null);
        term.insert("x-value".to_owned(), "KEY=VALUE".into());
        if let Some(keys) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            keys.retain(|key, _| OWN.contains(&key.as_str()));
            keys.insert(TERM.to_owned(), term.into());
        }
        schema
    }
}

/// Help of the option with the other keys.
const HELP: &str = "How texts and tasks are read, asked and scored, with keys that are options of \
    `eval`: `window=256,num_fewshot=2`, `bos=always`";

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
