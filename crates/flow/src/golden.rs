//! Golden vectors: every set of `cdflow` under `$LINWRIGHT_GOLDEN`, by default `testdata/golden` of
//! the workspace. Layers, pixel convolutions, squeezes and the flow, in double and single
//! precision; sizes are read from the files.

#![allow(
    clippy::disallowed_methods,
    reason = "an environment variable gives the folder of the golden vectors"
)]

use crate::{Extent, Flow, FlowSpec, MixSpec, Mixing, SqueezeOrder, Values};
use linwright_ops::{CirculantDiagonal, CirculantFactors, CirculantParameterisation};
use linwright_ops::{Op, Workspace};
use linwright_tensor::{Mat, RngKey, Scalar};
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;
use std::collections::BTreeMap;
use std::f64::consts::LN_2;
use std::path::{Path, PathBuf};

struct Golden {
    shape: Vec<usize>,
    values: Vec<f64>,
}

struct Set {
    path: PathBuf,
    about: Value,
    tensors: BTreeMap<String, Golden>,
}

/// The folder of other golden vectors, where one is given.
fn given() -> Option<PathBuf> {
    std::env::var_os("LINWRIGHT_GOLDEN").map(PathBuf::from)
}

/// The least that each set of the repository has of what a test compares; another set may have
/// none of it.
fn least(of_ours: usize) -> usize {
    if given().is_none() { of_ours } else { 0 }
}

fn sets() -> Vec<Set> {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/golden");
    let root = given().unwrap_or(default).join("cdflow");
    let entries = std::fs::read_dir(&root).unwrap_or_else(|e| panic!("{}: {e}", root.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "safetensors"));
    paths.sort();
    assert!(!paths.is_empty(), "no set in {}", root.display());
    paths.into_iter().map(Set::read).collect()
}

impl Set {
    fn read(path: PathBuf) -> Self {
        let read = |path: &Path| std::fs::read(path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        let about = serde_json::from_slice(&read(&path.with_extension("json"))).expect("JSON");
        let bytes = read(&path);
        let file = SafeTensors::deserialize(&bytes).expect("safetensors");
        let tensors = file.iter().map(|(name, view)| {
            assert_eq!(view.dtype(), Dtype::F64, "{path:?}: {name}");
            let values = view.data().as_chunks::<8>().0.iter().map(|b| f64::from_le_bytes(*b));
            (name.to_owned(), Golden { shape: view.shape().to_vec(), values: values.collect() })
        });
        let tensors = tensors.collect();
        Self { path, about, tensors }
    }

    fn get(&self, name: &str) -> &Golden {
        self.tensors.get(name).unwrap_or_else(|| panic!("{:?}: no tensor {name}", self.path))
    }

    /// The layer of a case, mixing channels.
    fn mixing<T: Scalar>(&self, name: &str, of: CirculantParameterisation) -> Mixing<T> {
        let rows = |key: &str| -> Vec<Vec<f64>> {
            let golden = self.tensors.get(&format!("{name}.{key}"));
            let row = |golden: &Golden| {
                let chunks = golden.values.chunks_exact(golden.shape[1]);
                chunks.map(<[f64]>::to_vec).collect::<Vec<_>>()
            };
            golden.map(row).unwrap_or_default()
        };
        let factors = CirculantFactors { diagonals: rows("d"), columns: rows("c") };
        let op = CirculantDiagonal::new(of, &factors).expect("factors without zeros");
        Mixing::new(name.to_owned(), Op::Linear(Box::new(op))).expect("an inverse")
    }

    #[track_caller]
    fn close(&self, what: &str, found: &[f64], want: &[f64], tolerance: f64) {
        assert_eq!(found.len(), want.len(), "{:?}: {what}", self.path);
        let most = want.iter().fold(0.0_f64, |most, v| most.max(v.abs()));
        let allowed = tolerance * if most == 0.0 { 1.0 } else { most };
        for (at, (found, want)) in found.iter().zip(want).enumerate() {
            let off = (found - want).abs();
            assert!(off <= allowed, "{:?}: {what}[{at}] is {found}, expected {want}", self.path);
        }
    }
}

/// Cases of all sets whose names start so, of which there must be one. A set has a case for each
/// of its tensors of the kind, and each of ours has this many at least.
fn cases<'a>(sets: &'a [Set], start: &str, of_ours: usize) -> Vec<(&'a Set, String, Value)> {
    let of_set = |set: &'a Set| {
        let cases = set.about["cases"].as_array().expect("cases").iter();
        let named =
            cases.map(move |case| (set, case["name"].as_str().expect("a name").to_owned(), case));
        let found: Vec<_> = named.filter(|(_, name, _)| name.starts_with(start)).collect();
        assert!(found.len() >= least(of_ours), "{:?} has {} {start}", set.path, found.len());
        for key in set.tensors.keys().filter(|key| key.starts_with(start)) {
            let is_announced =
                key.split_once('.').is_some_and(|(own, _)| found.iter().any(|f| f.1 == own));
            assert!(is_announced, "{:?}: no case of {key}", set.path);
        }
        found.into_iter().map(|(set, name, case)| (set, name, case.clone()))
    };
    let found: Vec<_> = sets.iter().flat_map(of_set).collect();
    assert!(!found.is_empty(), "no golden set has a case {start}");
    found
}

