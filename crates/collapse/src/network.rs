//! Features of all layers of a small network.
//!
//! The features of a layer are its output for each example: all numbers up to [`MOST_FEATURES`],
//! otherwise means over positions (of an image or a sequence), as in global average pooling.

use crate::CollapseError;
use linwright_nets::{Batch, Labelled, LayerSpec, Net, Targets};
use linwright_ops::{Network, NoProbe, Sites};
use linwright_run::Monitor;
use linwright_tensor::Mat;

/// Examples in a batch.
const BATCH: usize = 256;
/// Largest number of features of an example.
pub const MOST_FEATURES: usize = 4096;
/// Largest total size of features in bytes.
const MOST_BYTES: usize = 4 << 30;

/// The output of one layer.
#[derive(Clone, Debug)]
pub struct LayerFeatures {
    /// Its number, from zero, and its name.
    pub name: String,
    /// (examples, d)
    pub x: Mat<f32>,
    /// Positions of an example: 1 for a vector.
    pub places: usize,
    /// Whether they are means over positions.
    pub is_pooled: bool,
}

/// Features of a network with its head.
#[derive(Clone, Debug)]
pub struct NetFeatures {
    /// All layers, preceded by the input of the first one.
    pub layers: Vec<LayerFeatures>,
    /// The class of each example.
    pub labels: Vec<u32>,
    /// Classes of the network.
    pub classes: usize,
    /// The head, if the network ends with a linear layer.
    pub head: Option<Head>,
}

/// An affine map from features to logits.
#[derive(Clone, Debug)]
pub struct Head {
    /// Which of the layers it reads.
    pub first: usize,
    /// (classes, d)
    pub weight: Mat<f64>,
    /// (classes)
    pub bias: Vec<f64>,
}

impl NetFeatures {
    /// Runs a network on labelled examples, once.
    ///
    /// # Errors
    /// [`CollapseError::Net`] for examples that do not match it, [`CollapseError::Setting`] if
    /// their features need more than 4 GiB, [`CollapseError::Interrupted`].
    pub fn of(
        net: &Net,
        examples: &Labelled,
        monitor: &mut dyn Monitor,
    ) -> Result<Self, CollapseError> {
        examples.check(net)?;
        let Targets::Classes(labels) = examples.targets() else {
            return Err(CollapseError::Setting {
                what: "the target of an example",
                found: "numbers".into(),
                expected: "a class".into(),
            });
        };
        let all: Vec<u32> = (0..examples.len() as u32).collect();
        let mut layers: Vec<LayerFeatures> = Vec::new();
        for batch in all.chunks(BATCH) {
            if monitor.interrupted() {
                return Err(CollapseError::Interrupted);
            }
            let input = examples.batch(batch);
            let mut state = net.begin(&input)?;
            for stage in 0..=net.stages() {
                if stage > 0 {
                    net.run_stages(&mut state, &input, stage - 1..stage, &mut NoProbe)?;
                }
                if layers.len() == stage {
                    let places = state.rows.rows() / batch.len();
                    let whole = places * state.rows.cols();
                    let is_pooled = places > 1 && whole > MOST_FEATURES;
                    let d = if is_pooled { state.rows.cols() } else { whole };
                    let (name, x) = (layer_name(net, stage), Mat::zeros(examples.len(), d));
                    layers.push(LayerFeatures { name, x, places, is_pooled });
                    let numbers: usize = layers.iter().map(|layer| layer.x.data().len()).sum();
                    if size_of::<f32>() * numbers > MOST_BYTES {
                        return Err(CollapseError::Setting {
                            what: "the number of examples",
                            found: examples.len().to_string(),
                            expected: "fewer: features of all layers need more than 4 GiB".into(),
                        });
                    }
                }
                keep(&state.rows, batch, &mut layers[stage]);
            }
            monitor.progress(batch.last().map_or(0, |last| u64::from(*last) + 1), all.len() as u64);
        }
        let head = head(net, &layers)?;
        let classes = net.output().channels;
        Ok(Self { layers, labels: labels.clone(), classes, head })
    }
}

