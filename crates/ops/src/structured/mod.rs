//! The registry of operators. A new one is a file here and a line of the list below.

use crate::{KindOptions, LinearOp, Map, Op, OpError, Shape, Structured, parameter_count};
use linwright_tensor::{RngKey, Scalar};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema, schema_for};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Largest number of values of one operator: those of a dense 32,768 x 32,768 weight.
pub const MAX_NUMBERS: u64 = 1 << 30;

/// Largest number of features of a side: a weight of [`MAX_NUMBERS`] then has 256 on the other.
pub const MAX_FEATURES: usize = 1 << 22;

/// Largest number of parts of one operator: the rotors of a 4,096 x 4,096 weight in chunks of 8,
/// which need more steps than the weight itself.
pub const MAX_PARTS: u64 = 1 << 18;

/// Deepest nesting of operators.
const MAX_DEPTH: usize = 8;

/// Largest number of operators within one, itself included.
const MAX_OPERATORS: usize = 256;

/// Largest ratio of the numbers of an operator to those of a dense weight of its shape.
const MAX_EXCESS: u64 = 64;

/// Numbers allowed for an operator of any shape, since small shapes have a minimal number of
/// parameters.
const FEW_NUMBERS: u64 = 1 << 14;

/// Wraps a linear operator.
fn linear<T: Scalar>(op: impl LinearOp<T> + 'static) -> Op<T> {
    Op::Linear(Box::new(op))
}

/// Wraps a map with a nonlinearity.
fn map<T: Scalar>(op: impl Map<T> + 'static) -> Op<T> {
    Op::Map(Box::new(op))
}

/// A name in the code. A separate type, since serde would otherwise borrow a `&'static str` from
/// its input, even where it is never read.
type Name = &'static str;

/// A row in the listing of kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// See [`Structured::KIND`].
    pub kind: &'static str,
    /// See [`Structured::EQUATION`].
    pub equation: &'static str,
    /// See [`Structured::PARAMETERS`].
    pub parameters: &'static str,
    /// See [`Structured::MACS`].
    pub macs: &'static str,
}

/// A kind with its options; [`OpSpec::schema_of`] has those of each kind.
impl JsonSchema for OpSpec {
    fn schema_name() -> Cow<'static, str> {
        "OpSpec".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "object", "required": ["kind"]})
    }
}

/// Cost of an operator.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// Its options, with shape-dependent defaults filled in.
    pub spec: OpSpec,
    /// Number of trainable parameters.
    pub parameters: usize,
    /// Parameters relative to those of a dense weight.
    pub keep: f64,
    /// See [`Map::macs_per_row`].
    pub macs_per_row: u64,
}

