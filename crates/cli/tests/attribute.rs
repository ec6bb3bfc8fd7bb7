//! `attribute`: stores of gradients, and which training examples made a model answer as it does.

use crate::compare_images::{images, labels};
use crate::families::Tiny;
use crate::workshop::{Outcome, Workshop, names};
use serde_json::{Value, json};

/// Fills a store; small enough for milliseconds.
const CACHE: &str = "attribute cache model --train docs.jsonl --compress factgrass:64 --batch 4 \
                     --shard-rows 8 -o store";

/// A workshop with 30 short texts that have ids.
pub(crate) fn workshop() -> Workshop {
    let w = Workshop::new();
    w.write("docs.jsonl", documents(30, |text| text));
    w.write("query.jsonl", documents(30, |text| text).lines().nth(4).unwrap());
    w
}

/// Texts of the calibration file, cut to one sentence each, with ids.
fn documents(count: usize, change: fn(String) -> String) -> String {
    let w = Workshop::new();
    let text = w.text("calibration.jsonl");
    let all = text.lines().enumerate().take(count).map(|(index, line)| {
        let record: Value = serde_json::from_str(line).unwrap();
        let text = record["text"].as_str().unwrap().split('.').next().unwrap().to_owned();
        let text = change(format!("{text} number {index}."));
        json!({"id": format!("doc-{index}"), "text": text}).to_string() + "\n"
    });
    all.collect()
}

fn best(found: &Value, query: usize) -> (u64, String, f64) {
    let first = &found["results"][query][0];
    let id = first["id"].as_str().map_or_else(|| first["id"].to_string(), str::to_owned);
    (first["index"].as_u64().unwrap(), id, first["score"].as_f64().unwrap())
}

#[test]
fn a_text_that_was_trained_on_is_its_own_best_proponent() {
    let w = workshop();
    let cached = w.ok_json(CACHE);
    assert_eq!((&cached["examples"], &cached["cached"]["computed"]), (&json!(30), &json!(4)));
    assert_eq!(cached["layers"], 15);
    let again = w.ok_json(CACHE);
    assert_eq!((&again["cached"]["found"], &again["cached"]["computed"]), (&json!(4), &json!(0)));
    for method in ["influence", "relatif", "cosine", "grad-dot", "tracin", "bm25", "similarity"] {
        let found = w.ok_json(&format!(
            "attribute score store --query query.jsonl --top 5 --method {method}"
        ));
        assert_eq!(found["results"].as_array().unwrap().len(), 1);
        assert_eq!(found["results"][0].as_array().unwrap().len(), 5, "{method}");
        let (index, id, score) = best(&found, 0);
        assert!(score > 0.0, "{method}: {found}");
        if !["grad-dot", "tracin"].contains(&method) {
            assert_eq!((index, id.as_str()), (4, "doc-4"), "{method}: {found}");
        }
        let scores: Vec<f64> = found["results"][0]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["score"].as_f64().unwrap())
            .collect();
        assert!(scores.is_sorted_by(|a, b| a >= b), "{method}: {scores:?}");
        let worst = found["opponents"][0][0]["score"].as_f64().unwrap();
        assert!(worst <= scores[4], "{method}");
        assert_eq!(found["baselines"]["bm25"][0][0]["id"], "doc-4");
        assert_eq!(found["baselines"]["similarity"][0][0]["id"], "doc-4");
    }
    let own = w.ok_json("attribute self store --damping relative:0.1 --top 3 -o self.json");
    assert_eq!(own["scores"].as_array().unwrap().len(), 30);
    let found = w.ok_json("attribute score store --query query.jsonl --damping 0.1 --no-baselines");
    assert_eq!(found["baselines"], json!({}));
    let (_, _, score) = best(&found, 0);
    let itself = own["scores"][4].as_f64().unwrap();
    assert!((score - itself).abs() < 1e-4 * itself, "self-influence: {score}, {itself}");
    let table = w.ok("attribute score store --query query.jsonl --top 3");
    for word in ["doc-4", "bm25", "similarity", "baseline"] {
        assert!(table.contains(word), "{word} in {table}");
    }
}

#[test]
fn a_saved_fisher_matrix_gives_the_same_scores_and_is_refused_for_other_gradients() {
    let w = workshop();
    w.ok(CACHE);
    let score = "attribute score store --query query.jsonl --no-baselines";
    let before = w.ok_json(score)["results"].clone();
    let fisher = w.ok_json("attribute fisher store --damping relative:0.1");
    assert_eq!(fisher["computed"], fisher["layers"].as_array().unwrap().len());
    // 30 examples cannot have more than 30 directions.
    let rank = fisher["layers"][0]["rank"].as_u64().unwrap();
    assert!((1..=30).contains(&rank) && fisher["layers"][0]["numbers"] == 64, "{fisher}");
    assert_eq!(w.ok_json("attribute fisher store")["computed"], 0);
    assert_eq!(w.ok_json(score)["results"], before);
    let table = w.ok("attribute fisher store");
    assert!(table.contains("singular without damping"), "{table}");
    // Without any damping the matrix has no inverse.
    let words = ["singular", "choose a larger one"];
    w.fails("attribute score store --query query.jsonl --damping absolute:0", 1, &words);

    w.write("docs.jsonl", documents(30, |text| text + " Again."));
    w.ok(&CACHE.replace("-o store", "-o other"));
    let file = w.read("store/fisher/000.safetensors");
    std::fs::create_dir(w.path("other/fisher")).unwrap();
    w.write("other/fisher/000.safetensors", file);
    w.fails(&score.replace("store", "other"), 6, &["fisher", "saved Fisher matrix"]);
}

