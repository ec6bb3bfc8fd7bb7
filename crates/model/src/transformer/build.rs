//! Construction of a transformer: random, or from the tensors of a checkpoint.

use super::Transformer;
use super::memory::Memory;
use super::weights::{NormWeights, TableValues, TableWeights};
use crate::config::{Linear, NormSite, Table, TransformerConfig};
use crate::parts::Convert;
use linwright_ops::{Dense, HalfDense, InputId, LinearSlot, Op, Place, Shape, SiteId};
use linwright_tensor::{HalfType, Halves, Mapped, Mat, RngKey};
use std::convert::Infallible;
use std::sync::Arc;

/// Standard deviation of random weights, the usual one for such models.
const SCALE: f64 = 0.02;

/// A matrix, row-major, in the type it will be held in.
#[derive(Clone, Debug, PartialEq)]
pub enum Held {
    /// In `f32`.
    Full(Vec<f32>),
    /// In 16 bits.
    Half(HalfType, Vec<u16>),
    /// In `f32`, in a mapped file.
    MappedFull(Mapped<f32>),
    /// In 16 bits, in a mapped file.
    MappedHalf(HalfType, Mapped<u16>),
}

impl Held {
    fn len(&self) -> usize {
        match self {
            Self::Full(values) => values.len(),
            Self::Half(_, bits) => bits.len(),
            Self::MappedFull(values) => values.numbers().len(),
            Self::MappedHalf(_, bits) => bits.numbers().len(),
        }
    }

    /// As a matrix.
    fn matrix(self, rows: usize, cols: usize) -> TableValues {
        let full = |values| TableValues::Full(Arc::new(values));
        let half = |values| TableValues::Half(Arc::new(values));
        match self {
            Self::Full(values) => full(Mat::from_vec(rows, cols, values)),
            Self::MappedFull(values) => full(Mat::mapped(rows, cols, values)),
            Self::Half(of, bits) => half(Halves::new(of, rows, cols, bits)),
            Self::MappedHalf(of, bits) => half(Halves::mapped(of, rows, cols, bits)),
        }
    }
}

/// Storage order of a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Orientation {
    /// (out, inp): one row per output.
    Outputs,
    /// (inp, out): one row per input.
    Inputs,
}

impl Orientation {
    /// Stored shape of a weight.
    #[must_use]
    pub fn stored(self, shape: Shape) -> [usize; 2] {
        match self {
            Self::Outputs => [shape.out, shape.inp],
            Self::Inputs => [shape.inp, shape.out],
        }
    }

    /// The dense operator of a stored weight.
    ///
    /// # Panics
    /// If the number of values is not that of the shape.
    #[must_use]
    pub fn dense(self, shape: Shape, numbers: Held) -> Op<f32> {
        let [rows, cols] = self.stored(shape);
        match (numbers.matrix(rows, cols), self) {
            (TableValues::Full(weight), Self::Outputs) => {
                Op::Linear(Box::new(Dense::shared(weight)))
            }
            (TableValues::Full(weight), Self::Inputs) => {
                Op::Linear(Box::new(Dense::new(weight.transpose())))
            }
            (TableValues::Half(weight), Self::Outputs) => {
                Op::Linear(Box::new(HalfDense::shared(weight)))
            }
            (TableValues::Half(weight), Self::Inputs) => {
                Op::Linear(Box::new(HalfDense::new(weight.transpose())))
            }
        }
    }
}

/// Source of the parts of a transformer, which are requested one at a time in the order of
/// computation.
pub trait TensorSource {
    /// The error of the source.
    type Error;

    /// The tensor with this name, row-major.
    ///
    /// # Errors
    /// If there is none with this shape.
    fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, Self::Error>;

    /// The matrix with this name, for a product or an embedding, in any type; the default is `f32`.
    ///
    /// # Errors
    /// As [`Self::tensor`].
    fn matrix(&mut self, name: &str, shape: &[usize]) -> Result<Held, Self::Error> {
        self.tensor(name, shape).map(Held::Full)
    }

    /// The operator of a slot; by default dense, with the weight `<site>.weight`.
    ///
    /// # Errors
    /// If there is none with this shape.
    fn operator(
        &mut self,
        site: &SiteId,
        shape: Shape,
        orientation: Orientation,
    ) -> Result<Op<f32>, Self::Error> {
        let weight = self.matrix(&format!("{site}.weight"), &orientation.stored(shape))?;
        Ok(orientation.dense(shape, weight))
    }
}

/// A function from name and shape to the values of a tensor.
pub type Fetch<'a, E> = dyn FnMut(&str, &[usize]) -> Result<Vec<f32>, E> + 'a;

/// A source of dense weights from such a function.
struct DenseSource<'a, 'f, E>(&'a mut Fetch<'f, E>);

impl<E> TensorSource for DenseSource<'_, '_, E> {
    type Error = E;

    fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, E> {
        (self.0)(name, shape)
    }
}