macro_rules! operators {
    ($($module:ident => $name:ident, $class:ident;)*) => {
        $(mod $module; pub use $module::*;)*

        /// Specification of an operator: everything needed to rebuild it, except its parameters.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "kind", rename_all = "snake_case")]
        pub enum OpSpec {
            $(#[doc = concat!("See [`", stringify!($name), "`].")]
            $name(<$name<f32> as Structured<f32>>::Spec),)*
            /// An operator of another crate, which works in slots but cannot be archived, since
            /// nothing here could rebuild it.
            #[serde(skip)]
            External {
                /// Its name in messages.
                name: Name,
            },
        }

        impl OpSpec {
            /// All kinds, in the order of the list.
            pub const KINDS: &'static [&'static str] = &[$(<$name<f32> as Structured<f32>>::KIND),*];

            /// Listing of all kinds, in the order of the list.
            pub const SUMMARIES: &'static [Summary] = &[$(Summary {
                kind: <$name<f32> as Structured<f32>>::KIND,
                equation: <$name<f32> as Structured<f32>>::EQUATION,
                parameters: <$name<f32> as Structured<f32>>::PARAMETERS,
                macs: <$name<f32> as Structured<f32>>::MACS,
            }),*];

            /// Schema of the options of a kind, if there is one of this name.
            #[must_use]
            pub fn schema_of(kind: &str) -> Option<Schema> {
                $(if kind == <$name<f32> as Structured<f32>>::KIND {
                    return Some(schema_for!(<$name<f32> as Structured<f32>>::Spec));
                })*
                None
            }

            /// Tag of this kind.
            #[must_use]
            pub fn kind(&self) -> &'static str {
                match self {
                    $(Self::$name(_) => <$name<f32> as Structured<f32>>::KIND,)*
                    Self::External { name } => name,
                }
            }

            /// Whether operators of this kind are linear; assumed for external ones.
            #[must_use]
            pub fn is_linear(&self) -> bool {
                match self {
                    $(Self::$name(_) => matches!(stringify!($class), "linear"),)*
                    Self::External { .. } => true,
                }
            }

            /// See [`Structured::numbers`]; zero for an external operator.
            #[must_use]
            pub fn numbers(&self, shape: Shape) -> u64 {
                match self {
                    $(Self::$name(spec) => <$name<f32> as Structured<f32>>::numbers(spec, shape),)*
                    Self::External { .. } => 0,
                }
            }

            /// See [`Structured::parts`]; zero for an external operator.
            #[must_use]
            pub fn parts(&self, shape: Shape) -> u64 {
                match self {
                    $(Self::$name(spec) => <$name<f32> as Structured<f32>>::parts(spec, shape),)*
                    Self::External { .. } => 0,
                }
            }

            /// See [`KindOptions::standard`]; none if there is no kind of this name.
            #[must_use]
            pub fn standard(kind: &str) -> Option<Self> {
                $(if kind == <$name<f32> as Structured<f32>>::KIND {
                    return Some(Self::$name(KindOptions::standard()));
                })*
                None
            }

            /// See [`KindOptions::EXPORTED`]; false for an external operator.
            #[must_use]
            pub fn is_exported(&self) -> bool {
                match self {
                    $(Self::$name(_) => {
                        <<$name<f32> as Structured<f32>>::Spec as KindOptions>::EXPORTED
                    })*
                    Self::External { .. } => false,
                }
            }

            /// Kinds of [`KindOptions::EXPORTED`], in the order of the list.
            #[must_use]
            pub fn exported_kinds() -> Vec<&'static str> {
                let mut kinds = Vec::new();
                $(if <<$name<f32> as Structured<f32>>::Spec as KindOptions>::EXPORTED {
                    kinds.push(<$name<f32> as Structured<f32>>::KIND);
                })*
                kinds
            }

            /// See [`KindOptions::COUNTS_INDICES`]; false for an external operator.
            #[must_use]
            pub fn counts_indices(&self) -> bool {
                match self {
                    $(Self::$name(_) => {
                        <<$name<f32> as Structured<f32>>::Spec as KindOptions>::COUNTS_INDICES
                    })*
                    Self::External { .. } => false,
                }
            }

            /// See [`KindOptions::sizes`]; an external operator has one size.
            #[must_use]
            pub fn sizes(&self, shape: Shape) -> Vec<Self> {
                match self {
                    $(Self::$name(spec) => spec.sizes(shape).into_iter().map(Self::$name).collect(),)*
                    Self::External { .. } => vec![self.clone()],
                }
            }

            /// See [`KindOptions::with_rank`]; none for an external operator.
            #[must_use]
            pub fn with_rank(&self, rank: usize) -> Option<Self> {
                match self {
                    $(Self::$name(spec) => spec.with_rank(rank).map(Self::$name),)*
                    Self::External { .. } => None,
                }
            }

            /// See [`KindOptions::shrunk`]; an external operator stays as it is.
            #[must_use]
            pub fn shrunk(&self, by: usize) -> Self {
                match self {
                    $(Self::$name(spec) => Self::$name(spec.shrunk(by)),)*
                    Self::External { .. } => self.clone(),
                }
            }

            /// See [`KindOptions::nested`]; empty for an external operator.
            #[must_use]
            pub fn nested(&self) -> &[Self] {
                match self {
                    $(Self::$name(spec) => spec.nested(),)*
                    Self::External { .. } => &[],
                }
            }

            /// An operator with random parameters, with the distribution of its source.
            ///
            /// # Errors
            /// [`OpError::Unsupported`] if the kind does not support this shape and options, or
            /// exceeds [`MAX_NUMBERS`], [`MAX_PARTS`] or [`MAX_FEATURES`], or many times the
            /// numbers of a dense weight; [`OpError::External`].
            pub fn random<T: Scalar>(&self, shape: Shape, key: RngKey) -> Result<Op<T>, OpError> {
                self.check_nesting(shape)?;
                self.check_size(shape)?;
                match self {
                    $(Self::$name(spec) => {
                        <$name<T> as Structured<T>>::random(spec, shape, key).map($class)
                    })*
                    Self::External { name } => Err(OpError::External { kind: name }),
                }
            }

            /// Small cases of every kind, for the conformance suite.
            #[must_use]
            pub fn examples() -> Vec<(Self, Shape)> {
                let mut all = Vec::new();
                $(all.extend(
                    <$name<f32> as Structured<f32>>::examples()
                        .into_iter()
                        .map(|(spec, shape)| (Self::$name(spec), shape)),
                );)*
                all
            }
        }
    };
}

