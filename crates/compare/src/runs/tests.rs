//! Reports of synthetic results: their text, and that they are well formed for any names.

use super::*;
use crate::cell::{Cell, Dense, Figures, Found};
use crate::judge::{Costs, Speeds};
use crate::report::{document, speed_table};
use crate::rows::Place;
use linwright_evaluate::{Counts, EvaluationRecord, GroupResult, Metric, Prompting, result_json};
use linwright_ops::SiteId;
use linwright_report::conformance::{check_page, elements};
use linwright_report::{Block, Document, HeatMap, ReportError, Spread};
use linwright_run::{DataSource, Provenance};
use linwright_train::CurvePoint;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Macs(u64);

impl Costs for Macs {
    const HEADS: &'static [&'static str] = &["multiply-adds"];
    const METRICS: usize = 1;
    const MEMORY: Option<&'static str> = None;

    fn counted_on() -> String {
        "one text".to_owned()
    }

    fn counts(&self) -> Vec<u64> {
        vec![self.0]
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Rate(f64);

impl Speeds for Rate {
    const HEADS: &'static [&'static str] = &["tokens/s"];

    fn rates(&self) -> Vec<Option<f64>> {
        vec![Some(self.0)]
    }
}

type Sample = Compared<Macs, Rate>;

fn page_document(sample: &Sample) -> Document {
    document("Rotor, low-rank and block-Hadamard maps on pocket", "pocket", sample)
}

fn html(sample: &Sample) -> Result<String, ReportError> {
    linwright_report::html::render(&page_document(sample))
}

fn markdown(sample: &Sample) -> String {
    linwright_report::markdown::render(&page_document(sample))
}

fn terminal(sample: &Sample) -> String {
    linwright_report::terminal::render(&page_document(sample))
}

fn headline(sample: &Sample) -> String {
    Runs::of(sample).headline()
}

const METHODS: [(&str, f64, f64); 4] = [
    ("rotor", 1_352.0, 0.055),
    ("LR1", 2_560.0, 0.16),
    ("LR4", 10_240.0, 0.09),
    ("BH1", 16_384.0, 0.06),
];

fn metric(name: &str, value: f64, higher_is_better: bool) -> Metric {
    Metric::new(name, value, None, higher_is_better)
}

fn results(nll: f64, accuracy: f64) -> Vec<TaskResult> {
    let base = |task: &str, metrics: Vec<Metric>, groups: Vec<GroupResult>| TaskResult {
        task: task.to_owned(),
        protocol: format!("{task}_protocol"),
        version: 1.0,
        data_sha256: "ab".repeat(32),
        bos_used: true,
        metrics,
        groups,
        counts: Counts { items: 5, tokens_counted: 1804, truncated: 0, ties: 1 },
        original: 5,
        ..TaskResult::default()
    };
    let band = |group: &str, value: f64| GroupResult {
        group: group.to_owned(),
        items: 500,
        metrics: vec![metric("exact_match", value, true)],
    };
    vec![
        base(
            "text",
            vec![
                metric("token_perplexity", nll.exp(), false),
                metric("nll_nats_per_token", nll, false),
            ],
            Vec::new(),
        ),
        base(
            "completion",
            vec![metric("exact_match", accuracy, true)],
            vec![band("often", accuracy + 0.1), band("rarely", accuracy - 0.2)],
        ),
    ]
}

/// Provenance of the sample.
fn provenance() -> Provenance {
    Provenance {
        version: "0.1.0".to_owned(),
        commit: Some("abc1234".to_owned()).into(),
        recipe: "recipes/rotor-paper-pocket.yaml".to_owned(),
        recipe_sha256: "0f".repeat(32),
        model_sha256: "7d".repeat(32),
        seeds: vec![0],
        device: "cpu".to_owned().into(),
        dtype: "f32".to_owned(),
        threads: 2.into(),
        date_unix_seconds: 1_795_245_883.0.into(),
        data: vec![DataSource {
            purpose: "evaluation".to_owned(),
            path: "assets/pocket/test.jsonl".to_owned(),
            sha256: "ab".repeat(32),
        }],
        protocols: vec!["text_ppl_w512_s512_bos-always".to_owned()],
    }
}

