//! `linwright` without a command: the main job on the built-in model.

use super::run::{PRESETS, study};
use crate::args::Shared;
use crate::failure::Failure;
use linwright::compress::recipe;
use std::path::Path;

pub(crate) fn run(shared: &Shared) -> Result<(), Failure> {
    let preset = &PRESETS[0];
    let recipe = recipe::parse(Path::new(preset.name), preset.text)?;
    study(preset.name, &recipe, None, false, shared)
}
