//! How well a sentence encoder tells similar sentences from others.
//!
//! Pairs of sentences have scores given by people; the cosine of their vectors should rank them alike.
//! The figures are Spearman's and Pearson's correlation, as MTEB (Muennighoff et al. 2022,
//! arXiv:2210.07316) and sentence-transformers report them. Standard errors are those of Fisher's z
//! turned back, (1 − r²)/√(n − 3), for ranks with the factor √(1 + r²/2) of Bonett and Wright (2000).

use super::{Counts, EvaluationError, Hooks, Metric, Progress, RunOptions, Sample, TaskResult};
use crate::data::{DataError, Fields, Row, Table, TableFormat};
use linwright_model::checkpoint::Sentence;
use linwright_model::tokenizer::Tokenizer;
use linwright_model::{Batch, Transformer};
use linwright_ops::NoProbe;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Names of such tasks, and what they are about.
pub const SENTENCE_TASKS: &[(&str, &str)] =
    &[("stsb", "how alike sentences are, by the vectors of an encoder")];

/// Version of the way of scoring.
const VERSION: f64 = 1.0;
/// Pairs without which there is no standard error.
const FEWEST: usize = 4;

/// An encoder with what makes one vector of a text.
#[derive(Clone, Copy, Debug)]
pub struct Encoder<'a> {
    /// The layers.
    pub model: &'a Transformer,
    /// The tokenizer that belongs to it.
    pub tokenizer: &'a Tokenizer,
    /// From the vectors of all tokens to that of the text.
    pub sentence: Sentence,
    /// Longest input in tokens, if that is fewer than the model's positions.
    pub max_length: Option<usize>,
}

/// Two sentences and how similar people found them.
#[derive(Clone, Debug, PartialEq)]
struct Pair {
    sentences: [String; 2],
    score: f64,
    place: String,
}

/// A set of scored pairs of sentences.
#[derive(Clone, Debug, PartialEq)]
pub struct SentencePairs {
    id: String,
    pairs: Vec<Pair>,
    original: usize,
    sha256: String,
}

impl SentencePairs {
    /// Reads pairs: rows with `sentence1`, `sentence2` and `score` (or `label`), or the lines of the
    /// STS benchmark, whose fifth column between tabs is the score and whose sixth and seventh are the
    /// sentences. `limit` keeps only the first pairs.
    ///
    /// # Errors
    /// [`EvaluationError`], naming file and line.
    pub fn open(id: &str, path: &Path, limit: Option<usize>) -> Result<Self, EvaluationError> {
        let format = TableFormat::of(path).unwrap_or(TableFormat::Text);
        let lines = Table::open(path, TableFormat::Text, None)?;
        let is_benchmark = lines.rows.first().is_some_and(|row| benchmark(row).is_ok());
        let table = if is_benchmark { lines } else { Table::open(path, format, None)? };
        let read = if is_benchmark { benchmark } else { named };
        let pair = |row: &Row| {
            let place = format!("{}, line {}", path.display(), row.line);
            match read(row) {
                Ok(pair) => Ok(Pair { place, ..pair }),
                Err(reason) => Err(EvaluationError::Document {
                    place,
                    task: id.to_owned(),
                    field: "the pair".into(),
                    reason,
                }),
            }
        };
        let mut pairs = table.rows.iter().map(pair).collect::<Result<Vec<_>, _>>()?;
        let original = pairs.len();
        pairs.truncate(limit.unwrap_or(original));
        if pairs.len() < FEWEST {
            return Err(DataError::NoRecords { path: path.to_owned(), what: "four pairs" }.into());
        }
        Ok(Self { id: id.to_owned(), pairs, original, sha256: table.sha256 })
    }

    /// Name, the key under `results`.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Scores an encoder.
    ///
    /// # Errors
    /// [`EvaluationError::Interrupted`] if asked to stop; else what the tokenizer or the model says,
    /// naming the pair, or that all scores are equal.
    pub fn evaluate(
        &self,
        encoder: Encoder<'_>,
        options: &RunOptions,
        hooks: &mut Hooks<'_>,
    ) -> Result<TaskResult, EvaluationError> {
        let mut counts = Counts { items: self.pairs.len(), ..Counts::default() };
        let encoded = self.encode(encoder, &mut counts)?;
        let total = encoded.iter().map(Vec::len).sum::<usize>() as u64;
        let (mut cosines, mut rest, mut done) = (Vec::new(), encoded.as_slice(), 0);
        while !rest.is_empty() {
            if (hooks.cancelled)() {
                return Err(EvaluationError::Interrupted {
                    done_tokens: done,
                    total_tokens: total,
                });
            }
            // Two sentences at least: those of one pair.
            let (mut count, mut tokens) = (0, 0);
            while count < rest.len() {
                let pair = rest[count].len() + rest[count + 1].len();
                if count > 0 && tokens + pair > options.max_batch_tokens {
                    break;
                }
                (count, tokens) = (count + 2, tokens + pair);
            }
            let (batch, after) = rest.split_at(count);
            let first = cosines.len();
            let found = encoder.cosines(batch).map_err(|source| EvaluationError::Model {
                place: self.pairs[first].place.clone(),
                source: Box::new(source),
            })?;
            for (pair, cosine) in self.pairs[first..].iter().zip(found) {
                if !cosine.is_finite() {
                    return Err(EvaluationError::NonFinite {
                        place: pair.place.clone(),
                        token: 0,
                        found: cosine,
                    });
                }
                cosines.push(cosine);
            }
            done += tokens as u64;
            (hooks.progress)(Progress { done_tokens: done, total_tokens: total });
            rest = after;
        }
        let protocol = format!("sentence-pairs_cosine_pool-{}", encoder.sentence.name());
        Ok(TaskResult { protocol, ..self.result(&cosines, counts)? })
    }

