//! The functions that task files may name: equivalents of the Python functions of the harness's
//! standard tasks, under a new name and under the name in the harness.

use super::ifeval;
use super::mmlu_pro;
use super::subject::group_with_data;
use super::value::Value as Measured;
use linwright_data::Fields;
use linwright_run::shown;
use regex::Regex;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Metrics of one document, by name.
pub(super) type Outcome = BTreeMap<String, Measured>;

/// Scores a document from the log-likelihoods of its requests.
pub(super) type Scorer = fn(&Fields, &[f64]) -> Result<Outcome, String>;

/// Scores a document from its generated answer.
#[derive(Clone, Copy)]
pub(super) struct AnswerScorer {
    /// Checks a document before anything is generated.
    pub(super) check: fn(&Fields) -> Result<(), String>,
    /// Metrics of an answer.
    pub(super) score: fn(&Fields, &str) -> Result<Outcome, String>,
}

/// A named function.
pub(super) struct Function {
    /// Its name here.
    pub(super) name: &'static str,
    /// Name of the function in the harness's task file, and prefix of the names of such tasks.
    pub(super) harness: (&'static str, &'static str),
    pub(super) kind: Kind,
}

/// Input and output of a function. Errors are the reason only.
pub(super) enum Kind {
    /// Changes a document before its prompt is built.
    Document(fn(&Fields) -> Result<Fields, String>),
    /// Keeps the documents with this value in this field.
    Rows(&'static str, &'static str),
    /// Builds a document from this number of lines of text, which are the field `text` of rows.
    Lines(usize, fn(&[&str]) -> Result<Fields, String>),
    /// Computes the text, answer or choices.
    Field(fn(&Fields) -> Result<Value, String>),
    /// Scores a document from log-likelihoods.
    Results(Scorer),
    /// Scores a document from a generated answer.
    Answer(AnswerScorer),
    /// Aggregates a metric: the name of an aggregation.
    Aggregation(&'static str),
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// All functions but those of MMLU-Pro.
static FUNCTIONS: &[Function] = &[
    Function {
        name: "hellaswag.process_docs",
        harness: ("utils.process_docs", "hellaswag"),
        kind: Kind::Document(hellaswag),
    },
    Function {
        name: "hellaswag.six_lines",
        harness: ("", "hellaswag"),
        kind: Kind::Lines(6, hellaswag_lines),
    },
    Function {
        name: "winogrande.doc_to_text",
        harness: ("preprocess_winogrande.doc_to_text", "winogrande"),
        kind: Kind::Field(winogrande_text),
    },
    Function {
        name: "winogrande.doc_to_target",
        harness: ("preprocess_winogrande.doc_to_target", "winogrande"),
        kind: Kind::Field(winogrande_target),
    },
    Function {
        name: "winogrande.doc_to_choice",
        harness: ("preprocess_winogrande.doc_to_choice", "winogrande"),
        kind: Kind::Field(winogrande_choice),
    },
    Function {
        name: "truthfulqa.process_results_mc2",
        harness: ("utils.process_results_mc2", "truthfulqa"),
        kind: Kind::Results(truthfulqa_mc2),
    },
    Function {
        name: "wikitext.detokenizer",
        harness: ("preprocess_wikitext.wikitext_detokenizer", "wikitext"),
        kind: Kind::Field(wikitext_target),
    },
    Function {
        name: "wikitext.process_results",
        harness: ("preprocess_wikitext.process_results", "wikitext"),
        kind: Kind::Results(wikitext_results),
    },
    Function {
        name: "mnli.doc_to_text",
        harness: ("utils.doc_to_text", "mnli"),
        kind: Kind::Field(mnli_text),
    },
    Function {
        name: "ifeval.process_results",
        harness: ("utils.process_results", "ifeval"),
        kind: Kind::Answer(AnswerScorer { check: ifeval::check, score: ifeval::score }),
    },
    Function {
        name: "ifeval.agg_inst_level_acc",
        harness: ("utils.agg_inst_level_acc", "ifeval"),
        kind: Kind::Aggregation("share_of_truths"),
    },
];

impl Function {
    /// Finds a function by its name in the file of a task.
    pub(super) fn find(name: &str, task: &str) -> Option<&'static Self> {
        let own = Self::all().find(|function| function.name == name);
        // Other tasks whose names begin with mmlu_pro have functions of the same names.
        let is_pro = group_with_data(task) == Some(mmlu_pro::GROUP);
        let is_of = |function: &&Self| {
            let prefix = function.harness.1;
            function.harness.0 == name
                && if prefix == mmlu_pro::GROUP { is_pro } else { task.starts_with(prefix) }
        };
        own.or_else(|| Self::all().find(is_of))
    }

    /// Names of all functions.
    pub(super) fn known() -> String {
        Self::all().map(|function| function.name).collect::<Vec<_>>().join(", ")
    }

    fn all() -> impl Iterator<Item = &'static Self> {
        FUNCTIONS.iter().chain(&mmlu_pro::FUNCTIONS)
    }
}