impl Transformer {
    /// Random weights: normal with standard deviation 0.02, scaled by `1 / sqrt(2 layers)` for
    /// projections into the residual stream; norms scale by one, biases are zero. Every tensor has
    /// its own random stream under `key`, named after it.
    #[must_use]
    pub fn random(config: TransformerConfig, key: RngKey) -> Self {
        let residual = SCALE / (2.0 * config.layers.len() as f64).sqrt();
        let layout = config.layout();
        let branches = layout.layers.iter().flat_map(|l| [&l.attention, &l.mlp]).flatten();
        let writes: Vec<String> =
            branches.map(|branch| format!("{}.weight", branch.output.site)).collect();
        let norms: Vec<String> = layout
            .each()
            .into_iter()
            .filter_map(|part| match part {
                crate::parts::Part::Norm(norm) => {
                    Some(norm.tensors("weight").map(|(name, _)| name))
                }
                _ => None,
            })
            .flatten()
            .collect();
        let one = 1.0 - config.norm.offset;
        let built = Self::from_tensors::<Infallible>(config, &mut |name, shape| {
            let count = shape.iter().product();
            let is = |names: &[String]| names.iter().any(|other| other == name);
            Ok(if is(&norms) {
                vec![one; count]
            } else if name.ends_with("bias") {
                vec![0.0; count]
            } else {
                let scale = if is(&writes) { residual } else { SCALE };
                key.fold(name).stream().normals(count, scale)
            })
        });
        match built {
            Ok(model) => model,
            Err(never) => match never {},
        }
    }

    /// A transformer with dense weights; `fetch` receives name (such as
    /// `model.layers.0.self_attn.q_proj.weight`) and shape of one tensor at a time.
    ///
    /// # Errors
    /// The first error of `fetch`.
    ///
    /// # Panics
    /// If `fetch` returns a number of values that does not match the shape.
    pub fn from_tensors<E>(config: TransformerConfig, fetch: &mut Fetch<'_, E>) -> Result<Self, E> {
        Self::from_source(config, &mut DenseSource(fetch))
    }

    /// A transformer whose slots may hold any operator.
    ///
    /// # Errors
    /// The first error of `source`.
    ///
    /// # Panics
    /// If `source` returns a wrong number of values, or an operator of another shape.
    pub fn from_source<S: TensorSource>(
        config: TransformerConfig,
        source: &mut S,
    ) -> Result<Self, S::Error> {
        let layout = config.layout();
        let weights = layout.convert(&mut Builder { config: &config, source })?;
        Ok(Self { config, weights, memory: Memory::default() })
    }
}

/// Fetches the tensors of a layout.
struct Builder<'a, S> {
    config: &'a TransformerConfig,
    source: &'a mut S,
}

impl<S: TensorSource> Builder<'_, S> {
    fn values(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, S::Error> {
        let values = self.source.tensor(name, shape)?;
        assert_eq!(values.len(), shape.iter().product::<usize>(), "numbers given for {name}");
        Ok(values)
    }
}

impl<S: TensorSource> Convert<Table, NormSite, Linear> for Builder<'_, S> {
    type Table = TableWeights;
    type Norm = NormWeights;
    type Slot = LinearSlot;
    type Error = S::Error;

    fn table(&mut self, table: Table) -> Result<TableWeights, S::Error> {
        let numbers = self.source.matrix(&table.name, &table.shape)?;
        let count = table.shape.iter().product::<usize>();
        assert_eq!(numbers.len(), count, "numbers given for {}", table.name);
        let (rows, cols) = match table.shape.as_slice() {
            [rows, cols] => (*rows, *cols),
            other => (1, other.iter().product()),
        };
        let values = numbers.matrix(rows, cols);
        Ok(TableWeights { table, values })
    }

    fn norm(&mut self, site: NormSite) -> Result<NormWeights, S::Error> {
        let mut all = |there: bool, kind| -> Result<_, S::Error> {
            if !there {
                return Ok(None);
            }
            let mut values = Vec::with_capacity(site.features);
            for (name, range) in site.tensors(kind) {
                values.extend(self.values(&name, &[range.len()])?);
            }
            Ok(Some(values))
        };
        let (weight, bias) = (all(site.weight, "weight")?, all(site.bias, "bias")?);
        Ok(NormWeights { site, weight, bias })
    }

    fn slot(&mut self, linear: Linear, stage: Option<usize>) -> Result<LinearSlot, S::Error> {
        let Linear { site, reads, role, shape, bias } = linear;
        let orientation = match self.config.is_transposed(role) {
            true => Orientation::Inputs,
            false => Orientation::Outputs,
        };
        let id = SiteId(site);
        let op = self.source.operator(&id, shape, orientation)?;
        assert_eq!(op.map().shape(), shape, "operator given for {id}");
        let bias = match bias {
            true => Some(self.values(&format!("{id}.bias"), &[shape.out])?),
            false => None,
        };
        let (reads, role, layer) = (InputId(reads), role.of_slots(), stage.map(|stage| stage / 2));
        Ok(LinearSlot::new(id, Place { reads, role, layer, stage }, op, bias))
    }
}