/// The sets that have tensors of this kind, of which there must be one; all of ours have.
fn sets_with(start: &str) -> Vec<Set> {
    let mut found = sets();
    found.retain(|set| least(1) > 0 || set.tensors.keys().any(|key| key.starts_with(start)));
    assert!(!found.is_empty(), "no golden set has {start}");
    found
}

/// Images (examples, channels, height, width) as rows of places.
fn places(golden: &Golden) -> (Mat<f64>, Extent) {
    let [examples, channels, height, width] = golden.shape[..] else {
        panic!("images of shape {:?}", golden.shape);
    };
    let (extent, places) = (Extent { channels, height, width }, height * width);
    let at = |i: usize, c: usize| ((i / places) * channels + c) * places + i % places;
    (Mat::from_fn(examples * places, channels, |i, c| golden.values[at(i, c)]), extent)
}

const ALL: [CirculantParameterisation; 3] = [
    CirculantParameterisation::Time,
    CirculantParameterisation::Raw,
    CirculantParameterisation::Polar,
];

/// Layers as mixes: rows, inverses, determinants and gradients of rows, whether the sizes of a set
/// are such that the matrix is formed or not.
#[test]
fn golden_layers_mix_channels() {
    let (mut formed, mut structured) = (0, 0);
    for (set, name, case) in cases(&sets(), "layer", 46) {
        let n = case["n"].as_u64().expect("n") as usize;
        *if n <= crate::MOST_FORMED { &mut formed } else { &mut structured } += 1;
        let tolerance = case["rtol_f64"].as_f64().expect("a tolerance");
        for of in ALL {
            mixes(set, &name, &set.mixing(&name, of), tolerance);
        }
    }
    assert!(formed >= least(1) && structured >= least(1), "{formed} formed, {structured} not");
}

fn mixes(set: &Set, name: &str, mixing: &Mixing<f64>, tolerance: f64) {
    let rows = |key: &str| {
        let Golden { shape, values } = set.get(&format!("{name}.{key}"));
        Mat::from_vec(shape[0], shape[1], values.clone())
    };
    let (x, g, mut ws) = (rows("x"), rows("G"), Workspace::default());
    let y = mixing.forward(&x, &mut ws).expect("rows");
    set.close(&format!("{name}.y"), y.data(), &set.get(&format!("{name}.y")).values, tolerance);
    let back = mixing.inverse(&x, &mut ws).expect("rows");
    let want = &set.get(&format!("{name}.xinv")).values;
    set.close(&format!("{name}.xinv"), back.data(), want, tolerance);
    let log_det = mixing.log_det().expect("a determinant");
    let want = set.get(&format!("{name}.logabsdet")).values[0];
    let off = (log_det - want).abs();
    assert!(off <= tolerance * want.abs().max(1.0), "{name}: {log_det}, expected {want}");
    // The pass back inverts: from y to x and its gradient.
    let params = mixing.op().map().params();
    let mut grads: Vec<Vec<f64>> = params.iter().map(|p| vec![0.0; p.values.len()]).collect();
    let [found, dx] = mixing.backward(&y, &g, 0.0, &mut grads, &mut ws).expect("gradients");
    // Inverses of rounded rows lose the digits of the condition.
    set.close(&format!("{name}.x"), found.data(), x.data(), 10.0 * tolerance);
    let want = &set.get(&format!("{name}.gy_x")).values;
    set.close(&format!("{name}.gy_x"), dx.data(), want, tolerance);
    // Gradients of diagonals, in parameters that are the diagonals themselves.
    if params[0].name == "diagonals" {
        let want = &set.get(&format!("{name}.gy_d")).values;
        set.close(&format!("{name}.gy_d"), &grads[0], want, 10.0 * tolerance);
    }
}

