//! What is compared: terms of candidates.

use super::rows::{check_rows, identity, row_of, with_row_keys};
use crate::jobs::kit::JobError;
use crate::jobs::kit::terms::{Catalogue, Entry, Term, TermOf, Terms};
use linwright_compare::{Row, SlotMethod, Way};
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
    let names = SlotMethod::names().into_iter().chain(SlotMethod::others());
    let mut entries: Vec<Entry> = names.map(slot_entry).collect();
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
            let is_any = name == STRUCTURED;
            let operator = match method {
                MethodSpec::Structured(own) if !is_any => OpSpec::schema_of(own.operator.kind()),
                _ => None,
            };
            let operator = operator.map(|schema| (schema, &["operator"][..]));
            let own = MethodSpec::schema_of(method.id()).map(|schema| (schema, &[][..]));
            (entry, operator.into_iter().chain(own).collect::<Vec<_>>())
        }
        Some(SlotMethod::Rounded(_)) | None => return entry,
    };
    let mut entry =
        schemas.iter().fold(entry, |entry, (schema, path)| entry.with_keys(schema, path));
    // Of a kind, single options of its operator are keys.
    entry.keys.retain(|key| name == STRUCTURED || key.path != ["operator"]);
    with_row_keys(entry)
}

/// The method of any operator, which is a key of its own.
pub(in crate::jobs) const STRUCTURED: &str = "structured";

/// Whether a control can be compared at shares; without any, it has one size.
pub(in crate::jobs) fn is_control_at(name: &str, keeps: &[f64]) -> bool {
    !keeps.is_empty() || SlotMethod::named(name).is_some_and(|own| !own.has_sizes())
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

/// The terms of a comparison, each row once; the standard ones if none are given.
///
/// # Errors
/// [`JobError`] for a row with two sets of options.
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
        match unique.iter().find(|other| identity(other) == identity(&term)) {
            None => unique.push(term),
            Some(other) if *other == term || term.given.is_empty() => {}
            Some(other) => {
                return Err(JobError::new(format!("--methods: {other} and {term} are one row"))
                    .hint("give one of them a name of its own: NAME:label=TEXT"));
            }
        }
    }
    Ok(unique)
}

/// The rows that a list of terms stands for, of candidates that are possible; the standard ones of
/// them if it is empty.
///
/// # Errors
/// [`JobError`] for options that a candidate cannot have, and for a name with two sets of options.
pub(super) fn slot_methods(
    terms: &[TermOf<SlotCandidates>],
    is_possible: fn(&SlotMethod) -> bool,
    keeps: &[f64],
    with_controls: bool,
) -> Result<Vec<Row<SlotMethod>>, JobError> {
    let possible = |names: Vec<&'static str>| -> Vec<&'static str> {
        let is_own = |name: &&'static str| SlotMethod::named(name).is_some_and(|m| is_possible(&m));
        names.into_iter().filter(is_own).collect()
    };
    let lists = Lists {
        standard: possible(SlotMethod::standard()),
        names: possible(SlotMethod::names()),
        controls: possible(SlotMethod::controls())
            .into_iter()
            .filter(|name| is_control_at(name, keeps))
            .collect(),
    };
    let terms = chosen(terms.iter().map(|term| term.0.clone()), &lists, with_controls)?;
    let rows = terms.iter().map(slot_method).collect::<Result<Vec<_>, JobError>>()?;
    check_rows(&rows, keeps, SlotMethod::check)?;
    Ok(rows)
}

fn slot_method(term: &Term) -> Result<Row<SlotMethod>, JobError> {
    row_of(&SLOT_CANDIDATES, term, |name, options| {
        let standard = || SlotMethod::named(name).ok_or_else(|| "is no method".to_owned());
        match options {
            None => standard(),
            // Any operator can be its own.
            Some(options) if name == STRUCTURED => SlotMethod::of_options(options),
            Some(options) => standard()?.with_options(options),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    fn names(of: &[&str], is_possible: fn(&SlotMethod) -> bool) -> Vec<String> {
        let term = |text: &&str| serde_json::from_value((*text).into()).expect("a term");
        let terms: Vec<TermOf<SlotCandidates>> = of.iter().map(term).collect();
        let found = slot_methods(&terms, is_possible, &[0.5], true).expect("has candidates");
        found.iter().map(Row::name).collect()
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
