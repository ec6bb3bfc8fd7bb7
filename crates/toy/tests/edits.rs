//! Plans, healing and estimates.

use linwright_compress::estimate;
use linwright_compress::pipeline::{Context, Edited, apply};
use linwright_compress::{CompressError, Plan, Rates};
use linwright_ops::{Network, SiteId, SlotSetError};
use linwright_run::Silent;
use linwright_tensor::{Mat, RngKey};
use linwright_toy::{Batches, Toy};
use serde_json::{Value, json};

fn plan(edits: &Value) -> Plan {
    serde_json::from_value(json!({"seed": 1, "edits": edits})).expect("a plan")
}

fn applied(network: &Toy, batches: &Batches, edits: &Value) -> Edited<Toy> {
    let (plan, context) = (plan(edits), Context::new("toy"));
    apply(network, Some(batches), &plan, &context, &mut Silent).expect("applies")
}

/// Mean squared difference of the outputs of two networks.
fn difference(a: &Toy, b: &Toy, batches: &Batches) -> f64 {
    let (mut sum, mut count) = (0.0, 0usize);
    for batch in &batches.0 {
        let [a, b] = [a, b].map(|network| network.output(batch).expect("the right width"));
        for (a, b) in a.data().iter().zip(b.data()) {
            sum += f64::from(a - b).powi(2);
            count += 1;
        }
    }
    sum / count as f64
}

#[test]
fn every_method_fits_and_a_healed_slot_makes_up_for_a_replaced_one() {
    let (network, batches) = (Toy::new(RngKey::new(1)), Batches::random(5, RngKey::new(2)));
    let healing = json!({
        "sites": {"roles": ["output"]}, "method": {"method": "dense"}, "heals": true,
    });
    let training = json!({"epochs": 4, "batch": 16});
    for (method, size) in [
        (json!({"method": "low_rank"}), json!({"rank": 2})),
        (json!({"method": "laser"}), json!({"rank": 2})),
        (json!({"method": "block_hadamard", "training": training}), Value::Null),
        (json!({"method": "rotor", "training": training}), Value::Null),
        (
            json!({"method": "structured", "operator": {"kind": "diagonal_low_rank", "rank": 0}}),
            Value::Null,
        ),
    ] {
        let mut edit = json!({"sites": {"patterns": ["middle"]}, "method": method});
        if !size.is_null() {
            edit["size"] = size;
        }
        let plain = applied(&network, &batches, &json!([edit]));
        let healed = applied(&network, &batches, &json!([edit, healing]));
        assert_eq!(plain.sites[0].site, SiteId("middle".into()));
        assert_eq!((plain.sites[0].role.as_str(), plain.sites[0].layer), ("inner", 1));
        assert_eq!(healed.sites.iter().map(|site| site.heals).collect::<Vec<_>>(), [false, true]);
        let [off, less] =
            [&plain, &healed].map(|edited| difference(&network, &edited.network, &batches));
        assert!(off > 0.0 && less < off, "{method}: {off} without healing, {less} with");
    }
}

#[test]
fn slots_of_one_input_have_plans_of_their_own() {
    let (network, batches) = (Toy::new(RngKey::new(1)), Batches::random(5, RngKey::new(2)));
    let rank = |name: &str, rank: usize| json!({"sites": {"patterns": [name]}, "method": {"method": "low_rank"}, "size": {"rank": rank}});
    let edited = applied(&network, &batches, &json!([rank("right", 3), rank("left", 1)]));
    let kept: Vec<(&str, usize)> =
        edited.sites.iter().map(|site| (site.site.0.as_str(), site.parameters)).collect();
    assert_eq!(kept, [("left", 14), ("right", 42)], "in the order of computation");
    let work = plan(&json!([rank("right", 3), rank("left", 1)]));
    assert_eq!(work.sites(&network).expect("resolves").len(), 1, "one capture");
}

#[test]
fn roles_are_words_of_the_network() {
    let network = Toy::new(RngKey::new(1));
    let with = |roles: Value| {
        plan(
            &json!([{"sites": {"roles": roles}, "method": {"method": "laser"}, "size": {"rank": 1}}]),
        )
    };
    let inside = with(json!(["inside"]));
    let work = inside.sites(&network).expect("an alias");
    assert_eq!(work.iter().map(|group| group.slots.len()).collect::<Vec<_>>(), [2, 1]);
    let error = with(json!(["query"])).sites(&network).expect_err("no such role");
    assert!(matches!(error, CompressError::Slots(SlotSetError::NoRole { .. })), "{error}");
    assert!(error.to_string().contains("there are inner, output"), "{error}");
}

#[test]
fn an_estimate_counts_parameters_and_errors_of_the_network_are_told() {
    let (network, batches) = (Toy::new(RngKey::new(1)), Batches::random(3, RngKey::new(2)));
    let edits = json!([{
        "sites": {"roles": ["inner"]}, "method": {"method": "low_rank"}, "size": {"rank": 2},
    }]);
    let cost = estimate(&plan(&edits), &network, Some(&batches), &mut Rates::default());
    let cost = cost.expect("is estimated");
    let ranks: [u64; 2] = [2 * (14 + 14 + 15), 48 + 48 + 56];
    assert_eq!([cost.targeted, cost.targeted_dense], ranks);
    assert!(cost.seconds > 0.0 && cost.memory_bytes > 4 * network.parameters());
    let wrong = Batches(vec![Mat::zeros(4, 5); 2]);
    let error = apply(&network, Some(&wrong), &plan(&edits), &Context::new(""), &mut Silent);
    let message = error.expect_err("rows of another width").to_string();
    assert!(message.contains("rows have 5 features, expected 6"), "{message}");
}