/// A text field of a document.
pub(super) fn text<'a>(fields: &'a Fields, name: &str) -> Result<&'a str, String> {
    match fields.get(name) {
        Some(Value::String(text)) => Ok(text),
        Some(other) => Err(format!("field {name} is {}, expected text", shown(&other.to_string()))),
        None => Err(format!("the field {name} is missing")),
    }
}

/// Python's `capitalize`: the first character in upper case, the others in lower case.
fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    first + &letters.as_str().to_lowercase()
}

static BRACKETS: LazyLock<Regex> = LazyLock::new(|| fixed(r"\[.*?\]"));

fn fixed(pattern: &str) -> Regex {
    Regex::new(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"))
}

/// Removes brackets left over from WikiHow markup.
fn without_brackets(text: &str) -> String {
    let text = text.trim().replace(" [title]", ". ");
    BRACKETS.replace_all(&text, "").replace("  ", " ")
}

fn hellaswag(fields: &Fields) -> Result<Fields, String> {
    let mut out = fields.clone();
    let context = format!("{} {}", text(fields, "ctx_a")?, capitalised(text(fields, "ctx_b")?));
    let query = format!("{}: {context}", text(fields, "activity_label")?);
    let endings = fields.get("endings").and_then(Value::as_array);
    let endings = endings.ok_or("the list endings is missing")?;
    let choices: Option<Vec<Value>> =
        endings.iter().map(|e| e.as_str().map(|e| without_brackets(e).into())).collect();
    let gold = match fields.get("label") {
        Some(Value::String(label)) => label.parse().ok(),
        Some(Value::Number(label)) => label.as_i64(),
        _ => None,
    };
    out.insert("query".into(), without_brackets(&query).into());
    out.insert("choices".into(), choices.ok_or("an ending is not text")?.into());
    out.insert("gold".into(), gold.ok_or("the label is not a number")?.into());
    Ok(out)
}

/// Lines: context, index of the correct ending, four endings, all preprocessed.
fn hellaswag_lines(lines: &[&str]) -> Result<Fields, String> {
    let [query, gold, choices @ ..] = lines else { return Err("the document has no lines".into()) };
    let gold = gold.trim().parse().ok().filter(|&gold: &usize| gold < choices.len());
    let gold = gold.ok_or_else(|| {
        format!("the second line is {:?}, expected 0 to {}", lines[1], choices.len() - 1)
    })?;
    Ok(Fields::from_iter([
        ("query".to_owned(), (*query).into()),
        ("choices".to_owned(), choices.to_vec().into()),
        ("gold".to_owned(), gold.into()),
    ]))
}

/// The sentence before and after its blank.
fn gap(fields: &Fields) -> Result<(&str, &str), String> {
    let sentence = text(fields, "sentence")?;
    sentence.split_once('_').ok_or_else(|| format!("the blank _ is missing in {sentence:?}"))
}

fn winogrande_text(fields: &Fields) -> Result<Value, String> {
    match text(fields, "answer")? {
        "1" => Ok(0.into()),
        "2" => Ok(1.into()),
        other => Err(format!("the answer is \"{}\", expected 1 or 2", shown(other))),
    }
}

fn winogrande_target(fields: &Fields) -> Result<Value, String> {
    Ok(gap(fields)?.1.trim().into())
}

fn winogrande_choice(fields: &Fields) -> Result<Value, String> {
    let before = gap(fields)?.0;
    let option = |name| text(fields, name).map(|option| format!("{before}{option}"));
    Ok(vec![option("option1")?, option("option2")?].into())
}

/// Share of the probability on true answers.
fn truthfulqa_mc2(fields: &Fields, likelihoods: &[f64]) -> Result<Outcome, String> {
    let labels = fields.get("mc2_targets").and_then(|t| t.get("labels")).and_then(Value::as_array);
    let labels = labels.ok_or("the list mc2_targets.labels is missing")?;
    if labels.len() != likelihoods.len() {
        return Err(format!("{} labels for {} choices", labels.len(), likelihoods.len()));
    }
    let probabilities: Vec<f64> = likelihoods.iter().map(|l| l.exp()).collect();
    let all: f64 = probabilities.iter().sum();
    let pairs = probabilities.iter().zip(labels);
    let right: f64 =
        pairs.filter(|(_, label)| label.as_i64() == Some(1)).map(|(p, _)| p / all).sum();
    Ok(Outcome::from([("acc".to_owned(), Measured::Number(right))]))
}

fn mnli_text(fields: &Fields) -> Result<Value, String> {
    let hypothesis = text(fields, "hypothesis")?.trim();
    let stop = if hypothesis.ends_with('.') { "" } else { "." };
    let premise = text(fields, "premise")?;
    Ok(format!("{premise}\nQuestion: {hypothesis}{stop} True, False or Neither?\nAnswer:").into())
}

/// Patterns and replacements, in the order of application.
static MARKS: LazyLock<[(Regex, &str); 5]> = LazyLock::new(|| {
    [
        (fixed(r"\(\s*([^\)]*?)\s*\)"), "($1)"),
        (fixed(r"\[\s*([^\]]*?)\s*\]"), "[$1]"),
        (fixed(r"\{\s*([^}]*?)\s*\}"), "{$1}"),
        (fixed(r#""\s*([^"]*?)\s*""#), "\"$1\""),
        (fixed(r"'\s*([^']*?)\s*'"), "'$1'"),
    ]
});

/// Undoes the word tokenisation of WikiText.
fn wikitext_target(fields: &Fields) -> Result<Value, String> {
    let mut text = text(fields, "page")?.replace("s '", "s'");
    text = fixed_quote(&text);
    for (from, to) in [
        (" @-@ ", "-"),
        (" @,@ ", ","),
        (" @.@ ", "."),
        (" : ", ": "),
        (" ; ", "; "),
        (" . ", ". "),
        (" ! ", "! "),
        (" ? ", "? "),
        (" , ", ", "),
    ] {
        text = text.replace(from, to);
    }
    for (pattern, with) in MARKS.iter() {
        text = pattern.replace_all(&text, *with).into_owned();
    }
    for (from, to) in [
        ("= = = =", "===="),
        ("= = =", "==="),
        ("= =", "=="),
        (" \u{b0} ", "\u{b0}"),
        (" \n", "\n"),
        ("\n ", "\n"),
        (" N ", " 1 "),
        (" 's", "'s"),
    ] {
        text = text.replace(from, to);
    }
    Ok(text.into())
}

/// Replaces a digit between slashes by the text of a pattern: a bug of the original, kept so that
/// scores agree.
fn fixed_quote(text: &str) -> String {
    static QUOTE: LazyLock<Regex> = LazyLock::new(|| fixed("/' [0-9]/"));
    QUOTE.replace_all(text, "/'[0-9]/").into_owned()
}

/// Counts the words and bytes of the original page, not of the scored text.
fn wikitext_results(fields: &Fields, likelihoods: &[f64]) -> Result<Outcome, String> {
    let page = text(fields, "page")?;
    let [likelihood] = likelihoods else { return Err("expected one request for one text".into()) };
    let per = |count: usize| Measured::Weighted(*likelihood, count as f64);
    Ok(Outcome::from([
        ("word_perplexity".to_owned(), per(words(page))),
        ("byte_perplexity".to_owned(), per(page.len())),
        ("bits_per_byte".to_owned(), per(page.len())),
    ]))
}

/// Number of pieces between white space, including empty ones at both ends: Python's
/// `len(re.split(r"\s+", text))`.
pub(super) fn words(text: &str) -> usize {
    static SPACE: LazyLock<Regex> = LazyLock::new(|| fixed(r"[\s\x1c-\x1f]+"));
    SPACE.split(text).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fields(value: Value) -> Fields {
        value.as_object().cloned().unwrap_or_default()
    }

    fn run(name: &str, value: Value) -> Result<Value, String> {
        match &Function::find(name, "").unwrap().kind {
            Kind::Document(function) => function(&fields(value)).map(Value::Object),
            Kind::Field(function) => function(&fields(value)),
            Kind::Rows(..)
            | Kind::Lines(..)
            | Kind::Results(_)
            | Kind::Answer(_)
            | Kind::Aggregation(_) => Err("of no document".into()),
        }
    }

    #[test]
    fn functions_of_other_tasks_with_the_same_names_are_unknown() {
        let find = |task| Function::find("utils.process_law", task).map(|found| found.name);
        assert_eq!(find("mmlu_pro_law"), Some("mmlu_pro.process_law"));
        for other in ["mmlu_prox_de_law", "mmlu_pro_plus_law", "mmlu_pro_other_law", "mmlu_law"] {
            assert_eq!(find(other), None, "{other}");
        }
    }

    #[test]
    fn hellaswag_is_cleaned() {
        let document = json!({
            "activity_label": "Baking", "ctx_a": "A man [header] sits. [title] Then", "ctx_b": "he IS up",
            "endings": [" one [x] two ", "b"], "label": "1",
        });
        let out = run("hellaswag.process_docs", document).unwrap();
        assert_eq!(out["query"], "Baking: A man sits.. Then He is up");
        assert_eq!(out["choices"], json!(["one two", "b"]));
        assert_eq!((&out["gold"], &out["label"]), (&json!(1), &json!("1")));
    }

    #[test]
    fn hellaswag_is_read_from_six_lines() {
        let out = hellaswag_lines(&["A: b", " 2", "w", "x", "y", "z"]).unwrap();
        let want = json!({"query": "A: b", "choices": ["w", "x", "y", "z"], "gold": 2});
        assert_eq!(Value::Object(out), want);
        let error = hellaswag_lines(&["A", "4", "w", "x", "y", "z"]).unwrap_err();
        assert_eq!(error, "the second line is \"4\", expected 0 to 3");
    }

    #[test]
    fn winogrande_is_cut_at_its_gap() {
        let document = json!({
            "sentence": "Ann saw Bea, so _ was happy .", "option1": "Ann", "option2": "Bea",
            "answer": "2",
        });
        let of = |name| run(name, document.clone()).unwrap();
        assert_eq!(of("winogrande.doc_to_text"), 1);
        assert_eq!(of("winogrande.doc_to_target"), "was happy .");
        let choices = json!(["Ann saw Bea, so Ann", "Ann saw Bea, so Bea"]);
        assert_eq!(of("winogrande.doc_to_choice"), choices);
        assert!(run("winogrande.doc_to_target", json!({"sentence": "x"})).is_err());
    }

    #[test]
    fn wikitext_is_detokenised() {
        let page = " = Title = \n It 's ( a ) \" b \" 1 @,@ 000 m , and the cats ' food . End ";
        let out = run("wikitext.detokenizer", json!({"page": page})).unwrap();
        // Computed by the rules of the harness in Python.
        assert_eq!(out, " = Title =\nIt's (a) \"b\" 1,000 m, and the cats' food. End ");
        assert_eq!(words(" a  b\n"), 4);
    }

    #[test]
    fn mnli_gets_its_stop() {
        let out = run("mnli.doc_to_text", json!({"premise": "P", "hypothesis": " H. "})).unwrap();
        assert_eq!(out, "P\nQuestion: H. True, False or Neither?\nAnswer:");
    }

    #[test]
    fn probability_of_true_answers() {
        let document = fields(json!({"mc2_targets": {"labels": [1, 0, 1]}}));
        let outcome =
            truthfulqa_mc2(&document, &[0.5f64.ln(), 0.25f64.ln(), 0.25f64.ln()]).unwrap();
        let Measured::Number(share) = outcome["acc"] else { panic!("{outcome:?}") };
        assert!((share - 0.75).abs() < 1e-12);
        assert!(truthfulqa_mc2(&document, &[0.0]).is_err());
    }
}
