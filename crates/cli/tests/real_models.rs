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