#[test]
fn a_store_of_anything_else_is_refused() {
    let w = workshop();
    w.ok(CACHE);
    let before = names(&w.path("store/shards"));
    for (change, word) in [
        ("factgrass:64|factgrass:16", "the compressor"),
        ("-o store|--target margin -o store", "the target"),
        ("-o store|--reduction sum -o store", "the reduction"),
        ("-o store|--dtype bf16 -o store", "the number type"),
        ("-o store|--seed 3 -o store", "the seed"),
        ("-o store|--checkpoint 1 -o store", "the checkpoint"),
        ("-o store|--reading max_length=6 -o store", "the text or data"),
        ("-o store|--reading examples=0-28 -o store", "the text or data"),
        ("-o store|--reading bos=never -o store", "the text or data"),
        ("--batch 4|--batch 2", "the batch"),
        ("--shard-rows 8|--shard-rows 9", "rows of a shard"),
        ("-o store|--sites *mlp* -o store", "the number of layers"),
        ("model --train|pocket --train", "the network"),
    ] {
        let (from, to) = change.split_once('|').unwrap();
        w.fails(&CACHE.replace(from, to), 6, &[word, "choose another store"]);
    }
    assert_eq!(names(&w.path("store/shards")), before);
    w.write("docs.jsonl", documents(30, |text| text.to_uppercase()));
    w.fails(CACHE, 6, &["the text or data"]);
    // What the baselines read is checked, too; scores by gradients need no examples.
    let score = "attribute score store --query query.jsonl";
    let told = w.run(score);
    assert!(told.stderr.contains("without baselines"), "{told:?}");
    w.fails(&format!("{score} --method bm25"), 6, &["the text or data"]);
    w.ok("export model -o other --form native");
    w.fails("attribute score store --query query.jsonl --model pocket", 6, &["the network"]);
    w.write("docs.jsonl", documents(30, |text| text));
    std::fs::rename(w.path("docs.jsonl"), w.path("moved.jsonl")).unwrap();
    std::fs::rename(w.path("model"), w.path("elsewhere")).unwrap();
    w.fails(score, 1, &["model"]);
    let moved = w.ok_json(&format!("{score} --model elsewhere --train moved.jsonl"));
    assert_eq!(moved["baselines"]["bm25"][0][0]["id"], "doc-4");
}

#[test]
fn a_dry_run_tells_the_size_and_writes_nothing() {
    let w = workshop();
    let planned = w.ok_json(&format!("{CACHE} --dry-run"));
    assert!(!w.path("store").exists());
    let estimate = &planned["estimate"];
    assert!(estimate["seconds"].as_f64().unwrap() > 0.0);
    assert!(estimate["memory_bytes"].as_u64().unwrap() > 0);
    assert!(w.ok(&format!("{CACHE} --dry-run")).contains("nothing was written"));
    w.ok(CACHE);
    let bytes = |folder: &str| -> u64 {
        let files = names(&w.path(folder));
        files.iter().map(|name| w.read(&format!("{folder}/{name}")).len() as u64).sum()
    };
    let (found, told) =
        (bytes("store/shards") + bytes("store/maps"), estimate["disk_bytes"].as_u64().unwrap());
    let off = found.abs_diff(told) as f64 / found as f64;
    // Headers of the small files of maps are not counted.
    assert!(off < 0.1, "{found}, {told}");
}

#[test]
fn shares_of_a_cache_give_the_files_of_one_process() {
    let w = workshop();
    w.ok(CACHE);
    let own = CACHE.replace("-o store", "-o shared");
    let part = w.ok_json(&format!("{own} --shard 1/2"));
    assert_eq!((&part["cached"]["computed"], &part["cached"]["left"]), (&json!(2), &json!(2)));
    let score = "attribute score shared --query query.jsonl";
    w.fails(score, 1, &["2 of 4 shards", "cache the gradients again"]);
    w.ok(&format!("{own} --shard 0/2"));
    for name in names(&w.path("store/shards")) {
        let file = format!("shards/{name}");
        assert!(w.read(&format!("store/{file}")) == w.read(&format!("shared/{file}")), "{file}");
    }
    w.ok(score);
}

#[test]
fn a_flipped_bit_is_found_and_that_file_alone_is_computed_again() {
    let w = workshop();
    w.ok(CACHE);
    let score = "attribute score store --query query.jsonl --no-baselines";
    let before = w.ok_json(score)["results"].clone();
    let (file, good) = ("store/shards/000001.grd", w.read("store/shards/000001.grd"));
    let mut changed = good.clone();
    changed[9000] ^= 4;
    w.write(file, changed);
    w.fails(score, 1, &["000001.grd", "checksum", "remove the file"]);
    std::fs::remove_file(w.path(file)).unwrap();
    let again = w.ok_json(CACHE);
    assert_eq!((&again["cached"]["found"], &again["cached"]["computed"]), (&json!(3), &json!(1)));
    assert!(w.read(file) == good);
    assert_eq!(w.ok_json(score)["results"], before);
    let mut maps = w.read("store/maps/000.safetensors");
    let last = maps.len() - 1;
    maps[last] ^= 1;
    w.write("store/maps/000.safetensors", maps);
    w.fails(score, 1, &["000.safetensors", "the maps of a layer were changed"]);
}