mod children;
mod circulant_parameters;
mod columns;
mod divisors;
mod initial;
mod rotor_chunks;
mod rotor_columns;
mod rotor_layer;
#[cfg(test)]
mod rotor_oracle;
mod rotor_planes;
mod row_pieces;

pub use rotor_planes::{RotorPlane, rotor_planes};

operators! {
    dense => Dense, linear;
    low_rank => LowRank, linear;
    block_hadamard => BlockHadamard, linear;
    circulant_diagonal => CirculantDiagonal, linear;
    rotor => Rotor, linear;
    rotor_network => RotorNetwork, map;
    kronecker => Kronecker, linear;
    monarch => Monarch, linear;
    butterfly => Butterfly, linear;
    diagonal_low_rank => DiagonalLowRank, linear;
    submatrix => Submatrix, linear;
    sum => Sum, linear;
    product => Product, linear;
}

impl OpSpec {
    /// A kind with its default options.
    ///
    /// # Errors
    /// [`OpError::NoDefault`] if there is no such kind, or it has a required option.
    pub fn default_of(kind: &str) -> Result<Self, OpError> {
        serde_json::from_value(serde_json::json!({ "kind": kind })).map_err(
            |error: serde_json::Error| OpError::NoDefault {
                kind: kind.to_owned(),
                reason: error.to_string(),
            },
        )
    }

    /// Cost of an operator of this shape; the operator is built to count, except for a whole
    /// matrix, whose numbers take long to draw.
    ///
    /// # Errors
    /// As [`Self::random`].
    pub fn cost(&self, shape: Shape) -> Result<Cost, OpError> {
        if let Self::Dense(_) = self {
            self.check_size(shape)?;
            let parameters = shape.dense_parameters();
            let keep = parameters as f64 / parameters.max(1) as f64;
            return Ok(Cost {
                spec: self.clone(),
                parameters,
                keep,
                macs_per_row: parameters as u64,
            });
        }
        let op = self.random::<f32>(shape, RngKey::new(0))?;
        let map = op.map();
        let parameters = parameter_count(&map.params());
        let keep = parameters as f64 / shape.dense_parameters().max(1) as f64;
        Ok(Cost { spec: map.spec(), parameters, keep, macs_per_row: map.macs_per_row() })
    }

    /// Nesting depth: 1 without nested operators.
    #[must_use]
    pub fn depth(&self) -> usize {
        1 + self.nested().iter().map(Self::depth).max().unwrap_or(0)
    }

    /// Number of operators, itself included.
    fn operators(&self) -> usize {
        1 + self.nested().iter().map(Self::operators).sum::<usize>()
    }

    /// Checks the limits of nesting and composition: a file could request any.
    pub(crate) fn check_nesting(&self, shape: Shape) -> Result<(), OpError> {
        let (depth, operators) = (self.depth(), self.operators());
        let reason = if depth > MAX_DEPTH {
            format!("operators are nested {depth} deep, at most {MAX_DEPTH} are possible")
        } else if operators > MAX_OPERATORS {
            format!("it is made of {operators} operators, at most {MAX_OPERATORS} are possible")
        } else {
            return Ok(());
        };
        Err(OpError::Unsupported { kind: self.kind(), shape, reason })
    }

