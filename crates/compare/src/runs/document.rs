//! Report of runs: tables of means, differences, plots, all runs.

use super::Runs;
use super::figures::figures;
use linwright_report::Block;
use linwright_report::number::{count, percent, significant};

impl Runs<'_> {
    /// The report as blocks, for terminal, Markdown and HTML, without times.
    #[must_use]
    pub fn blocks(&self) -> Vec<Block> {
        let mut blocks = vec![Block::Table(self.result_table())];
        blocks.extend(self.pair_tables().into_iter().map(Block::Table));
        blocks.extend(figures(self).into_iter().map(Block::Figure));
        blocks.extend(self.group_table().map(Block::Table));
        let table = self.run_table();
        if !table.rows.is_empty() {
            let summary = format!("Show all {} runs", table.rows.len());
            blocks.push(Block::Details { summary, table });
        }
        blocks
    }

    /// Facts about the dense network, and the number of runs.
    #[must_use]
    pub fn facts(&self) -> Vec<(String, String)> {
        let mut facts = vec![("Parameters".to_owned(), count(self.parameters as f64))];
        let dense = self.quality().and_then(|quality| Some((quality, quality.of(self.baseline)?)));
        facts.extend(
            dense.map(|(quality, dense)| {
                (format!("Dense {}", quality.name()), significant(dense, 4))
            }),
        );
        for result in self.baseline {
            let accuracy = result.metrics.iter().find(|metric| metric.higher_is_better);
            facts.extend(accuracy.map(|metric| {
                (format!("Dense, {}", result.task.replace('_', " ")), percent(metric.value))
            }));
        }
        facts.push(("Runs".to_owned(), self.rows.len().to_string()));
        facts
    }
}
