//! Recipes of both kinds, read and refused.

use super::*;
use linwright_compress::fit::Ridge;
use linwright_data::Indices;

const GOOD: &str = "
version: 1
title: A test
model: pocket
seeds: [0, 1]
calibration: {dataset: pocket, num_tokens: 1000}
eval: {text: pocket, window: 128, questions: pocket}
tables:
  - title: One
    layers: [[1], [1, 2]]
    methods:
      - {fit: {method: low_rank}, size: {rank: 4}}
      - {label: LR4-trained, fit: {method: low_rank, fit: trained, training: {epochs: 2}}, size: {rank: 4}}
";

fn error(text: &str) -> String {
    parse(Path::new("r.yaml"), text).expect_err("is refused").to_string()
}

#[test]
fn a_recipe_reads_and_survives_a_round_trip() {
    let recipe = parse(Path::new("r.yaml"), GOOD).expect("reads");
    assert_eq!(recipe.tables[0].methods[0].label(), "LR4-closed");
    let plan = recipe.tables[0].plan(&recipe.tables[0].methods[1], &[1, 2], 1);
    assert_eq!((plan.edits.len(), plan.edits[0].sites.layers.clone()), (2, Some(vec![1, 2])));
    let json = serde_json::to_string(&recipe).expect("is plain data");
    assert_eq!(serde_json::from_str::<Recipe>(&json).expect("reads"), recipe);
}

#[test]
fn unknown_keys_name_the_nearest_valid_one_at_every_depth() {
    for (from, to, expected) in [
        ("seeds:", "seed:", "`seeds`"),
        ("num_tokens", "num_token", "`num_tokens`"),
        ("window:", "windw:", "`window`"),
        ("layers:", "layer:", "`layers`"),
        ("size: {rank: 4}}\n", "size: {rnk: 4}}\n", "`rank`"),
        ("size: {rank: 4}}\n", "siz: {rank: 4}}\n", "`size`"),
        ("epochs", "epoch", "`epochs`"),
        ("method: low_rank}", "method: low_rnk}", "`low_rank`"),
    ] {
        let message = error(&GOOD.replacen(from, to, 1));
        assert!(
            message.contains("r.yaml") && message.contains(&format!("did you mean {expected}")),
            "{message}"
        );
    }
}

#[test]
fn an_operator_in_place_of_a_method_is_told() {
    for kind in ["kronecker", "butterfly", "diagonal_low_rank", "product"] {
        let to = format!("method: {kind}}}");
        let message = error(&GOOD.replacen("method: low_rank}", &to, 1));
        assert!(message.contains(kind), "{message}");
        let is_explained = message.contains("is an operator, not a method");
        assert!(is_explained || message.contains("did you mean `low_rank`?"), "{message}");
    }
    let message = error(&GOOD.replacen("method: low_rank}", "method: kronecker}", 1));
    assert!(message.contains("operator: {kind: kronecker}"), "{message}");
}

#[test]
fn any_operator_is_fitted_by_the_structured_method() {
    let sum = "operator: {kind: sum, terms: [{kind: monarch}, {kind: low_rank, rank: 2}]}";
    let to = format!("method: structured, {sum}, starts: 3}}}}");
    let text = GOOD.replacen("method: low_rank}, size: {rank: 4}}", &to, 1);
    let recipe = parse(Path::new("r.yaml"), &text).expect("parses");
    let rows: Vec<&Row> = recipe.tables.iter().flat_map(|table| &table.methods).collect();
    assert!(rows.iter().any(|row| row.label() == "monarch+low_rank"), "{rows:?}");
    let network = GOOD.replacen(
        "method: low_rank}, size: {rank: 4}}",
        "method: structured, operator: {kind: rotor_network}}}",
        1,
    );
    assert!(error(&network).contains("use method rotor"), "{}", error(&network));
}

