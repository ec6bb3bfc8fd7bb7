//! Residual branches.

use super::{Layer, LayerSpec};
use crate::build::Builder;
use crate::chain::Chain;
use crate::step::{Back, Kept, Pass, Step};
use crate::{Extent, NetError};
use linwright_tensor::kernels::elementwise::add;
use linwright_tensor::{Mat, Scalar};
use serde::{Deserialize, Serialize};

/// The sum of its input and the output of these layers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Residual {
    /// The layers.
    pub layers: Vec<LayerSpec>,
}

impl Layer for Residual {
    fn output(&self, input: Extent, chain: &mut Chain) -> Result<Extent, NetError> {
        let inner = chain.inside(&self.layers, input)?;
        if inner == input {
            return Ok(input);
        }
        let found = format!("its layers turn {input} into {inner}");
        Err(chain.refuse(found, "the same extent"))
    }

    fn build<T: Scalar>(&self, builder: &mut Builder<'_, T>) -> Result<(), NetError> {
        builder.push(Branch);
        builder.inside(&self.layers)?;
        builder.push(Join);
        Ok(())
    }
}

/// The start of a residual branch.
#[derive(Clone, Debug)]
struct Branch;

impl<T: Scalar> Step<T> for Branch {
    fn clone_step(&self) -> Box<dyn Step<T>> {
        Box::new(Self)
    }

    fn forward(&self, x: Mat<T>, pass: &mut Pass<'_, T>) -> (Mat<T>, Kept<T>) {
        pass.stack.push(x.clone());
        (x, Kept::default())
    }

    fn backward(&self, mut dy: Mat<T>, _kept: Kept<T>, back: &mut Back<'_, T>) -> Mat<T> {
        let beside = back.stack.pop().expect("the backward pass has reached the end of the branch");
        add(dy.data_mut(), beside.data());
        back.ws.give(beside);
        dy
    }
}

/// The end of a residual branch, where its input is added.
#[derive(Clone, Debug)]
struct Join;

impl<T: Scalar> Step<T> for Join {
    fn clone_step(&self) -> Box<dyn Step<T>> {
        Box::new(Self)
    }

    fn forward(&self, mut x: Mat<T>, pass: &mut Pass<'_, T>) -> (Mat<T>, Kept<T>) {
        let beside = pass.stack.pop().expect("the state is of this stage");
        add(x.data_mut(), beside.data());
        pass.ws.give(beside);
        (x, Kept::default())
    }

    fn backward(&self, dy: Mat<T>, _kept: Kept<T>, back: &mut Back<'_, T>) -> Mat<T> {
        back.stack.push(dy.clone());
        dy
    }
}
