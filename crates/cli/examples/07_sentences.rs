//! How well a sentence encoder distinguishes similar sentences from others.
//!
//! ```text
//! cargo run --release --example 07_sentences -- MODEL_DIR sts-dev.tsv 120
//! ```
//!
//! The file has a pair a line, in the columns of the STS benchmark: the score of the pair in the
//! fifth, the sentences in the sixth and seventh. Printed is Spearman's rank correlation of cosine
//! and score.
#![allow(clippy::print_stdout, reason = "an example shows what it found")]

use linwright::model::Batch;
use linwright::model::checkpoint::load;
use linwright::ops::NoProbe;
use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(model), Some(pairs)) = (args.next(), args.next()) else {
        return Err("expected a model directory and a file of pairs".into());
    };
    let limit: usize = args.next().map_or(Ok(usize::MAX), |limit| limit.parse())?;
    let loaded = load(Path::new(&model))?;
    let sentence = loaded.sentence?;
    let tokenizer = loaded.tokenizer.ok_or("the model has no tokenizer")?;
    let (mut scores, mut cosines) = (Vec::new(), Vec::new());
    for line in std::fs::read_to_string(pairs)?.lines().take(limit) {
        let columns: Vec<&str> = line.split('\t').collect();
        let [_, _, _, _, score, first, second, ..] = columns.as_slice() else {
            return Err(format!("a line without seven columns: {line}").into());
        };
        let longest = loaded.decoder.config().max_positions;
        let encode = |text| sentence.encode(&tokenizer, text, longest);
        let ids = [encode(first)?.0, encode(second)?.0];
        let batch = Batch::new(&ids.each_ref().map(Vec::as_slice));
        let mut hidden = loaded.decoder.embed(&batch)?;
        let layers = 0..loaded.decoder.config().layers.len();
        loaded.decoder.run_layers(&mut hidden, &batch, layers, &mut NoProbe)?;
        let vectors = sentence.vectors(hidden.view(), &batch);
        let product = |i: usize, j: usize| -> f64 {
            vectors.row(i).iter().zip(vectors.row(j)).map(|(a, b)| f64::from(a * b)).sum()
        };
        scores.push(score.parse::<f64>()?);
        cosines.push(product(0, 1) / (product(0, 0) * product(1, 1)).sqrt());
    }
    println!(
        "{} pairs, Spearman {:.4}",
        scores.len(),
        correlation(&ranks(&scores), &ranks(&cosines))
    );
    Ok(())
}

/// Ranks from one, equal numbers sharing the mean of theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    let rank = |v: f64| {
        let below = values.iter().filter(|&&other| other < v).count() as f64;
        let equal = values.iter().filter(|&&other| other == v).count() as f64;
        below + (equal + 1.0) / 2.0
    };
    values.iter().map(|&v| rank(v)).collect()
}

fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
    let (ma, mb) = (mean(a), mean(b));
    let sum =
        |f: &dyn Fn(f64, f64) -> f64| a.iter().zip(b).map(|(x, y)| f(x - ma, y - mb)).sum::<f64>();
    sum(&|x, y| x * y) / (sum(&|x, _| x * x) * sum(&|_, y| y * y)).sqrt()
}