#[test]
fn texts_come_from_lines_rows_and_tables() {
    let w = workshop();
    let lines = ["Mira saw a boat by the lake.", "Tom lost the key.", "", "The bell rang at noon."];
    w.write("docs.txt", lines.join("\n"));
    let all = "attribute cache model --compress mask:16 --train";
    let found = w.ok_json(&format!("{all} docs.txt -o lines"));
    assert_eq!(found["examples"], 3);
    w.write("query.txt", lines[3]);
    let found = w.ok_json("attribute score lines --query query.txt --top 9 --method cosine");
    assert_eq!(found["results"][0].as_array().unwrap().len(), 3);
    // Without ids of their own, examples are called by their index.
    assert_eq!(best(&found, 0).0, 2);
    assert_eq!((&found["results"][0][0]["id"], &found["query_ids"]), (&json!(2), &json!([0])));
    w.write("cut.txt", lines.join(" ## "));
    let found = w.ok_json(&format!("{all} cut.txt --reading separator=## -o cut"));
    assert_eq!(found["examples"], 3);
    w.write("rows.csv", "id,text\n7,Mira saw a boat.\n8,Tom lost the key.\n");
    w.ok(&format!("{all} rows.csv -o rows"));
    let found =
        w.ok_json("attribute score rows --query rows.csv --reading examples=1-1 --method cosine");
    assert_eq!((&found["results"][0][0]["id"], &found["query_ids"]), (&json!(8), &json!([8])));
    w.ok("attribute cache pocket --train pocket --reading examples=0-3,max_length=24 --compress factgrass:16 -o p");
    let part = w.ok_json(&format!("{all} docs.jsonl --reading examples=\"3-6,9\" -o part"));
    assert_eq!(part["examples"], 5);
    let note = w.run(&format!("{all} docs.jsonl --reading max_length=5 -o short")).stderr;
    assert!(note.contains("30 texts of docs.jsonl were cut after 5 tokens"), "{note}");
}

#[test]
fn of_a_prompt_with_its_completion_the_completion_counts() {
    let w = workshop();
    w.ok(CACHE);
    let query = |w: &Workshop, name: &str, line: Value| w.write(name, line.to_string());
    query(&w, "asked.jsonl", json!({"prompt": "Mira lost the", "completion": " key."}));
    query(&w, "whole.jsonl", json!({"text": "Mira lost the key."}));
    let of = |name: &str| {
        let args = format!("attribute score store --no-baselines --method grad-dot --query {name}");
        w.ok_json(&args)["results"].clone()
    };
    assert_ne!(of("asked.jsonl"), of("whole.jsonl"));
    w.fails(
        "attribute cache model --compress mask:16 --train asked.jsonl -o no",
        1,
        &["field `text` is missing"],
    );
    query(&w, "nothing.jsonl", json!({"prompt": "Mira lost the key.", "completion": ""}));
    let words = ["nothing.jsonl, line 1", "no token"];
    w.fails("attribute score store --query nothing.jsonl", 1, &words);
}

#[test]
fn margins_logits_checkpoints_and_curvatures_have_scores_of_their_own() {
    let w = workshop();
    for (name, more) in [
        ("a", ""),
        ("b", "--checkpoint 1"),
        ("margin", "--target margin"),
        ("margin2", "--target margin --checkpoint 1"),
    ] {
        let compress = "attribute cache model --train docs.jsonl --compress logra:16";
        w.ok(&format!("{compress} {more} -o {name}"));
    }
    let results = |args: &str| {
        let found =
            w.ok_json(&format!("attribute score {args} --query query.jsonl --no-baselines"));
        let best = best(&found, 0);
        (found["results"].clone(), best)
    };
    let mut seen = Vec::new();
    for args in [
        "a",
        "a --method kfac",
        "a --method ekfac --damping absolute:0.001",
        "a --target margin",
        "a --target token",
        "a --checkpoints b",
        "a --method tracin --checkpoints b --weights 0.1,0.03",
        "margin --method trak",
        "margin --method trak --damping absolute:0.01 --checkpoints margin2",
    ] {
        let (found, (index, ..)) = results(args);
        assert!(!seen.contains(&found), "{args}");
        seen.push(found);
        if !args.contains("token") && !args.contains("tracin") {
            assert_eq!(index, 4, "{args}");
        }
    }
    let parts = w.ok_json("attribute score a --query query.jsonl --by-layer --no-baselines");
    let first = &parts["results"][0][0];
    let layers = first["layers"].as_object().unwrap();
    let sum: f64 = layers.values().map(|part| part.as_f64().unwrap()).sum();
    assert!(layers.len() == 15 && (sum - first["score"].as_f64().unwrap()).abs() < 1e-6 * sum);
    let query = "--query query.jsonl";
    for (args, code, words) in [
        ("a --method cosine --groups *mlp*", 2, &["--groups", "not a sum over layers"][..]),
        ("a --method trak", 2, &["margin, for TRAK"]),
        ("a --method bm25 --checkpoints b", 2, &["has no gradients"]),
        ("a --method cosine --damping 0.1", 2, &["cosine has none"]),
        ("a --damping much", 2, &["at least 0"]),
        ("a --checkpoints b --weights 1", 2, &["1 for 2 checkpoints"]),
        ("margin --method trak --checkpoints margin2 --weights 1,1", 2, &["mean of checkpoints"]),
        ("a --method cosine --by-layer", 2, &["not a sum over layers"]),
    ] {
        w.fails(&format!("attribute score {args} {query}"), code, words);
    }
    w.ok(CACHE);
    let words = ["map of the product", "logra"];
    w.fails(&format!("attribute score store {query} --method ekfac"), 2, &words);
    let few = CACHE.replace("-o store", "--reading examples=0-9 -o few");
    w.ok(&few);
    let words = ["other examples"];
    w.fails(&format!("attribute score a {query} --checkpoints few"), 6, &words);
}

