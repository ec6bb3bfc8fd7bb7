//! Reading, one frame at a time.

use super::Line;
use super::atoms::Columns;
use super::comment::{Entry, Order, entries};
use super::keys::LabelKeys;
use crate::error::MoleculeError;
use crate::structure::{Cell, Structure};
use linwright_files::FileError;
use linwright_run::input;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Longest line in bytes.
const LINE_BYTES: usize = 1 << 24;

/// A reader of the frames of a file, in order; an iterator over them. Its memory is one frame.
#[derive(Debug)]
pub struct XyzReader<R> {
    path: PathBuf,
    input: R,
    keys: LabelKeys,
    /// Number of the line in `bytes`, from one.
    number: u64,
    bytes: Vec<u8>,
    failed: bool,
}

/// All frames of a file.
///
/// # Errors
/// A file that cannot be read, or the first place that is not extended XYZ.
pub fn read_xyz(path: &Path, keys: &LabelKeys) -> Result<Vec<Structure>, MoleculeError> {
    XyzReader::open(path, keys.clone())?.collect()
}

impl XyzReader<BufReader<File>> {
    /// Opens a file.
    ///
    /// # Errors
    /// A file that cannot be opened.
    pub fn open(path: &Path, keys: LabelKeys) -> Result<Self, MoleculeError> {
        let file = input::open(path).map_err(FileError::read(path))?;
        Ok(Self::new(path, BufReader::with_capacity(1 << 16, file), keys))
    }
}

impl<R: BufRead> XyzReader<R> {
    /// A reader of open input, which messages call by `path`.
    pub fn new(path: &Path, input: R, keys: LabelKeys) -> Self {
        let path = path.to_owned();
        Self { path, input, keys, number: 0, bytes: Vec::new(), failed: false }
    }

    /// The next frame; none at the end of the file.
    ///
    /// # Errors
    /// As [`read_xyz`].
    pub fn next_frame(&mut self) -> Result<Option<Structure>, MoleculeError> {
        let atoms = loop {
            if !self.advance()? {
                return Ok(None);
            }
            let line = self.line()?;
            let text = line.text.trim();
            // Empty lines between frames are harmless.
            if !text.is_empty() {
                let count: Result<u64, _> = text.parse();
                break count.map_err(|_| line.wrong(0, text, "the number of atoms of a frame"))?;
            }
        };
        if !self.advance()? {
            return Err(self.line()?.wrong(0, "", "the line with keys and values of a frame"));
        }
        let line = Line {
            path: &self.path,
            number: self.number,
            text: text(&self.bytes, &self.path, self.number)?,
        };
        let (mut structure, columns) = header(&line, &self.keys)?;
        columns.prepare(&mut structure);
        for atom in 0..atoms {
            if !self.advance()? {
                let expected = format!("{atoms} atoms, of which {atom} are there");
                return Err(self.line()?.wrong(0, "", expected));
            }
            columns.read(&self.line()?, &mut structure)?;
        }
        Ok(Some(structure))
    }

    /// Reads the next line into memory; false at the end of the file.
    fn advance(&mut self) -> Result<bool, MoleculeError> {
        self.bytes.clear();
        self.number += 1;
        let mut limited = self.input.by_ref().take(LINE_BYTES as u64 + 1);
        limited.read_until(b'\n', &mut self.bytes).map_err(FileError::read(&self.path))?;
        if self.bytes.len() > LINE_BYTES {
            self.bytes.truncate(64);
            let expected = format!("a line of at most {LINE_BYTES} bytes");
            return Err(self.line()?.wrong(0, "a longer one", expected));
        }
        let read = !self.bytes.is_empty();
        while self.bytes.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
            self.bytes.pop();
        }
        Ok(read)
    }

    fn line(&self) -> Result<Line<'_>, MoleculeError> {
        let text = text(&self.bytes, &self.path, self.number)?;
        Ok(Line { path: &self.path, number: self.number, text })
    }
}

impl<R: BufRead> Iterator for XyzReader<R> {
    type Item = Result<Structure, MoleculeError>;

