//! Aggregation of record scores over a set.
//!
//! ```text
//! log loss    L = −1/N Σ ℓᵢ/nᵢ
//! perplexity  P = exp(−Σ ℓᵢ / Σ nᵢ)
//! ```
//!
//! ℓ is the log-likelihood of the correct answer in nats, n its number of tokens.

use super::words::Overlap;
use crate::Metric;
use crate::result::accuracy;

/// Values of `k` in top-k accuracy.
pub(super) const TOPS: [usize; 3] = [1, 5, 10];

/// Scores of one record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) right: bool,
    /// Log-likelihood of the correct answer in nats, and its number of tokens.
    pub(super) answer: Option<(f64, usize)>,
    pub(super) overlap: Option<Overlap>,
    /// Whether the first token of the answer is among the `k` most likely ones, for each `k` of
    /// [`TOPS`].
    pub(super) top: Option<[bool; 3]>,
}

/// Aggregate scores over records; shares are between 0 and 1.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scores {
    pub(super) accuracy: f64,
    pub(super) f1: Option<f64>,
    pub(super) log_loss: Option<f64>,
    pub(super) perplexity: Option<f64>,
    /// Number of tokens of all correct answers.
    pub(super) tokens: usize,
    /// Number of records with a log-likelihood of the answer.
    pub(super) answers: usize,
    pub(super) top: Option<[f64; 3]>,
}

/// Mean of the values; `None` if there are none.
fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn bit(is: bool) -> f64 {
    f64::from(u8::from(is))
}

impl Row {
    /// Log-likelihood per token of the answer, in nats.
    fn per_token(&self) -> Option<f64> {
        self.answer.map(|(nats, tokens)| nats / tokens as f64)
    }

    /// Scores of this record, by metric name.
    pub(super) fn numbers(&self) -> Vec<(&'static str, f64)> {
        let mut numbers = vec![("acc", bit(self.right))];
        numbers.extend(self.overlap.map(|overlap| ("f1", overlap.f1)));
        numbers.extend(self.per_token().map(|nats| ("log_loss", -nats)));
        numbers
    }
}

impl Scores {
    pub(super) fn of(rows: &[Row]) -> Self {
        let answers: Vec<(f64, usize)> = rows.iter().filter_map(|row| row.answer).collect();
        let tokens = answers.iter().map(|(_, tokens)| tokens).sum();
        let nats: f64 = answers.iter().map(|(nats, _)| nats).sum();
        let top = |place: usize| mean(rows.iter().filter_map(|row| Some(bit(row.top?[place]))));
        Self {
            accuracy: mean(rows.iter().map(|row| bit(row.right))).unwrap_or(0.0),
            f1: mean(rows.iter().filter_map(|row| Some(row.overlap?.f1))),
            log_loss: mean(rows.iter().filter_map(Row::per_token)).map(|mean| -mean),
            perplexity: (tokens > 0).then(|| (-nats / tokens as f64).exp()),
            tokens,
            answers: answers.len(),
            top: top(0).and_then(|first| Some([first, top(1)?, top(2)?])),
        }
    }
}

/// Standard error of the mean.
fn error(values: &[f64]) -> Option<f64> {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() > 1).then(|| (squares / (n - 1.0) / n).sqrt())
}

/// Aggregate scores as metrics.
pub(super) fn metrics(rows: &[Row]) -> Vec<Metric> {
    let figures = Scores::of(rows);
    let error_of = |name: &str| {
        let numbers = rows.iter().flat_map(Row::numbers).filter(|(found, _)| *found == name);
        error(&numbers.map(|(_, value)| value).collect::<Vec<_>>())
    };
    let mut metrics = vec![accuracy("acc", rows.iter().map(|row| row.right))];
    metrics.extend(figures.f1.map(|f1| Metric::new("f1", f1, error_of("f1"), true)));
    metrics.extend(
        figures.log_loss.map(|loss| Metric::new("log_loss", loss, error_of("log_loss"), false)),
    );
    metrics.extend(figures.perplexity.map(|p| Metric::new("answer_perplexity", p, None, false)));
    for (place, name) in ["top1", "top5", "top10"].into_iter().enumerate() {
        if figures.top.is_some() {
            let within = rows.iter().filter_map(|row| Some(row.top?[place]));
            metrics.push(accuracy(name, within));
        }
    }
    metrics
}
