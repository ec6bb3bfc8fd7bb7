//! The preset `combination` of the feature-space decomposition (SFSD, arXiv:2405.13039).
//!
//! Of n texts, n / 6 (rounded down) are documents of each of piqa, boolq, arc_challenge, arc_easy
//! and winogrande, and the rest of hellaswag, each with its right answer and cut at `seq_len`
//! tokens; n is `num_tokens` / `seq_len`, which is 512 for 65,536 and 128 as in the published code.
//!
//! Deviations from that code: no document is drawn twice (it draws with replacement); a seed draws
//! them (it has none); prompts and answers are those of our tasks ("no" and "yes" in boolq, not
//! "True" and "False"); texts are in an order drawn with the seed, so that windows for validation
//! are of all six; texts are not padded.

use super::{CalibrationOptions, Source};
use crate::jobs::kit::{Failure, Session};
use linwright_evaluate::Answered;
use linwright_tensor::RngKey;

/// The tasks; the last one has what is left of the others.
const TASKS: [&str; 6] = ["piqa", "boolq", "arc_challenge", "arc_easy", "winogrande", "hellaswag"];

/// Draws the documents.
pub(super) fn add(
    source: &mut Source<'_>,
    options: &CalibrationOptions<'_>,
    session: &mut Session<'_>,
) -> Result<(), Failure> {
    let texts = options.num_tokens / options.seq_len.max(1);
    let share = texts / TASKS.len();
    if share == 0 {
        let least = options.seq_len.saturating_mul(TASKS.len());
        return Err(Failure::usage(format!(
            "--calibration combination: {} tokens are {texts} texts of {}, and there are {} tasks",
            options.num_tokens,
            options.seq_len,
            TASKS.len()
        ))
        .hint(format!("give --calibration combination:num_tokens={least} or more")));
    }
    let key = RngKey::new(options.seed).fold("calibration combination");
    let mut all = Vec::new();
    for (index, name) in TASKS.iter().enumerate() {
        let wanted = match index + 1 == TASKS.len() {
            true => texts - share * index,
            false => share,
        };
        source.add_task(name, options.evaluation, session)?;
        let documents = std::mem::take(&mut source.documents);
        if documents.len() < wanted {
            session.note(&format!(
                "note: {name} has {} documents of the {wanted} to draw; all are taken",
                documents.len()
            ));
        }
        all.extend(drawn(documents, wanted, key.fold(name)));
    }
    key.fold("order").stream().shuffle(&mut all);
    source.documents = all;
    source.longest = Some(options.seq_len);
    Ok(())
}

/// So many of the documents, or all, each once.
fn drawn(
    mut documents: Vec<Answered>,
    count: usize,
    key: RngKey,
) -> impl Iterator<Item = Answered> {
    key.stream().shuffle(&mut documents);
    documents.into_iter().take(count)
}
