//! Speed of fits on this machine, measured on smaller layers.
//!
//! A method gives its multiply-adds, but their speed depends on the kind of work: matrix products
//! are fast, eigendecompositions and short loops slow. So each method is timed on a small layer of
//! random numbers with a planted weight, and its speed is extrapolated.

use crate::methods::{Fit, FitProblem, MethodSpec, SampleRows, needs_together};
use crate::{CompressError, FitError, Size};
use linwright_measure::capture::{Evidence, Needs};
use linwright_measure::samples::{Rows, Samples};
use linwright_measure::stats::{InputSums, SiteStats, TargetSums};
use linwright_ops::{Dense, Op, Shape, SiteId};
use linwright_tensor::kernels::gemm::{Write, linear};
use linwright_tensor::{Mat, RngKey};
use linwright_train::{Control, Progress};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Largest number of multiply-adds of a timed training: a few tenths of a second.
const TIMED: f64 = 4e8;
/// Largest number of multiply-adds of a timed fit to sums, which consists of matrix products and
/// decompositions: as long, but on larger layers, since small matrices are far slower.
const TIMED_SUMS: f64 = 5e9;
/// Steps of a timed training.
const STEPS: usize = 5;
/// A fit is timed repeatedly until this total time, and the fastest run counts.
const TOTAL_TIME: Duration = Duration::from_millis(200);
/// The first run also allocates memory; it counts alone only if it takes this long.
const LONG_RUN: Duration = Duration::from_millis(1500);
/// Rows of timed sums.
const SUM_ROWS: usize = 512;
/// Largest number of timed runs.
const REPEATS: usize = 3;

/// Measured speeds, by method and shape.
#[derive(Clone, Debug, Default)]
pub struct Rates {
    fits: HashMap<(String, Shape), Rate>,
    sums: HashMap<Shape, f64>,
}

/// Seconds per multiply-add.
#[derive(Clone, Copy, Debug)]
struct Rate {
    /// For the first iteration and all work before it; for the whole fit if there are no
    /// iterations.
    first: f64,
    /// For further iterations and starts.
    further: f64,
}

/// Runs a timed fit without cancellation.
struct Quiet;

impl Control for Quiet {
    fn progress(&mut self, _progress: &Progress<'_>) {}

    fn interrupted(&self) -> bool {
        false
    }
}

impl Rates {
    /// Estimates the time of a fit in seconds.
    ///
    /// # Errors
    /// If there is no operator for this shape, or the timed fit fails.
    pub fn fit_seconds(
        &mut self,
        method: &MethodSpec,
        size: Option<Size>,
        shape: Shape,
        rows: SampleRows,
    ) -> Result<f64, FitError> {
        let named = serde_json::to_string(&(method, size));
        let key = (named.unwrap_or_else(|_| method.label(size)), shape);
        let rate = match self.fits.get(&key) {
            Some(rate) => *rate,
            None => {
                let rate = measured(method, size, shape)?;
                self.fits.insert(key, rate);
                rate
            }
        };
        let all = method.work(size, shape, rows)?;
        let first = method.brief().map_or(Ok(all), |brief| brief.work(size, shape, rows))?;
        Ok(first * rate.first + (all - first) * rate.further)
    }

    /// Seconds per row for the sums over an input.
    pub(crate) fn input_sum_seconds(&mut self, inp: usize) -> f64 {
        let least = inp.min(1024);
        let rate = self.sum_rate(Shape { out: 0, inp: least });
        rate * (inp * inp) as f64
    }

    /// Seconds per row for the sums over the targets of a site.
    pub(crate) fn target_sum_seconds(&mut self, shape: Shape) -> f64 {
        let least = Shape { out: shape.out.min(1024), inp: shape.inp.min(1024) };
        self.sum_rate(least) * shape.dense_parameters() as f64
    }

