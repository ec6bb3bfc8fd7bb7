//! Compressors: from the gradient of a layer to a few numbers. A new one is a file here and a line
//! of the list below.
//!
//! A compressor is a recipe for the [`LayerMap`] of each layer. *Flat* ones map the gradient as one
//! vector, *factorised* ones first map its two factors, inputs and gradients of outputs. Sizes are
//! per layer; a layer whose gradient has fewer numbers than a mask should select keeps all.

use crate::layer_map::{LayerMap, LayerShape};
use crate::maps::{Identity, Mask, SparseSigns, VectorMap};
use crate::{AttributeError, Learned};
use linwright_ops::Shape;
use linwright_tensor::RngKey;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What a compressor needs from examples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learns {
    /// Nothing: its numbers are random or fixed.
    Nothing,
    /// Positions of numbers to select.
    Positions {
        /// What they are selected from.
        of: Masked,
        /// Whether the selected numbers are compressed again, so that there are `blow_up` times as
        /// many.
        blown_up: bool,
    },
    /// Principal directions of inputs and of gradients of outputs.
    Directions,
}

/// What a learned mask selects from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Masked {
    /// The gradient as one vector.
    Gradient,
    /// Inputs and gradients of outputs, each the square root of the size.
    Factors,
}

/// A compressor in the list.
trait Compressor {
    /// Its name in options and manifests.
    const NAME: &'static str;
    /// One-line description.
    const ABOUT: &'static str;
    /// What is learned from examples before it can be built.
    const LEARNS: Learns = Learns::Nothing;

    /// The map of a layer.
    fn build(layer: &Layer<'_>) -> Result<LayerMap, AttributeError>;
}

macro_rules! compressors {
    ($($module:ident => $($name:ident),+;)*) => {
        $(mod $module;)*

        /// A kind of compressor.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum CompressorKind {
            $($(#[doc = concat!("See `", stringify!($module), ".rs`.")] $name,)+)*
        }

        impl CompressorKind {
            /// Every kind, in the order of the list.
            pub const ALL: &'static [Self] = &[$($(Self::$name,)+)*];

            /// Its name in options and manifests.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $($(Self::$name => $module::$name::NAME,)+)* }
            }

            /// One-line description.
            #[must_use]
            pub fn about(self) -> &'static str {
                match self { $($(Self::$name => $module::$name::ABOUT,)+)* }
            }

            /// What is learned from examples before it can be built.
            #[must_use]
            pub fn learns(self) -> Learns {
                match self { $($(Self::$name => $module::$name::LEARNS,)+)* }
            }

            /// Whether it needs learned positions or directions.
            #[must_use]
            pub fn is_learned(self) -> bool {
                self.learns() != Learns::Nothing
            }

            fn build(self, layer: &Layer<'_>) -> Result<LayerMap, AttributeError> {
                match self { $($(Self::$name => $module::$name::build(layer),)+)* }
            }
        }
    };
}

compressors! {
    identity => Unchanged;
    mask => RandomMask, SelectiveMask;
    sjlt => Sjlt;
    dense => Gauss, Rademacher;
    srht => Srht;
    grass => Grass, SelectiveGrass;
    factorised_mask => FactorisedMask, SelectiveFactorisedMask;
    factorised_sjlt => FactorisedSjlt;
    factgrass => FactGrass, SelectiveFactGrass;
    logra => Logra, LograRademacher, LograPca;
}

/// Largest number in the text of a compressor.
const MOST: usize = 1 << 24;
/// Largest number of signs per input: drawing more takes longer than the compression.
const MOST_SIGNS: usize = 1 << 12;

/// A compressor with its size, written `KIND[:SIZE][,blow_up=C][,signs=S][,block=B]`, such as
/// `factgrass:4096`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct CompressorSpec {
    /// The kind.
    pub kind: CompressorKind,
    /// Numbers of a compressed gradient, per layer; none without compression.
    pub size: Option<usize>,
    /// Numbers between two stages, relative to the size: 4 unless given.
    pub blow_up: usize,
    /// Signs for each input of an SJLT: 1 unless given, at most 4096.
    pub signs: usize,
    /// Block size of random masks of inputs or gradients of outputs, which select aligned blocks: 1
    /// by default. With 16, a cache line, less memory is read.
    pub block: usize,
}

impl CompressorSpec {
    /// A compressor with standard options.
    #[must_use]
    pub fn new(kind: CompressorKind, size: Option<usize>) -> Self {
        Self { kind, size, blow_up: 4, signs: 1, block: 1 }
    }

