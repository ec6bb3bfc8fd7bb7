//! Results of an evaluation, read from the JSON of `linwright eval` or of the evaluation harness.

use super::ReportError;
use super::render::number::significant;
use super::table::{Table, TableRow};
use serde_json::{Map, Value};

/// An evaluation as tables.
#[derive(Clone, Debug, PartialEq)]
pub struct EvaluationView {
    /// The model, as its user named it.
    pub(super) model: String,
    pub(super) tables: Vec<Table>,
    pub(super) notes: Vec<String>,
}

/// Digits of a figure.
const DIGITS: i32 = 4;

impl EvaluationView {
    /// Whether a JSON text is that of an evaluation and not of another report.
    #[must_use]
    pub fn is_one(text: &str) -> bool {
        let value: Value = serde_json::from_str(text).unwrap_or_default();
        value.get("results").is_some_and(Value::is_object) && value.get("n-shot").is_some()
    }

    /// Reads the result of an evaluation.
    ///
    /// # Errors
    /// [`ReportError::NotAReport`] if it is no JSON, [`ReportError::NotAnEvaluation`] if a part
    /// that every result has is missing.
    pub fn from_json(text: &str) -> Result<Self, ReportError> {
        let value: Value = serde_json::from_str(text)?;
        let missing = |part: &'static str| ReportError::NotAnEvaluation { part };
        let results = value.get("results").and_then(Value::as_object).ok_or(missing("results"))?;
        let own = &value["linwright"];
        let baseline = own["baseline"].as_object();
        let groups: Vec<&String> =
            value["groups"].as_object().into_iter().flat_map(Map::keys).collect();
        let (grouped, tasks): (Vec<_>, Vec<_>) =
            results.iter().partition(|(name, _)| groups.contains(name));
        let mut tables = vec![figures("Tasks", &tasks, (&value, baseline))];
        if !grouped.is_empty() {
            tables.push(figures("Groups", &grouped, (&value, baseline)));
        }
        tables.extend(comparisons(&own["comparisons"]));
        tables.push(origin(&value));
        let notes = own["health"].as_array().into_iter().flatten().map(text_of).collect();
        let config = &value["config"];
        let model = [&value["model_name"], &config["model"]].into_iter().find_map(Value::as_str);
        Ok(Self { model: model.unwrap_or("a model").to_owned(), tables, notes })
    }
}

fn column(name: &str, numeric: bool) -> (String, bool) {
    (name.to_owned(), numeric)
}

