//! Tables and numbers of documents match their records.
//!
//! A comment before a table names its source:
//!
//! - `<!-- from: FILE.md, table "TITLE" -->`: the report of a run. Every row of that table must be
//!   present, columns may be omitted; with `, layers 3` after the title only the dense row and
//!   those with that many layers; with `, rows 4000` after that only rows whose method begins with
//!   this size or with none. With `, asked 0.9` after the title only rows at this share of the
//!   parameters, and those at none.
//! - `<!-- from: FILE.csv -->`: the counts of `linwright rotor convergence`, by features and step.
//!
//! `<!-- numbers from: FILE -->` before a paragraph: each number in it must occur in the file,
//! possibly rounded; `; 3.7 = 489,000 / 131,072` adds a quotient of two that do. Text in backquotes
//! is skipped. Tables of `docs/results.md` have such a comment, or `<!-- not recorded: WHY -->`.

use crate::markdown::{self, Table};
use crate::offence::Offence;
use crate::repository::Repository;
use anyhow::Result;
use std::collections::BTreeMap;

/// The document whose tables must all name their record.
const RESULTS: &str = "docs/results.md";
/// Columns that say which row of a report it is.
const KEYS: &[&str] = &["Method", "Layers", "layer", "model", "nodes", "method", "asked"];
/// Start and end of the comment.
const COMMENT: (&str, &str) = ("<!-- ", " -->");

/// Compares documents with their records.
pub(crate) fn run(repository: &Repository) -> Result<Vec<Offence>> {
    let read = |file: &str| repository.text(file).map_err(|error| format!("{error:#}"));
    let mut offences = Vec::new();
    for path in repository.ending(".md").filter(|path| !path.starts_with("benchmarks/record/")) {
        offences.extend(differences(path, &repository.text(path)?, &read));
    }
    Ok(offences)
}

/// Values of a document that are not in its records.
fn differences(
    path: &str,
    text: &str,
    read: &dyn Fn(&str) -> Result<String, String>,
) -> Vec<Offence> {
    let lines: Vec<&str> = text.lines().collect();
    let mut offences = Vec::new();
    let mut is_marked = false;
    for (index, line) in lines.iter().enumerate() {
        let comment = line.strip_prefix(COMMENT.0).and_then(|line| line.strip_suffix(COMMENT.1));
        let following = || block(&lines[index + 1..]);
        let found = match comment.and_then(|comment| comment.split_once(": ")) {
            Some(("from", record)) => table_differs(&following(), record, read),
            Some(("numbers from", record)) => numbers_differ(&following(), record, read),
            _ => Ok(()),
        };
        is_marked |= comment.is_some_and(|comment| {
            ["from: ", "not recorded: "].iter().any(|word| comment.starts_with(word))
        });
        let begins = line.starts_with('|') && (index == 0 || !lines[index - 1].starts_with('|'));
        if path == RESULTS && begins && !is_marked {
            offences.push(Offence::at(
                path,
                index + 1,
                "a table without a comment that says from where",
            ));
        }
        is_marked &= comment.is_some() || line.trim().is_empty();
        if let Err(what) = found {
            offences.push(Offence::at(path, index + 1, what));
        }
    }
    offences
}

/// The lines up to the next blank one, without leading blank lines.
pub(super) fn block(lines: &[&str]) -> String {
    let begun = lines.iter().skip_while(|line| line.trim().is_empty());
    begun
        .take_while(|line| !line.trim().is_empty())
        .fold(String::new(), |text, line| text + line + "\n")
}

/// Compares a table of a document, given as text, with that of its record.
fn table_differs(
    shown: &str,
    record: &str,
    read: &dyn Fn(&str) -> Result<String, String>,
) -> Result<(), String> {
    let shown = markdown::tables(shown).into_iter().next().ok_or("no table follows")?;
    let (file, options) = record.split_once(", ").unwrap_or((record, ""));
    let text = read(file)?;
    let (recorded, keys, is_whole) = if file.ends_with(".csv") {
        (convergence(&text), &["features", "step"][..], false)
    } else {
        (report_table(&text, options)?, KEYS, true)
    };
    let (head, rows) = shown.split_first().ok_or("the table is empty")?;
    let recorded_head = recorded.first().cloned().unwrap_or_default();
    let column = |name: &String| {
        let place = recorded_head.iter().position(|head| head == name);
        place.ok_or_else(|| format!("column `{name}` is not in {file}"))
    };
    let columns: Vec<usize> = head.iter().map(column).collect::<Result<_, _>>()?;
    let identity = |row: &[String], head: &[String]| -> Vec<String> {
        let key = |name: &&str| head.iter().position(|h| h == name).map(|place| row[place].clone());
        keys.iter().filter(|key| head.iter().any(|h| h == *key)).filter_map(key).collect()
    };
    let wanted: Vec<Vec<String>> = recorded
        .iter()
        .skip(1)
        .map(|row| columns.iter().map(|&place| row[place].clone()).collect())
        .collect();
    for row in rows {
        let own = identity(row, head);
        let Some(recorded) = wanted.iter().find(|wanted| identity(wanted, head) == own) else {
            return Err(format!("row {} is not in {file}", own.join(", ")));
        };
        if let Some(place) = (0..columns.len()).find(|&place| row.get(place) != recorded.get(place))
        {
            return Err(format!(
                "row {}: {} is {}, in {file} it is {}",
                own.join(", "),
                head[place],
                row.get(place).map_or("absent", String::as_str),
                recorded[place]
            ));
        }
    }
    if is_whole && wanted.len() != rows.len() {
        return Err(format!("has {} rows, the table of {file} has {}", rows.len(), wanted.len()));
    }
    Ok(())
}

