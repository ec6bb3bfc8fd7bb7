//! `linwright` without a command: the demonstration on the built-in model, and next steps.

use super::print;
use super::run::{PRESETS, study};
use crate::args::Shared;
use crate::failure::Failure;
use linwright::compress::recipe;
use std::path::Path;

/// Commands for a model of one's own: the last lines of the demonstration and of `--help`.
pub(crate) const NEXT: &str = "\
With a model of your own (a directory, a .gguf file, or owner/name on the hub):
  linwright inspect MODEL
  linwright compress MODEL --keep 0.8 --dataset TEXT -o smaller
  linwright eval smaller --text OTHER-TEXT --baseline MODEL";

pub(crate) fn run(shared: &Shared) -> Result<(), Failure> {
    let preset = &PRESETS[0];
    let recipe = recipe::parse(Path::new(preset.name), preset.text)?;
    study(preset.name, &recipe, None, false, shared)?;
    // Next steps are not part of the result.
    if shared.json || shared.quiet {
        return Ok(());
    }
    print(&format!("\n{NEXT}"))
}
