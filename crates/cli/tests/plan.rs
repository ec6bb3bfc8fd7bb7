//! `plan`, and budgets that `compress` divides over the layers.

use crate::workshop::Workshop;
use linwright::model::checkpoint::load;
use linwright::model::tokenizer::Bos;
use linwright::model::{Batch, Split, Windows};
use linwright::ops::NoProbe;
use serde_json::Value;

const CALIBRATION: &str = "--calibration calibration.jsonl:num_tokens=2000,seq_len=64";

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// Loss in nats per token of a saved model on the validation windows of [`CALIBRATION`].
fn loss_of(w: &Workshop, model: &str) -> f64 {
    let loaded = load(&w.path(model)).unwrap();
    let (decoder, tokenizer) = (loaded.decoder, loaded.tokenizer.unwrap());
    let text = w.text("calibration.jsonl");
    let records = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let texts: Vec<String> =
        records.map(|record| record["text"].as_str().unwrap().to_owned()).collect();
    let texts = texts.iter().map(String::as_str).enumerate();
    let all = Windows::encode(texts, &tokenizer, Bos::default(), 64, 2000, Split::Contiguous);
    let all = all.unwrap();
    let (mut sum, mut count) = (0.0, 0);
    for window in &all.windows()[all.training()..] {
        let batch = Batch::new(&[window]);
        let mut hidden = decoder.embed(&batch).unwrap();
        let layers = 0..decoder.config().layers.len();
        decoder.run_layers(&mut hidden, &batch, layers, &mut NoProbe).unwrap();
        let logits = decoder.logits(hidden.view());
        for (position, next) in window.iter().enumerate().skip(1) {
            let row = logits.row(position - 1);
            let total: f64 = row.iter().map(|logit| f64::from(*logit).exp()).sum();
            sum += total.ln() - f64::from(row[*next as usize]);
            count += 1;
        }
    }
    sum / f64::from(count)
}

#[test]
fn plans_keep_what_they_say_beat_the_same_share_everywhere_and_are_carried_out() {
    let w = Workshop::new();
    let found = w.ok_json("plan model --keep 0.8,0.5 --cache pieces -o plans");
    let plans = found["plans"].as_array().unwrap();
    assert_eq!(plans.len(), 2);
    for plan in plans {
        assert!(number(&plan["keep"]) <= number(&plan["asked"]));
        assert!(number(&plan["bound"]) <= number(&plan["error"]));
        assert!(number(&plan["error"]) <= number(&plan["uniform_error"]));
    }
    assert_eq!(w.json("plans/plan-0.5.json"), plans[1]["plan"]);
    assert_eq!(w.json("plans/result.json")["model_hash"], found["model_hash"]);
    let again = w.ok_json("plan model --keep 0.5 --cache pieces --allocate uniform:align=4");
    let [same] = &again["plans"].as_array().unwrap()[..] else { panic!("one plan: {again}") };
    assert_eq!(same["error"], same["uniform_error"]);
    let done =
        w.ok_json(&format!("compress model --plan plans/plan-0.5.json {CALIBRATION} -o out"));
    // Layers that stay dense are in no edit of a plan without text.
    let parameters = |key: &str| number(&done["summary"][key]);
    assert!(parameters("targeted") < parameters("targeted_dense"));
    let before = w.names();
    for (args, words) in [
        ("--keep 1.5", &["'1.5'", "--keep", "from 0 to 1"][..]),
        ("--keep 0.00001", &["nearest keeps"]),
        ("--layers 99", &["layer 99"]),
    ] {
        w.fails(&format!("plan model --no-cache {args}"), 2, words);
        assert_eq!(w.names(), before, "{args}");
    }
}

#[test]
fn a_divided_budget_is_met_told_and_never_worse_than_a_uniform_one_on_its_text() {
    let w = Workshop::new();
    for method in ["--method auto", "--method feature --allocate sensitivity"] {
        let args = format!("compress model {method} --keep 0.6 {CALIBRATION} --force -o out");
        let found = w.ok_json(&args);
        let allocation = &found["allocation"];
        let tried = allocation["tried"].as_array().unwrap();
        let losses: Vec<f64> = tried.iter().map(|own| number(&own["loss"])).collect();
        assert!(losses.len() > 1 && losses.is_sorted(), "{losses:?}");
        assert!(tried.iter().any(|own| own["name"] == "uniform"));
        assert_eq!(tried[0]["plan"], found["plan"]);
        // They are of models that these windows were held out of; then all windows are fitted.
        assert_ne!(loss_of(&w, "out"), losses[0]);
        for (own, loss) in tried.iter().zip(&losses) {
            w.write("tried.json", own["plan"].to_string());
            // A recovery holds its windows out too, and steps of this size change no number.
            let held_out = "--recover 1:rate=1e-30";
            w.ok(&format!(
                "compress model --plan tried.json {CALIBRATION} {held_out} --force -o tried"
            ));
            let measured = loss_of(&w, "tried");
            assert!((measured - loss).abs() < 1e-5, "{}: {loss}, {measured}", own["name"]);
        }
        let dense = number(&allocation["measured"]["dense_loss"]);
        assert!((loss_of(&w, "model") - dense).abs() < 1e-5, "{dense}");
        assert!(number(&found["summary"]["keep"]) <= 0.6, "{}", found["summary"]);
        assert!(number(&allocation["measured"]["dense_loss"]) > 0.0);
        let sites = allocation["measured"]["losses"].as_array().unwrap();
        assert_eq!(sites.len(), found["sites"].as_array().unwrap().len());
    }
    let found = w.ok_json("compress model --method svd --allocate spectrum --keep 0.5 -o svd");
    assert!(number(&found["summary"]["keep"]) <= 0.5, "{}", found["summary"]);
    for (args, words) in [
        ("--method auto", &["--keep"][..]),
        ("--method auto --keep 0.5 --allocate uniform", &["auto"]),
        ("--method auto --keep 0.5 --allocate spectrum", &["singular values"]),
        ("--method monarch --keep 0.5 --allocate sensitivity", &["no ranks"]),
        ("--keep 0.5 --allocate uniform:align=4", &["align goes with"]),
        ("--keep 0.5 --allocate sensitivity", &["no calibration text"]),
    ] {
        w.fails(&format!("compress model {args} -o none"), 2, words);
    }
}
