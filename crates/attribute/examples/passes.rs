//! Times passes of attribution in turns for `tools/bench/attribution_passes.py`: prints `ready`,
//! then the milliseconds of one pass for the name in every line that it reads.
//!
//! `cargo run --release -p linwright-attribute --example passes -- DIRECTORY [threads] [hidden]
//! [layers] [tokens] [examples] [size] [intermediate] [rows]`
//!
//! Over a random language model: `plain` is a forward pass, and a pass back that computes gradients
//! of inputs alone, with a probe that looks at nothing; `cache` is the same with gradients of all
//! layers by FactGraSS, as a cache pass computes them. Over a store of a small network in the
//! directory, with `rows` examples: `scores` are those of eight queries, `scores_of_one` those of
//! one, `read` reads the files from the first to the last.

use linwright_attribute::{
    Attribution, CacheOptions, Classified, Comparison, CompressorKey, CompressorSpec, Documents,
    Examples, GradientMap, GradientStore, Reduction, Sources, StoreOptions, cache, gradients,
};
use linwright_model::families::FAMILIES;
use linwright_model::{Transformer, TransformerConfig};
use linwright_nets::{Labelled, Net, NetSpec, Targets};
use linwright_ops::{CrossEntropy, Differentiable, Network, Probe, Seen, SiteId};
use linwright_run::Silent;
use linwright_tensor::{Mat, RngKey, parallel};
use serde_json::json;
use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::hint::black_box;
use std::io::{BufRead, Read, Write, stdin, stdout};
use std::path::Path;
use std::time::Instant;

const VOCAB: usize = 4096;
/// Bytes read at a time.
const CHUNK: usize = 1 << 20;
/// Features and classes of the small network.
const POINT: usize = 128;
const CLASSES: u32 = 10;

const KEY: CompressorKey = CompressorKey { seed: 1, checkpoint: 0 };

/// A probe for which the whole pass back is made.
struct NothingSeen;

impl Probe for NothingSeen {
    fn wants(&self, _site: &SiteId) -> bool {
        false
    }

    fn on_forward(&mut self, _site: &SiteId, _seen: Seen<'_>) {}

    fn wants_gradient(&self, _site: &SiteId) -> bool {
        true
    }
}

fn map_of<N: Network>(network: &N, compressor: &str) -> Result<GradientMap, Box<dyn Error>> {
    let spec: CompressorSpec = compressor.parse()?;
    Ok(GradientMap::build(network, &|_| true, &spec, KEY, &BTreeMap::new())?)
}

/// A language model with texts.
struct Language {
    model: Transformer,
    texts: Documents,
    map: GradientMap,
}

impl Language {
    fn new(
        [hidden, layers, tokens, examples, size, wide]: [usize; 6],
    ) -> Result<Self, Box<dyn Error>> {
        let config = TransformerConfig::from_json(&json!({
            "model_type": FAMILIES[0].model_type, "hidden_size": hidden,
            "intermediate_size": wide,
            "num_hidden_layers": layers, "num_attention_heads": (hidden / 64).max(1),
            "num_key_value_heads": (hidden / 64).max(1), "vocab_size": VOCAB,
            "max_position_embeddings": tokens, "rms_norm_eps": 1e-5, "tie_word_embeddings": false,
        }))?;
        let model = Transformer::random(config, RngKey::new(1));
        let text = |example: usize| {
            let mut stream = RngKey::new(2).fold_index(example as u64).stream();
            (0..tokens).map(|_| stream.below(VOCAB) as u32).collect()
        };
        let texts = Documents::new((0..examples).map(text).collect())?;
        let map = map_of(&model, &format!("factgrass:{size}"))?;
        Ok(Self { model, texts, map })
    }

    fn plain(&self) -> Result<(), Box<dyn Error>> {
        let batch = self.texts.batch(0..self.texts.count());
        let mut loss = CrossEntropy::sum(&batch.targets);
        black_box(self.model.loss_to_slots(&batch.input, &mut loss, &mut NothingSeen)?);
        Ok(())
    }