/// A cell of a method on layers with a seed: its size, loss, and the sites that it fitted.
fn cell((method, size, loss): (&str, f64, f64), layers: usize, seed: u64) -> Cell<Macs, Rate> {
    let jitter = (seed as f64 - 1.0) * 0.008;
    let targeted = (size * layers as f64) as u64;
    let dense = 131_072 * layers as u64;
    let nll = 1.266 + loss * (layers as f64).powf(1.2) + jitter;
    let fits = Fits {
        macs: MacCounts { targeted: 3 * targeted, targeted_dense: dense },
        sites: (2..2 + layers).flat_map(|layer| sites(loss, layer, seed)).collect(),
        speed: Some(SiteSpeed {
            rows: 256,
            threads: 1,
            milliseconds: 0.25 * layers as f64 + jitter,
            milliseconds_dense: 0.5,
        })
        .into(),
    };
    let figures = Figures {
        nearest: None,
        parameters: ParameterCounts {
            targeted,
            targeted_dense: dense,
            model: 2_600_000 - dense + targeted,
            model_dense: 2_600_000,
        },
        macs: Macs(targeted),
        bytes: 0,
        memory: None,
        results: results(nll, 0.8 - nll / 10.0),
        comparisons: Vec::new(),
        note: None,
        is_rounded: false,
        fits: Some(fits),
        speed: None.into(),
        seconds: Some(4.0 + size / 1000.0).into(),
    };
    Cell {
        method: "low_rank".to_owned(),
        is_control: false,
        asked: None,
        label: Some(method.to_owned()),
        size: None,
        place: Some(Place { layers: (2..2 + layers).collect(), seed }),
        found: Found::Model(Box::new(figures)),
    }
}

/// Fits of query, key and value of a layer.
fn sites(loss: f64, layer: usize, seed: u64) -> Vec<SiteFit> {
    let roles = [("q", "query", 1.0), ("k", "key", 0.7), ("v", "value", 2.2)];
    let fit = |(letter, role, weight): (&str, &str, f64)| {
        let end = loss * weight * (1.0 + 0.1 * layer as f64 + 0.04 * seed as f64);
        let points = (0..=20u64).map(|index| CurvePoint {
            step: index * 50,
            train: end,
            validation: 3.0 * (end + (1.0 - end) * (-(index as f64) / 3.5).exp()),
        });
        SiteFit {
            site: SiteId(format!("model.layers.{layer}.self_attn.{letter}_proj")),
            role: role.to_owned(),
            layer,
            relative_error: end,
            target_power: 3.0,
            curve: points.collect(),
        }
    };
    roles.map(fit).into()
}

/// Four methods on one to three layers with three seeds, of the sizes of the paper.
fn as_in_the_paper() -> Sample {
    of_methods(&METHODS)
}

/// The same, all of one size.
fn sample() -> Sample {
    of_methods(&METHODS.map(|(method, _, loss)| (method, 2_560.0, loss)))
}

fn of_methods(methods: &[(&str, f64, f64)]) -> Sample {
    let mut cells = Vec::new();
    for layers in 1..=3 {
        for method in methods {
            cells.extend((0..3).map(|seed| cell(*method, layers, seed)));
        }
    }
    Compared {
        keeps: Vec::new(),
        dense: Dense {
            parameters: [131_072, 2_600_000],
            macs: Macs(131_072),
            bytes: 0,
            memory: None,
            results: results(1.266, 0.71),
            items: Vec::new(),
            speed: None.into(),
        },
        cells,
        pairs: Vec::new(),
        notes: vec!["BH1: 128 blocks do not leave 4 x 4 each; 64 blocks were used.".to_owned()],
    }
}

/// Figures of a cell.
fn figures(cell: &mut Cell<Macs, Rate>) -> &mut Figures<Macs, Rate> {
    match &mut cell.found {
        Found::Model(figures) => figures,
        Found::None(reason) => panic!("{reason}"),
    }
}

/// The seed of a cell.
fn seed(cell: &Cell<Macs, Rate>) -> u64 {
    cell.place.as_ref().expect("a place").seed
}