    /// Tokens of all sentences, one pair after another.
    fn encode(
        &self,
        encoder: Encoder<'_>,
        counts: &mut Counts,
    ) -> Result<Vec<Vec<u32>>, EvaluationError> {
        let own = encoder.model.config().max_positions;
        let longest = encoder.max_length.map_or(own, |length| length.min(own));
        let mut all = Vec::with_capacity(2 * self.pairs.len());
        for pair in &self.pairs {
            for sentence in &pair.sentences {
                let tokens = encoder.tokenizer.encode(sentence, true);
                let mut tokens = tokens.map_err(|source| EvaluationError::Tokenizer {
                    place: pair.place.clone(),
                    source: Box::new(source),
                })?;
                if tokens.len() > longest {
                    // As sentence-transformers: the end of the text is cut, its last mark stays.
                    let last = tokens[tokens.len() - 1];
                    tokens.truncate(longest.saturating_sub(1));
                    tokens.push(last);
                    counts.truncated += 1;
                }
                counts.tokens_counted += tokens.len();
                all.push(tokens);
            }
        }
        Ok(all)
    }

    fn result(&self, cosines: &[f64], counts: Counts) -> Result<TaskResult, EvaluationError> {
        let scores: Vec<f64> = self.pairs.iter().map(|pair| pair.score).collect();
        let nothing =
            || EvaluationError::Nothing { task: self.id.clone(), what: "pairs that differ" };
        let pearson = correlation(&scores, cosines).ok_or_else(nothing)?;
        let spearman = correlation(&ranks(&scores), &ranks(cosines)).ok_or_else(nothing)?;
        let n = scores.len() as f64;
        let error = |r: f64, factor: f64| Some((1.0 - r * r) * factor / (n - 3.0).sqrt());
        let bonett_wright = (1.0 + spearman * spearman / 2.0).sqrt();
        let samples = self.pairs.iter().zip(cosines).enumerate().map(|(index, (pair, &cosine))| {
            let mut record = Map::new();
            let [one, other] = &pair.sentences;
            for (name, value) in [
                ("doc_id", json!(index)),
                ("doc", json!({"sentence1": one, "sentence2": other, "score": pair.score})),
                ("target", json!(pair.score)),
                ("cosine", json!(cosine)),
            ] {
                record.insert(name.to_owned(), value);
            }
            let filter = "none".to_owned();
            Sample { place: pair.place.clone(), filter, numbers: BTreeMap::new(), record }
        });
        Ok(TaskResult {
            task: self.id.clone(),
            version: VERSION,
            data_sha256: self.sha256.clone(),
            metrics: vec![
                Metric::new("cosine_spearman", spearman, error(spearman, bonett_wright), true),
                Metric::new("cosine_pearson", pearson, error(pearson, 1.0), true),
            ],
            counts,
            original: self.original,
            samples: samples.collect(),
            ..TaskResult::default()
        })
    }
}

impl Encoder<'_> {
    /// Cosines of pairs of token sequences, which follow each other.
    fn cosines(self, sequences: &[Vec<u32>]) -> Result<Vec<f64>, linwright_model::ModelError> {
        let batch = Batch::new(&sequences.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let mut hidden = self.model.embed(&batch)?;
        self.model.run_layers(
            &mut hidden,
            &batch,
            0..self.model.config().layers.len(),
            &mut NoProbe,
        )?;
        let vectors = self.sentence.vectors(hidden.view(), &batch);
        let product = |i: usize, j: usize| -> f64 {
            vectors
                .row(i)
                .iter()
                .zip(vectors.row(j))
                .map(|(a, b)| f64::from(*a) * f64::from(*b))
                .sum()
        };
        let cosine = |pair: usize| {
            let (i, j) = (2 * pair, 2 * pair + 1);
            product(i, j) / (product(i, i) * product(j, j)).sqrt()
        };
        Ok((0..sequences.len() / 2).map(cosine).collect())
    }
}

/// A line of the STS benchmark.
fn benchmark(row: &Row) -> Result<Pair, String> {
    let line = row.fields.get("text").and_then(Value::as_str).unwrap_or_default();
    let columns: Vec<&str> = line.split('\t').collect();
    let [_, _, _, _, score, one, other, ..] = columns.as_slice() else {
        return Err(format!("{} columns between tabs, expected 7 or more", columns.len()));
    };
    let score = score.trim().parse().ok().filter(|score: &f64| score.is_finite());
    let score = score.ok_or_else(|| format!("the score is {:?}, expected a number", columns[4]))?;
    Ok(Pair { sentences: [(*one).to_owned(), (*other).to_owned()], score, place: String::new() })
}

