//! `linwright` without a command: the demonstration on the built-in model, and next steps.

use super::print;
use crate::args::Shared;
use crate::failure::Failure;
use linwright::jobs::Run;
use linwright::recipes::PRESETS;

/// Commands for the user's own model: the last lines of the demonstration and of `--help`.
pub(crate) const NEXT: &str = "\
With a model of your own (a directory, a .gguf file, or owner/name on the hub):
  linwright inspect MODEL
  linwright compress MODEL --keep 0.8 --calibration TEXT -o smaller
  linwright eval smaller --text OTHER-TEXT --baseline MODEL";

pub(crate) fn run(shared: &Shared) -> Result<(), Failure> {
    let job = Run { recipe: Some(PRESETS[0].name.into()), ..Run::default() };
    super::run(&job, shared)?;
    // Next steps are not part of the result.
    if shared.json || shared.quiet {
        return Ok(());
    }
    print(&format!("\n{NEXT}"))
}