    /// The map of a layer, from random numbers of the key and learned indices or directions.
    ///
    /// # Errors
    /// [`AttributeError`] about the layer, if it cannot have such a map.
    pub fn build(
        &self,
        (site, shape): (&str, LayerShape),
        key: CompressorKey,
        learned: Option<&Learned>,
    ) -> Result<LayerMap, AttributeError> {
        let layer = Layer { spec: self, shape, key: key.of_layer(site), learned };
        if shape.numbers() == 0 || shape.numbers() > u32::MAX as usize {
            let found = format!("{} x {} numbers", shape.out, shape.width());
            return Err(layer.refused(format!("{found}; 1 to {} are possible", u32::MAX)))
                .map_err(|error| error.of_layer(site));
        }
        self.kind.build(&layer).map_err(|error| error.of_layer(site))
    }
}

impl fmt::Display for CompressorSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind.name())?;
        let Self { size: Some(size), blow_up, signs, block, .. } = self else { return Ok(()) };
        write!(f, ":{size}")?;
        let standard = Self::new(self.kind, None);
        if *blow_up != standard.blow_up {
            write!(f, ",blow_up={blow_up}")?;
        }
        if *signs != standard.signs {
            write!(f, ",signs={signs}")?;
        }
        if *block != standard.block {
            write!(f, ",block={block}")?;
        }
        Ok(())
    }
}

impl FromStr for CompressorSpec {
    type Err = AttributeError;

    fn from_str(text: &str) -> Result<Self, AttributeError> {
        let refused = |reason: String| AttributeError::Compressor { found: text.into(), reason };
        let (head, options) = text.split_once(',').map_or((text, None), |(a, b)| (a, Some(b)));
        let (name, size) = head.split_once(':').map_or((head, None), |(a, b)| (a, Some(b)));
        let Some(&kind) = CompressorKind::ALL.iter().find(|kind| kind.name() == name) else {
            let names: Vec<&str> = CompressorKind::ALL.iter().map(|kind| kind.name()).collect();
            return Err(refused(format!("expected one of {}", names.join(", "))));
        };
        let bounded = |text: &str, most: usize| match text.parse() {
            Ok(number) if (1..=most).contains(&number) => Ok(number),
            _ => Err(refused(format!("{text:?} is not a number above zero, of at most {most}"))),
        };
        let number = |text: &str| bounded(text, MOST);
        let mut spec = Self::new(kind, size.map(number).transpose()?);
        for option in options.into_iter().flat_map(|options| options.split(',')) {
            match option.split_once('=') {
                Some(("blow_up", value)) => spec.blow_up = number(value)?,
                Some(("signs", value)) => spec.signs = bounded(value, MOST_SIGNS)?,
                Some(("block", value)) => spec.block = number(value)?,
                _ => {
                    let expected = "expected blow_up=C, signs=S or block=B";
                    return Err(refused(format!("option {option:?}; {expected}")));
                }
            }
        }
        match (kind, spec.size) {
            (CompressorKind::Unchanged, Some(_)) => Err(refused("it has no size".into())),
            (CompressorKind::Unchanged, None) | (_, Some(_)) => Ok(spec),
            (_, None) => Err(refused(format!("it needs a size, such as {name}:4096"))),
        }
    }
}

impl From<CompressorSpec> for String {
    fn from(spec: CompressorSpec) -> Self {
        spec.to_string()
    }
}

impl TryFrom<String> for CompressorSpec {
    type Error = AttributeError;

    fn try_from(text: String) -> Result<Self, AttributeError> {
        text.parse()
    }
}

/// Key of the random numbers of a compressor: the same for the same seed and checkpoint on any
/// machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompressorKey {
    /// The user's seed.
    pub seed: u64,
    /// Number of the checkpoint, for ensembles whose members have separate maps.
    pub checkpoint: u64,
}

impl CompressorKey {
    fn of_layer(self, site: &str) -> RngKey {
        RngKey::new(self.seed).fold("attribute").fold(site).fold_index(self.checkpoint)
    }
}

/// The layer of the map.
struct Layer<'a> {
    spec: &'a CompressorSpec,
    shape: LayerShape,
    key: RngKey,
    learned: Option<&'a Learned>,
}

/// The factors and the flattened product of a gradient, whose maps have separate random streams.
#[derive(Clone, Copy)]
enum Role {
    Inp,
    Out,
    Flat,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Self::Inp => "inp",
            Self::Out => "out",
            Self::Flat => "flat",
        }
    }
}

