//! Reports of synthetic results: their text, and that they are well formed for any names.

use super::*;
use linwright_evaluate::{Counts, EvaluationRecord, GroupResult, Metric, Prompting, result_json};
use linwright_report::conformance::{check_page, elements};
use linwright_report::{Block, Document, HeatMap, Spread};
use linwright_run::{DataSource, Measured, Provenance};
use serde_json::json;

fn html(report: &Report) -> Result<String, ReportError> {
    linwright_report::html::render(&report.document())
}

fn markdown(report: &Report) -> String {
    linwright_report::markdown::render(&report.document())
}

fn terminal(report: &Report) -> String {
    linwright_report::terminal::render(&report.document())
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

/// Four methods on one to three layers with three seeds, and a comparison at equal parameters.
fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for comparison in ["as in the paper", "equal parameters"] {
        for layers in 1..=3usize {
            for (method, size, loss) in METHODS {
                for seed in 0..3u64 {
                    let jitter = (seed as f64 - 1.0) * 0.008;
                    let each = if comparison == "equal parameters" { 2_560.0 } else { size };
                    let targeted = (each * layers as f64) as u64;
                    let dense = 131_072 * layers as u64;
                    let nll = 1.266 + loss * (layers as f64).powf(1.2) + jitter;
                    rows.push(Row {
                        comparison: comparison.to_owned(),
                        method: method.to_owned(),
                        layers: (2..2 + layers).collect(),
                        seed,
                        parameters: ParameterCounts {
                            targeted,
                            targeted_dense: dense,
                            model: 2_600_000 - dense + targeted,
                            model_dense: 2_600_000,
                        },
                        results: results(nll, 0.8 - nll / 10.0),
                        fit_error: Some(loss * (1.0 + jitter)),
                        seconds: Some(4.0 + size / 1000.0).into(),
                        macs: Some(MacCounts { targeted: 3 * targeted, targeted_dense: dense }),
                        speed: Measured(Some(SiteSpeed {
                            rows: 256,
                            threads: 1,
                            milliseconds: 0.25 * layers as f64 + jitter,
                            milliseconds_dense: 0.5,
                        })),
                    });
                }
            }
        }
    }
    rows
}

/// A report of [`rows`] with curves and errors of all sites.
fn sample() -> Report {
    let rows = rows();
    let (mut curves, mut layer_errors) = (Vec::new(), Vec::new());
    let roles = [("q", "query", 1.0), ("k", "key", 0.7), ("v", "value", 2.2)];
    for (method, _, loss) in METHODS {
        for (layer, seed) in (2..5).flat_map(|layer| (0..3).map(move |seed| (layer, seed))) {
            for (letter, role, weight) in roles {
                let end = loss * weight * (1.0 + 0.1 * layer as f64 + 0.04 * seed as f64);
                let site = SiteId(format!("model.layers.{layer}.self_attn.{letter}_proj"));
                layer_errors.push(LayerError {
                    comparison: String::from("as in the paper"),
                    method: method.to_owned(),
                    site: site.clone(),
                    role: role.to_owned(),
                    layer,
                    seed,
                    relative_error: end,
                });
                let points = (0..=20u64).map(|index| CurvePoint {
                    step: index * 50,
                    train: end,
                    validation: 3.0 * (end + (1.0 - end) * (-(index as f64) / 3.5).exp()),
                });
                curves.push(Curve {
                    comparison: String::from("as in the paper"),
                    method: method.to_owned(),
                    site,
                    seed,
                    target_power: 3.0,
                    points: points.collect(),
                });
            }
        }
    }
    Report {
        schema: SCHEMA,
        title: "Rotor, low-rank and block-Hadamard maps on pocket".to_owned(),
        model: ModelSummary {
            name: "pocket".to_owned(),
            family: "llama".to_owned(),
            parameters: 2_600_000,
            layers: 8,
            hidden: Some(256),
        },
        baseline: results(1.266, 0.71),
        rows,
        curves,
        layer_errors,
        pairs: Vec::new(),
        provenance: provenance(),
        notes: vec!["BH1: 128 blocks do not leave 4 x 4 each; 64 blocks were used.".to_owned()],
    }
}

