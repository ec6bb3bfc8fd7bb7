//! Claims that are true or false (Thorne et al. 2018, arXiv:1803.05355).
//!
//! Fields `claim` and `label`: `SUPPORTS`, `REFUTES`, or `NOT ENOUGH INFO`. Claims without enough
//! information, repeated claims, and claims with both labels are left out.

use super::set::{ENDS, Form, LaserSet, Mask, Reading, Record, Source, ended, pair};
use linwright_data::DataError;
use std::collections::{BTreeMap, BTreeSet};

/// Registry entry of this set.
pub(super) const ENTRY: LaserSet = LaserSet {
    name: "laser_fever",
    summary: "claims, true or false (FEVER)",
    form: Form::Choice { two: true },
    mask: Some(Mask::PROMPT),
    read,
};

fn label(source: &Source<'_>) -> Result<Option<bool>, DataError> {
    let (name, value) = source.one_of(&["label"])?;
    match value.as_str().map(|text| text.trim().to_uppercase()).as_deref() {
        Some("SUPPORTS") => Ok(Some(true)),
        Some("REFUTES") => Ok(Some(false)),
        Some("NOT ENOUGH INFO") => Ok(None),
        _ => Err(source.expected(name, value, "SUPPORTS, REFUTES or NOT ENOUGH INFO")),
    }
}

fn read(sources: &[Source<'_>]) -> Result<Reading, DataError> {
    let mut labels: BTreeMap<&str, [bool; 2]> = BTreeMap::new();
    let mut judged = Vec::new();
    for source in sources {
        let (claim, label) = (source.text(&["claim"])?, label(source)?);
        if let Some(label) = label {
            labels.entry(claim).or_default()[usize::from(label)] = true;
            judged.push((source, claim, label));
        }
    }
    let open = sources.len() - judged.len();
    let (mut records, mut seen) = (Vec::new(), BTreeSet::new());
    let (mut again, mut both) = (0, 0);
    for (source, claim, label) in judged {
        if labels[claim] == [true; 2] {
            both += 1;
        } else if seen.insert(claim) {
            records.push(record(source, claim, label));
        } else {
            again += 1;
        }
    }
    let left_out = vec![
        ("neither true nor false", open),
        ("duplicate claims", again),
        ("claims with both labels", both),
    ];
    Ok(Reading { records, left_out })
}

fn record(source: &Source<'_>, claim: &str, is_true: bool) -> Record {
    let choices = pair(["true", "false"]);
    let gold = usize::from(!is_true);
    let text = ended(claim, &ENDS, '.');
    Record {
        place: source.place(),
        question: claim.to_owned(),
        prompt: format!(
            "Consider the following claim: {text} Is this claim true or false. The claim is"
        ),
        answer: choices[gold].clone(),
        choices,
        gold,
        ..Record::default()
    }
}
