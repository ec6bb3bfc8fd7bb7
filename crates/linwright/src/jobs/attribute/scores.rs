//! Scores of training examples for queries, by any method.

use super::examples::{Data, ExampleOptions};
use super::origin::Opened;
use super::subject::Work;
use super::{damping_of, tell};
use crate::jobs::kit::named::Names;
use crate::jobs::kit::{Failure, Session, bounds, room, store};
use linwright_attribute::{
    AttributeError, Attribution, Bm25, Comparison, Damping, Examples, Geometry, GradientStore,
    Kronecker, Method, Objective, Prepared, Target, Top, Trak, embeddings, gradients, moments,
};
use linwright_ops::Differentiable;
use linwright_run::{Fingerprint, Monitor, PieceKey, shown};
use linwright_tensor::Mat;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Kind of the pieces that are gradients of queries.
const QUERIES: &str = "queries";

/// How examples are scored, and for what.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ScoringOptions {
    /// Queries: texts in the forms of --train, rows with `prompt` and `completion`, where only the
    /// completion is scored, or labelled images.
    #[schemars(extend("x-value" = "FILE", "x-path" = true, "x-required" = true))]
    pub query: String,
    /// Method that scores the examples.
    #[schemars(with = "Names<Method>")]
    pub method: Method,
    /// Damping of the curvature: relative:D, D times its mean, or absolute:D.
    #[schemars(extend("x-value" = "D", "examples" = ["relative:0.1"]))]
    pub damping: Option<String>,
    /// Function of a query to differentiate [default: that of the store].
    #[schemars(with = "Option<Names<Target>>")]
    pub target: Option<Target>,
    /// Stores of further checkpoints with the same examples: scores are added up (tracin) or
    /// averaged.
    #[schemars(extend("x-value" = "STORE", "x-path" = true, "x-whole" = true, "x-many" = true))]
    pub checkpoints: Vec<PathBuf>,
    /// Weights of the checkpoints, the store's first, such as learning rates [default: 1 each].
    #[schemars(extend("x-value" = "W", "x-requires" = ["checkpoints"], "examples" = [1.0]))]
    #[schemars(inner(range(min = -bounds::SCALE, max = bounds::SCALE)))]
    pub weights: Vec<f64>,
    /// The model, if it has moved since it was cached.
    #[schemars(extend("x-value" = "DIR"))]
    pub model: Option<String>,
    /// The training examples, if they have moved since they were cached.
    #[schemars(extend("x-value" = "FILE", "x-path" = true))]
    pub train: Option<String>,
}

impl ScoringOptions {
    /// Paths that are read.
    pub(in crate::jobs) fn inputs(&self) -> Vec<PathBuf> {
        let named = [Some(&self.query), self.model.as_ref(), self.train.as_ref()];
        let named = named.into_iter().flatten().map(PathBuf::from);
        named.chain(self.checkpoints.iter().cloned()).collect()
    }

    /// Checks what needs no file.
    ///
    /// # Errors
    /// [`Failure`] for options that contradict each other.
    pub(in crate::jobs) fn check(&self) -> Result<(), Failure> {
        let damping = damping_of(self.damping.as_deref())?;
        if self.damping.is_some() && !self.method.is_damped() {
            return Err(Failure::usage(format!(
                "--damping {damping}: the method {} has none",
                self.method
            )));
        }
        let (found, expected) = (self.weights.len(), 1 + self.checkpoints.len());
        if found != 0 && found != expected {
            let message = format!("--weights: {found} for {expected} checkpoints");
            return Err(Failure::usage(message).hint("the first one is that of the store"));
        }
        if !self.weights.iter().all(|weight| weight.is_finite()) {
            return Err(Failure::usage("--weights: expected finite numbers"));
        }
        if found != 0 && self.method == Method::Trak {
            return Err(Failure::usage("--weights: trak is a mean of checkpoints"));
        }
        match self.checkpoints.is_empty() || self.method.has_gradients() {
            true => Ok(()),
            false => Err(Failure::usage(format!(
                "--checkpoints: the method {} has no gradients",
                self.method
            ))),
        }
    }

    fn weight(&self, checkpoint: usize) -> f64 {
        let sum = |weight: f64| match self.method {
            Method::Tracin => weight,
            _ => weight / (1 + self.checkpoints.len()) as f64,
        };
        sum(self.weights.get(checkpoint).copied().unwrap_or(1.0))
    }
}

