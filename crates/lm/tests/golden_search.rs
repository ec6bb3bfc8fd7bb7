//! Golden tables of SFSD's searches: every set `<stem>.json` in `laser-sfsd` of
//! `$LINWRIGHT_GOLDEN`, by default `testdata/golden` of the workspace.

#![allow(
    clippy::disallowed_methods,
    reason = "an environment variable gives the folder of the golden vectors"
)]

use crate::golden_counts::Counted;
use linwright_lm::prune::{kept_channels, kept_heads};
use linwright_lm::search::counts::{Counts, LayerShape, Shapes};
use linwright_lm::search::{MAX_GROWTH, Splits, allowed_perplexity, search_ranks};
use linwright_ops::Shape;
use serde_json::Value;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The folder of other golden vectors, where one is given.
fn given() -> Option<PathBuf> {
    std::env::var_os("LINWRIGHT_GOLDEN").map(PathBuf::from)
}

/// The descriptions of all sets, of which there must be one. What has no cases is a note.
fn sets() -> Vec<Value> {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/golden");
    let root = given().unwrap_or(default);
    let root = root.join("laser-sfsd");
    let entries = std::fs::read_dir(&root).unwrap_or_else(|e| panic!("{}: {e}", root.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "json"));
    paths.sort();
    assert!(!paths.is_empty(), "no golden set in {}", root.display());
    let read = |path: PathBuf| {
        let about = std::fs::read(&path).expect("a description");
        serde_json::from_slice(&about).unwrap_or_else(|e| panic!("{path:?}: {e}"))
    };
    let sets: Vec<Value> =
        paths.into_iter().map(read).filter(|set: &Value| set.get("cases").is_some()).collect();
    assert!(!sets.is_empty(), "no golden set in {}", root.display());
    sets
}

/// A table of all sets, of which one must have it; all of ours have.
fn tables(name: &str) -> Vec<Value> {
    let sets = sets();
    let tables: Vec<Value> = sets.iter().filter_map(|set| set.get(name).cloned()).collect();
    let least = if given().is_none() { sets.len() } else { 1 };
    assert!(tables.len() >= least, "{} golden sets have {name}", tables.len());
    tables
}

/// The number behind this word of a rule.
fn of_rule(table: &Value, after: &str) -> Option<u64> {
    let (_, rest) = table["rule"].as_str()?.split_once(after)?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

fn number(value: &Value) -> usize {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number")) as usize
}

fn numbers(value: &Value) -> Vec<usize> {
    value.as_array().unwrap_or_else(|| panic!("{value} is no list")).iter().map(number).collect()
}

#[test]
fn golden_splits_are_those_of_python() {
    for table in tables("sfsd_splits") {
        let cases = table["cases"].as_object().expect("cases");
        assert!(!cases.is_empty());
        let seed = of_rule(&table, "seeded ").unwrap_or(Splits::SEED);
        for (task, case) in cases {
            let count = number(&case["n_docs"]);
            let splits = Splits::new(count, seed).expect("enough documents");
            let (head, tail) = (numbers(&case["perm_head"]), numbers(&case["perm_tail"]));
            assert!(splits.order.starts_with(&head) && splits.order.ends_with(&tail), "{task}");
            let products = splits.order.iter().enumerate().map(|(i, index)| (i + 1) * index);
            let checksum = products.sum::<usize>() % 1_000_003;
            assert_eq!(checksum, number(&case["weighted_checksum"]), "{task}");
            let chunks = case["chunks"].as_array().expect("chunks");
            for (index, chunk) in chunks.iter().enumerate() {
                let own = splits.chunk(index);
                assert_eq!(vec![own.start, own.end], numbers(chunk), "{task}");
            }
            assert_eq!(vec![0, splits.search], numbers(&case["search20"]), "{task}");
            let test = numbers(&case["test80"]);
            assert_eq!(splits.test(true), splits.documents(test[0]..test[1]), "{task}");
            assert_eq!(splits.test(false), splits.documents(test[0]..count), "{task}");
            let dropped = number(&case["last_doc_dropped"]);
            assert!(!splits.test(true).contains(&dropped), "{task}");
            assert!(splits.test(false).contains(&dropped), "{task}");
        }
    }
}

#[test]
fn golden_thresholds_of_perplexity() {
    for table in tables("ppl_threshold") {
        let layers = of_rule(&table, "**(").expect("a number of layers") as usize;
        for (place, base) in table["base"].as_array().expect("bases").iter().enumerate() {
            let base = base.as_f64().expect("a perplexity");
            let cases = table["cases"].as_object().expect("cases");
            assert!(!cases.is_empty());
            for (index, expected) in cases {
                let index = index.parse().expect("an index");
                let found = allowed_perplexity(base, MAX_GROWTH, layers, index);
                // Several bases have a list of numbers each.
                let expected = expected.get(place).unwrap_or(expected);
                let expected = expected.as_f64().expect("a perplexity");
                assert!((found / expected - 1.0).abs() < 1e-13, "{index}: {found}, {expected}");
            }
        }
    }
}

#[test]
fn golden_search_ranks_of_every_shape() {
    for table in tables("sfsd_search_space") {
        let cases = table["cases"].as_array().expect("cases");
        assert!(!cases.is_empty());
        for case in cases {
            let shape = Shape { out: number(&case["out"]), inp: number(&case["inp"]) };
            let found = search_ranks(shape);
            assert_eq!(found, numbers(&case["ranks"]), "{shape:?}");
            assert_eq!(found.last(), Some(&number(&case["max_rank"])), "{shape:?}");
        }
    }
}

/// A layer of LLaMA-7B with so many heads and features of its MLP.
fn layer(heads: u64, ffn: u64) -> LayerShape {
    let linears = 4096 * (4 * heads * 128 + 3 * ffn);
    LayerShape { heads, head_dim: 128, ffn, linears }
}

/// Parameters of LLaMA-7B with these layers.
fn parameters(shapes: &Shapes) -> u64 {
    let linears: u64 = shapes.layers.iter().map(|layer| layer.linears).sum();
    linears + 4096 * (2 * 32_000 + 2 * shapes.layers.len() as u64 + 1)
}

#[test]
fn golden_multiply_adds_of_llama_under_three_counters() {
    let shapes = |ratio: f64, layers: Range<usize>| {
        let mut shapes = Shapes { width: 4096, vocab: 32_000, layers: vec![layer(32, 11008); 32] };
        let (heads, ffn) = (kept_heads(32, 128, ratio), kept_channels(11008, ratio));
        shapes.layers[layers].fill(layer(heads as u64, ffn as u64));
        shapes
    };
    let least = if given().is_none() { 4 } else { 1 };
    let counted: Vec<Counted> = sets().iter().flat_map(crate::golden_counts::of).collect();
    assert!(counted.len() >= least / 2, "{} models with counts", counted.len());
    for counted in counted {
        let found = shapes(counted.ratio, counted.layers.clone());
        counted.check(parameters(&found), found.counts(Shapes::TOKENS), least);
    }
    // The figures of the papers, whatever a set has.
    let (dense, pruned) = (shapes(0.0, 0..0), shapes(0.25, 4..30));
    assert_eq!((parameters(&dense), parameters(&pruned)), (6_738_415_616, 5_422_977_024));
    let expected = Counts {
        linear: 422_852_952_064,
        with_attention: 423_926_693_888,
        llm_pruner: 424_021_065_728,
    };
    assert_eq!(dense.counts(Shapes::TOKENS), expected);
    assert_eq!(pruned.layers[4], layer(24, 8256));
}
