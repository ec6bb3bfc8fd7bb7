//! Edits of one model, asked together, against each edited model asked alone.

use super::tokenizer;
use linwright_compress::intervention::{Lname, apply_edits};
use linwright_compress::methods::LaserMethod;
use linwright_compress::{Edit, MethodSpec, Plan, Size, SlotSet};
use linwright_evaluate::{Generation, LanguageModel, LanguageModels, MaskedInput, Subject};
use linwright_lm::cuts::{Variant, Variants};
use linwright_model::{Transformer, TransformerConfig};
use linwright_ops::Sites;
use linwright_run::{Silent, Store};
use linwright_tensor::RngKey;
use serde_json::json;
use std::cell::Cell;

fn model(architecture: &str, kind: &str) -> Transformer {
    let config = json!({
        "architectures": [architecture], "model_type": kind, "hidden_size": 16, "vocab_size": 95,
        "intermediate_size": 24, "num_hidden_layers": 3, "num_attention_heads": 2,
        "hidden_act": "gelu", "max_position_embeddings": 64, "type_vocab_size": 2,
        "layer_norm_eps": 1e-12, "layer_norm_epsilon": 1e-5, "n_embd": 16, "n_head": 2,
        "n_layer": 3, "n_positions": 64, "activation_function": "gelu_new",
    });
    Transformer::random(TransformerConfig::from_json(&config).unwrap(), RngKey::new(4))
}

/// A plan that cuts one set of slots.
fn plan(sites: SlotSet, size: Size) -> Plan {
    let method = MethodSpec::Laser(LaserMethod::default());
    Plan { seed: 0, edits: vec![Edit { sites, method, size: Some(size), heals: false }] }
}

/// The model as it is and cut in several places, as edits of it and as models of their own.
fn cut_models(model: &Transformer) -> (Vec<Variant>, Vec<Transformer>) {
    let mut variants = vec![Variant::default()];
    let mut models = vec![model.clone()];
    for (lname, layer, size) in [
        (Lname::FcOut, Some(vec![2]), Size::Rate(10.0)),
        (Lname::FcIn, Some(vec![0]), Size::Rank(2)),
        (Lname::OutProj, None, Size::Rank(1)),
        (Lname::FcIn, Some(vec![1]), Size::Rank(3)),
    ] {
        let plan = plan(SlotSet::named(lname, layer), size);
        let mut edited = model.clone();
        let sites = apply_edits(&mut edited, &plan, &Store::none(), &mut Silent).unwrap();
        variants.push(Variant::of(&edited, sites.iter().map(|edit| &edit.site)));
        models.push(edited);
    }
    (variants, models)
}

#[test]
fn masks_are_filled_as_by_each_model_alone() {
    let (model, tokenizer) = (model("BertForMaskedLM", "bert"), tokenizer());
    let (variants, models) = cut_models(&model);
    let texts: Vec<MaskedInput> = [(20u32, 9usize), (31, 14)]
        .map(|(from, length)| MaskedInput {
            tokens: (from..).take(length).collect(),
            first: 4,
            masks: 2,
            truncated: 0,
            answers: vec![vec![3, 9], vec![60, 1]],
            top_logprobs: 3,
            gold: 1,
        })
        .into();
    for asked in [
        Variants::new(&model, &tokenizer, &variants, None),
        Variants::new(&model, &tokenizer, &variants, None).without_sharing(),
    ] {
        let together = asked.infill_each(&texts).unwrap();
        for (found, edited) in together.iter().zip(&models) {
            let alone = Subject::new(edited, &tokenizer).infill(&texts).unwrap();
            for (a, b) in found.iter().zip(&alone) {
                assert_eq!((&a.text, a.top_logprobs.rank), (&b.text, b.top_logprobs.rank));
                for (x, y) in a.log_likelihoods.iter().zip(&b.log_likelihoods) {
                    assert!((x - y).abs() < 1e-5, "{x} {y}");
                }
            }
        }
        // The edits are there: each changes what the model says.
        let first = |index: usize| together[index][0].log_likelihoods[0];
        assert!((1..models.len()).all(|index| (first(index) - first(0)).abs() > 1e-7));
    }
}

#[test]
fn texts_are_written_as_by_each_model_alone() {
    let (model, tokenizer) = (model("GPT2LMHeadModel", "gpt2"), tokenizer());
    let (variants, models) = cut_models(&model);
    let prompts = [vec![5, 17, 40], vec![33, 8, 9, 10, 2]];
    let generation = Generation::greedy(vec!["Q".into()], 12);
    let asked = Variants::new(&model, &tokenizer, &variants, None);
    let together = asked.generate_each(&prompts, &generation).unwrap();
    assert_eq!(together.len(), models.len());
    for (found, edited) in together.iter().zip(&models) {
        assert_eq!(
            found,
            &Subject::new(edited, &tokenizer).generate(&prompts, &generation).unwrap()
        );
    }
    assert!(together[1..].iter().any(|written| written != &together[0]), "{together:?}");
}

#[test]
fn it_stops_between_two_edits() {
    let (model, tokenizer) = (model("GPT2LMHeadModel", "gpt2"), tokenizer());
    let (variants, _) = cut_models(&model);
    let seen = Cell::new(0);
    let go_on = |done: usize| {
        seen.set(done);
        done < 2
    };
    let asked = Variants::new(&model, &tokenizer, &variants, None).with_cancellation(&go_on);
    let generation = Generation::greedy(Vec::new(), 2);
    let error = asked.generate_each(&[vec![5]], &generation).unwrap_err().to_string();
    assert_eq!((error.as_str(), seen.get()), ("stopped between two edits", 2));
}

/// Weights that a checkpoint holds as one are slots of their own, and cut alone.
#[test]
fn a_part_of_a_fused_weight_is_cut_alone() {
    let model = model("GPT2LMHeadModel", "gpt2");
    let slots = SlotSet::named(Lname::KProj, Some(vec![1]));
    let sites = slots.of(&model).unwrap();
    assert_eq!(sites.len(), 1);
    let mut edited = model.clone();
    let plan = plan(slots, Size::Rank(1));
    apply_edits(&mut edited, &plan, &Store::none(), &mut Silent).unwrap();
    for (before, after) in model.slots().iter().zip(edited.slots()) {
        let is_same = before.op().to_dense().unwrap() == after.op().to_dense().unwrap();
        assert_eq!(is_same, *before.id() != sites[0], "{}", before.id());
    }
}