#[test]
fn scores_of_groups_of_layers_are_parts_of_the_score() {
    let w = workshop();
    w.ok("attribute cache model --train docs.jsonl --compress logra:16 -o a");
    let groups = "attribute score a --query query.jsonl --top 30 --no-baselines --groups";
    let found = w.ok_json(&format!("{groups} *mlp*,re:.*attn.*,* --by-layer"));
    let of = |pattern: &str, index: u64| -> f64 {
        let list = found["groups"][pattern][0].as_array().unwrap();
        let entry = list.iter().find(|entry| entry["index"] == index).unwrap();
        entry["score"].as_f64().unwrap()
    };
    for entry in found["results"][0].as_array().unwrap() {
        let (index, score) = (entry["index"].as_u64().unwrap(), entry["score"].as_f64().unwrap());
        let layers = entry["layers"].as_object().unwrap();
        let mlp = layers.iter().filter(|(site, _)| site.contains("mlp"));
        let mlp: f64 = mlp.map(|(_, part)| part.as_f64().unwrap()).sum();
        assert!((of("*mlp*", index) - mlp).abs() < 1e-6 * score.abs().max(1.0), "{entry}");
        // The head is not a layer with a number, so it is in no group.
        let head = layers["lm_head"].as_f64().unwrap();
        assert!((of("*", index) + head - score).abs() < 1e-6 * score.abs().max(1.0), "{entry}");
    }
    let told = w.ok("attribute score a --query query.jsonl --top 3 --groups *mlp*");
    assert!(told.contains("group of layers") && told.contains("*mlp*"), "{told}");
    w.fails(&format!("{groups} *nothing*"), 2, &["nothing"]);
}

#[test]
fn learned_compressors_learn_from_the_first_examples() {
    let w = workshop();
    for compress in ["logra_pca:16", "selective_factgrass:16"] {
        let args = format!(
            "attribute cache model --train docs.jsonl --learn-from 12 --sites *down* \
             --compress {compress} -o {}",
            &compress[..5]
        );
        assert_eq!(w.ok_json(&args)["layers"], 2);
        assert_eq!(w.ok_json(&args)["cached"]["computed"], 0, "the same maps");
    }
}

#[test]
fn a_page_shows_what_speaks_for_and_against_by_token() {
    let w = workshop();
    w.ok(CACHE);
    let args = "attribute show store --query query.jsonl --top 2 --html page.html";
    let run = w.run(&format!("{args} --json"));
    let once = |run: &Outcome| run.stderr.matches("gradients of the queries").count();
    assert_eq!((run.code, once(&run)), (Some(0), 1), "{run:?}");
    let found: Value = serde_json::from_str(&run.stdout).unwrap();
    let first = &found["results"][0][0];
    assert_eq!(first["id"], "doc-4");
    let shares: f64 =
        first["tokens"].as_array().unwrap().iter().map(|token| token[1].as_f64().unwrap()).sum();
    let score = first["score"].as_f64().unwrap();
    assert!((shares - score).abs() < 1e-3 * score, "shares add up: {shares}, {score}");
    let page = w.text("page.html");
    for word in ["Proponent 1", "Opponent 2", "doc-4", "support the answer"] {
        assert!(page.contains(word), "{word}");
    }
    // Another command finds them in the store, and other queries are computed, once.
    let score = "attribute score store --by-layer --groups *mlp* --query";
    let run = w.run(&format!("{score} query.jsonl"));
    assert_eq!((run.code, once(&run)), (Some(0), 0), "{run:?}");
    w.write("other.jsonl", w.text("query.jsonl").replacen(' ', "  ", 1));
    let run = w.run(&format!("{score} other.jsonl"));
    assert_eq!((run.code, once(&run)), (Some(0), 1), "{run:?}");
    let own = w.ok_json(&format!("{score} query.jsonl"));
    w.ok("cache rm --all");
    assert_eq!(w.ok_json(&format!("{score} query.jsonl"))["results"], own["results"]);
    let table = w.ok("attribute show store --query query.jsonl --top 1 --method bm25");
    assert!(table.contains("proponents") && table.contains("doc-4"), "{table}");
}