    /// Seconds per row and entry of sums over targets; over inputs, if there are no outputs.
    fn sum_rate(&mut self, shape: Shape) -> f64 {
        *self.sums.entry(shape).or_insert_with(|| {
            let Shape { out, inp } = shape;
            let (x, y) = (normals(SUM_ROWS, inp, 1), normals(SUM_ROWS, out, 2));
            let (mut inputs, mut targets) = (InputSums::new(inp), TargetSums::new(out, inp));
            let seconds = fastest(|| {
                match out {
                    0 => inputs.add(x.view()),
                    _ => targets.add(x.view(), y.view()),
                }
                Ok(())
            });
            let entries = SUM_ROWS * inp * if out == 0 { inp } else { out };
            seconds.unwrap_or_default() / entries as f64
        })
    }
}

/// Time in seconds of the fastest of several runs; of a single one if it takes long.
pub(crate) fn fastest(
    mut run: impl FnMut() -> Result<(), CompressError>,
) -> Result<f64, CompressError> {
    let (mut best, mut all) = (Duration::MAX, Duration::ZERO);
    for run_number in 1..=REPEATS {
        let began = Instant::now();
        run()?;
        let took = began.elapsed();
        (best, all) = (best.min(took), all + took);
        if all > LONG_RUN || (run_number > 1 && all > TOTAL_TIME) {
            break;
        }
    }
    Ok(best.as_secs_f64())
}

/// Speed of a method, measured on a smaller layer.
fn measured(method: &MethodSpec, size: Option<Size>, shape: Shape) -> Result<Rate, FitError> {
    let Smaller { method: smaller, size, shape: small, rows } = timed(method, size, shape)?;
    let problem = Planted::new(&smaller, small, rows);
    let timed = |method: &MethodSpec| {
        let seconds = fastest(|| {
            let failed = |source| CompressError::Fit { site: problem.site.clone(), source };
            problem.fit(method, size).map(drop).map_err(failed)
        });
        match seconds {
            Ok(seconds) => Ok((seconds, method.work(size, small, rows)?)),
            Err(CompressError::Fit { source, .. }) => Err(source),
            Err(other) => unreachable!("a timed fit fails as fits do: {other}"),
        }
    };
    let (seconds, work) = timed(&smaller)?;
    let Some(brief) = smaller.brief() else {
        return Ok(Rate { first: seconds / work, further: seconds / work });
    };
    let (before, first) = timed(&brief)?;
    // If the time of iterations is too short to measure, or there are none, they have the same
    // speed as the rest.
    let further = if seconds > before && work > first {
        (seconds - before) / (work - first)
    } else {
        seconds / work
    };
    Ok(Rate { first: before / first, further })
}

/// A fit that is timed.
struct Smaller {
    method: MethodSpec,
    size: Option<Size>,
    shape: Shape,
    rows: SampleRows,
}

/// The largest layer within the time limit, by halving; the smallest possible one if none is.
fn timed(method: &MethodSpec, size: Option<Size>, shape: Shape) -> Result<Smaller, FitError> {
    let mut found = None;
    let mut refused = None;
    for halvings in 0..usize::BITS as usize {
        let by = 1 << halvings;
        let small = Shape { out: shape.out / by, inp: shape.inp / by };
        if halvings > 0 && small.out.min(small.inp) < method.traits().least_side {
            break;
        }
        let (smaller, size) = (method.shrunk(by), size.map(|size| size.shrunk(by)));
        let rows = rows_of(&smaller);
        match smaller.work(size, small, rows) {
            Ok(work) => {
                let most = if method.needs() == Needs::Samples { TIMED } else { TIMED_SUMS };
                found = Some(Smaller { method: smaller, size, shape: small, rows });
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
    let batch = method.traits().batch;
    SampleRows { train: STEPS * batch, validation: batch.div_ceil(4) }
}

/// A random layer with its captured data.
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
        let needs = needs_together(&[(method, shape)], usize::MAX)[0];
        let count = match needs {
            Needs::Samples => rows.train + rows.validation,
            Needs::Stats | Needs::Inputs | Needs::Outputs => 2 * inp,
        };
        // Features of unequal scale, as in activations, and targets that no operator fits exactly.
        let mut x = normals(count, inp, 1);
        for i in 0..count {
            x.row_mut(i).iter_mut().enumerate().for_each(|(j, x)| *x /= (1 + j % 7) as f32);
        }
        let mut weight = normals(out, inp, 2);
        weight.data_mut().iter_mut().for_each(|w| *w /= (inp as f32).sqrt());
        let mut y = Mat::zeros(count, out);
        linear(x.view(), weight.view(), y.view_mut(), Write::Set);
        y.data_mut().iter_mut().for_each(|y| *y += 0.1 * y.sin());
        let sums_of = |rows: &Mat<f32>| {
            let mut sums = InputSums::new(rows.cols());
            sums.add(rows.view());
            sums.finish()
        };
        let evidence = match needs {
            Needs::Samples => {
                Evidence::Samples(Samples { x: Rows::of(x), y: Rows::of(y), train: rows.train })
            }
            Needs::Stats => {
                // Each with sums of its own: what shared ones keep would be computed once for all
                // runs that are timed.
                let [train, validation] = [(); 2].map(|()| SiteStats::of(x.view(), y.view()));
                Evidence::Stats { validation, train }
            }
            Needs::Inputs => {
                let train = Arc::new(sums_of(&x));
                Evidence::Inputs { validation: Arc::clone(&train), train }
            }
            Needs::Outputs => {
                let train = sums_of(&y);
                Evidence::Outputs { validation: train.clone(), train }
            }
        };
        let weight = Op::Linear(Box::new(Dense::new(weight)));
        Self { site: SiteId("a timed fit".into()), shape, weight, evidence }
    }

    fn fit(&self, method: &MethodSpec, size: Option<Size>) -> Result<Fit, FitError> {
        let problem = FitProblem {
            site: &self.site,
            shape: self.shape,
            original: &self.weight,
            size,
            evidence: Some(&self.evidence),
            components: None,
            bias: None,
            key: RngKey::new(3),
            ridge: None,
            checkpoint: None,
            part_rows: None,
        };
        method.fit(&problem, &mut Quiet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::counted;
    use crate::methods::{
        AsvdMethod, BlockHadamardMethod, DenseMethod, FeatureMethod, How, LaserMethod,
        LowRankMethod, RotorMethod, StructuredMethod, SvdMethod, SwiftSvdMethod, Training,
        WhitenedSvdMethod,
    };
    use linwright_data::Corpus;
    use linwright_measure::capture::{Bounds, Lockstep, Wanted};
    use linwright_model::checkpoint::load;
    use linwright_model::tokenizer::Bos;
    use linwright_model::{Split, Windows};
    use linwright_ops::{
        BlockHadamardSpec, ButterflySpec, DiagonalLowRankSpec, LowRankSpec, OpSpec, ProductSpec,
        Sites, SumSpec,
    };
    use linwright_run::Silent;
    use std::path::Path;

    /// All methods in all variants, and all kinds of `structured`, with little work.
    fn methods() -> Vec<(MethodSpec, Option<Size>)> {
        let training = Training { epochs: 1, batch: 64, ..Training::default() };
        let dense =
            |fit| MethodSpec::Dense(DenseMethod { fit, training, ..DenseMethod::default() });
        let low_rank =
            |fit| MethodSpec::LowRank(LowRankMethod { fit, training, ..LowRankMethod::default() });
        let blocks = BlockHadamardMethod { depth: 2, training, ..Default::default() };
        let mut all = vec![
            dense(How::Closed),
            dense(How::Trained),
            low_rank(How::Closed),
            low_rank(How::Trained),
            MethodSpec::Laser(LaserMethod::default()),
            MethodSpec::Feature(FeatureMethod::default()),
            MethodSpec::Svd(SvdMethod::default()),
            MethodSpec::WhitenedSvd(WhitenedSvdMethod::default()),
            MethodSpec::Asvd(AsvdMethod::default()),
            MethodSpec::SwiftSvd(SwiftSvdMethod::default()),
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
        let sized = |method: MethodSpec| {
            let size = method.needs_size().then_some(Size::Rank(16));
            (method, size)
        };
        all.into_iter().map(sized).collect()
    }

    /// A method of the registry with its standard options; `structured` has none without an
    /// operator.
    fn registered(id: &str) -> MethodSpec {
        let read = |options| serde_json::from_value::<MethodSpec>(options);
        let operator = OpSpec::LowRank(LowRankSpec { rank: 4 });
        read(serde_json::json!({ "method": id }))
            .or_else(|_| read(serde_json::json!({ "method": id, "operator": operator })))
            .expect("a method without options, or with an operator")
    }

    #[test]
    fn every_registered_method_keeps_its_promises_on_a_small_layer() {
        let (shape, half) = (Shape { out: 32, inp: 32 }, Shape { out: 16, inp: 16 });
        for id in MethodSpec::IDS {
            let method = registered(id);
            let size = method.needs_size().then_some(Size::Rank(4));
            method.check(size).expect(id);
            let rows = SampleRows { train: 200, validation: 50 };
            let smaller = method.shrunk(2);
            let work = |method: &MethodSpec, shape| method.work(size, shape, rows).expect(id);
            let (whole, less) = (work(&method, shape), work(&smaller, half));
            assert!(less > 0.0 && less < whole, "{id}: {less} of {whole} multiply-adds");
            let planted = Planted::new(&smaller, half, rows);
            let [fit, again] = [(); 2].map(|()| planted.fit(&smaller, size).expect(id));
            let most = smaller.parameters(size, half).expect(id);
            assert!(fit.op.parameters() <= most, "{id}: {} of {most}", fit.op.parameters());
            assert_eq!(fit.op.to_dense().is_ok(), method.is_linear(), "{id}");
            assert!(fit.report.relative_error.is_finite(), "{id}");
            let values = |fit: &Fit| -> Vec<f32> {
                fit.op.map().params().iter().flat_map(|p| p.values.to_vec()).collect()
            };
            assert_eq!(values(&fit), values(&again), "{id}: the same key gives the same operator");
        }
    }

    /// Work of all iterations of a fit except the first: estimated over counted multiply-adds.
    fn told_over_counted(operator: OpSpec, side: usize, iterations: Option<u32>) -> f64 {
        let mut method = StructuredMethod::new(operator);
        method.iterations = iterations.unwrap_or(method.iterations);
        let method = MethodSpec::Structured(method);
        let brief = method.brief().expect("repeats something");
        let (shape, rows) =
            (Shape { out: side, inp: side }, SampleRows { train: 0, validation: 0 });
        let problem = Planted::new(&method, shape, rows);
        let [all, first] = [&method, &brief].map(|method| {
            let (counted, fit) = counted::by(|| problem.fit(method, None));
            fit.expect("fits");
            (method.work(None, shape, rows).expect("is estimated"), counted)
        });
        (all.0 - first.0) / (all.1 - first.1)
    }

    #[test]
    fn iterations_multiply_and_add_about_as_often_as_is_estimated() {
        let kind = |kind: &str| OpSpec::default_of(kind).expect("has defaults");
        let diagonal = |rank| OpSpec::DiagonalLowRank(DiagonalLowRankSpec { rank });
        // The default number of iterations, and that of a larger layer.
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
        assert!(
            ratios.iter().all(|(.., ratio)| near(*ratio)),
            "estimated over counted: {ratios:.2?}"
        );
    }

    #[test]
    fn every_method_takes_about_as_long_on_pocket_as_is_estimated() {
        let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/pocket");
        let loaded = load(&assets).expect("loads");
        let (model, tokenizer) = (&loaded.decoder, loaded.tokenizer.as_ref().expect("has one"));
        let corpus = Corpus::open(&assets.join("calibration.jsonl"), None).expect("opens");
        let texts = corpus.documents.iter().map(|d| (d.line, d.text.as_str()));
        let calibration = Windows::encode(texts, tokenizer, Bos::Auto, 128, 800, Split::Contiguous);
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
            let captured = lockstep.capture(model, &[Wanted { site: &site, needs }], &mut Silent);
            captured.expect("captures")[0].evidence.clone()
        });
        let mut ratios = Vec::new();
        for (method, size) in methods() {
            let evidence = if method.needs() == Needs::Samples { &samples } else { &sums }.clone();
            let planted =
                Planted { site: site.clone(), shape, weight: slot.op().clone(), evidence };
            // Other tests run in parallel: the best of some attempts counts.
            let mut nearest = f64::INFINITY;
            for _ in 0..3 {
                rates.fits.clear();
                let estimated =
                    rates.fit_seconds(&method, size, shape, rows).expect("is estimated");
                let began = Instant::now();
                planted.fit(&method, size).expect("fits");
                let ratio = estimated / began.elapsed().as_secs_f64();
                if ratio.ln().abs() < nearest.ln().abs() {
                    nearest = ratio;
                }
                if nearest.ln().abs() < 2.5f64.ln() {
                    break;
                }
            }
            ratios.push(format!("{} {nearest:.2}", method.label(size)));
        }
        let far = |line: &String| {
            let ratio: f64 = line.rsplit(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0.0);
            !(1.0 / 3.0..=3.0).contains(&ratio)
        };
        assert!(!ratios.iter().any(far), "estimated over measured: {}", ratios.join(", "));
    }
}