/// The sample with markup in all names.
fn hostile() -> Sample {
    const NAME: &str = "<script>alert('x')</script>\"&|`*_\u{1b}[2J\u{0}";
    let mut sample = sample();
    sample.notes = vec![NAME.to_owned()];
    for cell in &mut sample.cells {
        cell.label = Some(format!("{}{NAME}", cell.name()));
        let results = &mut figures(cell).results;
        let groups = results.iter_mut().flat_map(|result| &mut result.groups);
        groups.for_each(|group| group.group.push_str(NAME));
    }
    sample
}

fn page_of(map: &HeatMap) -> String {
    let blocks = vec![Block::HeatMap(map.clone())];
    let document = Document { title: "Cuts".into(), blocks, ..Document::default() };
    linwright_report::html::render(&document).unwrap()
}

#[test]
fn every_page_shows_all_columns_of_wide_tables() {
    let long = "model.language_model.layers.13.self_attention.query_key_value.weight";
    let broken = long.replace('.', ".<wbr>");
    let mut sample = sample();
    sample.cells.iter_mut().for_each(|cell| cell.label = Some(long.to_owned()));
    let result = json!({
        "results": {long: {"acc,none": 0.5}}, "versions": {long: 1.0}, "n-shot": {long: 0},
        "config": {"model": long}, "linwright": {"health": [long]},
    });
    let evaluation = linwright_evaluate::report::document(&result.to_string()).unwrap();
    let map = HeatMap {
        title: "acc".into(),
        axis: "matrix".into(),
        rows: vec![long.to_owned()],
        columns: (0..48).map(|layer| layer.to_string()).collect(),
        values: vec![vec![Some(0.5); 48]],
        baseline: 0.5,
        baseline_name: "Without a cut".into(),
        higher_is_better: true,
        chance: None,
    };
    for page in [
        html(&sample).unwrap(),
        linwright_report::html::render(&evaluation).unwrap(),
        page_of(&map),
    ] {
        check_page(&page);
        assert!(page.contains(&broken), "{page}");
    }
    assert!(page_of(&map).contains("<table class=\"many\">"));
    let few = HeatMap { columns: vec!["1".into()], values: vec![vec![Some(0.5)]], ..map };
    assert!(page_of(&few).contains("<table>"), "few columns keep their size");
}

#[test]
fn means_and_deviations_are_over_the_runs_of_a_line() {
    let sample = as_in_the_paper();
    let runs = Runs::of(&sample);
    let summaries = runs.summaries();
    assert_eq!(summaries.len(), 3 * 4);
    assert!(summaries.iter().all(|summary| summary.rows.len() == 3));
    let first = &summaries[0];
    assert_eq!((first.method, first.layer_count), ("rotor", 1));
    let spread = first.metric("text", "nll_nats_per_token").unwrap();
    assert!((spread.mean - 1.321).abs() < 1e-12);
    assert!((spread.deviation.unwrap() - 0.008).abs() < 1e-12);
    assert_eq!(Spread::of(&[2.0]).unwrap().deviation, None);
    assert_eq!(Spread::of(&[]), None);
}

#[test]
fn the_headline_names_the_closest_method_of_those_of_equal_size() {
    assert_eq!(
        headline(&sample()),
        "With 3 layers replaced, at equal size rotor comes closest: perplexity 4.356 ± 0.035 \
         against 3.547 of the dense model, with 7,680 parameters in place of 393,216 (2.0 %)."
    );
    // A smaller method that is as close is named, too.
    let mut with_smaller = sample();
    let is_rotor = |cell: &&Cell<Macs, Rate>| cell.name() == "rotor";
    let rotors: Vec<_> = with_smaller.cells.iter().filter(is_rotor).cloned().collect();
    for mut cell in rotors {
        cell.label = Some("diagonal".to_owned());
        figures(&mut cell).parameters.targeted /= 2;
        with_smaller.cells.push(cell);
    }
    let said = headline(&with_smaller);
    assert!(said.contains("at equal size rotor comes closest"), "{said}");
    let smaller = " As close with fewer: diagonal 4.356 ± 0.035 with 3,840 parameters.";
    assert!(said.ends_with(smaller), "{said}");
    // Twelve times as many parameters are another size.
    let mut papers = as_in_the_paper();
    let said = headline(&papers);
    assert!(said.contains("no two methods have the same size, so that none is ahead"), "{said}");
    assert!(said.contains("rotor 4.356 ± 0.035 with 4,056 parameters, BH1 4.438"), "{said}");
    papers.cells.retain(|cell| cell.name() == "LR4");
    let said = headline(&papers);
    assert!(said.starts_with("With 3 layers replaced, LR4 has perplexity 4.96"), "{said}");
    let mut bare = sample();
    bare.cells.clear();
    assert_eq!(headline(&bare), "The dense model has perplexity 3.547; nothing was replaced.");
}

