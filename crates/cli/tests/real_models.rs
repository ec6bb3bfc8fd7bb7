//! Real language models, in the folder that `LINWRIGHT_REAL_MODELS` names and `tools/models/get`
//! fills. Where it names none, one line of the output says so: run these tests before you change
//! what they cover.
#![allow(clippy::disallowed_methods, reason = "the environment says where real models are")]

use crate::workshop::Workshop;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Once;

/// Documents of this repository, as plain English that every model can read.
const TEXT: &str = concat!(
    include_str!("../../../docs/adr/README.md"),
    include_str!("../../../docs/style.md"),
    include_str!("../../../docs/glossary.md")
);

/// A file of a real model, such as `smollm2-135m/model.gguf`; none where there are no real models.
pub(crate) fn real(name: &str) -> Option<PathBuf> {
    static TOLD: Once = Once::new();
    let Some(folder) = std::env::var_os("LINWRIGHT_REAL_MODELS") else {
        // Past the capture of the test harness, which shows nothing of a test that passes.
        TOLD.call_once(|| {
            let line = "LINWRIGHT_REAL_MODELS is not set: real models are not tried here\n";
            std::io::stderr().write_all(line.as_bytes()).expect("stderr takes a line");
        });
        return None;
    };
    let path = PathBuf::from(folder).join(name);
    assert!(path.exists(), "{} is absent: run tools/models/get", path.display());
    Some(path)
}

/// Loads the weights of a GGUF file and of the directory that was exported from it.
#[test]
fn a_real_gguf_file_and_its_export_have_one_perplexity() {
    for name in ["smollm2-135m", "gemma-3-270m"] {
        let Some(file) = real(&format!("{name}/model.gguf")) else { return };
        let folder = real(&format!("{name}/hf")).expect("both are there or none");
        let w = Workshop::new();
        w.write("real.txt", &TEXT[..4000]);
        let perplexity = |model: PathBuf| {
            let found = w.ok_json(&format!("eval {} --text real.txt", model.display()));
            found["results"]["text"]["token_perplexity,none"].as_f64().expect("a number")
        };
        let (of_file, of_folder) = (perplexity(file), perplexity(folder));
        assert!((of_file / of_folder - 1.0).abs() < 1e-5, "{name}: {of_file} and {of_folder}");
        assert!(of_file < 200.0, "{name}: {of_file}");
    }
}

/// Estimates of memory before the work are within 1.3 of what it took; sizes are those of files.
#[test]
fn a_compression_takes_the_memory_that_was_told() {
    for fits in ["--method svd", "--calibration real.txt:num_tokens=2000 --text real.txt --limit 1"]
    {
        let Some(file) = real("smollm2-135m/model.gguf") else { return };
        let w = Workshop::new();
        w.write("real.txt", &TEXT[..12_000]);
        let (bytes, file) = (file.metadata().unwrap().len(), file.display());
        let compress = format!("compress {file} --keep 0.9 {fits} -o out");
        let told = w.ok_json(&format!("{compress} --dry-run"));
        let heights = told["memory"].as_object().expect("an estimate").values();
        let told = heights.filter_map(serde_json::Value::as_u64).max().expect("heights") as f64;
        let refused = format!("{compress} --max-memory {}", told as u64 / 2);
        w.fails(&refused, 5, &["--max-memory", "--offload"]);
        let done = w.ok_json(&format!("{compress} --max-memory {}", told as u64 * 2));
        let took = done["summary"]["peak_resident_bytes"].as_u64().expect("a peak") as f64;
        assert!((1.0 / 1.3..1.3).contains(&(told / took)), "{fits}: {told} told, {took} taken");
        assert_eq!(done["summary"]["weight_bytes_before"], bytes);
    }
}
