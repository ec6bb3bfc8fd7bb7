//! Data attribution: which training examples made a network answer as it does.
//!
//! The gradient of each example at the linear layers of a network is compressed as it is born
//! ([`compressors`], of the [`maps`] of vectors), by a probe in a backward pass that forms no
//! gradient of a weight.
//! Nothing here prints or changes a network.

mod cache;
mod capture;
pub mod compressors;
mod curvature;
mod documents;
mod error;
mod examples;
#[cfg(test)]
mod golden;
mod gradient_map;
mod images;
mod influence;
mod layer_map;
mod learn;
pub mod map_file;
pub mod maps;
pub mod store;
#[cfg(test)]
mod tests;
mod top;

pub use cache::{CacheEstimate, CacheOptions, Cached, cache, estimate};
pub use capture::{Gradients, gradients};
pub use compressors::{CompressorKey, CompressorKind, CompressorSpec};
pub use curvature::{Curvature, Damping};
pub use documents::Documents;
pub use error::AttributeError;
pub use examples::{ExampleBatch, Examples, NO_TARGET, Reduction};
pub use gradient_map::{GradientMap, LeftOut, MappedLayer, shape_of};
pub use images::Classified;
pub use influence::{Attribution, Comparison, ComparisonKind};
pub use layer_map::{LayerMap, LayerShape};
pub use learn::{Learned, MaskLearning, learn_masks, principal_directions};
pub use store::{Element, GradientStore, Sources, StoreOptions};
pub use top::{Scored, Top};
