//! Checks that texts fit in memory, before they are read and before they are tokenized: a tokenizer
//! needs many times the size of a text.

use crate::{Request, Task};
use linwright_data::{Format, content_bytes};
use std::path::Path;

/// Bytes of a pass independent of the batch size: blocks of logits, tables, threads.
const FIXED_BYTES: u64 = 96_000_000;
/// Bytes of memory per byte of the text that is tokenized; 115 were measured for English.
const WHILE_TOKENIZED: u64 = 160;
/// Bytes of memory per byte of all texts: tokens of the windows and the responses to them.
const OF_ALL: u64 = 24;
/// Bytes of memory per byte of a file while it is read.
const WHILE_READ: u64 = 3;

/// Sizes of the texts of tasks, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    longest: u64,
    all: u64,
}

/// Texts that do not fit in the allowed memory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: more than {allowed} bytes allow")]
pub struct NoRoom {
    /// The text or file.
    pub what: String,
    /// Bytes allowed.
    pub allowed: u64,
    /// Bytes needed.
    pub needed: u64,
}

/// Rejects files that are too large to be read or, if they are one document, to be tokenized. For
/// gzip files, the decompressed size counts.
///
/// # Errors
/// [`NoRoom`].
pub fn check_files<'p>(
    paths: impl IntoIterator<Item = &'p Path>,
    allowed: u64,
) -> Result<(), NoRoom> {
    for path in paths {
        // Other paths are rejected by their readers.
        let Ok(bytes) = content_bytes(path) else { continue };
        let is_document = Format::of(path) == Format::Text;
        let factor = if is_document { WHILE_READ + WHILE_TOKENIZED } else { WHILE_READ };
        let needed = bytes.saturating_mul(factor);
        if needed > allowed {
            let what = format!("{} has {bytes} bytes", path.display());
            return Err(NoRoom { what, allowed, needed });
        }
    }
    Ok(())
}

impl Texts {
    /// Sizes of the texts of all tasks.
    #[must_use]
    pub fn of(tasks: &[Box<dyn Task>]) -> Self {
        let mut texts = Self::default();
        for task in tasks {
            for item in task.items() {
                for request in &item.requests {
                    let bytes = match request {
                        Request::LogLikelihood { context, continuation, .. } => {
                            context.len() + continuation.len()
                        }
                        Request::Rolling { text, .. } => text.len(),
                        Request::Similarity(texts) => {
                            texts.iter().map(|text| text.len()).max().unwrap_or(0)
                        }
                        Request::Generate { context, .. } => context.len(),
                        Request::Cloze(cloze) => {
                            cloze.context.len() + cloze.before.len() + cloze.after.len()
                        }
                    } as u64;
                    texts.longest = texts.longest.max(bytes);
                    texts.all = texts.all.saturating_add(bytes);
                }
            }
        }
        texts
    }

    /// Rejects texts that cannot be tokenized within `allowed` bytes, `taken` of which are in use,
    /// and returns the bytes to reserve for all of them.
    fn check(self, allowed: u64, taken: u64) -> Result<u64, NoRoom> {
        let kept = self.all.saturating_mul(OF_ALL);
        let needed = taken.saturating_add(kept.max(self.longest.saturating_mul(WHILE_TOKENIZED)));
        if needed > allowed {
            let what = format!("a text of {} bytes is to be tokenized", self.longest);
            return Err(NoRoom { what, allowed, needed });
        }
        Ok(kept)
    }
}

/// Largest batch in tokens that fits in addition to the bytes in use.
///
/// # Errors
/// [`NoRoom`] if the texts cannot be tokenized, or no token fits.
pub fn batch_tokens(
    texts: Texts,
    allowed: u64,
    resident: u64,
    bytes_per_token: usize,
) -> Result<usize, NoRoom> {
    let taken = resident + FIXED_BYTES;
    let kept = texts.check(allowed, taken)?;
    let left = allowed.saturating_sub(taken + kept);
    match usize::try_from(left).unwrap_or(usize::MAX) / bytes_per_token {
        0 => {
            let what = "the model and its tables leave no memory for a batch".to_owned();
            Err(NoRoom { what, allowed, needed: taken + kept })
        }
        tokens => Ok(stepped(tokens)),
    }
}

/// Rounds down to three binary digits: the bytes in use vary a little from run to run, and other
/// batches give other last digits.
fn stepped(tokens: usize) -> usize {
    let step = tokens.checked_ilog2().map_or(0, |digits| digits.saturating_sub(2));
    tokens >> step << step
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_batches_have_three_digits() {
        for (tokens, expected) in [(1, 1), (7, 7), (9, 8), (11, 10), (1000, 896), (1100, 1024)] {
            assert_eq!(stepped(tokens), expected);
        }
    }

    #[test]
    fn texts_need_many_times_their_bytes() {
        let texts = Texts { longest: 20_000_000, all: 20_000_000 };
        assert!(texts.check(300_000_000, 50_000_000).is_err());
        assert!(texts.check(3_249_999_999, 50_000_000).is_err());
        assert_eq!(texts.check(3_250_000_000, 50_000_000).ok(), Some(480_000_000));
        assert_eq!(Texts::default().check(1, 1).ok(), Some(0));
    }
}
