//! `linwright attribute score`: the best and worst examples for each query, compared with
//! baselines.

use super::AttributeScore;
use super::groups::Groups;
use super::pieces;
use super::result::{ExamplesScored, RankedExample};
use crate::jobs::attribute::{Data, Opened, ScoredExample, Scorer, Texts, beginning};
use crate::jobs::kit::{Failure, Outcome, Session, outputs};
use linwright_attribute::{Attribution, Method, Scored, Top};
use linwright_run::place::is_result;
use linwright_run::{Measured, Monitor};
use linwright_tensor::Mat;

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
    let mut result = found.result(session);
    if let Some(path) = &job.output {
        // Without times: merged shards have the same bytes.
        outputs::write_report(path, &result, job.force)?;
        session.note(&format!("wrote {}", path.display()));
    }
    result.seconds = Some(Measured(taken));
    Ok(Outcome::of(result))
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

/// The best and worst examples with everything that was found about them.
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
    /// For each query a list of examples.
    fn lists(&self, top: &Top) -> Vec<Vec<ScoredExample>> {
        let ids = &self.opened.origin.ids;
        let of = |scored: &Scored| ScoredExample::of(scored, ids);
        top.best().iter().map(|best| best.iter().map(of).collect()).collect()
    }

    /// For each query its best examples, with the parts of layers and the scores of baselines.
    fn ranked(&self) -> Vec<Vec<RankedExample>> {
        let sites: Vec<&str> =
            self.opened.store.manifest().layers.iter().map(|layer| layer.site.as_str()).collect();
        let rank = |query: usize, place: usize, example: ScoredExample| {
            let parts = self.layers.as_ref().map(|layers| &layers[query][place]);
            let layers = parts.map(|parts| {
                let named = sites.iter().zip(parts);
                named.map(|(site, part)| ((*site).to_owned(), *part)).collect()
            });
            let baselines = self.baselines.0.iter();
            let baselines = baselines
                .map(|(method, scores, _)| {
                    (method.name().to_owned(), scores.at(example.index, query))
                })
                .collect();
            RankedExample { example, layers, baselines }
        };
        let lists = self.lists(&self.best[0]).into_iter().enumerate();
        lists
            .map(|(query, list)| {
                let places = list.into_iter().enumerate();
                places.map(|(place, example)| rank(query, place, example)).collect()
            })
            .collect()
    }

    fn result(&self, session: &Session<'_>) -> ExamplesScored {
        let (options, manifest) = (&self.job.scoring, self.opened.store.manifest());
        let queries = &self.scorer.queries;
        let damping = || options.damping.clone().unwrap_or_else(|| "relative:0.1".into());
        let (groups, baselines) = (self.groups.0.iter(), self.baselines.0.iter());
        let of_baseline = |(method, _, top): &(Method, Mat<f64>, Top)| {
            (method.name().to_owned(), self.lists(top))
        };
        let beginnings = |texts: &Texts| texts.texts.iter().map(|text| beginning(text)).collect();
        ExamplesScored {
            store: session.portable(&self.job.store),
            query: session.portable(&options.query),
            method: options.method,
            damping: options.method.is_damped().then(damping),
            target: self.scorer.objective().target,
            compressor: manifest.compressor,
            checkpoints: 1 + options.checkpoints.len(),
            examples: manifest.count,
            queries: queries.len(),
            query_ids: queries.ids().to_vec(),
            query_beginnings: queries.texts().map(beginnings),
            results: self.ranked(),
            opponents: self.lists(&self.best[1]),
            baselines: baselines.map(of_baseline).collect(),
            groups: groups.map(|(pattern, top)| (pattern.clone(), self.lists(top))).collect(),
            seconds: None,
        }
    }
}