/// The sample with markup in all names.
fn hostile() -> Report {
    const NAME: &str = "<script>alert('x')</script>\"&|`*_\u{1b}[2J\u{0}";
    let mut report = sample();
    report.title = NAME.to_owned();
    report.model.name = NAME.to_owned();
    report.notes = vec![NAME.to_owned()];
    report.provenance.recipe = NAME.to_owned();
    for row in &mut report.rows {
        row.method = format!("{}{NAME}", row.method);
        row.comparison = NAME.to_owned();
    }
    for result in
        report.baseline.iter_mut().chain(report.rows.iter_mut().flat_map(|r| &mut r.results))
    {
        result.groups.iter_mut().for_each(|group| group.group.push_str(NAME));
    }
    report
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
    let mut report = sample();
    report.rows.iter_mut().for_each(|row| row.method = long.to_owned());
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
        html(&report).unwrap(),
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
    let report = sample();
    let summaries = report.summaries();
    assert_eq!(summaries.len(), 2 * 3 * 4);
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
        sample().headline(),
        "With 3 layers replaced, at equal size rotor comes closest: perplexity 4.356 ± 0.035 \
         against 3.547 of the dense model, with 7,680 parameters in place of 393,216 (2.0 %)."
    );
    // A smaller method that is as close is named, too.
    let mut with_smaller = sample();
    with_smaller.rows.retain(|row| row.comparison == "equal parameters");
    let rotors: Vec<Row> =
        with_smaller.rows.iter().filter(|row| row.method == "rotor").cloned().collect();
    for mut row in rotors {
        row.method = "diagonal".to_owned();
        row.parameters.targeted /= 2;
        with_smaller.rows.push(row);
    }
    let said = with_smaller.headline();
    assert!(said.contains("at equal size rotor comes closest"), "{said}");
    let smaller = " As close with fewer: diagonal 4.356 ± 0.035 with 3,840 parameters.";
    assert!(said.ends_with(smaller), "{said}");
    // Twelve times as many parameters are another size.
    let mut papers = sample();
    papers.rows.retain(|row| row.comparison == "as in the paper");
    let said = papers.headline();
    assert!(said.contains("no two methods have the same size, so that none is ahead"), "{said}");
    assert!(said.contains("rotor 4.356 ± 0.035 with 4,056 parameters, BH1 4.438"), "{said}");
    papers.rows.retain(|row| row.method == "LR4");
    let said = papers.headline();
    assert!(said.starts_with("With 3 layers replaced, LR4 has perplexity 4.96"), "{said}");
    let mut bare = sample();
    bare.rows.clear();
    assert_eq!(bare.headline(), "The dense model has perplexity 3.547; nothing was replaced.");
}

#[test]
fn the_headline_names_no_method_where_seeds_disagree_or_there_is_one_run() {
    let mut report = sample();
    report.rows.retain(|row| row.comparison == "equal parameters");
    for row in report.rows.iter_mut().filter(|row| row.method == "BH1") {
        // Better than the rotor with one seed, worse with the others.
        let nudge = if row.seed == 0 { -0.08 } else { 0.04 };
        let text = row.results.iter_mut().find(|result| result.task == "text").unwrap();
        let metric = text.metrics.iter_mut().find(|m| m.name == "token_perplexity").unwrap();
        metric.value *= f64::exp(nudge);
    }
    let said = report.headline();
    let tie =
        "at equal size no method is shown to come closest: perplexities rotor 4.356 ± 0.035, BH1";
    assert!(said.contains(tie) && !said.contains("LR1"), "{said}");
    report.rows.retain(|row| row.seed == 1);
    let said = report.headline();
    assert!(said.contains("no method is shown to come closest") && said.contains("LR1"), "{said}");
}

/// The sample as a report on images: cross-entropy in place of the perplexity.
fn of_images() -> Report {
    let mut report = sample();
    (report.model.family, report.model.hidden) = ("net".to_owned(), None);
    let all = report.rows.iter_mut().map(|row| &mut row.results);
    for results in std::iter::once(&mut report.baseline).chain(all) {
        let nll = results[0].metric("nll_nats_per_token").unwrap().value;
        "image_classification".clone_into(&mut results[0].task);
        results[0].metrics =
            vec![metric("cross_entropy", nll, false), metric("acc", 1.0 - nll / 10.0, true)];
        results.truncate(1);
    }
    report
}