#[test]
fn images_of_a_small_network_are_attributed() {
    let w = Workshop::new();
    w.write("a-images-idx3-ubyte", images());
    w.write("labels", labels(3));
    w.ok("train-net mlp:16 --images a-images-idx3-ubyte:labels=labels --epochs 5 -o net");
    let data = "a-images-idx3-ubyte --reading labels=labels";
    w.ok(&format!("attribute cache net --train {data},examples=0-79 --compress identity -o store"));
    let query = format!("--query {data},examples=80-83 --top 5");
    let found = w.ok_json(&format!("attribute score store {query} --damping 0.1"));
    assert_eq!(found["results"].as_array().unwrap().len(), 4);
    assert_eq!(found["query_ids"], json!([80, 81, 82, 83]));
    for (query, best) in found["results"].as_array().unwrap().iter().enumerate() {
        // Images are alike if their class is, which is the remainder of their number by four.
        let index = best[0]["index"].as_u64().unwrap() as usize;
        assert_eq!(index % 4, query, "{best}");
    }
    assert!(found["baselines"]["bm25"].is_null());
    w.ok(&format!("attribute score store {query} --method ekfac"));
    let words = ["images have no words"];
    w.fails(&format!("attribute score store {query} --method bm25"), 2, &words);
    w.ok(&format!("attribute show store {query}"));
    let small = "attribute cache net --compress mask:9 -o small --train";
    w.fails(&format!("{small} {data},resize=4x4"), 2, &["expected"]);
    assert!(!w.path("small").exists());
}

/// A network of two layers on images of 4 x 4 pixels, of which each has one bright one. `last` are
/// the weights of the second layer, and with zeros no gradient reaches the first.
fn dots(w: &Workshop, last: f32) {
    let first = (0..48).map(|i| ((i * 7 % 11) as f32 - 2.0) / 9.0);
    let second = (0..6).map(|i| last * ((i * 5 % 7) as f32 - 3.0));
    let tensors: [(&str, &[usize], Vec<f32>); 4] = [
        ("a.weight", &[3, 16], first.collect()),
        ("a.bias", &[3], vec![0.5; 3]),
        ("b.weight", &[2, 3], second.collect()),
        ("b.bias", &[2], vec![0.0; 2]),
    ];
    let (mut header, mut bytes) = (serde_json::Map::new(), Vec::new());
    for (name, shape, values) in tensors {
        let start = bytes.len();
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        let offsets = [start, bytes.len()];
        header.insert(
            name.to_owned(),
            json!({"dtype": "F32", "shape": shape, "data_offsets": offsets}),
        );
    }
    let header = Value::Object(header).to_string().into_bytes();
    w.write(
        "net.safetensors",
        [&(header.len() as u64).to_le_bytes()[..], &header, &bytes].concat(),
    );
    let layers = "weights: net.safetensors\ninput: {channels: 1, height: 4, width: 4}\nlayers:\n  \
                  - flatten\n  - linear: {name: a, out: 3}\n  - relu\n  - linear: {name: b, out: 2}\n";
    w.write("net.yaml", layers);
    let mut images = [0x803_u32, 12, 4, 4].map(u32::to_be_bytes).concat();
    images.extend((0..12 * 16).map(|at| if at % 16 == at / 16 { 255u8 } else { 0 }));
    w.write("dots-images-idx3-ubyte", images);
    let mut labels = [0x801_u32, 12].map(u32::to_be_bytes).concat();
    labels.extend((0..12).map(|image| image % 2));
    w.write("labels", labels);
}

#[test]
fn compressed_gradients_of_zero_are_stored_and_told_and_true_ones_are_errors() {
    let w = Workshop::new();
    let data = "dots-images-idx3-ubyte --reading labels=labels";
    let cache = format!("attribute cache net.yaml --sites a --train {data}");
    dots(&w, 0.0);
    for (compress, out) in [("identity", "none"), ("mask:4", "other")] {
        let line = format!("{cache} --compress {compress} -o {out}");
        w.fails(&line, 1, &["example 0", "the gradient is zero at every chosen layer"]);
    }
    dots(&w, 0.5);
    let told = w.ok(&format!("{cache} --compress mask:2 -o few"));
    let found = w.ok_json(&format!("{cache} --compress mask:2 -o few"));
    let zeros = found["cached"]["zeros"].as_u64().unwrap();
    assert!(zeros > 0 && zeros < 12, "{found}");
    let words = format!("{zeros} examples have compressed gradients of zeros");
    assert!(told.contains(&words) && told.contains("mask:2"), "{told}");
    let whole = w.ok_json(&format!("{cache} --compress identity -o whole"));
    assert_eq!(whole["cached"]["zeros"], 0);
    let own = w.ok_json("attribute self few --damping relative:0.1 -o self.json");
    let own = own["scores"].as_array().unwrap();
    let is_zero = |at: &usize| own[*at].as_f64().unwrap() == 0.0;
    assert_eq!((0..12).filter(is_zero).count() as u64, zeros, "{own:?}");
    let score = |at: usize| format!("attribute score few --query {data},examples={at}");
    let missed = (0..12).find(is_zero).unwrap();
    let words = ["compressed gradient are zero, although its gradient is not", "a larger size"];
    w.fails(&score(missed), 1, &words);
    let seen = (0..12).find(|at| !is_zero(at)).unwrap();
    for method in ["influence", "relatif", "cosine", "grad-dot"] {
        let line = format!("{} --method {method} --top 12 --no-baselines", score(seen));
        let found = w.ok_json(&line);
        let scores: Vec<f64> = found["results"][0]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["score"].as_f64().unwrap_or_else(|| panic!("{method}: {entry}")))
            .collect();
        assert_eq!(scores.len(), 12, "{method}");
        assert!(scores.iter().filter(|score| **score == 0.0).count() as u64 >= zeros, "{method}");
    }
}

