//! Archives: saving and rebuilding operators.
//!
//! An operator is stored as its [`OpSpec`] (JSON) and named tensors: parameters in the requested
//! precision, integer buffers as `u32`. Names are relative; a model prefixes them with the site.

use crate::{Map, Op, OpError, OpSpec, Shape};
use linwright_tensor::kernels::gemm::Weight;
use linwright_tensor::{RngKey, Scalar};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Header of an operator in a file: kind, options and shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Kind and options.
    #[serde(flatten)]
    pub spec: OpSpec,
    /// Features out and in.
    pub shape: Shape,
}

impl Header {
    /// The header of an operator.
    ///
    /// # Errors
    /// [`OpError::External`] if it is from another crate, or contains such an operator.
    pub fn of<T: Scalar>(map: &dyn Map<T>) -> Result<Self, OpError> {
        let spec = map.spec();
        match spec.external() {
            Some(kind) => Err(OpError::External { kind }),
            None => Ok(Self { spec, shape: map.shape() }),
        }
    }
}

/// A tensor of an archive.
#[derive(Clone, Debug, PartialEq)]
pub enum Tensor<T> {
    /// A parameter: shape and numbers.
    Values(Vec<usize>, Vec<T>),
    /// A buffer.
    Indices(Vec<u32>),
}

impl<T> Tensor<T> {
    fn len(&self) -> u64 {
        match self {
            Self::Values(_, values) => values.len() as u64,
            Self::Indices(values) => values.len() as u64,
        }
    }
}

/// Tolerance between the numbers that a header declares and those in its file: within it, missing
/// tensors are reported by name; beyond it, no memory is allocated.
const SLACK: u64 = 1 << 20;

/// Tolerance for parts, each of which has at least one number.
const SLACK_PARTS: u64 = 1 << 10;

/// Named tensors in order.
pub type Tensors<T> = BTreeMap<String, Tensor<T>>;

/// Header and tensors of an operator.
///
/// # Errors
/// As [`Header::of`].
pub fn save<T: Scalar>(op: &Op<T>) -> Result<(Header, Tensors<T>), OpError> {
    let map = op.map();
    let header = Header::of(map)?;
    let values =
        map.params().into_iter().map(|p| (p.name, Tensor::Values(p.shape, p.values.to_vec())));
    let mut tensors: Tensors<T> = values.collect();
    if let (Op::Linear(op), Some(Weight::Half(_))) = (op, map.weight()) {
        let weight = op.to_dense();
        let shape = vec![weight.rows(), weight.cols()];
        tensors.insert("weight".into(), Tensor::Values(shape, weight.into_vec()));
    }
    tensors.extend(map.buffers().into_iter().map(|b| (b.name, Tensor::Indices(b.values.to_vec()))));
    Ok((header, tensors))
}

/// Rebuilds an operator.
///
/// # Errors
/// If the header is invalid, or the tensors do not match it exactly.
pub fn load<T: Scalar>(header: &Header, mut tensors: Tensors<T>) -> Result<Op<T>, OpError> {
    let kind = header.spec.kind();
    let present = tensors.keys().cloned().collect::<Vec<_>>().join(", ");
    let given: u64 = tensors.values().map(Tensor::len).sum();
    header.spec.check_nesting(header.shape)?;
    for (asked, of, slack) in [
        (header.spec.numbers(header.shape), "numbers", SLACK),
        (header.spec.parts(header.shape), "parts", SLACK_PARTS),
    ] {
        if asked > given.saturating_add(slack) {
            let reason = format!("its options need {asked} {of}, the file holds {given} numbers");
            return Err(OpError::Unsupported { kind, shape: header.shape, reason });
        }
    }
    let mut op = header.spec.random::<T>(header.shape, RngKey::new(0))?;
    let mut take = |name: &str| {
        let missing =
            || OpError::MissingTensor { kind, name: name.into(), present: present.clone() };
        tensors.remove(name).ok_or_else(missing)
    };
    let wrong_shape = |name: String, expected: Vec<usize>, found: Vec<usize>| {
        OpError::TensorShape { kind, name, expected, found }
    };
    for param in op.map_mut().params_mut() {
        match take(&param.name)? {
            Tensor::Values(shape, values)
                if shape == param.shape && values.len() == param.values.len() =>
            {
                param.values.copy_from_slice(&values);
            }
            Tensor::Values(shape, _) => return Err(wrong_shape(param.name, param.shape, shape)),
            Tensor::Indices(found) => {
                return Err(wrong_shape(param.name, param.shape, vec![found.len()]));
            }
        }
    }
    for buffer in op.map_mut().buffers_mut() {
        match take(&buffer.name)? {
            Tensor::Indices(values) if values.len() == buffer.values.len() => {
                buffer.values.copy_from_slice(&values);
            }
            Tensor::Indices(found) => {
                return Err(wrong_shape(buffer.name, vec![buffer.values.len()], vec![found.len()]));
            }
            Tensor::Values(shape, _) => {
                return Err(wrong_shape(buffer.name, vec![buffer.values.len()], shape));
            }
        }
    }
    if let Some(name) = tensors.into_keys().next() {
        let mut names: Vec<String> = op.map().params().into_iter().map(|p| p.name).collect();
        names.extend(op.map().buffers().into_iter().map(|b| b.name));
        return Err(OpError::UnknownTensor { kind, name, expected: names.join(", ") });
    }
    op.map().check()?;
    Ok(op)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(layers: usize) -> Header {
        let options = format!(
            r#"{{"kind":"rotor_network","hidden_width":1,"hidden_layers":{layers},"breadth":1}}"#
        );
        Header { spec: serde_json::from_str(&options).unwrap(), shape: Shape { out: 2, inp: 2 } }
    }

    /// Few enough numbers for a file without any, but each in its own rotor.
    #[test]
    fn parts_are_justified_by_what_the_file_holds() {
        let header = network(5000);
        assert!(header.spec.numbers(header.shape) < SLACK);
        let error = load::<f32>(&header, Tensors::new()).unwrap_err().to_string();
        assert!(error.contains("need 5004 parts, the file holds 0 numbers"), "{error}");

        let Header { spec, shape } = network(2000);
        let op = spec.random::<f32>(shape, RngKey::new(0)).unwrap();
        let (header, tensors) = save(&op).unwrap();
        let back = load(&header, tensors.clone()).unwrap();
        assert_eq!(save(&back).unwrap(), (header, tensors));
    }
}
