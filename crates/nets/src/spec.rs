//! Descriptions of networks: plain data, from which shapes follow.

use crate::NetError;
use serde::{Deserialize, Serialize};

/// Most numbers that one example may have between two layers: a description comes from outside.
const MOST_NUMBERS: usize = 1 << 28;

/// A network: its input and its layers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetSpec {
    /// What it reads.
    pub input: InputSpec,
    /// Its layers, the first one first.
    pub layers: Vec<LayerSpec>,
}

/// The input of a network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputSpec {
    /// Numbers per place: colours of a pixel, columns of a table.
    pub channels: usize,
    /// Rows of an image.
    #[serde(default = "one")]
    pub height: usize,
    /// Columns of an image, tokens of a sequence.
    #[serde(default = "one")]
    pub width: usize,
    /// Subtracted from each channel; none if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mean: Vec<f32>,
    /// Divisor of each channel after that; none if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub std: Vec<f32>,
}

/// One layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum LayerSpec {
    /// A linear map of the channels of each place.
    Linear {
        /// Name of its slot and tensors.
        name: String,
        /// Channels out.
        out: usize,
        /// Whether it adds a bias.
        #[serde(default = "yes")]
        bias: bool,
    },
    /// A convolution: a linear map of the patch around each place.
    Conv {
        /// Name of its slot and tensors.
        name: String,
        /// Channels out.
        out: usize,
        /// Side of a patch.
        kernel: usize,
        /// Distance of patches.
        #[serde(default = "one")]
        stride: usize,
        /// Zeros around the image.
        #[serde(default)]
        padding: usize,
        /// Whether it adds a bias.
        #[serde(default = "yes")]
        bias: bool,
    },
    /// `max(x, 0)`.
    Relu,
    /// The exact `gelu`.
    Gelu,
    /// `x / (1 + exp(-x))`.
    Silu,
    /// Hyperbolic tangent.
    Tanh,
    /// All numbers of an example as channels of one place, in the order channel, row, column.
    Flatten,
    /// Batch normalisation of each channel, with scale and shift.
    BatchNorm {
        /// Name of its tensors.
        name: String,
        /// Added to the variance.
        #[serde(default = "epsilon")]
        eps: f64,
        /// Part of a batch in the running statistics.
        #[serde(default = "momentum")]
        momentum: f64,
    },
    /// Normalisation over the channels of each place.
    LayerNorm {
        /// Name of its tensors.
        name: String,
        /// Added to the variance.
        #[serde(default = "epsilon")]
        eps: f64,
        /// Whether it has scale and shift.
        #[serde(default = "yes")]
        affine: bool,
    },
    /// The sum of its input and of what these layers make of it.
    Residual {
        /// The layers.
        layers: Vec<Self>,
    },
    /// The maximum of each channel in windows.
    MaxPool {
        /// Side of a window.
        size: usize,
        /// Distance of windows; the side if absent.
        #[serde(default)]
        stride: Option<usize>,
    },
    /// The mean of each channel in windows.
    MeanPool {
        /// Side of a window.
        size: usize,
        /// Distance of windows; the side if absent.
        #[serde(default)]
        stride: Option<usize>,
    },
    /// Attention between the places of an example.
    Attention {
        /// Prefix of its slots `query`, `key`, `value` and `output`.
        name: String,
        /// Number of heads, which divide the channels.
        heads: usize,
        /// Whether a place sees only itself and those before it.
        #[serde(default)]
        causal: bool,
        /// Whether a projection follows.
        #[serde(default = "yes")]
        output: bool,
        /// Whether the projections add biases.
        #[serde(default = "yes")]
        bias: bool,
    },
    /// In training, sets a random share of the numbers to zero and scales the others up.
    Dropout {
        /// The share.
        share: f64,
    },
}

fn one() -> usize {
    1
}

fn yes() -> bool {
    true
}

fn epsilon() -> f64 {
    1e-5
}

fn momentum() -> f64 {
    0.1
}

/// Extent of one example between two layers. In memory its places are rows, channels last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Rows of places.
    pub height: usize,
    /// Places of a row.
    pub width: usize,
    /// Numbers of a place.
    pub channels: usize,
}

impl Extent {
    /// Number of places.
    #[must_use]
    pub fn places(self) -> usize {
        self.height * self.width
    }