    /// Checks the limits of size: a file could request any.
    fn check_size(&self, shape: Shape) -> Result<(), OpError> {
        let (numbers, parts) = (self.numbers(shape), self.parts(shape));
        let dense = (shape.out as u64).saturating_mul(shape.inp as u64);
        let most = dense.saturating_mul(MAX_EXCESS).max(FEW_NUMBERS);
        let reason = if numbers > MAX_NUMBERS {
            format!("it would hold {numbers} numbers, at most {MAX_NUMBERS} are possible")
        } else if parts > MAX_PARTS {
            format!(
                "it would be made of {parts} parts (rotors, factors, terms), at most {MAX_PARTS} \
                 are possible; ask for fewer or larger ones"
            )
        } else if shape.out.max(shape.inp) > MAX_FEATURES {
            format!("a side has at most {MAX_FEATURES} features")
        } else if numbers > most {
            format!(
                "it would hold {numbers} numbers, a dense weight holds {dense}; at most {most} are \
                 possible"
            )
        } else {
            return Ok(());
        };
        Err(OpError::Unsupported { kind: self.kind(), shape, reason })
    }

    /// Name of an external operator, if this is one or contains one.
    #[must_use]
    pub fn external(&self) -> Option<&'static str> {
        if let Self::External { name } = self {
            return Some(name);
        }
        self.nested().iter().find_map(Self::external)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_the_options_and_costs_are_counted() {
        let shape = Shape { out: 512, inp: 2048 };
        let cost = OpSpec::default_of("dense").unwrap().cost(shape).unwrap();
        assert_eq!((cost.parameters, cost.macs_per_row, cost.keep), (1 << 20, 1 << 20, 1.0));
        let cost = OpSpec::default_of("monarch").unwrap().cost(shape).unwrap();
        assert_eq!(cost.spec, OpSpec::Monarch(MonarchSpec { blocks: Some(32) }));
        assert_eq!((cost.parameters, cost.keep), (49_152, 49_152.0 / 1_048_576.0));
        let error = OpSpec::default_of("low_rank").unwrap_err().to_string();
        assert_eq!(error, "low_rank has no default options: missing field `rank`");
        assert!(OpSpec::default_of("wavelet").unwrap_err().to_string().contains("wavelet"));
        assert!(OpSpec::default_of("butterfly").unwrap().cost(shape).is_err());
    }

