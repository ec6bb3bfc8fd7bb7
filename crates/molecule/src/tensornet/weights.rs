//! Weights of a TensorNet, by their names in checkpoints of torchmd-net.

use super::config::{Family, RadialKind, TensorNetConfig};
use super::linear::Packs;
use crate::MoleculeError;
use linwright_ops::archive::{self, Tensor};
use linwright_ops::{
    Dense, InputId, LinearSlot, Op, OpError, Place, Shape, SiteId, Sites, SlotRole,
};
use linwright_tensor::{Mat, Scalar};

/// Roles of the slots of the model: mixing channels of a tensor's parts.
pub const MIXING: SlotRole = SlotRole::new("mixing", &["linears_tensor"]);
/// Radial functions to filters.
pub const FILTER: SlotRole = SlotRole::new("filter", &["distance_proj"]);
/// Norms to scales of the embedding.
pub const SCALE: SlotRole = SlotRole::new("scale", &[]);
/// Pairs of species to channels.
pub const SPECIES: SlotRole = SlotRole::new("species", &["emb2"]);
/// Invariants to channels.
pub const READOUT: SlotRole = SlotRole::new("readout", &[]);
/// Channels to the output of an atom.
pub const HEAD: SlotRole = SlotRole::new("head", &[]);
/// Invariants to latent charges.
pub const CHARGE: SlotRole = SlotRole::new("charge", &[]);

/// A layer norm over channels.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Norm<T> {
    pub(crate) name: String,
    pub(crate) scale: Vec<T>,
    pub(crate) shift: Vec<T>,
}

/// Centres and widths of the radial functions: `exp(-widths (e(d) - centres)²)`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RadialBasis<T> {
    pub(crate) centres: Vec<T>,
    pub(crate) widths: Vec<T>,
}

/// From pairs of atoms to tensors.
#[derive(Clone, Debug)]
pub(crate) struct Embedding<T: Scalar> {
    /// Channels of each species.
    pub(crate) species: Mat<T>,
    /// Channels of receiver and sender to channels of the pair.
    pub(crate) pair: LinearSlot<T>,
    /// Radial functions to the filters of the three parts.
    pub(crate) filters: [LinearSlot<T>; 3],
    pub(crate) norm: Norm<T>,
    /// Norms to scales: channels to twice, then thrice as many.
    pub(crate) scales: [LinearSlot<T>; 2],
    /// Mixing of the three parts.
    pub(crate) mixing: [LinearSlot<T>; 3],
}

/// One interaction layer.
#[derive(Clone, Debug)]
pub(crate) struct Interaction<T: Scalar> {
    /// Radial functions, then with charges, to filters.
    pub(crate) filters: [LinearSlot<T>; 3],
    /// Mixing before (scalar, vector, tensor) and after the product.
    pub(crate) mixing: [LinearSlot<T>; 6],
}

/// From tensors to the output of an atom.
#[derive(Clone, Debug)]
pub(crate) struct Readout<T: Scalar> {
    pub(crate) norm: Norm<T>,
    pub(crate) linear: LinearSlot<T>,
    pub(crate) head: [LinearSlot<T>; 2],
}

/// From tensors to latent charges.
#[derive(Clone, Debug)]
pub(crate) struct ChargePredictor<T: Scalar> {
    pub(crate) norm: Norm<T>,
    pub(crate) linears: [LinearSlot<T>; 3],
}

/// A TensorNet with its weights.
///
/// Every linear layer is a [`LinearSlot`], named as in checkpoints of torchmd-net without `model.`
/// and `.weight`. Stages are the embedding, each layer, and the readout.
#[derive(Clone, Debug)]
pub struct TensorNet<T: Scalar = f32> {
    pub(crate) config: TensorNetConfig,
    pub(crate) basis: RadialBasis<T>,
    pub(crate) embedding: Embedding<T>,
    pub(crate) layers: Vec<Interaction<T>>,
    pub(crate) readout: Readout<T>,
    /// Predictors of charges after the embedding and each layer; none without charges.
    pub(crate) charges: Vec<ChargePredictor<T>>,
    /// Weights of the latent charges in the Coulomb energy, by stage, then channel; none without.
    pub(crate) coulomb_weights: Vec<T>,
    /// Added to the output of each molecule.
    pub(crate) mean: f64,
    /// Factor of the output of each atom.
    pub(crate) std: f64,
    /// Weights packed for a step; none after any access to change them.
    pub(crate) packs: Packs,
}

