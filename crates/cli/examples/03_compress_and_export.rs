//! Cuts the rank of every MLP weight of a model to half its parameters and writes a directory that
//! transformers loads. `cargo run --example 03_compress_and_export -- MODEL_DIR OUTPUT_DIR`
#![allow(clippy::print_stdout, reason = "an example shows what it found")]

use linwright::compress::Plan;
use linwright::compress::intervention::apply_edits;
use linwright::model::checkpoint::export::{ExportOptions, export};
use linwright::model::checkpoint::load;
use linwright::ops::Network;
use linwright::run::{Silent, Store};
use serde_json::json;
use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(model), Some(output)) = (args.next(), args.next()) else {
        return Err("expected a model directory and an output directory".into());
    };
    println!("{}", compress(Path::new(&model), Path::new(&output))?);
    Ok(())
}

/// Parameters before and after, and where the model is.
pub(crate) fn compress(model: &Path, output: &Path) -> Result<String, Box<dyn Error>> {
    let loaded = load(model)?;
    let plan: Plan = serde_json::from_value(json!({
        "edits": [{"sites": {"lnames": ["mlp"]}, "method": {"method": "laser"}, "size": {"keep": 0.5}}],
    }))?;
    let mut edited = loaded.decoder.clone();
    apply_edits(&mut edited, &plan, &Store::none(), &mut Silent)?;
    // Read back and compared with `edited` before it is put into place.
    export(&edited, &loaded.source, &ExportOptions::default(), output)?;
    let (before, after) = (loaded.decoder.parameters(), edited.parameters());
    Ok(format!("{before} parameters, now {after}: {}", output.display()))
}
