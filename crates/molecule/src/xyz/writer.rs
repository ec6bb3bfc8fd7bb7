//! Writing, one frame at a time.

use super::atoms::INITIAL_CHARGES;
use super::keys::LabelKeys;
use super::parse_numbers;
use crate::error::MoleculeError;
use crate::species::symbol;
use crate::structure::{Column, Structure};
use linwright_run::atomic::{self, Replace};
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;

/// A writer of frames, in order.
#[derive(Debug)]
pub struct XyzWriter<W> {
    out: W,
    text: String,
}

/// Per-atom numbers other than labels of a structure, such as deviations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct XyzColumn<'a> {
    /// Its name in the file, without colons.
    pub name: &'a str,
    /// Numbers of an atom.
    pub width: usize,
    /// Numbers of all atoms, in order.
    pub values: &'a [f64],
}

/// Writes all frames of a file, atomically.
///
/// # Errors
/// A structure with values that cannot be stored in a file, or an error of the operating system.
pub fn write_xyz(
    path: &Path,
    structures: &[Structure],
    replace: Replace,
) -> Result<(), MoleculeError> {
    let mut writer = XyzWriter::new(Vec::new());
    for (index, structure) in structures.iter().enumerate() {
        writer.frame(structure).map_err(|error| error.of_structure(index))?;
    }
    atomic::write(path, &writer.into_inner(), replace).map_err(|e| MoleculeError::File(e.into()))
}

impl<W: Write> XyzWriter<W> {
    /// A writer to `out`, which should be buffered.
    pub fn new(out: W) -> Self {
        Self { out, text: String::new() }
    }

    /// Writes a frame: its labels as `energy`, `stress`, `charge`, `momenta`, `masses`,
    /// `move_mask`, `forces` and `charges`, with all numbers exact to the last bit, and all further
    /// pairs and columns unchanged.
    ///
    /// # Errors
    /// A structure with values that cannot be stored in a file, or an error of the operating
    /// system.
    pub fn frame(&mut self, structure: &Structure) -> Result<(), MoleculeError> {
        self.frame_with(structure, &[])
    }