/// The table of a report under the title in the options, unescaped; filtered as they request it.
fn report_table(text: &str, options: &str) -> Result<Table, String> {
    let form = || {
        format!(
            "`{options}`: expected table \"TITLE\", also with `, layers N` and `, rows SIZE`, or `, asked SHARE`"
        )
    };
    let rest = options.strip_prefix("table \"").ok_or_else(form)?;
    let (title, rest) = rest.split_once('"').ok_or_else(form)?;
    let (rest, size) = match rest.split_once(", rows ") {
        Some((rest, size)) => (rest, Some(size)),
        None => (rest, None),
    };
    let chosen = [("Layers", ", layers ", "0"), ("asked", ", asked ", "")];
    let heading = format!("\n## {title}\n");
    let (_, section) = text.split_once(&heading).ok_or_else(|| format!("no table \"{title}\""))?;
    let mut table = markdown::tables(section).into_iter().next().unwrap_or_default();
    table.iter_mut().flatten().for_each(|cell| *cell = cell.replace('\\', ""));
    for (column, option, of_dense) in chosen {
        let place = table.first().and_then(|head| head.iter().position(|name| name == column));
        if let (Some(value), Some(place)) = (rest.strip_prefix(option), place) {
            let mut is_head = true;
            table.retain(|row| {
                std::mem::take(&mut is_head) || row[place] == value || row[place] == of_dense
            });
        }
    }
    if let Some(size) = size {
        table.retain(|row| {
            let word = row.first().and_then(|name| name.split(' ').next()).unwrap_or_default();
            word == size || word.parse::<u64>().is_err()
        });
    }
    Ok(table)
}

/// The iteration counts by features and step: mean and maximum.
fn convergence(csv: &str) -> Table {
    type Cells = BTreeMap<&'static str, String>;
    let mut rows: BTreeMap<(u64, u64), Cells> = BTreeMap::new();
    for fields in csv.lines().map(|line| line.split(',').collect::<Vec<_>>()) {
        let [experiment, _, features, step, _, quantity, first, _, most] = fields[..] else {
            continue;
        };
        let (Ok(features), Ok(step)) = (features.parse(), step.parse()) else { continue };
        let cells = rows.entry((features, step)).or_default();
        match (experiment, quantity) {
            ("training", "mean iterations") => cells.insert("mean", rounded(first, 1)),
            ("training", _) => cells.insert("most", most.to_owned()),
            _ => None,
        };
    }
    let columns = ["mean", "most"];
    let head = ["features", "step"].iter().chain(&columns).map(|&name| name.to_owned()).collect();
    let row = |((features, step), cells): ((u64, u64), Cells)| {
        let counts = columns.iter().map(|name| cells.get(name).cloned().unwrap_or_default());
        [features.to_string(), step.to_string()].into_iter().chain(counts).collect()
    };
    std::iter::once(head).chain(rows.into_iter().map(row)).collect()
}

fn rounded(number: &str, decimals: usize) -> String {
    number.parse::<f64>().map_or_else(|_| number.to_owned(), |value| format!("{value:.decimals$}"))
}

