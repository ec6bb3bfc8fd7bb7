//! Metrics of documents and their aggregation over a task, by the formulas of
//! lm-evaluation-harness.

use super::description::{MetricEntry, OutputType};
use super::filter::pattern_of;
use super::random::PythonRandom;
use super::translation::Translation;
use super::value::Value;
use fancy_regex::Regex;
use linwright_tensor::parallel;
use serde_json::Value as Json;
use std::f64::consts::LN_2;

/// Bootstrap samples per seed.
const CHUNK: usize = 1000;
/// Most bootstrap samples of BLEU, chrF and TER.
const TRANSLATION_DRAWS: usize = 100;

/// Aggregation of a metric over documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aggregation {
    Mean,
    Median,
    Perplexity,
    WeightedPerplexity,
    BitsPerByte,
    F1,
    Matthews,
    Brier,
    /// Share of truths, those of all documents together.
    Truths,
    Translation(Translation),
}

/// Aggregations by their names in the harness.
const AGGREGATIONS: [(&str, Aggregation); 14] = [
    ("mean", Aggregation::Mean),
    ("nanmean", Aggregation::Mean),
    ("median", Aggregation::Median),
    ("perplexity", Aggregation::Perplexity),
    ("weighted_perplexity", Aggregation::WeightedPerplexity),
    ("bits_per_byte", Aggregation::BitsPerByte),
    ("f1", Aggregation::F1),
    ("matthews_corrcoef", Aggregation::Matthews),
    ("brier_score", Aggregation::Brier),
    ("share_of_truths", Aggregation::Truths),
    ("bleu", Aggregation::Translation(Translation::Bleu)),
    ("chrf", Aggregation::Translation(Translation::Chrf)),
    ("chrf++", Aggregation::Translation(Translation::ChrfPlus)),
    ("ter", Aggregation::Translation(Translation::Ter)),
];

/// Metrics: name, default aggregation, whether higher is better, output types.
const METRICS: [(&str, Aggregation, bool, &[OutputType]); 16] = {
    use Aggregation as A;
    use OutputType::{GenerateUntil, Loglikelihood, LoglikelihoodRolling, MultipleChoice};
    [
        ("acc", A::Mean, true, &[Loglikelihood, MultipleChoice]),
        ("acc_norm", A::Mean, true, &[MultipleChoice]),
        ("acc_bytes", A::Mean, true, &[MultipleChoice]),
        ("acc_mutual_info", A::Mean, true, &[MultipleChoice]),
        ("exact_match", A::Mean, true, &[MultipleChoice, GenerateUntil]),
        ("f1", A::F1, true, &[MultipleChoice]),
        ("mcc", A::Matthews, true, &[MultipleChoice]),
        ("brier_score", A::Brier, false, &[MultipleChoice]),
        ("perplexity", A::Perplexity, false, &[Loglikelihood]),
        ("word_perplexity", A::WeightedPerplexity, false, &[LoglikelihoodRolling]),
        ("byte_perplexity", A::WeightedPerplexity, false, &[LoglikelihoodRolling]),
        ("bits_per_byte", A::BitsPerByte, false, &[LoglikelihoodRolling]),
        ("bleu", A::Translation(Translation::Bleu), true, &[GenerateUntil]),
        ("chrf", A::Translation(Translation::Chrf), true, &[GenerateUntil]),
        ("chrf++", A::Translation(Translation::ChrfPlus), true, &[GenerateUntil]),
        ("ter", A::Translation(Translation::Ter), false, &[GenerateUntil]),
    ]
};

/// A metric with its aggregation and options.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct MetricRule {
    pub(super) name: String,
    pub(super) aggregation: Aggregation,
    pub(super) higher_is_better: bool,
    pub(super) options: serde_json::Map<String, Json>,
}

impl MetricRule {
    /// The score of a corpus that the metric is, if it is one.
    pub(super) fn translation(&self) -> Option<Translation> {
        match (self.name.as_str(), self.aggregation) {
            ("bleu" | "chrf" | "chrf++" | "ter", Aggregation::Translation(score)) => Some(score),
            _ => None,
        }
    }

