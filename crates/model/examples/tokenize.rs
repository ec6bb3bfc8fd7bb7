//! Ids of texts, for comparisons with other programs: `tokenize MODEL < texts.json > ids.json`,
//! where MODEL is a folder or a GGUF file.
//!
//! Reads a JSON list of texts, or of pairs of texts, and writes a list of ids; a pair is written as
//! ids and types. What it took in seconds goes to the standard error.

use linwright_model::checkpoint::load;
use linwright_model::tokenizer::Tokenizer;
use serde_json::{Value, json};
use std::error::Error;
use std::io::{Write, stderr, stdin, stdout};
use std::path::Path;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let model = std::env::args().nth(1).ok_or("expected: tokenize MODEL < texts.json")?;
    let items: Vec<Value> = serde_json::from_reader(stdin().lock())?;
    let start = Instant::now();
    let path = Path::new(&model);
    let tokenizer = match path.is_file() {
        true => load(path)?.tokenizer.ok_or("a file without a tokenizer")?,
        false => Tokenizer::from_folder(path)?,
    };
    let loaded = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let out: Value = if items.iter().all(Value::is_string) {
        let texts: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
        json!(tokenizer.encode_all(&texts, true)?)
    } else {
        let pairs = items.iter().map(|item| {
            let (a, b) = (item[0].as_str().ok_or("no text")?, item[1].as_str().ok_or("no text")?);
            let pair = tokenizer.encode_pair(a, b)?;
            Ok(json!({"ids": pair.ids, "types": pair.type_ids}))
        });
        pairs.collect::<Result<Value, Box<dyn Error>>>()?
    };
    let encoded = start.elapsed().as_secs_f64();
    writeln!(stderr(), "{}", json!({"load_seconds": loaded, "encode_seconds": encoded}))?;
    stdout().write_all(out.to_string().as_bytes())?;
    Ok(())
}
