//! Learned parts of compressors: masks and principal directions.

mod directions;
mod masks;
mod objective;

pub use directions::principal_directions;
#[cfg(test)]
pub(crate) use masks::largest;
pub use masks::{MaskLearning, learn_masks};
#[cfg(test)]
pub(crate) use objective::{MaskObjective, Pattern};

use linwright_tensor::Mat;

/// What was learned of a layer; each is there if it was learned.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Learned {
    /// Chosen columns of the gradient.
    pub inp: Option<Vec<u32>>,
    /// Chosen rows of the gradient.
    pub out: Option<Vec<u32>>,
    /// Chosen entries of the flat gradient.
    pub flat: Option<Vec<u32>>,
    /// Eigenvectors of the moment of inputs, as columns, those of the largest eigenvalues first.
    pub inp_directions: Option<Mat<f32>>,
    /// The same of gradients of outputs.
    pub out_directions: Option<Mat<f32>>,
}