    /// Metrics of a file, or the defaults of its output type. Errors are the reason only.
    pub(super) fn all(
        entries: Option<&[MetricEntry]>,
        output: OutputType,
        own_results: bool,
    ) -> Result<Vec<Self>, String> {
        let usual: &[&str] = match output {
            OutputType::Loglikelihood => &["perplexity", "acc"],
            OutputType::LoglikelihoodRolling => {
                &["word_perplexity", "byte_perplexity", "bits_per_byte"]
            }
            OutputType::MultipleChoice => &["acc", "acc_norm"],
            OutputType::GenerateUntil => &["exact_match"],
        };
        let entry = |name: &&str| MetricEntry {
            metric: (*name).to_owned(),
            aggregation: None,
            higher_is_better: None,
            options: serde_json::Map::new(),
        };
        let usual: Vec<MetricEntry> = usual.iter().map(entry).collect();
        let entries = entries.unwrap_or(&usual);
        entries.iter().map(|entry| Self::of(entry, output, own_results)).collect()
    }

    fn of(entry: &MetricEntry, output: OutputType, own_results: bool) -> Result<Self, String> {
        let name = &entry.metric;
        let known = METRICS.iter().find(|(metric, ..)| metric == name);
        let fits = known.is_some_and(|(.., kinds)| kinds.contains(&output));
        if !fits && !own_results {
            let fitting = METRICS.iter().filter(|(.., kinds)| kinds.contains(&output));
            let names: Vec<&str> = fitting.map(|(name, ..)| *name).collect();
            return Err(format!(
                "metric {name:?} is not available for this output_type; known are {}",
                names.join(", ")
            ));
        }
        let aggregation = match &entry.aggregation {
            Some(name) => {
                AGGREGATIONS.iter().find(|(known, _)| known == name).map(|(_, a)| *a).ok_or_else(
                    || {
                        let names: Vec<&str> = AGGREGATIONS.iter().map(|(name, _)| *name).collect();
                        format!("aggregation {name:?} is unknown; known are {}", names.join(", "))
                    },
                )?
            }
            None => known.map_or(Aggregation::Mean, |(_, aggregation, ..)| *aggregation),
        };
        let is_of_corpus = |of: Aggregation| matches!(of, Aggregation::Translation(_));
        let usually = known.map_or(Aggregation::Mean, |(_, usual, ..)| *usual);
        let (own, usual) = (is_of_corpus(aggregation), is_of_corpus(usually));
        if !own_results && (own || usual) && aggregation != usually {
            return Err(format!("metric {name:?} has another aggregation than its own"));
        }
        let usual = known.is_none_or(|(_, _, higher, _)| *higher);
        let rule = Self {
            name: name.clone(),
            aggregation,
            higher_is_better: entry.higher_is_better.unwrap_or(usual),
            options: entry.options.clone(),
        };
        // Patterns are compiled where they are used, and refused here.
        rule.ignored().map(|_| rule)
    }

    /// The patterns of `regexes_to_ignore`, what they match is no part of an answer. Errors are the
    /// reason only.
    pub(super) fn ignored(&self) -> Result<Vec<Regex>, String> {
        let field = "regexes_to_ignore";
        let patterns = match self.options.get(field) {
            None | Some(Json::Null) => return Ok(Vec::new()),
            Some(Json::Array(patterns)) => patterns,
            Some(other) => return Err(format!("{field} is {other}, expected a list of patterns")),
        };
        let pattern = |pattern: &Json| match pattern {
            Json::String(pattern) => pattern_of(field, pattern),
            other => Err(format!("{field} has {other}, expected a pattern")),
        };
        patterns.iter().map(pattern).collect()
    }
}

