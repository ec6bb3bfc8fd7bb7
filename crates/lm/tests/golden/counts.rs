//! Published counts of LLaMA-7B, whole and pruned, in `macs` of the sets.

use linwright_lm::search::counts::Counts;
use serde_json::Value;
use std::ops::Range;

/// The counts that a set may have of a model.
const KEYS: [&str; 4] = ["params", "linear_only", "linear_plus_attention", "llm_pruner_counter"];

/// The counts of one model, of which a set may have some.
#[derive(Clone)]
pub(crate) struct Counted {
    pub(crate) name: String,
    /// The removed share of heads and channels in these layers.
    pub(crate) ratio: f64,
    pub(crate) layers: Range<usize>,
    counts: Value,
}

/// The models of a set; their names say what they are.
pub(crate) fn of(about: &Value) -> Vec<Counted> {
    let table = about["macs"].as_object().into_iter().flatten();
    let one = |(name, counts): (&String, &Value)| {
        let (ratio, layers) = match name.strip_prefix("llm_pruner_ratio_") {
            Some(rest) => of_pruned(rest).unwrap_or_else(|| panic!("{name}: a ratio and layers")),
            None if name == "dense_llama7b" => (0.0, 0..0),
            // Rounded figures of papers, and the rule.
            None if KEYS.iter().all(|key| counts.get(key).is_none()) => return None,
            None => panic!("{name} is a model that the test does not know"),
        };
        Some(Counted { name: name.clone(), ratio, layers, counts: counts.clone() })
    };
    table.filter_map(one).collect()
}

/// `0_25_layers_4_30`: the ratio 0.25 in the layers 4 to 29.
fn of_pruned(text: &str) -> Option<(f64, Range<usize>)> {
    let (ratio, layers) = text.split_once("_layers_")?;
    let (start, end) = layers.split_once('_')?;
    Some((ratio.replacen('_', ".", 1).parse().ok()?, start.parse().ok()?..end.parse().ok()?))
}

impl Counted {
    /// Compares what the set has, which is this many numbers at least.
    pub(crate) fn check(&self, parameters: u64, found: Counts, least: usize) {
        let all = [parameters, found.linear, found.with_attention, found.llm_pruner];
        let mut compared = 0;
        for (key, found) in KEYS.into_iter().zip(all) {
            if let Some(expected) = self.counts[key].as_u64() {
                assert_eq!(found, expected, "{}: {key}", self.name);
                compared += 1;
            }
        }
        assert!(compared >= least, "{}: {compared} counts", self.name);
    }
}