#[test]
fn texts_without_a_token_to_predict_are_errors() {
    let w = workshop();
    let all = "attribute cache model --compress mask:16 -o store --train";
    w.write("empty.txt", " \n\n");
    w.fails(&format!("{all} empty.txt"), 1, &["empty.txt"]);
    w.write("rows.jsonl", "{\"text\": \"Tom saw a boat.\"}\n{\"text\": \" \"}\n");
    w.fails(&format!("{all} rows.jsonl"), 1, &["line 2", "empty"]);
    w.write("short.jsonl", "{\"text\": \"Tom saw a boat.\"}\n{\"text\": \"x\"}\n");
    let words = ["short.jsonl, line 2", "no token of the text is left"];
    w.fails(&format!("{all} short.jsonl --reading bos=never"), 1, &words);
    assert!(!w.path("store").exists());
    for (args, words) in [
        ("docs.jsonl --reading examples=0-30", &["there is no example 30"][..]),
        ("docs.jsonl --reading labels=labels", &["texts have none"]),
        ("docs.jsonl --sites *nothing*", &["nothing"]),
        ("docs.txt --text-field text", &["plain text"]),
        ("docs.jsonl --compress grass", &["needs a size"]),
        ("docs.jsonl --compress magic:4", &["expected one of"]),
    ] {
        w.write("docs.txt", "Tom saw a boat.");
        let line = format!("attribute cache model --compress mask:16 -o store --train {args}");
        let line = match args.contains("--compress") {
            true => line.replacen("--compress mask:16 ", "", 1),
            false => line,
        };
        w.fails(&line, 2, words);
    }
    w.fails("attribute score store --query docs.jsonl", 1, &["is not a store of gradients"]);
    // Queries are cut as the examples of the store were.
    let cache =
        "attribute cache model --compress mask:16 --reading bos=never --train docs.jsonl -o kept";
    w.ok(cache);
    w.write("query.jsonl", "{\"text\": \"x\"}\n");
    let words = ["query.jsonl, line 1", "make the store again with a larger max_length"];
    w.fails("attribute score kept --query query.jsonl", 1, &words);
}

#[test]
fn scores_are_measured_by_networks_trained_on_parts() {
    let w = Workshop::new();
    w.write("a-images-idx3-ubyte", images());
    w.write("labels", labels(3));
    let data = "a-images-idx3-ubyte:labels=labels";
    w.ok(&format!("train-net mlp:8 --images {data},examples=0-59 --steps 30 -o net"));
    let cache = "attribute cache net --compress identity --target margin";
    let read = "--reading labels=labels,examples=0-59";
    w.ok(&format!("{cache} --train a-images-idx3-ubyte {read} -o store"));
    let lds = format!(
        "attribute lds store --images {data},examples=60-79 --subsets 8 --share 0.4 --repeats 2 \
         --steps 20 --training batch=16 --rate 0.01 --seed 3 --methods influence,trak,grad-dot \
         --dampings 0.1 absolute:0.01"
    );
    let part = w.ok_json(&format!("{lds} --shard 1/2 -o out"));
    assert_eq!((&part["known"], &part["subsets"]), (&json!(4), &json!(8)));
    let whole = w.ok_json(&format!("{lds} -o out"));
    assert_eq!(whole["results"].as_array().unwrap().len(), 5);
    assert_eq!((&whole["examples_of_a_subset"], &whole), (&json!(24), &w.json("out/result.json")));
    for row in whole["results"].as_array().unwrap() {
        let (lds, error) = (row["lds"].as_f64().unwrap(), row["lds_stderr"].as_f64().unwrap());
        assert!(lds.abs() <= 1.0 && error > 0.0 && error < 0.5, "{row}");
        assert_eq!(row["by_query"].as_array().unwrap().len(), 20);
    }
    // One process alone, and one that was stopped, have the same files.
    assert_eq!(w.ok_json(&format!("{lds} -o alone"))["results"], whole["results"]);
    for name in names(&w.path("out/parts")) {
        let part = format!("parts/{name}");
        assert!(w.read(&format!("out/{part}")) == w.read(&format!("alone/{part}")), "{part}");
    }
    let report = w.text("out/report.md");
    assert!(report.contains("LDS") && report.contains("trak"), "{report}");
    w.fails(&format!("{} -o out", lds.replace("--seed 3", "--seed 4")), 6, &["another training"]);
    w.write("out/parts/0003.json", "{}");
    w.fails(&format!("{lds} -o out"), 1, &["0003.json", "remove the file"]);
    w.fails(
        &format!("{lds} --share 1.5 -o no").replacen("--share 0.4 ", "", 1),
        2,
        &["'1.5'", "--share", "from 0 to 1"],
    );
    let removed = "attribute lds store --images \
                   a-images-idx3-ubyte:labels=labels,examples=60-62 --methods grad-dot --steps 20 --training batch=16 --rate 0.01 --remove 2,20 -o less";
    let part = w.ok_json(&format!("{removed} --shard 0/2"));
    // All examples, and for each query two numbers of the method's best and of random ones.
    assert_eq!((&part["known"], &part["subsets"]), (&json!(7), &json!(13)));
    let less = w.ok_json(removed);
    let changes = less["changes"].as_array().unwrap();
    let named: Vec<(&str, u64)> = changes
        .iter()
        .map(|row| (row["method"].as_str().unwrap(), row["removed"].as_u64().unwrap()))
        .collect();
    assert_eq!(named, [("grad-dot", 2), ("grad-dot", 20), ("random", 2), ("random", 20)]);
    assert!(changes.iter().all(|row| (0.0..=1.0).contains(&row["flipped"].as_f64().unwrap())));
    let part: Value = w.json("less/parts/0001.json");
    assert!(part.to_string().contains("examples"), "{part}");
    let other = removed.replace("--remove 2,20", "--remove 2,21");
    w.fails(&other, 6, &["another training"]);
    w.fails(&removed.replace("--remove 2,20", "--remove 60"), 2, &["--remove", "from 1 to 59"]);
    let one = "attribute lds store --images a-images-idx3-ubyte:labels=labels,examples=60-69 \
               --steps 5 --methods grad-dot -o one --leave-out";
    let one_out = w.ok_json(&format!("{one} 0-2,7"));
    assert_eq!((&one_out["subsets"], &one_out["examples_of_a_subset"]), (&json!(4), &json!(59)));
    w.fails(&format!("{one} 60"), 2, &["there is no example 60"]);
    w.fails(&format!("{one} 3"), 2, &["at least two"]);
    w.write("docs.txt", "Tom saw a boat.\nMira lost the key.\n");
    w.ok("attribute cache model --train docs.txt --compress mask:16 -o texts");
    let words = ["language model", "give a store of one"];
    w.fails("attribute lds texts --images docs.txt -o no", 2, &words);
    assert!(!w.path("no").exists());
}

