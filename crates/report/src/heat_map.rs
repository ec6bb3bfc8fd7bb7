//! Heat maps of values over two axes, such as layers and sizes, relative to a baseline.

use crate::number::metric;
use crate::table::Table;
use serde::{Deserialize, Serialize};

/// A heat map over two axes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeatMap {
    /// Title.
    pub title: String,
    /// Title of the rows.
    pub axis: String,
    /// Names of the rows.
    pub rows: Vec<String>,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Values by row and column; `None` for a missing one.
    pub values: Vec<Vec<Option<f64>>>,
    /// Value of the baseline.
    pub baseline: f64,
    /// Name of the baseline: `Without a cut`.
    pub baseline_name: String,
    /// Whether higher is better.
    pub higher_is_better: bool,
    /// Half width of the 95 % interval expected by chance, if known: shades are relative to at
    /// least this, so that insignificant differences stay nearly white.
    #[serde(default)]
    pub chance: Option<f64>,
}

impl HeatMap {
    /// Improvement (up to 1) or deterioration (down to -1) from the baseline, relative to the
    /// largest distance in the map, or to `chance` if that is larger.
    pub(crate) fn gain(&self, value: f64) -> f64 {
        let distance = |value: f64| (value - self.baseline).abs();
        let all = self.values.iter().flatten().flatten().map(|value| distance(*value));
        let chance = self.chance.filter(|chance| chance.is_finite()).unwrap_or(0.0);
        let largest = all.filter(|distance| distance.is_finite()).fold(chance, f64::max);
        if largest == 0.0 {
            return 0.0;
        }
        let gain = ((value - self.baseline) / largest).clamp(-1.0, 1.0);
        if self.higher_is_better { gain } else { -gain }
    }

    /// Row and column of the best value; the first of equal ones.
    #[must_use]
    pub fn best(&self) -> Option<(usize, usize)> {
        let mut best: Option<((usize, usize), f64)> = None;
        for (row, values) in self.values.iter().enumerate() {
            for (column, value) in values.iter().enumerate() {
                let Some(value) = value else { continue };
                let value = if self.higher_is_better { *value } else { -value };
                if best.is_none_or(|(_, held)| value > held) {
                    best = Some(((row, column), value));
                }
            }
        }
        best.map(|(place, _)| place)
    }

    /// Legend: the baseline, an explanation of the colours (`reading`) if there are any, and the
    /// interval of chance.
    pub(crate) fn legend(&self, reading: &str) -> String {
        let interval = |chance| format!(" Its 95 % interval is ± {}.", number(chance));
        let interval = self.chance.map_or_else(String::new, interval);
        format!("{}: {}.{reading}{interval}", self.baseline_name, number(self.baseline))
    }

    /// The values as a table.
    pub(crate) fn table(&self) -> Table {
        let columns = self.columns.iter().map(|name| (name.as_str(), true));
        let columns = std::iter::once((self.axis.as_str(), false)).chain(columns);
        let row = |(name, values): (&String, &Vec<Option<f64>>)| {
            let values = values.iter().map(|value| value.map_or_else(String::new, number));
            std::iter::once(name.clone()).chain(values).collect()
        };
        Table::new(&self.title, columns).with(self.rows.iter().zip(&self.values).map(row))
    }
}

/// Formats the value of a cell.
pub(crate) fn number(value: f64) -> String {
    if (1e3..1e7).contains(&value.abs()) { format!("{value:.1}") } else { metric(value) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Block, Document};

    fn document(map: &HeatMap) -> Document {
        let title = "a & b".to_owned();
        Document { title, blocks: vec![Block::HeatMap(map.clone())], ..Document::default() }
    }

    fn html(map: &HeatMap) -> String {
        crate::html::render(&document(map)).unwrap()
    }

    fn markdown(map: &HeatMap) -> String {
        crate::markdown::render(&document(map))
    }

    fn map(higher_is_better: bool) -> HeatMap {
        HeatMap {
            title: "acc of <fc_in>".into(),
            axis: "layer".into(),
            rows: vec!["0".into(), "1".into()],
            columns: vec!["9.9".into(), "1".into()],
            values: vec![vec![Some(0.5), Some(0.7)], vec![None, Some(0.4)]],
            baseline: 0.6,
            baseline_name: "Without a cut".into(),
            higher_is_better,
            chance: None,
        }
    }

    #[test]
    fn one_item_of_three_hundred_is_no_solid_red() {
        let one = HeatMap {
            values: vec![vec![Some(0.6 - 1.0 / 300.0), Some(0.6)]],
            rows: vec!["0".into()],
            chance: Some(0.0554),
            ..map(true)
        };
        let page = html(&one);
        assert!(page.contains("rgba(214,39,40,0.04)\">0.5967"), "{page}");
        assert!(page.contains("interval is ± 0.0554"), "{page}");
        // Values beyond chance have the full shade.
        let far = HeatMap { values: vec![vec![Some(0.3), Some(0.6)]], ..one };
        assert!(html(&far).contains("rgba(214,39,40,0.70)\">0.3000"));
    }

    #[test]
    fn the_best_is_marked_and_shades_tell_better_from_worse() {
        assert_eq!((map(true).best(), map(false).best()), (Some((0, 1)), Some((1, 1))));
        let text = markdown(&map(true));
        assert!(text.contains("| 0 | 0.5000 | **0.7000** |\n| 1 |  | 0.4000 |"), "{text}");
        let page = html(&map(true));
        assert!(page.contains("acc of &lt;fc_in&gt;") && page.contains("<td></td>"), "{page}");
        // The farthest cell, 0.2 below, has the full shade, and the one 0.1 above has half of it.
        assert!(page.contains("rgba(214,39,40,0.70)\">0.4000"), "{page}");
        assert!(page.contains("rgba(31,119,180,0.35)\"><strong>0.7000"), "{page}");
        assert!(html(&map(false)).contains("rgba(31,119,180,0.70)\"><strong>0.4000"));
        let mut document = document(&map(true));
        document.blocks.insert(0, Block::Text(vec!["note".into()]));
        let page = crate::html::render(&document).unwrap();
        assert!(
            page.starts_with("<!DOCTYPE html>") && page.contains("<h1>a &amp; b</h1>\n<p>note</p>")
        );
        let text = crate::markdown::render(&document);
        assert!(text.starts_with("# a &amp; b\n\nnote\n\n### acc of"), "{text}");
        let text = crate::terminal::render(&document);
        assert!(text.contains("note\n\nacc of <fc_in>\nWithout a cut: 0.6000.\n"), "{text}");
    }
}