/// The role of a tensor in a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorUse {
    /// Trained, with weight decay.
    Weight,
    /// Trained, without: biases, scales, shifts.
    Vector,
    /// Not trained.
    Constant,
}

/// One named tensor of a model, mutable.
#[derive(Debug)]
pub struct NamedTensor<'a, T> {
    /// Its name in checkpoints, without `model.`.
    pub name: String,
    /// Shape, row-major.
    pub shape: Vec<usize>,
    /// The numbers.
    pub values: &'a mut [T],
    /// Its role.
    pub purpose: TensorUse,
}

/// Reads a tensor of a name and shape.
type Lookup<'a, T> = &'a mut dyn FnMut(&str, &[usize]) -> Result<Vec<T>, MoleculeError>;

/// The operator of a slot, by its name and shape; none for a dense weight.
type Operators<'a, T> = &'a mut dyn FnMut(&str, Shape) -> Result<Option<Op<T>>, MoleculeError>;

/// Builds the parts of a model from named tensors.
struct Builder<'a, 'b, T: Scalar> {
    config: &'a TensorNetConfig,
    lookup: Lookup<'b, T>,
    operators: Operators<'b, T>,
}

fn shape(out: usize, inp: usize) -> Shape {
    Shape { out, inp }
}

const COULOMB_WEIGHTS: &str = "output_model.qweights";
const REPRESENTATION: &str = "representation_model";
const EXPANSION: &str = "representation_model.distance_expansion";
const EMBEDDING: &str = "representation_model.tensor_embedding";

impl<T: Scalar> Builder<'_, '_, T> {
    fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<T>, MoleculeError> {
        let values = (self.lookup)(name, shape)?;
        let numbers: usize = shape.iter().product();
        if values.len() != numbers {
            let found = format!("{} numbers", values.len());
            let expected = format!("{numbers}, for shape {shape:?}");
            return Err(MoleculeError::Tensor { name: name.into(), found, expected });
        }
        Ok(values)
    }

    fn norm(&mut self, name: String, width: usize) -> Result<Norm<T>, MoleculeError> {
        let scale = self.tensor(&format!("{name}.weight"), &[width])?;
        let shift = self.tensor(&format!("{name}.bias"), &[width])?;
        Ok(Norm { name, scale, shift })
    }

    /// A slot; its bias exists unless it mixes channels.
    fn slot(
        &mut self,
        name: String,
        (role, stage): (SlotRole, usize),
        shape: Shape,
        reads: Option<String>,
    ) -> Result<LinearSlot<T>, MoleculeError> {
        let Shape { out, inp } = shape;
        let op = match (self.operators)(&name, shape)? {
            Some(op) => {
                check_shape(&name, &op, shape)?;
                op
            }
            None => {
                let weight = self.tensor(&format!("{name}.weight"), &[out, inp])?;
                Op::Linear(Box::new(Dense::new(Mat::from_vec(out, inp, weight))))
            }
        };
        let bias = match role == MIXING {
            true => None,
            false => Some(self.tensor(&format!("{name}.bias"), &[out])?),
        };
        let reads = InputId(reads.unwrap_or_else(|| format!("{name}.input")));
        let layer = stage.checked_sub(1).filter(|layer| *layer < self.config.layers);
        let place = Place { reads, role, layer, stage: Some(stage) };
        Ok(LinearSlot::new(SiteId(name), place, op, bias))
    }

    fn basis(&mut self) -> Result<RadialBasis<T>, MoleculeError> {
        let radial = self.config.radial;
        Ok(match self.config.radial_kind {
            RadialKind::Expnorm => RadialBasis {
                centres: self.tensor(&format!("{EXPANSION}.means"), &[radial])?,
                widths: self.tensor(&format!("{EXPANSION}.betas"), &[radial])?,
            },
            RadialKind::Gauss => {
                let factor = self.tensor(&format!("{EXPANSION}.coeff"), &[])?;
                let centres = self.tensor(&format!("{EXPANSION}.offset"), &[radial])?;
                RadialBasis { centres, widths: vec![-factor[0]] }
            }
        })
    }