/// What is done with a checkpoint, of which this is the number, and the queries for its model.
type OnCheckpoint<'a> =
    dyn FnMut(usize, &Opened, &Data, &mut Session<'_>) -> Result<(), Failure> + 'a;

/// What is done with the best and the worst examples of a shard of the store, by its number.
type OnShard<'a> = dyn FnMut(usize, &[Top; 2]) -> Result<(), Failure> + 'a;

/// A store, and queries that its examples are scored for.
pub(in crate::jobs) struct Scorer<'a> {
    options: &'a ScoringOptions,
    opened: &'a Opened,
    files: &'a ExampleOptions,
    /// The queries.
    pub(in crate::jobs) queries: Data,
    damping: Damping,
    /// The shards of the store whose examples are scored; all if there are none.
    only: Option<BTreeSet<usize>>,
    /// The queries for the gradients of the store, once they are needed.
    prepared: OnceCell<Prepared>,
}

impl<'a> Scorer<'a> {
    /// Reads the queries.
    ///
    /// # Errors
    /// [`Failure`] if they cannot be read.
    pub(in crate::jobs) fn new(
        (options, files): (&'a ScoringOptions, &'a ExampleOptions),
        opened: &'a Opened,
        session: &mut Session<'_>,
    ) -> Result<Self, Failure> {
        let damping = damping_of(options.damping.as_deref())?;
        let queries = read(options, files, opened, session)?;
        tell(&queries, &options.query, session);
        let prepared = OnceCell::new();
        Ok(Self { options, opened, files, queries, damping, only: None, prepared })
    }

    /// Function of a query to differentiate.
    pub(in crate::jobs) fn objective(&self) -> Objective {
        objective(self.options, &self.opened.store)
    }

    /// The best examples for each query, and the worst.
    ///
    /// # Errors
    /// [`Failure`] if something cannot be read or computed.
    pub(in crate::jobs) fn best(
        &self,
        count: usize,
        session: &mut Session<'_>,
    ) -> Result<[Top; 2], Failure> {
        let mut found = self.no_best(count);
        self.scores(session, &mut |first, part| {
            found.iter_mut().for_each(|top| top.add(first, part));
        })?;
        Ok(found)
    }

    /// Best and worst scores before any example was seen.
    pub(in crate::jobs) fn no_best(&self, count: usize) -> [Top; 2] {
        let queries = self.queries.len();
        [Top::largest(queries, count), Top::smallest(queries, count)]
    }

    /// As [`Self::best`], for each of some shards of the store by itself, in order. The method must
    /// read the store alone.
    ///
    /// # Errors
    /// As [`Self::best`], and those of `found`.
    pub(in crate::jobs) fn best_of_shards(
        &mut self,
        count: usize,
        shards: BTreeSet<usize>,
        session: &mut Session<'_>,
        found: &mut OnShard<'_>,
    ) -> Result<(), Failure> {
        let rows = self.opened.store.manifest().shard_rows;
        let mut left = shards.clone();
        self.only = Some(shards);
        let mut best = self.no_best(count);
        let mut failed = None;
        let done = self.scores(session, &mut |first, part| {
            best.iter_mut().for_each(|top| top.add(first, part));
            let (shard, next) = (first / rows, first + part.rows());
            let is_last = next % rows == 0 || next == self.opened.store.manifest().count;
            if is_last && left.remove(&shard) && failed.is_none() {
                failed = found(shard, &best).err();
                best = self.no_best(count);
            }
        });
        self.only = None;
        done?;
        failed.map_or(Ok(()), Err)
    }

    /// All scores (examples, queries).
    ///
    /// # Errors
    /// As [`Self::best`].
    pub(in crate::jobs) fn all(&self, session: &mut Session<'_>) -> Result<Mat<f64>, Failure> {
        let mut all = Mat::zeros(self.opened.store.manifest().count, self.queries.len());
        self.scores(session, &mut |first, part| {
            for row in 0..part.rows() {
                all.row_mut(first + row).copy_from_slice(part.row(row));
            }
        })?;
        Ok(all)
    }

