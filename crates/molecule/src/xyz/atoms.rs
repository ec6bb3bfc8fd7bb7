//! The lines of atoms: their columns.

use super::comment::{Entry, truth};
use super::keys::LabelKeys;
use super::{Line, number};
use crate::error::MoleculeError;
use crate::species::{atomic_number, shown_species};
use crate::structure::{Column, Structure};

/// Largest number of columns of a table.
const COLUMNS: usize = 4096;
/// Name of the column that says which coordinates may move.
const MOVE_MASK: &str = "move_mask";
/// Charges of atoms whose sum is the total charge, as for calculators of ASE.
pub(super) const INITIAL_CHARGES: &str = "initial_charges";
/// Sums of charges this close to an integer are rounded to it.
const ROUNDED: f64 = 1e-6;
/// Name of words after the columns of plain XYZ.
const UNNAMED: &str = "unnamed";

/// Content of the columns of a frame.
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
    /// Whether its words are kept unchanged in [`Structure::columns`].
    kept: Option<Column>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Symbol,
    Number,
    /// An atomic number in addition to a symbol, which must agree.
    SameNumber,
    Position,
    Force,
    Momentum,
    Mass,
    MoveMask,
    Charge,
    Other,
}

impl Part {
    /// The name of a column that is kept as text.
    fn name(&self) -> &str {
        self.kept.as_ref().map_or("", |column| &column.name)
    }
}

impl Columns {
    /// The columns of plain XYZ: symbol and position, and more of them without names.
    pub(super) fn plain() -> Self {
        let parts = [(What::Symbol, 1), (What::Position, 3)];
        let parts = parts.map(|(what, count)| Part { what, count, kept: None }).to_vec();
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
        let chosen = Chosen::of(triples, keys);
        let mut parts: Vec<Part> = Vec::new();
        let mut names = std::collections::BTreeSet::new();
        let mut total = 0;
        for triple @ [name, kind, count] in triples {
            let count: usize = count.parse().unwrap_or(0);
            total = count.saturating_add(total);
            if count == 0 || total > COLUMNS || !matches!(*kind, "S" | "R" | "I" | "L") {
                return wrong("triples such as pos:R:3, with one of S, R, I and L");
            }
            if name.is_empty() || !names.insert(*name) {
                return wrong("each name once");
            }
            let what = chosen.what(triple);
            match *name {
                MOVE_MASK if what == What::Other => {
                    return wrong("move_mask:L:1 or move_mask:L:3");
                }
                "masses" if what == What::Other => return wrong("masses:R:1"),
                "momenta" if what == What::Other => return wrong("momenta:R:3"),
                _ => {}
            }
            // Writers store these under their own names.
            let is_written = match what {
                What::Force => *name == "forces",
                What::Charge => *name == "charges",
                What::SameNumber | What::Other => false,
                What::Symbol
                | What::Number
                | What::Position
                | What::Momentum
                | What::Mass
                | What::MoveMask => true,
            };
            let (name, kind) = ((*name).to_owned(), (*kind).to_owned());
            let column = Column { name, kind, width: count, text: String::new() };
            parts.push(Part { what, count, kept: (!is_written).then_some(column) });
        }
        let count = |what| parts.iter().filter(|part| part.what == what).count();
        if count(What::Number) > 1 {
            return wrong("one column of atomic numbers");
        }
        if count(What::Position) == 0 || count(What::Symbol) + count(What::Number) == 0 {
            return wrong("columns species:S:1 (or Z:I:1) and pos:R:3");
        }
        Ok(Self { parts, open: false })
    }

    /// Prepares a structure for the labels of these columns.
    pub(super) fn prepare(&self, structure: &mut Structure) {
        let has = |what| self.parts.iter().any(|part| part.what == what);
        structure.labels.forces = has(What::Force).then(Vec::new);
        structure.momenta = has(What::Momentum).then(Vec::new);
        structure.masses = has(What::Mass).then(Vec::new);
        structure.held = has(What::MoveMask).then(Vec::new);
        structure.labels.charges = has(What::Charge).then(Vec::new);
        structure.columns = self.parts.iter().filter_map(|part| part.kept.clone()).collect();
        if self.open {
            let (name, kind) = (UNNAMED.to_owned(), "S".to_owned());
            structure.columns.push(Column { name, kind, ..Column::default() });
        }
    }

    /// Reads one line into a structure.
    pub(super) fn read(
        &self,
        line: &Line<'_>,
        structure: &mut Structure,
    ) -> Result<(), MoleculeError> {
        let mut words = Words { line, at: 0, number: None };
        let mut kept = 0;
        for part in &self.parts {
            let start = words.at;
            words.part(part, structure)?;
            if part.kept.is_some() {
                let column = &mut structure.columns[kept];
                append(column, line.text[start..words.at].split_whitespace());
                kept += 1;
            }
        }
        words.check_number(structure)?;
        if self.open {
            let column = &mut structure.columns[kept];
            let rest = line.text[words.at..].split_whitespace();
            column.width = column.width.max(rest.clone().count());
            append(column, rest);
            return Ok(());
        }
        match words.next() {
            Some((at, word)) => {
                Err(line.wrong(at, word, "the end of the line: no more columns are declared"))
            }
            None => Ok(()),
        }
    }