#[test]
fn values_without_sense_are_refused_by_key() {
    for (from, to, expected) in [
        ("version: 1", "version: 2", "version is 2"),
        ("[0, 1]", "[]", "must not be empty"),
        ("[0, 1]", "[3, 3]", "seeds has 3 twice"),
        ("rank: 4}", "rank: 0}", "tables[0].methods[0].size is wrong: rank is 0"),
        ("low_rank}", "low_rank, rank: 4}", "beside its method; write `size: {rank: ...}`"),
        ("rank: 4}", "keep: 1.0}", "keep is 1, expected a share between 0 and 1"),
        (", size: {rank: 4}", "", "low_rank needs a size: keep, rank, rho"),
        ("window: 128", "window: 128, stride: 129", "eval.stride is 129"),
        ("window: 128", "text_field: content", "eval.text_field has no effect"),
        (
            "dataset: pocket",
            "dataset: a.txt, text_field: b",
            "calibration.text_field has no effect",
        ),
        ("[[1], [1, 2]]", "[[1, 1]]", "tables[0].layers"),
        ("label: LR4-trained", "label: LR4-closed", "two rows named LR4-closed"),
    ] {
        let message = error(&GOOD.replacen(from, to, 1));
        assert!(message.contains(expected), "{message}");
    }
    assert!(error("").contains("r.yaml"));
    assert!(error("[1, 2").contains("r.yaml"));
}

#[test]
fn one_name_is_one_method_in_all_tables() {
    let second = |rank: &str| {
        let method =
            format!("{{label: LR4-closed, fit: {{method: low_rank}}, size: {{rank: {rank}}}}}");
        format!("{GOOD}  - {{title: Two, layers: [[1]], methods: [{method}]}}\n")
    };
    assert_eq!(parse(Path::new("r.yaml"), &second("4")).expect("reads").tables.len(), 2);
    let message = error(&second("5"));
    assert!(message.contains("two methods with the label LR4-closed"), "{message}");
}

const IMAGES: &str = "
version: 1
title: A test
model: net.yaml
calibration: {images: a.gz, labels: b.gz, examples: 0-99, batch: 20, validation: 0.2}
eval: {images: a.gz, labels: b.gz, examples: 100-199}
tables:
  - title: One
    layers: [[0], [0, 1]]
    heal: [{roles: [linear], layers: [4], ridge: 0.01}]
    methods:
      - {fit: {method: low_rank}, size: {rank: 4}}
";

fn image_error(text: &str) -> String {
    parse_images(Path::new("r.yaml"), text).expect_err("is refused").to_string()
}

#[test]
fn a_recipe_of_images_reads_and_replaces_every_slot_and_heals_what_it_says() {
    let recipe = parse_images(Path::new("r.yaml"), IMAGES).expect("reads");
    assert_eq!(recipe.calibration.validation_of(100), 20);
    assert_eq!([1, 2, 3].map(|images| recipe.calibration.validation_of(images)), [1, 1, 1]);
    let plan = recipe.tables[0].plan(&recipe.tables[0].methods[0], &[0, 1], 1);
    let [replaced, healed] = &plan.edits[..] else { panic!("{plan:?}") };
    assert_eq!((&replaced.sites.roles[..], &replaced.sites.layers), (&[][..], &Some(vec![0, 1])));
    assert_eq!((healed.heals, &healed.sites.layers), (true, &Some(vec![4])));
    assert_eq!(healed.method.label(None), "dense-ridge");
    let json = serde_json::to_string(&recipe).expect("is plain data");
    assert_eq!(serde_json::from_str::<ImageRecipe>(&json).expect("reads"), recipe);
    let plain = IMAGES.replace("    heal: [{roles: [linear], layers: [4], ridge: 0.01}]\n", "");
    let plain = parse_images(Path::new("r.yaml"), &plain).expect("reads");
    assert_eq!(plain.tables[0].heal, Some(Vec::new()), "nothing heals by default");
}

#[test]
fn keys_and_values_of_images_are_checked() {
    for (from, to, expected) in [
        ("examples: 0-99", "example: 0-99", "did you mean `examples`?"),
        ("validation: 0.2", "validate: 0.2", "did you mean `validation`?"),
        ("labels: b.gz, examples: 100", "label: b.gz, examples: 100", "did you mean `labels`?"),
        ("roles: [linear]", "role: [linear]", "did you mean `roles`?"),
        ("ridge: 0.01", "rige: 0.01", "did you mean `ridge`?"),
        ("batch: 20", "batch: 0", "calibration.batch is 0"),
        ("validation: 0.2", "validation: 1.0", "calibration.validation is 1"),
        ("examples: 0-99", "examples: 9-1", "ends before it begins"),
        ("images: a.gz", "images: []", "calibration.images is an empty list"),
        ("ridge: 0.01", "ridge: -1", "tables[0].heal[0]"),
        ("layers: [4]", "layers: []", "tables[0].heal[0] has the set []"),
        ("roles: [linear], layers", "layers", "tables[0].heal[0] selects no slots"),
    ] {
        let message = image_error(&IMAGES.replacen(from, to, 1));
        assert!(message.contains("r.yaml") && message.contains(expected), "{to}: {message}");
    }
}

