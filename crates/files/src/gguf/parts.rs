//! A model in one GGUF file or in several, as read by llama.cpp.
//!
//! The parts of a split model are in the same folder and are called `NAME-00001-of-00003.gguf`. The
//! first has the metadata of the model; each has its number (`split.no`, from zero), their number
//! (`split.count`) and the number of tensors in all of them (`split.tensors.count`).

use super::fault::ContainerFault;
use super::header::{Header, StoredTensor, parse, wrong_type};
use crate::{FileError, FileFault};
use linwright_run::input;
use linwright_tensor::MappedFile;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Number of a part, from zero.
const NUMBER: &str = "split.no";
/// Number of parts.
const COUNT: &str = "split.count";
/// Number of tensors in all parts.
const TENSORS: &str = "split.tensors.count";
/// End of the name of a part.
const ENDING: &str = ".gguf";

/// The mapped files of a model, with one checked header.
#[derive(Debug)]
pub struct GgufFile {
    parts: Vec<(PathBuf, MappedFile)>,
    header: Header,
}

/// Metadata of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Split {
    number: u64,
    count: u64,
    tensors: Option<u64>,
}

impl GgufFile {
    /// Opens a file, or all parts of a model if it is one of them, and checks everything but the
    /// values of the tensors.
    ///
    /// # Errors
    /// [`FileError::Read`] or [`FileError::Malformed`] with the part.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        let (map, header) = open_one(path)?;
        let malformed = |path: &Path, fault: ContainerFault| FileError::Malformed {
            path: path.into(),
            fault: FileFault::Container(fault),
        };
        let Some(split) = Split::of(&header).map_err(|fault| malformed(path, fault))? else {
            return Ok(Self { parts: vec![(path.into(), map)], header });
        };
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let prefix = prefix_of(name, split).map_err(|fault| malformed(path, fault))?;
        let mut given = Some((map, header));
        let mut whole = Self { parts: Vec::new(), header: Header::default() };
        for number in 0..split.count {
            let beside = path.with_file_name(part_name(prefix, number, split.count));
            let (beside, (map, header)) = match given.take() {
                Some(given) if number == split.number => (path.to_owned(), given),
                kept => {
                    given = kept;
                    if !beside.exists() {
                        let fault = ContainerFault::MissingPart {
                            number: number + 1,
                            count: split.count,
                            of: name.to_owned(),
                        };
                        return Err(malformed(&beside, fault));
                    }
                    let opened = open_one(&beside)?;
                    (beside, opened)
                }
            };
            let expected = Split { number, ..split };
            let added = expected
                .check(&header, name)
                .and_then(|()| whole.add(header, number))
                .map_err(|fault| malformed(&beside, fault));
            added?;
            whole.parts.push((beside, map));
        }
        match split.tensors {
            Some(expected) if expected != whole.header.tensors.len() as u64 => {
                let found = whole.header.tensors.len() as u64;
                let fault = ContainerFault::PartTensors { count: split.count, found, expected };
                Err(malformed(path, fault))
            }
            _ => Ok(whole),
        }
    }

    /// Adds the tensors of a part; the first also has the metadata.
    fn add(&mut self, header: Header, number: u64) -> Result<(), ContainerFault> {
        let part = self.parts.len();
        if number == 0 {
            self.header = Header { tensors: std::mem::take(&mut self.header.tensors), ..header };
            // The combined header does not describe a part.
            self.header.metadata.retain(|key, _| ![NUMBER, COUNT, TENSORS].contains(&key.as_str()));
        }
        for (name, tensor) in header.tensors {
            let tensor = StoredTensor { part, ..tensor };
            if let Some(other) = self.header.tensors.insert(name.clone(), tensor) {
                return Err(ContainerFault::TwoParts { name, first: other.part as u64 + 1 });
            }
        }
        Ok(())
    }

    /// The combined header: metadata of the first part, tensors of all.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The path of each part.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.parts.iter().map(|(path, _)| path.as_path())
    }

    /// The path of the part that holds a tensor.
    #[must_use]
    pub fn path_of(&self, tensor: &StoredTensor) -> &Path {
        &self.parts[tensor.part].0
    }

    /// The bytes of each part.
    #[must_use]
    pub fn bytes(&self) -> Vec<&[u8]> {
        self.parts.iter().map(|(_, map)| map.bytes()).collect()
    }

    /// The bytes of one part.
    #[must_use]
    pub fn part(&self, part: usize) -> &[u8] {
        self.parts[part].1.bytes()
    }

    /// Releases the pages of a byte range of a part.
    pub fn release(&self, part: usize, range: Range<usize>) {
        self.parts[part].1.release(range);
    }
}

