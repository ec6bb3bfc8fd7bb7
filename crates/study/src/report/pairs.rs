//! Tables of differences between methods.

use super::{Pair, Report};
use linwright_report::Table;

impl Report {
    /// One table for each table and method that others are compared with.
    pub(super) fn pair_tables(&self) -> Vec<Table> {
        let mut heads: Vec<(&str, &str)> = Vec::new();
        for pair in &self.pairs {
            let head = (pair.comparison.as_str(), pair.against.as_str());
            if !heads.contains(&head) {
                heads.push(head);
            }
        }
        let table = |(comparison, against): (&str, &str)| {
            let is_own =
                |pair: &&Pair| (&*pair.comparison, &*pair.against) == (comparison, against);
            self.pair_table(
                &format!("{comparison}: difference from {against}"),
                self.pairs.iter().filter(is_own),
            )
        };
        heads.into_iter().map(table).collect()
    }

    /// Differences in the first metric of each task that items have. Intervals are those of other
    /// items, not of other seeds.
    fn pair_table<'a>(&self, title: &str, pairs: impl Iterator<Item = &'a Pair>) -> Table {
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
