//! Flows: densities, gradients and inverses of whole models.
//!
//! Examples have one row per position (examples * positions, channels), channels last. A backward
//! pass starts from the latents and inverts one step after another, so its memory does not grow
//! with depth.

use crate::act_norm::ActNorm;
use crate::coupling::Coupling;
use crate::prior::{Prior, Split, Standard};
use crate::spec::LevelPlan;
use crate::{Extent, FlowError, FlowSpec, MixNorms, MixSpec, Mixing};
use linwright_nets::NetTensor;
use linwright_ops::Workspace;
use linwright_tensor::{Mat, RngKey, Scalar};
use std::f64::consts::LN_2;

/// A flow with its numbers.
#[derive(Clone, Debug)]
pub struct Flow<T: Scalar = f32> {
    spec: FlowSpec,
    levels: Vec<Level<T>>,
    prior: Prior<T>,
}

/// A level: a squeeze, steps, and a split where half of the channels leaves.
#[derive(Clone, Debug)]
struct Level<T: Scalar> {
    plan: LevelPlan,
    /// Extent before the squeeze.
    before: Extent,
    steps: Vec<Step<T>>,
    split: Option<Split<T>>,
}

/// A step: normalisation, mix of channels, coupling.
#[derive(Clone, Debug)]
struct Step<T: Scalar> {
    norm: ActNorm<T>,
    /// A fixed permutation, if any, and the operator of the flow.
    mixes: Vec<Mixing<T>>,
    /// Absent in a linear flow.
    coupling: Option<Coupling<T>>,
}

/// Examples as latents, with the terms of their density.
#[derive(Clone, Debug)]
pub struct Encoded<T> {
    /// Latents (examples * positions, channels) that leave after each level, first level first.
    pub latents: Vec<Mat<T>>,
    /// `log|det|` of the flow for each example, in nats.
    pub log_det: Vec<f64>,
    /// Log-density of the latents of each example, in nats.
    pub log_prior: Vec<f64>,
}

impl<T> Encoded<T> {
    /// Negative log-likelihood of each example, in nats.
    #[must_use]
    pub fn nll(&self) -> Vec<f64> {
        let parts = self.log_det.iter().zip(&self.log_prior);
        parts.map(|(log_det, log_prior)| -log_det - log_prior).collect()
    }
}

impl<T: Scalar> Flow<T> {
    /// A randomly initialised flow: couplings that scale by `sigmoid(2)`, normalisations that do
    /// nothing until [`Self::start`], mixers with the initial values of their kinds.
    ///
    /// # Errors
    /// [`FlowError::Option`] for sizes that do not fit, and for a layer that does not support the
    /// number of channels.
    pub fn random(spec: &FlowSpec, key: RngKey) -> Result<Self, FlowError> {
        spec.check()?;
        let (mut levels, mut before) = (Vec::new(), spec.input);
        for (l, plan) in spec.plan().into_iter().enumerate() {
            let step = |s| Step::random(spec, plan.extent, &format!("l{l}.s{s}"), key);
            let steps = (0..spec.steps).map(step).collect::<Result<_, _>>()?;
            let split = plan.kept.map(|kept| Split::new(format!("l{l}.split"), plan.extent, kept));
            levels.push(Level { plan, before, steps, split: split.transpose()? });
            before = Extent { channels: plan.kept.unwrap_or(0), ..plan.extent };
        }
        let channels = levels.last().map_or(0, |level| level.plan.extent.channels);
        Ok(Self { spec: spec.clone(), levels, prior: Prior::new(channels) })
    }

    /// The description that it was built from.
    #[must_use]
    pub fn spec(&self) -> &FlowSpec {
        &self.spec
    }