    fn embedding(&mut self) -> Result<Embedding<T>, MoleculeError> {
        let TensorNetConfig { channels: h, radial, species, .. } = *self.config;
        let name = |part: &str| format!("{EMBEDDING}.{part}");
        let numbers = self.tensor(&name("emb.weight"), &[species, h])?;
        let input = Some(name("distance_proj.input"));
        let filter = |of: &mut Self, k: usize| {
            of.slot(
                name(&format!("distance_proj{k}")),
                (FILTER, 0),
                shape(h, radial),
                input.clone(),
            )
        };
        let mixing = |of: &mut Self, k: usize| {
            of.slot(name(&format!("linears_tensor.{k}")), (MIXING, 0), shape(h, h), None)
        };
        Ok(Embedding {
            species: Mat::from_vec(species, h, numbers),
            pair: self.slot(name("emb2"), (SPECIES, 0), shape(h, 2 * h), None)?,
            filters: [filter(self, 1)?, filter(self, 2)?, filter(self, 3)?],
            norm: self.norm(name("init_norm"), h)?,
            scales: [
                self.slot(name("linears_scalar.0"), (SCALE, 0), shape(2 * h, h), None)?,
                self.slot(name("linears_scalar.1"), (SCALE, 0), shape(3 * h, 2 * h), None)?,
            ],
            mixing: [mixing(self, 0)?, mixing(self, 1)?, mixing(self, 2)?],
        })
    }

    fn layer(&mut self, layer: usize) -> Result<Interaction<T>, MoleculeError> {
        let (h, stage) = (self.config.channels, layer + 1);
        let charges = self.config.charges.as_ref().map_or(0, |charges| 2 * charges.q_dim);
        let inp = self.config.radial + charges;
        let name = |part: &str, k: usize| format!("{REPRESENTATION}.layers.{layer}.{part}.{k}");
        let mut filter =
            |k: usize, shape| self.slot(name("linears_scalar", k), (FILTER, stage), shape, None);
        let filters = [
            filter(0, shape(h, inp))?,
            filter(1, shape(2 * h, h))?,
            filter(2, shape(3 * h, 2 * h))?,
        ];
        let mut mix =
            |k: usize| self.slot(name("linears_tensor", k), (MIXING, stage), shape(h, h), None);
        Ok(Interaction { filters, mixing: [mix(0)?, mix(1)?, mix(2)?, mix(3)?, mix(4)?, mix(5)?] })
    }

    fn readout(&mut self) -> Result<Readout<T>, MoleculeError> {
        let (h, stage) = (self.config.channels, self.config.layers + 1);
        let out = self.config.head_outputs();
        let head = "output_model.output_network.layers";
        Ok(Readout {
            norm: self.norm(format!("{REPRESENTATION}.out_norm"), 3 * h)?,
            linear: self.slot(
                format!("{REPRESENTATION}.linear"),
                (READOUT, stage),
                shape(h, 3 * h),
                None,
            )?,
            head: [
                self.slot(format!("{head}.0"), (HEAD, stage), shape(h / 2, h), None)?,
                self.slot(format!("{head}.2"), (HEAD, stage), shape(out, h / 2), None)?,
            ],
        })
    }

    fn charges(&mut self) -> Result<Vec<ChargePredictor<T>>, MoleculeError> {
        let Some(charges) = &self.config.charges else {
            return Ok(Vec::new());
        };
        let (h, out, layers) = (self.config.channels, 2 * charges.q_dim, self.config.layers);
        let predictor = |stage: usize| {
            let name = match stage.checked_sub(1) {
                None => format!("{REPRESENTATION}.charge_predict_0"),
                Some(layer) => format!("{REPRESENTATION}.charge_predicts.{layer}"),
            };
            let mut linear = |k: usize, shape| {
                self.slot(format!("{name}.q_mlp.layers.{k}"), (CHARGE, stage), shape, None)
            };
            let linears =
                [linear(0, shape(h, 3 * h))?, linear(2, shape(h, h))?, linear(4, shape(out, h))?];
            Ok(ChargePredictor { norm: self.norm(format!("{name}.q_norm"), 3 * h)?, linears })
        };
        (0..=layers).map(predictor).collect()
    }