/// Searches every number of a paragraph in its record.
pub(super) fn numbers_differ(
    paragraph: &str,
    record: &str,
    read: &dyn Fn(&str) -> Result<String, String>,
) -> Result<(), String> {
    let mut parts = record.split("; ");
    let file = parts.next().unwrap_or_default();
    let text = read(file)?;
    // The comma of a CSV table is not part of a number.
    let text = if file.ends_with(".csv") { text.replace(',', " ") } else { text };
    let plain = numbers(&text);
    let known: Vec<f64> =
        plain.iter().map(String::as_str).chain(small_numbers(&text)).filter_map(value).collect();
    let stands = |number: &str| {
        let decimals = number.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        let plain = number.replace(',', "");
        known.iter().any(|known| format!("{known:.decimals$}") == plain)
    };
    let mut quotients = Vec::new();
    for part in parts {
        let terms = part.split_once(" = ").and_then(|(quotient, terms)| {
            let (of, by) = terms.split_once(" / ")?;
            Some((quotient, of, by))
        });
        let (quotient, of, by) = terms.ok_or_else(|| format!("`{part}`: expected A = B / C"))?;
        if let Some(term) = [of, by].into_iter().find(|term| !stands(term)) {
            return Err(format!("{term} is not in {file}"));
        }
        let (Some(of), Some(by)) = (value(of), value(by)) else {
            return Err(format!("`{part}`: expected A = B / C"));
        };
        let decimals = quotient.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        if format!("{:.decimals$}", of / by) != quotient {
            return Err(format!("{part}: it is {}", of / by));
        }
        quotients.push(quotient.to_owned());
    }
    let prose: String = paragraph.split('`').step_by(2).collect::<Vec<_>>().join(" ");
    let is_known = |number: &&String| stands(number) || quotients.contains(number);
    match numbers(&prose).iter().find(|number| !is_known(number)) {
        Some(number) => Err(format!("{number} is not in {file}{}", nearest(number, &known))),
        None => Ok(()),
    }
}

/// The number of a record that may stand there now.
fn nearest(number: &str, known: &[f64]) -> String {
    let Some(number) = value(number) else { return String::new() };
    let off = |known: &f64| (known - number).abs();
    let nearest = known.iter().copied().min_by(|a, b| off(a).total_cmp(&off(b)));
    nearest.map_or_else(String::new, |known| format!("; the nearest there is {known}"))
}

/// The numbers of a text as written; digits inside words are skipped.
fn numbers(text: &str) -> Vec<String> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '.' | ',' | '_');
    let words =
        text.split(|c| !is_part(c)).map(|word| word.trim_matches(|c| matches!(c, '.' | ',')));
    words.filter(|word| value(word).is_some()).map(str::to_owned).collect()
}

/// Words that may be numbers with a negative exponent, such as `5.1e-3`.
fn small_numbers(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c.is_whitespace() || c == '|').filter(|word| word.contains("e-"))
}

