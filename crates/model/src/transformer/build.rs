//! Making a decoder: random, or from the tensors of a checkpoint.

use super::Transformer;
use super::layer::Layer;
use super::memory::Memory;
use crate::config::{EMBEDDING, FINAL_NORM, HEAD, Linear, NORMS, TransformerConfig};
use linwright_ops::{Dense, LinearSlot, Op, Role, Shape, SiteId};
use linwright_tensor::{Mat, RngKey};
use std::convert::Infallible;
use std::sync::Arc;

/// Roles of the linears of a layer, in order.
const ROLES: [Role; 7] =
    [Role::Query, Role::Key, Role::Value, Role::Output, Role::Gate, Role::Up, Role::Down];
/// Standard deviation of random weights, the customary one for models of this family.
const SCALE: f64 = 0.02;

/// Where the parts of a decoder come from: asked for one at a time, in the order of computation.
pub trait TensorSource {
    /// Why a part cannot be had.
    type Error;

    /// The tensor of this name in checkpoints, row-major.
    ///
    /// # Errors
    /// If there is none of this shape.
    fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, Self::Error>;

    /// The operator of a slot; unless told otherwise dense, with the weight `<site>.weight`.
    ///
    /// # Errors
    /// If there is none of this shape.
    fn operator(&mut self, site: &SiteId, shape: Shape) -> Result<Op<f32>, Self::Error> {
        let Shape { out, inp } = shape;
        let weight = self.tensor(&format!("{site}.weight"), &[out, inp])?;
        Ok(Op::Linear(Box::new(Dense::new(Mat::from_vec(out, inp, weight)))))
    }
}

/// A function that gives a tensor by name in checkpoints and shape.
pub type Fetch<'a, E> = dyn FnMut(&str, &[usize]) -> Result<Vec<f32>, E> + 'a;

/// A function is a source of dense weights.
struct DenseSource<'a, 'f, E>(&'a mut Fetch<'f, E>);

impl<E> TensorSource for DenseSource<'_, '_, E> {
    type Error = E;

    fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, E> {
        (self.0)(name, shape)
    }
}

impl Transformer {
    /// Random weights: normal with deviation 0.02, those that write into the residual stream
    /// (output and down) smaller by `1 / sqrt(2 layers)`; norms one, biases zero. Every tensor has
    /// its own stream under `key`, named after it.
    #[must_use]
    pub fn random(config: TransformerConfig, key: RngKey) -> Self {
        let residual = SCALE / (2.0 * config.layers as f64).sqrt();
        let built = Self::from_tensors::<Infallible>(config, &mut |name, shape| {
            let count = shape.iter().product();
            Ok(if name.ends_with("norm.weight") {
                vec![1.0; count]
            } else if name.ends_with(".bias") {
                vec![0.0; count]
            } else {
                let writes = name.contains("o_proj") || name.contains("down_proj");
                let scale = if writes { residual } else { SCALE };
                key.fold(name).stream().normals(count, scale)
            })
        });
        match built {
            Ok(decoder) => decoder,
            Err(never) => match never {},
        }
    }

    /// A decoder with dense weights, which `fetch` gives by name in checkpoints (such as
    /// `model.layers.0.self_attn.q_proj.weight`) and shape, one at a time.
    ///
    /// # Errors
    /// The first error of `fetch`.
    ///
    /// # Panics
    /// If `fetch` gives another number of values than the shape holds.
    pub fn from_tensors<E>(config: TransformerConfig, fetch: &mut Fetch<'_, E>) -> Result<Self, E> {
        Self::from_source(config, &mut DenseSource(fetch))
    }

    /// A decoder whose slots may hold any operator.
    ///
    /// # Errors
    /// The first error of `source`.
    ///
    /// # Panics
    /// If `source` gives another number of values, or an operator of another shape, than asked for.
    pub fn from_source<S: TensorSource>(
        config: TransformerConfig,
        source: &mut S,
    ) -> Result<Self, S::Error> {
        let TransformerConfig { vocab, hidden, .. } = config;
        let embedding = source.tensor(EMBEDDING, &[vocab, hidden])?;
        let embedding = Arc::new(Mat::from_vec(vocab, hidden, embedding));
        let layers = (0..config.layers).map(|index| build_layer(&config, index, source));
        let layers = layers.collect::<Result<Vec<_>, _>>()?;
        let norm = fetch_vector(source, FINAL_NORM, hidden)?;
        let head = if config.tied_embeddings {
            None
        } else {
            let head = Linear { name: HEAD, out: vocab, inp: hidden, bias: false };
            Some(build_slot(source, HEAD.to_owned(), (Role::Head, None), head)?)
        };
        Ok(Self { config, embedding, layers, norm, head, memory: Memory::default() })
    }
}

fn build_layer<S: TensorSource>(
    config: &TransformerConfig,
    index: usize,
    source: &mut S,
) -> Result<Layer, S::Error> {
    let mut linears = config.linears().into_iter().zip(ROLES).map(|(linear, role)| {
        let id = format!("model.layers.{index}.{}", linear.name);
        (id, (role, Some(index)), linear)
    });
    let mut next = |source: &mut S| {
        let (id, place, linear) = linears.next().expect("a layer has seven linears");
        build_slot(source, id, place, linear)
    };
    let [input_norm, mlp_norm] = NORMS.map(|norm| format!("model.layers.{index}.{norm}"));
    let input_norm = fetch_vector(source, &input_norm, config.hidden)?;
    let [q, k, v, o] = [next(source)?, next(source)?, next(source)?, next(source)?];
    let mlp_norm = fetch_vector(source, &mlp_norm, config.hidden)?;
    let linears = [q, k, v, o, next(source)?, next(source)?, next(source)?];
    Ok(Layer { index, norms: [input_norm, mlp_norm], linears })
}

fn build_slot<S: TensorSource>(
    source: &mut S,
    id: String,
    (role, layer): (Role, Option<usize>),
    linear: Linear,
) -> Result<LinearSlot, S::Error> {
    let id = SiteId(id);
    let shape = Shape { out: linear.out, inp: linear.inp };
    let op = source.operator(&id, shape)?;
    assert_eq!(op.map().shape(), shape, "operator given for {id}");
    let bias = match linear.bias {
        true => Some(fetch_vector(source, &format!("{id}.bias"), linear.out)?),
        false => None,
    };
    Ok(LinearSlot::new(id, role, layer, op, bias))
}

fn fetch_vector<S: TensorSource>(
    source: &mut S,
    name: &str,
    len: usize,
) -> Result<Vec<f32>, S::Error> {
    let values = source.tensor(name, &[len])?;
    assert_eq!(values.len(), len, "numbers given for {name}");
    Ok(values)
}
