//! Rotary embeddings: their configuration fields and frequencies.

use super::fields::Fields;
use super::limit;
use crate::error::ConfigError;
use crate::families::{Family, RotaryForm};
use serde_json::{Map, Value, json};
use std::f64::consts::TAU;

/// Field of the base, in objects and in older configurations.
const THETA: &str = "rope_theta";
/// Field of the object, or of the pair of objects.
const PARAMETERS: &str = "rope_parameters";
/// Layer types that may have their own rotary embedding.
const KINDS: [&str; 2] = ["full_attention", "sliding_attention"];

/// Rotary position embedding.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// Base (theta) of the geometric series of wavelengths.
    pub theta: f64,
    /// Number of rotated features of a head: the first ones; even.
    pub features: usize,
    /// Context length of pre-training.
    pub original_positions: usize,
    /// Scaling for long contexts.
    pub scaling: RopeScaling,
}

/// Scaling of the rotary frequencies.
#[derive(Clone, Debug, PartialEq)]
pub enum RopeScaling {
    /// None.
    None,
    /// Linear scaling: all frequencies divided by a factor (Chen et al. 2023, arXiv:2306.15595).
    Linear {
        /// The factor.
        factor: f64,
    },
    /// Dynamic NTK scaling: a larger base for sequences longer than the original context.
    Dynamic {
        /// The factor.
        factor: f64,
    },
    /// Llama 3 scaling: long wavelengths divided by a factor, short ones kept, blended in between
    /// (Dubey et al. 2024, arXiv:2407.21783, section 3.2, in the form of transformers).
    Llama3 {
        /// The factor.
        factor: f64,
        /// Wavelengths above `original_positions / low_freq_factor` are divided.
        low_freq_factor: f64,
        /// Wavelengths below `original_positions / high_freq_factor` are kept.
        high_freq_factor: f64,
    },
    /// YaRN: the same by number of turns, with a temperature (Peng et al. 2023, arXiv:2309.00071).
    Yarn {
        /// The factor.
        factor: f64,
        /// Frequencies with more turns than this over the original context are kept.
        beta_fast: f64,
        /// Frequencies with fewer turns are divided.
        beta_slow: f64,
        /// Whether the borders are rounded to whole features.
        truncate: bool,
        /// Scale of cosines and sines.
        attention_factor: f64,
    },
    /// LongRoPE: a divisor for each frequency, one set for sequences within the original context
    /// and one for longer ones (Ding et al. 2024, arXiv:2402.13753).
    Long {
        /// Divisors within the original context.
        short: Vec<f64>,
        /// Divisors beyond it.
        long: Vec<f64>,
        /// Scale of cosines and sines.
        attention_factor: f64,
    },
}

impl Rope {
    /// The longest sequence, if it differs from the configured one: a dynamic base supports longer
    /// ones.
    pub(super) fn longest(&self) -> Option<usize> {
        match self.scaling {
            RopeScaling::Dynamic { factor } => {
                Some((factor * self.original_positions as f64) as usize)
            }
            _ => None,
        }
    }

    /// The set of frequencies for a sequence of this length: sequences of equal variants share
    /// their frequencies.
    #[must_use]
    pub fn variant(&self, length: usize) -> usize {
        match self.scaling {
            RopeScaling::Dynamic { .. } => length.max(self.original_positions),
            RopeScaling::Long { .. } => usize::from(length > self.original_positions),
            _ => 0,
        }
    }

