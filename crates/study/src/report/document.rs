//! Report of a study: tables of means, plots, notes, all runs, and provenance.

use super::Report;
use super::figures::figures;
use linwright_report::number::{count, percent, significant};
use linwright_report::{Block, Document, iso_date};

/// Note of a report whose times are not known.
const NO_TIMES: &str = "Times and machine are in measured.json; linwright report shows them with \
    the results.";

impl Report {
    /// The report as blocks, for terminal, Markdown and HTML.
    #[must_use]
    pub fn document(&self) -> Document {
        let mut blocks: Vec<Block> = self.result_tables().into_iter().map(Block::Table).collect();
        blocks.extend(self.pair_tables().into_iter().map(Block::Table));
        blocks.extend(figures(self).into_iter().map(Block::Figure));
        blocks.extend(self.group_tables().into_iter().map(Block::Table));
        let table = self.run_table();
        if !table.rows.is_empty() {
            let summary = format!("Show all {} runs", table.rows.len());
            blocks.push(Block::Details { summary, table });
        }
        let elsewhere = (!self.provenance.is_measured()).then(|| NO_TIMES.to_owned());
        blocks.push(Block::Notes(self.notes.iter().cloned().chain(elsewhere).collect()));
        blocks.push(Block::Provenance(self.provenance_table()));
        let date = self.provenance.is_measured().then(|| {
            let date = iso_date(*self.provenance.date_unix_seconds);
            format!(" · {}", date.split('T').next().unwrap_or(""))
        });
        Document {
            title: self.title.clone(),
            heading: None,
            kicker: format!("Linwright report{}", date.unwrap_or_default()),
            headline: Some(self.headline()),
            facts: self.facts(),
            series: self.methods().into_iter().map(str::to_owned).collect(),
            blocks,
        }
    }

    fn facts(&self) -> Vec<(String, String)> {
        let mut facts = vec![
            ("Model".to_owned(), self.model.name.clone()),
            ("Parameters".to_owned(), count(self.model.parameters as f64)),
        ];
        let dense = self.quality().and_then(|quality| Some((quality, quality.of(&self.baseline)?)));
        facts.extend(
            dense.map(|(quality, dense)| {
                (format!("Dense {}", quality.name()), significant(dense, 4))
            }),
        );
        for result in &self.baseline {
            let accuracy = result.metrics.iter().find(|metric| metric.higher_is_better);
            facts.extend(accuracy.map(|metric| {
                (format!("Dense, {}", result.task.replace('_', " ")), percent(metric.value))
            }));
        }
        facts.push(("Runs".to_owned(), self.rows.len().to_string()));
        facts
    }
}
