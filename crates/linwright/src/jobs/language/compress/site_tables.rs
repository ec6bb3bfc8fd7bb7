//! Tables of edited sites: one row each, or where there are many, one row for all that differ in
//! the numbers of their names alone.

use crate::jobs::kit::outcome::{table, text};
use linwright_compress::SiteEstimate;
use linwright_compress::pipeline::SiteOutcome;
use linwright_lm::prune::SiteSize;
use linwright_report::Block;
use linwright_report::number::grouped;

/// Most sites with a row each: a screen of them.
const MOST: usize = 24;
/// Said of fits that no window was held out of.
const ALL_FITTED: &str = "fit errors are on the calibration windows, all of which were fitted";
/// Said of tables with a row for several sites.
const EACH: &str = "each of them: `sites` in the result (--json)";

/// What a table has of a site.
struct Row<'a> {
    site: String,
    method: &'a str,
    dense: u64,
    now: u64,
    /// Share that was asked for, where it was.
    asked: Option<f64>,
    /// Error of the fit, where there is one.
    error: Option<f64>,
}

/// Sites whose names differ in numbers alone.
struct Group<'a> {
    pattern: String,
    rows: Vec<&'a Row<'a>>,
}

impl Group<'_> {
    fn sum(&self, of: fn(&Row<'_>) -> u64) -> u64 {
        self.rows.iter().map(|row| of(row)).sum()
    }

    /// What all of its sites have in common, or how many values they have.
    fn common(&self, of: fn(&Row<'_>) -> String) -> String {
        let mut values: Vec<String> = self.rows.iter().map(|row| of(row)).collect();
        values.sort();
        values.dedup();
        match values.len() {
            1 => values.remove(0),
            several => format!("{several} values"),
        }
    }

    /// Median and largest error of its fits.
    fn errors(&self) -> [String; 2] {
        let mut errors: Vec<f64> = self.rows.iter().filter_map(|row| row.error).collect();
        errors.sort_by(f64::total_cmp);
        let told = |error: Option<&f64>| error.map_or_else(String::new, |e| format!("{e:.2e}"));
        [told(errors.get(errors.len() / 2)), told(errors.last())]
    }
}

/// A name with `*` in place of each part that is a number: a pattern of `--sites`.
fn pattern(site: &str) -> String {
    let part = |part: &str| match part.bytes().all(|byte| byte.is_ascii_digit()) {
        true => "*".to_owned(),
        false => part.to_owned(),
    };
    site.split('.').map(part).collect::<Vec<_>>().join(".")
}

/// Groups in the order of their first sites.
fn groups<'a>(rows: &'a [Row<'a>]) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for row in rows {
        let pattern = pattern(&row.site);
        match groups.iter_mut().find(|group| group.pattern == pattern) {
            Some(group) => group.rows.push(row),
            None => groups.push(Group { pattern, rows: vec![row] }),
        }
    }
    groups
}

fn asked(row: &Row<'_>) -> String {
    row.asked.map_or_else(String::new, |keep| format!("{keep:.4}"))
}

/// Share of parameters that is left.
fn share(now: u64, dense: u64) -> String {
    format!("{:.4}", now as f64 / dense.max(1) as f64)
}

/// Whether errors are those of windows that were fitted: they are held out of all fits or of none.
fn fitted_to_all(sites: &[SiteOutcome]) -> bool {
    let any = |held: bool| sites.iter().any(|site| site.fit.held_out == Some(held));
    any(false) && !any(true)
}

/// The table of sites, with what is to be known of its errors before it.
pub(in crate::jobs) fn site_blocks(sites: &[SiteOutcome]) -> Vec<Block> {
    let all_fitted = fitted_to_all(sites).then_some(text([ALL_FITTED]));
    all_fitted.into_iter().chain(site_table(sites)).collect()
}

/// What became of the sites.
pub(in crate::jobs) fn site_table(sites: &[SiteOutcome]) -> Vec<Block> {
    let rows = sites.iter().map(|site| Row {
        site: site.site.to_string(),
        method: &site.method,
        dense: site.dense_parameters as u64,
        now: site.parameters as u64,
        asked: None,
        error: Some(site.fit.relative_error),
    });
    let rows: Vec<Row<'_>> = rows.collect();
    if rows.len() <= MOST {
        let heads = ["site", "method", "dense", "now", "fit error"];
        let error = |row: &Row<'_>| row.error.map(|error| format!("{error:.2e}"));
        return vec![table(&heads, one_by_one(&rows, |row| error(row).into_iter().collect()))];
    }
    let heads =
        ["sites", "number", "method", "dense", "now", "kept", "median fit error", "largest"];
    let cells = |group: &Group<'_>| {
        let [dense, now] = [group.sum(|row| row.dense), group.sum(|row| row.now)];
        [vec![share(now, dense)], group.errors().into()].concat()
    };
    by_pattern(&heads, &rows, cells)
}