    /// Radians per position of each pair of features, (features / 2), rounded as in transformers,
    /// for a [variant](Self::variant).
    #[must_use]
    pub fn frequencies(&self, variant: usize) -> Vec<f32> {
        let (features, original) = (self.features as f64, self.original_positions as f64);
        let exponent = |pair: usize| (2 * pair) as f64 / features;
        let plain = |theta: f64, pair: usize| f64::from((1.0 / theta.powf(exponent(pair))) as f32);
        let of = |pair: usize| {
            let frequency = plain(self.theta, pair);
            match &self.scaling {
                RopeScaling::None => frequency,
                RopeScaling::Linear { factor } => frequency / factor,
                RopeScaling::Dynamic { factor } => {
                    let stretch = factor * variant as f64 / original - (factor - 1.0);
                    plain(self.theta * stretch.powf(features / (features - 2.0)), pair)
                }
                RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor } => {
                    let wavelength = TAU / frequency;
                    if wavelength < original / high_freq_factor {
                        frequency
                    } else if wavelength > original / low_freq_factor {
                        frequency / factor
                    } else {
                        let span = high_freq_factor - low_freq_factor;
                        let keep = (original / wavelength - low_freq_factor) / span;
                        (1.0 - keep) * frequency / factor + keep * frequency
                    }
                }
                RopeScaling::Yarn { factor, beta_fast, beta_slow, truncate, .. } => {
                    let [low, high] = self.borders([*beta_fast, *beta_slow], *truncate);
                    let share = ((pair as f64 - low) / (high - low)).clamp(0.0, 1.0);
                    frequency / factor * share + frequency * (1.0 - share)
                }
                RopeScaling::Long { short, long, .. } => {
                    let factors = if variant == 0 { short } else { long };
                    1.0 / (factors[pair] * self.theta.powf(exponent(pair)))
                }
            }
        };
        (0..self.features / 2).map(|pair| of(pair) as f32).collect()
    }

    /// Scale of cosines and sines.
    #[must_use]
    pub fn attention_factor(&self) -> f32 {
        match self.scaling {
            RopeScaling::Yarn { attention_factor, .. }
            | RopeScaling::Long { attention_factor, .. } => attention_factor as f32,
            _ => 1.0,
        }
    }

    /// The range of pairs with `turns` over the original context: pairs before it are kept, those
    /// after it divided.
    fn borders(&self, turns: [f64; 2], truncate: bool) -> [f64; 2] {
        let pair = |turns: f64| {
            let ratio = self.original_positions as f64 / (turns * TAU);
            self.features as f64 * ratio.ln() / (2.0 * self.theta.ln())
        };
        let [mut low, mut high] = turns.map(pair);
        if truncate {
            (low, high) = (low.floor(), high.ceil());
        }
        (low, high) = (low.max(0.0), high.min(self.features as f64 - 1.0));
        // A border of zero width would divide by zero.
        if low == high { [low, high + 0.001] } else { [low, high] }
    }

    /// The object `rope_parameters` of a configuration.
    pub(super) fn to_json(&self, head_dim: usize) -> Value {
        let mut object = json!({
            "rope_theta": self.theta,
            "partial_rotary_factor": self.features as f64 / head_dim as f64,
            "original_max_position_embeddings": self.original_positions,
        });
        let scaling = match &self.scaling {
            RopeScaling::None => json!({ "rope_type": "default" }),
            RopeScaling::Linear { factor } => json!({ "rope_type": "linear", "factor": factor }),
            RopeScaling::Dynamic { factor } => json!({ "rope_type": "dynamic", "factor": factor }),
            RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor } => json!({
                "rope_type": "llama3",
                "factor": factor,
                "low_freq_factor": low_freq_factor,
                "high_freq_factor": high_freq_factor,
            }),
            RopeScaling::Yarn { factor, beta_fast, beta_slow, truncate, attention_factor } => {
                json!({
                    "rope_type": "yarn",
                    "factor": factor,
                    "beta_fast": beta_fast,
                    "beta_slow": beta_slow,
                    "truncate": truncate,
                    "attention_factor": attention_factor,
                })
            }
            RopeScaling::Long { short, long, attention_factor } => json!({
                "rope_type": "longrope",
                "short_factor": short,
                "long_factor": long,
                "attention_factor": attention_factor,
            }),
        };
        if let (Value::Object(object), Value::Object(scaling)) = (&mut object, scaling) {
            object.extend(scaling);
        }
        object
    }
}

/// Sizes that rotary embeddings depend on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) head_dim: usize,
    pub(super) max_positions: usize,
}