    fn coulomb_weights(&mut self) -> Result<Vec<T>, MoleculeError> {
        let Some(charges) = &self.config.charges else {
            return Ok(Vec::new());
        };
        if !self.config.head.has_coulomb() {
            return Ok(Vec::new());
        }
        let weights = self.tensor(COULOMB_WEIGHTS, &[(self.config.layers + 1) * charges.q_dim])?;
        let sum: f64 = weights.iter().map(|weight| weight.to_f64()).sum();
        if sum.is_normal() {
            return Ok(weights);
        }
        let (found, expected) = (format!("a sum of {sum}"), "one that is not zero".into());
        Err(MoleculeError::Tensor { name: COULOMB_WEIGHTS.into(), found, expected })
    }
}

fn check_shape<T: Scalar>(name: &str, op: &Op<T>, wanted: Shape) -> Result<(), MoleculeError> {
    let found = op.map().shape();
    if found == wanted {
        return Ok(());
    }
    let shown = |Shape { out, inp }: Shape| format!("an operator of {out} x {inp}");
    Err(MoleculeError::Tensor { name: name.into(), found: shown(found), expected: shown(wanted) })
}

impl<T: Scalar> TensorNet<T> {
    /// A model from named tensors, by their names in checkpoints of torchmd-net without `model.`.
    /// Scalars have an empty shape.
    ///
    /// # Errors
    /// [`MoleculeError::Architecture`] for hyper-parameters out of range, [`MoleculeError::Tensor`]
    /// for tensors of another size, and errors of `lookup`.
    pub fn from_tensors(
        config: TensorNetConfig,
        lookup: impl FnMut(&str, &[usize]) -> Result<Vec<T>, MoleculeError>,
    ) -> Result<Self, MoleculeError> {
        Self::with_operators(config, lookup, |_, _| Ok(None))
    }

    /// [`Self::from_tensors`] with an operator for each slot for which `operators` has one, by
    /// name and shape of the slot, and dense weights for the others.
    ///
    /// # Errors
    /// As there, [`MoleculeError::Tensor`] for an operator of another shape, and errors of
    /// `operators`.
    pub fn with_operators(
        config: TensorNetConfig,
        mut lookup: impl FnMut(&str, &[usize]) -> Result<Vec<T>, MoleculeError>,
        mut operators: impl FnMut(&str, Shape) -> Result<Option<Op<T>>, MoleculeError>,
    ) -> Result<Self, MoleculeError> {
        config.check()?;
        let (lookup, operators) = (&mut lookup, &mut operators);
        let mut builder = Builder { config: &config, lookup, operators };
        let mean = builder.tensor("mean", &[])?[0].to_f64();
        let std = builder.tensor("std", &[])?[0].to_f64();
        let (basis, embedding) = (builder.basis()?, builder.embedding()?);
        let layers = (0..config.layers).map(|layer| builder.layer(layer));
        let layers = layers.collect::<Result<_, _>>()?;
        let (readout, charges) = (builder.readout()?, builder.charges()?);
        let coulomb_weights = builder.coulomb_weights()?;
        let packs = Packs::default();
        Ok(Self {
            basis,
            embedding,
            layers,
            readout,
            charges,
            coulomb_weights,
            mean,
            std,
            config,
            packs,
        })
    }

    /// The architecture.
    #[must_use]
    pub fn config(&self) -> &TensorNetConfig {
        &self.config
    }

    /// Packs the weights for the passes of a training step, until they are changed.
    pub(crate) fn prepare(&mut self) {
        self.packs = Packs::new(&self.linears());
    }

    /// The offset of the output of each molecule, and the factor of the output of each atom.
    #[must_use]
    pub fn offset_and_scale(&self) -> (f64, f64) {
        (self.mean, self.std)
    }

    /// Sets the offset of the output of each molecule, and the factor of each atom's output.
    pub fn set_offset_and_scale(&mut self, mean: f64, std: f64) {
        (self.mean, self.std) = (mean, std);
    }

    /// All slots, in the order of computation.
    #[must_use]
    pub fn linears(&self) -> Vec<&LinearSlot<T>> {
        let Embedding { pair, filters, scales, mixing, .. } = &self.embedding;
        let mut slots: Vec<_> =
            [pair].into_iter().chain(filters).chain(scales).chain(mixing).collect();
        let mut charges = self.charges.iter();
        slots.extend(charges.next().into_iter().flat_map(|stage| &stage.linears));
        for layer in &self.layers {
            slots.extend(layer.filters.iter().chain(&layer.mixing));
            slots.extend(charges.next().into_iter().flat_map(|stage| &stage.linears));
        }
        slots.extend([&self.readout.linear].into_iter().chain(&self.readout.head));
        slots
    }