#[test]
fn the_headline_names_no_method_where_seeds_disagree_or_there_is_one_run() {
    let mut sample = sample();
    for cell in sample.cells.iter_mut().filter(|cell| cell.name() == "BH1") {
        // Better than the rotor with one seed, worse with the others.
        let nudge = if seed(cell) == 0 { -0.08 } else { 0.04 };
        let results = &mut figures(cell).results;
        let text = results.iter_mut().find(|result| result.task == "text").unwrap();
        let metric = text.metrics.iter_mut().find(|m| m.name == "token_perplexity").unwrap();
        metric.value *= f64::exp(nudge);
    }
    let said = headline(&sample);
    let tie =
        "at equal size no method is shown to come closest: perplexities rotor 4.356 ± 0.035, BH1";
    assert!(said.contains(tie) && !said.contains("LR1"), "{said}");
    sample.cells.retain(|cell| seed(cell) == 1);
    let said = headline(&sample);
    assert!(said.contains("no method is shown to come closest") && said.contains("LR1"), "{said}");
}

/// The sample as a comparison on images: cross-entropy in place of the perplexity.
fn of_images() -> Sample {
    let mut sample = as_in_the_paper();
    let all = sample.cells.iter_mut().map(|cell| &mut figures(cell).results);
    for results in std::iter::once(&mut sample.dense.results).chain(all) {
        let nll = results[0].metric("nll_nats_per_token").unwrap().value;
        "image_classification".clone_into(&mut results[0].task);
        results[0].metrics =
            vec![metric("cross_entropy", nll, false), metric("acc", 1.0 - nll / 10.0, true)];
        results.truncate(1);
    }
    sample
}

