//! What is compared.

use crate::jobs::comparison::names::{ALL, Lists, chosen, fields_of, slot_entry};
use crate::jobs::kit::JobError;
use crate::jobs::kit::terms::{Catalogue, Entry, Term, TermOf, Terms};
use linwright_lm::compare::Candidate;
use linwright_lm::prune::PruneSpec;
use serde_json::json;
use std::sync::LazyLock;

/// Candidates of a comparison, and `all`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidates;

/// A candidate with its options.
pub type CandidateTerm = TermOf<Candidates>;

static CANDIDATES: LazyLock<Catalogue> = LazyLock::new(|| {
    let mut entries: Vec<Entry> = Candidate::names().into_iter().map(entry).collect();
    entries.push(Entry::new(ALL, "all but the controls"));
    Catalogue::new("method", entries)
});

impl Terms for Candidates {
    const NAME: &'static str = "candidate";

    fn catalogue() -> &'static Catalogue {
        &CANDIDATES
    }
}

/// The options of a candidate: those of its method, and of its operator.
fn entry(name: &'static str) -> Entry {
    match Candidate::named(name) {
        Some(Candidate::Pruned(spec)) => {
            let summary = Candidate::Pruned(spec.clone()).summary();
            let entry = Entry::new(name, summary).with_standard(fields_of(json!(spec)));
            let own = PruneSpec::schema_of(spec.id());
            own.iter().fold(entry, |entry, schema| entry.with_keys(schema, &[]))
        }
        Some(Candidate::Sites(_) | Candidate::Rounded(_)) | None => slot_entry(name),
    }
}

/// The standard candidates, without controls.
pub(in crate::jobs) fn standard_candidates() -> Vec<Candidate> {
    Candidate::standard().into_iter().filter_map(Candidate::named).collect()
}

/// The candidates that a list of terms stands for, each once; the standard ones if it is empty.
///
/// # Errors
/// [`JobError`] for options that a candidate cannot have, and for a name with two sets of options.
pub(super) fn candidates(
    terms: &[CandidateTerm],
    with_controls: bool,
) -> Result<Vec<Candidate>, JobError> {
    let all = Lists {
        standard: Candidate::standard(),
        names: Candidate::names(),
        controls: Candidate::controls(),
    };
    chosen(terms.iter().map(|term| term.0.clone()), &all, with_controls)?
        .iter()
        .map(candidate)
        .collect()
}

fn candidate(term: &Term) -> Result<Candidate, JobError> {
    let wrong = |reason: String| JobError::new(format!("--methods: {term}: {reason}"));
    let standard = Candidate::named(term.name).ok_or_else(|| wrong("is no method".to_owned()))?;
    match term.given.is_empty() {
        true => Ok(standard),
        false => standard.with_options(CANDIDATES.options(term)).map_err(wrong),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_compare::Way;

    fn read(texts: &[&str], with_controls: bool) -> Result<Vec<Candidate>, JobError> {
        let terms: Vec<CandidateTerm> =
            texts.iter().map(|text| serde_json::from_value((*text).into()).unwrap()).collect();
        candidates(&terms, with_controls)
    }

    fn names(of: &[&str], with_controls: bool) -> Vec<String> {
        read(of, with_controls).unwrap().iter().map(Candidate::name).collect()
    }

    #[test]
    fn a_list_has_each_name_once_and_controls_unless_they_are_left_out() {
        assert_eq!(names(&["svd", "svd"], false), ["svd"]);
        assert_eq!(names(&["svd", "q4_0"], true), ["svd", "q4_0", "random", "q8_0", "quantised"]);
        assert_eq!(names(&[], false), Candidate::standard());
        let all = names(&["svd", ALL], false);
        assert!(all.contains(&"rotor".to_owned()) && !all.contains(&"random".to_owned()));
    }

    #[test]
    fn options_replace_the_standard_ones_and_a_name_has_one_set_of_them() {
        let found = read(&["modegpt:temperature=0", "asvd", "monarch:blocks=4"], false).unwrap();
        assert_ne!(Some(&found[0]), Candidate::named("modegpt").as_ref());
        assert_eq!(Some(&found[1]), Candidate::named("asvd").as_ref());
        let (Some(Candidate::Sites(standard)), Candidate::Sites(own)) =
            (Candidate::named("monarch"), &found[2])
        else {
            panic!("{found:?}")
        };
        let (mut standard, own) = (json!(standard), json!(own));
        standard["operator"]["blocks"] = 4.into();
        assert_eq!(own, standard);
        for (given, word) in [
            (&["asvd:alpha=0.1", "asvd:alpha=0.2"][..], "are one row"),
            (&["low_rank:fit=trained"], "is low_rank_trained"),
        ] {
            let error = read(given, false).unwrap_err().to_string();
            assert!(error.contains(word), "{given:?}: {error}");
        }
        let all = read(&[ALL, "asvd:alpha=0.1"], false).unwrap();
        let asvd: Vec<_> = all.iter().filter(|own| own.name() == "asvd").collect();
        assert!(asvd.len() == 1 && Some(asvd[0]) != Candidate::named("asvd").as_ref());
    }
}
