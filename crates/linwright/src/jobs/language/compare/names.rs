//! What is compared.

use crate::jobs::comparison::names::{
    ALL, Lists, STRUCTURED, chosen, fields_of, is_control_at, slot_entry,
};
use crate::jobs::comparison::rows::{check_rows, row_of, with_row_keys};
use crate::jobs::kit::JobError;
use crate::jobs::kit::terms::{Catalogue, Entry, Term, TermOf, Terms};
use linwright_compare::SlotMethod;
use linwright_lm::compare::{Candidate, Row};
use linwright_lm::prune::PruneSpec;
use serde_json::json;
use std::sync::LazyLock;

/// Candidates of a comparison, and `all`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidates;

/// A candidate with its options.
pub type CandidateTerm = TermOf<Candidates>;

static CANDIDATES: LazyLock<Catalogue> = LazyLock::new(|| {
    let names = Candidate::names().into_iter().chain(Candidate::others());
    let mut entries: Vec<Entry> = names.map(entry).collect();
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
            with_row_keys(own.iter().fold(entry, |entry, schema| entry.with_keys(schema, &[])))
        }
        Some(Candidate::Sites(_) | Candidate::Rounded(_)) | None => slot_entry(name),
    }
}

/// The standard candidates, without controls.
pub(in crate::jobs) fn standard_candidates() -> Vec<Candidate> {
    Candidate::standard().into_iter().filter_map(Candidate::named).collect()
}

/// The rows that a list of terms stands for, each once; the standard ones if it is empty. Without
/// shares, controls are those that need none.
///
/// # Errors
/// [`JobError`] for options and sizes that a candidate cannot have, and for two rows of one name.
pub(super) fn rows(
    terms: &[CandidateTerm],
    keeps: &[f64],
    with_controls: bool,
) -> Result<Vec<Row>, JobError> {
    let all = Lists {
        standard: Candidate::standard(),
        names: Candidate::names(),
        controls: Candidate::controls()
            .into_iter()
            .filter(|name| is_control_at(name, keeps))
            .collect(),
    };
    let terms = chosen(terms.iter().map(|term| term.0.clone()), &all, with_controls)?;
    let rows = terms.iter().map(row).collect::<Result<Vec<Row>, JobError>>()?;
    check_rows(&rows, keeps, Candidate::check)?;
    Ok(rows)
}

fn row(term: &Term) -> Result<Row, JobError> {
    row_of(&CANDIDATES, term, |name, options| {
        let standard = || Candidate::named(name).ok_or_else(|| "is no method".to_owned());
        match options {
            None => standard(),
            // Any operator can be its own.
            Some(options) if name == STRUCTURED => {
                SlotMethod::of_options(options).map(Candidate::from)
            }
            Some(options) => standard()?.with_options(options),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_compare::Way;

    fn read_rows(texts: &[&str], keeps: &[f64], with_controls: bool) -> Result<Vec<Row>, JobError> {
        let terms: Vec<CandidateTerm> =
            texts.iter().map(|text| serde_json::from_value((*text).into()).unwrap()).collect();
        rows(&terms, keeps, with_controls)
    }

    fn read(texts: &[&str], with_controls: bool) -> Result<Vec<Candidate>, JobError> {
        let rows = read_rows(texts, &[0.5], with_controls)?;
        Ok(rows.into_iter().map(|row| row.candidate).collect())
    }

    fn names(of: &[&str], with_controls: bool) -> Vec<String> {
        read(of, with_controls).unwrap().iter().map(Candidate::name).collect()
    }

    #[test]
    fn rows_have_labels_and_sizes_of_their_own_and_no_two_have_one_name() {
        let texts = [
            "low_rank:size=rank=4,label=four closed",
            "low_rank:size=rank=2",
            "low_rank:ridge=0.1,size=rank=2,label=shrunk",
            "structured:operator={kind: rotor},starts=4,label=one rotor",
            "dense:label=untouched",
            "laser:intervention=zero,label=nothing",
            "svd",
        ];
        let rows = read_rows(&texts, &[0.5], false).unwrap();
        let names: Vec<String> = rows.iter().map(Row::name).collect();
        let expected =
            ["four closed", "LR2-closed", "shrunk", "one rotor", "untouched", "nothing", "svd"];
        assert_eq!(names, expected);
        assert_eq!(rows[0].size, Some(linwright_compress::Size::Rank(4)));
        assert_eq!(rows[0].candidate, Candidate::named("low_rank").unwrap());
        assert_ne!(rows[2].candidate, rows[1].candidate);
        // Without shares, each has a size or a standard one, and so have controls.
        let all = read_rows(&["rotor", "svd:size=rank=4"], &[], true).unwrap();
        let names: Vec<String> = all.iter().map(Row::name).collect();
        assert_eq!(names, ["rotor", "svd-rank4", "q8_0", "q4_0"]);
        for (given, keeps, word) in [
            (&["svd"][..], &[][..], "svd needs a size"),
            (&["width:size=rank=4"], &[], "has no rank"),
            (&["dense:size=rank=4"], &[], "has no rank"),
            (&["svd:label=a", "asvd:label=a"], &[0.5], "--methods: svd:label=a and asvd:label=a"),
            (&["svd:label=asvd", "asvd"], &[0.5], "two rows are called asvd"),
            (&["svd:size=rank"], &[0.5], "expected keep=SHARE"),
        ] {
            let error = read_rows(given, keeps, false).unwrap_err().to_string();
            assert!(error.contains(word), "{given:?}: {error}");
        }
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