/// Writes the features of the examples of a batch.
fn keep(rows: &Mat<f32>, batch: &[u32], layer: &mut LayerFeatures) {
    let numbers = layer.places * rows.cols();
    for (index, &example) in batch.iter().enumerate() {
        let to = layer.x.row_mut(example as usize);
        let own = &rows.data()[index * numbers..(index + 1) * numbers];
        if !layer.is_pooled {
            to.copy_from_slice(own);
            continue;
        }
        // In double precision: rounding errors would look like features if classes are close
        // together.
        let mut sums = vec![0.0; rows.cols()];
        for row in own.chunks(rows.cols()) {
            sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += f64::from(*x));
        }
        to.iter_mut().zip(sums).for_each(|(to, sum)| *to = (sum / layer.places as f64) as f32);
    }
}

fn layer_name(net: &Net, stage: usize) -> String {
    if stage == 0 {
        return "0 input".into();
    }
    let Some(layer) =
        net.spec().layers.get(stage - 1).filter(|_| net.spec().layers.len() == net.stages())
    else {
        return format!("{stage}");
    };
    let kind = match serde_json::to_value(layer) {
        Ok(serde_json::Value::String(kind)) => kind,
        Ok(serde_json::Value::Object(fields)) => fields.keys().next().cloned().unwrap_or_default(),
        _ => String::new(),
    };
    match layer.name() {
        Some(name) => format!("{stage} {kind} {name}"),
        None => format!("{stage} {kind}"),
    }
}

/// The last linear layer with the batch norms and dropouts after it, as one affine map: its weight
/// and bias are the images of zero and of the unit vectors. None if the network ends otherwise.
fn head(net: &Net, layers: &[LayerFeatures]) -> Result<Option<Head>, CollapseError> {
    let specs = &net.spec().layers;
    let behind = specs
        .iter()
        .rev()
        .take_while(|layer| matches!(layer, LayerSpec::BatchNorm(_) | LayerSpec::Dropout(_)));
    let Some(first) = specs.len().checked_sub(behind.count() + 1) else { return Ok(None) };
    let is_linear = matches!(specs[first], LayerSpec::Linear(_)) && specs.len() == net.stages();
    // An operator with a nonlinearity inside has no weight.
    let is_linear =
        is_linear && net.slots().last().is_some_and(|slot| slot.op().to_dense().is_ok());
    let [before, last] = [&layers[first], &layers[layers.len() - 1]];
    if !is_linear || before.places > 1 || last.places > 1 {
        return Ok(None);
    }
    let d = before.x.cols();
    let extent = net.input();
    let rows = Mat::zeros((d + 1) * extent.places(), extent.channels);
    let input = Batch { rows, examples: d + 1 };
    let mut state = net.begin(&input)?;
    state.rows = Mat::from_fn(d + 1, d, |i, j| if i == j + 1 { 1.0 } else { 0.0 });
    net.run_stages(&mut state, &input, first..net.stages(), &mut NoProbe)?;
    let y: Mat<f64> = state.rows.cast();
    let weight = Mat::from_fn(y.cols(), d, |k, j| y.at(j + 1, k) - y.at(0, k));
    Ok(Some(Head { first, weight, bias: y.row(0).to_vec() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_over_places_are_rounded_once() {
        let places = 5000;
        let x = |place: usize, channel: usize| 1.0 + ((place * 7 + channel) % 13) as f32 / 7.0;
        let rows = Mat::from_fn(places, 2, x);
        let mut layer =
            LayerFeatures { name: "a".into(), x: Mat::zeros(1, 2), places, is_pooled: true };
        keep(&rows, &[0], &mut layer);
        for channel in 0..2 {
            let sum: f64 = (0..places).map(|place| f64::from(x(place, channel))).sum();
            assert_eq!(layer.x.at(0, channel), (sum / places as f64) as f32);
        }
    }
}
