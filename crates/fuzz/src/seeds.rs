//! Seeds of a target, and the words of its format.

use crate::targets::Target;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// File name of the list of words.
const TOKENS: &str = "tokens.txt";

/// Seeds of a target.
#[derive(Clone, Debug, Default)]
pub struct Seeds {
    /// The inputs, sorted by name.
    pub inputs: Vec<Vec<u8>>,
    /// Words of the format.
    pub tokens: Vec<Vec<u8>>,
}

/// The folder that holds `testdata`.
#[must_use]
pub fn repository_root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

impl Seeds {
    /// Reads the seeds of a target from `testdata`, and those that earlier runs wrote to `found`.
    ///
    /// # Errors
    /// If a folder cannot be read, or there are no seeds.
    pub fn read(target: &Target, root: &Path, found: Option<&Path>) -> io::Result<Self> {
        let mut seeds = Self::default();
        let own = root.join("testdata/fuzz").join(target.name);
        let folders = target.seeds.iter().map(|folder| root.join("testdata").join(folder));
        for folder in [own].into_iter().chain(folders).chain(found.map(Path::to_owned)) {
            if folder.is_dir() {
                seeds.read_folder(&folder)?;
            } else if folder.is_file() {
                seeds.inputs.push(fs::read(&folder)?);
            }
        }
        if seeds.inputs.is_empty() {
            return Err(io::Error::other(format!("no seeds of {} in testdata/fuzz", target.name)));
        }
        Ok(seeds)
    }

    fn read_folder(&mut self, folder: &Path) -> io::Result<()> {
        let entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
        let mut paths: Vec<PathBuf> = entries.collect::<io::Result<_>>()?;
        paths.sort();
        for path in paths.into_iter().filter(|path| path.is_file()) {
            let bytes = fs::read(&path)?;
            if path.file_name().is_some_and(|name| name == TOKENS) {
                let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
                self.tokens.extend(lines.map(unescaped));
            } else {
                self.inputs.push(bytes);
            }
        }
        Ok(())
    }
}

/// The bytes of a line with `\n`, `\\` and `\x41` in it.
fn unescaped(line: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = line;
    loop {
        rest = match rest {
            [] => return bytes,
            [b'\\', b'n', after @ ..] => {
                bytes.push(b'\n');
                after
            }
            [b'\\', b'\\', after @ ..] => {
                bytes.push(b'\\');
                after
            }
            [b'\\', b'x', high, low, after @ ..] => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16).unwrap_or(0) as u8;
                bytes.push(digit(high) * 16 + digit(low));
                after
            }
            [byte, after @ ..] => {
                bytes.push(*byte);
                after
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_bytes() {
        assert_eq!(unescaped(br"a\n\x41\\\x00z"), b"a\nA\\\0z");
    }
}
