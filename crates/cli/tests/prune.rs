//! `prune`, and `compress --method` with the same methods.

use crate::workshop::Workshop;
use serde_json::Value;

const DATA: &str = "--calibration calibration.jsonl:num_tokens=1500,seq_len=64";

/// Methods whose models most runtimes load, and those with operators.
const METHODS: [&str; 5] = ["width", "llm_pruner", "slicegpt", "drop_layers", "modegpt"];

fn parameters(result: &Value) -> [u64; 2] {
    ["targeted", "targeted_dense"].map(|name| result["summary"][name].as_u64().unwrap())
}

#[test]
fn every_method_keeps_at_most_its_share_and_is_scored_again_as_it_was_saved() {
    let w = Workshop::new();
    for method in METHODS {
        let options = format!("model --method {method} --keep 0.6 {DATA}");
        let text = "--text text.jsonl --evaluation window=64";
        let json = w.ok_json(&format!("prune {options} {text} -o {method}"));
        let [kept, dense] = parameters(&json);
        assert!(kept > 0 && kept as f64 <= 0.6 * dense as f64, "{method}: {kept} of {dense}");
        let scored = w.ok_json(&format!("eval {method} --text text.jsonl --window 64"));
        let perplexity = |results: &Value| results["results"]["text"].clone();
        assert!(!json["results"].as_array().unwrap().is_empty(), "{method}");
        assert!(perplexity(&scored).is_object(), "{scored}");

        let dry = w.ok_json(&format!("prune {options} --dry-run -o dry"));
        // The sizes of modegpt depend on the text, so equal shares are shown.
        let told = dry["estimate"]["targeted"].as_u64().unwrap();
        let divides = method == "modegpt" && told as f64 <= 0.6 * dense as f64;
        assert!(told == kept || divides, "{method}: {told} {kept}");
        w.ok(&format!("compress {options} -o same-{method}"));
        assert!(w.weights(&format!("same-{method}")) == w.weights(method), "{method}");
    }
}

#[test]
fn options_belong_to_methods() {
    let w = Workshop::new();
    for options in [
        "--method width:heads=1,ridge=0.1 --allocate uniform:align=2 --seed 3",
        "--method width --layers 0 --recover 2",
        "--method llm_pruner:criterion=l2,attention=0-1,mlp=0-1",
        "--method llm_pruner:criterion=param_mix,steps=2,examples=3,tokens=16",
        "--method llm_pruner:global,compat",
        "--method llm_pruner:ratio=0.5,refit=0.01",
        "--method slicegpt:refit=false",
        "--method modegpt:temperature=0.2",
        "--method drop_layers:order=influence",
    ] {
        w.ok(&format!(
            "prune model --keep 0.7 {options} {DATA} --dtype f32 --form auto -o out --force"
        ));
    }
    for (options, said) in [
        ("--method width:criterion=l2", "width has no option criterion"),
        ("--method slicegpt:order=loss", "slicegpt has no option order"),
        ("--method width:heads=2", "heads is 2, expected a number from 0 to 1"),
    ] {
        w.fails(&format!("prune model --keep 0.7 {options} {DATA} -o refused"), 2, &[said]);
    }
    let rank = format!("compress model --method width --rank 2 {DATA} -o refused");
    w.fails(&rank, 2, &["--rank goes with methods"]);
    let share = format!("prune model --keep 1.5 {DATA} -o refused");
    w.fails(&share, 2, &["--keep", "expected a number from 0 to 1"]);
    assert!(!w.path("refused").exists());
}
