//! Masked language models and the gaps of texts.

use super::decoder::Top;
use super::language_model::{Filled, Likeliest, Masked, ModelFailure};
use super::Gap;
use linwright_model::tokenizer::Tokenizer;
use linwright_model::{Batch, TokenScore, Transformer};
use linwright_ops::NoProbe;

/// The tokens of a text with masks in its gap, at most `limit` of them: of what is longer, the left of
/// the context is cut.
pub(super) fn encode(
    tokenizer: &Tokenizer,
    gap: &Gap<'_>,
    masks: usize,
    limit: usize,
) -> Result<Masked, ModelFailure> {
    let (mask, name) = tokenizer.mask().ok_or(
        "the tokenizer names no mask token; tokenizer_config.json should have it as mask_token",
    )?;
    let context = tokenizer.encode(&gap.context, false)?;
    let wanted = gap.last.map_or(context.len(), |last| last.min(context.len()));
    let mut kept = wanted;
    loop {
        let seen = match kept == context.len() {
            true => gap.context.to_string(),
            false => tokenizer.decode(&context[context.len() - kept..], true)?,
        };
        let parts = [seen.trim(), &gap.before].into_iter().filter(|part| !part.is_empty());
        let parts: Vec<&str> = parts.chain(std::iter::repeat_n(name, masks)).collect();
        let tokens = tokenizer.encode(&format!("{}{}", parts.join(" "), gap.after), true)?;
        let over = tokens.len().saturating_sub(limit);
        if over > 0 && kept > 0 {
            kept -= over.min(kept);
            continue;
        }
        if over > 0 {
            let found = tokens.len();
            return Err(format!("{found} tokens without the context, {limit} fit").into());
        }
        let places: Vec<usize> = (0..tokens.len()).filter(|&i| tokens[i] == mask).collect();
        // A mask in the text itself stands before those of the gap.
        let first = places.len().checked_sub(masks).and_then(|start| places.get(start)).copied();
        let first = first.filter(|first| places.ends_with(&[*first + masks - 1]));
        let first = first.ok_or_else(|| {
            format!("the tokenizer does not keep {masks} times {name} as that many tokens")
        })?;
        let truncated = wanted - kept;
        return Ok(Masked {
            tokens,
            first,
            masks,
            truncated,
            answers: Vec::new(),
            likeliest: 0,
            gold: 0,
        });
    }
}

/// What a model found behind the masks of one text.
struct Found {
    nats: Vec<f64>,
    written: Vec<u32>,
    top: Option<Top>,
}

/// What stands behind masks: the log-likelihood of an answer is the sum over its tokens, each of which
/// is predicted with all of them hidden.
pub(super) fn fill(
    (model, tokenizer): (&Transformer, &Tokenizer),
    texts: &[Masked],
) -> Result<Vec<Filled>, ModelFailure> {
    if !model.has_head() {
        return Err("the model has no head, so that it predicts no tokens; only checkpoints with a \
                    masked language head can be asked"
            .into());
    }
    let batch = Batch::new(&texts.iter().map(|text| text.tokens.as_slice()).collect::<Vec<_>>());
    let mut hidden = model.embed(&batch)?;
    model.run_layers(&mut hidden, &batch, 0..model.config().layers.len(), &mut NoProbe)?;
    let (mut places, mut wanted) = (Vec::new(), Vec::new());
    for (index, (text, span)) in texts.iter().zip(batch.spans()).enumerate() {
        for mask in 0..text.masks {
            places.push((index, mask));
            let target = text.answers.get(text.gold).map_or(0, |answer| answer[mask]);
            wanted.push((span.start + text.first + mask, target));
        }
    }
    let start = |text: &Masked| Found {
        nats: vec![0.0; text.answers.len()],
        written: Vec::with_capacity(text.masks),
        top: None,
    };
    let mut found: Vec<Found> = texts.iter().map(start).collect();
    let mut show = |place: usize, logits: &[f32], score: &TokenScore| {
        let ((index, mask), (_, target)) = (places[place], wanted[place]);
        let (text, found) = (&texts[index], &mut found[index]);
        let log_sum = score.nll + f64::from(logits[target as usize]);
        for (nats, answer) in found.nats.iter_mut().zip(&text.answers) {
            *nats += f64::from(logits[answer[mask] as usize]) - log_sum;
        }
        let top = Top::of(logits, (target, score), text.likeliest.max(1));
        found.written.extend(top.tokens.first().map(|(token, _)| *token));
        if mask == 0 && text.likeliest > 0 {
            found.top = Some(top);
        }
    };
    model.score_rows_seen(&hidden, &wanted, &mut show)?;
    let told = |found: Found| {
        let likeliest = found.top.map(|top| top.told(tokenizer)).transpose()?;
        Ok(Filled {
            log_likelihoods: found.nats,
            text: tokenizer.decode(&found.written, false)?,
            likeliest: likeliest.unwrap_or_else(Likeliest::default),
        })
    };
    found.into_iter().map(told).collect()
}
