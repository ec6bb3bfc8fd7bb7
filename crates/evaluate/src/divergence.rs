//! How far the predictions of a model diverge from those of another, token by token.
//!
//! As practitioners judge a compressed model, with the definitions of `llama-perplexity
//! --kl-divergence`: KL(dense || compressed) of each counted token in nats, its mean and its
//! quantiles; the change of the probability of the right token, mean and root mean square; the
//! share of tokens for which both models have the same most likely token.
//!
//! Tokens of a text are not independent: standard errors are over documents, or over the windows of
//! a single one. Those of means are by linearisation (a ratio of sums), those of quantiles by a
//! bootstrap of documents. `llama-perplexity` takes tokens as independent, so its errors are
//! smaller.

use super::{Metric, Reply};
use linwright_tensor::RngKey;
use linwright_tensor::kernels::divergence::Divergence;
use serde::{Deserialize, Serialize};

/// Name of the metric with the mean of the divergence.
pub const KL_MEAN: &str = "kl_mean";
/// Name of the metric with the share of equal most likely tokens.
pub const SAME_TOP: &str = "same_top_token";
/// Quantiles of the divergence.
const QUANTILES: [(&str, f64); 4] =
    [("kl_median", 0.5), ("kl_p90", 0.9), ("kl_p99", 0.99), ("kl_p99_9", 0.999)];
/// Bootstrap draws for the errors of quantiles.
const DRAWS: usize = 200;

/// Divergences of the counted tokens of a window, in the order of the text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TokenDivergences {
    /// KL divergence from the other model, KL(other || model), in nats.
    kl: Vec<f32>,
    /// Probability of the right token minus that in the other model.
    delta_p: Vec<f32>,
    /// Whether both models have the same most likely token.
    same_top: Vec<bool>,
}

impl TokenDivergences {
    /// Those of some tokens.
    pub(super) fn of(tokens: &[Divergence]) -> Self {
        Self {
            kl: tokens.iter().map(|token| token.kl).collect(),
            delta_p: tokens.iter().map(|token| token.delta_p).collect(),
            same_top: tokens.iter().map(|token| token.same_top).collect(),
        }
    }

    /// Number of tokens; none if the lists differ in length, as in a damaged journal.
    pub(super) fn tokens(&self) -> usize {
        let counts = [self.kl.len(), self.delta_p.len(), self.same_top.len()];
        if counts.iter().all(|count| *count == counts[0]) { counts[0] } else { usize::MAX }
    }

    /// Index and divergence of the first token for which it is not finite.
    pub(super) fn not_finite(&self) -> Option<(usize, f64)> {
        let found =
            |(kl, delta): (&f32, &f32)| (!kl.is_finite() || !delta.is_finite()).then_some(*kl);
        let tokens = self.kl.iter().zip(&self.delta_p).map(found).enumerate();
        tokens.into_iter().find_map(|(token, kl)| Some((token, f64::from(kl?))))
    }

    fn extend(&mut self, other: &Self) {
        self.kl.extend(&other.kl);
        self.delta_p.extend(&other.delta_p);
        self.same_top.extend(&other.same_top);
    }

    /// Sums over the tokens.
    fn sums(&self) -> Sums {
        let wide = |values: &[f32], power: i32| -> f64 {
            values.iter().map(|value| f64::from(*value).powi(power)).sum()
        };
        Sums {
            tokens: self.kl.len() as f64,
            kl: wide(&self.kl, 1),
            delta_p: wide(&self.delta_p, 1),
            delta_p_squared: wide(&self.delta_p, 2),
            same_top: self.same_top.iter().filter(|same| **same).count() as f64,
        }
    }
}

/// Sums over the tokens of a document or window.
struct Sums {
    tokens: f64,
    kl: f64,
    delta_p: f64,
    delta_p_squared: f64,
    same_top: f64,
}

/// The pieces over which errors are taken: the documents of a text, or the windows of a single one;
/// none where no divergences were requested.
pub(super) fn pieces<'a>(replies: impl Iterator<Item = &'a Reply>) -> Vec<TokenDivergences> {
    let windows = replies.filter_map(|reply| match reply {
        Reply::Rolling { divergences, .. } => Some(divergences),
        Reply::LogLikelihood { .. }
        | Reply::Generated { .. }
        | Reply::Infilled { .. }
        | Reply::Similarity { .. } => None,
    });
    let windows: Vec<&Vec<TokenDivergences>> = windows.collect();
    match windows[..] {
        [one] => return one.clone(),
        _ if windows.iter().all(|windows| windows.is_empty()) => return Vec::new(),
        _ => {}
    }
    let joined = |windows: &&Vec<TokenDivergences>| {
        let mut all = TokenDivergences::default();
        windows.iter().for_each(|window| all.extend(window));
        all
    };
    // Documents of a single token, which have no windows, stay in their places.
    windows.iter().map(joined).collect()
}

