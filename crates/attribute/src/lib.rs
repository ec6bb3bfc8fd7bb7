//! Data attribution: finding the training examples that influenced an answer of a network.
//!
//! The gradient of each example at the linear layers of a network is compressed on the fly
//! ([`compressors`], built from the [`maps`] of vectors), by a probe in a backward pass that forms
//! no gradient of a weight. Nothing here prints or changes a network.

mod baselines;
mod cache;
mod capture;
pub mod compressors;
mod curvature;
mod damping;
mod documents;
mod error;
mod examples;
#[cfg(test)]
mod golden;
mod gradient_map;
mod images;
mod influence;
mod kronecker;
mod layer_map;
mod learn;
pub mod map_file;
pub mod maps;
mod method;
mod moments;
mod quality;
mod saved;
pub mod store;
mod target;
#[cfg(test)]
mod tests;
mod top;
mod trak;
mod values;

pub use baselines::{Bm25, embeddings};
pub use cache::{CacheEstimate, CacheOptions, Cached, cache, estimate};
pub use capture::{Gradients, gradients, gradients_by_row};
pub use compressors::{CompressorKey, CompressorKind, CompressorSpec, Learns, Masked};
pub use curvature::Curvature;
pub use damping::Damping;
pub use documents::Documents;
pub use error::AttributeError;
pub use examples::{ExampleBatch, Examples, NO_TARGET, Reduction};
pub use gradient_map::{GradientMap, LeftOut, MappedLayer, shape_of};
pub use images::Classified;
pub use influence::{Attribution, Comparison, Geometry, Prepared};
pub use kronecker::Kronecker;
pub use layer_map::{LayerMap, LayerShape};
pub use learn::{Learned, MaskLearning, learn_masks, principal_directions};
pub use method::Method;
pub use moments::{Moments, moments};
pub use quality::{datamodelling_scores, detection_area, precision_and_recall};
pub use store::{Element, GradientStore, Sources, StoreOptions};
pub use target::{Objective, Target};
pub use top::{Scored, Top};
pub use trak::Trak;
pub use values::values;