    /// Writes a frame like [`Self::frame`], with further columns, which replace those of the
    /// structure with the same names.
    ///
    /// # Errors
    /// As [`Self::frame`].
    ///
    /// # Panics
    /// If a column is empty, or does not have numbers for every atom.
    pub fn frame_with(
        &mut self,
        structure: &Structure,
        columns: &[XyzColumn<'_>],
    ) -> Result<(), MoleculeError> {
        check(structure)?;
        let atoms = structure.species.len();
        for XyzColumn { name, width, values } in columns {
            assert!(*width > 0 && values.len() == atoms * width, "numbers of {name}");
            if !values.iter().all(|x| x.is_finite()) {
                return Err(MoleculeError::NotFinite { what: "number of a column" });
            }
        }
        self.text.clear();
        let table = Table::of(structure, columns);
        header(&mut self.text, structure, &table.declaration(structure));
        table.rows(&mut self.text, structure);
        self.out.write_all(self.text.as_bytes()).map_err(|source| MoleculeError::Output { source })
    }

    /// The underlying output.
    pub fn into_inner(self) -> W {
        self.out
    }

    /// Flushes the buffer.
    ///
    /// # Errors
    /// An error of the operating system.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Checks for content that a reader would reject.
fn check(structure: &Structure) -> Result<(), MoleculeError> {
    structure.check()?;
    let unnamed = structure.species.iter().position(|number| symbol(*number).is_none());
    if let Some(atom) = unnamed {
        return Err(MoleculeError::Element { atom, number: structure.species[atom] });
    }
    let labels = &structure.labels;
    let forces = labels.forces.iter().flatten().flatten();
    let momenta = structure.momenta.iter().flatten().flatten();
    let stress = labels.stress.iter().flatten().flatten();
    let numbers = [
        ("energy", labels.energy.iter().all(|x| x.is_finite())),
        ("charge", structure.charge.is_finite()),
        ("force", forces.into_iter().all(|x| x.is_finite())),
        ("mass", structure.masses.iter().flatten().all(|x| x.is_finite())),
        ("momentum", momenta.into_iter().all(|x| x.is_finite())),
        ("stress", stress.into_iter().all(|x| x.is_finite())),
        ("partial charge", labels.charges.iter().flatten().all(|x| x.is_finite())),
    ];
    match numbers.into_iter().find(|(_, finite)| !finite) {
        Some((what, _)) => Err(MoleculeError::NotFinite { what }),
        None => Ok(()),
    }
}

/// The number of atoms and the line of pairs.
fn header(text: &mut String, structure: &Structure, columns: &str) {
    let labels = &structure.labels;
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{}", structure.species.len());
    if let Some(cell) = &structure.cell {
        pair(text, "Lattice", &xyz_numbers(cell.rows.iter().flatten()));
    }
    pair(text, "Properties", columns);
    let keys = LabelKeys::default();
    let has = |key: &str| structure.info.contains_key(key);
    // Readers prefer a reference with the same value under another name, so a different `energy` of
    // the file is kept.
    let is_same = |name: &String| {
        let number = structure.info.get(name).and_then(|text| parse_numbers(text));
        number.as_deref() == labels.energy.as_ref().map(std::slice::from_ref)
    };
    let energy = labels.energy.filter(|_| !(has("energy") && keys.energy.iter().any(is_same)));
    if let Some(energy) = energy {
        pair(text, "energy", &format!("{energy:?}"));
    }
    let stress =
        labels.stress.filter(|_| !(has("stress") && keys.stress.iter().any(|key| has(key))));
    if let Some(s) = &stress {
        let by_columns = (0..3).flat_map(|column| s.iter().map(move |row| &row[column]));
        pair(text, "stress", &xyz_numbers(by_columns));
    }
    let is_said =
        keys.charge.iter().any(|key| has(key)) || structure.column(INITIAL_CHARGES).is_some();
    if structure.charge != 0.0 || is_said {
        // Readers take a whole number for an integer, like charges.
        pair(text, "charge", &format!("{}", structure.charge));
    }
    if let Some(cell) = &structure.cell {
        pair(text, "pbc", &cell.periodic.map(|repeats| if repeats { "T" } else { "F" }).join(" "));
    } else if !has("pbc") {
        pair(text, "pbc", "F F F");
    }
    let own = |key: &str| {
        matches!(key, "Properties" | "charge")
            || (structure.cell.is_some() && matches!(key, "Lattice" | "pbc"))
            || (energy.is_some() && key == "energy")
            || (stress.is_some() && key == "stress")
    };
    for (key, value) in structure.info.iter().filter(|(key, _)| !own(key)) {
        pair(text, key, value);
    }
    text.push('\n');
}

/// The columns of a frame.
struct Table<'a> {
    forces: Option<&'a [[f64; 3]]>,
    charges: Option<&'a [f64]>,
    /// Further columns of the structure.
    kept: Vec<&'a Column>,
    more: &'a [XyzColumn<'a>],
}

