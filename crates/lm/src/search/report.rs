//! Report of a search.

use super::{Decision, Figures, Found, Grounds};
use crate::cuts::report::test_table;
use crate::cuts::sweep::Tested;
use linwright_evaluate::TaskResult;
use linwright_report::number::{count, grouped, metric};
use linwright_report::{Block, Document, HeatMap, Table};

/// The decisions, from the last layer down.
#[must_use]
pub fn decisions_table(found: &Found) -> Table {
    let row = |own: &Decision| {
        let (checks, score) = match &own.grounds {
            Grounds::Accuracy(verdict) => {
                let last = verdict.checks.last();
                let score = |last: &super::accuracy::Check| {
                    format!("{} of {}, {} needed", last.right, last.known, last.needed)
                };
                (verdict.checks.len(), last.map_or_else(String::new, score))
            }
            Grounds::Perplexity { allowed, verdict } => {
                let last = verdict.checks.last();
                let sign = |passes: bool| if passes { "≤" } else { ">" };
                let score = |last: &super::perplexity::Check| {
                    let found = last.perplexity.map_or_else(|| "overflow".to_owned(), metric);
                    format!("{found} {} {}", sign(last.passes), metric(*allowed))
                };
                (verdict.checks.len(), last.map_or_else(String::new, score))
            }
        };
        vec![
            own.index.to_string(),
            own.site.to_string(),
            format!("{}x{}", own.shape.out, own.shape.inp),
            own.rank.map_or_else(|| "dense".to_owned(), |rank| rank.to_string()),
            checks.to_string(),
            score,
            count(own.parameters as f64),
        ]
    };
    let columns = [
        ("linear", true),
        ("site", false),
        ("shape", false),
        ("rank", true),
        ("checks", true),
        ("last check", false),
        ("parameters after", true),
    ];
    Table::new("Decisions, from the last layer down", columns).with(found.decisions.iter().map(row))
}

/// Kept share of the parameters by layer and role.
fn kept_map(found: &Found) -> HeatMap {
    let (mut layers, mut roles): (Vec<usize>, Vec<&str>) = (Vec::new(), Vec::new());
    for own in found.decisions.iter().rev() {
        if !layers.contains(&own.layer) {
            layers.push(own.layer);
        }
        if !roles.contains(&own.role.as_str()) {
            roles.push(&own.role);
        }
    }
    let kept = |own: &Decision| {
        let shape = own.shape;
        let share = |rank: usize| {
            (rank * (shape.out + shape.inp)) as f64 / (shape.out * shape.inp).max(1) as f64
        };
        own.rank.map_or(1.0, share)
    };
    let of = |layer: &usize| {
        let value = |role: &&str| {
            let is_own = |own: &&Decision| own.layer == *layer && own.role == *role;
            found.decisions.iter().find(is_own).map(kept)
        };
        roles.iter().map(value).collect()
    };
    HeatMap {
        title: "Kept share of the parameters".to_owned(),
        axis: "layer".to_owned(),
        values: layers.iter().map(of).collect(),
        rows: layers.iter().map(usize::to_string).collect(),
        columns: roles.iter().map(|role| (*role).to_owned()).collect(),
        baseline: 1.0,
        baseline_name: "Dense".to_owned(),
        higher_is_better: true,
        chance: None,
    }
}

/// Scores of both models, on the data that selected and on other data.
#[must_use]
pub fn figures_blocks(figures: &Figures) -> Vec<Block> {
    match figures {
        Figures::Task { metric, search, documents, dense, found, comparisons } => {
            let told = format!(
                "On {documents} search documents, which selected: {metric} {:.4} dense, {:.4} found. \
                 On {} other documents, which did not:",
                search[0], search[1], dense.counts.items
            );
            let (dense, best) = (TaskResult::clone(dense), TaskResult::clone(found));
            let (comparisons, groups) = (comparisons.clone(), Vec::new());
            let tested = Tested { dense, best, comparisons, groups };
            vec![Block::Text(vec![told]), Block::Table(test_table(&tested))]
        }
        Figures::Text { search, test, windows } => {
            let row = |name: &str, windows: usize, values: &[f64; 2]| {
                let [dense, found] = values.map(metric);
                vec![name.to_owned(), windows.to_string(), dense, found]
            };
            let columns =
                [("part of the text", false), ("windows", true), ("dense", true), ("found", true)];
            let rows =
                [row("search, which selected", windows[0], search), row("test", windows[1], test)];
            vec![Block::Table(Table::new("Perplexity", columns).with(rows))]
        }
    }
}

/// What a search found, in a sentence.
#[must_use]
pub fn headline(found: &Found) -> String {
    let cut = found.plan.edits.len();
    let (visited, linears) = (found.decisions.len(), found.linears);
    let [before, after] = found.parameters;
    let share = 100.0 * after as f64 / before.max(1) as f64;
    format!(
        "{cut} of {visited} visited linear layers ({linears} in all) got a rank; the model has \
         {share:.1} % of its parameters"
    )
}

/// Report of a search.
#[must_use]
pub fn document(title: &str, model: &str, found: &Found) -> Document {
    let [before, after] = found.parameters;
    let macs = found.macs.map(|macs| grouped(macs.with_attention));
    let facts = [
        ("Model", model.to_owned()),
        ("Scored by", found.scored.clone()),
        ("Parameters", format!("{} of {}", grouped(after), grouped(before))),
        ("Multiply-adds on 64 tokens", format!("{} of {}", macs[1], macs[0])),
        ("Stages x tokens of the published steps", {
            format!("{} or more", grouped(found.published_passes))
        }),
    ];
    let mut blocks = figures_blocks(&found.figures);
    blocks.push(Block::HeatMap(kept_map(found)));
    blocks.push(Block::Table(decisions_table(found)));
    if !found.notes.is_empty() {
        blocks.push(Block::Notes(found.notes.clone()));
    }
    Document {
        title: title.to_owned(),
        kicker: "Search of ranks".to_owned(),
        headline: Some(headline(found) + "."),
        facts: facts.map(|(name, value)| (name.to_owned(), value)).into(),
        blocks,
        ..Document::default()
    }
}
