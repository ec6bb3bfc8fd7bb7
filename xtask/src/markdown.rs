//! A minimal Markdown reader for checks: tables, fenced blocks and links.

/// A table: cells of each row, trimmed, the header first.
pub(crate) type Table = Vec<Vec<String>>;

/// The tables of a document, in order.
pub(crate) fn tables(text: &str) -> Vec<Table> {
    let mut tables: Vec<Table> = Vec::new();
    let mut inside = false;
    for line in text.lines().map(str::trim) {
        let row = line.strip_prefix('|').and_then(|line| line.strip_suffix('|'));
        if let Some(row) = row {
            if !inside {
                tables.push(Vec::new());
            }
            let cells: Vec<String> = row.split('|').map(|cell| cell.trim().to_owned()).collect();
            if let Some(table) = tables.last_mut().filter(|_| !is_rule(&cells)) {
                table.push(cells);
            }
        }
        inside = row.is_some();
    }
    tables
}

/// The table whose header begins with these cells.
pub(crate) fn table(text: &str, header: &[&str]) -> Option<Table> {
    tables(text).into_iter().find(|table| {
        table.first().is_some_and(|cells| cells.iter().zip(header).all(|(a, b)| a == b))
    })
}

fn is_rule(cells: &[String]) -> bool {
    cells.iter().all(|cell| !cell.is_empty() && cell.chars().all(|c| "-: ".contains(c)))
}

/// The texts in backquotes in a cell or line.
pub(crate) fn code_spans(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// A fenced block: its first line in the document, from one, and its contents.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// Line of the first line inside the fence.
    pub(crate) line: usize,
    /// The lines inside the fence.
    pub(crate) text: String,
}

/// The fenced blocks with this info string.
pub(crate) fn blocks(text: &str, language: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let Some(info) = line.strip_prefix("```") else {
            continue;
        };
        let inside = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```");
        let text = inside.fold(String::new(), |text, line| text + line + "\n");
        if info.trim() == language {
            let line = number + 2;
            blocks.push(Block { line, text });
        }
    }
    blocks
}

/// Links of a document outside fenced blocks: line, from one, and target.
pub(crate) fn links(text: &str) -> Vec<(usize, &str)> {
    let mut links = Vec::new();
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        fenced ^= line.starts_with("```");
        let prose = line.split('`').step_by(2).filter(|_| !fenced);
        for part in prose.flat_map(|prose| prose.split("](").skip(1)) {
            if let Some((target, _)) = part.split_once(')') {
                links.push((index + 1, target));
            }
        }
    }
    links
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
# Page

| a | b |
| --- | --: |
| `x` | `y`, `z` |

See [one](a.md) and `[no](b.md)`, [two](c.md#part).

```console
$ run
[no](d.md)
```

| c |
| --- |
";

    #[test]
    fn tables_have_a_header_and_rows() {
        assert_eq!(tables(PAGE), [vec![vec!["a", "b"], vec!["`x`", "`y`, `z`"]], vec![vec!["c"]]]);
        assert_eq!(table(PAGE, &["c"]).unwrap(), [["c"]]);
        assert_eq!(table(PAGE, &["b"]), None);
        assert_eq!(code_spans("`y`, `z`"), ["y", "z"]);
    }

    #[test]
    fn blocks_are_chosen_by_language() {
        let text = "$ run\n[no](d.md)\n".to_owned();
        assert_eq!(blocks(PAGE, "console"), [Block { line: 10, text }]);
        assert_eq!(blocks(PAGE, "sh"), []);
    }

    #[test]
    fn links_in_code_do_not_count() {
        assert_eq!(links(PAGE), [(7, "a.md"), (7, "c.md#part")]);
    }
}
