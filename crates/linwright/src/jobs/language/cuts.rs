//! Options of interventions (cuts).

use crate::jobs::kit::JobError;
use crate::jobs::kit::SizeText;
use crate::jobs::kit::StatePath;
use crate::jobs::kit::bounds;
use crate::jobs::kit::named::Names;
use crate::jobs::kit::terms::{Catalogue, Terms, WithOptions};
use linwright_compress::Size;
use linwright_compress::intervention::{
    Decomposition, FusedPart, Intervention, Storage, VendiOptions,
};
use linwright_compress::methods::LaserMethod;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::LazyLock;

/// An intervention, and how it is computed: as the options of the method `laser`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Cut {
    /// The removed part.
    #[schemars(with = "Names<Intervention>")]
    pub intervention: Intervention,
    /// Computation of components: `exact`, or `randomised`, which computes only the leading ones;
    /// `{randomised: {oversample: 8, power: 2}}` has numbers of its own.
    pub decomposition: Decomposition,
    /// Storage of an edited weight; `auto` stores factors where they have fewer parameters.
    #[schemars(with = "Names<Storage>")]
    pub storage: Storage,
    /// Reproduce the paper's code where it differs, including its defects.
    pub compat: bool,
    /// Prefer rows of small norm (vendi).
    pub quality: bool,
    /// Choose the most similar rows instead of the most diverse (vendi).
    pub minimise: bool,
    /// Parameter gamma of the Gaussian kernel of rows (vendi) [default: from the median distance].
    #[schemars(range(min = 0.0, max = bounds::SCALE))]
    pub gamma: Option<f64>,
    /// Part of fused weights to cut: query, key or value of one matrix of all three, gate or up of
    /// one of both; the rest stays, so the model gets no smaller. Of all such weights, unless some
    /// are named. `sweep` tries several parts, each by itself; other commands take one.
    #[schemars(with = "Vec<Names<FusedPart>>")]
    pub part: Vec<FusedPart>,
}

static CUTS: LazyLock<Catalogue> = LazyLock::new(|| {
    Catalogue::with_head::<Cut>(
        INTERVENTION,
        INTERVENTION,
        "what is removed from a weight, and how",
    )
});

/// Name of the option and of its catalogue.
const INTERVENTION: &str = "intervention";

impl Terms for Cut {
    const NAME: &'static str = INTERVENTION;

    fn catalogue() -> &'static Catalogue {
        &CUTS
    }
}

/// Kind and sizes of an intervention, and how it is computed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CutOptions {
    /// What is removed, with how it is computed: `rank-reduction`, `bottom-k`, `random-k`,
    /// `dropout`, `zero` or `vendi`, such as `vendi:quality` or `rank-reduction:part=key`.
    /// `linwright ls keys COMMAND` lists the keys.
    #[schemars(extend("x-value" = "NAME:KEY=VALUE"))]
    pub intervention: WithOptions<Cut>,
    /// Share of the parameters to keep.
    #[schemars(extend("x-value" = "SHARE"))]
    #[schemars(inner(range(min = 0.0, max = 1.0)))]
    pub keep: Vec<f64>,
    /// Number of components, or of rows, to keep.
    #[schemars(extend("x-value" = "R"))]
    #[schemars(inner(range(min = 0, max = bounds::FEATURES)))]
    pub rank: Vec<usize>,
    /// Sizes in other units: `rate=9.9,9` as in LASER (keep (10 - rate) / 10 of the full rank),
    /// `rho=0.5` (share of the full rank), `energy=0.9` (the fewest components with this share of
    /// the squared singular values), `mp` (components above the Marchenko–Pastur edge of a random
    /// matrix), `keep=0.8`, `rank=64`.
    #[schemars(extend("x-value" = "UNIT=N"))]
    pub size: Vec<SizeText>,
    /// Seed of random numbers.
    #[schemars(range(min = 0, max = bounds::SEED))]
    pub seed: u64,
    /// Store of decompositions and other finished pieces [default: $LINWRIGHT_STORE, or
    /// linwright/store in $XDG_CACHE_HOME or ~/.cache].
    #[schemars(extend("x-value" = "DIR", "x-conflicts" = ["no_cache"]))]
    pub cache: Option<StatePath>,
    /// Neither read nor store decompositions of weights.
    pub no_cache: bool,
}

impl CutOptions {
    /// Every given size.
    ///
    /// # Errors
    /// [`JobError`] if none is given, one is given twice, or one is out of its range.
    pub fn sizes(&self) -> Result<Vec<Size>, JobError> {
        let mut sizes: Vec<Size> = self.size.iter().map(|size| size.0).collect();
        sizes.extend(self.keep.iter().copied().map(Size::Keep));
        sizes.extend(self.rank.iter().copied().map(Size::Rank));
        if sizes.is_empty() && self.intervention.intervention == Intervention::Zero {
            return Ok(vec![Size::Rate(10.0)]);
        }
        if sizes.is_empty() {
            return Err(JobError::new("no size is given: how much of the weights is kept?")
                .hint("give --keep, --rank or --size, such as --size rate=9"));
        }
        for size in &sizes {
            size.check().map_err(|error| JobError::new(error.to_string()))?;
        }
        for (index, size) in sizes.iter().enumerate() {
            if sizes[..index].contains(size) {
                return Err(JobError::new(format!("{size} is given twice")));
            }
        }
        Ok(sizes)
    }

    /// The part of fused weights to cut, if one is given.
    ///
    /// # Errors
    /// [`JobError`] if several are.
    pub fn single_part(&self) -> Result<Option<FusedPart>, JobError> {
        match self.intervention.part.as_slice() {
            [] => Ok(None),
            [part] => Ok(Some(*part)),
            several => {
                let names: Vec<&str> = several.iter().map(|part| part.name()).collect();
                let message = format!("{} are several parts, expected one", names.join(", "));
                Err(JobError::new(message).hint("`linwright sweep` cuts each of them"))
            }
        }
    }

    /// The intervention with its options, for whole weights.
    #[must_use]
    pub fn method(&self) -> LaserMethod {
        let Cut { intervention, decomposition, storage, compat, .. } = *self.intervention;
        let Cut { quality, minimise, gamma, .. } = *self.intervention;
        let vendi = VendiOptions { quality, minimise, gamma };
        LaserMethod { intervention, decomposition, storage, compat, vendi, part: None }
    }
}
