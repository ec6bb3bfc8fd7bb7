//! What checkpoints compute, many in one process, for comparisons with other programs:
//! `logits < requests.jsonl > answers.jsonl`.
//!
//! A request is `{"folder": "...", "tokens": [...]}`. Its answer, in the same order, is
//! `{"rows": [[...]]}`, logits or, of an encoder without a head, states; or `{"refused": "..."}`.

use linwright_model::checkpoint::load;
use linwright_model::{Batch, ModelError};
use linwright_ops::NoProbe;
use serde_json::{Value, json};
use std::error::Error;
use std::io::{BufRead, Write, stdin, stdout};
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    for line in stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line?)?;
        let folder = request["folder"].as_str().ok_or("a request without a folder")?;
        let tokens: Vec<u32> = serde_json::from_value(request["tokens"].clone())?;
        let answer = match rows(Path::new(folder), &tokens) {
            Ok(rows) => json!({ "rows": rows }),
            Err(error) => json!({ "refused": error.to_string() }),
        };
        writeln!(stdout(), "{answer}")?;
    }
    Ok(())
}

fn rows(folder: &Path, tokens: &[u32]) -> Result<Vec<Vec<f32>>, Box<dyn Error>> {
    let model = load(folder)?.decoder;
    let batch = Batch::new(&[tokens]);
    let run = || {
        let mut hidden = model.embed(&batch)?;
        let layers = 0..model.config().layers.len();
        model.run_layers(&mut hidden, &batch, layers, &mut NoProbe)?;
        Ok::<_, ModelError>(if model.has_head() { model.logits(hidden.view()) } else { hidden })
    };
    let rows = run()?;
    Ok((0..rows.rows()).map(|row| rows.row(row).to_vec()).collect())
}
