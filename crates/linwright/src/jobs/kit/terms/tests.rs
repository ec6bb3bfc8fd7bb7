//! Terms of the methods of `compress`.

use super::*;
use crate::jobs::Methods;
use crate::jobs::kit::bounds;
use linwright_compress::MethodSpec;
use linwright_lm::prune::PruneSpec;
use serde_json::json;

fn read(text: &str) -> Result<Term, String> {
    Methods::catalogue().read(text)
}

#[test]
fn a_text_and_a_map_are_the_same_term_and_it_reads_back() {
    for (text, map, canonical) in [
        ("svd", json!({"method": "svd"}), "svd"),
        (
            "low-rank:epochs=16,fit=trained",
            json!({"method": "low_rank", "fit": "trained", "training": {"epochs": 16}}),
            "low_rank:fit=trained,epochs=16",
        ),
        ("feature:compat", json!({"method": "feature", "compat": true}), "feature:compat=true"),
        ("monarch:blocks=8", json!({"kind": "monarch", "blocks": 8}), "monarch:blocks=8"),
        (
            "llm_pruner:attention=0-1,tokens=16",
            json!({"method": "llm_pruner", "blocks": {"attention": [0, 1]}, "sample": {"tokens": 16}}),
            "llm_pruner:tokens=16,attention=[0,1]",
        ),
        (
            "structured:operator={kind: sum, terms: [{kind: monarch}]},starts=2",
            json!({"method": "structured", "operator": {"kind": "sum", "terms": [{"kind": "monarch"}]}, "starts": 2}),
            "structured:operator={\"kind\":\"sum\",\"terms\":[{\"kind\":\"monarch\"}]},starts=2",
        ),
        ("dense:ridge=auto", json!({"method": "dense", "ridge": "auto"}), "dense:ridge=auto"),
        ("dense:ridge=0.5", json!({"method": "dense", "ridge": 0.5}), "dense:ridge=0.5"),
    ] {
        let term = read(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(term.to_string(), canonical);
        assert_eq!(read(canonical).as_ref(), Ok(&term), "{canonical}");
        assert_eq!(Methods::catalogue().read_value(&map), Ok(term), "{map}");
    }
}

#[test]
fn options_become_those_of_the_method() {
    let spec = |text: &str| {
        let options = Methods::catalogue().options(&read(text).unwrap());
        serde_json::from_value::<MethodSpec>(options.into()).unwrap()
    };
    let json = json!(spec("low_rank:fit=trained,rate=0.1"));
    assert_eq!((&json["fit"], &json["training"]["rate"]), (&json!("trained"), &json!(0.1)));
    assert_eq!(json["training"]["epochs"], 8);
    assert_eq!(json!(spec("kronecker:terms=2,starts=3"))["operator"]["terms"], 2);
    assert_eq!(json!(spec("kronecker:terms=2,starts=3"))["starts"], 3);
}

#[test]
fn what_is_wrong_is_said_with_what_there_is() {
    for (text, words) in [
        ("rotr", &["there is no method rotr", "rotor"][..]),
        ("low_rank:epoch=3", &["no option epoch", "nearest are epochs", "fit, epochs, batch"]),
        ("svd:alpha=1", &["svd has no options, and alpha is given"]),
        ("low_rank:epochs=x", &["epochs is x, expected a whole number from 1 to 1000000"]),
        ("low_rank:fit=slow", &["fit is slow, expected one of closed, trained"]),
        ("low_rank:fit", &["fit has no value, expected one of"]),
        ("asvd:alpha=nan", &["alpha is nan, expected a number"]),
        ("dense:ridge=much", &["ridge is much, expected a number from 0 to 1e12 or auto"]),
        ("dense:ridge=-1", &["ridge is -1"]),
        ("low_rank:epochs=1,epochs=2", &["epochs is given twice"]),
        ("structured:operator={kind", &["operator: "]),
        ("{kind: }", &["expected NAME"]),
    ] {
        let error = read(text).unwrap_err();
        assert!(words.iter().all(|word| error.contains(word)), "{text}: {error}");
    }
}

#[test]
fn every_method_explains_every_option_and_takes_its_default() {
    let catalogue = Methods::catalogue();
    let ids = MethodSpec::IDS.iter().chain(PruneSpec::IDS);
    assert!(ids.clone().all(|id| catalogue.entry(id).is_some()));
    for entry in &catalogue.entries {
        for key in &entry.keys {
            assert!(key.help.len() > 5, "{}:{} has no help", entry.name, key.name);
            if !key.default.is_null() {
                let value = key.read_value(&key.default);
                assert_eq!(value.as_ref(), Ok(&key.default), "{}:{}", entry.name, key.name);
            }
        }
    }
    assert!(catalogue.entry("low_rank").unwrap().keys.len() == 7);
}

#[test]
fn a_list_divides_where_a_name_begins() {
    let split = |text: &str| Methods::catalogue().split(text);
    assert_eq!(split("svd,asvd:alpha=0.3,rate=2,width"), ["svd", "asvd:alpha=0.3,rate=2", "width"]);
    assert_eq!(split("llm_pruner:mlp=[0,1],svd"), ["llm_pruner:mlp=[0,1]", "svd"]);
    assert_eq!(split("{method: svd},width"), ["{method: svd}", "width"]);
}

#[test]
fn numbers_beyond_their_bounds_are_refused_in_every_catalogue() {
    let mut count = 0;
    for (_, catalogue) in crate::jobs::CATALOGUES {
        for entry in &catalogue().entries {
            for key in &entry.keys {
                let refused = match &key.kind {
                    ValueKind::Integer { min, max } => {
                        let below = min.checked_sub(1).map_or("-1".to_owned(), |n| n.to_string());
                        let above = (u128::from(*max) + 1).to_string();
                        [below, above, "nan".to_owned(), "1e400".to_owned()]
                    }
                    ValueKind::Number { .. } => ["nan", "inf", "-inf", "1e400"].map(str::to_owned),
                    _ => continue,
                };
                for text in refused {
                    let of = format!("{}:{} = {text}", entry.name, key.name);
                    let error = key.read(&text).expect_err(&of);
                    assert!(error.contains(&key.kind.expected()), "{of}: {error}");
                }
                count += 1;
            }
        }
    }
    assert!(count > 100, "{count} numbers");
}

#[test]
fn every_number_of_a_key_is_bounded() {
    let mut count = 0;
    for (name, catalogue) in crate::jobs::CATALOGUES {
        let keys = catalogue()
            .entries
            .iter()
            .flat_map(|entry| entry.keys.iter().map(move |key| (entry.name, key)));
        // What an operator allows follows from the shape of a weight.
        for (of, key) in keys.filter(|(_, key)| !["operator", "network"].contains(&&*key.path[0])) {
            let is_bounded = match &key.kind {
                // Any seed will do.
                ValueKind::Integer { max, .. } => *max <= 1 << 53 || *max == bounds::SEED,
                ValueKind::Number { min, max, .. } => min.is_finite() && max.is_finite(),
                _ => continue,
            };
            let is_of_operator = ["depth", "block", "blocks"].contains(&&*key.name);
            assert!(is_bounded || is_of_operator, "{name} {of}:{}", key.name);
            count += 1;
        }
    }
    assert!(count > 150, "{count} numbers");
}
