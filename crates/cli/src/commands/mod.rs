//! The commands. A new one is a file here and a line of the list below.

mod cuts;
mod form;
pub(crate) mod main_job;
mod slots;
mod tasks;

use crate::args::Shared;
use crate::failure::Failure;
use clap::Subcommand;
use linwright::report::Table;
use std::io::{self, ErrorKind, Write};

macro_rules! commands {
    ($($module:ident => $name:ident($args:ident);)*) => {
        $(pub(crate) mod $module;)*

        #[derive(Debug, Subcommand)]
        pub(crate) enum Command {
            $($name($module::$args),)*
        }

        impl Command {
            pub(crate) fn run(&self, shared: &Shared) -> Result<(), Failure> {
                match self { $(Self::$name(args) => $module::run(args, shared),)* }
            }
        }
    };
}

commands! {
    inspect => Inspect(InspectArgs);
    compress => Compress(CompressArgs);
    laser => Laser(LaserArgs);
    sweep => Sweep(SweepArgs);
    compose => Compose(ComposeArgs);
    eval => Eval(EvalArgs);
    validate => Validate(ValidateArgs);
    generate => Generate(GenerateArgs);
    chat => Chat(ChatArgs);
    serve => Serve(ServeArgs);
    run => Run(RunArgs);
    report => Report(ReportArgs);
    export => Export(ExportArgs);
    import => Import(ImportArgs);
    train_lm => TrainLm(TrainLmArgs);
    ls => Ls(LsArgs);
    cache => Cache(CacheArgs);
    bench => Bench(BenchArgs);
    rotor => Rotor(RotorArgs);
    select => Select(SelectArgs);
    completions => Completions(CompletionsArgs);
    man => Man(ManArgs);
    doctor => Doctor(DoctorArgs);
}

/// Prints a result to stdout, which scripts read.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut pieces = Pieces::default();
    pieces.write(&format!("{text}\n"));
    pieces.finish()
}

/// Writes text to stdout piece by piece, unbuffered. Nothing else writes to stdout.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    /// The error that ended the output.
    ended: Option<io::Error>,
}

impl Pieces {
    /// Writes a piece; returns whether more can be written.
    pub(crate) fn write(&mut self, piece: &str) -> bool {
        if self.ended.is_none() {
            let mut out = io::stdout().lock();
            self.ended = out.write_all(piece.as_bytes()).and_then(|()| out.flush()).err();
        }
        self.ended.is_none()
    }

    /// Ends the output; a reader that closed the pipe is no error.
    ///
    /// # Errors
    /// If text was lost.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        match self.ended {
            // The reader closed the pipe, as `head` does: no error.
            Some(error) if error.kind() != ErrorKind::BrokenPipe => {
                Err(Failure::io("standard output", &error))
            }
            _ => Ok(()),
        }
    }
}

/// Prints a value as JSON to stdout.
pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    // Piece by piece: the JSON may be much longer than the data behind it.
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let written = serde_json::to_writer_pretty(&mut out, value).map_err(std::io::Error::from);
    match written.and_then(|()| writeln!(out)).and_then(|()| out.flush()) {
        // The reader closed the pipe, as `head` does: no error.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|error| Failure::io("standard output", &error)),
    }
}

/// A table with aligned columns: text left, numbers right.
pub(crate) fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([header[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let numeric: Vec<bool> = (0..header.len())
        .map(|column| !rows.is_empty() && rows.iter().all(|row| is_number(&row[column])))
        .collect();
    let line = |cells: &[String]| {
        let padded =
            cells.iter().zip(widths.iter().zip(&numeric)).map(|(cell, (&width, &right))| {
                if right { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
            });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let header: Vec<String> = header.iter().map(ToString::to_string).collect();
    let mut lines = vec![line(&header)];
    lines.extend(rows.iter().map(|row| line(row)));
    lines.join("\n")
}

/// A table of a report in the same form.
pub(crate) fn plain(table: &Table) -> String {
    let heads: Vec<&str> = table.columns.iter().map(|column| column.head.as_str()).collect();
    let rows: Vec<Vec<String>> = table.rows.iter().map(|row| row.cells.clone()).collect();
    self::table(&heads, &rows)
}

fn is_number(cell: &str) -> bool {
    cell.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '.')
}

/// A count with thousands separators: `2,097,152`.
pub(crate) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_align_text_left_and_numbers_right() {
        let rows =
            vec![vec!["a".to_owned(), "7".to_owned()], vec!["long".to_owned(), "1,234".to_owned()]];
        assert_eq!(table(&["site", "count"], &rows), "site  count\na         7\nlong  1,234");
    }

    #[test]
    fn counts_are_grouped_by_thousands() {
        assert_eq!(
            [0, 12, 999, 1000, 1_234_567].map(grouped),
            ["0", "12", "999", "1,000", "1,234,567"]
        );
    }
}
