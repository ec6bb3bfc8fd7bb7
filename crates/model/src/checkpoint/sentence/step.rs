//! Modules that change vectors: of tokens before the pooling, of texts after it.

use super::modules::Module;
use super::settings::Settings;
use crate::transformer::normalise_rows;
use linwright_files::{FileError, Weights};
use linwright_tensor::kernels::activation::{Activation, activate_any};
use linwright_tensor::kernels::gemm::{Write, linear};
use linwright_tensor::kernels::norm::{Norm, NormKind, norm};
use linwright_tensor::{HalfType, Mat};
use std::path::Path;
use std::sync::Arc;

/// Most features of a vector.
const WIDEST: usize = 1 << 20;
/// Name of the embedding of a text among the outputs of modules.
pub(super) const TEXT: &str = "sentence_embedding";
/// Name of the vectors of its tokens.
pub(super) const TOKENS: &str = "token_embeddings";
/// Epsilon of a layer norm, which is not in files.
const EPSILON: f64 = 1e-5;
/// Classes of activations that are known.
const ACTIVATIONS: [(&str, Activation<f32>); 5] = [
    ("Identity", Activation::Identity),
    ("Tanh", Activation::Tanh),
    ("ReLU", Activation::Relu),
    ("GELU", Activation::Gelu),
    ("SiLU", Activation::Silu),
];

/// One module that changes vectors.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Scales each vector to length one.
    Normalise,
    /// A linear layer with an activation.
    Dense(Arc<Dense>),
    /// A layer norm.
    LayerNorm(Arc<LayerNorm>),
}

/// `f(W x + b)`, with the input, or its projection, added to it.
#[derive(Debug)]
pub(super) struct Dense {
    weight: Mat<f32>,
    bias: Option<Vec<f32>>,
    activation: Activation<f32>,
    residual: Residual,
}

/// Residual of a dense module.
#[derive(Debug)]
enum Residual {
    None,
    Input,
    Projected(Mat<f32>),
}

/// Weight and bias of a layer norm.
#[derive(Debug)]
pub(super) struct LayerNorm {
    weight: Vec<f32>,
    bias: Vec<f32>,
}

/// Vectors changed by a module.
pub(super) enum Of {
    Tokens,
    Text,
}

impl Step {
    /// The step of a module other than the transformer and the pooling, and which vectors it
    /// changes; none for a module that changes nothing. Numbers are rounded to a type, if one is
    /// given. Errors are the reason only.
    pub(super) fn read(
        dir: &Path,
        module: &Module,
        rounding: Option<HalfType>,
    ) -> Result<Option<(Of, Self)>, String> {
        let settings = Settings::of(dir, module.file("config.json"), false)?;
        let step = match module.kind.as_str() {
            "Normalize" => Self::Normalise,
            "Dense" => Self::Dense(Arc::new(Dense::read(
                &settings,
                &Numbers::open(dir, module, rounding)?,
            )?)),
            "LayerNorm" => Self::LayerNorm(Arc::new(LayerNorm::read(
                &settings,
                &Numbers::open(dir, module, rounding)?,
            )?)),
            // It is for training only.
            "Dropout" => return Ok(None),
            kind => {
                return Err(format!("{} lists {kind}, which is not supported", settings.list()));
            }
        };
        let input = settings.text("module_input_name")?.unwrap_or(TEXT);
        let output = settings.text("module_output_name")?.unwrap_or(input);
        match (input, output) {
            (TEXT, TEXT) => Ok(Some((Of::Text, step))),
            (TOKENS, TOKENS) => Ok(Some((Of::Tokens, step))),
            _ => Err(settings.refuse(
                "module_input_name",
                "one of token_embeddings and sentence_embedding, which it also writes",
            )),
        }
    }

    /// The output of the step for `x` (vectors, features).
    pub(super) fn apply(&self, mut x: Mat<f32>) -> Mat<f32> {
        match self {
            Self::Normalise => {
                normalise_rows(&mut x);
                x
            }
            Self::Dense(dense) => dense.apply(&x),
            Self::LayerNorm(of) => {
                let mut y = Mat::zeros(x.rows(), x.cols());
                let rule = Norm {
                    kind: NormKind::Layer,
                    epsilon: EPSILON,
                    weight: Some(&of.weight),
                    bias: Some(&of.bias),
                    offset: 0.0,
                    group: x.cols(),
                };
                norm(x.view(), &rule, y.view_mut());
                y
            }
        }
    }