impl Layer<'_> {
    fn refused(&self, reason: String) -> AttributeError {
        AttributeError::Compressor { found: self.spec.to_string(), reason }
    }

    fn size(&self) -> Result<usize, AttributeError> {
        self.spec.size.ok_or_else(|| self.refused("it needs a size".into()))
    }

    /// Numbers between two stages.
    fn blown_up(&self) -> Result<usize, AttributeError> {
        let numbers = self.size()?.checked_mul(self.spec.blow_up);
        numbers.ok_or_else(|| self.refused("its size times blow_up is out of range".into()))
    }

    /// The side of a square of this many numbers.
    fn side(&self, numbers: usize) -> Result<usize, AttributeError> {
        let side = numbers.isqrt();
        if side * side == numbers {
            return Ok(side);
        }
        let (below, above) = (side * side, (side + 1) * (side + 1));
        Err(self.refused(format!(
            "its two factors have the same size, so {numbers} should be a square, such as {below} or {above}"
        )))
    }

    /// Length of the vectors of a role.
    fn length(&self, role: Role) -> usize {
        match role {
            Role::Inp => self.shape.width(),
            Role::Out => self.shape.out,
            Role::Flat => self.shape.numbers(),
        }
    }

    /// Shape of a map of the vectors of a role to `out` numbers.
    fn map_shape(&self, role: Role, out: usize) -> Shape {
        Shape { out, inp: self.length(role) }
    }

    fn key(&self, role: Role, kind: &str) -> RngKey {
        self.key.fold(role.name()).fold(kind)
    }

    fn identity(&self, role: Role) -> Box<dyn VectorMap> {
        Box::new(Identity::new(self.length(role)))
    }

    fn random_mask(&self, role: Role, out: usize) -> Result<Box<dyn VectorMap>, AttributeError> {
        let block = match role {
            Role::Inp | Role::Out => self.spec.block,
            Role::Flat => 1,
        };
        let mask = Mask::random_groups(self.length(role), out, block, self.key(role, "mask"))?;
        Ok(Box::new(mask))
    }

    fn learned(&self) -> Result<&Learned, AttributeError> {
        let missing = || self.refused("nothing was learned for this layer; learn it first".into());
        self.learned.ok_or_else(missing)
    }

    /// The learned mask for a role, of `out` indices or of all.
    fn selective_mask(&self, role: Role, out: usize) -> Result<Box<dyn VectorMap>, AttributeError> {
        let learned = self.learned()?;
        let indices = match role {
            Role::Inp => &learned.inp,
            Role::Out => &learned.out,
            Role::Flat => &learned.flat,
        };
        let name = role.name();
        let indices =
            indices.as_ref().ok_or_else(|| self.refused(format!("no mask {name} was learned")))?;
        let expected = out.min(self.length(role));
        if indices.len() != expected {
            let found = indices.len();
            return Err(self.refused(format!(
                "the mask {name} was learned with {found} indices, expected {expected}"
            )));
        }
        Ok(Box::new(Mask::new(self.length(role), indices.clone())?))
    }

    /// An SJLT of a product of `inp` numbers; none if it would not reduce the size.
    fn second_stage(&self, inp: usize) -> Result<Option<Box<dyn VectorMap>>, AttributeError> {
        let out = self.size()?;
        if inp <= out {
            return Ok(None);
        }
        let key = self.key(Role::Flat, "sjlt");
        Ok(Some(Box::new(SparseSigns::random(Shape { out, inp }, self.spec.signs, key)?)))
    }

    /// A flat compressor: identities of the factors, and these maps.
    fn flat(&self, maps: Vec<Box<dyn VectorMap>>) -> Result<LayerMap, AttributeError> {
        LayerMap::new(self.shape, self.identity(Role::Inp), self.identity(Role::Out), maps)
    }

    /// A factorised compressor, with an SJLT of the product if `is_sketched`.
    fn factorised(
        &self,
        inp: Box<dyn VectorMap>,
        out: Box<dyn VectorMap>,
        is_sketched: bool,
    ) -> Result<LayerMap, AttributeError> {
        let second = match is_sketched {
            true => self.second_stage(inp.out() * out.out())?,
            false => None,
        };
        LayerMap::new(self.shape, inp, out, second.into_iter().collect())
    }
}

#[cfg(test)]
mod tests;
