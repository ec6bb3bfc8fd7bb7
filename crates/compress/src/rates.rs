//! How fast this machine fits: the same method on a smaller layer, timed.
//!
//! A method tells its multiply-adds, but what a second holds of them differs by kind: products are
//! fast, eigenvalues and short loops slow, and alternations end when they no longer gain. So each
//! method is timed on a layer that is small enough to take a moment, of random numbers with a
//! planted weight, and its rate carried over.

use crate::methods::{FitProblem, MethodSpec, SampleRows};
use crate::{CompressError, FitError};
use linwright_measure::capture::{Evidence, Needs};
use linwright_measure::samples::{Rows, Samples};
use linwright_measure::stats::SiteStats;
use linwright_ops::{Dense, Op, Shape, SiteId};
use linwright_tensor::kernels::gemm::{Write, linear};
use linwright_tensor::{Mat, RngKey};
use linwright_train::{Control, Progress};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Multiply-adds that a timed training may take: some tenths of a second.
const TIMED: f64 = 4e8;
/// Multiply-adds of a timed fit to sums, which are products of matrices and decompositions: as
/// long, on layers that are large enough, since those of small matrices are far slower.
const TIMED_SUMS: f64 = 5e9;
/// Steps of a training that is timed.
const STEPS: usize = 5;
/// A fit is timed again until all of them took so long, and the fastest counts.
const ENOUGH: Duration = Duration::from_millis(200);
/// The first run also touches memory for the first time: alone it counts only where it took so
/// long.
const LONG: Duration = Duration::from_millis(1500);
/// Times that a fit is timed at most.
const REPEATS: usize = 3;

/// Rates that were measured, by method and shape.
#[derive(Clone, Debug, Default)]
pub struct Rates {
    fits: HashMap<(String, Shape), Rate>,
    sums: HashMap<(bool, Shape), f64>,
}

/// Seconds of a multiply-add.
#[derive(Clone, Copy, Debug)]
struct Rate {
    /// Of the first iteration and all that comes before it; of the whole fit where nothing is
    /// repeated.
    first: f64,
    /// Of what further iterations and starts repeat.
    further: f64,
}

/// Lets a timed fit run to its end.
struct Quiet;

impl Control for Quiet {
    fn progress(&mut self, _progress: &Progress<'_>) {}

    fn interrupted(&self) -> bool {
        false
    }
}

impl Rates {
    /// Seconds that a fit will take.
    ///
    /// # Errors
    /// If there is no operator for this shape, or the timed fit fails.
    pub fn fit_seconds(
        &mut self,
        method: &MethodSpec,
        shape: Shape,
        rows: SampleRows,
    ) -> Result<f64, FitError> {
        let key = (serde_json::to_string(method).unwrap_or_else(|_| method.label()), shape);
        let rate = match self.fits.get(&key) {
            Some(rate) => *rate,
            None => {
                let rate = measured(method, shape)?;
                self.fits.insert(key, rate);
                rate
            }
        };
        let all = method.work(shape, rows)?;
        let first = method.brief().map_or(Ok(all), |brief| brief.work(shape, rows))?;
        Ok(first * rate.first + (all - first) * rate.further)
    }