    /// All slots, in the order of computation, mutable.
    pub fn linears_mut(&mut self) -> Vec<&mut LinearSlot<T>> {
        self.packs = Packs::default();
        let Embedding { pair, filters, scales, mixing, .. } = &mut self.embedding;
        let mut slots: Vec<_> =
            [pair].into_iter().chain(filters).chain(scales).chain(mixing).collect();
        let mut charges = self.charges.iter_mut();
        slots.extend(charges.next().into_iter().flat_map(|stage| &mut stage.linears));
        for layer in &mut self.layers {
            slots.extend(layer.filters.iter_mut().chain(&mut layer.mixing));
            slots.extend(charges.next().into_iter().flat_map(|stage| &mut stage.linears));
        }
        slots.extend([&mut self.readout.linear].into_iter().chain(&mut self.readout.head));
        slots
    }

    /// All tensors but the mean and the factor of outputs, in a fixed order: radial functions,
    /// species, norms, then those of the slots in the order of computation.
    pub fn tensors_mut(&mut self) -> Vec<NamedTensor<'_, T>> {
        self.packs = Packs::default();
        let config = &self.config;
        let purpose = match config.trainable_rbf {
            true => TensorUse::Vector,
            false => TensorUse::Constant,
        };
        let RadialBasis { centres, widths } = &mut self.basis;
        let mut tensors = basis_tensors(config.radial_kind, centres, widths, purpose);
        let Embedding { species, pair, filters, norm, scales, mixing } = &mut self.embedding;
        let shape = vec![species.rows(), species.cols()];
        let values = species.data_mut();
        let name = format!("{EMBEDDING}.emb.weight");
        tensors.push(NamedTensor { name, shape, values, purpose: TensorUse::Weight });
        tensors.extend(norm_tensors(norm));
        tensors.extend(norm_tensors(&mut self.readout.norm));
        let mut slots: Vec<_> =
            [pair].into_iter().chain(filters).chain(scales).chain(mixing).collect();
        slots
            .extend(self.layers.iter_mut().flat_map(|l| l.filters.iter_mut().chain(&mut l.mixing)));
        slots.extend([&mut self.readout.linear].into_iter().chain(&mut self.readout.head));
        for stage in &mut self.charges {
            tensors.extend(norm_tensors(&mut stage.norm));
            slots.extend(&mut stage.linears);
        }
        tensors.extend(slots.into_iter().flat_map(slot_tensors));
        if !self.coulomb_weights.is_empty() {
            tensors.push(NamedTensor {
                name: COULOMB_WEIGHTS.into(),
                shape: vec![self.coulomb_weights.len()],
                values: &mut self.coulomb_weights,
                purpose: TensorUse::Constant,
            });
        }
        tensors
    }

    /// All tensors with their shapes and their names in checkpoints of torchmd-net, including the
    /// mean and the factor of outputs. The widths of `gauss` functions have the reference's sign.
    #[must_use]
    pub fn to_tensors(&self) -> Vec<(String, Vec<usize>, Vec<T>)> {
        let mut copy = self.clone();
        let gauss = self.config.radial_kind == RadialKind::Gauss;
        let scalar = |name: &str, value: f64| (name.into(), Vec::new(), vec![T::from_f64(value)]);
        let mut all = vec![scalar("mean", self.mean), scalar("std", self.std)];
        for NamedTensor { name, shape, values, .. } in copy.tensors_mut() {
            let mut values = values.to_vec();
            if gauss && name.ends_with(".coeff") {
                values.iter_mut().for_each(|value| *value = -*value);
            }
            all.push((name, shape, values));
        }
        all
    }

    /// The same model with dense weights in all slots.
    ///
    /// # Errors
    /// [`MoleculeError::Operator`] for a slot whose operator is not linear.
    pub fn with_dense_weights(&self) -> Result<Self, MoleculeError> {
        let mut dense = self.clone();
        for slot in dense.linears_mut() {
            let weight = slot.op().to_dense().map_err(of_slot(&slot.id().0))?;
            *slot.op_mut() = Op::Linear(Box::new(Dense::new(weight)));
        }
        Ok(dense)
    }

    /// The same model in another type of numbers.
    ///
    /// # Errors
    /// [`MoleculeError::Operator`] for an operator that cannot be stored.
    pub fn cast<U: Scalar>(&self) -> Result<TensorNet<U>, MoleculeError> {
        let tensors = self.to_tensors();
        let tensor = |name: &str, _: &[usize]| {
            let of_name = tensors.iter().find(|(own, _, _)| own == name);
            let values = of_name.map_or(&[][..], |(_, _, values)| values);
            Ok(values.iter().map(|value| U::from_f64(value.to_f64())).collect())
        };
        let slots = self.linears();
        let operator = |name: &str, _: Shape| {
            let slot = slots.iter().find(|slot| slot.id().0 == name);
            slot.map(|slot| cast_op(slot.op()).map_err(of_slot(name))).transpose()
        };
        let mut model = TensorNet::with_operators(self.config.clone(), tensor, operator)?;
        model.set_offset_and_scale(self.mean, self.std);
        Ok(model)
    }

    /// Whether it has latent charges.
    #[must_use]
    pub fn has_charges(&self) -> bool {
        self.config.model == Family::Tensornet2
    }
}

