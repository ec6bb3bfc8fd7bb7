//! Recovery of language models.

use linwright_compress::recover::Supervised;
use linwright_model::{Batch, Windows};

/// Text to recover on, with the next token as target.
#[must_use]
pub fn next_tokens(windows: &Windows) -> Supervised<'_, Batch> {
    Supervised { examples: windows, targets: &|_, batch: &Batch| batch.next_tokens() }
}