#[test]
fn reports_without_a_perplexity_compare_cross_entropies_by_the_same_rule() {
    let mut sample = of_images();
    let text = markdown(&sample);
    for said in [
        "| Method | Layers | Parameters | Cross-entropy | Multiply-adds (dense) |",
        "| Kept | Accuracy | Fit error |",
        "| rotor | 1 | 1,352 | 1.321 ± 0.008 | 4,056 (131,072) |",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    assert!(!text.to_lowercase().contains("perplexit"), "{text}");
    let page = html(&sample).unwrap();
    for said in ["cross-entropy, nats per example", "Dense cross-entropy", "Dense, image class"] {
        assert!(page.contains(said), "{said}");
    }
    assert_eq!(Runs::of(&sample).run_table().columns[5].head, "Cross-entropy");
    for cell in &mut sample.cells {
        let figures = figures(cell);
        figures.parameters.targeted = figures.parameters.targeted_dense / 51;
    }
    assert_eq!(
        headline(&sample),
        "With 3 layers replaced, at equal size rotor comes closest: cross-entropy 1.472 ± 0.008 \
         against 1.266 of the dense model, with 7,710 parameters in place of 393,216 (2.0 %)."
    );
    // Single runs are not told apart.
    sample.cells.retain(|cell| seed(cell) == 1);
    let said = headline(&sample);
    assert!(said.contains("no method is shown to come closest: cross-entropies rotor"), "{said}");
}

#[test]
fn terminal_and_markdown_hold_the_same_table_and_times_are_apart() {
    let sample = as_in_the_paper();
    let plain = terminal(&sample);
    assert!(plain.starts_with("Rotor, low-rank and block-Hadamard maps on pocket\nWith 3 layers"));
    let line = plain.lines().find(|line| line.starts_with("rotor")).unwrap();
    let cells: Vec<&str> = line.split("  ").map(str::trim).filter(|c| !c.is_empty()).collect();
    assert_eq!(cells[..5], ["rotor", "1", "1,352", "3.747 ± 0.030", "1.321 ± 0.008"]);
    assert_eq!(cells[5..7], ["4,056 (131,072)", "1.0 %"]);
    let text = markdown(&sample);
    let line = "| rotor | 1 | 1,352 | 3.747 ± 0.030 | 1.321 ± 0.008 | 4,056 (131,072) | 1.0 % |";
    assert!(text.contains(line), "{text}");
    let speeds = speed_table(&sample);
    let heads: Vec<&str> = speeds.columns.iter().map(|column| &*column.head).collect();
    assert_eq!(heads, ["Method", "Layers", "ms for 256 rows (dense)", "Capture and fits"]);
    assert_eq!(speeds.rows[0].cells, ["rotor", "1", "0.25 (0.50)", "5.4 s"]);
    for head in &heads[2..] {
        assert!(!text.contains(head), "{head}");
    }
    // A saved result has no times.
    let mut alone = sample;
    for cell in &mut alone.cells {
        let figures = figures(cell);
        figures.seconds = None.into();
        figures.fits.iter_mut().for_each(|fits| fits.speed = None.into());
    }
    assert_eq!(markdown(&alone), text);
    let widths: Vec<usize> =
        text.lines().filter(|l| l.starts_with('|')).map(|l| l.matches('|').count()).collect();
    assert!(widths.iter().all(|&width| width > 2));
}

#[test]
fn rows_and_the_dense_network_are_compared_item_by_item() {
    let mut sample = sample();
    let pair = |method: &str, against: &str| Pair {
        method: method.to_owned(),
        against: against.to_owned(),
        layers: vec![2],
        differences: vec![linwright_evaluate::Comparison {
            task: "text".into(),
            metric: "token_perplexity".into(),
            filter: "none".into(),
            items: 9,
            difference: 0.25,
            interval: [0.125, 0.375],
            only_one: None,
            mcnemar_p: None,
        }],
    };
    sample.pairs = vec![pair("LR1", "rotor"), pair("LR1", "dense"), pair("rotor", "dense")];
    let runs = Runs::of(&sample);
    let tables = runs.pair_tables();
    let titles: Vec<&str> = tables.iter().map(|table| &*table.caption).collect();
    assert_eq!(titles, ["Difference from rotor", "Difference from dense"]);
    assert_eq!((tables[0].rows.len(), tables[1].rows.len()), (1, 2));
    assert_eq!(tables[0].rows[0].cells[..2], ["LR1", "1"]);
    assert!(markdown(&sample).contains("95 % of items"));
}

#[test]
fn the_page_is_whole_and_needs_nothing_else() {
    let page = html(&sample()).unwrap();
    let elements = elements(&page);
    let count = |name: &str| elements.iter().filter(|element| *element == name).count();
    assert_eq!((count("h1"), count("table"), count("script"), count("img")), (1, 3, 0, 0));
    // Three panels, the curves in two sizes, three roles.
    assert_eq!(count("svg"), 3 + 2 + 3);
    assert!(page.contains("width=device-width") && page.contains("default-src 'none'"));
    for outside in ["src=", "href=", "url(", "@import", "https:"] {
        assert!(!page.contains(outside), "{outside}");
    }
    for wanted in ["at equal size rotor comes closest", "Training curves", "Fit error of each"] {
        assert!(page.contains(wanted), "{wanted}");
    }
    assert!(page.len() < 400_000, "{} bytes", page.len());
}

#[test]
fn hostile_names_stay_text() {
    let sample = hostile();
    let page = html(&sample).unwrap();
    let elements = elements(&page);
    assert!(!elements.contains(&"script".to_owned()));
    assert!(page.contains("&lt;script&gt;"));
    let (plain, text) = (terminal(&sample), markdown(&sample));
    for output in [&page, &plain, &text] {
        assert!(!output.contains(['\u{1b}', '\u{0}']));
    }
    assert!(!text.contains("<script>") && !text.contains("\"&|"));
}

#[test]
fn thin_reports_render_too() {
    let mut sample = sample();
    sample.cells.truncate(1);
    let own = figures(&mut sample.cells[0]);
    own.results.clear();
    own.fits.iter_mut().for_each(|fits| fits.sites.truncate(1));
    elements(&html(&sample).unwrap());
    sample.dense.results.clear();
    elements(&html(&sample).unwrap());
    assert!(terminal(&sample).contains("1 runs, without a perplexity"));
    sample.cells[0].found = Found::None("a reason".to_owned());
    let text = markdown(&sample);
    let reason = "rotor on layers \\[2\\], seed 0: no model, a reason";
    assert!(text.contains(reason) || text.contains(&reason.replace('\\', "")), "{text}");
}

#[test]
fn wrecked_models_render_too() {
    let mut sample = sample();
    let own = figures(&mut sample.cells[0]);
    own.results = results(5_000.0, 0.0);
    let fits = own.fits.as_mut().unwrap();
    fits.sites[0].relative_error = 0.0;
    fits.sites[0].curve[3].validation = f64::INFINITY;
    let read = |sample: &Sample| serde_json::from_value::<Sample>(json!(sample));
    // A curve that overflows cannot be saved; an infinite perplexity can.
    assert!(read(&sample).is_err());
    figures(&mut sample.cells[0]).fits.as_mut().unwrap().sites[0].curve.clear();
    let read = read(&sample).unwrap();
    assert_eq!(terminal(&read), terminal(&sample));
    assert!(terminal(&read).contains("inf"));
    elements(&html(&sample).unwrap());
}

#[test]
fn saved_runs_come_back() {
    let sample = sample();
    let read: Sample = serde_json::from_value(json!(sample)).unwrap();
    assert_eq!(markdown(&read), markdown(&sample));
    assert_eq!(read.cells.len(), 36);
    assert_eq!(read.notes, sample.notes);
    // Those of one place at shares have neither places nor fits.
    let text = json!(sample).to_string();
    assert!(text.contains("\"place\"") && text.contains("\"fits\""));
}

#[test]
fn an_evaluation_has_the_shape_of_the_harness() {
    let sample = sample();
    let provenance = provenance();
    let dense = results(1.2, 0.9);
    let value = result_json(&EvaluationRecord {
        model: "../models//a:b/pocket",
        max_length: 512,
        results: &sample.dense.results,
        comparisons: &[],
        overlap: &[],
        groups: &[],
        prompting: &Prompting::default(),
        baseline: Some(&dense),
        parameters: sample.cells[0].found.figures().unwrap().parameters,
        provenance: &provenance,
        seconds: 1.5,
        peak_bytes: None,
    });
    let keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "results",
            "group_subtasks",
            "configs",
            "versions",
            "n-shot",
            "higher_is_better",
            "n-samples",
            "config",
            "git_hash",
            "date",
            "system_instruction",
            "system_instruction_sha",
            "fewshot_as_multiturn",
            "chat_template",
            "chat_template_sha",
            "max_length",
            "model_source",
            "model_name",
            "model_name_sanitized",
            "total_evaluation_time_seconds",
            "task_hashes",
            "linwright"
        ]
    );
    assert_eq!(
        (&value["git_hash"], &value["linwright"]["version"]),
        (&"abc1234".into(), &"0.1.0".into())
    );
    assert_eq!(value["model_name_sanitized"], "..__models__a__b__pocket");
    assert_eq!(
        (&value["max_length"], &value["total_evaluation_time_seconds"]),
        (&512.into(), &"1.5".into())
    );
    let perplexity = value["results"]["text"]["token_perplexity,none"].as_f64().unwrap();
    assert!((perplexity - 1.266f64.exp()).abs() < 1e-12);
    assert_eq!(value["results"]["completion_often"]["alias"], " - often");
    assert_eq!(value["group_subtasks"]["completion"][1], "completion_rarely");
    assert_eq!(value["linwright"]["tokens_counted"], 1804);
    assert_eq!(value["linwright"]["schema"], 1);
    let baseline = value["linwright"]["baseline"]["text"]["token_perplexity,none"].as_f64();
    assert!((baseline.unwrap() - 1.2f64.exp()).abs() < 1e-12);
    assert_eq!(value["linwright"]["params"]["dense"], 2_600_000);
    assert_eq!(value["higher_is_better"]["text"]["token_perplexity"], false);
    assert_eq!(
        value["linwright"]["health"][0],
        "text: 1 questions had ties, which went to the first choice"
    );
}