    /// Number of values of these options, in parts of one number or a few.
    #[test]
    fn parts_are_bounded_beside_numbers() {
        let network = r#"{"kind":"rotor_network","hidden_width":1,"hidden_layers":140000}"#;
        let wide = r#"{"kind":"rotor_network","hidden_width":1,"breadth":32768,"#;
        for (json, side, parts) in [
            (format!(r#"{wide}"hidden_layers":8192}}"#), 4, (1 << 28) + 8),
            (format!(r#"{wide}"hidden_layers":1,"proj_parallel":true}}"#), 8, 9 * (1 << 15) + 8),
            (r#"{"kind":"rotor","chunk":1}"#.into(), 1 << 14, 1 << 28),
            (r#"{"kind":"block_hadamard","depth":536870912,"blocks":1}"#.into(), 1, 1 << 29),
            (r#"{"kind":"circulant_diagonal","factors":134217728}"#.into(), 1, 1 << 27),
            (r#"{"kind":"butterfly","factors":134217728}"#.into(), 2, 1 << 27),
            (r#"{"kind":"kronecker","terms":268435456}"#.into(), 1, 1 << 28),
            (format!(r#"{{"kind":"sum","terms":[{network},{network}]}}"#), 4, 2 * (420_000 + 8)),
            (format!(r#"{{"kind":"product","factors":[{network}]}}"#), 4, 420_000 + 8),
        ] {
            let (spec, shape): (OpSpec, _) =
                (serde_json::from_str(&json).unwrap(), Shape { out: side, inp: side });
            assert!(spec.numbers(shape) <= MAX_NUMBERS, "{json}: {}", spec.numbers(shape));
            assert_eq!(spec.parts(shape), parts, "{json}");
            let error = spec.random::<f32>(shape, RngKey::new(0)).unwrap_err().to_string();
            let said = format!("it would be made of {parts} parts");
            assert!(error.contains(&said) && error.contains("at most 262144"), "{error}");
        }
    }

    #[test]
    fn numbers_are_bounded_by_those_of_the_weight() {
        let shape = Shape { out: 8, inp: 8 };
        let hadamard = r#"{"kind":"block_hadamard","depth":65536}"#;
        for (json, numbers) in [
            (r#"{"kind":"circulant_diagonal","factors":4096}"#.to_owned(), 65_528),
            (hadamard.to_owned(), 65_535 * 64 + 8),
            (format!(r#"{{"kind":"product","factors":[{hadamard}]}}"#), 65_535 * 64 + 8),
            (r#"{"kind":"low_rank","rank":2048}"#.to_owned(), 2048 * 16),
        ] {
            let spec: OpSpec = serde_json::from_str(&json).unwrap();
            let error = spec.random::<f32>(shape, RngKey::new(0)).unwrap_err().to_string();
            for said in ["a dense weight holds 64", "at most 16384 are possible"] {
                assert!(error.contains(said), "{json}: {error}");
            }
            assert!(spec.numbers(shape) >= numbers, "{json}: {}", spec.numbers(shape));
            assert!(spec.cost(shape).is_err(), "{json}");
        }
        for json in
            [r#"{"kind":"circulant_diagonal","factors":64}"#, r#"{"kind":"low_rank","rank":8}"#]
        {
            let spec: OpSpec = serde_json::from_str(json).unwrap();
            spec.random::<f32>(shape, RngKey::new(0)).unwrap();
        }
    }

    #[test]
    fn features_are_bounded_where_numbers_are_few() {
        for (json, out, inp, said) in [
            (r#"{"kind":"rotor"}"#, 1 << 26, 1 << 16, "a side has at most 4194304 features"),
            (
                r#"{"kind":"rotor_network","hidden_width":8388608,"hidden_layers":0}"#,
                1024,
                1024,
                "2 rotors of 8388608 hidden features; at most 4194304 features",
            ),
            (
                r#"{"kind":"rotor_network","hidden_width":100000,"hidden_layers":20000,"breadth":1,"permute":false}"#,
                100_000,
                100_000,
                "20002 rotors of 100000 hidden features",
            ),
        ] {
            let (spec, shape): (OpSpec, _) =
                (serde_json::from_str(json).unwrap(), Shape { out, inp });
            let error = spec.random::<f32>(shape, RngKey::new(0)).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn kinds_are_linear_as_their_operators_are() {
        for (spec, shape) in OpSpec::examples() {
            let op = spec.random::<f32>(shape, RngKey::new(0)).unwrap();
            assert_eq!(spec.is_linear(), matches!(op, Op::Linear(_)), "{}", spec.kind());
        }
    }

    #[test]
    fn every_kind_has_sizes_a_standard_and_smaller_options() {
        let square = |side| Shape { out: side, inp: side };
        let builds = |spec: &OpSpec, side| spec.random::<f32>(square(side), RngKey::new(0)).is_ok();
        for kind in OpSpec::KINDS {
            let standard = OpSpec::standard(kind).unwrap();
            let (sizes, half) = (standard.sizes(square(64)), standard.shrunk(2));
            assert!(sizes.iter().chain([&standard, &half]).all(|spec| spec.kind() == *kind));
            assert!(sizes.iter().any(|spec| builds(spec, 64)), "{kind} has no size");
            assert!(builds(&standard, 64) && builds(&half, 32), "{standard:?}, {half:?}");
        }
        assert_eq!(OpSpec::standard("no_such_kind"), None);
    }

    #[test]
    fn options_that_have_a_rank_or_operators_inside_say_so() {
        let standard = OpSpec::KINDS.iter().filter_map(|kind| OpSpec::standard(kind));
        for spec in standard.chain(OpSpec::examples().into_iter().map(|(spec, _)| spec)) {
            let json = serde_json::to_string(&spec).unwrap();
            assert_eq!(json.matches("\"kind\"").count(), spec.operators(), "{json}");
            let Some(ranked) = spec.with_rank(5) else {
                assert!(!json.contains("\"rank\""), "{json}");
                continue;
            };
            assert!(serde_json::to_string(&ranked).unwrap().contains("\"rank\":5"), "{ranked:?}");
        }
    }

    #[test]
    fn every_kind_says_what_it_is() {
        let kinds: Vec<&str> = OpSpec::SUMMARIES.iter().map(|summary| summary.kind).collect();
        assert_eq!(kinds, OpSpec::KINDS);
        for Summary { kind, equation, parameters, macs } in OpSpec::SUMMARIES {
            for text in [equation, parameters, macs] {
                assert!(!text.is_empty() && text.is_ascii() && text.len() < 60, "{kind}: {text}");
            }
        }
    }
}