    /// Width of its output for an input of `width` features; an error if it needs another width.
    pub(super) fn width(&self, width: usize) -> Result<usize, String> {
        let (inp, out) = match self {
            Self::Normalise => (width, width),
            Self::Dense(dense) => (dense.weight.cols(), dense.weight.rows()),
            Self::LayerNorm(norm) => (norm.weight.len(), norm.weight.len()),
        };
        match inp == width {
            true => Ok(out),
            false => Err(format!("a module needs {inp} features, the one before it has {width}")),
        }
    }

    /// Name in protocols; none if it changes no cosine.
    pub(super) fn name(&self) -> Option<&'static str> {
        match self {
            Self::Normalise => None,
            Self::Dense(_) => Some("dense"),
            Self::LayerNorm(_) => Some("layernorm"),
        }
    }
}

impl Dense {
    fn read(settings: &Settings, numbers: &Numbers) -> Result<Self, String> {
        let size = |field| {
            settings.count(field, 1..=WIDEST)?.ok_or_else(|| settings.refuse(field, "a size"))
        };
        let (inp, out) = (size("in_features")?, size("out_features")?);
        let matrix =
            |name: &str| Ok::<_, String>(Mat::from_vec(out, inp, numbers.read(name, &[out, inp])?));
        let activation = match settings.text("activation_function")? {
            None => Activation::Tanh,
            Some(class) => ACTIVATIONS
                .iter()
                .find(|(name, _)| {
                    class.starts_with("torch.") && class.rsplit('.').next() == Some(name)
                })
                .map(|(_, activation)| *activation)
                .ok_or_else(|| {
                    let known = "Identity, Tanh, ReLU, GELU or SiLU of torch";
                    settings.refuse("activation_function", known)
                })?,
        };
        let bias = settings.flag("bias", true)?;
        let residual = match settings.flag("use_residual", false)? {
            false => Residual::None,
            true if inp == out => Residual::Input,
            true => Residual::Projected(matrix("residual.weight")?),
        };
        Ok(Self {
            weight: matrix("linear.weight")?,
            bias: bias.then(|| numbers.read("linear.bias", &[out])).transpose()?,
            activation,
            residual,
        })
    }

    fn apply(&self, x: &Mat<f32>) -> Mat<f32> {
        let mut inner = Mat::zeros(x.rows(), self.weight.rows());
        linear(x.view(), self.weight.view(), inner.view_mut(), Write::Set);
        if let Some(bias) = &self.bias {
            for row in 0..inner.rows() {
                inner.row_mut(row).iter_mut().zip(bias).for_each(|(y, b)| *y += b);
            }
        }
        let mut y = Mat::zeros(inner.rows(), inner.cols());
        activate_any(self.activation, inner.view(), y.view_mut());
        match &self.residual {
            Residual::None => {}
            Residual::Input => y.data_mut().iter_mut().zip(x.data()).for_each(|(y, x)| *y += x),
            Residual::Projected(weight) => {
                linear(x.view(), weight.view(), y.view_mut(), Write::Add);
            }
        }
        y
    }
}

impl LayerNorm {
    fn read(settings: &Settings, numbers: &Numbers) -> Result<Self, String> {
        let width = settings.count("dimension", 1..=WIDEST)?;
        let width = width.ok_or_else(|| settings.refuse("dimension", "a size"))?;
        let read = |name: &str| numbers.read(name, &[width]);
        Ok(Self { weight: read("norm.weight")?, bias: read("norm.bias")? })
    }
}

/// The weights of a module, as it computes with them.
struct Numbers {
    weights: Weights,
    rounding: Option<HalfType>,
}

impl Numbers {
    fn open(dir: &Path, module: &Module, rounding: Option<HalfType>) -> Result<Self, String> {
        let weights = Weights::open(&dir.join(module.file("")));
        Ok(Self { weights: weights.map_err(|error| error.to_string())?, rounding })
    }

    fn read(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, String> {
        let said = |error: FileError| error.to_string();
        let Some(half) = self.rounding else {
            return self.weights.read(name, shape).map(|tensor| tensor.values).map_err(said);
        };
        let tensor = self.weights.read_half(name, shape, half).map_err(said)?;
        let mut values = vec![0.0; tensor.bits.len()];
        half.widen(&tensor.bits, &mut values);
        Ok(values)
    }
}