#[test]
fn reports_without_a_perplexity_compare_cross_entropies_by_the_same_rule() {
    let mut report = of_images();
    assert_eq!(
        report.headline(),
        "With 3 layers replaced, at equal size rotor comes closest: cross-entropy 1.472 ± 0.008 \
         against 1.266 of the dense model, with 7,680 parameters in place of 393,216 (2.0 %)."
    );
    let text = markdown(&report);
    for said in [
        "| Method | Layers | Parameters | Cross-entropy | Multiply-adds (dense) |",
        "| Kept | Accuracy | Fit error |",
        "| rotor | 1 | 1,352 | 1.321 ± 0.008 | 4,056 (131,072) |",
        "| Shape | net, 8 layers, 2,600,000 parameters |",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    assert!(!text.to_lowercase().contains("perplexit"), "{text}");
    let page = html(&report).unwrap();
    for said in ["cross-entropy, nats per example", "Dense cross-entropy", "Dense, image class"] {
        assert!(page.contains(said), "{said}");
    }
    assert_eq!(report.run_table().columns[6].head, "Cross-entropy");
    let read = Report::from_json(&report.to_json().unwrap()).unwrap();
    assert_eq!((read.model.hidden, markdown(&read)), (None, text));
    // Single runs are not told apart.
    report.rows.retain(|row| row.seed == 1);
    let said = report.headline();
    assert!(said.contains("no method is shown to come closest: cross-entropies rotor"), "{said}");
}

#[test]
fn terminal_and_markdown_hold_the_same_table() {
    let report = sample();
    let plain = terminal(&report);
    assert!(plain.starts_with("Rotor, low-rank and block-Hadamard maps on pocket\nWith 3 layers"));
    let line = plain.lines().find(|line| line.starts_with("rotor")).unwrap();
    let cells: Vec<&str> = line.split("  ").map(str::trim).filter(|c| !c.is_empty()).collect();
    assert_eq!(cells[..5], ["rotor", "1", "1,352", "3.747 ± 0.030", "1.321 ± 0.008"]);
    assert_eq!(cells[5..7], ["4,056 (131,072)", "0.25 (0.50)"]);
    assert!(plain.contains("Multiply-adds (dense)  ms for 256 rows (dense)"), "{plain}");
    let text = markdown(&report);
    assert!(text.contains("| rotor | 1 | 1,352 | 3.747 ± 0.030 | 1.321 ± 0.008 | 4,056 (131,072) | 0.25 (0.50) | 1.0 % |"));
    // The file of results alone has no times and machine.
    let mut alone = report.clone();
    alone.rows.iter_mut().for_each(|row| (row.seconds, row.speed) = (None.into(), None.into()));
    alone.provenance = Provenance { device: String::new().into(), ..alone.provenance };
    let alone = Report::from_json(&alone.to_json().unwrap()).unwrap();
    for time in ["| Time |", "ms for 256 rows", "Device", "2026-"] {
        assert!(text.contains(time) && !markdown(&alone).contains(time), "{time}");
    }
    let line = "| rotor | 1 | 1,352 | 3.747 ± 0.030 | 1.321 ± 0.008 | 4,056 (131,072) | 1.0 % |";
    assert!(markdown(&alone).contains(line));
    // Older reports have no such columns.
    let mut older = report;
    older.rows.iter_mut().for_each(|row| (row.macs, row.speed) = (None, None.into()));
    let older = Report::from_json(&older.to_json().unwrap()).unwrap();
    assert!(markdown(&older).contains("3.747 ± 0.030 | 1.321 ± 0.008 | 1.0 % |"));
    assert!(text.contains("## as in the paper") && text.contains("## equal parameters"));
    assert!(text.contains("| Recipe sha256 | 0f0f"));
    let widths: Vec<usize> =
        text.lines().filter(|l| l.starts_with('|')).map(|l| l.matches('|').count()).collect();
    assert!(widths.iter().all(|&width| width > 2));
}

#[test]
fn the_page_is_whole_and_needs_nothing_else() {
    let page = html(&sample()).unwrap();
    let elements = elements(&page);
    let count = |name: &str| elements.iter().filter(|element| *element == name).count();
    assert_eq!((count("h1"), count("table"), count("script"), count("img")), (1, 5, 0, 0));
    // Two comparisons of three panels, the curves in two sizes, three roles.
    assert_eq!(count("svg"), 2 * 3 + 2 + 3);
    assert!(page.contains("width=device-width") && page.contains("default-src 'none'"));
    for outside in ["src=", "href=", "url(", "@import", "https:"] {
        assert!(!page.contains(outside), "{outside}");
    }
    for wanted in [
        "at equal size rotor comes closest",
        "Provenance",
        "0f0f0f",
        "2026-11-21",
        "Training curves",
    ] {
        assert!(page.contains(wanted), "{wanted}");
    }
    assert!(page.len() < 400_000, "{} bytes", page.len());
}

#[test]
fn hostile_names_stay_text() {
    let report = hostile();
    let page = html(&report).unwrap();
    let elements = elements(&page);
    assert!(!elements.contains(&"script".to_owned()));
    assert!(page.contains("&lt;script&gt;"));
    let (plain, text) = (terminal(&report), markdown(&report));
    for output in [&page, &plain, &text] {
        assert!(!output.contains(['\u{1b}', '\u{0}']));
    }
    assert!(!text.contains("<script>") && !text.contains("\"&|"));
}

#[test]
fn thin_reports_render_too() {
    let mut report = sample();
    report.rows.truncate(1);
    report.curves.clear();
    report.layer_errors.truncate(1);
    report.rows[0].results.clear();
    elements(&html(&report).unwrap());
    report.rows.clear();
    report.layer_errors.clear();
    report.baseline.clear();
    elements(&html(&report).unwrap());
    assert!(terminal(&report).contains("0 runs, without a perplexity"));
    let text = markdown(&report);
    assert!(text.contains("## Provenance") && text.contains("0.1.0 (abc1234)"), "{text}");
}

#[test]
fn wrecked_models_render_too() {
    let mut report = sample();
    report.rows[0].results = results(5_000.0, 0.0);
    report.layer_errors[0].relative_error = 0.0;
    report.curves[0].points[3].validation = f64::INFINITY;
    let read = Report::from_json(&report.to_json().unwrap());
    // A curve that overflows cannot be saved; an infinite perplexity can.
    assert!(read.is_err());
    report.curves.clear();
    let read = Report::from_json(&report.to_json().unwrap()).unwrap();
    assert_eq!(terminal(&read), terminal(&report));
    assert!(terminal(&read).contains("inf"));
    elements(&html(&report).unwrap());
}

#[test]
fn saved_reports_come_back_and_others_are_refused() {
    let report = sample();
    let json = report.to_json().unwrap();
    // Numbers may differ in the last bit after parsing.
    let read = Report::from_json(&json).unwrap();
    assert_eq!(markdown(&read), markdown(&report));
    assert_eq!((read.curves.len(), read.layer_errors.len()), (108, 108));
    assert_eq!((&read.provenance, &read.notes), (&report.provenance, &report.notes));
    let newer = json.replacen("\"schema\": 1", "\"schema\": 2", 1);
    let message = Report::from_json(&newer).unwrap_err().to_string();
    assert!(message.contains("layout 2, this program reads layout 1"), "{message}");
    for broken in ["", "[]", "{\"schema\": 1}", "{}"] {
        let message = Report::from_json(broken).unwrap_err().to_string();
        assert!(message.starts_with("not a saved report"), "{message}");
    }
}

#[test]
fn an_evaluation_has_the_shape_of_the_harness() {
    let report = sample();
    let dense = results(1.2, 0.9);
    let value = result_json(&EvaluationRecord {
        model: "../models//a:b/pocket",
        max_length: 512,
        results: &report.baseline,
        comparisons: &[],
        overlap: &[],
        groups: &[],
        prompting: &Prompting::default(),
        baseline: Some(&dense),
        parameters: report.rows[0].parameters,
        provenance: &report.provenance,
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