impl Aggregation {
    /// Aggregates values; NaN if they have another type than the aggregation needs.
    pub(super) fn of(self, values: &[Value]) -> f64 {
        let numbers = || values.iter().filter_map(Value::number);
        match self {
            Self::Mean => mean(numbers()),
            Self::Median => {
                let mut sorted: Vec<f64> = numbers().collect();
                sorted.sort_by(f64::total_cmp);
                sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
            }
            Self::Perplexity => (-mean(numbers())).exp(),
            Self::WeightedPerplexity => (-weighted_mean(values)).exp(),
            Self::BitsPerByte => -weighted_mean(values) / LN_2,
            Self::F1 => f1(values),
            Self::Matthews => matthews(values),
            Self::Brier => brier(values),
            Self::Truths => share(values),
            Self::Translation(score) => translated(score, values),
        }
    }

    /// Standard error: of a mean by its formula, otherwise by a bootstrap with `draws` samples,
    /// drawn as in the harness. `None` where the harness has none.
    pub(super) fn standard_error(self, values: &[Value], draws: usize) -> Option<f64> {
        if values.len() < 2 || draws == 0 {
            return None;
        }
        match self {
            Self::Mean => {
                let numbers: Vec<f64> = values.iter().filter_map(Value::number).collect();
                Some(deviation(&numbers) / (numbers.len() as f64).sqrt())
            }
            Self::Median | Self::Perplexity | Self::F1 | Self::Matthews => {
                Some(self.bootstrap(values, draws))
            }
            Self::Truths => Some(share_error(values)),
            // As in the harness, which draws fewer of these.
            Self::Translation(_) => Some(self.bootstrap(values, draws.min(TRANSLATION_DRAWS))),
            Self::WeightedPerplexity | Self::BitsPerByte | Self::Brier => None,
        }
    }

    /// Standard deviation over bootstrap samples. Chunks have separate seeds, so that they can be
    /// drawn in parallel.
    fn bootstrap(self, values: &[Value], draws: usize) -> f64 {
        let size = CHUNK.min(draws);
        let chunk = |_, seed: usize| {
            let mut random = PythonRandom::new(seed as u64);
            let mut sample = values.to_vec();
            let draw = |_| {
                for value in &mut sample {
                    value.clone_from(&values[random.choice(values.len())]);
                }
                self.of(&sample)
            };
            (0..size).map(draw).collect::<Vec<f64>>()
        };
        deviation(&parallel::map((0..draws / size).collect(), chunk).concat())
    }
}

/// Score of a corpus.
fn translated(score: Translation, values: &[Value]) -> f64 {
    let mut sum: Vec<f64> = Vec::new();
    for value in values {
        if let Value::Overlap(_, counts) = value {
            sum.resize(counts.len(), 0.0);
            sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
    }
    if sum.is_empty() { f64::NAN } else { score.score(&sum) }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for value in values {
        sum += value;
        count += 1.0;
    }
    sum / count
}

/// Standard deviation of a sample.
fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values.iter().copied());
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (values.len() as f64 - 1.0)).sqrt()
}

fn weighted_mean(values: &[Value]) -> f64 {
    let (mut sum, mut weights) = (0.0, 0.0);
    for value in values {
        if let Value::Weighted(value, weight) = value {
            sum += value;
            weights += weight;
        }
    }
    sum / weights
}

/// Numbers of truths and of those that hold, by document.
fn truths(values: &[Value]) -> Vec<(f64, f64)> {
    let counts = values.iter().filter_map(|value| match value {
        Value::Truths(truths) => {
            Some((truths.len() as f64, truths.iter().filter(|truth| **truth).count() as f64))
        }
        _ => None,
    });
    counts.collect()
}

/// Share of the truths of all documents that hold.
fn share(values: &[Value]) -> f64 {
    let (mut all, mut held) = (0.0, 0.0);
    for (count, right) in truths(values) {
        all += count;
        held += right;
    }
    held / all
}

/// Standard error of [`share`] with documents as clusters: truths of one document depend on one
/// answer. Linearised (Cochran 1977, Sampling Techniques, equation 6.13), without a correction for
/// a finite population; the harness has none.
fn share_error(values: &[Value]) -> f64 {
    let counts = truths(values);
    let (documents, share) = (counts.len() as f64, share(values));
    let all: f64 = counts.iter().map(|(count, _)| count).sum();
    let squares: f64 = counts.iter().map(|(count, held)| (held - share * count).powi(2)).sum();
    (documents / (documents - 1.0) * squares).sqrt() / all
}

