//! Cloze requests of masked language models: masked inputs and their predictions.

use super::Cloze;
use super::language_model::{Infilled, MaskedInput, ModelFailure};
use super::packed::last_stages;
use super::top_tokens::TopTokens;
use linwright_model::tokenizer::Tokenizer;
use linwright_model::{Batch, Stream, TokenScore, Transformer};
use linwright_tensor::Mat;

/// Tokenizes a cloze text with masks in its blank to at most `limit` tokens: a longer context is
/// truncated from the left.
pub(super) fn encode(
    tokenizer: &Tokenizer,
    cloze: &Cloze<'_>,
    masks: usize,
    limit: usize,
) -> Result<MaskedInput, ModelFailure> {
    let (mask, name) = tokenizer.mask().ok_or(
        "the tokenizer has no mask token; tokenizer_config.json should name it as mask_token",
    )?;
    let context = tokenizer.encode(&cloze.context, false)?;
    let wanted = cloze.max_context_tokens.map_or(context.len(), |last| last.min(context.len()));
    let mut kept = wanted;
    loop {
        let visible = match kept == context.len() {
            true => cloze.context.to_string(),
            false => tokenizer.decode(&context[context.len() - kept..], true)?,
        };
        let blank = name.repeat(masks);
        let parts = [visible.trim(), cloze.before.as_ref(), blank.as_str()];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let tokens = tokenizer.encode(&format!("{}{}", parts.join(" "), cloze.after), true)?;
        let over = tokens.len().saturating_sub(limit);
        if over > 0 && kept > 0 {
            kept -= over.min(kept);
            continue;
        }
        if over > 0 {
            let found = tokens.len();
            return Err(format!("{found} tokens without the context, at most {limit} fit").into());
        }
        let positions: Vec<usize> = (0..tokens.len()).filter(|&i| tokens[i] == mask).collect();
        // Mask tokens in the text itself precede those of the blank.
        let first =
            positions.len().checked_sub(masks).and_then(|start| positions.get(start)).copied();
        let first = first.filter(|first| positions.ends_with(&[*first + masks - 1]));
        let first = first.ok_or_else(|| {
            format!("the tokenizer does not encode {masks} times {name} as {masks} tokens")
        })?;
        let truncated = wanted - kept;
        return Ok(MaskedInput {
            tokens,
            first,
            masks,
            truncated,
            answers: Vec::new(),
            top_logprobs: 0,
            gold: 0,
        });
    }
}

/// Predictions for one masked input.
struct Found {
    /// Log-likelihood of each answer.
    nats: Vec<f64>,
    /// Most likely token of each mask.
    filled: Vec<u32>,
    top: Option<TopTokens>,
}

/// Masked inputs as one batch, with the rows of their masks.
#[derive(Debug)]
pub struct ClozeBatch<'a> {
    texts: &'a [MaskedInput],
    batch: Batch,
    /// Input and index in it, for each mask.
    masks: Vec<(usize, usize)>,
    wanted: Vec<(usize, u32)>,
}

impl<'a> ClozeBatch<'a> {
    /// A batch of masked inputs.
    ///
    /// # Errors
    /// If the model has no head.
    pub fn new(model: &Transformer, texts: &'a [MaskedInput]) -> Result<Self, ModelFailure> {
        if !model.has_head() {
            return Err(
                "the model has no language-model head, so it predicts no tokens; cloze tasks need a \
                 checkpoint with a masked-language-model head"
                    .into(),
            );
        }
        let rows: Vec<&[u32]> = texts.iter().map(|text| text.tokens.as_slice()).collect();
        let batch = Batch::new(&rows);
        let (mut masks, mut wanted) = (Vec::new(), Vec::new());
        for (index, (text, span)) in texts.iter().zip(batch.spans()).enumerate() {
            for mask in 0..text.masks {
                masks.push((index, mask));
                let target = text.answers.get(text.gold).map_or(0, |answer| answer[mask]);
                wanted.push((span.start + text.first + mask, target));
            }
        }
        Ok(Self { texts, batch, masks, wanted })
    }

