//! Sentence similarity of an encoder.
//!
//! Pairs of sentences have scores by human annotators; the cosine similarities of their embeddings
//! should rank them equally. The metrics are Spearman's and Pearson's correlation, as in MTEB
//! (Muennighoff et al. 2022, arXiv:2210.07316) and sentence-transformers. Standard errors are those
//! of Fisher's z mapped back, (1 − r²)/√(n − 3), for ranks with the factor √(1 + r²/2) of Bonett
//! and Wright (2000).

use super::registry::divided;
use super::{
    Bos, Counts, EvaluationError, Item, Metric, OpenOptions, OpenTasks, Parts, Reply, Request,
    Sample, Task, TaskData, TaskEntry, TaskOption, TaskRequest, TaskResult,
};
use linwright_data::{DataError, Fields, Row, Table, TableFormat};
use linwright_tensor::correlation::{pearson, ranks};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::path::Path;

/// A sentence similarity task.
#[derive(Clone, Copy, Debug)]
pub struct SentenceTask {
    /// Its name.
    pub name: &'static str,
    /// Description for the listing.
    pub summary: &'static str,
}

/// The sentence similarity tasks.
pub const SENTENCE_TASKS: &[SentenceTask] = &[SentenceTask {
    name: "stsb",
    summary: "similarity of sentences by the embeddings of an encoder",
}];

impl SentenceTask {
    fn pairs(
        self,
        request: &TaskRequest,
        options: &OpenOptions<'_>,
    ) -> Result<SentencePairs, EvaluationError> {
        SentencePairs::open(self.name, request.file(options, "pairs")?, options.text.limit)
    }
}

impl TaskEntry for SentenceTask {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn data(&self) -> TaskData {
        TaskData::File("pairs")
    }

    fn reads(&self, _option: TaskOption) -> bool {
        false
    }

    fn open(
        &'static self,
        request: &TaskRequest,
        options: &OpenOptions<'_>,
    ) -> Result<OpenTasks, EvaluationError> {
        Ok(OpenTasks::one(self.pairs(request, options)?))
    }

    /// Each part has its own correlations.
    fn parts(
        &'static self,
        request: &TaskRequest,
        options: &OpenOptions<'_>,
        shuffle: Option<u64>,
    ) -> Result<Parts, EvaluationError> {
        let pairs = self.pairs(request, options)?;
        let (first, others) = divided(pairs.len(), shuffle)?;
        let (validation, test) = (pairs.part(&first)?, pairs.part(&others)?);
        Ok(Parts { validation: Box::new(validation), test: Some(Box::new(test)) })
    }
}

/// Version of the scoring.
const VERSION: f64 = 1.0;
/// Smallest number of pairs with a standard error.
const MIN_PAIRS: usize = 4;

/// Two sentences with their annotated similarity.
#[derive(Clone, Debug, PartialEq)]
struct Pair {
    sentences: [String; 2],
    score: f64,
    place: String,
}

/// A set of annotated sentence pairs.
#[derive(Clone, Debug, PartialEq)]
pub struct SentencePairs {
    id: String,
    pairs: Vec<Pair>,
    original: usize,
    sha256: String,
}