    fn cache(&self) -> Result<(), Box<dyn Error>> {
        let batch = self.texts.batch(0..self.texts.count());
        black_box(gradients(&self.model, &self.map, &batch, Reduction::Mean, 0)?);
        Ok(())
    }
}

/// A store of a small network, and gradients of queries.
struct Stored {
    store: GradientStore,
    queries: Mat<f32>,
}

impl Stored {
    fn new(directory: &Path, size: usize, rows: usize) -> Result<Self, Box<dyn Error>> {
        let spec: NetSpec = serde_saphyr::from_str(&format!(
            "{{input: {{channels: {POINT}}}, layers: [{{linear: {{name: a, out: 256}}}}, relu, {{linear: {{name: b, out: 256}}}}, relu, {{linear: {{name: c, out: {CLASSES}}}}}]}}"
        ))?;
        let net = Net::random(&spec, RngKey::new(1))?;
        let points = RngKey::new(3).stream().normals(rows * POINT, 1.0);
        let classes = (0..rows as u32).map(|row| row % CLASSES).collect();
        let points = Mat::from_vec(rows, POINT, points);
        let labelled = Labelled::new(points, 1, Targets::Classes(classes))?;
        let examples = Classified::new(&labelled)?;
        let compressor = format!("mask:{size}");
        let map = map_of(&net, &compressor)?;
        let sources =
            Sources { network: "bench".into(), examples: examples.identity(), count: rows };
        let options = StoreOptions { batch: 64, shard_rows: 256, ..StoreOptions::default() };
        let of = (compressor.parse()?, KEY);
        let store = GradientStore::create(directory, &sources, &map, of, options)?;
        cache((&net, &map), &examples, &store, CacheOptions::default(), &mut Silent)?;
        let queries = gradients(&net, &map, &examples.batch(0..8), Reduction::Mean, 0)?.rows;
        Ok(Self { store, queries })
    }

    fn scores(&self, queries: usize) -> Result<(), Box<dyn Error>> {
        let attribution = Attribution::open(&self.store)?;
        let queries = self.queries.view().rows_range(0, queries).to_mat();
        attribution.scores(&queries, Comparison::GradDot, &mut Silent, &mut |_, scores| {
            black_box(scores);
        })?;
        Ok(())
    }

    fn read(&self) -> Result<(), Box<dyn Error>> {
        let mut chunk = vec![0; CHUNK];
        let folder = self.store.path().join("shards");
        for shard in 0..self.store.manifest().shards() {
            let mut file = File::open(folder.join(format!("{shard:06}.grd")))?;
            while file.read(&mut chunk)? > 0 {
                black_box(&chunk);
            }
        }
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut given = std::env::args().skip(1);
    let directory = given.next().ok_or("expected a directory")?;
    let mut numbers = [2, 2048, 4, 512, 2, 4096, 5472, 4096];
    for (number, given) in numbers.iter_mut().zip(given) {
        *number = given.parse()?;
    }
    let [threads, language @ .., rows] = numbers;
    parallel::set_threads(threads)?;
    let [.., size, _] = language;
    let language = Language::new(language)?;
    let stored = Stored::new(&Path::new(&directory).join("store"), size, rows)?;
    let mut out = stdout();
    writeln!(out, "ready {}", stored.store.shard_bytes())?;
    for line in stdin().lock().lines() {
        let start = Instant::now();
        match line?.trim() {
            "plain" => language.plain()?,
            "cache" => language.cache()?,
            "scores" => stored.scores(8)?,
            "scores_of_one" => stored.scores(1)?,
            "read" => stored.read()?,
            other => return Err(format!("there is no {other}").into()),
        }
        writeln!(out, "{}", start.elapsed().as_secs_f64() * 1e3)?;
        out.flush()?;
    }
    Ok(())
}
