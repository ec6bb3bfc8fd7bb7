//! The lines of atoms: their columns.

use super::comment::Entry;
use super::keys::LabelKeys;
use super::{Line, number};
use crate::error::MoleculeError;
use crate::species::atomic_number;
use crate::structure::Structure;

/// Columns of a table, at most.
const COLUMNS: usize = 4096;

/// What the columns of a frame hold.
#[derive(Clone, Debug)]
pub(super) struct Columns {
    parts: Vec<Part>,
    /// Whether a line may have more words.
    open: bool,
}

#[derive(Clone, Debug)]
struct Part {
    what: What,
    count: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Symbol,
    Number,
    Position,
    Force,
    Momentum,
    Charge,
    Other,
}

impl Columns {
    /// The columns of plain XYZ: symbol and position; more of them are read over.
    pub(super) fn plain() -> Self {
        let parts = [(What::Symbol, 1), (What::Position, 3)];
        let parts = parts.map(|(what, count)| Part { what, count }).to_vec();
        Self { parts, open: true }
    }

    /// The columns of a declaration such as `species:S:1:pos:R:3`.
    pub(super) fn declared(
        entry: &Entry,
        line: &Line<'_>,
        keys: &LabelKeys,
    ) -> Result<Self, MoleculeError> {
        let words: Vec<&str> = entry.value.split(':').collect();
        let (triples, rest) = words.as_chunks::<3>();
        let wrong = |expected: &str| Err(entry.wrong(line, expected));
        if !rest.is_empty() {
            return wrong("triples such as pos:R:3");
        }
        let first = |names: &[String], width: &str| {
            let has = |name: &&String| triples.iter().any(|[n, _, w]| *n == **name && *w == width);
            names.iter().find(has).cloned()
        };
        let (forces, charges) = (first(&keys.forces, "3"), first(&keys.charges, "1"));
        let mut parts: Vec<Part> = Vec::new();
        let mut total = 0;
        for [name, kind, count] in triples {
            let count: usize = count.parse().unwrap_or(0);
            total = count.saturating_add(total);
            if count == 0 || total > COLUMNS || !matches!(*kind, "S" | "R" | "I" | "L") {
                return wrong("triples such as pos:R:3, with one of S, R, I and L");
            }
            let is = |chosen: &Option<String>| chosen.as_deref() == Some(*name);
            let what = match (*name, *kind, count) {
                ("species", "S", 1) => What::Symbol,
                ("Z" | "numbers" | "atomic_numbers", "I", 1) => What::Number,
                ("pos", "R", 3) => What::Position,
                ("momenta", "R", 3) => What::Momentum,
                (_, "R" | "I", 3) if is(&forces) => What::Force,
                (_, "R" | "I", 1) if is(&charges) => What::Charge,
                _ => What::Other,
            };
            let twice = what != What::Other && parts.iter().any(|part| part.what == what);
            if twice {
                return wrong("each name once");
            }
            parts.push(Part { what, count });
        }
        let has = |what| parts.iter().any(|part| part.what == what);
        if !has(What::Position) || !(has(What::Symbol) || has(What::Number)) {
            return wrong("columns species:S:1 (or Z:I:1) and pos:R:3");
        }
        if has(What::Symbol) {
            // Symbols say the same.
            let numbers = parts.iter_mut().filter(|part| part.what == What::Number);
            numbers.for_each(|part| part.what = What::Other);
        }
        Ok(Self { parts, open: false })
    }

    /// Prepares a structure for the labels of these columns.
    pub(super) fn prepare(&self, structure: &mut Structure) {
        let has = |what| self.parts.iter().any(|part| part.what == what);
        structure.labels.forces = has(What::Force).then(Vec::new);
        structure.momenta = has(What::Momentum).then(Vec::new);
        structure.labels.charges = has(What::Charge).then(Vec::new);
    }

    /// Reads one line into a structure.
    pub(super) fn read(
        &self,
        line: &Line<'_>,
        structure: &mut Structure,
    ) -> Result<(), MoleculeError> {
        let mut words = Words { line, at: 0 };
        for part in &self.parts {
            match part.what {
                What::Symbol => structure.species.push(words.species()?),
                What::Number => structure.species.push(words.atomic_number()?),
                What::Position => structure.positions.push(words.vector("a coordinate")?),
                What::Force => {
                    let force = words.vector("a force")?;
                    structure.labels.forces.get_or_insert_default().push(force);
                }
                What::Momentum => {
                    let momentum = words.vector("a momentum")?;
                    structure.momenta.get_or_insert_default().push(momentum);
                }
                What::Charge => {
                    let charge = words.finite("a partial charge")?;
                    structure.labels.charges.get_or_insert_default().push(charge);
                }
                What::Other => {
                    for _ in 0..part.count {
                        words.word("a value of each column that is declared")?;
                    }
                }
            }
        }
        match words.next() {
            Some((at, word)) if !self.open => {
                Err(line.wrong(at, word, "the end of the line: no more columns are declared"))
            }
            _ => Ok(()),
        }
    }
}

/// The words of a line and where they start.
struct Words<'a> {
    line: &'a Line<'a>,
    at: usize,
}

impl<'a> Words<'a> {
    fn next(&mut self) -> Option<(usize, &'a str)> {
        let rest = &self.line.text[self.at..];
        let trimmed = rest.trim_start();
        let start = self.at + rest.len() - trimmed.len();
        let length = trimmed.find(char::is_whitespace).unwrap_or(trimmed.len());
        self.at = start + length;
        (length > 0).then(|| (start, &trimmed[..length]))
    }

    fn word(&mut self, expected: &str) -> Result<(usize, &'a str), MoleculeError> {
        let end = self.line.text.len();
        self.next().ok_or_else(|| self.line.wrong(end, "", expected))
    }

    fn species(&mut self) -> Result<u8, MoleculeError> {
        let (at, word) = self.word("the symbol of an element")?;
        let number = atomic_number(word).or_else(|| element(word));
        number.ok_or_else(|| self.line.wrong(at, word, "the symbol of an element, such as H or Cl"))
    }

    fn atomic_number(&mut self) -> Result<u8, MoleculeError> {
        let (at, word) = self.word("an atomic number")?;
        element(word).ok_or_else(|| self.line.wrong(at, word, "an atomic number from 1 to 118"))
    }

    fn vector(&mut self, what: &str) -> Result<[f64; 3], MoleculeError> {
        Ok([self.finite(what)?, self.finite(what)?, self.finite(what)?])
    }

    fn finite(&mut self, what: &str) -> Result<f64, MoleculeError> {
        let (at, word) = self.word(what)?;
        let value = number(word).filter(|value| value.is_finite());
        value.ok_or_else(|| self.line.wrong(at, word, format!("{what}, a finite number")))
    }
}

/// The atomic number of a word.
fn element(word: &str) -> Option<u8> {
    word.parse().ok().filter(|number| crate::species::symbol(*number).is_some())
}