    /// Number of numbers.
    #[must_use]
    pub fn numbers(self) -> usize {
        self.places() * self.channels
    }

    /// This extent, if it is neither empty nor too large.
    fn bounded(self, layer: &str) -> Result<Self, NetError> {
        let numbers = self.height.checked_mul(self.width);
        match numbers.and_then(|places| places.checked_mul(self.channels)) {
            Some(1..=MOST_NUMBERS) => Ok(self),
            _ => Err(NetError::layer(
                layer,
                format!(
                    "gives {} x {} places of {} channels",
                    self.height, self.width, self.channels
                ),
                format!("between 1 and {MOST_NUMBERS} numbers"),
            )),
        }
    }
}

impl NetSpec {
    /// Checks that the layers fit together, and returns the extent of the output.
    ///
    /// # Errors
    /// [`NetError::Layer`] naming the first layer that does not fit.
    pub fn check(&self) -> Result<Extent, NetError> {
        let extent = self.input.extent()?;
        let mut names = Vec::new();
        chain(&self.layers, extent, "", 0, &mut names)
    }
}

impl InputSpec {
    /// The extent of the input.
    ///
    /// # Errors
    /// [`NetError::Layer`] if it is empty or too large, or mean and divisor do not fit.
    pub fn extent(&self) -> Result<Extent, NetError> {
        for (what, values) in [("mean", &self.mean), ("std", &self.std)] {
            if !values.is_empty() && values.len() != self.channels {
                let found = format!("{what} has {} numbers", values.len());
                return Err(NetError::layer("input", found, format!("{} or none", self.channels)));
            }
        }
        if let Some(wrong) = self.std.iter().find(|std| !(std.is_finite() && **std > 0.0)) {
            return Err(NetError::layer("input", format!("std {wrong}"), "a positive number"));
        }
        if self.mean.iter().any(|mean| !mean.is_finite()) {
            return Err(NetError::layer("input", "a mean that is not finite", "a finite number"));
        }
        let Self { height, width, channels, .. } = *self;
        Extent { height, width, channels }.bounded("input")
    }
}

/// Most residual branches inside each other.
const MOST_DEPTH: usize = 32;

fn chain(
    layers: &[LayerSpec],
    mut extent: Extent,
    prefix: &str,
    depth: usize,
    names: &mut Vec<String>,
) -> Result<Extent, NetError> {
    for (index, layer) in layers.iter().enumerate() {
        let label = layer.label(prefix, index);
        if let Some(name) = layer.name() {
            if name.is_empty() || names.iter().any(|other| other == name) {
                let found = format!("the name \"{name}\" is empty or used twice");
                return Err(NetError::layer(&label, found, "another name"));
            }
            names.push(name.to_owned());
        }
        extent = match layer {
            LayerSpec::Residual { layers } => {
                if depth == MOST_DEPTH {
                    let expected = format!("at most {MOST_DEPTH} inside each other");
                    return Err(NetError::layer(&label, "too many residual layers", expected));
                }
                let inner = chain(layers, extent, &format!("{label}."), depth + 1, names)?;
                if inner != extent {
                    let found = format!("its branch turns {extent:?} into {inner:?}");
                    return Err(NetError::layer(&label, found, "the same extent"));
                }
                extent
            }
            layer => layer.output(extent, &label)?,
        };
    }
    Ok(extent)
}

