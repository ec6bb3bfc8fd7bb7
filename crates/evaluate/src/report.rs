//! Report of an evaluation, from the JSON of `linwright eval` or of lm-evaluation-harness.

use linwright_report::number::significant;
use linwright_report::{Block, Document, ReportError, Row, Table};
use serde_json::{Map, Value};

/// Significant digits of a score.
const DIGITS: i32 = 4;

/// Whether a JSON text is the result of an evaluation.
#[must_use]
pub fn is_evaluation(text: &str) -> bool {
    let value: Value = serde_json::from_str(text).unwrap_or_default();
    value.get("results").is_some_and(Value::is_object) && value.get("n-shot").is_some()
}

/// The report of an evaluation.
///
/// # Errors
/// [`ReportError::NotAReport`] if the text is not JSON, [`ReportError::Missing`] if a part that
/// every result has is missing.
pub fn document(text: &str) -> Result<Document, ReportError> {
    let value: Value = serde_json::from_str(text)?;
    let what = "the result of an evaluation";
    let missing = |part: &'static str| ReportError::Missing { what, part };
    let results = value.get("results").and_then(Value::as_object).ok_or(missing("results"))?;
    let ours = &value["linwright"];
    let baseline = ours["baseline"].as_object();
    let groups: Vec<&String> =
        value["groups"].as_object().into_iter().flat_map(Map::keys).collect();
    let (grouped, tasks): (Vec<_>, Vec<_>) =
        results.iter().partition(|(name, _)| groups.contains(name));
    let mut tables = vec![figures("Tasks", &tasks, &value, baseline)];
    if !grouped.is_empty() {
        tables.push(figures("Groups", &grouped, &value, baseline));
    }
    tables.extend(comparisons(&ours["comparisons"]));
    tables.push(origin(&value));
    let notes = ours["health"].as_array().into_iter().flatten().map(text_of).collect();
    let config = &value["config"];
    let model = [&value["model_name"], &config["model"]].into_iter().find_map(Value::as_str);
    let model = model.unwrap_or("a model");
    Ok(Document {
        title: format!("Evaluation of {model}"),
        heading: Some(model.to_owned()),
        kicker: "Linwright evaluation".to_owned(),
        blocks: tables.into_iter().map(Block::Table).chain([Block::Notes(notes)]).collect(),
        ..Document::default()
    })
}

fn text_of(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Table of the metrics of all tasks, with the columns of the harness.
fn figures(
    caption: &str,
    tasks: &[(&String, &Value)],
    result: &Value,
    baseline: Option<&Map<String, Value>>,
) -> Table {
    let mut columns = vec![
        ("Task", false),
        ("Version", true),
        ("Filter", false),
        ("n-shot", true),
        ("Metric", false),
        ("Value", true),
        ("Error", true),
    ];
    columns.extend(baseline.map(|_| ("Dense", true)));
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
            rows.push(Row {
                cells,
                starts_block: index == 0 && !rows.is_empty(),
                ..Row::default()
            });
        }
    }
    Table { rows, ..Table::new(caption, columns) }
}

/// Table of the differences from the dense model, if they were measured.
fn comparisons(list: &Value) -> Option<Table> {
    let list = list.as_array().filter(|list| !list.is_empty())?;
    let columns = vec![
        ("Task", false),
        ("Metric", false),
        ("Difference", true),
        ("95 % from", true),
        ("to", true),
        ("McNemar p", true),
    ];
    let number = |value: &Value| value.as_f64().map_or(String::new(), |v| significant(v, DIGITS));
    let line = |one: &Value| {
        vec![
            text_of(&one["task"]),
            text_of(&one["metric"]),
            number(&one["difference"]),
            number(&one["interval"][0]),
            number(&one["interval"][1]),
            number(&one["mcnemar_p"]),
        ]
    };
    Some(Table::new("Paired differences from the dense model", columns).with(list.iter().map(line)))
}

/// Provenance of the results.
fn origin(result: &Value) -> Table {
    let ours = &result["linwright"];
    let mut pairs = Vec::new();
    let mut add = |name: &str, value: String| {
        if !value.is_empty() {
            pairs.push((name.to_owned(), value));
        }
    };
    for (name, value) in ours["protocols"].as_object().into_iter().flatten() {
        add(&format!("protocol of {name}"), text_of(value));
    }
    for (name, value) in result["n-samples"].as_object().into_iter().flatten() {
        let count = format!("{} of {}", text_of(&value["effective"]), text_of(&value["original"]));
        add(&format!("documents of {name}"), count);
    }
    for (name, value) in [
        ("version", &ours["version"]),
        ("version of the harness", &result["lm_eval_version"]),
        ("model sha256", &ours["model_sha256"]),
        ("system instruction", &result["system_instruction"]),
        ("seconds", &ours["timing"]["evaluate_seconds"]),
        ("threads", &ours["threads"]),
        ("device", &result["config"]["device"]),
        ("dtype", &result["config"]["model_dtype"]),
    ] {
        add(name, text_of(value));
    }
    for source in ours["data"].as_array().into_iter().flatten() {
        add(&format!("data sha256 of {}", text_of(&source["path"])), text_of(&source["sha256"]));
    }
    Table::of_pairs("Provenance", pairs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_report::{html, markdown, terminal};
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
        assert!(is_evaluation(&text) && !is_evaluation("{\"schema\": 1}"));
        let found = document(&text).unwrap();
        let [Block::Table(tasks), Block::Table(groups), ..] = found.blocks.as_slice() else {
            panic!("{found:?}")
        };
        let want = ["arc", "1.0", "none", "2", "acc \u{2191}", "0.5000", "0.05000", "0.6250"];
        assert_eq!(tasks.rows[0].cells, want);
        assert_eq!((groups.rows[0].cells[6].as_str(), groups.caption.as_str()), ("", "Groups"));
        let shown = terminal::render(&found);
        assert!(shown.contains("note: arc: 3 were cut") && shown.contains("9 of 10"), "{shown}");
        let markdown = markdown::render(&found);
        assert!(markdown.contains("# Evaluation of my\\|model"), "{markdown}");
        assert!(markdown.contains("| arc | 1.0 | none | 2 |"), "{markdown}");
        let html = html::render(&found).unwrap();
        assert!(html.contains("every&lt;thing&gt;") && !html.contains("<thing>"), "{html}");
        assert!(
            html.contains("<td class=\"n\">0.5000</td>") && html.ends_with("</html>\n"),
            "{html}"
        );
    }

    #[test]
    fn what_is_missing_is_named() {
        let error = document("{\"n-shot\": {}}").unwrap_err().to_string();
        assert!(error.contains("results"), "{error}");
    }
}