#[test]
fn wrong_labels_have_much_influence_on_themselves() {
    let w = Workshop::new();
    w.write("a-images-idx3-ubyte", images());
    let mut wrong = labels(3);
    // A header of eight bytes.
    [5, 22, 41].iter().for_each(|image| wrong[8 + image] = (wrong[8 + image] + 1) % 4);
    w.write("labels", wrong);
    let data = "a-images-idx3-ubyte:labels=labels";
    w.ok(&format!("train-net mlp:8 --images {data} --steps 60 --rate 0.01 --training last -o net"));
    let cache = "attribute cache net --train a-images-idx3-ubyte --reading labels=labels";
    w.ok(&format!("{cache} --compress identity -o store"));
    let found = w.ok_json("attribute self store --wrong 5,22,41");
    assert!(found["detection_area"].as_f64().unwrap() > 0.95, "{}", found["detection_area"]);
    assert!(w.ok("attribute self store --wrong 5,22,41").contains("with an area of"));
    w.fails("attribute self store --wrong 120", 2, &["there is no example 120"]);
    w.fails("attribute self store --wrong 0-119", 2, &["every example is wrong"]);
}

#[test]
fn methods_are_measured_by_what_they_should_find() {
    let w = Workshop::new();
    let world = w.ok_json("attribute world --stories 10 --documents 300 --questions 4 -o world");
    assert_eq!((&world["documents"], &world["questions"]), (&json!(300), &json!(12)));
    let text = w.text("world/documents.jsonl");
    let documents: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let asked = w.text("world/questions.jsonl");
    let mut stated = 0;
    for line in asked.lines() {
        let question: Value = serde_json::from_str(line).unwrap();
        let completion = question["completion"].as_str().unwrap().trim();
        for id in question["relevant"].as_array().unwrap() {
            let found = documents.iter().find(|document| document["id"] == *id).unwrap();
            assert!(found["text"].as_str().unwrap().contains(completion), "{question}");
            stated += 1;
        }
    }
    assert!(stated > 0);
    // The same world every time, and another one of another seed.
    w.ok("attribute world --stories 10 --documents 300 --questions 4 -o again");
    assert_eq!(w.read("again/questions.jsonl"), w.read("world/questions.jsonl"));
    w.ok("attribute world --stories 10 --documents 300 --questions 4 --seed 2 --force -o again");
    assert_ne!(w.read("again/questions.jsonl"), w.read("world/questions.jsonl"));

    let train = "--train world/documents.jsonl --reading max_length=32 --compress factgrass:16";
    w.ok(&format!("attribute cache model {train} -o store"));
    let recall = "attribute recall store --query world/questions.jsonl";
    let found = w.ok_json(&format!(
        "{recall} --methods bm25,influence --at 1,20 --group band --damping 0.1 -o recall.json"
    ));
    assert_eq!(found, w.json("recall.json"));
    let rows = found["results"].as_array().unwrap();
    let of = |method: &str, at: u64| {
        let is_it =
            |row: &&Value| row["method"] == method && row["group"] == "all" && row["at"] == at;
        rows.iter().find(is_it).unwrap()["recall"].as_f64().unwrap()
    };
    // Words find what the text states; the weights of this model are random.
    assert!(of("bm25", 20) > 4.0 * of("chance", 1) && of("bm25", 20) >= of("bm25", 1), "{found}");
    assert!(rows.iter().any(|row| row["group"] == "frequent" && row["method"] == "influence"));
    let table =
        w.ok(&format!("{recall} --methods similarity --relevant relevant --reading examples=0-5"));
    assert!(table.contains("chance") && table.contains("similarity"), "{table}");
    for (args, words) in [
        ("--relevant prompt", "`prompt` is not a list of ids"),
        ("--group relevant", "`relevant` is not a text"),
    ] {
        w.fails(&format!("{recall} {args}"), 1, &["questions.jsonl, line 1", words]);
    }
    w.fails(&format!("{recall} --at 0"), 2, &["--at"]);
    w.write("none.jsonl", json!({"text": "Tom saw a boat.", "relevant": []}).to_string());
    w.fails("attribute recall store --query none.jsonl", 1, &["no query has a relevant example"]);
    w.write("other.jsonl", json!({"text": "Tom saw a boat.", "relevant": ["x"]}).to_string());
    w.fails("attribute recall store --query other.jsonl", 1, &["the store has no example"]);
}