#[test]
fn healing_is_said_by_one_key() {
    let with = |heal: &str| GOOD.replacen("    methods:", &format!("    {heal}\n    methods:"), 1);
    let healed = |text: &str| {
        let recipe = parse(Path::new("r.yaml"), text).expect("reads");
        recipe.tables[0].heal.clone().expect("is filled in")
    };
    assert_eq!(healed(GOOD), [Healing::of_role("output")]);
    assert_eq!(healed(&with("heal: []")), []);
    assert_eq!(
        healed(&with("heal: [{patterns: ['*.o_proj'], ridge: 0.1}]"))[0].ridge,
        Ridge::Share(0.1)
    );
    for heal in ["null", "{fit: trained}"] {
        let message = error(&with(&format!("output_projection: {heal}")));
        assert!(message.contains("write `heal: []` for `output_projection: null`"), "{message}");
    }
    let message = error(&with("targets: [o_proj, query]"));
    assert!(
        message.contains("has o_proj, which heal would refit again; set heal: []"),
        "{message}"
    );
}

const MOLECULES: &str = "
version: 1
title: A test
model: potential.ckpt
calibration: {structures: a.xyz, examples: 0-99, sample: 50, batch: 5, validation: 0.2}
eval: {structures: b.xyz, units: 'kcal/mol,A', forces_key: forces}
tables:
  - title: One
    layers: [[0]]
    targets: [mixing]
    methods:
      - {fit: {method: low_rank}, size: {rank: 4}}
";

#[test]
fn a_recipe_of_molecules_reads_and_heals_nothing_by_default() {
    let recipe = parse_molecules(Path::new("r.yaml"), MOLECULES).expect("reads");
    assert_eq!([50, 2, 1].map(|n| recipe.calibration.validation_of(n)), [10, 1, 1]);
    assert_eq!(recipe.tables[0].heal, Some(Vec::new()));
    let plan = recipe.tables[0].plan(&recipe.tables[0].methods[0], &[0], 1);
    assert_eq!((plan.edits.len(), &plan.edits[0].sites.roles[..]), (1, &["mixing".into()][..]));
    let json = serde_json::to_string(&recipe).expect("is plain data");
    assert_eq!(serde_json::from_str::<MoleculeRecipe>(&json).expect("reads"), recipe);
}

#[test]
fn keys_and_values_of_molecules_are_checked() {
    for (from, to, expected) in [
        ("sample: 50", "samples: 50", "did you mean `sample`?"),
        ("sample: 50", "sample: 1", "calibration.sample is below 2"),
        ("batch: 5", "batch: 0", "calibration.batch is 0"),
        ("validation: 0.2", "validation: 1", "calibration.validation is 1"),
        ("kcal/mol,A", "furlong,A", "eval.units is wrong"),
        ("{rank: 4}", "{rank: 0}", "tables[0].methods[0].size"),
    ] {
        let text = MOLECULES.replacen(from, to, 1);
        let message = parse_molecules(Path::new("r.yaml"), &text).expect_err(to).to_string();
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn common_indices_are_those_of_both_choices() {
    let of = |text: &str| Indices::parse(text).expect("indices");
    let (first, second) = (of("0-9,20"), of("5-30"));
    assert_eq!(Indices::common([Some(&first), Some(&second)], 40), Some([5, 6]));
    assert_eq!(Indices::common([Some(&first), None], 40), Some([0, 11]));
    assert_eq!(Indices::common([None, None], 3), Some([0, 3]));
    assert_eq!(Indices::common([Some(&of("0-4")), Some(&second)], 40), None);
}
