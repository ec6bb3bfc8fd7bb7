//! Figures over two axes, such as layers and sizes, against one that all compare with.

use super::render::{CLOSE_TABLE, escape_html, escape_markdown, open_table, page, wrapping};
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// Figures over two axes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeatMap {
    /// What is shown.
    pub title: String,
    /// What the rows are.
    pub axis: String,
    /// Names of the rows.
    pub rows: Vec<String>,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// For each row the figure in each column; none where there is none.
    pub values: Vec<Vec<Option<f64>>>,
    /// What the figures compare with.
    pub baseline: f64,
    /// Whether more is better.
    pub higher_is_better: bool,
    /// How far from the baseline chance alone takes a figure of so many items, where that is known:
    /// shades are shares of at least this, so that one item of hundreds leaves a map white.
    #[serde(default)]
    pub chance: Option<f64>,
}

impl HeatMap {
    /// How far a figure is better (up to 1) or worse (down to -1) than the baseline, as a share of
    /// the largest distance in the map, or of what chance does if that is more.
    fn gain(&self, value: f64) -> f64 {
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

    /// Index of the best row and column; the first of equal ones.
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

    /// What a reader must know of small differences.
    fn of_chance(&self) -> String {
        let told = |chance| format!(" Its 95 % interval reaches {} to both sides.", number(chance));
        self.chance.map_or_else(String::new, told)
    }

    /// As a Markdown table; the best figure is bold.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut text = format!(
            "### {}\n\nWithout a cut: {}.{}\n\n| {} |",
            escape_markdown(&self.title),
            number(self.baseline),
            self.of_chance(),
            escape_markdown(&self.axis)
        );
        self.columns.iter().for_each(|column| text += &format!(" {} |", escape_markdown(column)));
        text += "\n| --- |";
        text += &" --: |".repeat(self.columns.len());
        let best = self.best();
        for (row, (name, values)) in self.rows.iter().zip(&self.values).enumerate() {
            text += &format!("\n| {} |", escape_markdown(name));
            for (column, value) in values.iter().enumerate() {
                let shown = value.map_or_else(String::new, number);
                let is_best = best == Some((row, column));
                text += &if is_best { format!(" **{shown}** |") } else { format!(" {shown} |") };
            }
        }
        text + "\n"
    }

    /// As an HTML table, each cell shaded by how far it is from the baseline.
    #[must_use]
    pub fn html(&self) -> String {
        let mut text = String::new();
        let (title, axis) = (escape_html(&self.title), escape_html(&self.axis));
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "<section>\n<h2>{title}</h2>\n<p>Without a cut: {}. Shades of blue are better, of red \
             worse.{}</p>\n",
            number(self.baseline),
            self.of_chance()
        );
        open_table(&mut text, &self.title, 1 + self.columns.len(), "");
        let _ = write!(text, "<th scope=\"col\">{axis}</th>");
        for column in &self.columns {
            let _ = write!(text, "<th scope=\"col\">{}</th>", wrapping(column));
        }
        text.push_str("</tr></thead>\n<tbody>\n");
        let best = self.best();
        for (row, (name, values)) in self.rows.iter().zip(&self.values).enumerate() {
            let _ = write!(text, "<tr><th scope=\"row\">{}</th>", wrapping(name));
            for (column, value) in values.iter().enumerate() {
                let Some(value) = value else {
                    text.push_str("<td></td>");
                    continue;
                };
                let gain = self.gain(*value);
                let colour = if gain < 0.0 { "214,39,40" } else { "31,119,180" };
                let shown = number(*value);
                let shown = match best == Some((row, column)) {
                    true => format!("<strong>{shown}</strong>"),
                    false => shown,
                };
                let depth = 0.7 * gain.abs();
                let _ =
                    write!(text, "<td style=\"background:rgba({colour},{depth:.2})\">{shown}</td>");
            }
            text.push_str("</tr>\n");
        }
        text.push_str(CLOSE_TABLE);
        text.push_str("</section>\n");
        text
    }
}

fn number(value: f64) -> String {
    if value.abs() >= 1000.0 { format!("{value:.1}") } else { format!("{value:.4}") }
}

/// Maps as one HTML file, after a paragraph for each of `notes`.
#[must_use]
pub fn heat_maps_html(title: &str, notes: &[String], maps: &[HeatMap]) -> String {
    let mut content = format!("<h1>{}</h1>\n", wrapping(title));
    notes.iter().for_each(|note| content += &format!("<p>{}</p>\n", wrapping(note)));
    maps.iter().for_each(|map| content += &map.html());
    page(title, &content)
}

/// Maps as Markdown, after a paragraph for each of `notes`.
#[must_use]
pub fn heat_maps_markdown(title: &str, notes: &[String], maps: &[HeatMap]) -> String {
    let mut text = format!("# {}\n", escape_markdown(title));
    notes.iter().for_each(|note| text += &format!("\n{}\n", escape_markdown(note)));
    maps.iter().for_each(|map| text += &format!("\n{}", map.markdown()));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(higher_is_better: bool) -> HeatMap {
        HeatMap {
            title: "acc of <fc_in>".into(),
            axis: "layer".into(),
            rows: vec!["0".into(), "1".into()],
            columns: vec!["9.9".into(), "1".into()],
            values: vec![vec![Some(0.5), Some(0.7)], vec![None, Some(0.4)]],
            baseline: 0.6,
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
        let html = one.html();
        assert!(html.contains("rgba(214,39,40,0.04)\">0.5967"), "{html}");
        assert!(html.contains("reaches 0.0554 to both sides"), "{html}");
        // What is beyond chance has the full shade.
        let far = HeatMap { values: vec![vec![Some(0.3), Some(0.6)]], ..one };
        assert!(far.html().contains("rgba(214,39,40,0.70)\">0.3000"));
    }

    #[test]
    fn the_best_is_marked_and_shades_tell_better_from_worse() {
        assert_eq!((map(true).best(), map(false).best()), (Some((0, 1)), Some((1, 1))));
        let markdown = map(true).markdown();
        assert!(markdown.contains("| 0 | 0.5000 | **0.7000** |\n| 1 |  | 0.4000 |"), "{markdown}");
        let html = map(true).html();
        assert!(html.contains("acc of &lt;fc_in&gt;") && html.contains("<td></td>"), "{html}");
        // The farthest cell, 0.2 below, has the full shade, and half of it is the one 0.1 above.
        assert!(html.contains("rgba(214,39,40,0.70)\">0.4000"), "{html}");
        assert!(html.contains("rgba(31,119,180,0.35)\"><strong>0.7000"), "{html}");
        assert!(map(false).html().contains("rgba(31,119,180,0.70)\"><strong>0.4000"));
        let page = heat_maps_html("a & b", &["note".into()], &[map(true)]);
        assert!(
            page.starts_with("<!DOCTYPE html>") && page.contains("<h1>a &amp; b</h1>\n<p>note</p>")
        );
        assert!(heat_maps_markdown("t", &[], &[map(true)]).starts_with("# t\n\n### acc of"));
    }
}
