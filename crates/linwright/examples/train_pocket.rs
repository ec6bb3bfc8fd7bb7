//! Trains the built-in model and writes its assets: `train_pocket OUT [CHECKPOINT]`.

use linwright::pocket::{PocketRecipe, Prepared};
use linwright::train::{Control, Progress};
use std::path::PathBuf;
use std::time::Instant;

struct Lines {
    started: Instant,
    first: Option<u64>,
    sum: f64,
}

impl Control for Lines {
    fn progress(&mut self, progress: &Progress<'_>) {
        let first = *self.first.get_or_insert(progress.step - 1);
        self.sum += progress.loss;
        if progress.step.is_multiple_of(20) {
            let seconds = self.started.elapsed().as_secs_f64();
            let each = seconds / (progress.step - first) as f64;
            println!(
                "step {}/{} loss {:.4} ({each:.3} s a step)",
                progress.step,
                progress.steps,
                self.sum / 20.0
            );
            self.sum = 0.0;
        }
    }

    fn interrupted(&self) -> bool {
        false
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1).map(PathBuf::from);
    let out = args.next().ok_or("usage: train_pocket OUT [CHECKPOINT]")?;
    let checkpoint = args.next();
    let prepared = Prepared::new(PocketRecipe::default())?;
    println!(
        "{} tokens, corpus {}, tokenizer {}, test {:?}",
        prepared.training_tokens(),
        prepared.corpus_sha256(),
        prepared.tokenizer_sha256(),
        prepared.entropy(prepared.world().test())?
    );
    let mut lines = Lines {
        started: Instant::now(),
        first: None,
        sum: 0.0,
    };
    let (decoder, outcome) = prepared.train(checkpoint.as_deref(), &mut lines)?;
    for point in &outcome.curve {
        println!("{point:?}");
    }
    let saved = prepared.write(&decoder, &outcome, &out)?;
    println!("{} bytes, {} parameters", saved.bytes(), saved.parameters);
    Ok(())
}
