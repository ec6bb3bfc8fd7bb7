//! The one sentence that a reader takes home.

use super::render::number::{Style, count, percent, significant, spread};
use super::summary::metric_of;
use super::{Report, Summary};

impl Report {
    /// The main finding in one or two sentences, made from the figures of the first comparison: the
    /// method that stays closest to the dense model where most layers are replaced.
    #[must_use]
    pub fn headline(&self) -> String {
        let summaries = self.summaries();
        let Some(task) = self.perplexity_task() else {
            return format!("{} runs, without a perplexity among their figures.", self.rows.len());
        };
        let dense = metric_of(&self.baseline, task, "token_perplexity");
        let Some((best, perplexity)) = closest(&summaries, task) else {
            return match dense {
                Some(dense) => format!(
                    "The dense model has perplexity {}; nothing was replaced.",
                    significant(dense, 4)
                ),
                None => "Nothing was measured.".to_owned(),
            };
        };
        let layers = match best.layer_count {
            1 => "one layer".to_owned(),
            n => format!("{n} layers"),
        };
        let against = dense.map_or(String::new(), |dense| {
            format!(" against {} of the dense model", significant(dense, 4))
        });
        format!(
            "With {layers} replaced, {} comes closest: perplexity {}{against}, with {} parameters in \
             place of {} ({}).",
            best.method,
            spread(perplexity, Style::Significant(4)),
            count(best.parameters(|p| p.targeted as f64)),
            count(best.parameters(|p| p.targeted_dense as f64)),
            percent(best.parameters(super::ParameterCounts::keep)),
        )
    }
}

/// The summary of least perplexity among those of the first comparison with most layers.
fn closest<'a, 'b>(
    summaries: &'b [Summary<'a>],
    task: &str,
) -> Option<(&'b Summary<'a>, super::Spread)> {
    let first = summaries.first()?.comparison;
    let of_first = || summaries.iter().filter(|summary| summary.comparison == first);
    let most = of_first().map(|summary| summary.layer_count).max()?;
    of_first()
        .filter(|summary| summary.layer_count == most)
        .filter_map(|summary| Some((summary, summary.metric(task, "token_perplexity")?)))
        .min_by(|a, b| a.1.mean.total_cmp(&b.1.mean))
}