#[test]
fn lists_of_the_best_examples_are_what_a_training_is_made_without() {
    let w = Workshop::new();
    w.ok("attribute world --stories 10 --documents 300 --questions 4 -o world");
    let train = "--train world/documents.jsonl --reading max_length=32 --compress factgrass:16";
    w.ok(&format!("attribute cache model {train} -o store"));
    let best = "attribute best store --query world/questions.jsonl --methods bm25,grad-dot \
                --count 5 --relevant relevant";
    let found = w.ok_json(&format!("{best} --seed 4 -o lists"));
    let list = |name: &str| -> Vec<usize> {
        let text = w.text(&format!("lists/{name}.txt"));
        text.lines().map(|line| line.parse().unwrap()).collect()
    };
    for name in ["bm25", "grad-dot", "random", "relevant"] {
        let list = list(name);
        assert_eq!(found["lists"][name], list.len(), "{name}");
        assert!(list.is_sorted() && list.iter().all(|index| *index < 300), "{name}: {list:?}");
    }
    assert_eq!(list("random").len(), list("bm25").len().max(list("grad-dot").len()));
    let top = "attribute score store --query world/questions.jsonl --method bm25 --no-baselines";
    let results = w.ok_json(&format!("{top} --top 5"))["results"].clone();
    let entries = results.as_array().unwrap().iter().flat_map(|query| query.as_array().unwrap());
    let expected: std::collections::BTreeSet<usize> =
        entries.map(|entry| entry["index"].as_u64().unwrap() as usize).collect();
    assert_eq!(list("bm25"), Vec::from_iter(expected));
    let shape =
        "--text world/documents.jsonl --vocab 300 --architecture hidden=16,layers=1 --steps 1";
    let trained = w.ok_json(&format!("train-lm {shape} --without lists/bm25.txt -o less"));
    assert!(trained["training"]["document_count"].as_u64().unwrap() < 300 - 14, "{trained}");
    w.ok("eval less --tasks questions --data questions=world/questions.jsonl --limit 3");
    w.fails(&format!("{best} -o lists"), 2, &["lists"]);
    w.ok(&format!("{best} -o lists --force"));
    let none = best.replace("--methods bm25,grad-dot", "--methods trak");
    w.fails(&format!("{none} -o no"), 2, &["margin, for TRAK"]);
}

#[test]
fn an_encoder_is_attributed_by_the_tokens_that_it_fills_in() {
    let w = workshop();
    let tiny = Tiny::all().into_iter().find(|tiny| tiny.name == "bert-masked").unwrap();
    tiny.write(&w);
    let cache = "attribute cache bert-masked --train docs.jsonl --reading max_length=24 --batch 4 --compress";
    w.fails(&format!("{cache} mask:16 -o no"), 2, &["no mask token", "no loss"]);
    let mut config: Value = w.json("bert-masked/tokenizer_config.json");
    config["mask_token"] = config["eos_token"].clone();
    w.write("bert-masked/tokenizer_config.json", config.to_string());
    let found = w.ok_json(&format!("{cache} factgrass:64 --target margin -o store"));
    assert_eq!(found["examples"], 30);
    w.write("query.jsonl", json!({"prompt": "Mira lost the", "completion": " key."}).to_string());
    w.write("own.jsonl", w.text("docs.jsonl").lines().nth(4).unwrap());
    // A text is masked in the same places wherever it stands.
    for method in ["cosine", "relatif"] {
        let found =
            w.ok_json(&format!("attribute score store --query own.jsonl --method {method}"));
        assert_eq!(best(&found, 0).0, 4, "{method}");
    }
    let found = w.ok_json("attribute score store --query query.jsonl --top 3");
    assert_eq!(found["results"][0].as_array().unwrap().len(), 3);
    w.ok("attribute show store --query own.jsonl --top 1");
    w.fails(
        &format!("{cache} mask:16 -o no").replace("=24", "=24,bos=always"),
        2,
        &["bos", "encoder"],
    );
    let headless = Tiny::all().into_iter().find(|tiny| tiny.name == "bert-headless").unwrap();
    headless.write(&w);
    let args = format!("{cache} mask:16 -o no").replace("bert-masked", "bert-headless");
    w.fails(&args, 2, &["bert-headless", "without the head", "no loss"]);
    assert!(!w.path("no").exists());
}