impl SentencePairs {
    /// Reads pairs: rows with `sentence1`, `sentence2` and `score` (or `label`), or lines of the
    /// STS benchmark, which have the score in the fifth tab-separated column and the sentences in
    /// the sixth and seventh. `limit` keeps only the first pairs.
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
        if pairs.len() < MIN_PAIRS {
            return Err(DataError::NoRecords { path: path.to_owned(), what: "four pairs" }.into());
        }
        Ok(Self { id: id.to_owned(), pairs, original, sha256: table.sha256 })
    }

    /// Number of pairs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Whether there are no pairs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// The pairs with these indices; indices out of range are ignored.
    ///
    /// # Errors
    /// [`EvaluationError::Nothing`] if too few pairs remain for a score.
    pub fn part(&self, indices: &[usize]) -> Result<Self, EvaluationError> {
        let pairs: Vec<Pair> =
            indices.iter().filter_map(|index| self.pairs.get(*index).cloned()).collect();
        if pairs.len() < MIN_PAIRS {
            return Err(EvaluationError::Nothing { task: self.id.clone(), what: "four pairs" });
        }
        Ok(Self { pairs, ..self.clone() })
    }

    fn result(&self, cosines: &[f64], counts: Counts) -> Result<TaskResult, EvaluationError> {
        let scores: Vec<f64> = self.pairs.iter().map(|pair| pair.score).collect();
        let nothing =
            || EvaluationError::Nothing { task: self.id.clone(), what: "pairs that differ" };
        let linear = pearson(&scores, cosines).ok_or_else(nothing)?;
        let spearman = pearson(&ranks(&scores), &ranks(cosines)).ok_or_else(nothing)?;
        let n = scores.len() as f64;
        let error = |r: f64, factor: f64| Some((1.0 - r * r) * factor / (n - 3.0).sqrt());
        let bonett_wright = (1.0 + spearman * spearman / 2.0).sqrt();
        // Influence of each pair on the score, so that two models can be compared pair by pair.
        let parts = [
            ("cosine_spearman", spearman, rank_influences(&scores, cosines, spearman)),
            ("cosine_pearson", linear, influences(&scores, cosines, linear)),
        ];
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
            let part = |(name, value, parts): &(&str, f64, Vec<f64>)| {
                ((*name).to_owned(), value + parts[index])
            };
            let (filter, numbers) = ("none".to_owned(), parts.iter().map(part).collect());
            Sample { place: pair.place.clone(), filter, group: None, numbers, record }
        });
        Ok(TaskResult {
            task: self.id.clone(),
            version: VERSION,
            data_sha256: self.sha256.clone(),
            metrics: vec![
                Metric::new("cosine_spearman", spearman, error(spearman, bonett_wright), true),
                Metric::new("cosine_pearson", linear, error(linear, 1.0), true),
            ],
            counts,
            original: self.original,
            samples: samples.collect(),
            ..TaskResult::default()
        })
    }
}

impl Task for SentencePairs {
    fn id(&self) -> String {
        self.id.clone()
    }

    fn version(&self) -> f64 {
        VERSION
    }

    /// Sentences are encoded with the tokenizer's own special tokens.
    fn bos(&self) -> Bos {
        Bos::Never
    }

    fn items(&self) -> Vec<Item<'_>> {
        fn item(pair: &Pair) -> Item<'_> {
            let [one, other] = &pair.sentences;
            let texts = [Cow::Borrowed(one.as_str()), Cow::Borrowed(other.as_str())];
            Item { place: pair.place.clone(), requests: vec![Request::Similarity(texts)], own: &[] }
        }
        self.pairs.iter().map(item).collect()
    }

    /// The same items: every model with pooling supports the task.
    fn cloze_items(&self) -> Option<Vec<Item<'_>>> {
        Some(self.items())
    }

    fn score(&self, replies: &[Vec<Reply>], bos_used: bool) -> Result<TaskResult, EvaluationError> {
        let mut counts = Counts { items: self.pairs.len(), ..Counts::default() };
        let (mut cosines, mut pool) = (Vec::with_capacity(replies.len()), "");
        for reply in replies.iter().flatten() {
            counts.add(reply);
            if let Reply::Similarity { cosine, pooling, .. } = reply {
                cosines.push(*cosine);
                pool = pooling;
            }
        }
        if cosines.len() != self.pairs.len() {
            return Err(EvaluationError::Nothing { task: self.id.clone(), what: "cosines" });
        }
        let protocol = format!("sentence-pairs_cosine_pool-{pool}");
        Ok(TaskResult { protocol, bos_used, ..self.result(&cosines, counts)? })
    }
}

