//! Which examples are relevant for which query, and how many of them are found.

use super::AttributeRecall;
use super::result::RecallRow;
use crate::jobs::kit::Failure;
use linwright_attribute::{Top, precision_and_recall};
use linwright_data::Indices;
use linwright_data::{Row, Table, TableFormat};
use linwright_run::shown;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The group of all queries.
const ALL: &str = "all";

/// The relevant examples of queries.
pub(in crate::jobs) struct Relevance {
    /// For each query its group and its relevant examples.
    queries: Vec<(String, BTreeSet<usize>)>,
    examples: usize,
}

impl Relevance {
    /// Reads the lists of ids; `ids` are those of the examples.
    pub(in crate::jobs) fn read(job: &AttributeRecall, ids: &[Value]) -> Result<Self, Failure> {
        let path = Path::new(&job.query);
        let format = TableFormat::of(path).unwrap_or(TableFormat::JsonLines);
        let rows = Table::open(path, format, None)?.rows;
        let chosen = match &job.files.examples {
            None => None,
            Some(list) => Some(Indices::parse(list).map_err(|why| {
                Failure::usage(format!("--reading examples={}: {why}", shown(list)))
            })?),
        };
        let places: BTreeMap<String, usize> =
            ids.iter().enumerate().map(|(index, id)| (id.to_string(), index)).collect();
        let mut queries = Vec::new();
        for (index, row) in rows.iter().enumerate() {
            if chosen.as_ref().is_some_and(|chosen| !chosen.contains(index)) {
                continue;
            }
            queries.push(of_row(job, row, &places)?);
        }
        let all = Self { queries, examples: ids.len() };
        match all.queries() {
            0 => Err(Failure::general(format!(
                "{}: no query has a relevant example in the store",
                shown(&job.query)
            ))),
            _ => Ok(all),
        }
    }

    /// Examples that are relevant for some query.
    pub(in crate::jobs) fn relevant(&self) -> BTreeSet<usize> {
        self.queries.iter().flat_map(|(_, relevant)| relevant).copied().collect()
    }

    /// Queries with a relevant example.
    pub(super) fn queries(&self) -> usize {
        self.queries.iter().filter(|(_, relevant)| !relevant.is_empty()).count()
    }

    /// Queries without one.
    pub(super) fn without(&self) -> usize {
        self.queries.len() - self.queries()
    }

    /// Expectation for examples in random order, of all queries at the first number.
    pub(super) fn chance(&self, at: &[usize]) -> RecallRow {
        let at = at.first().copied().unwrap_or(1);
        let relevant = self.queries.iter().map(|(_, relevant)| relevant.len());
        let counted = relevant.filter(|count| *count > 0);
        let shares: Vec<(f64, f64)> = counted
            .map(|count| {
                let all = self.examples as f64;
                (count as f64 / all, at.min(self.examples) as f64 / all)
            })
            .collect();
        mean(("chance", ALL, at), &shares)
    }

    /// Results of a method, for each group and each number.
    pub(super) fn of(&self, method: &str, best: &Top, at: &[usize]) -> Vec<RecallRow> {
        let mut groups: BTreeSet<&str> =
            self.queries.iter().map(|(group, _)| group.as_str()).collect();
        groups.insert(ALL);
        let mut found = Vec::new();
        for group in groups {
            for &k in at {
                let pairs = self.queries.iter().zip(best.best());
                let of_group = pairs.filter(|((own, _), _)| group == ALL || own == group);
                let shares: Vec<(f64, f64)> = of_group
                    .filter_map(|((_, relevant), best)| {
                        let best: Vec<usize> = best.iter().map(|scored| scored.index).collect();
                        precision_and_recall(&best, relevant, k)
                    })
                    .collect();
                if !shares.is_empty() {
                    found.push(mean((method, group, k), &shares));
                }
            }
        }
        found
    }
}

/// The group and the relevant examples of a query.
fn of_row(
    job: &AttributeRecall,
    row: &Row,
    places: &BTreeMap<String, usize>,
) -> Result<(String, BTreeSet<usize>), Failure> {
    let wrong = |field: &str, expected: &str| {
        Failure::general(format!(
            "{}, line {}: field `{}` is not {expected}",
            shown(&job.query),
            row.line,
            shown(field)
        ))
    };
    let group = match &job.group {
        None => ALL.to_owned(),
        Some(field) => match row.fields.get(field) {
            Some(Value::String(text)) => text.clone(),
            Some(value @ (Value::Number(_) | Value::Bool(_))) => value.to_string(),
            _ => return Err(wrong(field, "a text or a number")),
        },
    };
    let Some(Value::Array(list)) = row.fields.get(&job.relevant) else {
        return Err(wrong(&job.relevant, "a list of ids"));
    };
    let of = |id: &Value| {
        let known = places.get(&id.to_string()).copied();
        known.ok_or_else(|| {
            Failure::general(format!(
                "{}, line {}: the store has no example {}",
                shown(&job.query),
                row.line,
                shown(&id.to_string())
            ))
        })
    };
    Ok((group, list.iter().map(of).collect::<Result<_, _>>()?))
}

/// Means over queries, and their standard errors.
fn mean((method, group, at): (&str, &str, usize), shares: &[(f64, f64)]) -> RecallRow {
    let n = shares.len() as f64;
    let of = |pick: fn(&(f64, f64)) -> f64| {
        let mean = shares.iter().map(pick).sum::<f64>() / n;
        let spread = shares.iter().map(|share| (pick(share) - mean).powi(2)).sum::<f64>();
        (mean, (spread / (n - 1.0).max(1.0) / n).sqrt())
    };
    let ((precision, precision_stderr), (recall, recall_stderr)) =
        (of(|share| share.0), of(|share| share.1));
    RecallRow {
        method: method.to_owned(),
        group: group.to_owned(),
        queries: shares.len(),
        at,
        precision,
        precision_stderr,
        recall,
        recall_stderr,
    }
}
