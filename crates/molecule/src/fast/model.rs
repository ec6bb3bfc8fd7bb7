//! The weights of a model, and the channels of pairs of species met so far.

use super::dense::{Affine, Mixing, Packed, dense};
use super::filters::Filters;
use crate::tensornet::{Group, Nonlinearity, TensorNet};
use linwright_tensor::Mat;
use linwright_tensor::kernels::norm::{Norm, NormKind};

/// Scale and shift of a layer norm.
#[derive(Debug)]
pub(super) struct LayerNorm {
    scale: Vec<f32>,
    shift: Vec<f32>,
}

impl LayerNorm {
    fn new(norm: &crate::tensornet::weights::Norm<f64>) -> Self {
        let single = |numbers: &[f64]| numbers.iter().map(|number| *number as f32).collect();
        Self { scale: single(&norm.scale), shift: single(&norm.shift) }
    }

    pub(super) fn norm(&self) -> Norm<'_> {
        /// That of torchmd-net.
        const EPSILON: f64 = 1e-5;
        Norm {
            kind: NormKind::Layer,
            epsilon: EPSILON,
            weight: Some(&self.scale),
            bias: Some(&self.shift),
            offset: 0.0,
            group: self.scale.len(),
        }
    }
}

#[derive(Debug)]
pub(super) struct Embedding {
    pub norm: LayerNorm,
    pub scales: [Packed; 2],
    pub mixing: Mixing,
}

#[derive(Debug)]
pub(super) struct Layer {
    pub before: Mixing,
    pub after: Mixing,
    /// Filters of an atom to itself (3, channels).
    pub own: Vec<f32>,
}

#[derive(Debug)]
pub(super) struct Readout {
    pub norm: LayerNorm,
    pub linear: Packed,
    pub hidden: Packed,
    /// The last layer, of one output.
    pub last: Vec<f32>,
    pub bias: f32,
}

/// Channels of the pairs of species met so far.
#[derive(Debug)]
pub(super) struct Pairs {
    species: Mat<f64>,
    linear: Affine<f64>,
    /// First filters of an atom to itself.
    own: Vec<f64>,
    /// Atomic numbers met so far, and the index of each.
    met: Vec<u8>,
    pub places: Vec<usize>,
    /// Channels of ordered pairs (met, met, channels).
    pub channels: Vec<f32>,
    /// Channels of an atom's edge to itself (met, channels).
    pub of_self: Vec<f32>,
}

impl Pairs {
    fn meet(&mut self, species: &[u8]) {
        let before = self.met.len();
        for z in species {
            if self.places[usize::from(*z)] == usize::MAX {
                self.places[usize::from(*z)] = self.met.len();
                self.met.push(*z);
            }
        }
        if self.met.len() == before {
            return;
        }
        let (count, width) = (self.met.len(), self.species.cols());
        let row = |z: u8| self.species.row(usize::from(z));
        let inputs = Mat::from_fn(count * count, 2 * width, |pair, k| {
            let (receiver, sender) = (self.met[pair / count], self.met[pair % count]);
            if k < width { row(receiver)[k] } else { row(sender)[k - width] }
        });
        let found = self.linear.values(&inputs);
        self.channels = found.data().iter().map(|number| *number as f32).collect();
        let of_self = |place: usize| found.row(place * count + place).iter().zip(&self.own);
        let numbers = (0..count).flat_map(of_self).map(|(pair, own)| (pair * own) as f32);
        self.of_self = numbers.collect();
    }
}

/// Weights of a model, packed.
#[derive(Debug)]
pub(super) struct Model {
    pub channels: usize,
    pub activation: Nonlinearity,
    pub mean: f64,
    pub std: f64,
    pub group: Group,
    pub embedding: Embedding,
    pub layers: Vec<Layer>,
    pub readout: Readout,
    pub pairs: Pairs,
}

impl Model {
    pub(super) fn new(model: &TensorNet<f64>, filters: &Filters<f64>) -> Self {
        let own = |stage: usize| {
            let [values, _] = filters.exactly(stage, &[0.0]);
            values.into_vec()
        };
        let single = |numbers: Vec<f64>| numbers.into_iter().map(|number| number as f32).collect();
        let config = model.config();
        let layer = |(index, layer): (usize, &crate::tensornet::weights::Interaction<f64>)| {
            let [a, b, c, d, e, f] = layer.mixing.each_ref();
            Layer {
                before: Mixing::new([a, b, c]),
                after: Mixing::new([d, e, f]),
                own: single(own(index + 1)),
            }
        };
        let (embedding, readout) = (&model.embedding, &model.readout);
        let [hidden, last] = &readout.head;
        Self {
            channels: config.channels,
            activation: config.activation,
            mean: model.mean,
            std: model.std,
            group: config.group,
            embedding: Embedding {
                norm: LayerNorm::new(&embedding.norm),
                scales: embedding.scales.each_ref().map(Packed::new),
                mixing: Mixing::new(embedding.mixing.each_ref()),
            },
            layers: model.layers.iter().enumerate().map(layer).collect(),
            readout: Readout {
                norm: LayerNorm::new(&readout.norm),
                linear: Packed::new(&readout.linear),
                hidden: Packed::new(hidden),
                last: single(dense(last).into_vec()),
                bias: last.bias().map_or(0.0, |bias| bias[0] as f32),
            },
            pairs: Pairs {
                species: embedding.species.clone(),
                linear: Affine::new(&embedding.pair),
                own: own(0)[..config.channels].to_vec(),
                met: Vec::new(),
                places: vec![usize::MAX; config.species],
                channels: Vec::new(),
                of_self: Vec::new(),
            },
        }
    }

    /// Prepares for species, which the model must support.
    pub(super) fn meet(&mut self, species: &[u8]) {
        self.pairs.meet(species);
    }

    /// Row of an ordered pair of species, both met.
    pub(super) fn kind(&self, receiver: u8, sender: u8) -> u32 {
        let place = |z: u8| self.pairs.places[usize::from(z)];
        (place(receiver) * self.pairs.met.len() + place(sender)) as u32
    }
}

impl Affine<f64> {
    /// Outputs for rows. Each is a plain sum, so its bits do not depend on neighbouring rows: the
    /// order of species depends on earlier structures.
    fn values(&self, x: &Mat<f64>) -> Mat<f64> {
        Mat::from_fn(x.rows(), self.weight.rows(), |i, k| {
            let terms = x.row(i).iter().zip(self.weight.row(k)).map(|(x, w)| x * w);
            terms.sum::<f64>() + self.bias[k]
        })
    }
}