#[test]
fn golden_pixel_convolutions() {
    for (set, name, _) in cases(&sets(), "conv", 2) {
        let (x, extent) = places(set.get(&format!("{name}.x")));
        let (want, _) = places(set.get(&format!("{name}.y")));
        let log_det = &set.get(&format!("{name}.logdet_per_image")).values;
        for of in ALL {
            let mixing: Mixing<f64> = set.mixing(&name, of);
            let y = mixing.forward(&x, &mut Workspace::default()).expect("rows");
            set.close(&format!("{name}.y"), y.data(), want.data(), 1e-12);
            let found = mixing.log_det().expect("a determinant") * extent.places() as f64;
            set.close(&format!("{name}.logdet"), &[found], log_det, 1e-12);
            let single: Mixing<f32> = set.mixing(&name, of);
            let y = single.forward(&x.cast(), &mut Workspace::default()).expect("rows");
            set.close(&format!("{name}.y, f32"), y.cast::<f64>().data(), want.data(), 2e-5);
        }
    }
}

#[test]
fn golden_squeezes() {
    for set in sets_with("squeeze.") {
        let (x, extent) = places(set.get("squeeze.x"));
        let orders = [
            ("channel_major", SqueezeOrder::ChannelMajor),
            ("subpixel_major", SqueezeOrder::PlaceMajor),
        ];
        for (name, order) in orders {
            let (want, _) = places(set.get(&format!("squeeze.{name}")));
            let y = order.squeeze(&x, extent);
            assert_eq!(y, want, "{:?}: {name}", set.path);
            assert_eq!(order.unsqueeze(&y, extent), x, "{:?}: {name}", set.path);
        }
    }
}

/// The flow of a set: its numbers from the file, free half spectra.
fn flow<T: Scalar>(set: &Set) -> Flow<T> {
    let (_, input) = places(set.get("flow.x"));
    let count = |key: &str| set.about["flow"][key].as_u64().expect("a number") as usize;
    let hidden = set.get("flow.p.l0.s0.nn.b1").shape[0];
    let factors = set.get("flow.p.l0.s0.cd.d").shape[0];
    let squeeze = match set.about["flow"]["squeeze"].as_str() {
        Some("channel_major") => SqueezeOrder::ChannelMajor,
        Some("subpixel_major") => SqueezeOrder::PlaceMajor,
        other => panic!("{:?}: squeeze {other:?}", set.path),
    };
    let layer = MixSpec::parse(&format!("cd:{factors}:raw")).expect("a layer");
    let (levels, steps, values) = (count("levels"), count("K"), Values::Bytes);
    let spec = FlowSpec { input, values, levels, steps, hidden, layer, squeeze, shuffle: false };
    let mut flow = Flow::random(&spec, RngKey::new(0)).expect("a flow");
    for tensor in flow.tensors_mut() {
        let values = stored(set, "p", &tensor.name);
        assert_eq!(values.len(), tensor.values.len(), "{}", tensor.name);
        let narrow = values.into_iter().map(T::from_f64);
        tensor.values.iter_mut().zip(narrow).for_each(|(to, value)| *to = value);
    }
    flow
}

/// Values or gradients (`p` or `g`) of a tensor, in the order of ours.
fn stored(set: &Set, kind: &str, name: &str) -> Vec<f64> {
    let get = |name: String| &set.get(&format!("flow.{kind}.{name}")).values;
    let (layer, part) = name.rsplit_once('.').expect("a layer");
    if let Some(layer) = layer.strip_suffix(".mix") {
        let (a, d) = (get(format!("{layer}.cd.a")), get(format!("{layer}.cd.d")));
        return match part {
            "diagonals" => d.clone(),
            // Bins 0 and n / 2 are real: their imaginary parts are not parameters.
            "spectrum_im" => {
                let b = set.get(&format!("flow.{kind}.{layer}.cd.b"));
                let n = set.get(&format!("flow.p.{layer}.cd.d")).shape[1];
                let rows = b.values.chunks_exact(b.shape[1]);
                rows.flat_map(|row| row[1..1 + (n - 1) / 2].to_vec()).collect()
            }
            _ => a.clone(),
        };
    }
    if let Some((layer, conv)) = layer.rsplit_once(".c")
        && let Some(prefix) = layer.strip_suffix(".nn")
    {
        let letter = if part == "weight" { "w" } else { "b" };
        return get(format!("{prefix}.nn.{letter}{conv}")).clone();
    }
    if let Some(prefix) = layer.strip_suffix(".split.c1") {
        let letter = if part == "weight" { "w" } else { "b" };
        return get(format!("{prefix}.split.{letter}")).clone();
    }
    get(name.to_owned()).clone()
}

/// The largest relative error of a flow in double precision.
const DOUBLE: f64 = 1e-10;
/// The same in single precision, where the pass back inverts.
const SINGLE: f64 = 5e-4;

