//! `linwright attribute score`: the best and worst examples for each query, compared with
//! baselines.

use super::AttributeScore;
use super::groups::Groups;
use super::pieces;
use crate::jobs::attribute::{Data, Opened, Scorer, beginning, entry, shown_id};
use crate::jobs::kit::outcome::{table, text};
use crate::jobs::kit::{Failure, Outcome, Session, outputs};
use linwright_attribute::{Attribution, Method, Scored, Top};
use linwright_report::Block;
use linwright_report::number::grouped;
use linwright_run::place::is_result;
use linwright_run::{Monitor, shown};
use linwright_tensor::Mat;
use serde_json::{Value, json};

/// Queries with a table on the terminal; the JSON has all.
const TABLES: usize = 10;
/// Examples of a table.
const ROWS: usize = 10;

pub(super) fn run(job: &AttributeScore, session: &mut Session<'_>) -> Result<Outcome, Failure> {
    job.scoring.check()?;
    job.files.check(&job.scoring.query)?;
    if job.by_layer {
        check_sum(job, "--by-layer")?;
    }
    pieces::check(job, session)?;
    if let (true, Some(path)) = (session.shard().is_whole(), &job.output) {
        let inputs = outputs::inputs_of(job, session);
        outputs::file(path, job.force, &inputs, session, is_result)?;
    }
    let began = session.seconds();
    let moved = (job.scoring.model.as_deref(), job.scoring.train.as_deref());
    let opened = Opened::open(&job.store, moved, session)?;
    let mut scorer = Scorer::new((&job.scoring, &job.files), &opened, session)?;
    if let (false, Some(output)) = (session.shard().is_whole(), &job.output) {
        return pieces::shard(job, &opened, scorer, output, session);
    }
    let best = match session.sources().is_empty() {
        true => scorer.best(job.top, session),
        false => pieces::merged(job, &opened, &mut scorer, session),
    };
    let best = best.map_err(Failure::not_resumable)?;
    let layers = match job.by_layer {
        true => Some(by_layer(&opened, &scorer, &best[0], session)?),
        false => None,
    };
    let groups = match job.groups.is_empty() {
        true => Groups::default(),
        false => Groups::of(job, &opened, &scorer, session)?,
    };
    let baselines = match job.no_baselines {
        true => Baselines::default(),
        false => Baselines::of(&opened, &scorer, job.top, session)?,
    };
    let taken = session.seconds() - began;
    session.finish();
    let found = Found { job, opened: &opened, scorer: &scorer, best, layers, groups, baselines };
    let mut result = found.json(session);
    if let Some(path) = &job.output {
        outputs::write_result(path, &result, job.force)?;
        session.note(&format!("wrote {}", path.display()));
    }
    result["seconds"] = taken.into();
    Ok(Outcome::new(result, found.blocks()))
}

/// For each query and each of its best examples the part of each layer.
fn by_layer(
    opened: &Opened,
    scorer: &Scorer<'_>,
    best: &Top,
    session: &mut Session<'_>,
) -> Result<Vec<Vec<Vec<f64>>>, Failure> {
    let prepared = scorer.prepare(session)?;
    let attribution = Attribution::open(&opened.store)?;
    let mut all = Vec::new();
    for (query, best) in best.best().iter().enumerate() {
        let indices: Vec<usize> = best.iter().map(|scored| scored.index).collect();
        let rows = attribution.rows(&indices)?;
        let parts = |row: usize| attribution.layer_parts(prepared, query, rows.row(row));
        all.push((0..indices.len()).map(parts).collect());
    }
    Ok(all)
}

/// Checks that scores are sums over layers.
pub(super) fn check_sum(job: &AttributeScore, option: &str) -> Result<(), Failure> {
    let is_plain = matches!(
        job.scoring.method,
        Method::Influence | Method::GradDot | Method::Tracin | Method::Kfac | Method::Ekfac
    );
    match is_plain && job.scoring.checkpoints.is_empty() {
        true => Ok(()),
        false => Err(Failure::usage(format!("{option}: the scores are not a sum over layers"))
            .hint("influence, grad-dot, kfac and ekfac of one checkpoint are")),
    }
}

/// Scores without gradients (examples, queries), and their best examples.
#[derive(Default)]
struct Baselines(Vec<(Method, Mat<f64>, Top)>);

impl Baselines {
    /// BM25 of texts, and the similarity of vectors, except the method itself.
    fn of(
        opened: &Opened,
        scorer: &Scorer<'_>,
        count: usize,
        session: &mut Session<'_>,
    ) -> Result<Self, Failure> {
        let train = match opened.train(session) {
            Ok(train) => train,
            Err(failure) => {
                session.note(&format!("note: without baselines: {}", failure.message()));
                return Ok(Self::default());
            }
        };
        let mut all = Vec::new();
        let top = |scores: &Mat<f64>| {
            let mut top = Top::largest(scores.cols(), count);
            top.add(0, scores);
            top
        };
        if matches!(train, Data::Texts(_)) {
            let scores = scorer.bm25(&train)?;
            all.push((Method::Bm25, top(&scores), scores));
        }
        let scores = scorer.similarity(&train, session).map_err(Failure::not_resumable)?;
        all.push((Method::Similarity, top(&scores), scores));
        Ok(Self(all.into_iter().map(|(method, top, scores)| (method, scores, top)).collect()))
    }
}