    /// The input batch.
    #[must_use]
    pub fn batch(&self) -> &Batch {
        &self.batch
    }

    /// Rows to read, each with its target token.
    #[must_use]
    pub fn wanted(&self) -> &[(usize, u32)] {
        &self.wanted
    }

    /// Predictions from rows of `hidden` (rows, width), the output of the last layer. The
    /// log-likelihood of an answer is the sum over its tokens, each predicted with all of them
    /// masked. `wanted` are the rows to read in `hidden`, in the order of [`Self::wanted`].
    ///
    /// # Errors
    /// Any error of the model or the tokenizer.
    pub fn read(
        &self,
        model: &Transformer,
        tokenizer: &Tokenizer,
        hidden: &Mat<f32>,
        wanted: &[(usize, u32)],
    ) -> Result<Vec<Infilled>, ModelFailure> {
        let start = |text: &MaskedInput| Found {
            nats: vec![0.0; text.answers.len()],
            filled: Vec::with_capacity(text.masks),
            top: None,
        };
        let mut readings: Vec<Found> = self.texts.iter().map(start).collect();
        let mut show = |index: usize, logits: &[f32], score: &TokenScore| {
            let ((input, mask), (_, target)) = (self.masks[index], wanted[index]);
            let (text, reading) = (&self.texts[input], &mut readings[input]);
            let log_sum = score.nll + f64::from(logits[target as usize]);
            for (nats, answer) in reading.nats.iter_mut().zip(&text.answers) {
                *nats += f64::from(logits[answer[mask] as usize]) - log_sum;
            }
            let top = TopTokens::of(logits, target, score, text.top_logprobs.max(1));
            reading.filled.extend(top.tokens.first().map(|(token, _)| *token));
            if mask == 0 && text.top_logprobs > 0 {
                reading.top = Some(top);
            }
        };
        model.score_rows_seen(hidden, wanted, &mut show)?;
        let decoded = |reading: Found| {
            let top_logprobs = reading.top.map(|top| top.decode(tokenizer)).transpose()?;
            Ok(Infilled {
                log_likelihoods: reading.nats,
                text: tokenizer.decode(&reading.filled, false)?,
                top_logprobs: top_logprobs.unwrap_or_default(),
            })
        };
        readings.into_iter().map(decoded).collect()
    }
}