impl<'a> Table<'a> {
    fn of(structure: &'a Structure, more: &'a [XyzColumn<'a>]) -> Self {
        let keys = LabelKeys::default();
        let labels = &structure.labels;
        let is_kept = |names: &[String], numbers: &[f64]| {
            let columns = names.iter().filter_map(|name| structure.column(name));
            columns.into_iter().any(|column| column.numbers().as_deref() == Some(numbers))
        };
        // As with energies: the file has other forces under this name.
        let has_forces = structure.column("forces").is_some();
        let forces = labels
            .forces
            .as_deref()
            .filter(|forces| !(has_forces && is_kept(&keys.forces, forces.as_flattened())));
        let charges = labels.charges.as_deref();
        let charges = charges.filter(|charges| !is_kept(&keys.charges, charges));
        let is_replaced = |name: &str| {
            (forces.is_some() && name == "forces")
                || (charges.is_some() && name == "charges")
                || more.iter().any(|column| column.name == name)
        };
        let kept = structure.columns.iter().filter(|column| !is_replaced(&column.name));
        Self { forces, charges, kept: kept.collect(), more }
    }

    /// The value of `Properties`.
    fn declaration(&self, structure: &Structure) -> String {
        let mut text = String::from("species:S:1:pos:R:3");
        let held = structure.held.as_deref().map(|held| if is_by_atom(held) { 1 } else { 3 });
        let own = [
            ("momenta:R", structure.momenta.is_some().then_some(3)),
            ("masses:R", structure.masses.is_some().then_some(1)),
            ("move_mask:L", held),
            ("forces:R", self.forces.is_some().then_some(3)),
            ("charges:R", self.charges.is_some().then_some(1)),
        ];
        // Writing to a string cannot fail.
        for (name, width) in own.into_iter().filter_map(|(name, width)| Some((name, width?))) {
            let _ = write!(text, ":{name}:{width}");
        }
        for Column { name, kind, width, .. } in &self.kept {
            let _ = write!(text, ":{name}:{kind}:{width}");
        }
        for XyzColumn { name, width, .. } in self.more {
            let _ = write!(text, ":{name}:R:{width}");
        }
        text
    }

    /// The lines of all atoms.
    fn rows(&self, text: &mut String, structure: &Structure) {
        let by_atom = structure.held.as_deref().is_some_and(is_by_atom);
        let mut kept: Vec<_> = self.kept.iter().map(|column| column.text.lines()).collect();
        for (atom, number) in structure.species.iter().enumerate() {
            text.push_str(symbol(*number).unwrap_or("X"));
            let momentum = structure.momenta.as_ref().map(|rows| rows[atom]);
            let mass = structure.masses.as_ref().map(|masses| masses[atom]);
            let numbers = structure.positions[atom].into_iter();
            let numbers = numbers.chain(momentum.into_iter().flatten()).chain(mass);
            push(text, numbers);
            if let Some(held) = &structure.held {
                for held in &held[atom][..if by_atom { 1 } else { 3 }] {
                    text.push_str(if *held { " F" } else { " T" });
                }
            }
            let force = self.forces.map(|rows| rows[atom]);
            let charge = self.charges.map(|charges| charges[atom]);
            push(text, force.into_iter().flatten().chain(charge));
            for words in kept.iter_mut().filter_map(Iterator::next) {
                text.push(' ');
                text.push_str(words);
            }
            for column in self.more {
                push(text, column.values[atom * column.width..][..column.width].iter().copied());
            }
            text.push('\n');
        }
    }
}

/// Whether whole atoms are fixed.
fn is_by_atom(held: &[[bool; 3]]) -> bool {
    held.iter().all(|[x, y, z]| x == y && y == z)
}

fn push(text: &mut String, numbers: impl Iterator<Item = f64>) {
    for number in numbers {
        let _ = write!(text, " {number:?}");
    }
}

/// Numbers for a file, exact to the last bit.
#[must_use]
pub fn xyz_numbers<'a>(numbers: impl IntoIterator<Item = &'a f64>) -> String {
    let words: Vec<String> = numbers.into_iter().map(|number| format!("{number:?}")).collect();
    words.join(" ")
}

/// Adds a pair, quoted if necessary.
fn pair(text: &mut String, key: &str, value: &str) {
    if !text.ends_with('\n') {
        text.push(' ');
    }
    quoted(text, key);
    text.push('=');
    quoted(text, value);
}

fn quoted(text: &mut String, word: &str) {
    let is_odd = |c: char| {
        c.is_whitespace() || matches!(c, '"' | '\'' | '=' | '\\' | '[' | '{' | ']' | '}' | ',')
    };
    if !word.is_empty() && !word.contains(is_odd) {
        text.push_str(word);
        return;
    }
    text.push('"');
    for c in word.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            // A value cannot contain a line end.
            '\n' | '\r' => text.push(' '),
            c => text.push(c),
        }
    }
    text.push('"');
}