/// Confusion matrix of two classes: (predicted, true) = (1, 1), (1, 0), (0, 1), (0, 0).
fn binary(values: &[Value]) -> [f64; 4] {
    let mut counts = [0.0; 4];
    for value in values {
        if let Value::Classes(gold, predicted) = value {
            let (gold, predicted) = (*gold == Some(1), *predicted == 1);
            counts[match (gold, predicted) {
                (true, true) => 0,
                (false, true) => 1,
                (true, false) => 2,
                (false, false) => 3,
            }] += 1.0;
        }
    }
    counts
}

/// F1 of class 1; 0 if it neither occurs nor is predicted.
fn f1(values: &[Value]) -> f64 {
    let [hits, false_alarms, misses, _] = binary(values);
    let all = 2.0 * hits + false_alarms + misses;
    if all == 0.0 { 0.0 } else { 2.0 * hits / all }
}

/// Matthews correlation coefficient for any number of classes (Gorodkin 2004); 0 if undefined.
fn matthews(values: &[Value]) -> f64 {
    let pairs = values.iter().filter_map(|value| match value {
        Value::Classes(gold, predicted) => Some((gold.map_or(usize::MAX, |gold| gold), *predicted)),
        _ => None,
    });
    let pairs: Vec<(usize, usize)> = pairs.collect();
    let mut classes: Vec<usize> = pairs.iter().flat_map(|&(gold, p)| [gold, p]).collect();
    classes.sort_unstable();
    classes.dedup();
    let n = pairs.len() as f64;
    let right = pairs.iter().filter(|(gold, predicted)| gold == predicted).count() as f64;
    let count = |of: &dyn Fn(&(usize, usize)) -> usize, class: usize| {
        pairs.iter().filter(|pair| of(pair) == class).count() as f64
    };
    let (mut both, mut of_gold, mut of_predicted) = (0.0, 0.0, 0.0);
    for class in classes {
        let (gold, predicted) = (count(&|pair| pair.0, class), count(&|pair| pair.1, class));
        both += gold * predicted;
        of_gold += gold * gold;
        of_predicted += predicted * predicted;
    }
    let scale = ((n * n - of_predicted) * (n * n - of_gold)).sqrt();
    if scale == 0.0 { 0.0 } else { (right * n - both) / scale }
}

