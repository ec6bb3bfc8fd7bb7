//! The file of log-probabilities that `llama-perplexity --kl-divergence-base` writes and reads.
//!
//! Little-endian, without padding: 8 bytes `_logits_`; as 32-bit integers the window n, the size of
//! the vocabulary v, the number of windows c, and the c·n tokens; then for each window the
//! n - 1 - n/2 predictions of the tokens after its first half. A prediction is an f32 `scale`, an
//! f32 `least`, v 16-bit integers q, rounded up to an even number of them, and stands for the
//! log-probabilities `least + scale·q` in nats: those 16 nats and more below the largest are cut
//! off there. 25 MB a window of 512 for a vocabulary of 49,152.

use linwright_run::atomic::{AtomicFile, OutputError, Replace};
use linwright_run::{input, sha256_hex};
use linwright_tensor::{Mat, parallel};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// First bytes of the file.
const MAGIC: &[u8; 8] = b"_logits_";
/// Bytes before the tokens.
const HEADER: u64 = 20;
/// Nats below the largest log-probability at which others are cut off.
const RANGE: f32 = 16.0;
/// Tokens of the shortest window that has a prediction in its second half.
const LEAST_WINDOW: usize = 3;
/// Numbers of 16 bits before those of the vocabulary in a prediction.
const PREFIX: usize = 4;

/// Why a file of log-probabilities cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LogitsFileError {
    /// An I/O error while reading.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file that cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// A file of another form, or one that ends too early.
    #[error("{}: {reason}; write it again with --save-logits", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong, what was expected and what was found.
        reason: String,
    },
    /// A window of the text that the file does not have.
    #[error(
        "{}: window {window} of the text has other tokens than the file: at position {position} \
         {found} for {expected}; use the text and the tokenizer that it was made with", path.display()
    )]
    OtherTokens {
        /// The file.
        path: PathBuf,
        /// Number of the window, from 0.
        window: usize,
        /// Position in the window.
        position: usize,
        /// Token of the text.
        found: u32,
        /// Token of the file.
        expected: u32,
    },
    /// Other windows, or another vocabulary, than the file has.
    #[error("{}: {what}: {found}, the file has {expected}", path.display())]
    OtherShape {
        /// The file.
        path: PathBuf,
        /// What differs.
        what: &'static str,
        /// In the model or the text.
        found: usize,
        /// In the file.
        expected: usize,
    },
}

/// Sizes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sizes {
    window: usize,
    vocab: usize,
    windows: usize,
}

impl Sizes {
    /// Predictions of a window.
    fn rows(self) -> usize {
        self.window - 1 - self.window / 2
    }

    /// Bytes of a prediction.
    fn row_bytes(self) -> usize {
        2 * (PREFIX + self.vocab.next_multiple_of(2))
    }

    /// Bytes of the file.
    fn bytes(self) -> u64 {
        let tokens = 4 * (self.windows as u64) * self.window as u64;
        HEADER + tokens + self.windows as u64 * (self.rows() as u64) * self.row_bytes() as u64
    }
}

/// A file of log-probabilities that is open for reading.
#[derive(Debug)]
pub struct LogitsFile {
    path: PathBuf,
    file: File,
    sizes: Sizes,
    tokens: Vec<u32>,
    /// SHA-256 of header, tokens and the predictions of the first window.
    digest: String,
}

impl LogitsFile {
    /// Whether a path is a file that begins like one.
    #[must_use]
    pub fn is_one(path: &Path) -> bool {
        let mut start = [0; MAGIC.len()];
        let read = input::open(path).and_then(|mut file| file.read_exact(&mut start));
        read.is_ok() && &start == MAGIC
    }