    /// Shows the scores (examples, queries) of examples from a first one on, until all were shown.
    fn scores(
        &self,
        session: &mut Session<'_>,
        visit: &mut dyn FnMut(usize, &Mat<f64>),
    ) -> Result<(), Failure> {
        match self.options.method {
            Method::Bm25 => visit(0, &self.bm25(&self.opened.train(session)?)?),
            Method::Similarity => {
                let train = self.opened.train(session)?;
                visit(0, &self.similarity(&train, session)?);
            }
            Method::Trak => visit(0, &self.trak(session)?),
            _ if self.options.checkpoints.is_empty() => {
                let weight = self.options.weight(0);
                let mut scaled = Mat::default();
                self.of_checkpoint(self.opened, &self.queries, session, &mut |first, part| {
                    if weight == 1.0 {
                        return visit(first, part);
                    }
                    scaled.clone_from(part);
                    scaled.data_mut().iter_mut().for_each(|score| *score *= weight);
                    visit(first, &scaled);
                })?;
            }
            _ => visit(0, &self.of_checkpoints(session)?),
        }
        Ok(())
    }

    /// Scores by gradients of one checkpoint.
    fn of_checkpoint(
        &self,
        opened: &Opened,
        queries: &Data,
        session: &mut Session<'_>,
        visit: &mut dyn FnMut(usize, &Mat<f64>),
    ) -> Result<(), Failure> {
        if std::ptr::eq(opened, self.opened) {
            let prepared = self.prepare(session)?;
            return self.with_attribution(opened, session, &mut |attribution, _, session| {
                Ok(attribution.scores_of(prepared, session, visit)?)
            });
        }
        let rows = query_gradients(self.options, opened, queries, session)?;
        self.with_attribution(opened, session, &mut |attribution, comparison, session| {
            Ok(attribution.scores(&rows, comparison, session, visit)?)
        })
    }

    /// Queries that are prepared for the gradients of the store, which is done once.
    ///
    /// # Errors
    /// [`Failure`] for a method without such, or if something cannot be read or computed.
    pub(in crate::jobs) fn prepare(&self, session: &mut Session<'_>) -> Result<&Prepared, Failure> {
        if self.prepared.get().is_none() {
            let rows = query_gradients(self.options, self.opened, &self.queries, session)?;
            self.with_attribution(
                self.opened,
                session,
                &mut |attribution, comparison, session| {
                    let prepared = attribution.prepare(&rows, comparison, session)?;
                    let _ = self.prepared.set(prepared);
                    Ok(())
                },
            )?;
        }
        self.prepared.get().ok_or_else(|| Failure::general("no queries were prepared"))
    }