/// Brier score: mean squared distance of the predicted probabilities from the one-hot true class.
fn brier(values: &[Value]) -> f64 {
    mean(values.iter().filter_map(|value| match value {
        Value::Probabilities(gold, shares) => {
            let truth = |class: usize| f64::from(u8::from(*gold == Some(class)));
            Some(shares.iter().enumerate().map(|(class, p)| (p - truth(class)).powi(2)).sum())
        }
        _ => None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(values: &[f64]) -> Vec<Value> {
        values.iter().map(|&value| Value::Number(value)).collect()
    }

    fn classes(pairs: &[(usize, usize)]) -> Vec<Value> {
        pairs.iter().map(|&(gold, predicted)| Value::Classes(Some(gold), predicted)).collect()
    }

    #[test]
    fn figures_by_hand() {
        assert!((Aggregation::Mean.of(&numbers(&[1.0, 0.0, 1.0, 1.0])) - 0.75).abs() < 1e-15);
        assert_eq!(Aggregation::Median.of(&numbers(&[3.0, 1.0, 2.0, 9.0])), 3.0);
        let likelihoods = numbers(&[-1.0, -3.0]);
        assert!((Aggregation::Perplexity.of(&likelihoods) - 2f64.exp()).abs() < 1e-12);
        let weighted = [Value::Weighted(-2.0, 1.0), Value::Weighted(-4.0, 2.0)];
        assert!((Aggregation::WeightedPerplexity.of(&weighted) - 2f64.exp()).abs() < 1e-12);
        assert!((Aggregation::BitsPerByte.of(&weighted) - 2.0 / LN_2).abs() < 1e-12);
        // sklearn: f1_score, matthews_corrcoef of the same pairs.
        let pairs = classes(&[(1, 1), (1, 0), (0, 1), (0, 0), (1, 1)]);
        assert!((Aggregation::F1.of(&pairs) - 2.0 / 3.0).abs() < 1e-12);
        assert!((Aggregation::Matthews.of(&pairs) - 1.0 / 6.0).abs() < 1e-12);
        let shares = [Value::Probabilities(Some(0), vec![0.75, 0.25])];
        assert!((Aggregation::Brier.of(&shares) - 0.125).abs() < 1e-12);
        let truths = [Value::Truths(vec![true, false]), Value::Truths(vec![true])];
        assert!((Aggregation::Truths.of(&truths) - 2.0 / 3.0).abs() < 1e-12);
        assert_eq!(Aggregation::F1.of(&classes(&[(0, 0)])), 0.0);
        assert_eq!(Aggregation::Matthews.of(&classes(&[(0, 0)])), 0.0);
    }

    #[test]
    fn errors_are_those_of_the_harness() {
        let mean = Aggregation::Mean.standard_error(&numbers(&[1.0, 0.0, 1.0, 1.0]), 100_000);
        assert!((mean.unwrap() - 0.25).abs() < 1e-12);
        assert_eq!(Aggregation::WeightedPerplexity.standard_error(&numbers(&[1.0, 2.0]), 10), None);
        assert_eq!(Aggregation::Mean.standard_error(&numbers(&[1.0]), 10), None);
        // Residuals of 2/3: -1/3 and 1/3; sqrt(2 / 1 * 2/9) / 3.
        let truths = [Value::Truths(vec![true, false]), Value::Truths(vec![true])];
        let error = Aggregation::Truths.standard_error(&truths, 10).unwrap();
        assert!((error - 2.0 / 9.0).abs() < 1e-12, "{error}");
        // One truth for each document is a mean.
        let single: Vec<Value> = [true, false, true, true].map(|t| Value::Truths(vec![t])).into();
        let error = Aggregation::Truths.standard_error(&single, 10).unwrap();
        assert!((error - 0.25).abs() < 1e-12, "{error}");
        // lm_eval.api.metrics.bootstrap_stderr(perplexity, [-1.0, -2.0, -0.5, -3.0], 2000)
        let values = numbers(&[-1.0, -2.0, -0.5, -3.0]);
        let error = Aggregation::Perplexity.standard_error(&values, 2000).unwrap();
        assert!((error - 2.987_403_365_160_044).abs() < 1e-12, "{error}");
    }

    #[test]
    fn unknown_figures_are_refused_with_those_there_are() {
        let entry = |metric: &str, aggregation: Option<&str>| MetricEntry {
            metric: metric.into(),
            aggregation: aggregation.map(str::to_owned),
            higher_is_better: None,
            options: serde_json::Map::new(),
        };
        let all =
            |entry: MetricEntry| MetricRule::all(Some(&[entry]), OutputType::MultipleChoice, false);
        assert!(all(entry("bleu", None)).unwrap_err().contains("acc_norm"));
        let generated =
            |entry: MetricEntry| MetricRule::all(Some(&[entry]), OutputType::GenerateUntil, false);
        let rule = &generated(entry("chrf++", Some("chrf++"))).unwrap()[0];
        assert_eq!(rule.translation(), Some(Translation::ChrfPlus));
        assert!(generated(entry("bleu", Some("mean"))).unwrap_err().contains("aggregation"));
        assert!(generated(entry("exact_match", Some("bleu"))).unwrap_err().contains("aggregation"));
        assert!(all(entry("acc", Some("max"))).unwrap_err().contains("median"));
        let broken = serde_json::json!({"regexes_to_ignore": ["(?<=\\$)\\d", "("]});
        let options = broken.as_object().unwrap().clone();
        let error = all(MetricEntry { options, ..entry("acc", None) }).unwrap_err();
        assert!(error.contains("regexes_to_ignore \"(\""), "{error}");
        let rule = &all(entry("mcc", None)).unwrap()[0];
        assert_eq!((rule.aggregation, rule.higher_is_better), (Aggregation::Matthews, true));
    }
}