/// Names the slot of an error of its operator.
pub(crate) fn of_slot(site: &str) -> impl FnOnce(OpError) -> MoleculeError {
    move |source| MoleculeError::Operator { site: site.into(), source }
}

/// An operator in another type of numbers.
fn cast_op<T: Scalar, U: Scalar>(op: &Op<T>) -> Result<Op<U>, OpError> {
    let (header, tensors) = archive::save(op)?;
    let cast = |tensor| match tensor {
        Tensor::Values(shape, values) => {
            let values = values.iter().map(|value: &T| U::from_f64(value.to_f64()));
            Tensor::Values(shape, values.collect())
        }
        Tensor::Indices(values) => Tensor::Indices(values),
    };
    let tensors = tensors.into_iter().map(|(name, tensor)| (name, cast(tensor))).collect();
    archive::load(&header, tensors)
}

impl Sites for TensorNet {
    fn slots(&self) -> Vec<&LinearSlot> {
        self.linears()
    }

    fn slots_mut(&mut self) -> Vec<&mut LinearSlot> {
        self.linears_mut()
    }
}

fn basis_tensors<'a, T>(
    kind: RadialKind,
    centres: &'a mut [T],
    widths: &'a mut [T],
    purpose: TensorUse,
) -> Vec<NamedTensor<'a, T>> {
    let (of_centres, of_widths) = match kind {
        RadialKind::Expnorm => ("means", "betas"),
        RadialKind::Gauss => ("offset", "coeff"),
    };
    let shape = |values: &[T]| vec![values.len()];
    let name = |part: &str| format!("{EXPANSION}.{part}");
    let of_scalar = kind == RadialKind::Gauss;
    vec![
        NamedTensor { name: name(of_centres), shape: shape(centres), values: centres, purpose },
        NamedTensor {
            name: name(of_widths),
            shape: if of_scalar { Vec::new() } else { shape(widths) },
            values: widths,
            purpose,
        },
    ]
}

fn norm_tensors<T>(norm: &mut Norm<T>) -> [NamedTensor<'_, T>; 2] {
    let (shape, purpose) = (vec![norm.scale.len()], TensorUse::Vector);
    let (scale, shift) = (format!("{}.weight", norm.name), format!("{}.bias", norm.name));
    [
        NamedTensor { name: scale, shape: shape.clone(), values: &mut norm.scale, purpose },
        NamedTensor { name: shift, shape, values: &mut norm.shift, purpose },
    ]
}

/// Tensors of a slot: parameters of its operator, then its bias.
fn slot_tensors<T: Scalar>(slot: &mut LinearSlot<T>) -> Vec<NamedTensor<'_, T>> {
    let id = slot.id().clone();
    let (op, bias) = slot.parts_mut();
    let params = op.map_mut().params_mut().into_iter();
    let purpose = TensorUse::Weight;
    let mut tensors: Vec<_> = params
        .map(|p| NamedTensor {
            name: format!("{id}.{}", p.name),
            shape: p.shape,
            values: p.values,
            purpose,
        })
        .collect();
    tensors.extend(bias.map(|values| NamedTensor {
        name: format!("{id}.bias"),
        shape: vec![values.len()],
        values,
        purpose: TensorUse::Vector,
    }));
    tensors
}