    /// All tensors of numbers, in a fixed order.
    pub fn tensors_mut(&mut self) -> Vec<NetTensor<'_, T>> {
        let mut tensors = Vec::new();
        for level in &mut self.levels {
            for step in &mut level.steps {
                tensors.extend(step.norm.tensors_mut());
                tensors.extend(step.mixes.iter_mut().flat_map(Mixing::tensors_mut));
                tensors.extend(step.coupling.iter_mut().flat_map(Coupling::tensors_mut));
            }
            tensors.extend(level.split.iter_mut().flat_map(Split::tensors_mut));
        }
        tensors.extend(self.prior.tensors_mut());
        tensors
    }

    fn mixes(&self) -> impl Iterator<Item = &Mixing<T>> {
        self.levels.iter().flat_map(|level| &level.steps).flat_map(|step| &step.mixes)
    }

    /// Tensors of fixed indices, with their names.
    #[must_use]
    pub fn indices(&self) -> Vec<(String, Vec<u32>)> {
        self.mixes().flat_map(Mixing::indices).collect()
    }

    /// The same, mutable.
    pub(crate) fn indices_mut(&mut self) -> Vec<(String, &mut [u32])> {
        let steps = self.levels.iter_mut().flat_map(|level| &mut level.steps);
        steps.flat_map(|step| &mut step.mixes).flat_map(Mixing::indices_mut).collect()
    }

    /// Checks numbers and indices after reading them from a file.
    ///
    /// # Errors
    /// [`FlowError::NotFinite`] and [`FlowError::Operator`] naming the tensor.
    pub fn check(&mut self) -> Result<(), FlowError> {
        for tensor in self.tensors_mut() {
            crate::error::check_finite(&tensor.name, tensor.values)?;
        }
        for mix in self.mixes() {
            let wrong = |source| FlowError::Operator { layer: mix.name().to_owned(), source };
            mix.op().map().check().map_err(wrong)?;
            mix.log_det()?;
        }
        Ok(())
    }

    /// Number of trained numbers.
    #[must_use]
    pub fn parameters(&self) -> u64 {
        let mut own = self.clone();
        own.tensors_mut().iter().map(|tensor| tensor.values.len() as u64).sum()
    }

    /// Number of trained numbers of the operators that mix channels.
    #[must_use]
    pub fn mixing_parameters(&self) -> u64 {
        self.mixes().map(|mix| mix.op().parameters() as u64).sum()
    }

    /// Norms and condition of every mix.
    ///
    /// # Errors
    /// As [`Mixing::norms`].
    pub fn norms(&self) -> Result<Vec<MixNorms>, FlowError> {
        self.mixes().map(Mixing::norms).collect()
    }

    /// Extents of the latents that leave after each level.
    #[must_use]
    pub fn latents(&self) -> Vec<Extent> {
        let of_level = |level: &Level<T>| {
            let Extent { channels, .. } = level.plan.extent;
            Extent { channels: channels - level.plan.kept.unwrap_or(0), ..level.plan.extent }
        };
        self.levels.iter().map(of_level).collect()
    }

    /// Number of examples in some rows.
    fn examples(&self, x: &Mat<T>) -> Result<usize, FlowError> {
        let (places, channels) = (self.spec.input.places(), self.spec.input.channels);
        if x.cols() == channels && x.rows().is_multiple_of(places) {
            return Ok(x.rows() / places);
        }
        Err(FlowError::Extent {
            what: "a batch",
            found: format!("{} rows of {} channels", x.rows(), x.cols()),
            expected: format!("a multiple of {places} rows of {channels} channels"),
        })
    }

    /// Initialises the normalisations, so that the outputs of each have mean zero and unit variance
    /// on these examples. To be called once, before training.
    ///
    /// # Errors
    /// [`FlowError::Extent`] for other rows; singular layers.
    pub fn start(&mut self, x: Mat<T>) -> Result<(), FlowError> {
        let (examples, mut h, mut ws) = (self.examples(&x)?, x, Workspace::default());
        let mut unused = vec![0.0; examples];
        for level in &mut self.levels {
            if level.plan.squeezes {
                h = self.spec.squeeze.squeeze(&h, level.before);
            }
            for step in &mut level.steps {
                step.norm.start(&h);
                h = step.forward(h, &mut unused, &mut ws)?;
            }
            if let Some(split) = &level.split {
                let [kept, _] = split.halves(&h);
                h = kept;
            }
        }
        Ok(())
    }

    /// Examples as latents, with their densities.
    ///
    /// # Errors
    /// [`FlowError::Extent`] for other rows; singular layers and numbers that are not finite.
    pub fn encode(&self, x: Mat<T>, ws: &mut Workspace<T>) -> Result<Encoded<T>, FlowError> {
        self.encode_as(x, false, ws)
    }

    /// [`Self::encode`], with latents standardised by the prior.
    ///
    /// # Errors
    /// As [`Self::encode`].
    pub fn encode_standard(
        &self,
        x: Mat<T>,
        ws: &mut Workspace<T>,
    ) -> Result<Encoded<T>, FlowError> {
        self.encode_as(x, true, ws)
    }

    fn encode_as(
        &self,
        x: Mat<T>,
        standard: bool,
        ws: &mut Workspace<T>,
    ) -> Result<Encoded<T>, FlowError> {
        let examples = self.examples(&x)?;
        let (mut log_det, mut log_prior) = (vec![0.0; examples], vec![0.0; examples]);
        let (mut latents, mut h) = (Vec::with_capacity(self.levels.len()), x);
        for level in &self.levels {
            if level.plan.squeezes {
                h = self.spec.squeeze.squeeze(&h, level.before);
            }
            for step in &level.steps {
                h = step.forward(h, &mut log_det, ws)?;
            }
            let Some(split) = &level.split else { break };
            let [kept, mut z] = split.halves(&h);
            split.add_log_density([&kept, &z], &mut log_prior, ws)?;
            if standard {
                z = split.turn([&kept, &z], examples, Standard::To, ws)?;
            }
            latents.push(z);
            h = kept;
        }
        self.prior.add_log_density(&h, &mut log_prior);
        if standard {
            self.prior.turn(&mut h, Standard::To);
        }
        latents.push(h);
        Ok(Encoded { latents, log_det, log_prior })
    }

    /// Examples with these latents.
    ///
    /// # Errors
    /// As [`Self::encode`].
    pub fn decode(&self, latents: &[Mat<T>], ws: &mut Workspace<T>) -> Result<Mat<T>, FlowError> {
        self.decode_as(latents, false, ws)
    }

    /// Examples from standard normal latents.
    ///
    /// # Errors
    /// As [`Self::encode`].
    pub fn decode_standard(
        &self,
        latents: &[Mat<T>],
        ws: &mut Workspace<T>,
    ) -> Result<Mat<T>, FlowError> {
        self.decode_as(latents, true, ws)
    }

    fn decode_as(
        &self,
        latents: &[Mat<T>],
        standard: bool,
        ws: &mut Workspace<T>,
    ) -> Result<Mat<T>, FlowError> {
        let examples = self.examples_of(latents)?;
        let mut rest = latents.iter().rev();
        let mut h = rest.next().cloned().unwrap_or_default();
        if standard {
            self.prior.turn(&mut h, Standard::From);
        }
        for level in self.levels.iter().rev() {
            if let Some(split) = &level.split
                && let Some(z) = rest.next()
            {
                h = match standard {
                    true => {
                        let z = split.turn([&h, z], examples, Standard::From, ws)?;
                        Split::joined(&h, &z)
                    }
                    false => Split::joined(&h, z),
                };
            }
            for step in level.steps.iter().rev() {
                h = step.inverse(h, examples, ws)?;
            }
            if level.plan.squeezes {
                h = self.spec.squeeze.unsqueeze(&h, level.before);
            }
        }
        Ok(h)
    }

    fn examples_of(&self, latents: &[Mat<T>]) -> Result<usize, FlowError> {
        let extents = self.latents();
        let examples = latents.first().map_or(0, |z| z.rows() / extents[0].places());
        let fits = |(z, extent): (&Mat<T>, &Extent)| {
            (z.rows(), z.cols()) == (examples * extent.places(), extent.channels)
        };
        if latents.len() == extents.len() && latents.iter().zip(&extents).all(fits) {
            return Ok(examples);
        }
        let shown = |z: &Mat<T>| format!("{} x {}", z.rows(), z.cols());
        Err(FlowError::Extent {
            what: "a list of latents",
            found: latents.iter().map(shown).collect::<Vec<_>>().join(", "),
            expected: extents.iter().map(Extent::to_string).collect::<Vec<_>>().join(", "),
        })
    }

    /// The mean bits per dimension over examples, without the constant of dequantisation; its
    /// gradients overwrite the given ones, one vector for each tensor.
    ///
    /// # Errors
    /// As [`Self::encode`].
    pub fn loss_and_gradients(
        &mut self,
        x: Mat<T>,
        grads: &mut [Vec<T>],
        ws: &mut Workspace<T>,
    ) -> Result<f64, FlowError> {
        let encoded = self.encode(x, ws)?;
        let nll = encoded.nll();
        let examples = nll.len().max(1);
        let scale = (examples as f64 * self.spec.input.numbers() as f64 * LN_2).recip();
        let loss = nll.iter().sum::<f64>() * scale;
        self.backward(encoded.latents, (examples, -scale), grads, ws)?;
        Ok(loss)
    }

    /// Backward pass from the latents. `weight` is the gradient with respect to the log-likelihood
    /// of each example.
    fn backward(
        &mut self,
        mut latents: Vec<Mat<T>>,
        (examples, weight): (usize, f64),
        mut grads: &mut [Vec<T>],
        ws: &mut Workspace<T>,
    ) -> Result<(), FlowError> {
        let mut y = latents.pop().unwrap_or_default();
        let mut dy = self.prior.backward(&y, weight, last(&mut grads, 2));
        for level in self.levels.iter_mut().rev() {
            if let Some(split) = &mut level.split {
                let z = latents.pop().unwrap_or_default();
                let own = last(&mut grads, split.tensors_mut().len());
                let dz = split.backward([&y, &z], &mut dy, (examples, weight), own, ws)?;
                (y, dy) = (Split::joined(&y, &z), Split::joined(&dy, &dz));
            }
            for step in level.steps.iter_mut().rev() {
                [y, dy] = step.backward([y, dy], (examples, weight), &mut grads, ws)?;
            }
            if level.plan.squeezes {
                y = self.spec.squeeze.unsqueeze(&y, level.before);
                dy = self.spec.squeeze.unsqueeze(&dy, level.before);
            }
        }
        Ok(())
    }
}

