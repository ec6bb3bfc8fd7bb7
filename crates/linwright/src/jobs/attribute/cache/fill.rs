//! `linwright attribute cache`: fills a store of compressed gradients.

use super::AttributeCache;
use super::result::{CacheFilled, CachePlanned, StoreSummary};
use crate::jobs::attribute::{Data, Origin, Reading, Subject, Work, identity, tell};
use crate::jobs::kit::{Failure, Outcome, Session, outputs};
use linwright_attribute::{
    CacheOptions, CompressorKey, CompressorKind, CompressorSpec, Examples, GradientMap,
    GradientStore, Learned, MaskLearning, Sources, StoreOptions, cache, estimate, learn_masks,
    principal_directions,
};
use linwright_ops::{Differentiable, LinearSlot, SiteId, SlotSet};
use linwright_run::{Measured, Monitor};
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn run(job: &AttributeCache, session: &mut Session<'_>) -> Result<Outcome, Failure> {
    let spec: CompressorSpec = job.compress.parse()?;
    job.reading.files.check(&job.train)?;
    let inputs = outputs::inputs_of(job, session);
    outputs::check_place(&job.output, &inputs, session)?;
    let subject = Subject::open(&job.model, session)?;
    session.step("reading the examples");
    let reading =
        Reading { bos: job.reading.bos, max_length: job.reading.max_length, are_queries: false };
    let data = job.reading.files.read(&job.train, &subject, reading, session)?;
    tell(&data, &job.train, session);
    let sources = Sources {
        network: subject.hash().to_owned(),
        examples: identity(&data)?,
        count: data.len(),
    };
    subject.with(&data, Fill { job, spec, sources, data: &data, session })
}

/// Fills the store with the gradients of a network.
struct Fill<'a, 'b> {
    job: &'a AttributeCache,
    spec: CompressorSpec,
    sources: Sources,
    data: &'a Data,
    session: &'a mut Session<'b>,
}

impl Work for Fill<'_, '_> {
    type Output = Outcome;

    fn run<N: Differentiable>(
        self,
        network: &N,
        examples: &dyn Examples<N::Input>,
    ) -> Result<Outcome, Failure> {
        let Self { job, spec, sources, data, session } = self;
        let key = CompressorKey { seed: job.seed, checkpoint: job.checkpoint };
        let options = StoreOptions {
            target: job.target,
            reduction: job.reduction,
            element: job.dtype,
            batch: job.batch,
            shard_rows: job.shard_rows,
        };
        let chosen = chosen(job, network)?;
        let map = match known(job, network, &chosen) {
            Some(map) => map,
            None => {
                let learned = learn(job, network, (examples, &chosen), &spec, session)?;
                let is_chosen = |slot: &LinearSlot| chosen.contains(slot.id());
                GradientMap::build(network, &is_chosen, &spec, key, &learned)?
            }
        };
        session.note(&format!("note: {}", map.left_out().summary()));
        let of = (spec, key);
        if job.dry_run {
            let store = GradientStore::planned(&job.output, &sources, &map, of, options)?;
            session.step("timing a batch");
            let estimate = estimate((network, &map), examples, &store)?;
            session.finish();
            return Ok(Outcome::of(CachePlanned {
                store: summary(job, &store, session),
                estimate,
            }));
        }
        let store = GradientStore::create(&job.output, &sources, &map, of, options)?;
        origin(job, data).write(store.path())?;
        let how = CacheOptions { share: session.shard(), limit_bytes: None };
        let began = session.seconds();
        let cached = cache((network, &map), examples, &store, how, session)?;
        let taken = session.seconds() - began;
        session.finish();
        let is_timed = cached.computed > 0;
        let rate = cached.examples as f64 / taken.max(1e-9);
        Ok(Outcome::of(CacheFilled {
            store: summary(job, &store, session),
            cached,
            seconds: is_timed.then_some(Measured(taken)),
            examples_per_second: is_timed.then_some(Measured(rate)),
        }))
    }
}

/// Inputs of the store.
fn origin(job: &AttributeCache, data: &Data) -> Origin {
    Origin {
        model: job.model.clone(),
        train: job.train.clone(),
        options: job.reading.files.clone(),
        bos: job.reading.bos,
        max_length: job.reading.max_length,
        ids: data.ids().to_vec(),
    }
}

/// The layers that are chosen: all, or those of the patterns.
fn chosen<N: Differentiable>(
    job: &AttributeCache,
    network: &N,
) -> Result<BTreeSet<SiteId>, Failure> {
    if job.sites.is_empty() {
        return Ok(network.slots().into_iter().map(|slot| slot.id().clone()).collect());
    }
    let set: SlotSet = SlotSet { patterns: job.sites.clone(), ..SlotSet::default() };
    Ok(set.of(network)?.into_iter().collect())
}

/// The maps of a store that exists, of the same layers: what it was learned from need not be
/// learned again. Whether it is the same store otherwise is checked with its manifest.
fn known<N: Differentiable>(
    job: &AttributeCache,
    network: &N,
    chosen: &BTreeSet<SiteId>,
) -> Option<GradientMap> {
    let store = GradientStore::open(&job.output).ok()?;
    let sites = store.manifest().layers.iter().map(|layer| SiteId(layer.site.clone()));
    let is_same = sites.collect::<BTreeSet<_>>() == *chosen;
    if is_same { store.map(network).ok() } else { None }
}

/// Fits a learned compressor to the first examples.
fn learn<N: Differentiable>(
    job: &AttributeCache,
    network: &N,
    (examples, chosen): (&dyn Examples<N::Input>, &BTreeSet<SiteId>),
    spec: &CompressorSpec,
    session: &mut Session<'_>,
) -> Result<BTreeMap<SiteId, Learned>, Failure> {
    if !spec.kind.is_learned() {
        return Ok(BTreeMap::new());
    }
    let is_chosen = |slot: &LinearSlot| chosen.contains(slot.id());
    let first = First { all: examples, count: job.learn_from.min(examples.count()) };
    if spec.kind == CompressorKind::LograPca {
        let side = spec.size.unwrap_or(0).isqrt();
        let batch = job.batch;
        return Ok(principal_directions(network, &is_chosen, &first, side, batch, session)?);
    }
    let learning = MaskLearning { batch: job.batch, seed: job.seed, ..MaskLearning::default() };
    Ok(learn_masks(network, &is_chosen, &first, (spec, learning), session)?)
}

/// The first of some examples.
struct First<'a, I> {
    all: &'a dyn Examples<I>,
    count: usize,
}

impl<I> Examples<I> for First<'_, I> {
    fn count(&self) -> usize {
        self.count
    }

    fn batch(&self, examples: std::ops::Range<usize>) -> linwright_attribute::ExampleBatch<I> {
        self.all.batch(examples)
    }

    fn identity(&self) -> String {
        format!("first {} of {}", self.count, self.all.identity())
    }
}

/// Summary of any store.
fn summary(job: &AttributeCache, store: &GradientStore, session: &Session<'_>) -> StoreSummary {
    let manifest = store.manifest();
    StoreSummary {
        store: session.portable(&job.output),
        model: session.portable(&job.model),
        train: session.portable(&job.train),
        examples: manifest.count,
        compressor: manifest.compressor,
        target: manifest.target,
        reduction: manifest.reduction,
        dtype: manifest.element,
        layers: manifest.layers.len(),
        parameters: manifest.parameters(),
        numbers: manifest.size(),
        shards: manifest.shards(),
        shard_bytes: store.shard_bytes(),
    }
}
