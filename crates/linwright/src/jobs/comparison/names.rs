//! What is compared: terms of candidates.

use crate::jobs::kit::JobError;
use crate::jobs::kit::terms::{Catalogue, Entry, Term, TermOf, Terms};
use linwright_compare::SlotMethod;
use linwright_compress::MethodSpec;
use linwright_ops::OpSpec;
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

/// Everything but controls.
pub(in crate::jobs) const ALL: &str = "all";

/// Candidates that replace single layers, and `all`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotCandidates;

static SLOT_CANDIDATES: LazyLock<Catalogue> = LazyLock::new(|| {
    let mut entries: Vec<Entry> = SlotMethod::names().into_iter().map(slot_entry).collect();
    entries.push(Entry::new(ALL, "all but the controls"));
    Catalogue::new("method", entries)
});

impl Terms for SlotCandidates {
    const NAME: &'static str = "slot_candidate";

    fn catalogue() -> &'static Catalogue {
        &SLOT_CANDIDATES
    }
}

/// Options as a map.
pub(in crate::jobs) fn fields_of(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// The options of a candidate that replaces single layers: those of its method, and of its
/// operator.
pub(in crate::jobs) fn slot_entry(name: &'static str) -> Entry {
    let candidate = SlotMethod::named(name);
    let summary = candidate.as_ref().map_or_else(String::new, SlotMethod::summary);
    let entry = Entry::new(name, summary);
    let (entry, schemas) = match &candidate {
        Some(SlotMethod::Sites(method)) => {
            let entry = entry.with_standard(fields_of(json!(method)));
            let operator = match method {
                MethodSpec::Structured(own) => OpSpec::schema_of(own.operator.kind()),
                _ => None,
            };
            let operator = operator.map(|schema| (schema, &["operator"][..]));
            let own = MethodSpec::schema_of(method.id()).map(|schema| (schema, &[][..]));
            (entry, operator.into_iter().chain(own).collect::<Vec<_>>())
        }
        Some(SlotMethod::Rounded(_)) | None => (entry, Vec::new()),
    };
    let mut entry =
        schemas.iter().fold(entry, |entry, (schema, path)| entry.with_keys(schema, path));
    entry.keys.retain(|key| key.path != ["operator"]);
    entry
}

/// Names among which a comparison chooses.
pub(in crate::jobs) struct Lists {
    /// Those without a choice.
    pub(in crate::jobs) standard: Vec<&'static str>,
    /// All.
    pub(in crate::jobs) names: Vec<&'static str>,
    /// Controls.
    pub(in crate::jobs) controls: Vec<&'static str>,
}

/// The terms of a comparison, each name once; the standard ones if none are given.
///
/// # Errors
/// [`JobError`] for a name with two sets of options.
pub(in crate::jobs) fn chosen(
    terms: impl IntoIterator<Item = Term>,
    lists: &Lists,
    with_controls: bool,
) -> Result<Vec<Term>, JobError> {
    let Lists { standard, names, controls } = lists;
    let mut chosen: Vec<Term> = terms.into_iter().collect();
    if chosen.is_empty() {
        chosen = standard.iter().map(|name| Term::of(name)).collect();
    }
    if chosen.iter().any(|term| term.name == ALL) {
        // Options that are given stay.
        chosen.retain(|term| !term.given.is_empty());
        let own = names.iter().filter(|name| !controls.contains(name));
        let is_other = |name: &&&'static str| chosen.iter().all(|term| term.name != **name);
        let others: Vec<Term> = own.filter(is_other).map(|name| Term::of(name)).collect();
        chosen.extend(others);
    }
    if with_controls {
        chosen.extend(controls.iter().map(|name| Term::of(name)));
    }
    let mut unique: Vec<Term> = Vec::new();
    for term in chosen {
        match unique.iter().find(|other| other.name == term.name) {
            None => unique.push(term),
            Some(other) if *other == term || term.given.is_empty() => {}
            Some(other) => {
                return Err(JobError::new(format!("--methods: {other} and {term} are one row"))
                    .hint("compare them in two directories, or give one of them"));
            }
        }
    }
    Ok(unique)
}

/// The candidates that a list of terms stands for, of those that are possible; the standard ones
/// of them if it is empty.
///
/// # Errors
/// [`JobError`] for options that a candidate cannot have, and for a name with two sets of options.
pub(super) fn slot_methods(
    terms: &[TermOf<SlotCandidates>],
    is_possible: fn(&SlotMethod) -> bool,
    with_controls: bool,
) -> Result<Vec<SlotMethod>, JobError> {
    let possible = |names: Vec<&'static str>| -> Vec<&'static str> {
        let is_own = |name: &&'static str| SlotMethod::named(name).is_some_and(|m| is_possible(&m));
        names.into_iter().filter(is_own).collect()
    };
    let lists = Lists {
        standard: possible(SlotMethod::standard()),
        names: possible(SlotMethod::names()),
        controls: possible(SlotMethod::controls()),
    };
    let terms = terms.iter().map(|term| term.0.clone());
    chosen(terms, &lists, with_controls)?.iter().map(slot_method).collect()
}

fn slot_method(term: &Term) -> Result<SlotMethod, JobError> {
    let wrong = |reason: String| JobError::new(format!("--methods: {term}: {reason}"));
    let standard = SlotMethod::named(term.name).ok_or_else(|| wrong("is no method".to_owned()))?;
    match term.given.is_empty() {
        true => Ok(standard),
        false => standard.with_options(SLOT_CANDIDATES.options(term)).map_err(wrong),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_compare::Way;

    fn names(of: &[&str], is_possible: fn(&SlotMethod) -> bool) -> Vec<String> {
        let term = |text: &&str| serde_json::from_value((*text).into()).expect("a term");
        let terms: Vec<TermOf<SlotCandidates>> = of.iter().map(term).collect();
        let found = slot_methods(&terms, is_possible, true).expect("has candidates");
        found.iter().map(SlotMethod::name).collect()
    }

    #[test]
    fn what_is_not_possible_is_in_no_list_and_controls_are_last() {
        let all = names(&[ALL], |_| true);
        let linear = names(&[ALL], SlotMethod::is_linear);
        assert!(all.contains(&"rotor".to_owned()) && !linear.contains(&"rotor".to_owned()));
        assert!(linear.contains(&"kronecker".to_owned()));
        assert_eq!(names(&["svd"], |_| true), ["svd", "random", "q8_0", "q4_0", "quantised"]);
        assert!(names(&[], |_| true).starts_with(&["low_rank".to_owned()]));
    }
}