impl Split {
    /// Metadata about parts in a header; none for a whole model.
    fn of(header: &Header) -> Result<Option<Self>, ContainerFault> {
        let number = |key: &str| {
            let expected = "a whole number";
            let value = header.metadata.get(key);
            value
                .map(|value| value.as_u64().ok_or_else(|| wrong_type(key, value, expected)))
                .transpose()
        };
        let Some(count) = number(COUNT)?.filter(|count| *count > 1) else { return Ok(None) };
        let wrong = |key: &str, found: String, expected| {
            Err(ContainerFault::Key { key: key.to_owned(), found, expected })
        };
        if count > u64::from(u16::MAX) {
            return wrong(COUNT, count.to_string(), "at most 65535 parts");
        }
        match number(NUMBER)? {
            Some(own) if own < count => {
                Ok(Some(Self { number: own, count, tensors: number(TENSORS)? }))
            }
            Some(own) => wrong(NUMBER, own.to_string(), "a number below split.count"),
            None => wrong(NUMBER, "missing".into(), "the number of this part, from 0"),
        }
    }

    /// Checks that a header belongs to this part; `name` is that of the part that refers to it.
    fn check(self, header: &Header, name: &str) -> Result<(), ContainerFault> {
        let found = Self::of(header)?;
        let own = |split: Option<Self>| match split {
            Some(Self { number, count, .. }) => format!("part {} of {count}", number + 1),
            None => "a whole model".to_owned(),
        };
        let same = |found: Self| (found.number, found.count) == (self.number, self.count);
        if !found.is_some_and(same) {
            let (found, expected) = (own(found), own(Some(self)));
            return Err(ContainerFault::WrongPart { found, expected, of: name.to_owned() });
        }
        match found {
            Some(found) if found.tensors != self.tensors => {
                let all = |tensors: Option<u64>| match tensors {
                    Some(tensors) => format!("a part of a model of {tensors} tensors"),
                    None => "a part of a model of unknown size".to_owned(),
                };
                let (found, expected) = (all(found.tensors), all(self.tensors));
                Err(ContainerFault::WrongPart { found, expected, of: name.to_owned() })
            }
            _ => Ok(()),
        }
    }
}

fn open_one(path: &Path) -> Result<(MappedFile, Header), FileError> {
    let map = input::open(path).and_then(MappedFile::of).map_err(FileError::read(path))?;
    let header = parse(map.bytes()).map_err(|fault| FileError::Malformed {
        path: path.into(),
        fault: FileFault::Container(fault),
    })?;
    Ok((map, header))
}

/// Name of a part, of which the first has the number 0.
fn part_name(prefix: &str, number: u64, count: u64) -> String {
    format!("{prefix}-{:05}-of-{count:05}{ENDING}", number + 1)
}

/// Common prefix of the names of all parts.
fn prefix_of(name: &str, split: Split) -> Result<&str, ContainerFault> {
    let ending = part_name("", split.number, split.count);
    name.strip_suffix(&ending).filter(|prefix| !prefix.is_empty()).ok_or_else(|| {
        ContainerFault::PartName {
            found: name.to_owned(),
            number: split.number + 1,
            count: split.count,
            expected: format!("NAME{ending}"),
        }
    })
}

/// The first part, if the files of a folder are the parts of one model.
#[must_use]
pub fn one_split_model(files: &[PathBuf]) -> Option<&Path> {
    let parsed = |path: &PathBuf| {
        let name = path.file_name()?.to_str()?.strip_suffix(ENDING)?;
        let (rest, count) = name.rsplit_once("-of-")?;
        let (prefix, number) = rest.rsplit_once('-')?;
        let number_of = |text: &str| match text.len() == 5 {
            true => text.parse::<u64>().ok(),
            false => None,
        };
        Some((prefix.to_owned(), number_of(number)?, number_of(count)?))
    };
    let mut all = files.iter().map(|path| Some((parsed(path)?, path)));
    let ((prefix, number, count), path) = all.next()??;
    let mut first = (number, path);
    for one in all {
        let ((of, number, parts), path) = one?;
        if of != prefix || parts != count {
            return None;
        }
        first = first.min((number, path));
    }
    Some(first.1)
}

#[cfg(test)]
mod tests;
