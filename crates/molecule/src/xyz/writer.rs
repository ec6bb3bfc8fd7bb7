//! Writing, one frame at a time.

use super::keys::LabelKeys;
use crate::error::MoleculeError;
use crate::species::symbol;
use crate::structure::Structure;
use linwright_run::atomic::{self, Replace};
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;

/// A writer of frames, in the order in which they come.
#[derive(Debug)]
pub struct XyzWriter<W> {
    out: W,
    text: String,
}

/// Numbers of every atom that are no labels of a structure, such as deviations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct XyzColumn<'a> {
    /// Its name in the file, without colons.
    pub name: &'a str,
    /// Numbers of an atom.
    pub width: usize,
    /// Those of all atoms, in order.
    pub values: &'a [f64],
}

/// Writes all frames of a file, atomically.
///
/// # Errors
/// A structure with values that a file cannot hold, or an error of the system.
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

    /// Writes a frame: its labels as `energy`, `stress`, `charge`, `momenta`, `forces` and
    /// `charges`, all numbers so that they are read back to the last bit.
    ///
    /// # Errors
    /// A structure with values that a file cannot hold, or an error of the system.
    pub fn frame(&mut self, structure: &Structure) -> Result<(), MoleculeError> {
        self.frame_with(structure, &[])
    }

    /// Writes a frame as [`Self::frame`] does, with further columns, which readers of structures
    /// read over.
    ///
    /// # Errors
    /// As [`Self::frame`].
    ///
    /// # Panics
    /// If a column has no numbers, or not those of every atom.
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
        header(&mut self.text, structure, columns);
        for atom in 0..atoms {
            row(&mut self.text, structure, columns, atom);
        }
        self.out.write_all(self.text.as_bytes()).map_err(|source| MoleculeError::Output { source })
    }

    /// What was written to.
    pub fn into_inner(self) -> W {
        self.out
    }

    /// Passes on what is buffered.
    ///
    /// # Errors
    /// An error of the system.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Checks what a reader would refuse.
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
fn header(text: &mut String, structure: &Structure, more: &[XyzColumn<'_>]) {
    let labels = &structure.labels;
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{}", structure.species.len());
    if let Some(cell) = &structure.cell {
        pair(text, "Lattice", &words(cell.rows.iter().flatten()));
    }
    let mut columns = String::from("species:S:1:pos:R:3");
    if structure.momenta.is_some() {
        columns += ":momenta:R:3";
    }
    if labels.forces.is_some() {
        columns += ":forces:R:3";
    }
    if labels.charges.is_some() {
        columns += ":charges:R:1";
    }
    for XyzColumn { name, width, .. } in more {
        let _ = write!(columns, ":{name}:R:{width}");
    }
    pair(text, "Properties", &columns);
    if let Some(energy) = labels.energy {
        pair(text, "energy", &format!("{energy:?}"));
    }
    if let Some(s) = &labels.stress {
        let by_columns = (0..3).flat_map(|column| s.iter().map(move |row| &row[column]));
        pair(text, "stress", &words(by_columns));
    }
    let has = |key: &str| structure.info.contains_key(key);
    if structure.charge != 0.0 {
        // Readers take a whole number for an integer, as charges are.
        pair(text, "charge", &format!("{}", structure.charge));
    }
    if let Some(cell) = &structure.cell {
        pair(text, "pbc", &cell.periodic.map(|repeats| if repeats { "T" } else { "F" }).join(" "));
    } else if !has("pbc") {
        pair(text, "pbc", "F F F");
    }
    // What a reader would take for other values of the same labels.
    let keys = LabelKeys::default();
    let is_in = |names: &[String], key: &str| names.iter().any(|name| name == key);
    let own = |key: &str| {
        key == "Properties"
            || is_in(&keys.charge, key)
            || (structure.cell.is_some() && matches!(key, "Lattice" | "pbc"))
            || (labels.energy.is_some() && key == "energy")
            || (labels.stress.is_some() && (key == "stress" || is_in(&keys.virial, key)))
    };
    for (key, value) in structure.info.iter().filter(|(key, _)| !own(key)) {
        pair(text, key, value);
    }
    text.push('\n');
}

/// The line of an atom.
fn row(text: &mut String, structure: &Structure, more: &[XyzColumn<'_>], atom: usize) {
    text.push_str(symbol(structure.species[atom]).unwrap_or("X"));
    let labels = &structure.labels;
    let of = |rows: &Option<Vec<[f64; 3]>>| rows.as_ref().map(|rows| rows[atom]);
    let others = [of(&structure.momenta), of(&labels.forces)];
    let charge = labels.charges.as_ref().map(|charges| charges[atom]);
    let vectors = structure.positions[atom].into_iter();
    let vectors = vectors.chain(others.into_iter().flatten().flatten());
    let more = more.iter().flat_map(|column| &column.values[atom * column.width..][..column.width]);
    for number in vectors.chain(charge).chain(more.copied()) {
        let _ = write!(text, " {number:?}");
    }
    text.push('\n');
}

fn words<'a>(numbers: impl Iterator<Item = &'a f64>) -> String {
    let words: Vec<String> = numbers.map(|number| format!("{number:?}")).collect();
    words.join(" ")
}

/// Adds a pair, in quotes where it needs them.
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
            // A line cannot hold the end of one.
            '\n' | '\r' => text.push(' '),
            c => text.push(c),
        }
    }
    text.push('"');
}
