//! Tables of differences between methods.

use super::summary::first_appearances;
use super::{Pair, Runs};
use linwright_report::Table;

impl Runs<'_> {
    /// One table for each row that others are compared with, and one for the dense network.
    pub(super) fn pair_tables(&self) -> Vec<Table> {
        let heads = first_appearances(self.pairs.iter().map(|pair| pair.against.as_str()));
        let table = |against: &str| {
            let own = self.pairs.iter().filter(|pair| pair.against == against);
            self.pair_table(&format!("Difference from {against}"), own)
        };
        heads.into_iter().map(table).collect()
    }

    /// Differences in the first metric of each task that items have. Intervals are those of other
    /// items, not of other seeds.
    fn pair_table<'p>(&self, title: &str, pairs: impl Iterator<Item = &'p Pair>) -> Table {
        let metrics = self.baseline.iter().filter_map(|result| {
            let of_task = |pair: &Pair, metric: &str| {
                let mut own = pair.differences.iter();
                own.any(|own| (&*own.task, &*own.metric) == (&*result.task, metric))
            };
            let has_items = |metric: &str| self.pairs.iter().any(|pair| of_task(pair, metric));
            let metric = result.metrics.iter().find(|metric| has_items(&metric.name))?;
            Some((result.task.as_str(), metric.name.as_str()))
        });
        let metrics: Vec<(&str, &str)> = metrics.collect();
        let title_of = |(task, metric): &(&str, &str)| format!("{task}, {metric}, 95 % of items");
        let titles: Vec<String> = metrics.iter().map(title_of).collect();
        let columns = [("Method", false), ("Layers", true)].into_iter();
        let columns = columns.chain(titles.iter().map(|title| (title.as_str(), true)));
        let row = |pair: &Pair| {
            let cell = |(task, metric): &(&str, &str)| {
                let mut own = pair.differences.iter();
                let own = own.find(|own| (&*own.task, &*own.metric) == (*task, *metric));
                own.map_or_else(|| "–".to_owned(), |own| own.in_one_cell())
            };
            let place = [pair.method.clone(), pair.layers.len().to_string()];
            place.into_iter().chain(metrics.iter().map(cell)).collect()
        };
        Table::new(title, columns).with(pairs.map(row))
    }
}