    /// Completes a structure when all its lines are read; computes its charge, unless it has one.
    pub(super) fn finish(&self, structure: &mut Structure, has_charge: bool) {
        let is_initial = |column: &&Column| column.name == INITIAL_CHARGES && column.width == 1;
        if let Some(column) = structure.columns.iter().find(is_initial).filter(|_| !has_charge) {
            let sum: f64 = column.text.lines().filter_map(number).sum();
            // Charges of atoms are rounded when written.
            let is_whole = (sum - sum.round()).abs() < ROUNDED;
            structure.charge = if is_whole { sum.round() } else { sum };
        }
        if self.open {
            // Without names or a declaration, only columns present for every atom are used.
            let is_full = |column: &Column| {
                let width = column.width;
                let mut lines = column.text.lines();
                width > 0 && lines.all(|line| line.split_whitespace().count() == width)
            };
            structure.columns.retain(|column| column.name != UNNAMED || is_full(column));
        }
        if structure.held_coordinates() == 0 {
            structure.held = None;
        }
    }
}

/// Which columns are the labels.
struct Chosen {
    forces: Option<String>,
    charges: Option<String>,
    has_symbols: bool,
}

impl Chosen {
    fn of(triples: &[[&str; 3]], keys: &LabelKeys) -> Self {
        let first = |names: &[String], width: &str| {
            let has = |name: &&String| triples.iter().any(|[n, _, w]| *n == **name && *w == width);
            names.iter().find(has).cloned()
        };
        Self {
            forces: first(&keys.forces, "3"),
            charges: first(&keys.charges, "1"),
            has_symbols: triples.contains(&["species", "S", "1"]),
        }
    }

    fn what(&self, [name, kind, count]: &[&str; 3]) -> What {
        let is = |chosen: &Option<String>| chosen.as_deref() == Some(*name);
        match (*name, *kind, *count) {
            ("species", "S", "1") => What::Symbol,
            ("Z" | "numbers" | "atomic_numbers", "I", "1") => match self.has_symbols {
                true => What::SameNumber,
                false => What::Number,
            },
            ("pos", "R", "3") => What::Position,
            ("momenta", "R", "3") => What::Momentum,
            ("masses", "R" | "I", "1") => What::Mass,
            (MOVE_MASK, "L" | "I", "1" | "3") => What::MoveMask,
            (_, "R" | "I", "3") if is(&self.forces) => What::Force,
            (_, "R" | "I", "1") if is(&self.charges) => What::Charge,
            _ => What::Other,
        }
    }
}

/// Adds the words of an atom to a column.
fn append<'a>(column: &mut Column, words: impl Iterator<Item = &'a str>) {
    for (index, word) in words.enumerate() {
        if index > 0 {
            column.text.push(' ');
        }
        column.text += word;
    }
    column.text.push('\n');
}

/// The words of a line and their positions.
struct Words<'a> {
    line: &'a Line<'a>,
    at: usize,
    /// An atomic number in addition to the symbol.
    number: Option<u8>,
}

impl<'a> Words<'a> {
    /// Reads the words of one column.
    fn part(&mut self, part: &Part, structure: &mut Structure) -> Result<(), MoleculeError> {
        match part.what {
            What::Symbol => structure.species.push(self.species()?),
            What::Number => structure.species.push(self.atomic_number()?),
            What::SameNumber => self.number = Some(self.atomic_number()?),
            What::Position => structure.positions.push(self.vector("a coordinate")?),
            What::Force => {
                let force = self.vector("a force")?;
                structure.labels.forces.get_or_insert_default().push(force);
            }
            What::Momentum => {
                let momentum = self.vector("a momentum")?;
                structure.momenta.get_or_insert_default().push(momentum);
            }
            What::Mass => structure.masses.get_or_insert_default().push(self.mass()?),
            What::MoveMask => {
                let held = self.held(part.count)?;
                structure.held.get_or_insert_default().push(held);
            }
            What::Charge => {
                let charge = self.finite("a partial charge")?;
                structure.labels.charges.get_or_insert_default().push(charge);
            }
            What::Other if part.name() == INITIAL_CHARGES => {
                self.finite("an initial charge")?;
            }
            What::Other => {
                for _ in 0..part.count {
                    self.word("a value of each column that is declared")?;
                }
            }
        }
        Ok(())
    }

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

    /// Rejects an atomic number that contradicts the symbol of the line.
    fn check_number(&self, structure: &Structure) -> Result<(), MoleculeError> {
        match (self.number, structure.species.last()) {
            (Some(number), Some(symbol)) if *symbol != number => {
                let expected =
                    format!("the atomic number of {}, its symbol", shown_species(*symbol));
                Err(self.line.wrong(0, &number.to_string(), expected))
            }
            _ => Ok(()),
        }
    }

    fn mass(&mut self) -> Result<f64, MoleculeError> {
        let expected = "a mass in atomic mass units, a number above zero";
        let (at, word) = self.word(expected)?;
        let mass = number(word).filter(|mass| mass.is_finite() && *mass > 0.0);
        mass.ok_or_else(|| self.line.wrong(at, word, expected))
    }

    /// Fixed coordinates: those that may not move.
    fn held(&mut self, count: usize) -> Result<[bool; 3], MoleculeError> {
        let mut held = [false; 3];
        for own in held.iter_mut().take(count) {
            let expected = "T or F, whether the atom may move";
            let (at, word) = self.word(expected)?;
            *own = !truth(word).ok_or_else(|| self.line.wrong(at, word, expected))?;
        }
        Ok(if count == 1 { [held[0]; 3] } else { held })
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
