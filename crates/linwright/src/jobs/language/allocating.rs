//! How parameters are divided over layers, as an option: `--allocate spectrum:align=16`.

use crate::jobs::kit::named::{NameList, Names};
use crate::jobs::kit::terms::{Catalogue, Terms};
use crate::jobs::kit::{Name, bounds};
use linwright_compress::allocate::Allocator;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::LazyLock;

/// What the catalogues have.
const SUMMARY: &str = "how the parameters are divided over the layers";

/// A division over layers that may be measured on text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Allocate {
    /// How the parameters are divided.
    #[schemars(with = "Names<Allocator>")]
    pub allocator: Allocator,
    /// Divided ranks are multiples of this number, and so are the sizes of pruned layers [default:
    /// 8, or 1 if a layer has a side of at most 512; of pruned layers that of the method].
    #[schemars(range(min = 1, max = bounds::FEATURES))]
    pub align: Option<usize>,
}

static ALLOCATE: LazyLock<Catalogue> =
    LazyLock::new(|| Catalogue::with_head::<Allocate>("allocate", "allocator", SUMMARY));

impl Terms for Allocate {
    const NAME: &'static str = "allocate";

    fn catalogue() -> &'static Catalogue {
        &ALLOCATE
    }
}

/// A division over layers that needs no text.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AllocateWeights {
    /// How the parameters are divided.
    #[schemars(with = "Names<OfWeights>")]
    pub allocator: Allocator,
    /// Ranks are multiples of this number [default: 8, or 1 if a layer has a side of at most 512].
    #[schemars(range(min = 1, max = bounds::FEATURES))]
    pub align: Option<usize>,
}

impl Default for AllocateWeights {
    fn default() -> Self {
        Self { allocator: Allocator::Spectrum, align: None }
    }
}

static OF_WEIGHTS: LazyLock<Catalogue> =
    LazyLock::new(|| Catalogue::with_head::<AllocateWeights>("allocate", "allocator", SUMMARY));

impl Terms for AllocateWeights {
    const NAME: &'static str = "allocate_weights";

    fn catalogue() -> &'static Catalogue {
        &OF_WEIGHTS
    }
}

/// Allocators that need no text.
struct OfWeights;

impl NameList for OfWeights {
    fn names() -> Vec<Name> {
        [Allocator::Spectrum, Allocator::Uniform].map(|one| Name::new(one.name())).into()
    }
}