impl LayerSpec {
    /// Its name, if it has one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Linear { name, .. }
            | Self::Conv { name, .. }
            | Self::BatchNorm { name, .. }
            | Self::LayerNorm { name, .. }
            | Self::Attention { name, .. } => Some(name),
            _ => None,
        }
    }

    pub(crate) fn label(&self, prefix: &str, index: usize) -> String {
        match self.name() {
            Some(name) => format!("{prefix}{index} ({name})"),
            None => format!("{prefix}{index}"),
        }
    }

    /// The extent of its output.
    pub(crate) fn output(&self, extent: Extent, label: &str) -> Result<Extent, NetError> {
        let positive = |what: &str, value: f64, below: f64| match value >= 0.0 && value < below {
            true => Ok(()),
            false => {
                let range = format!("at least 0 and below {below}");
                Err(NetError::layer(label, format!("{what} {value}"), range))
            }
        };
        match self {
            Self::Linear { out, .. } => Extent { channels: *out, ..extent }.bounded(label),
            Self::Conv { out, kernel, stride, padding, .. } => {
                let windows = Windows { size: *kernel, stride: *stride, padding: *padding };
                let output = windows.over(extent, label)?;
                // The matrix of patches is larger than input and output.
                let patch = kernel.saturating_mul(*kernel).saturating_mul(extent.channels);
                Extent { channels: patch, ..output }.bounded(label)?;
                Extent { channels: *out, ..output }.bounded(label)
            }
            Self::MaxPool { size, stride } | Self::MeanPool { size, stride } => {
                let windows = Windows { size: *size, stride: stride.unwrap_or(*size), padding: 0 };
                windows.over(extent, label)
            }
            Self::Flatten => Ok(Extent { height: 1, width: 1, channels: extent.numbers() }),
            Self::BatchNorm { eps, momentum, .. } => {
                positive("momentum", *momentum, 1.0 + f64::EPSILON)?;
                positive("eps", *eps, f64::INFINITY).map(|()| extent)
            }
            Self::LayerNorm { eps, .. } => positive("eps", *eps, f64::INFINITY).map(|()| extent),
            Self::Dropout { share } => positive("share", *share, 1.0).map(|()| extent),
            Self::Attention { heads, .. } => {
                if *heads == 0 || !extent.channels.is_multiple_of(*heads) {
                    let found = format!("{heads} heads for {} channels", extent.channels);
                    return Err(NetError::layer(label, found, "heads that divide the channels"));
                }
                let weights = extent.places().saturating_mul(*heads);
                Extent { channels: weights, ..extent }.bounded(label).map(|_| extent)
            }
            _ => Ok(extent),
        }
    }
}

/// Square windows over an image.
struct Windows {
    size: usize,
    stride: usize,
    padding: usize,
}

impl Windows {
    fn over(&self, extent: Extent, label: &str) -> Result<Extent, NetError> {
        let along = |length: usize| {
            let padded = self.padding.checked_mul(2)?.checked_add(length)?;
            let steps = padded.checked_sub(self.size)?.checked_div(self.stride)?;
            (self.size > 0).then_some(steps + 1)
        };
        match (along(extent.height), along(extent.width)) {
            (Some(height), Some(width)) => Extent { height, width, ..extent }.bounded(label),
            _ => {
                let Self { size, stride, padding } = self;
                let found = format!(
                    "size {size}, stride {stride}, padding {padding} over {} x {} places",
                    extent.height, extent.width
                );
                Err(NetError::layer(label, found, "windows inside the image, positive stride"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(layers: &str) -> NetSpec {
        let text = format!("input: {{channels: 2, height: 6, width: 5}}\nlayers: {layers}");
        serde_saphyr::from_str(&text).unwrap()
    }

    #[test]
    fn extents_chain() {
        let layers = "[{conv: {name: a, out: 3, kernel: 3}}, relu, {max_pool: {size: 2}}, flatten]";
        let found = spec(layers).check().unwrap();
        assert_eq!(found, Extent { height: 1, width: 1, channels: 6 });
    }

    #[test]
    fn layers_that_do_not_fit_are_named() {
        let table = [
            ("[{conv: {name: a, out: 3, kernel: 9}}]", "0 (a)"),
            ("[relu, {conv: {name: a, out: 3, kernel: 3, stride: 0}}]", "1 (a)"),
            ("[{linear: {name: a, out: 0}}]", "0 (a)"),
            ("[{linear: {name: a, out: 3}}, {linear: {name: a, out: 3}}]", "1 (a)"),
            ("[{residual: {layers: [{linear: {name: a, out: 3}}]}}]", "0"),
            ("[{attention: {name: a, heads: 3}}]", "0 (a)"),
            ("[{dropout: {share: 1.0}}]", "0"),
            ("[{linear: {name: a, out: 18446744073709551615}}]", "0 (a)"),
        ];
        for (layers, name) in table {
            let error = spec(layers).check().unwrap_err();
            assert!(
                matches!(&error, NetError::Layer { layer, .. } if layer == name),
                "{layers}: {error}"
            );
        }
    }
}