/// Parses a line of the STS benchmark.
fn benchmark(row: &Row) -> Result<Pair, String> {
    let line = row.fields.get("text").and_then(Value::as_str).unwrap_or_default();
    let columns: Vec<&str> = line.split('\t').collect();
    let [_, _, _, _, score, one, other, ..] = columns.as_slice() else {
        return Err(format!("{} tab-separated columns, expected 7 or more", columns.len()));
    };
    let score = score.trim().parse().ok().filter(|score: &f64| score.is_finite());
    let score = score.ok_or_else(|| format!("the score is {:?}, expected a number", columns[4]))?;
    Ok(Pair { sentences: [(*one).to_owned(), (*other).to_owned()], score, place: String::new() })
}

/// Parses a row with named columns.
fn named(row: &Row) -> Result<Pair, String> {
    let text = |name: &str| match row.fields.get(name) {
        Some(Value::String(text)) => Ok(text.clone()),
        _ => Err(format!("the text {name} is missing")),
    };
    let sentences = [text("sentence1")?, text("sentence2")?];
    let score = number(&row.fields, "score").or_else(|| number(&row.fields, "label"));
    let score = score.ok_or("the number score or label is missing")?;
    Ok(Pair { sentences, score, place: String::new() })
}

fn number(fields: &Fields, name: &str) -> Option<f64> {
    let value = match fields.get(name)? {
        Value::String(text) => text.trim().parse().ok()?,
        other => other.as_f64()?,
    };
    Some(value).filter(|value| value.is_finite())
}

/// Influence of each item on Pearson's correlation `r`, by its influence function. The influences
/// have mean zero; the standard error of their mean is that of `r`.
fn influences(a: &[f64], b: &[f64], r: f64) -> Vec<f64> {
    let n = a.len() as f64;
    let standard = |values: &[f64]| -> Vec<f64> {
        let mean = values.iter().sum::<f64>() / n;
        let spread = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt();
        values.iter().map(|v| (v - mean) / spread).collect()
    };
    let pairs = standard(a).into_iter().zip(standard(b));
    pairs.map(|(x, y)| x * y - r / 2.0 * (x * x + y * y)).collect()
}

/// Influence of each item on Spearman's correlation `r`, by the influence function at the empirical
/// distribution (Croux and Dehon 2010): of the item's own ranks, and of its effect on the ranks of
/// all others. The influences have mean zero.
fn rank_influences(a: &[f64], b: &[f64], r: f64) -> Vec<f64> {
    let n = a.len() as f64;
    let centred = |values: &[f64]| -> Vec<f64> {
        ranks(values).iter().map(|rank| (rank - 0.5) / n - 0.5).collect()
    };
    let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / n;
    let (x, y) = (centred(a), centred(b));
    let both = mean(&mut x.iter().zip(&y).map(|(x, y)| x * y));
    let of_x = mean(&mut x.iter().map(|x| x * x));
    let of_y = mean(&mut y.iter().map(|y| y * y));
    let (xy, xx) = (above(a, &y), above(a, &x));
    let (yx, yy) = (above(b, &x), above(b, &y));
    let one = |i: usize| {
        let d_both = x[i] * y[i] + xy[i] + yx[i] - 3.0 * both;
        let d_x = x[i] * x[i] + 2.0 * xx[i] - 3.0 * of_x;
        let d_y = y[i] * y[i] + 2.0 * yy[i] - 3.0 * of_y;
        d_both / (of_x * of_y).sqrt() - r / 2.0 * (d_x / of_x + d_y / of_y)
    };
    (0..a.len()).map(one).collect()
}