/// Removes the last vectors.
fn last<'a, T>(grads: &mut &'a mut [Vec<T>], count: usize) -> &'a mut [Vec<T>] {
    let vectors = std::mem::take(grads);
    let (rest, taken) = vectors.split_at_mut(vectors.len() - count);
    *grads = rest;
    taken
}

impl<T: Scalar> Step<T> {
    fn random(spec: &FlowSpec, extent: Extent, name: &str, key: RngKey) -> Result<Self, FlowError> {
        let norm = ActNorm::new(format!("{name}.actnorm"), extent.channels);
        let mix = |part: &str, of: &MixSpec| {
            let name = format!("{name}.{part}");
            let op = of.build(extent.channels, key.fold(&name))?;
            Mixing::new(name, op)
        };
        let mut mixes = Vec::new();
        if spec.shuffle {
            mixes.push(mix("shuffle", &MixSpec::parse("permutation")?)?);
        }
        mixes.push(mix("mix", &spec.layer)?);
        let (name, hidden) = (format!("{name}.nn"), spec.hidden);
        let coupling = match hidden {
            0 => None,
            hidden => Some(Coupling::new(name.clone(), extent, hidden, key.fold(&name))?),
        };
        Ok(Self { norm, mixes, coupling })
    }

    fn forward(
        &self,
        mut h: Mat<T>,
        log_det: &mut [f64],
        ws: &mut Workspace<T>,
    ) -> Result<Mat<T>, FlowError> {
        let places = h.rows() as f64 / log_det.len().max(1) as f64;
        self.norm.forward(&mut h);
        let mut of_place = self.norm.log_det();
        for mix in &self.mixes {
            let mixed = mix.forward(&h, ws)?;
            ws.give(std::mem::replace(&mut h, mixed));
            of_place += mix.log_det()?;
        }
        log_det.iter_mut().for_each(|log_det| *log_det += places * of_place);
        if let Some(coupling) = &self.coupling {
            coupling.forward(&mut h, log_det, ws)?;
        }
        Ok(h)
    }