fn text_of(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn row(cells: Vec<String>, starts_block: bool) -> TableRow {
    TableRow { cells, method: Some(String::new()), starts_block }
}

/// A line for each figure of each task, in the columns in which the harness shows them.
fn figures(
    caption: &str,
    tasks: &[(&String, &Value)],
    (result, baseline): (&Value, Option<&Map<String, Value>>),
) -> Table {
    let mut columns = vec![
        column("Task", false),
        column("Version", true),
        column("Filter", false),
        column("n-shot", true),
        column("Metric", false),
        column("Value", true),
        column("Error", true),
    ];
    columns.extend(baseline.map(|_| column("Dense", true)));
    let mut rows = Vec::new();
    for (task, figures) in tasks {
        for (index, (key, value)) in figures.as_object().into_iter().flatten().enumerate() {
            let Some((metric, filter)) = key.split_once(',') else { continue };
            if metric.ends_with("_stderr") {
                continue;
            }
            let number = |value: Option<&Value>| match value.and_then(Value::as_f64) {
                Some(number) => significant(number, DIGITS),
                None => String::new(),
            };
            let better = match result["higher_is_better"][task.as_str()][metric].as_bool() {
                Some(true) => " \u{2191}",
                Some(false) => " \u{2193}",
                None => "",
            };
            let name = figures.get("alias").and_then(Value::as_str).unwrap_or(task);
            let mut cells = vec![
                name.trim_start_matches([' ', '-']).to_owned(),
                text_of(&result["versions"][task.as_str()]),
                filter.to_owned(),
                text_of(&result["n-shot"][task.as_str()]),
                format!("{metric}{better}"),
                number(Some(value)),
                number(figures.get(format!("{metric}_stderr,{filter}"))),
            ];
            if let Some(baseline) = baseline {
                let dense = baseline.get(*task).and_then(|figures| figures.get(key));
                cells.push(number(dense));
            }
            rows.push(row(cells, index == 0 && !rows.is_empty()));
        }
    }
    Table { caption: caption.to_owned(), columns, rows }
}

/// Differences from the dense model, where they were measured.
fn comparisons(list: &Value) -> Option<Table> {
    let list = list.as_array().filter(|list| !list.is_empty())?;
    let columns = vec![
        column("Task", false),
        column("Metric", false),
        column("Difference", true),
        column("95 % from", true),
        column("to", true),
        column("McNemar p", true),
    ];
    let number = |value: &Value| value.as_f64().map_or(String::new(), |v| significant(v, DIGITS));
    let line = |one: &Value| {
        row(
            vec![
                text_of(&one["task"]),
                text_of(&one["metric"]),
                number(&one["difference"]),
                number(&one["interval"][0]),
                number(&one["interval"][1]),
                number(&one["mcnemar_p"]),
            ],
            false,
        )
    };
    let rows = list.iter().map(line).collect();
    Some(Table { caption: "Less the dense model, item by item".to_owned(), columns, rows })
}

/// Where the figures come from.
fn origin(result: &Value) -> Table {
    let own = &result["linwright"];
    let mut rows = Vec::new();
    let mut add = |name: &str, value: String| {
        if !value.is_empty() {
            rows.push(row(vec![name.to_owned(), value], false));
        }
    };
    for (name, value) in own["protocols"].as_object().into_iter().flatten() {
        add(&format!("protocol of {name}"), text_of(value));
    }
    for (name, value) in result["n-samples"].as_object().into_iter().flatten() {
        let count = format!("{} of {}", text_of(&value["effective"]), text_of(&value["original"]));
        add(&format!("documents of {name}"), count);
    }
    for (name, value) in [
        ("version", &own["version"]),
        ("version of the harness", &result["lm_eval_version"]),
        ("model sha256", &own["model_sha256"]),
        ("system instruction", &result["system_instruction"]),
        ("seconds", &own["timing"]["evaluate_seconds"]),
        ("threads", &own["threads"]),
        ("device", &result["config"]["device"]),
        ("type of numbers", &result["config"]["model_dtype"]),
    ] {
        add(name, text_of(value));
    }
    for source in own["data"].as_array().into_iter().flatten() {
        add(
            &format!("sha256 of the data of {}", text_of(&source["path"])),
            text_of(&source["sha256"]),
        );
    }
    let columns = vec![column("What", false), column("Value", false)];
    Table { caption: "Where it comes from".to_owned(), columns, rows }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::render::{evaluation_html, evaluation_markdown, evaluation_terminal};
    use serde_json::json;

    fn result() -> Value {
        json!({
            "results": {
                "arc": {"alias": "arc", "acc,none": 0.5, "acc_stderr,none": 0.05, "sample_len": 9},
                "all": {"alias": "every<thing>", "acc,none": 0.5, "acc_stderr,none": "N/A"},
            },
            "groups": {"all": {}},
            "versions": {"arc": 1.0}, "n-shot": {"arc": 2},
            "higher_is_better": {"arc": {"acc": true}},
            "n-samples": {"arc": {"original": 10, "effective": 9}},
            "config": {"model": "my|model"},
            "linwright": {"baseline": {"arc": {"acc,none": 0.625}}, "health": ["arc: 3 were cut"]},
        })
    }

    #[test]
    fn figures_stand_in_the_harness_s_columns() {
        let text = result().to_string();
        assert!(EvaluationView::is_one(&text) && !EvaluationView::is_one("{\"schema\": 1}"));
        let view = EvaluationView::from_json(&text).unwrap();
        let [tasks, groups, ..] = view.tables.as_slice() else { panic!("{view:?}") };
        let want = ["arc", "1.0", "none", "2", "acc \u{2191}", "0.5000", "0.05000", "0.6250"];
        assert_eq!(tasks.rows[0].cells, want);
        assert_eq!((groups.rows[0].cells[6].as_str(), groups.caption.as_str()), ("", "Groups"));
        let shown = evaluation_terminal(&view);
        assert!(shown.contains("note: arc: 3 were cut") && shown.contains("9 of 10"), "{shown}");
        let markdown = evaluation_markdown(&view);
        assert!(markdown.contains("# Evaluation of my\\|model"), "{markdown}");
        assert!(markdown.contains("| arc | 1.0 | none | 2 |"), "{markdown}");
        let html = evaluation_html(&view);
        assert!(html.contains("every&lt;thing&gt;") && !html.contains("<thing>"), "{html}");
        assert!(
            html.contains("<td class=\"n\">0.5000</td>") && html.ends_with("</html>\n"),
            "{html}"
        );
    }

    #[test]
    fn what_is_missing_is_named() {
        let error = EvaluationView::from_json("{\"n-shot\": {}}").unwrap_err().to_string();
        assert!(error.contains("results"), "{error}");
    }
}