/// Value of a number with commas before each three digits.
fn value(number: &str) -> Option<f64> {
    if !number.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    number.replace(',', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "# A run\n\n## One size\n\n\
        | Method | Layers | Perplexity | Cost (dense) |\n| --- | ---: | ---: | ---: |\n\
        | dense | 0 | 1.494 | – |\n| BH\\_2 | 1 | 1.500 ± 0.001 | 4,096 (1,024) |\n\
        | LR3 | 1 | 1.498 ± 0.000 | 3,840 (1,024) |\n| LR3 | 2 | 1.629 ± 0.005 | 7,680 (2,048) |\n\n\
        ## Notes\n\n- 279 of 400 documents count\n| error | 7.8668e-1 |\n";
    const COUNTS: &str = "experiment,bivectors,features,step,iterations,quantity,median,min,max\n\
        training,normal,64,1,,iterations,7,4,24\ntraining,normal,64,1,,mean iterations,7.32,,\n\
        training,normal,64,2,,iterations,4,2,12\n\
        training,normal,64,2,,mean iterations,4.26,,\naccuracy,normal,64,,1,rotor error,5e-1,1,2\n";

    fn said(text: &str) -> Vec<String> {
        let read = |file: &str| match file {
            "run.md" => Ok(REPORT.to_owned()),
            "counts.csv" => Ok(COUNTS.to_owned()),
            other => Err(format!("{other}: not found")),
        };
        differences(RESULTS, text, &read).into_iter().map(|offence| offence.to_string()).collect()
    }

    const SHOWN: &str = "<!-- from: run.md, table \"One size\" -->\n\n\
        | Method | Layers | Perplexity |\n| --- | --: | --: |\n| dense | 0 | 1.494 |\n\
        | BH_2 | 1 | 1.500 ± 0.001 |\n| LR3 | 1 | 1.498 ± 0.000 |\n| LR3 | 2 | 1.629 ± 0.005 |\n";

    #[test]
    fn a_changed_number_and_a_row_left_out_are_found() {
        assert_eq!(said(SHOWN), Vec::<String>::new());
        let changed = said(&SHOWN.replace("1.629", "1.619"));
        let expected = "docs/results.md:1: row LR3, 2: Perplexity is 1.619 ± 0.005, in run.md it is 1.629 ± 0.005";
        assert_eq!(changed, [expected]);
        let fewer = said(&SHOWN.replace("| LR3 | 1 | 1.498 ± 0.000 |\n", ""));
        assert!(fewer[0].contains("has 3 rows, the table of run.md has 4"), "{fewer:?}");
        for (from, to, what) in [
            ("BH_2", "BH_3", "row BH_3, 1 is not in run.md"),
            ("Perplexity", "Accuracy", "column `Accuracy` is not in run.md"),
            ("One size", "Two sizes", "no table \"Two sizes\""),
            ("run.md", "gone.md", "gone.md: not found"),
        ] {
            let found = said(&SHOWN.replacen(from, to, 1));
            assert!(found.len() == 1 && found[0].contains(what), "{what}: {found:?}");
        }
    }

    #[test]
    fn a_table_may_show_the_rows_of_some_layers() {
        let two = "<!-- from: run.md, table \"One size\", layers 2 -->\n| Method | Cost (dense) |\n\
            | --- | --: |\n| dense | – |\n| LR3 | 7,680 (2,048) |\n";
        assert_eq!(said(two), Vec::<String>::new());
        assert_eq!(said(&two.replace("7,680", "7,608")).len(), 1);
    }

    #[test]
    fn a_table_may_show_the_rows_of_one_share() {
        let report = "# A run\n\n## Methods\n\n| method | asked | loss |\n| --- | --- | --- |\n\
            | dense |  | 1 |\n| svd | 0.9 | 2 |\n| svd | 0.8 | 3 |\n| q8\\_0 |  | 4 |\n";
        let shown = "| method | loss |\n| --- | --- |\n| dense | 1 |\n| svd | 2 |\n| q8_0 | 4 |\n";
        let differs = |shown: &str, options: &str| {
            table_differs(shown, options, &|_: &str| Ok(report.to_owned()))
        };
        let one = "run.md, table \"Methods\", asked 0.9";
        assert_eq!(differs(shown, one), Ok(()));
        assert!(differs(&shown.replace("| 2 |", "| 3 |"), one).is_err());
        assert!(differs(shown, "run.md, table \"Methods\"").is_err());
    }

    #[test]
    fn a_table_may_show_the_rows_of_one_size() {
        let text = "\n## T\n\n| Method | Layers |\n| --- | ---: |\n| dense | 0 |\n| nothing | 1 |\n\
            | 40 LR1 | 1 |\n| 400 LR1 | 1 |\n| 40 LR1 | 2 |\n";
        let methods = |options: &str| -> Vec<String> {
            report_table(text, options).unwrap().into_iter().map(|row| row.join(" ")).collect()
        };
        let head = ["Method Layers", "dense 0", "nothing 1"];
        for (options, rows) in [
            ("table \"T\", layers 1, rows 40", vec!["40 LR1 1"]),
            ("table \"T\", rows 40", vec!["40 LR1 1", "40 LR1 2"]),
        ] {
            assert_eq!(methods(options), [head.to_vec(), rows].concat(), "{options}");
        }
    }

    #[test]
    fn tables_of_results_say_where_they_come_from() {
        let bare = "words\n\n| a |\n| --- |\n| 1 |\n";
        assert_eq!(
            said(bare),
            ["docs/results.md:3: a table without a comment that says from where"]
        );
        assert_eq!(
            said(&bare.replace("words", "<!-- not recorded: too long -->")),
            Vec::<String>::new()
        );
    }

    #[test]
    fn numbers_of_sentences_stand_in_the_record() {
        let good = "<!-- numbers from: run.md; 3.8 = 3,840 / 1,024 -->\nOf 400 documents 279 count: 1.63, \
            3.8 times the 1,024, or 0.787.\nAnd `17` of BH2.\n\nOthers are 99.\n";
        assert_eq!(said(good), Vec::<String>::new());
        for (from, to, what) in [
            ("1.63,", "1.64,", "1.64 is not in run.md"),
            ("3.8 =", "3.7 =", "3.7 = 3,840 / 1,024: it is 3.75"),
            ("3,840", "3,841", "3,841 is not in run.md"),
        ] {
            let found = said(&good.replacen(from, to, 1));
            assert!(found.len() == 1 && found[0].contains(what), "{what}: {found:?}");
        }
    }

    #[test]
    fn counts_of_iterations_are_those_of_the_table_of_values() {
        let good = "<!-- from: counts.csv -->\n| features | step | mean | most |\n\
            | --: | --: | --: | --: |\n| 64 | 2 | 4.3 | 12 |\n| 64 | 1 | 7.3 | 24 |\n";
        assert_eq!(said(good), Vec::<String>::new());
        assert!(
            said(&good.replace("| 24", "| 37"))[0].contains("most is 37, in counts.csv it is 24")
        );
        assert_eq!(said("<!-- numbers from: counts.csv -->\n7.3 to 24\n"), Vec::<String>::new());
    }
}
