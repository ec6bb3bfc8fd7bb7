//! Limits on the length of files and functions.
//!
//! Blank lines, comments and documentation do not count; the length of a file does not include
//! tests.

use crate::offence::Offence;
use crate::repository::Repository;
use crate::source::Source;
use anyhow::Result;

/// Largest number of code lines in a file.
const FILE_LINES: usize = 800;
/// Largest number of code lines in a function.
const FUNCTION_LINES: usize = 80;

/// Reports files and functions over the limits.
pub(crate) fn run(repository: &Repository) -> Result<Vec<Offence>> {
    Ok(repository.sources()?.iter().flat_map(offences).collect())
}

fn offences(source: &Source) -> Vec<Offence> {
    let mut offences = Vec::new();
    let lines = source.code_lines();
    if lines > FILE_LINES {
        let what = format!("{lines} lines of code, at most {FILE_LINES}; split the file");
        offences.push(Offence::new(&source.path, what));
    }
    let long = source.functions().into_iter().filter(|f| f.code_lines > FUNCTION_LINES);
    offences.extend(long.map(|f| {
        let (name, lines) = (&f.name, f.code_lines);
        let what = format!("function {name} has {lines} lines, at most {FUNCTION_LINES}; split it");
        Offence::at(&source.path, f.line, what)
    }));
    offences
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<Offence> {
        offences(&Source::new("src/a.rs", text))
    }

    #[test]
    fn a_long_file_is_found() {
        assert_eq!(found(&"const A: u8 = 1;\n".repeat(FILE_LINES)), []);
        let offences = found(&"const A: u8 = 1;\n".repeat(FILE_LINES + 1));
        assert!(offences[0].what.starts_with("801 lines"), "{offences:?}");
    }

    #[test]
    fn comments_blanks_and_tests_do_not_make_a_file_long() {
        assert_eq!(found(&"/// Doc.\n\n".repeat(FILE_LINES)), []);
        let body = "    const A: u8 = 1;\n".repeat(FILE_LINES);
        assert_eq!(found(&format!("fn f() {{}}\n#[cfg(test)]\nmod tests {{\n{body}}}\n")), []);
    }

    #[test]
    fn a_long_function_is_found_in_tests_too() {
        let long =
            |lines| format!("\nfn long() {{\n{}}}\n", "    // why\n    f();\n".repeat(lines));
        assert_eq!(found(&long(FUNCTION_LINES - 2)), []);
        let offences = found(&long(FUNCTION_LINES - 1));
        assert_eq!(offences[0].place, "src/a.rs:2");
        assert!(offences[0].what.contains("long has 81 lines"), "{offences:?}");
        let inside = format!("#[cfg(test)]\nmod tests {{{}}}\n", long(FUNCTION_LINES));
        assert_eq!(found(&inside).len(), 1);
    }
}