    /// Opens a file and reads its tokens; its length is checked before.
    ///
    /// # Errors
    /// [`LogitsFileError::Read`], [`LogitsFileError::Malformed`].
    pub fn open(path: &Path) -> Result<Self, LogitsFileError> {
        let failed = |source| LogitsFileError::Read { path: path.to_owned(), source };
        let malformed =
            |reason: String| LogitsFileError::Malformed { path: path.to_owned(), reason };
        let mut file = input::open(path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        let mut header = [0; HEADER as usize];
        if length < HEADER {
            return Err(malformed(format!("expected at least {HEADER} bytes, found {length}")));
        }
        file.read_exact(&mut header).map_err(failed)?;
        if &header[..MAGIC.len()] != MAGIC {
            return Err(malformed("it does not begin with `_logits_`".into()));
        }
        let number = |index: usize| {
            let start = MAGIC.len() + 4 * index;
            u32::from_le_bytes([0, 1, 2, 3].map(|byte| header[start + byte]))
        };
        let [window, vocab, windows] = [number(0), number(1), number(2)].map(|n| n as usize);
        if window < LEAST_WINDOW || vocab == 0 || windows == 0 {
            return Err(malformed(format!(
                "expected windows of at least {LEAST_WINDOW} tokens and a vocabulary, found {windows} windows \
                 of {window} tokens and a vocabulary of {vocab}"
            )));
        }
        let sizes = Sizes { window, vocab, windows };
        // Three numbers of 32 bits: their product may need more than 64.
        let rows = (windows as u128) * sizes.rows() as u128 * sizes.row_bytes() as u128;
        let expected = u128::from(HEADER) + 4 * (windows as u128) * window as u128 + rows;
        if u128::from(length) != expected {
            return Err(malformed(format!(
                "{windows} windows of {window} tokens and a vocabulary of {vocab} take {expected} \
                 bytes, found {length}"
            )));
        }
        let mut bytes = vec![0; 4 * windows * window];
        file.read_exact(&mut bytes).map_err(failed)?;
        let token = |bytes: &[u8]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let tokens: Vec<u32> = bytes.chunks_exact(4).map(token).collect();
        if let Some(token) = tokens.iter().find(|token| **token as usize >= vocab) {
            return Err(malformed(format!("token {token} of a vocabulary of {vocab}")));
        }
        let mut first = vec![0; sizes.rows() * sizes.row_bytes()];
        file.read_exact(&mut first).map_err(failed)?;
        let digest = sha256_hex(&[&header[..], &bytes, &first].concat());
        Ok(Self { path: path.to_owned(), file, sizes, tokens, digest })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// SHA-256 of header, tokens and the predictions of the first window: predictions of gigabytes
    /// are not read twice.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Tokens of a window.
    #[must_use]
    pub fn window(&self) -> usize {
        self.sizes.window
    }

    /// Number of windows.
    #[must_use]
    pub fn windows(&self) -> usize {
        self.sizes.windows
    }

    /// Size of the vocabulary.
    #[must_use]
    pub fn vocab(&self) -> usize {
        self.sizes.vocab
    }

    /// Checks the size of the vocabulary of a model.
    ///
    /// # Errors
    /// [`LogitsFileError::OtherShape`].
    pub fn check_vocab(&self, found: usize) -> Result<(), LogitsFileError> {
        if found == self.sizes.vocab {
            return Ok(());
        }
        let (path, expected) = (self.path.clone(), self.sizes.vocab);
        let what = "size of the vocabulary";
        Err(LogitsFileError::OtherShape { path, what, found, expected })
    }

    /// Checks that a window of a text has the tokens of the file; the first of each may be the
    /// beginning-of-sequence token in place of that of the text.
    ///
    /// # Errors
    /// [`LogitsFileError::OtherTokens`], [`LogitsFileError::OtherShape`].
    pub fn check_tokens(&self, window: usize, tokens: &[u32]) -> Result<(), LogitsFileError> {
        let other = |what, found, expected| {
            Err(LogitsFileError::OtherShape { path: self.path.clone(), what, found, expected })
        };
        if window >= self.sizes.windows {
            return other("windows of the text", window + 1, self.sizes.windows);
        }
        if tokens.len() != self.sizes.window {
            return other("tokens of a window", tokens.len(), self.sizes.window);
        }
        let own = &self.tokens[window * self.sizes.window..][..self.sizes.window];
        match (1..tokens.len()).find(|at| tokens[*at] != own[*at]) {
            None => Ok(()),
            Some(position) => Err(LogitsFileError::OtherTokens {
                path: self.path.clone(),
                window,
                position,
                found: tokens[position],
                expected: own[position],
            }),
        }
    }

    /// Log-probabilities (predictions, vocab) of the tokens after the first half of a window, in
    /// nats.
    ///
    /// # Errors
    /// [`LogitsFileError::Read`]; [`LogitsFileError::Malformed`] if a number is not finite.
    ///
    /// # Panics
    /// If there is no such window.
    pub fn log_probabilities(&self, window: usize) -> Result<Mat<f32>, LogitsFileError> {
        let sizes = self.sizes;
        assert!(window < sizes.windows, "a window of the file");
        let failed = |source| LogitsFileError::Read { path: self.path.clone(), source };
        let mut bytes = vec![0; sizes.rows() * sizes.row_bytes()];
        let tokens = 4 * (sizes.windows as u64) * sizes.window as u64;
        let place = HEADER + tokens + window as u64 * bytes.len() as u64;
        let mut file = &self.file;
        file.seek(SeekFrom::Start(place)).map_err(failed)?;
        file.read_exact(&mut bytes).map_err(failed)?;
        let mut rows = Mat::zeros(sizes.rows(), sizes.vocab);
        let work: Vec<_> =
            bytes.chunks_exact(sizes.row_bytes()).zip(rows.view_mut().row_blocks(1)).collect();
        let are_finite = parallel::map(work, |_, (bytes, mut row)| {
            let float = |at: usize| f32::from_le_bytes([0, 1, 2, 3].map(|byte| bytes[at + byte]));
            let (scale, least) = (float(0), float(4));
            let stored = bytes[2 * PREFIX..].chunks_exact(2);
            for (value, q) in row.row_mut(0).iter_mut().zip(stored) {
                *value = scale * f32::from(u16::from_le_bytes([q[0], q[1]])) + least;
            }
            scale.is_finite() && least.is_finite()
        });
        if are_finite.iter().all(|is_finite| *is_finite) {
            return Ok(rows);
        }
        let reason = format!("window {window} has log-probabilities that are not finite");
        Err(LogitsFileError::Malformed { path: self.path.clone(), reason })
    }
}

/// A file of log-probabilities that is being written; it has its name when it is complete.
#[derive(Debug)]
pub struct LogitsWriter {
    path: PathBuf,
    file: AtomicFile,
    sizes: Sizes,
    /// Windows written.
    done: usize,
}

impl LogitsWriter {
    /// Begins a file for these windows, all of one length.
    ///
    /// # Errors
    /// [`LogitsFileError::Output`]; [`LogitsFileError::OtherShape`] if there is no window of at
    /// least 3 tokens, or they differ in length.
    pub fn create(
        path: &Path,
        replace: Replace,
        vocab: usize,
        windows: &[&[u32]],
    ) -> Result<Self, LogitsFileError> {
        let window = windows.first().map_or(0, |tokens| tokens.len());
        let mut lengths = windows.iter().map(|tokens| tokens.len());
        let other = match window < LEAST_WINDOW {
            true => Some(window),
            false => lengths.find(|length| *length != window),
        };
        if let Some(found) = other {
            let (path, what) = (path.to_owned(), "tokens of a window");
            let expected = window.max(LEAST_WINDOW);
            return Err(LogitsFileError::OtherShape { path, what, found, expected });
        }
        let sizes = Sizes { window, vocab, windows: windows.len() };
        let mut file = AtomicFile::create(path, replace)?.limit(sizes.bytes());
        let mut start = MAGIC.to_vec();
        for number in [window, vocab, windows.len()] {
            start.extend((number as u32).to_le_bytes());
        }
        let tokens = windows.iter().flat_map(|tokens| tokens.iter());
        start.extend(tokens.flat_map(|token| token.to_le_bytes()));
        file.write(&start)?;
        Ok(Self { path: path.to_owned(), file, sizes, done: 0 })
    }

    /// Writes the logits (predictions, vocab) of the next window.
    ///
    /// # Errors
    /// [`LogitsFileError::Output`].
    ///
    /// # Panics
    /// If the shape is not that of the file, or all windows are written.
    pub fn write(&mut self, logits: &Mat<f32>) -> Result<(), LogitsFileError> {
        assert_eq!((logits.rows(), logits.cols()), (self.sizes.rows(), self.sizes.vocab), "shape");
        assert!(self.done < self.sizes.windows, "all windows are written");
        let rows: Vec<usize> = (0..logits.rows()).collect();
        let rows = parallel::map(rows, |_, row| stored(logits.row(row)));
        self.file.write(&rows.concat())?;
        self.done += 1;
        Ok(())
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// [`LogitsFileError::Output`]; [`LogitsFileError::OtherShape`] if windows are missing.
    pub fn commit(self) -> Result<(), LogitsFileError> {
        if self.done < self.sizes.windows {
            return Err(LogitsFileError::OtherShape {
                path: self.path,
                what: "windows written",
                found: self.done,
                expected: self.sizes.windows,
            });
        }
        Ok(self.file.commit()?)
    }
}

/// A prediction as it is stored.
fn stored(logits: &[f32]) -> Vec<u8> {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let smallest = logits.iter().copied().fold(f32::INFINITY, f32::min);
    let smallest = smallest.max(largest - RANGE);
    let sum: f64 = logits.iter().map(|logit| f64::from((logit - largest).exp())).sum();
    let scale = (largest - smallest) / 65_535.0;
    let least = smallest - largest - sum.ln() as f32;
    let mut bytes = Vec::with_capacity(2 * (PREFIX + logits.len() + 1));
    bytes.extend(scale.to_le_bytes());
    bytes.extend(least.to_le_bytes());
    // Equal logits have the scale zero.
    let steps = if scale > 0.0 { 1.0 / scale } else { 0.0 };
    for logit in logits {
        let above = (steps * (logit - smallest)).max(0.0);
        bytes.extend((above.round_ties_even() as u16).to_le_bytes());
    }
    if logits.len() % 2 == 1 {
        bytes.extend([0, 0]);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_tensor::RngKey;

    const VOCAB: usize = 301;

    fn logits(seed: u64) -> Mat<f32> {
        Mat::from_vec(3, VOCAB, RngKey::new(seed).stream().normals(3 * VOCAB, 5.0))
    }

    fn written(folder: &Path) -> PathBuf {
        let path = folder.join("base.kld");
        let windows: [&[u32]; 2] = [&[0, 1, 2, 3, 4, 5, 6, 7], &[8, 9, 10, 11, 12, 13, 14, 300]];
        let mut writer = LogitsWriter::create(&path, Replace::Nothing, VOCAB, &windows).unwrap();
        writer.write(&logits(1)).unwrap();
        assert!(!path.exists(), "it has no name before it is complete");
        writer.write(&logits(2)).unwrap();
        writer.commit().unwrap();
        path
    }

    #[test]
    fn what_was_written_is_read_to_the_step_of_16_bits() {
        let folder = tempfile::tempdir().unwrap();
        let path = written(folder.path());
        assert!(LogitsFile::is_one(&path));
        let file = LogitsFile::open(&path).unwrap();
        assert_eq!((file.window(), file.windows(), file.vocab()), (8, 2, VOCAB));
        file.check_tokens(1, &[0, 9, 10, 11, 12, 13, 14, 300]).unwrap();
        for window in 0..2 {
            let (found, logits) =
                (file.log_probabilities(window).unwrap(), logits(1 + window as u64));
            for i in 0..3 {
                let wide: Vec<f64> = logits.row(i).iter().map(|z| f64::from(*z)).collect();
                let sum = wide.iter().map(|z| z.exp()).sum::<f64>().ln();
                let largest = wide.iter().copied().fold(f64::MIN, f64::max);
                for (found, z) in found.row(i).iter().zip(&wide) {
                    let want = z.max(largest - 16.0) - sum;
                    let error = (f64::from(*found) - want).abs();
                    // Half a step, and roundings of f32.
                    assert!(error < 0.5 * 16.0 / 65_535.0 + 1e-5, "{found} is not {want}");
                }
            }
        }
    }

    #[test]
    fn other_tokens_windows_and_damages_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = written(folder.path());
        let file = LogitsFile::open(&path).unwrap();
        let told = |error: LogitsFileError| error.to_string();
        let other = told(file.check_tokens(0, &[0, 1, 2, 9, 4, 5, 6, 7]).unwrap_err());
        assert!(other.contains("window 0") && other.contains("position 3 9 for 3"), "{other}");
        let more = told(file.check_tokens(2, &[0; 8]).unwrap_err());
        assert!(more.contains("windows of the text: 3, the file has 2"), "{more}");
        let bytes = std::fs::read(&path).unwrap();
        let damaged = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = bytes.clone();
            change(&mut bytes);
            let path = folder.path().join("damaged");
            std::fs::write(&path, &bytes).unwrap();
            LogitsFile::open(&path).and_then(|file| file.log_probabilities(1))
        };
        assert!(damaged(&|_| ()).is_ok());
        for (change, expected) in [
            (&(|bytes: &mut Vec<u8>| bytes.truncate(7)) as &dyn Fn(&mut Vec<u8>), "at least 20"),
            (&|bytes| bytes[0] = b'x', "does not begin"),
            (&|bytes| bytes.truncate(2000), "take"),
            (&|bytes| bytes.push(0), "take"),
            (&|bytes| bytes[8..12].copy_from_slice(&[0xff; 4]), "take"),
            (&|bytes| bytes[16..20].copy_from_slice(&[0; 4]), "0 windows"),
            (&|bytes| bytes[20..24].copy_from_slice(&[0xff; 4]), "token 4294967295"),
        ] {
            let message = told(damaged(change).unwrap_err());
            assert!(message.contains(expected), "{message}");
        }
        let row = 2 * (PREFIX + VOCAB + 1);
        let nan = damaged(&|bytes| {
            let start = bytes.len() - row;
            bytes[start..start + 4].copy_from_slice(&f32::NAN.to_le_bytes());
        });
        assert!(told(nan.unwrap_err()).contains("not finite"));
    }

    #[test]
    fn an_unfinished_file_has_no_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("base.kld");
        let windows: [&[u32]; 2] = [&[0; 8], &[1; 8]];
        let mut writer = LogitsWriter::create(&path, Replace::Nothing, VOCAB, &windows).unwrap();
        writer.write(&logits(1)).unwrap();
        let message = writer.commit().unwrap_err().to_string();
        assert!(message.contains("windows written: 1, the file has 2"), "{message}");
        assert!(!path.exists());
        let short: [&[u32]; 1] = [&[0; 2]];
        assert!(LogitsWriter::create(&path, Replace::Nothing, VOCAB, &short).is_err());
    }

    #[test]
    fn equal_logits_are_equal_log_probabilities() {
        let bytes = stored(&[2.5; 4]);
        assert_eq!(bytes[..4], [0; 4]);
        let least = f32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        assert!((least + 4.0_f32.ln()).abs() < 1e-6);
    }
}