fn flows<T: Scalar>(set: &Set, tolerance: f64) {
    let mut flow = flow::<T>(set);
    let (pixels, noise) = (set.get("flow.pixels"), set.get("flow.noise"));
    let (want, extent) = places(set.get("flow.x"));
    let (v, u) = (places(pixels).0, places(noise).0);
    let x = Mat::from_fn(v.rows(), v.cols(), |i, c| (v.at(i, c) + u.at(i, c)) / 256.0 - 0.5);
    set.close("flow.x", x.data(), want.data(), 1e-14);
    let (x, mut ws): (Mat<T>, _) = (x.cast(), Workspace::default());
    let encoded = flow.encode(x.clone(), &mut ws).expect("densities");
    for (k, z) in encoded.latents.iter().enumerate() {
        let (want, _) = places(set.get(&format!("flow.z{k}")));
        set.close(&format!("flow.z{k}"), z.cast::<f64>().data(), want.data(), tolerance);
    }
    set.close("flow.logdet", &encoded.log_det, &set.get("flow.logdet").values, tolerance);
    set.close("flow.logprior", &encoded.log_prior, &set.get("flow.logprior").values, tolerance);
    set.close("flow.nll", &encoded.nll(), &set.get("flow.nll").values, tolerance);
    let dims = extent.numbers() as f64;
    let bits = |nll: f64| (nll / dims + 256.0_f64.ln()) / LN_2;
    let found: Vec<f64> = encoded.nll().into_iter().map(bits).collect();
    set.close("flow.bpd", &found, &set.get("flow.bpd").values, tolerance);
    let back = flow.decode(&encoded.latents, &mut ws).expect("images");
    set.close("flow.x, decoded", back.cast::<f64>().data(), want.data(), tolerance);

    let tensors = flow.tensors_mut();
    let names: Vec<String> = tensors.iter().map(|tensor| tensor.name.clone()).collect();
    let mut grads: Vec<Vec<T>> =
        tensors.iter().map(|tensor| vec![T::ZERO; tensor.values.len()]).collect();
    let loss = flow.loss_and_gradients(x, &mut grads, &mut ws).expect("gradients");
    let mean = set.get("flow.bpd").values.iter().sum::<f64>() / found.len() as f64;
    set.close("mean flow.bpd", &[loss + 8.0], &[mean], tolerance);
    for (name, found) in names.iter().zip(&grads) {
        let found: Vec<f64> = found.iter().map(|v| v.to_f64()).collect();
        set.close(&format!("gradient of {name}"), &found, &stored(set, "g", name), tolerance);
    }
    let count = names.iter().zip(&grads).filter(|(name, _)| !name.contains("split"));
    assert!(count.count() > 0 && names.len() > 4);
}

#[test]
fn golden_flow_in_double_precision() {
    sets_with("flow.").iter().for_each(|set| flows::<f64>(set, DOUBLE));
}

#[test]
fn golden_flow_in_single_precision() {
    sets_with("flow.").iter().for_each(|set| flows::<f32>(set, SINGLE));
}

/// Every golden parameter belongs to a tensor of the flow.
#[test]
fn golden_flow_has_no_other_parameters() {
    for set in sets_with("flow.") {
        let mut flow = flow::<f64>(&set);
        let own: usize = flow.tensors_mut().iter().map(|tensor| tensor.values.len()).sum();
        let stored = set.tensors.iter().filter(|(name, _)| name.starts_with("flow.p."));
        let mut count = 0;
        for (name, golden) in stored {
            let bins = golden.values.len();
            // The imaginary parts of real bins are stored as zeros.
            let real = match name.strip_suffix(".b").filter(|layer| layer.ends_with(".cd")) {
                Some(layer) => {
                    let n = set.get(&format!("{layer}.d")).shape[1];
                    golden.shape[0] * (1 + usize::from(n % 2 == 0))
                }
                None => 0,
            };
            count += bins - real;
        }
        assert_eq!(own, count, "{:?}", set.path);
    }
}

/// A matrix that was formed is that of the operator.
#[test]
fn golden_matrices() {
    let mut compared = 0;
    for (set, name, case) in cases(&sets(), "layer", 46) {
        let Some(want) = set.tensors.get(&format!("{name}.W")) else { continue };
        compared += 1;
        let mixing: Mixing<f64> = set.mixing(&name, CirculantParameterisation::Polar);
        let found = mixing.op().to_dense().expect("a matrix");
        let tolerance = case["rtol_f64"].as_f64().expect("a tolerance");
        set.close(&format!("{name}.W"), found.data(), &want.values, tolerance);
    }
    assert!(compared >= least(1).max(1), "no golden set has a matrix");
}