/// Sizes of the sites that a plan would leave.
pub(super) fn estimate_table(sites: &[SiteEstimate]) -> Vec<Block> {
    let rows = sites.iter().map(|site| Row {
        site: site.site.to_string(),
        method: &site.method,
        dense: site.dense_parameters,
        now: site.parameters,
        asked: site.asked,
        error: None,
    });
    let rows: Vec<Row<'_>> = rows.collect();
    if rows.len() <= MOST {
        let heads = ["site", "method", "dense", "then", "asked", "reached"];
        let cells = |row: &Row<'_>| vec![asked(row), share(row.now, row.dense)];
        return vec![table(&heads, one_by_one(&rows, cells))];
    }
    let heads = ["sites", "number", "method", "dense", "then", "asked", "reached"];
    let cells = |group: &Group<'_>| {
        let [dense, now] = [group.sum(|row| row.dense), group.sum(|row| row.now)];
        vec![group.common(asked), share(now, dense)]
    };
    by_pattern(&heads, &rows, cells)
}

/// Sizes of the sites that a pruning by `method` would leave.
pub(super) fn pruned_table(method: &str, sites: &[SiteSize]) -> Vec<Block> {
    let row = |size: &SiteSize| Row {
        site: size.site.to_string(),
        method,
        dense: size.dense as u64,
        now: size.kept as u64,
        asked: None,
        error: None,
    };
    let rows: Vec<Row<'_>> = sites.iter().map(row).collect();
    if rows.len() <= MOST {
        let heads = ["site", "method", "dense", "then"];
        return vec![table(&heads, one_by_one(&rows, |_| Vec::new()))];
    }
    by_pattern(&["sites", "number", "method", "dense", "then"], &rows, |_| Vec::new())
}

/// A line of cells for each site, with `more` after its sizes.
fn one_by_one(rows: &[Row<'_>], more: impl Fn(&Row<'_>) -> Vec<String>) -> Vec<Vec<String>> {
    let cells = |row: &Row<'_>| {
        let first = [row.site.clone(), row.method.to_owned(), grouped(row.dense), grouped(row.now)];
        [first.into(), more(row)].concat()
    };
    rows.iter().map(cells).collect()
}

/// A line of cells for each group, with `more` after its sizes, and where each site is.
fn by_pattern(
    heads: &[&str],
    rows: &[Row<'_>],
    more: impl Fn(&Group<'_>) -> Vec<String>,
) -> Vec<Block> {
    let cells = |group: &Group<'_>| {
        let first = [
            group.pattern.clone(),
            group.rows.len().to_string(),
            group.common(|row| row.method.to_owned()),
            grouped(group.sum(|row| row.dense)),
            grouped(group.sum(|row| row.now)),
        ];
        [first.into(), more(group)].concat()
    };
    vec![table(heads, groups(rows).iter().map(cells).collect()), text([EACH])]
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_report::Table;
    use serde_json::{Value, from_value, json};

    /// A site with equal errors of both kinds.
    fn site(name: &str, error: f64, held_out: Option<bool>) -> SiteOutcome {
        let held_out = held_out.map_or(Value::Null, Value::Bool);
        from_value(json!({
            "site": name, "role": "up", "layer": 0, "heals": false, "method": "svd",
            "parameters": 1, "dense_parameters": 2, "macs_per_row": 1,
            "fit": {
                "relative_error": error, "train_relative_error": error, "target_power": 1.0,
                "held_out": held_out, "ridge": null, "dropped_directions": 0, "curve": [],
                "seconds": 0.0,
            },
        }))
        .unwrap()
    }

    fn lines(blocks: &[Block]) -> Vec<Vec<String>> {
        let Some(Block::Table(Table { rows, .. })) = blocks.first() else { panic!("{blocks:?}") };
        rows.iter().map(|row| row.cells.clone()).collect()
    }

    #[test]
    fn fits_know_whether_windows_were_held_out_and_equal_errors_do_not_tell() {
        let site = |held_out| site("up", 0.5, held_out);
        for (sites, told) in [
            (vec![site(Some(false)), site(None)], true),
            (vec![site(Some(true)), site(None)], false),
            (vec![site(Some(true)), site(Some(false))], false),
            (vec![site(None)], false),
            (Vec::new(), false),
        ] {
            assert_eq!(fitted_to_all(&sites), told, "{sites:?}");
        }
    }

    #[test]
    fn a_screen_of_sites_has_a_row_each_and_more_have_one_for_each_pattern() {
        let named = |at: usize, role: &str| format!("layers.{at}.{role}");
        let few: Vec<SiteOutcome> = (0..MOST).map(|at| site(&named(at, "up"), 0.5, None)).collect();
        let shown = lines(&site_table(&few));
        assert_eq!(shown.len(), MOST);
        assert_eq!(shown[1], ["layers.1.up", "svd", "2", "1", "5.00e-1"]);
        let mut many = few;
        many.push(site(&named(0, "down"), 0.25, None));
        many[3].method = "low_rank".to_owned();
        many[4].fit.relative_error = 0.75;
        let blocks = site_table(&many);
        let shown = lines(&blocks);
        let of_up = ["layers.*.up", "24", "2 values", "48", "24", "0.5000", "5.00e-1", "7.50e-1"];
        assert_eq!(shown[0], of_up);
        let of_down = ["layers.*.down", "1", "svd", "2", "1", "0.5000", "2.50e-1", "2.50e-1"];
        assert_eq!(shown[1], of_down);
        assert_eq!(shown.len(), 2);
        assert_eq!(blocks[1], text([EACH]));
    }
}
