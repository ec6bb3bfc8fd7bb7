//! The main finding of runs, in one or two sentences.
//!
//! Only methods of equal size are compared, and a method is named as the best only if paired
//! differences by seed and layers, from every other one, are significant.

use super::quality::Quality;
use super::{Run, Runs, Summary};
use linwright_evaluate::ParameterCounts;
use linwright_report::Spread;
use linwright_report::number::{Style, count, percent, significant, spread};

/// Sizes that differ by less than this share of the larger one count as equal, since ranks and
/// blocks are integers.
const EQUAL: f64 = 0.1;

/// The 97.5 % quantile of Student's distribution for 1, 2, ... degrees of freedom.
const STUDENT: [f64; 20] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
];

/// A method with the mean of the main figure.
struct Entry<'a, 'b> {
    summary: &'b Summary<'a>,
    figure: Spread,
}

impl Entry<'_, '_> {
    fn size(&self) -> f64 {
        self.summary.parameters(|p| p.targeted as f64)
    }

    /// The figure, with the number of parameters if methods differ in it.
    fn shown(&self, with_size: bool) -> String {
        let figure = spread(self.figure, Style::Significant(4));
        match with_size {
            true => {
                format!("{} {figure} with {} parameters", self.summary.method, count(self.size()))
            }
            false => format!("{} {figure}", self.summary.method),
        }
    }
}

impl Runs<'_> {
    /// The main finding: compares the methods that replaced most layers and have equal size.
    #[must_use]
    pub fn headline(&self) -> String {
        let Some(quality) = self.quality() else {
            return format!("{} runs, without a perplexity among their figures.", self.rows.len());
        };
        let (name, dense) = (quality.name(), quality.of(self.baseline));
        let summaries = self.summaries();
        let Some(Compared { all, smaller, has_equal }) = of_most_layers(&summaries, quality) else {
            return match dense {
                Some(dense) => format!(
                    "The dense model has {name} {}; nothing was replaced.",
                    significant(dense, 4)
                ),
                None => "Nothing was measured.".to_owned(),
            };
        };
        let against = dense.map_or(String::new(), |dense| {
            format!(" against {} of the dense model", significant(dense, 4))
        });
        match (all.first(), all.len()) {
            (Some(one), 1) => format!(
                "With {}, {} has {name} {}{against}, with {}.",
                layers_of(one),
                one.summary.method,
                spread(one.figure, Style::Significant(4)),
                sizes(one)
            ),
            _ if !has_equal => {
                let shown: Vec<String> = all.iter().map(|one| one.shown(true)).collect();
                format!(
                    "With {}, no two methods have the same size, so that none is ahead by {name} \
                     alone: {}{against}.",
                    layers_of(&all[0]),
                    shown.join(", ")
                )
            }
            _ => at_equal_size(&all, quality, &against) + &smaller_ones(&smaller),
        }
    }
}

/// `3 layers replaced`.
fn layers_of(one: &Entry<'_, '_>) -> String {
    match one.summary.layer_count {
        1 => "one layer replaced".to_owned(),
        n => format!("{n} layers replaced"),
    }
}

/// `4,056 parameters in place of 393,216 (1.0 %)`.
fn sizes(one: &Entry<'_, '_>) -> String {
    format!(
        "{} parameters in place of {} ({})",
        count(one.size()),
        count(one.summary.parameters(|p| p.targeted_dense as f64)),
        percent(one.summary.parameters(ParameterCounts::keep)),
    )
}