/// Predicts the masked tokens.
pub(super) fn infill(
    model: &Transformer,
    tokenizer: &Tokenizer,
    texts: &[MaskedInput],
) -> Result<Vec<Infilled>, ModelFailure> {
    let batch = ClozeBatch::new(model, texts)?;
    let hidden = Stream::new(model.embed(batch.batch())?);
    let (hidden, wanted) = last_stages(model, hidden, batch.batch(), 0, batch.wanted())?;
    batch.read(model, tokenizer, &hidden, &wanted)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::{
        Bos, Hooks, LASER_TASKS, LanguageModel, LaserOptions, LaserSet, LaserTask, Outcome,
        RunOptions, Subject, TaskOptions, evaluate, open_task,
    };
    use linwright_model::TransformerConfig;
    use linwright_ops::NoProbe;
    use linwright_tensor::RngKey;
    use serde_json::json;
    use std::borrow::Cow;
    use std::path::Path;

    const SPECIAL: [&str; 3] = ["[CLS]", "[SEP]", "[MASK]"];
    const MASK: u32 = 2;

    /// A random encoder with a head, and a tokenizer of single letters.
    pub(crate) fn parts(has_mask: bool) -> (Transformer, Tokenizer) {
        let letters = SPECIAL.into_iter().map(str::to_owned);
        let letters = letters.chain((' '..='~').map(|letter| letter.to_string()));
        let vocabulary: serde_json::Map<_, _> =
            letters.enumerate().map(|(id, token)| (token, id.into())).collect();
        let config = json!({
            "architectures": ["BertForMaskedLM"], "model_type": "bert", "hidden_size": 16,
            "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2,
            "vocab_size": vocabulary.len(), "max_position_embeddings": 128, "hidden_act": "gelu",
            "type_vocab_size": 2, "layer_norm_eps": 1e-12,
        });
        let config = TransformerConfig::from_json(&config).unwrap();
        let added = |(id, token): (usize, &str)| {
            json!({"id": id, "content": token, "single_word": false, "lstrip": false,
                   "rstrip": false, "normalized": false, "special": true})
        };
        let json = json!({
            "version": "1.0",
            "added_tokens": SPECIAL.into_iter().enumerate().map(added).collect::<Vec<_>>(),
            "decoder": {"type": "Fuse"},
            "post_processor": {"type": "BertProcessing", "cls": ["[CLS]", 0], "sep": ["[SEP]", 1]},
            "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
        });
        let settings = if has_mask { json!({"mask_token": "[MASK]"}) } else { json!({}) };
        let bytes = json.to_string().into_bytes();
        let tokenizer = Tokenizer::from_bytes(Path::new("t.json"), &bytes, Some(&settings));
        (Transformer::random(config, RngKey::new(3)), tokenizer.unwrap())
    }

    fn cloze(context: &'static str, last: Option<usize>) -> Cloze<'static> {
        Cloze {
            context: Cow::Borrowed(context),
            max_context_tokens: last,
            before: Cow::Borrowed("is"),
            after: Cow::Borrowed("."),
            answers: vec!["ab".to_owned(), "xy".to_owned()],
            gold: 1,
            top_logprobs: 4,
            filled_masks: 2,
        }
    }

    #[test]
    fn blanks_have_masks_and_contexts_are_cut_from_the_left() {
        let (_, tokenizer) = parts(true);
        let ids = |text: &str| tokenizer.encode(text, false).unwrap();
        let framed = |before: &str, masks: usize| {
            [vec![0], ids(before), vec![MASK; masks], ids("."), vec![1]].concat()
        };
        let made = encode(&tokenizer, &cloze("what", None), 2, 128).unwrap();
        assert_eq!(made.tokens, framed("what is ", 2));
        assert_eq!((made.first, made.masks, made.truncated), (9, 2, 0));
        let made = encode(&tokenizer, &cloze("what", Some(2)), 1, 128).unwrap();
        assert_eq!((made.tokens, made.truncated), (framed("at is ", 1), 0));
        let made = encode(&tokenizer, &cloze("what", None), 1, 10).unwrap();
        assert_eq!((made.tokens, made.truncated), (framed("at is ", 1), 2));
        // A mask in the text is not the blank.
        let made = encode(&tokenizer, &cloze("[MASK]", None), 1, 128).unwrap();
        assert_eq!(made.first, 6);
        let message = encode(&tokenizer, &cloze("what", None), 1, 6).unwrap_err().to_string();
        assert_eq!(message, "7 tokens without the context, at most 6 fit");
        let message = encode(&parts(false).1, &cloze("a", None), 1, 9).unwrap_err().to_string();
        assert!(message.contains("mask_token"), "{message}");
    }

    #[test]
    fn blanks_are_filled_by_the_logits_of_the_masks() {
        let (model, tokenizer) = parts(true);
        let mut texts: Vec<MaskedInput> = ["what", "who was it"]
            .map(|context| encode(&tokenizer, &cloze(context, None), 2, 128).unwrap())
            .into();
        texts[1].answers =
            ["ab", "xy"].map(|answer| tokenizer.encode(answer, false).unwrap()).into();
        (texts[1].gold, texts[1].top_logprobs) = (1, 4);
        let filled = infill(&model, &tokenizer, &texts).unwrap();
        assert!(filled[0].log_likelihoods.is_empty() && filled[0].top_logprobs.tokens.is_empty());
        // The same from all logits of that text alone.
        let batch = Batch::new(&[&texts[1].tokens]);
        let mut hidden = model.embed(&batch).unwrap();
        model.run_layers(&mut hidden, &batch, 0..2, &mut NoProbe).unwrap();
        let logits = model.logits(hidden.view());
        let logs: Vec<Vec<f64>> = (0..2)
            .map(|mask| {
                let row: Vec<f64> =
                    logits.row(texts[1].first + mask).iter().map(|z| f64::from(*z)).collect();
                let log_sum = row.iter().map(|z| z.exp()).sum::<f64>().ln();
                row.iter().map(|z| z - log_sum).collect()
            })
            .collect();
        for (found, answer) in filled[1].log_likelihoods.iter().zip(&texts[1].answers) {
            let want = logs[0][answer[0] as usize] + logs[1][answer[1] as usize];
            assert!((found - want).abs() < 1e-5, "{found} {want}");
        }
        let sorted = |mask: usize| {
            let mut ids: Vec<u32> = (0..logs[mask].len() as u32).collect();
            ids.sort_by(|a, b| logs[mask][*b as usize].total_cmp(&logs[mask][*a as usize]));
            ids
        };
        let (first, second) = (sorted(0), sorted(1));
        let rank = first.iter().position(|id| *id == texts[1].answers[1][0]);
        assert_eq!(Some(filled[1].top_logprobs.rank), rank);
        assert_eq!(filled[1].top_logprobs.tokens.len(), 4);
        assert_eq!(filled[1].text, tokenizer.decode(&[first[0], second[0]], false).unwrap());
    }

    #[test]
    fn masked_models_answer_cloze_requests_only() {
        let (model, tokenizer) = parts(true);
        let subject = Subject::new(&model, &tokenizer);
        assert!(subject.is_masked());
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: String| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let mut hooks = Hooks { progress: &mut |_| {}, cancelled: &|| false, journal: None };
        let rows = (0..4).map(|i| {
            json!({
                "claim": format!("a{i}"), "label": (["SUPPORTS", "REFUTES"][i % 2]),
                "prompt": format!("b{i}"), "rephrase_prompt": "c", "ground_truth": "de",
                "question": format!("d{i}"), "answer": "fg", "mc2_targets": {"choices": ["h"], "labels": [1]},
                "hard_text": "someone", "gender": i % 2, "profession": 1,
                "input": "i", "target": "Yes", "context": "j", "continuation": "k",
            })
        });
        let rows: String = rows.map(|row| format!("{row}\n")).collect();
        let options =
            LaserOptions { files: vec![file("rows.jsonl", rows)], ..LaserOptions::default() };
        for set in LASER_TASKS {
            if let Ok(task) = LaserTask::open(set, &options) {
                let result = evaluate(&task, &subject, &RunOptions::default(), &mut hooks)
                    .and_then(Outcome::complete);
                assert_eq!(result.is_ok(), set.has_cloze(), "{}: {result:?}", set.name);
                let Ok(result) = result else { continue };
                assert!(result.protocol.starts_with("laser-correct_masked"), "{}", result.protocol);
                assert!(result.metric("log_loss").unwrap().value > 0.0);
            }
        }
        let task = LaserTask::open(LaserSet::named("laser_fever").unwrap(), &options).unwrap();
        let run = |tokens| {
            let mut hooks = Hooks { progress: &mut |_| {}, cancelled: &|| false, journal: None };
            let options = RunOptions { max_batch_tokens: tokens, ..RunOptions::default() };
            let outcome = evaluate(&task, &subject, &options, &mut hooks).unwrap();
            outcome.complete().unwrap().samples
        };
        let (alone, together) = (run(1), run(4096));
        for (a, b) in alone.iter().zip(&together) {
            let nats = |s: &crate::Sample| s.record["true_logprob"].as_f64().unwrap();
            assert!((nats(a) - nats(b)).abs() < 1e-4, "{a:?} {b:?}");
        }
        let text = file("text.txt", "some text".to_owned());
        let options = TaskOptions { bos: Bos::Never, ..TaskOptions::default() };
        let task = open_task("text", &text, &options).unwrap();
        let error = evaluate(task.as_ref(), &subject, &RunOptions::default(), &mut hooks);
        let message = error.unwrap_err().to_string();
        assert!(
            message.contains("which answers cloze requests only")
                && message.contains("laser_fever"),
            "{message}"
        );
    }
}
