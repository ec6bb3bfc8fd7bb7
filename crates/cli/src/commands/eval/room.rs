//! Room for texts within `--max-memory`, looked at before they are read and before they are
//! tokenized: what a tokenizer notes about every byte of a text takes many times the text.

use super::super::tasks::TaskArgs;
use crate::failure::{Failure, Kind};
use linwright::evaluate::{Request, Task};
use std::path::Path;

/// Bytes for each byte of the text that is tokenized: 115 were measured for English.
const WHILE_TOKENIZED: u64 = 160;
/// Bytes for each byte of all texts: tokens of the windows and the replies about them.
const OF_ALL: u64 = 24;
/// Bytes for each byte of a file while it is read.
const WHILE_READ: u64 = 3;

/// Bytes of the texts of tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Texts {
    longest: u64,
    all: u64,
}

/// Refuses files that are too large to be read and, where they are one document, tokenized.
pub(super) fn check_files(asked: &TaskArgs, allowed: Option<u64>) -> Result<(), Failure> {
    let Some(allowed) = allowed else { return Ok(()) };
    let named = [&asked.text, &asked.questions].into_iter().flatten().map(Path::new);
    for path in named.chain(asked.data.iter().map(|data| data.path.as_path())) {
        // What is no file is the business of those who read it.
        let Ok(metadata) = path.metadata() else { continue };
        let is_document = path.extension().is_none_or(|e| e == "txt" || e == "md");
        let factor = if is_document { WHILE_READ + WHILE_TOKENIZED } else { WHILE_READ };
        let needed = metadata.len().saturating_mul(factor);
        if needed > allowed {
            let shown = path.display();
            return Err(refusal(format!("{shown} has {} bytes", metadata.len()), allowed, needed));
        }
    }
    Ok(())
}

impl Texts {
    /// Those of all tasks.
    pub(super) fn of(tasks: &[Box<dyn Task>]) -> Self {
        let mut texts = Self::default();
        for task in tasks {
            for item in task.items() {
                for request in &item.requests {
                    let own = match request {
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
                    texts.longest = texts.longest.max(own);
                    texts.all = texts.all.saturating_add(own);
                }
            }
        }
        texts
    }

    /// Refuses texts that cannot be tokenized beside the bytes that are `taken`, and gives the
    /// bytes to set aside for all of them.
    pub(super) fn check(self, allowed: u64, taken: u64) -> Result<u64, Failure> {
        let kept = self.all.saturating_mul(OF_ALL);
        let needed = taken.saturating_add(kept.max(self.longest.saturating_mul(WHILE_TOKENIZED)));
        if needed > allowed {
            let what = format!("a text of {} bytes is to be tokenized", self.longest);
            return Err(refusal(what, allowed, needed));
        }
        Ok(kept)
    }
}

fn refusal(what: String, allowed: u64, needed: u64) -> Failure {
    let reason = format!("{what}, and --max-memory {allowed} has no room for it");
    let least = needed / 1_000_000 + 1;
    Failure::new(Kind::Resources, reason)
        .hint(format!("allow {least}MB, cut the text into documents (JSONL), or take a part of it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_need_many_times_their_bytes() {
        let texts = Texts { longest: 20_000_000, all: 20_000_000 };
        assert!(texts.check(300_000_000, 50_000_000).is_err());
        assert!(texts.check(3_249_999_999, 50_000_000).is_err());
        assert_eq!(texts.check(3_250_000_000, 50_000_000).ok(), Some(480_000_000));
        assert_eq!(Texts::default().check(1, 1).ok(), Some(0));
    }
}