    /// Seconds that one row takes to be added to the sums of a site; the first site of a capture
    /// also adds up the inputs.
    pub(crate) fn sum_seconds(&mut self, shape: Shape, first: bool) -> f64 {
        let work = |shape: Shape| {
            let (out, inp) = (shape.out as f64, shape.inp as f64);
            inp * (out + if first { inp } else { 0.0 })
        };
        let less = Shape { out: shape.out.min(1024), inp: shape.inp.min(1024) };
        let rate = *self.sums.entry((first, less)).or_insert_with(|| {
            let rows = 512;
            let (x, y) = (normals(rows, less.inp, 1), normals(rows, less.out, 2));
            let mut stats = SiteStats::new(less.out, less.inp);
            let seconds = fastest(|| {
                match first {
                    true => stats.add(x.view(), y.view()),
                    false => stats.add_targets(x.view(), y.view()),
                }
                Ok(())
            });
            seconds.unwrap_or_default() / (rows as f64 * work(less))
        });
        rate * work(shape)
    }
}

/// Seconds of the fastest of several runs; of one, where that takes long.
pub(crate) fn fastest(
    mut run: impl FnMut() -> Result<(), CompressError>,
) -> Result<f64, CompressError> {
    let (mut best, mut all) = (Duration::MAX, Duration::ZERO);
    for run_number in 1..=REPEATS {
        let began = Instant::now();
        run()?;
        let took = began.elapsed();
        (best, all) = (best.min(took), all + took);
        if all > LONG || (run_number > 1 && all > ENOUGH) {
            break;
        }
    }
    Ok(best.as_secs_f64())
}

/// The rate of a method, on a layer made smaller until it is quickly fitted.
fn measured(method: &MethodSpec, shape: Shape) -> Result<Rate, FitError> {
    let (smaller, small, rows) = timed(method, shape)?;
    let problem = Planted::new(&smaller, small, rows);
    let timed = |method: &MethodSpec| {
        let seconds = fastest(|| {
            let failed = |source| CompressError::Fit { site: problem.site.clone(), source };
            problem.fit(method).map_err(failed)
        });
        match seconds {
            Ok(seconds) => Ok((seconds, method.work(small, rows)?)),
            Err(CompressError::Fit { source, .. }) => Err(source),
            Err(other) => unreachable!("a timed fit fails as fits do: {other}"),
        }
    };
    let (seconds, work) = timed(&smaller)?;
    let Some(brief) = smaller.brief() else {
        return Ok(Rate { first: seconds / work, further: seconds / work });
    };
    let (before, first) = timed(&brief)?;
    // Where iterations take no time that can be told, or there are none, they are like all else.
    let further = if seconds > before && work > first {
        (seconds - before) / (work - first)
    } else {
        seconds / work
    };
    Ok(Rate { first: before / first, further })
}

/// The largest layer that takes no longer than it may, by halves; the smallest that there is, if
/// all take longer.
fn timed(method: &MethodSpec, shape: Shape) -> Result<(MethodSpec, Shape, SampleRows), FitError> {
    let mut found = None;
    let mut refused = None;
    for halvings in 0..usize::BITS as usize {
        let by = 1 << halvings;
        let small = Shape { out: shape.out / by, inp: shape.inp / by };
        if halvings > 0 && small.out.min(small.inp) < method.least_side() {
            break;
        }
        let smaller = method.shrunk(by);
        let rows = rows_of(&smaller);
        match smaller.work(small, rows) {
            Ok(work) => {
                let most = if method.needs() == Needs::Stats { TIMED_SUMS } else { TIMED };
                found = Some((smaller, small, rows));
                if work <= most {
                    break;
                }
            }
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    match (found, refused) {
        (Some(found), _) => Ok(found),
        (None, Some(error)) => Err(error),
        (None, None) => Err(FitError::TooFewSamples { found: 0, needed: 1 }),
    }
}

/// Samples of a timed training: some batches.
fn rows_of(method: &MethodSpec) -> SampleRows {
    let batch = method.batch();
    SampleRows { train: STEPS * batch, validation: batch.div_ceil(4) }
}

/// A random layer with what would be captured of it.
struct Planted {
    site: SiteId,
    shape: Shape,
    weight: Op<f32>,
    evidence: Evidence,
}

fn normals(rows: usize, cols: usize, seed: u64) -> Mat<f32> {
    let mut stream = RngKey::new(seed).fold("a timed fit").stream();
    Mat::from_vec(rows, cols, stream.normals(rows * cols, 1.0))
}

impl Planted {
    fn new(method: &MethodSpec, shape: Shape, rows: SampleRows) -> Self {
        let Shape { out, inp } = shape;
        let count = match method.needs() {
            Needs::Samples => rows.train + rows.validation,
            Needs::Stats => 2 * inp,
        };
        // Features of unequal size, as activations are, and targets that no operator explains.
        let mut x = normals(count, inp, 1);
        for i in 0..count {
            x.row_mut(i).iter_mut().enumerate().for_each(|(j, x)| *x /= (1 + j % 7) as f32);
        }
        let mut weight = normals(out, inp, 2);
        weight.data_mut().iter_mut().for_each(|w| *w /= (inp as f32).sqrt());
        let mut y = Mat::zeros(count, out);
        linear(x.view(), weight.view(), y.view_mut(), Write::Set);
        y.data_mut().iter_mut().for_each(|y| *y += 0.1 * y.sin());
        let evidence = match method.needs() {
            Needs::Samples => {
                Evidence::Samples(Samples { x: Rows::of(x), y: Rows::of(y), train: rows.train })
            }
            Needs::Stats => {
                let mut train = SiteStats::new(out, inp);
                train.add(x.view(), y.view());
                Evidence::Stats { validation: train.clone(), train }
            }
        };
        let weight = Op::Linear(Box::new(Dense::new(weight)));
        Self { site: SiteId("a timed fit".into()), shape, weight, evidence }
    }

    fn fit(&self, method: &MethodSpec) -> Result<(), FitError> {
        let problem = FitProblem {
            site: &self.site,
            shape: self.shape,
            original: &self.weight,
            evidence: &self.evidence,
            biased: false,
            key: RngKey::new(3),
            checkpoint: None,
        };
        method.fit(&problem, &mut Quiet).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::counted;
    use crate::intervention::{Cut, Intervention, Size};
    use crate::methods::{
        BlockHadamardMethod, DenseMethod, How, LaserMethod, LowRankMethod, RotorMethod,
        StructuredMethod, Training,
    };
    use linwright_data::Corpus;
    use linwright_measure::calibration::{Calibration, Split};
    use linwright_measure::capture::{Bounds, Lockstep};
    use linwright_model::checkpoint::load;
    use linwright_model::tokenizer::Bos;
    use linwright_ops::{
        BlockHadamardSpec, ButterflySpec, DiagonalLowRankSpec, LowRankSpec, OpSpec, ProductSpec,
        Sites, SumSpec,
    };
    use linwright_run::Silent;
    use std::path::Path;

    /// Every method in each of its ways, and every kind that `structured` fits, with little to do.
    fn methods() -> Vec<MethodSpec> {
        let training = Training { epochs: 1, batch: 64, ..Training::default() };
        let dense =
            |fit| MethodSpec::Dense(DenseMethod { fit, training, ..DenseMethod::default() });
        let low_rank =
            |fit| MethodSpec::LowRank(LowRankMethod { rank: Some(16), keep: None, fit, training });
        let cut = Cut::new(Intervention::RankReduction, Size::Rank(16));
        let blocks = BlockHadamardMethod { depth: 2, training, ..Default::default() };
        let mut all = vec![
            dense(How::Closed),
            dense(How::Trained),
            low_rank(How::Closed),
            low_rank(How::Trained),
            MethodSpec::Laser(LaserMethod { cut }),
            MethodSpec::BlockHadamard(blocks),
            MethodSpec::Rotor(RotorMethod { training, ..RotorMethod::default() }),
        ];
        let kind = |kind: &str| OpSpec::default_of(kind).expect("has defaults");
        let diagonal = OpSpec::DiagonalLowRank(DiagonalLowRankSpec { rank: 4 });
        let thin = OpSpec::LowRank(LowRankSpec { rank: 8 });
        let angles = ButterflySpec { orthogonal: true, ..ButterflySpec::default() };
        let blocks = BlockHadamardSpec { depth: 1, ..BlockHadamardSpec::default() };
        let product =
            ProductSpec { factors: vec![kind("monarch"), diagonal.clone()], widths: None };
        let sum = SumSpec { terms: vec![kind("monarch"), thin.clone()] };
        let mut operators =
            ["dense", "monarch", "kronecker", "butterfly", "circulant_diagonal", "rotor"]
                .map(kind)
                .to_vec();
        operators.extend([
            thin,
            diagonal,
            OpSpec::Butterfly(angles),
            OpSpec::BlockHadamard(blocks),
            OpSpec::Product(product),
            OpSpec::Sum(sum),
        ]);
        for operator in operators {
            // A sweep of a sum is a fit of each of its terms.
            let iterations = if let OpSpec::Sum(_) = operator { 2 } else { 4 };
            let method =
                StructuredMethod { starts: 1, iterations, ..StructuredMethod::new(operator) };
            all.push(MethodSpec::Structured(method));
        }
        all
    }

    /// What all iterations of a fit but the first add: multiply-adds as told, over those counted.
    fn told_over_counted(operator: OpSpec, side: usize, iterations: Option<u32>) -> f64 {
        let mut method = StructuredMethod::new(operator);
        method.iterations = iterations.unwrap_or(method.iterations);
        let method = MethodSpec::Structured(method);
        let brief = method.brief().expect("repeats something");
        let (shape, rows) =
            (Shape { out: side, inp: side }, SampleRows { train: 0, validation: 0 });
        let problem = Planted::new(&method, shape, rows);
        let [all, first] = [&method, &brief].map(|method| {
            let (counted, fit) = counted::by(|| problem.fit(method));
            fit.expect("fits");
            (method.work(shape, rows).expect("is estimated"), counted)
        });
        (all.0 - first.0) / (all.1 - first.1)
    }

    #[test]
    fn iterations_multiply_and_add_about_as_often_as_is_estimated() {
        let kind = |kind: &str| OpSpec::default_of(kind).expect("has defaults");
        let diagonal = |rank| OpSpec::DiagonalLowRank(DiagonalLowRankSpec { rank });
        // As many iterations as there are by default, and what they are on a larger layer.
        let cases = [
            (kind("rotor"), 128, None),
            (diagonal(8), 128, None),
            (diagonal(32), 128, None),
            (kind("kronecker"), 512, Some(4)),
            (diagonal(8), 512, Some(4)),
            (diagonal(60), 256, Some(4)),
        ];
        let ratios = cases.map(|(operator, side, iterations)| {
            let label = operator.kind().to_owned();
            (label, side, told_over_counted(operator, side, iterations))
        });
        let near = |ratio: f64| (1.0 / 3.0..=3.0).contains(&ratio);
        assert!(ratios.iter().all(|(.., ratio)| near(*ratio)), "told over counted: {ratios:.2?}");
    }

    #[test]
    fn every_method_takes_about_as_long_on_pocket_as_is_estimated() {
        let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/pocket");
        let loaded = load(&assets).expect("loads");
        let (model, tokenizer) = (&loaded.decoder, loaded.tokenizer.as_ref().expect("has one"));
        let corpus = Corpus::open(&assets.join("calibration.jsonl"), None).expect("opens");
        let texts = corpus.documents.iter().map(|d| (d.line, d.text.as_str()));
        let calibration =
            Calibration::encode(texts, tokenizer, Bos::Auto, 128, 800, Split::Contiguous);
        let calibration = calibration.expect("enough text");
        let train = calibration.train_tokens();
        let rows = SampleRows { train, validation: calibration.tokens() - train };
        let slots = model.slots();
        let slot = slots.iter().find(|slot| {
            let shape = slot.shape();
            slot.layer() == Some(1) && shape.out == shape.inp
        });
        let slot = slot.expect("a square layer");
        let (site, shape) = (slot.id().clone(), slot.shape());
        let mut rates = Rates::default();
        let mut lockstep = Lockstep::new(model, &calibration, Bounds::default());
        let [sums, samples] = [Needs::Stats, Needs::Samples].map(|needs| {
            let sites = std::slice::from_ref(&site);
            let captured = lockstep.capture(model, 1, sites, needs, &mut Silent);
            captured.expect("captures")[0].evidence.clone()
        });
        let mut ratios = Vec::new();
        for method in methods() {
            let evidence = if method.needs() == Needs::Stats { &sums } else { &samples }.clone();
            let planted =
                Planted { site: site.clone(), shape, weight: slot.op().clone(), evidence };
            // Other tests run beside this one: the nearest of some attempts counts.
            let mut nearest = f64::INFINITY;
            for _ in 0..3 {
                rates.fits.clear();
                let estimated = rates.fit_seconds(&method, shape, rows).expect("is estimated");
                let began = Instant::now();
                planted.fit(&method).expect("fits");
                let ratio = estimated / began.elapsed().as_secs_f64();
                if ratio.ln().abs() < nearest.ln().abs() {
                    nearest = ratio;
                }
                if nearest.ln().abs() < 2.5f64.ln() {
                    break;
                }
            }
            ratios.push(format!("{} {nearest:.2}", method.label()));
        }
        let far = |line: &String| {
            let ratio: f64 = line.rsplit(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0.0);
            !(1.0 / 3.0..=3.0).contains(&ratio)
        };
        assert!(!ratios.iter().any(far), "told over taken: {}", ratios.join(", "));
    }
}