    /// Opens the store of a checkpoint in the geometry of the method.
    fn with_attribution(
        &self,
        opened: &Opened,
        session: &mut Session<'_>,
        work: &mut dyn FnMut(&Attribution<'_>, Comparison, &mut Session<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let (damping, method) = (self.damping, self.options.method);
        let comparison = match method {
            Method::Cosine => Comparison::GradCos,
            Method::GradDot | Method::Tracin | Method::Bm25 | Method::Similarity => {
                Comparison::GradDot
            }
            Method::Relatif => Comparison::RelatIf(damping),
            Method::Influence | Method::Trak | Method::Kfac | Method::Ekfac => {
                Comparison::Influence(damping)
            }
        };
        let attribution = Attribution::open(&opened.store)?;
        let attribution = match &self.only {
            Some(shards) => attribution.only(shards.clone()),
            None => attribution,
        };
        if !matches!(method, Method::Kfac | Method::Ekfac) {
            let geometry = if method == Method::Trak { Geometry::Whole } else { Geometry::Layers };
            return work(&attribution.in_geometry(geometry), comparison, session);
        }
        let layers = kronecker(opened, &attribution, method, session)?;
        work(&attribution.in_geometry(Geometry::Kronecker(&layers)), comparison, session)
    }

    /// Opens the further checkpoints, one at a time.
    fn each_checkpoint(
        &self,
        session: &mut Session<'_>,
        work: &mut OnCheckpoint<'_>,
    ) -> Result<(), Failure> {
        work(0, self.opened, &self.queries, session)?;
        for (index, path) in self.options.checkpoints.iter().enumerate() {
            let opened = Opened::open(path, (None, self.options.train.as_deref()), session)?;
            let (one, other) = (self.opened.store.manifest(), opened.store.manifest());
            if (one.count, &one.examples) != (other.count, &other.examples) {
                let message = format!("{} has other examples than the store", shown_path(path));
                return Err(Failure::new(crate::jobs::kit::FailureKind::Fingerprint, message)
                    .hint("checkpoints are cached with the same --train"));
            }
            let queries = read(self.options, self.files, &opened, session)?;
            work(1 + index, &opened, &queries, session)?;
        }
        Ok(())
    }

    /// The weighted scores of several checkpoints.
    fn of_checkpoints(&self, session: &mut Session<'_>) -> Result<Mat<f64>, Failure> {
        let mut sums = Mat::zeros(self.opened.store.manifest().count, self.queries.len());
        self.each_checkpoint(session, &mut |index, opened, queries, session| {
            let weight = self.options.weight(index);
            self.of_checkpoint(opened, queries, session, &mut |first, part| {
                for row in 0..part.rows() {
                    let into = sums.row_mut(first + row).iter_mut();
                    into.zip(part.row(row)).for_each(|(sum, score)| *sum += weight * score);
                }
            })
        })?;
        Ok(sums)
    }

    fn trak(&self, session: &mut Session<'_>) -> Result<Mat<f64>, Failure> {
        let mut trak = Trak::new(self.opened.store.manifest().count, self.queries.len());
        self.each_checkpoint(session, &mut |_, opened, queries, session| {
            let rows = query_gradients(self.options, opened, queries, session)?;
            Ok(trak.add(&opened.store, &rows, self.damping, session)?)
        })?;
        Ok(trak.scores())
    }

    /// BM25 of the words of texts (examples, queries).
    ///
    /// # Errors
    /// [`Failure`] for images.
    pub(in crate::jobs) fn bm25(&self, train: &Data) -> Result<Mat<f64>, Failure> {
        let (Some(train), Some(queries)) = (train.texts(), self.queries.texts()) else {
            return Err(Failure::usage("--method bm25: images have no words"));
        };
        let index = Bm25::new(&train.texts);
        let columns: Vec<Vec<f64>> = queries.texts.iter().map(|text| index.scores(text)).collect();
        Ok(Mat::from_fn(train.texts.len(), columns.len(), |i, q| columns[q][i]))
    }

    /// Cosine similarities of the vectors of the network (examples, queries).
    ///
    /// # Errors
    /// [`Failure`] for a pass that fails.
    pub(in crate::jobs) fn similarity(
        &self,
        train: &Data,
        session: &mut Session<'_>,
    ) -> Result<Mat<f64>, Failure> {
        let batch = self.opened.store.manifest().batch;
        let mut of = |data: &Data| {
            self.opened.subject.with(data, Embedding { batch, session: &mut *session })
        };
        let (train, queries) = (of(train)?, of(&self.queries)?);
        let dot = |i: usize, q: usize| -> f64 {
            train.row(i).iter().zip(queries.row(q)).map(|(a, b)| a * b).sum()
        };
        Ok(Mat::from_fn(train.rows(), queries.rows(), dot))
    }
}

fn shown_path(path: &Path) -> String {
    shown(&path.display().to_string())
}

fn objective(options: &ScoringOptions, store: &GradientStore) -> Objective {
    let of_store = store.manifest().objective();
    Objective { target: options.target.unwrap_or(of_store.target), ..of_store }
}

/// Reads the queries for the model of a store.
fn read(
    options: &ScoringOptions,
    files: &ExampleOptions,
    opened: &Opened,
    session: &mut Session<'_>,
) -> Result<Data, Failure> {
    session.step("reading the queries");
    let mut files = files.clone();
    // Images must have the size that the network takes.
    if files.resize.is_none() {
        files.resize.clone_from(&opened.origin.options.resize);
    }
    files.read(&options.query, &opened.subject, opened.origin.reading(true), session)
}

/// Compressed gradients of the queries.
fn query_gradients(
    options: &ScoringOptions,
    opened: &Opened,
    queries: &Data,
    session: &mut Session<'_>,
) -> Result<Mat<f32>, Failure> {
    let store = &opened.store;
    let work = OfQueries { store, objective: objective(options, store), session };
    opened.subject.with(queries, work).map_err(|failure| {
        let message = format!("{}: {}", shown(&options.query), failure.message());
        Failure::new(failure.kind(), message)
    })
}

struct OfQueries<'a, 'b> {
    store: &'a GradientStore,
    objective: Objective,
    session: &'a mut Session<'b>,
}

impl Work for OfQueries<'_, '_> {
    type Output = Mat<f32>;

