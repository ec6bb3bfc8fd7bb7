//! Reading, one frame at a time.

use super::Line;
use super::atoms::Columns;
use super::comment::{Entry, Order, entries};
use super::keys::LabelKeys;
use crate::error::MoleculeError;
use crate::structure::{Cell, Structure};
use linwright_data::open_content;
use linwright_files::FileError;
use std::io::{BufRead, Read};
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

impl XyzReader<Box<dyn BufRead + Send>> {
    /// Opens a file, which may be compressed with gzip.
    ///
    /// # Errors
    /// A file that cannot be opened.
    pub fn open(path: &Path, keys: LabelKeys) -> Result<Self, MoleculeError> {
        let content = open_content(path).map_err(FileError::read(path))?;
        Ok(Self::new(path, content, keys))
    }
}

impl<R: BufRead> XyzReader<R> {
    /// A reader of open input, called `path` in messages.
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
        let Header { mut structure, columns, has_charge } = header(&line, &self.keys)?;
        columns.prepare(&mut structure);
        for atom in 0..atoms {
            if !self.advance()? {
                let expected = format!("{atoms} atoms, of which {atom} are there");
                return Err(self.line()?.wrong(0, "", expected));
            }
            columns.read(&self.line()?, &mut structure)?;
        }
        columns.finish(&mut structure, has_charge);
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

/// Content of the line of pairs.
struct Header {
    /// Without atoms.
    structure: Structure,
    columns: Columns,
    /// Whether it has the total charge.
    has_charge: bool,
}

fn header(line: &Line<'_>, keys: &LabelKeys) -> Result<Header, MoleculeError> {
    let (mut structure, mut columns) = (Structure::default(), Columns::plain());
    let found = match line.text.contains("Properties") || line.text.contains("Lattice") {
        true => Some(entries(line)?),
        // Words of a plain comment are not parsed as pairs unless they have that form.
        false => entries(line).ok().filter(|_| line.text.contains('=')),
    };
    let Some(mut entries) = found else {
        let comment = line.text.trim();
        if !comment.is_empty() {
            structure.info.insert("comment".into(), comment.into());
        }
        return Ok(Header { structure, columns, has_charge: false });
    };
    if let Some(entry) = take(&mut entries, "Properties") {
        columns = Columns::declared(&entry, line, keys)?;
    }
    let has_charge = labels(line, entries, keys, &mut structure)?;
    Ok(Header { structure, columns, has_charge })
}

/// Cell, labels and all other pairs, with labels under names that writers do not use; whether there
/// is a charge.
fn labels(
    line: &Line<'_>,
    mut entries: Vec<Entry>,
    keys: &LabelKeys,
    structure: &mut Structure,
) -> Result<bool, MoleculeError> {
    cell(line, &mut entries, structure)?;
    let first = |names: &[String]| {
        names.iter().find_map(|name| entries.iter().find(|entry| entry.key == *name))
    };
    let charge = first(&keys.charge).map(|entry| entry.number(line)).transpose()?;
    structure.charge = charge.unwrap_or(0.0);
    structure.labels.energy = first(&keys.energy).map(|entry| entry.number(line)).transpose()?;
    // Without a volume there is no stress, and a value in the file cannot be compared with
    // anything.
    let volume = structure.cell.map(|cell| cell.volume()).filter(|volume| *volume > 0.0);
    if let Some(volume) = volume {
        let matrix = |entry: &Entry| entry.matrix(line, Order::Columns);
        let stress = first(&keys.stress).map(matrix).transpose()?;
        let virial = first(&keys.virial).map(matrix).transpose()?;
        let of_virial = virial.map(|virial| virial.map(|row| row.map(|x| -x / volume)));
        structure.labels.stress = stress.or(of_virial);
    }
    let is_written = |key: &str| match key {
        "energy" => first(&keys.energy).is_some_and(|entry| entry.key == key),
        "charge" => first(&keys.charge).is_some_and(|entry| entry.key == key),
        "stress" => volume.is_some() && first(&keys.stress).is_some_and(|entry| entry.key == key),
        _ => false,
    };
    let written: Vec<bool> = entries.iter().map(|entry| is_written(&entry.key)).collect();
    let kept = entries.into_iter().zip(written).filter(|(_, is_written)| !is_written);
    structure.info.extend(kept.map(|(entry, _)| (entry.key, entry.value)));
    Ok(charge.is_some())
}

/// Reads `Lattice` and `pbc`. Without a vector that repeats, both are kept as text.
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