/// Sentence about methods of one size, given in ascending order of the figure.
fn at_equal_size(all: &[Entry<'_, '_>], quality: Quality<'_>, against: &str) -> String {
    let (best, others) = all.split_first().expect("methods of one size");
    let is_ahead = others.iter().all(|other| is_below(best.summary, other.summary, quality));
    let (layers, sizes) = (layers_of(best), sizes(best));
    if is_ahead {
        return format!(
            "With {layers}, at equal size {} comes closest: {} {}{against}, with {sizes}.",
            best.summary.method,
            quality.name(),
            spread(best.figure, Style::Significant(4)),
        );
    }
    let tied = others.iter().filter(|other| !is_below(best.summary, other.summary, quality));
    let shown: Vec<String> =
        std::iter::once(best).chain(tied).map(|one| one.shown(false)).collect();
    format!(
        "With {layers}, at equal size no method is shown to come closest: {} {}{against}, with \
         {sizes}.",
        quality.plural(),
        shown.join(", ")
    )
}

/// Sentence about smaller methods that match the best of the larger ones.
fn smaller_ones(smaller: &[Entry<'_, '_>]) -> String {
    let shown: Vec<String> = smaller.iter().map(|one| one.shown(true)).collect();
    match shown.is_empty() {
        true => String::new(),
        false => format!(" As close with fewer: {}.", shown.join(", ")),
    }
}

/// Methods of a headline, in ascending order of the figure.
struct Compared<'a, 'b> {
    /// Methods of one size, or all if no two have the same size.
    all: Vec<Entry<'a, 'b>>,
    /// Smaller methods with at most the figure of the best of `all`.
    smaller: Vec<Entry<'a, 'b>>,
    /// Whether several methods have the same size.
    has_equal: bool,
}

/// Methods that replaced most layers: those of equal size if there are any, else all.
fn of_most_layers<'a, 'b>(
    summaries: &'b [Summary<'a>],
    quality: Quality<'_>,
) -> Option<Compared<'a, 'b>> {
    let most = summaries.iter().map(|summary| summary.layer_count).max()?;
    let entry = |summary: &'b Summary<'a>| Some(Entry { summary, figure: quality.mean(summary)? });
    let of_most = summaries.iter().filter(|summary| summary.layer_count == most);
    let mut all: Vec<Entry<'a, 'b>> = of_most.filter_map(entry).collect();
    all.sort_by(|a, b| a.figure.mean.total_cmp(&b.figure.mean));
    let Some(size) = commonest_size(&all) else {
        return (!all.is_empty()).then_some(Compared {
            all,
            smaller: Vec::new(),
            has_equal: false,
        });
    };
    let (all, mut smaller): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|one| is_equal(one.size(), size));
    let best = all[0].figure.mean;
    smaller.retain(|one| one.size() < size && one.figure.mean <= best);
    Some(Compared { all, smaller, has_equal: true })
}

/// The most common size, with at least two methods; of several, that of the best method.
fn commonest_size(all: &[Entry<'_, '_>]) -> Option<f64> {
    let members = |size: f64| all.iter().filter(|one| is_equal(one.size(), size)).count();
    let most = all.iter().map(|one| members(one.size())).max().filter(|most| *most > 1)?;
    all.iter().map(Entry::size).find(|size| members(*size) == most)
}

fn is_equal(a: f64, b: f64) -> bool {
    (a - b).abs() <= EQUAL * a.max(b)
}

/// Whether the figure of one method is significantly below that of another: the 95 % interval of
/// the mean difference in nats, over runs with the same seed and layers, is below zero.
fn is_below(one: &Summary<'_>, other: &Summary<'_>, quality: Quality<'_>) -> bool {
    let difference = |row: &&Run<'_>| {
        let pair = other.rows.iter().find(|o| (o.seed, o.layers) == (row.seed, row.layers))?;
        Some(quality.loss(row)? - quality.loss(pair)?)
    };
    let differences: Vec<f64> = one.rows.iter().filter_map(difference).collect();
    let n = differences.len();
    // A single run has no variance.
    let Some(Spread { mean, deviation: Some(deviation) }) = Spread::of(&differences) else {
        return false;
    };
    let quantile = STUDENT.get(n - 2).copied().unwrap_or(STUDENT[STUDENT.len() - 1]);
    mean + quantile * deviation / (n as f64).sqrt() < 0.0
}
