//! Recovery has gradients and moments for the trained parameters alone.

use linwright_compress::methods::SvdMethod;
use linwright_compress::pipeline::{Context, Edited, apply};
use linwright_compress::recover::{Recovery, recover};
use linwright_compress::{Edit, MethodSpec, Plan, Size, SlotSet};
use linwright_lm::next_tokens;
use linwright_model::{Role, Split, Transformer, TransformerConfig, Windows};
use linwright_ops::Sites;
use linwright_run::Silent;
use linwright_tensor::{Metered, RngKey};
use serde_json::json;

#[global_allocator]
static ALLOCATOR: Metered = Metered;

/// Bytes of gradient, two moments and best value of a trained number.
const BYTES: f64 = 16.0;

/// A model that is large beside a batch, with factors of this rank in place of all MLPs.
fn edited(rank: usize) -> Edited<Transformer> {
    let config = TransformerConfig::from_json(&json!({
        "model_type": "llama", "hidden_size": 256, "intermediate_size": 512,
        "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 64, "hidden_act": "silu",
        "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "tie_word_embeddings": false,
    }));
    let model = Transformer::random(config.expect("a valid config"), RngKey::new(1));
    let sites = SlotSet::with_roles(&[Role::Gate, Role::Up, Role::Down], None);
    let method = MethodSpec::Svd(SvdMethod::default());
    let edit = Edit { sites, method, size: Some(Size::Rank(rank)), heals: false };
    let plan = Plan { edits: vec![edit], seed: 0 };
    apply(&model, None, &plan, &Context::new("hash"), &mut Silent).expect("applies")
}

/// Number of trained parameters, and peak memory of a recovery beyond what is held.
fn peak_of(rank: usize) -> (f64, f64) {
    let mut edited = edited(rank);
    let text: Vec<u32> = (0..16).collect();
    let windows = Windows::new(&[text], None, 4, 16, Split::Contiguous).expect("enough");
    let settings = Recovery { steps: 3, rate: 1e-3, seed: 0 };
    let text = next_tokens(&windows);
    let (report, peak) = Metered::peak_bytes(|| {
        recover(&mut edited, &text, &settings, &Context::new("hash"), &mut Silent)
    });
    (report.expect("trains").parameters as f64, peak as f64)
}

/// Bytes of the weights that stay dense.
fn frozen_bytes(model: &Transformer) -> f64 {
    let frozen = model.slots().into_iter().filter(|slot| slot.op().map().weight().is_some());
    4.0 * frozen.map(|slot| slot.parameters() as f64).sum::<f64>()
}

#[test]
fn memory_is_that_of_the_trained_parameters_and_of_one_batch() {
    let [few, many] = [4, 64].map(peak_of);
    let frozen = frozen_bytes(&edited(4).network);
    assert!(few.1 < frozen / 2.0, "{few:?}: frozen weights, {frozen} bytes, have no gradients");
    let slope = (many.1 - few.1) / (many.0 - few.0);
    // Workspaces are a little larger for larger ranks.
    assert!((0.9 * BYTES..1.25 * BYTES).contains(&slope), "{slope} bytes for each parameter");
}