    /// The next frame; nothing after an error.
    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let frame = self.next_frame().transpose();
        self.failed = !matches!(frame, Some(Ok(_)));
        frame
    }
}

fn text<'a>(bytes: &'a [u8], path: &'a Path, number: u64) -> Result<&'a str, MoleculeError> {
    str::from_utf8(bytes).map_err(|error| {
        let valid = str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default();
        let line = Line { path, number, text: valid };
        line.wrong(valid.len(), "bytes that are not UTF-8", "text")
    })
}

/// The line of pairs: a structure without atoms, and its columns.
fn header(line: &Line<'_>, keys: &LabelKeys) -> Result<(Structure, Columns), MoleculeError> {
    let mut structure = Structure::default();
    if !line.text.contains("Properties") && !line.text.contains("Lattice") {
        let comment = line.text.trim();
        // Words of a plain comment are no pairs, unless they are.
        let Some(entries) = entries(line).ok().filter(|_| comment.contains('=')) else {
            if !comment.is_empty() {
                structure.info.insert("comment".into(), comment.into());
            }
            return Ok((structure, Columns::plain()));
        };
        labels(line, entries, keys, &mut structure)?;
        return Ok((structure, Columns::plain()));
    }
    let mut entries = entries(line)?;
    let mut columns = Columns::plain();
    if let Some(entry) = take(&mut entries, "Properties") {
        columns = Columns::declared(&entry, line, keys)?;
    }
    labels(line, entries, keys, &mut structure)?;
    Ok((structure, columns))
}

/// Cell, labels and all other pairs.
fn labels(
    line: &Line<'_>,
    mut entries: Vec<Entry>,
    keys: &LabelKeys,
    structure: &mut Structure,
) -> Result<(), MoleculeError> {
    cell(line, &mut entries, structure)?;
    let mut first = |names: &[String]| names.iter().find_map(|name| take(&mut entries, name));
    let energy = first(&keys.energy);
    let (stress, virial) = (first(&keys.stress), first(&keys.virial));
    let charge = first(&keys.charge);
    structure.labels.energy = energy.map(|entry| entry.number(line)).transpose()?;
    structure.charge = charge.map(|entry| entry.number(line)).transpose()?.unwrap_or(0.0);
    if let Some(entry) = stress {
        structure.labels.stress = Some(entry.matrix(line, Order::Columns)?);
    }
    if let Some(entry) = virial {
        let virial = entry.matrix(line, Order::Columns)?;
        let volume = structure.cell.map_or(0.0, |cell| cell.volume());
        if structure.labels.stress.is_none() {
            if volume == 0.0 {
                return Err(entry.wrong(line, "a cell with a volume for the virial that is there"));
            }
            structure.labels.stress = Some(virial.map(|row| row.map(|x| -x / volume)));
        }
    }
    structure.info.extend(entries.into_iter().map(|entry| (entry.key, entry.value)));
    Ok(())
}

/// Reads `Lattice` and `pbc`. Without a vector that repeats, both stay text.
fn cell(
    line: &Line<'_>,
    entries: &mut Vec<Entry>,
    structure: &mut Structure,
) -> Result<(), MoleculeError> {
    let find = |key: &str| entries.iter().find(|entry| entry.key == key);
    let (lattice, pbc) = (find("Lattice"), find("pbc"));
    let rows = lattice.map(|entry| entry.matrix(line, Order::Rows)).transpose()?;
    let periodic = pbc.map(|entry| entry.flags(line)).transpose()?;
    let periodic = periodic.unwrap_or([rows.is_some(); 3]);
    match (rows, pbc) {
        (Some(rows), _) if periodic != [false; 3] => {
            structure.cell = Some(Cell { rows, periodic });
            take(entries, "Lattice");
            take(entries, "pbc");
        }
        (None, Some(pbc)) if periodic != [false; 3] => {
            return Err(pbc.wrong(line, "a Lattice where vectors repeat, or \"F F F\""));
        }
        _ => {}
    }
    Ok(())
}

fn take(entries: &mut Vec<Entry>, key: &str) -> Option<Entry> {
    let at = entries.iter().position(|entry| entry.key == key)?;
    Some(entries.remove(at))
}