/// For each value, the mean over all items of the weights of those above it; equal ones count half.
fn above(values: &[f64], weights: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[b].total_cmp(&values[a]));
    let mut sums = vec![0.0; values.len()];
    let mut higher = 0.0;
    for run in order.chunk_by(|&a, &b| values[a] == values[b]) {
        let own: f64 = run.iter().map(|&index| weights[index]).sum();
        run.iter().for_each(|&index| sums[index] = (higher + own / 2.0) / values.len() as f64);
        higher += own;
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare;
    use linwright_tensor::RngKey;

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
        let r = pearson(&[1.0, 2.0, 3.0], &[0.0, 0.0, 3.0]).unwrap();
        assert!((r - 3.0 / 12f64.sqrt()).abs() < 1e-12);
        assert_eq!(pearson(&[1.0, 1.0], &[0.0, 3.0]), None);
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
                "line 4: the pair of task stsb: 2 tab-separated columns",
            ),
            ("a.tsv", format!("{good}{}", good.replace("2.5", "x")), "line 2"),
            ("a.tsv", good.to_owned(), "four pairs"),
            (
                "a.jsonl",
                "{\"sentence1\": \"a\", \"sentence2\": 1}\n".to_owned(),
                "the text sentence2 is missing",
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

    /// Noisy copies of scores that take few values, as those of people do.
    fn planted(n: usize, noise: f64, seed: u64) -> (Vec<f64>, Vec<f64>) {
        let mut stream = RngKey::new(seed).stream();
        let scores: Vec<f64> = (0..n).map(|_| stream.below(11) as f64 / 2.0).collect();
        let random: Vec<f64> = stream.normals(n, 1.0);
        let cosines = scores.iter().zip(random).map(|(score, x)| score + noise * x).collect();
        (scores, cosines)
    }

    #[test]
    fn influences_sum_to_nothing_and_foretell_what_leaving_an_item_out_does() {
        let n = 400;
        let (scores, cosines) = planted(n, 2.0, 4);
        let without = |values: &[f64], i: usize| [&values[..i], &values[i + 1..]].concat();
        let rho = |a: &[f64], b: &[f64]| pearson(&ranks(a), &ranks(b)).unwrap();
        let pearson = |a: &[f64], b: &[f64]| pearson(a, b).unwrap();
        type Figure<'a> = &'a dyn Fn(&[f64], &[f64]) -> f64;
        type Influences = fn(&[f64], &[f64], f64) -> Vec<f64>;
        let figures: [(Figure<'_>, Influences); 2] =
            [(&rho, rank_influences), (&pearson, influences)];
        for (figure, influences) in figures {
            let whole = figure(&scores, &cosines);
            let found = influences(&scores, &cosines, whole);
            assert!(found.iter().sum::<f64>().abs() < 1e-9);
            for i in (0..n).step_by(7) {
                let left_out = figure(&without(&scores, i), &without(&cosines, i));
                let jackknife = (n as f64 - 1.0) * (whole - left_out);
                assert!((jackknife - found[i]).abs() < 0.03, "{i}: {jackknife} {}", found[i]);
            }
        }
    }

    #[test]
    fn two_encoders_compare_pair_by_pair_and_closer_than_their_own_errors() {
        let (scores, cosines) = planted(300, 1.0, 5);
        let line = |score: &f64| format!("g\tf\ty\t1\t{score}\ta\tb\n");
        let set = pairs("a.tsv", &scores.iter().map(line).collect::<String>()).unwrap();
        let result = |cosines: &[f64]| set.result(cosines, Counts::default()).unwrap();
        let nudged: Vec<f64> =
            cosines.iter().zip(1..).map(|(c, i)| c + 0.1 * f64::sin(f64::from(i))).collect();
        let (one, other) = (result(&nudged), result(&cosines));
        let found = compare(std::slice::from_ref(&one), std::slice::from_ref(&other));
        let spearman = found.iter().find(|c| c.metric == "cosine_spearman").unwrap();
        let value = |result: &TaskResult| result.metric("cosine_spearman").unwrap().clone();
        let difference = value(&one).value - value(&other).value;
        assert!((spearman.difference - difference).abs() < 1e-9, "{spearman:?}");
        let reach = (spearman.interval[1] - spearman.interval[0]) / 2.0;
        assert!(reach > 0.0 && reach < value(&other).stderr.unwrap(), "{spearman:?}");
    }
}
