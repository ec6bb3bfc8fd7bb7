//! Nested operators: building, naming and checking the children of sums and products.

use super::OpSpec;
use crate::{Buffer, BufferMut, Op, OpError, Param, ParamMut, Shape};
use linwright_tensor::{RngKey, Scalar};

/// Total of a count over the children. Saturates.
pub(super) fn total(children: Vec<(&OpSpec, Shape)>, count: fn(&OpSpec, Shape) -> u64) -> u64 {
    children.into_iter().fold(0, |all, (spec, shape)| all.saturating_add(count(spec, shape)))
}

/// Children of all sizes: those of the last one that has several, next to the others as they are.
/// The given ones if none has several.
pub(super) fn sizes(children: &[OpSpec], shapes: &[Shape]) -> Vec<Vec<OpSpec>> {
    for (place, (child, shape)) in children.iter().zip(shapes).enumerate().rev() {
        let sizes = child.sizes(*shape);
        if sizes.len() > 1 {
            let put = |child: OpSpec| {
                let mut children = children.to_vec();
                children[place] = child;
                children
            };
            return sizes.into_iter().map(put).collect();
        }
    }
    vec![children.to_vec()]
}

/// Children with another rank of the last one that has a rank; none if none has.
pub(super) fn with_rank(children: &[OpSpec], rank: usize) -> Option<Vec<OpSpec>> {
    let ranked = |(place, child): (usize, &OpSpec)| Some((place, child.with_rank(rank)?));
    let (place, ranked) = children.iter().enumerate().rev().find_map(ranked)?;
    let mut children = children.to_vec();
    children[place] = ranked;
    Some(children)
}

/// Kind, shape and the word for a child: `term` or `factor`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parent {
    pub kind: &'static str,
    pub shape: Shape,
    pub child: &'static str,
}

impl Parent {
    pub(super) fn refuse(self, reason: String) -> OpError {
        OpError::Unsupported { kind: self.kind, shape: self.shape, reason }
    }

    /// Random children of these specifications and shapes.
    pub(super) fn build<T: Scalar>(
        self,
        children: &[(&OpSpec, Shape)],
        key: RngKey,
    ) -> Result<Vec<Op<T>>, OpError> {
        let build = |(k, (spec, shape)): (usize, &(&OpSpec, Shape))| {
            spec.random(*shape, key.fold(self.child).fold_index(k as u64))
                .map_err(|error| self.refuse(format!("{} {k}: {error}", self.child)))
        };
        let built = children.iter().enumerate().map(build).collect::<Result<Vec<_>, _>>()?;
        self.check_linear(&built)?;
        Ok(built)
    }

    /// Checks that there are children and that all are linear.
    pub(super) fn check_linear<T: Scalar>(self, children: &[Op<T>]) -> Result<(), OpError> {
        if children.is_empty() {
            return Err(self.refuse(format!("it needs at least one {}", self.child)));
        }
        for (k, child) in children.iter().enumerate() {
            if let Op::Map(map) = child {
                let kind = map.spec().kind();
                return Err(self.refuse(format!("{} {k}, {kind}, is not linear", self.child)));
            }
        }
        Ok(())
    }

    /// Errors of the children's checks, with their nested names.
    pub(super) fn check<T: Scalar>(self, children: &[Op<T>]) -> Result<(), OpError> {
        for (k, child) in children.iter().enumerate() {
            child.map().check().map_err(|error| {
                if let OpError::InvalidValues { name, reason, .. } = error {
                    let name = self.name(k, &name);
                    OpError::InvalidValues { kind: self.kind, name, reason }
                } else {
                    error
                }
            })?;
        }
        Ok(())
    }

    fn name(self, k: usize, name: &str) -> String {
        format!("{}{k}.{name}", self.child)
    }

    pub(super) fn params<T: Scalar>(self, children: &[Op<T>]) -> Vec<Param<'_, T>> {
        let mut all = Vec::new();
        for (k, child) in children.iter().enumerate() {
            let params = child.map().params().into_iter();
            all.extend(params.map(|p| Param { name: self.name(k, &p.name), ..p }));
        }
        all
    }

    pub(super) fn params_mut<T: Scalar>(self, children: &mut [Op<T>]) -> Vec<ParamMut<'_, T>> {
        let mut all = Vec::new();
        for (k, child) in children.iter_mut().enumerate() {
            let params = child.map_mut().params_mut().into_iter();
            all.extend(params.map(|p| ParamMut { name: self.name(k, &p.name), ..p }));
        }
        all
    }

    pub(super) fn buffers<T: Scalar>(self, children: &[Op<T>]) -> Vec<Buffer<'_>> {
        let mut all = Vec::new();
        for (k, child) in children.iter().enumerate() {
            let buffers = child.map().buffers().into_iter();
            all.extend(buffers.map(|b| Buffer { name: self.name(k, &b.name), ..b }));
        }
        all
    }

    pub(super) fn buffers_mut<T: Scalar>(self, children: &mut [Op<T>]) -> Vec<BufferMut<'_>> {
        let mut all = Vec::new();
        for (k, child) in children.iter_mut().enumerate() {
            let buffers = child.map_mut().buffers_mut().into_iter();
            all.extend(buffers.map(|b| BufferMut { name: self.name(k, &b.name), ..b }));
        }
        all
    }
}
