//! Text for models without text.

use linwright_model::Transformer;

/// Rows for timing: a window of text.
const TIMED_ROWS: usize = 256;
/// Step between tokens of a window without text; a prime, so that they differ.
const TOKEN_STEP: usize = 7919;

/// Windows of text to time a model on where no text is given: tokens in steps through the
/// vocabulary.
#[must_use]
pub fn windows_without_text(model: &Transformer) -> Vec<Vec<u32>> {
    let config = model.config();
    let length = config.max_positions.min(TIMED_ROWS);
    vec![(0..length).map(|i| (i * TOKEN_STEP % config.vocab) as u32).collect()]
}