    fn inverse(
        &self,
        mut h: Mat<T>,
        examples: usize,
        ws: &mut Workspace<T>,
    ) -> Result<Mat<T>, FlowError> {
        if let Some(coupling) = &self.coupling {
            coupling.inverse(&mut h, examples, ws)?;
        }
        for mix in self.mixes.iter().rev() {
            let before = mix.inverse(&h, ws)?;
            ws.give(std::mem::replace(&mut h, before));
        }
        self.norm.inverse(&mut h);
        Ok(h)
    }

    /// Inputs and their gradients, from those of the outputs.
    fn backward(
        &mut self,
        [mut y, mut dy]: [Mat<T>; 2],
        (examples, weight): (usize, f64),
        grads: &mut &mut [Vec<T>],
        ws: &mut Workspace<T>,
    ) -> Result<[Mat<T>; 2], FlowError> {
        if let Some(coupling) = &mut self.coupling {
            let own = last(grads, coupling.tensors_mut().len());
            coupling.backward([&mut y, &mut dy], (examples, weight), own, ws)?;
        }
        let of_log_det = weight * y.rows() as f64;
        for mix in self.mixes.iter_mut().rev() {
            let own = last(grads, mix.op().map().params().len());
            let [x, dx] = mix.backward(&y, &dy, of_log_det, own, ws)?;
            ws.give(std::mem::replace(&mut y, x));
            ws.give(std::mem::replace(&mut dy, dx));
        }
        self.norm.backward(&mut y, &mut dy, of_log_det, last(grads, 2));
        Ok([y, dy])
    }
}