/// The fields are `rope_theta` and `rope_scaling`, or, in newer versions of transformers, the
/// object `rope_parameters`; families with windowed layers have one object for each layer type.
pub(super) fn read(
    fields: &Fields<'_>,
    family: &Family,
    sizes: Sizes,
) -> Result<Vec<Rope>, ConfigError> {
    let empty = Map::new();
    let nothing = fields.inner(&empty);
    let scaling = fields.object("rope_scaling")?.filter(|object| !object.is_empty());
    let parameters = fields.object("rope_parameters")?.filter(|object| !object.is_empty());
    let theta =
        |object: &Fields<'_>, outer, usual| match object.optional_number(THETA, 1.0, 1e30)? {
            Some(theta) => Ok(theta),
            None => Ok(fields.optional_number(outer, 1.0, 1e30)?.unwrap_or(usual)),
        };
    let reader = Reader { fields, form: family.rotary, sizes };
    if family.rotary != RotaryForm::ByKind {
        let one = scaling.or(parameters).unwrap_or(nothing);
        if let Some(kind) = KINDS.into_iter().find(|kind| one.has(kind)) {
            let found = format!("an object with a part {kind}");
            let supported = "one object for all layers, as in this family";
            return Err(ConfigError::Unsupported { field: PARAMETERS, found, supported });
        }
        return Ok(vec![reader.one(&one, theta(&one, THETA, 1e4)?)?]);
    }
    let [full, local] = match parameters {
        None => [nothing, nothing],
        Some(both) if KINDS.into_iter().all(|kind| both.has(kind)) && both.len() == 2 => {
            let [full, local] = KINDS.map(|kind| both.object(kind));
            [full?.unwrap_or(nothing), local?.unwrap_or(nothing)]
        }
        Some(_) => {
            return Err(ConfigError::Unsupported {
                field: PARAMETERS,
                found: "no pair of objects".into(),
                supported: "one for each kind of layer, full_attention and sliding_attention",
            });
        }
    };
    if scaling.is_some() && !full.is_empty() {
        return Err(ConfigError::Inconsistent {
            fields: "rope_scaling and rope_parameters",
            reason: "both say how the positions of full layers are scaled; keep one".into(),
        });
    }
    if scaling.is_some_and(|scaling| scaling.has("type") && !scaling.has("rope_type")) {
        return Err(ConfigError::Unsupported {
            field: "rope_scaling",
            found: "a kind under its older name, type".into(),
            supported: "rope_type, the only name supported for this family",
        });
    }
    let full = scaling.unwrap_or(full);
    Ok(vec![
        reader.one(&full, theta(&full, THETA, 1e6)?)?,
        reader.one(&local, theta(&local, "rope_local_base_freq", 1e4)?)?,
    ])
}

/// The context common to all rotary objects of a configuration.
struct Reader<'a, 'b> {
    fields: &'a Fields<'b>,
    form: RotaryForm,
    sizes: Sizes,
}

impl Reader<'_, '_> {
    /// One rotary embedding.
    fn one(&self, object: &Fields<'_>, theta: f64) -> Result<Rope, ConfigError> {
        let field = "original_max_position_embeddings";
        let kind = match object.text("rope_type")? {
            Some(kind) => kind,
            None => object.text("type")?.unwrap_or("default"),
        };
        let original = match self.fields.optional_size(field, limit::POSITIONS)? {
            Some(positions) => Some(positions),
            None => object.optional_size(field, limit::POSITIONS)?,
        };
        // Dynamic scaling starts from the configured longest sequence.
        let original = original.filter(|_| kind != "dynamic").unwrap_or(self.sizes.max_positions);
        let mut rope = Rope {
            theta,
            features: self.features(object, kind)?,
            original_positions: original,
            scaling: RopeScaling::None,
        };
        rope.scaling = self.scaling(object, kind, &rope)?;
        Ok(rope)
    }

    /// Number of rotated features of a head.
    fn features(&self, object: &Fields<'_>, kind: &str) -> Result<usize, ConfigError> {
        let head_dim = self.sizes.head_dim;
        let name = "partial_rotary_factor";
        let share = match object.optional_number(name, 0.0, 1.0)? {
            Some(share) => share,
            None => self.fields.optional_number(name, 0.0, 1.0)?.unwrap_or(1.0),
        };
        let features = match self.form {
            RotaryForm::Features => {
                self.fields.optional_size("rotary_dim", limit::HEAD_DIM)?.unwrap_or(head_dim)
            }
            RotaryForm::Part | RotaryForm::PartLong => (head_dim as f64 * share) as usize,
            RotaryForm::Whole | RotaryForm::ByKind if kind == "default" || share == 1.0 => head_dim,
            RotaryForm::Whole | RotaryForm::ByKind => {
                return Err(ConfigError::Unsupported {
                    field: name,
                    found: share.to_string(),
                    supported: "1, as in this family the whole head rotates",
                });
            }
        };
        if features > head_dim || features == 0 || !features.is_multiple_of(2) {
            return Err(ConfigError::Inconsistent {
                fields: "head_dim, partial_rotary_factor and rotary_dim",
                reason: format!(
                    "{features} of a head's {head_dim} features would rotate; they rotate in pairs"
                ),
            });
        }
        Ok(features)
    }