    fn run<N: Differentiable>(
        self,
        network: &N,
        examples: &dyn Examples<N::Input>,
    ) -> Result<Mat<f32>, Failure> {
        let (map, batch) = (self.store.map(network)?, self.store.manifest().batch);
        let (count, size) = (examples.count() as u64, map.size() as u64);
        let what = || format!("{count} gradients of queries, {size} numbers each");
        let hint = "give fewer queries, or cache with a smaller --compress";
        room::ensure(what, &[count, size, size_of::<f32>() as u64], hint)?;
        let kept = store::open(None, false, self.session)?;
        let (key, shape) = (self.key(&examples.identity()), [examples.count(), map.size()]);
        let known = kept.decoded(&key, |bytes| decoded(&bytes, shape))?;
        self.session.tell_damage(&kept);
        if let Some(rows) = known {
            self.session
                .detail(|| "what was computed for these queries is in the store".to_owned());
            return Ok(rows);
        }
        self.session.step("gradients of the queries");
        let mut rows = Vec::with_capacity(examples.count() * map.size());
        for start in (0..examples.count()).step_by(batch) {
            if self.session.interrupted() {
                return Err(AttributeError::Interrupted.into());
            }
            let part = examples.batch(start..examples.count().min(start + batch));
            let found = gradients(network, &map, &part, self.objective, start)?;
            if let Some(missed) = found.missed.first() {
                let compressor = self.store.manifest().compressor.to_string();
                let (example, numbers) = (start + missed, map.size());
                return Err(AttributeError::Missed { example, numbers, compressor }.into());
            }
            rows.extend(found.rows.into_vec());
            self.session.progress(start as u64, examples.count() as u64);
        }
        let bytes: Vec<u8> = rows.iter().flat_map(|number| number.to_le_bytes()).collect();
        if let Err(error) = kept.put(&key, &[&bytes]) {
            // The scores do not depend on it.
            self.session.note(&format!("note: gradients of the queries are not kept: {error}"));
        }
        Ok(Mat::from_vec(examples.count(), map.size(), rows))
    }
}

impl OfQueries<'_, '_> {
    /// Everything that gradients of queries depend on.
    fn key(&self, queries: &str) -> PieceKey {
        let manifest = self.store.manifest();
        let print = Fingerprint::of(&[
            ("version", &self.session.build().version),
            ("network", &manifest.network),
            ("compressor", &manifest.compressor),
            ("key", &manifest.key),
            ("layers", &manifest.layers),
            ("batch", &manifest.batch),
            ("objective", &format!("{:?}", self.objective)),
            ("queries", &queries),
        ]);
        PieceKey::new(QUERIES, print)
    }
}

/// The rows of a piece; the error is the end of a sentence.
fn decoded(bytes: &[u8], [rows, columns]: [usize; 2]) -> Result<Mat<f32>, String> {
    let (numbers, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() || numbers.len() != rows * columns {
        return Err(format!("it has {} bytes, expected {rows} x {columns} numbers", bytes.len()));
    }
    let numbers = numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    Ok(Mat::from_vec(rows, columns, numbers))
}

struct Embedding<'a, 'b> {
    batch: usize,
    session: &'a mut Session<'b>,
}

impl Work for Embedding<'_, '_> {
    type Output = Mat<f64>;

    fn run<N: Differentiable>(
        self,
        network: &N,
        examples: &dyn Examples<N::Input>,
    ) -> Result<Mat<f64>, Failure> {
        Ok(embeddings(network, examples, self.batch, self.session)?)
    }
}

/// The products of moments of every layer of a store.
///
/// # Errors
/// [`Failure`] for compressors that mix the factors, and if something cannot be read or computed.
pub(in crate::jobs) fn kronecker(
    opened: &Opened,
    attribution: &Attribution<'_>,
    method: Method,
    session: &mut Session<'_>,
) -> Result<Vec<Kronecker>, Failure> {
    let train = opened.train(session)?;
    let all = opened.subject.with(&train, OfMoments { store: &opened.store, session })?;
    let sites = opened.store.manifest().layers.iter().map(|layer| layer.site.as_str());
    let of = |(layer, (site, moments)): (usize, (&str, _))| -> Result<Kronecker, Failure> {
        let found = Kronecker::of_moments(site, moments)?;
        match method {
            Method::Ekfac => Ok(found.corrected_by(attribution.shards(), layer)?),
            _ => Ok(found),
        }
    };
    sites.zip(&all).enumerate().map(of).collect()
}

struct OfMoments<'a, 'b> {
    store: &'a GradientStore,
    session: &'a mut Session<'b>,
}

impl Work for OfMoments<'_, '_> {
    type Output = Vec<linwright_attribute::Moments>;

    fn run<N: Differentiable>(
        self,
        network: &N,
        examples: &dyn Examples<N::Input>,
    ) -> Result<Self::Output, Failure> {
        let (map, manifest) = (self.store.map(network)?, self.store.manifest());
        let how = (manifest.objective(), manifest.batch);
        Ok(moments((network, &map), examples, how, self.session)?)
    }
}