/// The results.
struct Found<'a> {
    job: &'a AttributeScore,
    opened: &'a Opened,
    scorer: &'a Scorer<'a>,
    best: [Top; 2],
    layers: Option<Vec<Vec<Vec<f64>>>>,
    groups: Groups,
    baselines: Baselines,
}

impl Found<'_> {
    fn ids(&self) -> &[Value] {
        &self.opened.origin.ids
    }

    /// For each query a list of examples.
    fn lists(&self, top: &Top) -> Vec<Vec<Value>> {
        let list =
            |best: &Vec<Scored>| best.iter().map(|scored| entry(scored, self.ids())).collect();
        top.best().iter().map(list).collect()
    }

    fn json(&self, session: &Session<'_>) -> Value {
        let (options, manifest) = (&self.job.scoring, self.opened.store.manifest());
        let mut results = self.lists(&self.best[0]);
        let sites: Vec<&str> = manifest.layers.iter().map(|layer| layer.site.as_str()).collect();
        for (results, layers) in results.iter_mut().zip(self.layers.iter().flatten()) {
            for (entry, parts) in results.iter_mut().zip(layers) {
                let parts =
                    sites.iter().zip(parts).map(|(site, part)| ((*site).into(), json!(part)));
                entry["layers"] = Value::Object(parts.collect());
            }
        }
        let baselines = self.baselines.0.iter();
        let baselines: serde_json::Map<String, Value> = baselines
            .map(|(method, _, top)| (method.name().into(), json!(self.lists(top))))
            .collect();
        let groups = self.groups.0.iter();
        let groups: serde_json::Map<String, Value> =
            groups.map(|(pattern, top)| (pattern.clone(), json!(self.lists(top)))).collect();
        let damping = options
            .method
            .is_damped()
            .then(|| options.damping.clone().unwrap_or_else(|| "relative:0.1".into()));
        let mut result = json!({
            "schema": 1,
            "linwright": session.build().version,
            "store": session.portable(&self.job.store),
            "query": session.portable(&options.query),
            "method": options.method,
            "damping": damping,
            "target": self.scorer.objective().target,
            "compressor": manifest.compressor,
            "checkpoints": 1 + options.checkpoints.len(),
            "examples": manifest.count,
            "queries": self.scorer.queries.len(),
            "query_ids": self.scorer.queries.ids(),
            "results": results,
            "opponents": self.lists(&self.best[1]),
            "baselines": baselines,
        });
        if !groups.is_empty() {
            result["groups"] = Value::Object(groups);
        }
        result
    }

    fn blocks(&self) -> Vec<Block> {
        let (queries, method) = (self.scorer.queries.len(), self.job.scoring.method);
        let count = grouped(self.opened.store.manifest().count as u64);
        let mut blocks =
            vec![text([format!("{count} examples scored by {method} for {queries} queries")])];
        for query in 0..queries.min(TABLES) {
            let id = shown_id(&self.scorer.queries.ids()[query]);
            let asked = self.scorer.queries.texts();
            let asked = asked
                .map_or_else(String::new, |texts| format!(": {}", beginning(&texts.texts[query])));
            blocks.push(text([format!("query {id}{asked}")]));
            blocks.push(self.table(query));
        }
        if queries > TABLES {
            blocks.push(text([format!("and {} more queries: see --json", queries - TABLES)]));
        }
        let groups = self.groups.0.iter().map(|(pattern, top)| (pattern.as_str(), top));
        blocks.extend(self.agreement("group of layers", groups));
        let baselines = self.baselines.0.iter().map(|(method, _, top)| (method.name(), top));
        blocks.extend(self.agreement("baseline", baselines));
        blocks
    }

    /// The best examples of a query, with their ranks by baselines.
    fn table(&self, query: usize) -> Block {
        let mut heads = vec!["place", "index", "id", self.job.scoring.method.name()];
        heads.extend(self.baselines.0.iter().map(|(method, ..)| method.name()));
        let row = |(place, scored): (usize, &Scored)| {
            let mut cells = vec![
                (place + 1).to_string(),
                scored.index.to_string(),
                shown_id(&self.ids()[scored.index]),
                format!("{:.5}", scored.score),
            ];
            let others = self.baselines.0.iter();
            cells.extend(
                others.map(|(_, scores, _)| format!("{:.5}", scores.at(scored.index, query))),
            );
            cells
        };
        let best = self.best[0].best()[query].iter().take(ROWS);
        table(&heads, best.enumerate().map(row).collect())
    }

    /// How many of the best examples other methods also find.
    fn agreement<'b>(
        &self,
        what: &str,
        others: impl Iterator<Item = (&'b str, &'b Top)>,
    ) -> Option<Block> {
        let shared = |top: &Top| -> usize {
            let pairs = self.best[0].best().iter().zip(top.best());
            let of = |(own, other): (&Vec<Scored>, &Vec<Scored>)| {
                let is_there = |one: &&Scored| other.iter().any(|two| two.index == one.index);
                own.iter().filter(is_there).count()
            };
            pairs.map(of).sum()
        };
        let all: usize = self.best[0].best().iter().map(Vec::len).sum();
        let row =
            |(name, top): (&str, &Top)| vec![shown(name), format!("{} of {all}", shared(top))];
        let rows: Vec<_> = others.map(row).collect();
        (!rows.is_empty()).then(|| table(&[what, "finds of these examples"], rows))
    }
}