    fn scaling(
        &self,
        object: &Fields<'_>,
        kind: &str,
        rope: &Rope,
    ) -> Result<RopeScaling, ConfigError> {
        let factor = || object.number("factor", 1.0, 1e6);
        let unsupported = |supported| {
            let found = format!("{kind:?}");
            Err(ConfigError::Unsupported { field: "rope_scaling", found, supported })
        };
        match (kind, self.form) {
            ("default", _) => Ok(RopeScaling::None),
            // Early files of this kind name other methods for the same factors.
            ("longrope" | "su" | "yarn", RotaryForm::PartLong) | ("longrope", _) => {
                read_long(object, rope, self.sizes)
            }
            (_, RotaryForm::PartLong) => unsupported("null, default, longrope"),
            ("linear", _) => Ok(RopeScaling::Linear { factor: factor()? }),
            ("dynamic", _) => Ok(RopeScaling::Dynamic { factor: factor()? }),
            ("llama3", _) => read_llama3(object, factor()?),
            ("yarn", _) => read_yarn(object, rope, self.sizes),
            _ => unsupported("null, default, linear, dynamic, llama3, yarn, longrope"),
        }
    }
}

fn read_llama3(object: &Fields<'_>, factor: f64) -> Result<RopeScaling, ConfigError> {
    let low_freq_factor = object.number("low_freq_factor", 1e-6, 1e6)?;
    let high_freq_factor = object.number("high_freq_factor", 1e-6, 1e6)?;
    if high_freq_factor <= low_freq_factor {
        return Err(ConfigError::Inconsistent {
            fields: "low_freq_factor and high_freq_factor",
            reason: format!("{high_freq_factor} is not above {low_freq_factor}"),
        });
    }
    Ok(RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor })
}

fn read_yarn(object: &Fields<'_>, rope: &Rope, sizes: Sizes) -> Result<RopeScaling, ConfigError> {
    let factor = match object.optional_number("factor", 1.0, 1e6)? {
        Some(factor) => factor,
        None => sizes.max_positions as f64 / rope.original_positions as f64,
    };
    let some = |field| {
        let value = object.optional_number(field, 0.0, 1e6)?;
        Ok::<_, ConfigError>(value.filter(|&value| value > 0.0))
    };
    let own = object.optional_number("attention_factor", 1e-6, 1e6)?;
    let attention_factor =
        yarn_attention_of(factor, own, [some("mscale")?, some("mscale_all_dim")?]);
    Ok(RopeScaling::Yarn {
        factor,
        beta_fast: some("beta_fast")?.unwrap_or(32.0),
        beta_slow: some("beta_slow")?.unwrap_or(1.0),
        truncate: object.flag("truncate", true)?,
        attention_factor,
    })
}

/// The scale of cosines and sines of YaRN that follows from its factor.
pub(crate) fn yarn_attention(factor: f64) -> f64 {
    yarn_temperature(factor, 1.0)
}

fn yarn_temperature(factor: f64, scale: f64) -> f64 {
    if factor <= 1.0 { 1.0 } else { 0.1 * scale * factor.ln() + 1.0 }
}

/// The scale of cosines and sines of YaRN: its own, or that of `mscale` and `mscale_all_dim`, or
/// that of its factor.
pub(crate) fn yarn_attention_of(factor: f64, own: Option<f64>, scales: [Option<f64>; 2]) -> f64 {
    match (own, scales) {
        (Some(own), _) => own,
        (None, [Some(whole), Some(part)]) => {
            yarn_temperature(factor, whole) / yarn_temperature(factor, part)
        }
        (None, _) => yarn_attention(factor),
    }
}

/// The scale of cosines and sines of LongRoPE, for the share of its positions in the original ones.
pub(crate) fn long_attention(factor: f64, original: f64) -> f64 {
    if factor <= 1.0 { 1.0 } else { (1.0 + factor.ln() / original.ln()).sqrt() }
}

fn read_long(object: &Fields<'_>, rope: &Rope, sizes: Sizes) -> Result<RopeScaling, ConfigError> {
    let factors = |field| object.numbers(field, rope.features / 2, 1e-6, 1e6);
    let original = rope.original_positions as f64;
    let factor = match object.optional_number("factor", 1e-6, 1e6)? {
        Some(factor) => factor,
        None => sizes.max_positions as f64 / original,
    };
    let attention_factor = match object.optional_number("attention_factor", 1e-6, 1e6)? {
        Some(factor) => factor,
        None => long_attention(factor, original),
    };
    Ok(RopeScaling::Long {
        short: factors("short_factor")?,
        long: factors("long_factor")?,
        attention_factor,
    })
}
