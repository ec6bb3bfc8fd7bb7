//! Golden tables of SFSD's searches: every set `<stem>.json` in `laser-sfsd` of
//! `$LINWRIGHT_GOLDEN`, by default `testdata/golden` of the workspace.

#![allow(
    clippy::disallowed_methods,
    reason = "an environment variable gives the folder of the golden vectors"
)]

use linwright_compress::search::counts::{Counts, LayerShape, Shapes};
use linwright_compress::search::{MAX_GROWTH, Splits, allowed_perplexity, search_ranks};
use linwright_ops::Shape;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The descriptions of all sets, of which there must be one.
fn sets() -> Vec<Value> {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/golden");
    let root = std::env::var_os("LINWRIGHT_GOLDEN").map_or(default, PathBuf::from);
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
    paths.into_iter().map(read).collect()
}

fn number(value: &Value) -> usize {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number")) as usize
}

fn numbers(value: &Value) -> Vec<usize> {
    value.as_array().unwrap_or_else(|| panic!("{value} is no list")).iter().map(number).collect()
}

#[test]
fn golden_splits_are_those_of_python() {
    for set in sets() {
        let cases = set["sfsd_splits"]["cases"].as_object().expect("cases");
        assert!(!cases.is_empty());
        for (task, case) in cases {
            let count = number(&case["n_docs"]);
            let splits = Splits::new(count, Splits::SEED).expect("enough documents");
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
    for set in sets() {
        let table = &set["ppl_threshold"];
        for base in table["base"].as_array().expect("bases") {
            let base = base.as_f64().expect("a perplexity");
            for (index, expected) in table["cases"].as_object().expect("cases") {
                let index = index.parse().expect("an index");
                let found = allowed_perplexity(base, MAX_GROWTH, 224, index);
                let expected = expected.as_f64().expect("a perplexity");
                assert!((found / expected - 1.0).abs() < 1e-13, "{index}: {found}, {expected}");
            }
        }
    }
}

#[test]
fn golden_search_ranks_of_every_shape() {
    for set in sets() {
        let cases = set["sfsd_search_space"]["cases"].as_array().expect("cases");
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
    let dense = Shapes { width: 4096, vocab: 32_000, layers: vec![layer(32, 11008); 32] };
    let mut pruned = dense.clone();
    pruned.layers[4..30].fill(layer(24, 8256));
    for set in sets() {
        let table = &set["macs"];
        let names = ["dense_llama7b", "llm_pruner_ratio_0_25_layers_4_30"];
        for (name, shapes) in names.into_iter().zip([&dense, &pruned]) {
            let of = |key: &str| number(&table[name][key]) as u64;
            let expected = Counts {
                linear: of("linear_only"),
                with_attention: of("linear_plus_attention"),
                llm_pruner: of("llm_pruner_counter"),
            };
            assert_eq!(shapes.counts(Shapes::TOKENS), expected, "{name}");
            assert_eq!(parameters(shapes), of("params"), "{name}");
        }
    }
}