/// Metrics of the divergences of all tokens.
pub(super) fn metrics(pieces: &[TokenDivergences]) -> Vec<Metric> {
    if pieces.iter().all(|piece| piece.kl.is_empty()) {
        return Vec::new();
    }
    let sums: Vec<Sums> = pieces.iter().map(TokenDivergences::sums).collect();
    let ratio = |of: fn(&Sums) -> f64| Ratio::of(&sums, of);
    let (kl, delta) = (ratio(|sums| sums.kl), ratio(|sums| sums.delta_p));
    let (squares, same) = (ratio(|sums| sums.delta_p_squared), ratio(|sums| sums.same_top));
    let root = squares.mean.sqrt();
    // The derivative of the root; a root of zero has no error.
    let root_error =
        squares.stderr.map(|error| if root > 0.0 { error / (2.0 * root) } else { 0.0 });
    let mut metrics = vec![Metric::new(KL_MEAN, kl.mean, kl.stderr, false)];
    metrics.extend(quantiles(pieces));
    metrics.extend([
        Metric::new("delta_p_mean", delta.mean, delta.stderr, true),
        Metric::new("delta_p_rms", root, root_error, false),
        Metric::new(SAME_TOP, same.mean, same.stderr, true),
    ]);
    metrics
}

/// Scores of each piece: score plus influence, whose mean is the score of the whole, so that two
/// models can be compared piece by piece.
pub(super) fn scores(pieces: &[TokenDivergences]) -> Vec<[(&'static str, f64); 2]> {
    let sums: Vec<Sums> = pieces.iter().map(TokenDivergences::sums).collect();
    let [kl, same] = [Ratio::of(&sums, |sums| sums.kl), Ratio::of(&sums, |sums| sums.same_top)];
    let of_piece = |sums: &Sums| {
        let kl = kl.mean + kl.influence(sums.kl, sums.tokens);
        [(KL_MEAN, kl), (SAME_TOP, same.mean + same.influence(sums.same_top, sums.tokens))]
    };
    sums.iter().map(of_piece).collect()
}

/// A mean over tokens as a ratio of sums over pieces.
struct Ratio {
    mean: f64,
    /// Mean number of tokens of a piece.
    tokens_each: f64,
    stderr: Option<f64>,
}

impl Ratio {
    fn of(sums: &[Sums], value: impl Fn(&Sums) -> f64) -> Self {
        let pieces = sums.len() as f64;
        let tokens: f64 = sums.iter().map(|sums| sums.tokens).sum();
        let mean = sums.iter().map(&value).sum::<f64>() / tokens;
        let ratio = Self { mean, tokens_each: tokens / pieces, stderr: None };
        let influence = |sums: &Sums| ratio.influence(value(sums), sums.tokens).powi(2);
        let squares: f64 = sums.iter().map(influence).sum();
        let stderr = (sums.len() > 1).then(|| (squares / (pieces - 1.0) / pieces).sqrt());
        Self { stderr, ..ratio }
    }

    /// Influence of a piece on the mean.
    fn influence(&self, sum: f64, tokens: f64) -> f64 {
        (sum - self.mean * tokens) / self.tokens_each
    }
}

/// Quantiles of the divergence, interpolated between neighbours as in NumPy, with errors by a
/// bootstrap of pieces.
fn quantiles(pieces: &[TokenDivergences]) -> Vec<Metric> {
    let of_piece = |(piece, of): (usize, &TokenDivergences)| {
        of.kl.iter().map(|kl| (*kl, piece)).collect::<Vec<_>>()
    };
    let mut tokens: Vec<(f32, usize)> = pieces.iter().enumerate().flat_map(of_piece).collect();
    tokens.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let errors = (pieces.len() > 1).then(|| bootstrap(&tokens, pieces.len()));
    let metric = |(index, (name, share)): (usize, &(&str, f64))| {
        let place = share * (tokens.len() - 1) as f64;
        let (low, part) = (place as usize, place.fract());
        let at = |index: usize| f64::from(tokens[index.min(tokens.len() - 1)].0);
        let value = (1.0 - part) * at(low) + part * at(low + 1);
        Metric::new(name, value, errors.map(|errors| errors[index]), false)
    };
    QUANTILES.iter().enumerate().map(metric).collect()
}

/// Standard deviations of the quantiles over draws of pieces with replacement; `tokens` are sorted,
/// each with its piece.
fn bootstrap(tokens: &[(f32, usize)], pieces: usize) -> [f64; QUANTILES.len()] {
    let mut random = RngKey::new(0).fold("divergence quantiles").stream();
    let mut drawn: Vec<[f64; QUANTILES.len()]> = Vec::with_capacity(DRAWS);
    for _ in 0..DRAWS {
        let mut times = vec![0_u32; pieces];
        (0..pieces).for_each(|_| times[random.below(pieces)] += 1);
        let total: f64 = tokens.iter().map(|(_, piece)| f64::from(times[*piece])).sum();
        let (mut before, mut next) = (0.0, 0);
        let mut found = [f64::from(tokens[tokens.len() - 1].0); QUANTILES.len()];
        for (kl, piece) in tokens {
            before += f64::from(times[*piece]);
            while next < QUANTILES.len() && before > QUANTILES[next].1 * total {
                found[next] = f64::from(*kl);
                next += 1;
            }
        }
        drawn.push(found);
    }
    std::array::from_fn(|index| {
        let mean = drawn.iter().map(|draw| draw[index]).sum::<f64>() / DRAWS as f64;
        let squares: f64 = drawn.iter().map(|draw| (draw[index] - mean).powi(2)).sum();
        (squares / (DRAWS as f64 - 1.0)).sqrt()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(kl: &[f32], delta_p: &[f32], same_top: &[bool]) -> TokenDivergences {
        let (kl, delta_p, same_top) = (kl.to_vec(), delta_p.to_vec(), same_top.to_vec());
        TokenDivergences { kl, delta_p, same_top }
    }

    fn value(metrics: &[Metric], name: &str) -> (f64, Option<f64>) {
        let metric = metrics.iter().find(|metric| metric.name == name).expect(name);
        (metric.value, metric.stderr)
    }

    #[test]
    fn figures_are_those_of_all_tokens_with_errors_over_pieces() {
        let pieces = [
            piece(&[0.0, 1.0, 2.0], &[0.1, -0.1, 0.3], &[true, true, false]),
            piece(&[4.0], &[-0.5], &[false]),
        ];
        let found = metrics(&pieces);
        // Sums 3 and 4 over 3 and 1 tokens: mean 7/4, influences (3 - 21/4) / 2 and (4 - 7/4) / 2.
        let (kl, error) = value(&found, KL_MEAN);
        assert_eq!(kl, 1.75);
        assert!((error.unwrap() - (2.0 * 1.125_f64.powi(2) / 2.0).sqrt()).abs() < 1e-12);
        assert_eq!(value(&found, "kl_median").0, 1.5);
        assert!((value(&found, "kl_p90").0 - (0.3 * 2.0 + 0.7 * 4.0)).abs() < 1e-9);
        assert!(value(&found, "kl_p99").1.unwrap() > 0.0);
        assert!((value(&found, "delta_p_mean").0 + 0.05).abs() < 1e-7);
        let rms = ((0.01_f64 + 0.01 + 0.09 + 0.25) / 4.0).sqrt();
        assert!((value(&found, "delta_p_rms").0 - rms).abs() < 1e-7);
        assert_eq!(value(&found, SAME_TOP).0, 0.5);
        let scores = scores(&pieces);
        let mean = |at: usize| (scores[0][at].1 + scores[1][at].1) / 2.0;
        assert_eq!((mean(0), mean(1)), (1.75, 0.5));
    }

    #[test]
    fn one_piece_has_no_errors_and_none_no_metrics() {
        let found = metrics(&[piece(&[0.5, 0.25], &[0.0, 0.0], &[true, true])]);
        assert!(found.iter().all(|metric| metric.stderr.is_none()));
        assert_eq!(value(&found, "delta_p_rms").0, 0.0);
        assert_eq!(metrics(&[]), []);
    }

    #[test]
    fn bootstrap_errors_of_a_median_are_those_of_theory() {
        // Pieces of one token each, uniform on 0 to 1: the median has the error 1 / (2 √n).
        let mut random = RngKey::new(3).stream();
        let of = |_| piece(&[random.uniform() as f32], &[0.0], &[true]);
        let pieces: Vec<_> = (0..900).map(of).collect();
        let (median, error) = value(&metrics(&pieces), "kl_median");
        assert!((median - 0.5).abs() < 0.06, "{median}");
        let error = error.unwrap();
        assert!((error / (0.5 / 30.0) - 1.0).abs() < 0.35, "{error}");
    }

    #[test]
    fn json_keeps_every_bit_and_damaged_lists_fit_nothing() {
        let all = piece(&[1.0e-7, 0.333_333_34, f32::MIN_POSITIVE], &[0.1, -0.2, 0.7], &[true; 3]);
        let text = serde_json::to_string(&all).unwrap();
        assert_eq!(serde_json::from_str::<TokenDivergences>(&text).unwrap(), all);
        assert_eq!(all.tokens(), 3);
        assert_eq!(piece(&[1.0], &[], &[true]).tokens(), usize::MAX);
        assert_eq!(all.not_finite(), None);
        assert_eq!(piece(&[1.0, f32::INFINITY], &[0.0; 2], &[true; 2]).not_finite().unwrap().0, 1);
    }
}