/// A row with named columns.
fn named(row: &Row) -> Result<Pair, String> {
    let text = |name: &str| match row.fields.get(name) {
        Some(Value::String(text)) => Ok(text.clone()),
        _ => Err(format!("there is no text {name}")),
    };
    let sentences = [text("sentence1")?, text("sentence2")?];
    let score = number(&row.fields, "score").or_else(|| number(&row.fields, "label"));
    let score = score.ok_or("there is no number score or label")?;
    Ok(Pair { sentences, score, place: String::new() })
}

fn number(fields: &Fields, name: &str) -> Option<f64> {
    let value = match fields.get(name)? {
        Value::String(text) => text.trim().parse().ok()?,
        other => other.as_f64()?,
    };
    Some(value).filter(|value| value.is_finite())
}

/// Ranks from one; equal numbers share the mean of theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut next = 0;
    for run in order.chunk_by(|&a, &b| values[a] == values[b]) {
        let mean = next as f64 + (run.len() as f64 + 1.0) / 2.0;
        for &index in run {
            ranks[index] = mean;
        }
        next += run.len();
    }
    ranks
}

/// Pearson's correlation; none if all numbers of a side are equal.
fn correlation(a: &[f64], b: &[f64]) -> Option<f64> {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (mean_a, mean_b) = (mean(a), mean(b));
    let (mut both, mut own_a, mut own_b) = (0.0, 0.0, 0.0);
    for (x, y) in a.iter().zip(b) {
        let (x, y) = (x - mean_a, y - mean_b);
        both += x * y;
        own_a += x * x;
        own_b += y * y;
    }
    (own_a > 0.0 && own_b > 0.0).then(|| both / (own_a * own_b).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(name: &str, text: &str) -> Result<SentencePairs, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        SentencePairs::open("stsb", &path, None).map_err(|error| error.to_string())
    }

    #[test]
    fn ranks_share_ties() {
        assert_eq!(ranks(&[3.0, 1.0, 3.0, 0.5]), [3.5, 2.0, 3.5, 1.0]);
        // By hand: deviations (-1, 0, 1) and (-1, -1, 2) give 3 / sqrt(2 * 6).
        let r = correlation(&[1.0, 2.0, 3.0], &[0.0, 0.0, 3.0]).unwrap();
        assert!((r - 3.0 / 12f64.sqrt()).abs() < 1e-12);
        assert_eq!(correlation(&[1.0, 1.0], &[0.0, 3.0]), None);
    }

    #[test]
    fn both_forms_are_read() {
        let line = |score: f64, text: &str| format!("g\tf\ty\t1\t{score}\ta \"{text}\tb\n");
        let text: String = (0..5).map(|i| line(f64::from(i), "x")).collect();
        let set = pairs("a.tsv", &text).unwrap();
        assert_eq!((set.pairs.len(), set.pairs[4].score), (5, 4.0));
        assert_eq!(set.pairs[0].sentences, ["a \"x", "b"]);
        let row =
            |i: u32| format!("{{\"sentence1\": \"a\", \"sentence2\": \"b\", \"score\": {i}}}\n");
        let rows: String = (0..4).map(row).collect();
        assert_eq!(pairs("a.jsonl", &rows).unwrap().pairs[3].score, 3.0);
    }

    #[test]
    fn faults_name_the_line() {
        let good = "g\tf\ty\t1\t2.5\ta\tb\n";
        for (name, text, want) in [
            (
                "a.tsv",
                format!("{good}{good}{good}g\tf\n"),
                "line 4: the pair of task stsb: 2 columns",
            ),
            ("a.tsv", format!("{good}{}", good.replace("2.5", "x")), "line 2"),
            ("a.tsv", good.to_owned(), "four pairs"),
            (
                "a.jsonl",
                "{\"sentence1\": \"a\", \"sentence2\": 1}\n".to_owned(),
                "no text sentence2",
            ),
        ] {
            let error = pairs(name, &text).unwrap_err();
            assert!(error.contains(want), "{error:?} lacks {want:?}");
        }
    }

    #[test]
    fn figures_are_those_of_the_cosines() {
        let good = |score: f64| format!("g\tf\ty\t1\t{score}\ta\tb\n");
        let text: String = [1.0, 2.0, 3.0, 4.0, 5.0].map(good).concat();
        let set = pairs("a.tsv", &text).unwrap();
        let result = set.result(&[0.1, 0.2, 0.4, 0.3, 0.5], Counts::default()).unwrap();
        // Ranks (1, 2, 4, 3, 5): 1 - 6 * 2 / (5 * 24).
        let spearman = result.metric("cosine_spearman").unwrap();
        assert!((spearman.value - 0.9).abs() < 1e-12);
        let error = (1.0 - 0.81) * (1.0f64 + 0.405).sqrt() / 2f64.sqrt();
        assert!((spearman.stderr.unwrap() - error).abs() < 1e-12);
        assert!(set.result(&[0.1; 5], Counts::default()).is_err());
    }
}
