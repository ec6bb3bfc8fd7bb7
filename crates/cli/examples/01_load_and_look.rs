//! Loads a checkpoint and looks at its linear layers: names, shapes, spectra.
//! `cargo run --example 01_load_and_look -- MODEL_DIR`
#![allow(clippy::print_stdout, reason = "an example shows what it found")]

use linwright::measure::inspect::report::{By, document};
use linwright::measure::inspect::{Options, run as inspect};
use linwright::model::checkpoint::load;
use linwright::ops::Sites;
use linwright::report::terminal;
use linwright::run::Silent;
use std::error::Error;
use std::fmt::Write;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let model = std::env::args().nth(1).ok_or("expected a model directory")?;
    print!("{}", look(Path::new(&model))?);
    Ok(())
}

/// The linear layers of a model, and singular values of all its matrices.
pub(crate) fn look(model: &Path) -> Result<String, Box<dyn Error>> {
    let mut text = String::new();
    // The model with its tokenizer. Every linear layer is a slot that can hold any operator.
    let loaded = load(model)?;
    for slot in loaded.decoder.slots() {
        let shape = slot.shape();
        writeln!(text, "{}: {}, {} x {}", slot.id(), slot.role(), shape.out, shape.inp)?;
    }
    // The files, tensor by tensor; this builds no model and works on any architecture.
    let options = Options { spectra: true, ..Options::default() };
    let found = inspect(model, &options, &mut Silent)?;
    text += &terminal::render(&document(&found, By::Name));
    Ok(text)
}
