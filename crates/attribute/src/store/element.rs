//! Number types of stored gradients.

use crate::AttributeError;
use linwright_tensor::dtype::DType;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The number type of stored gradients.
///
/// `f16` and `int8` have a scale for each example and layer, since gradients of a mean over many
/// tokens are below the smallest number of `f16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Element {
    /// 32-bit float: the numbers as computed.
    F32,
    /// bfloat16: 8 bits of precision.
    Bf16,
    /// 16-bit float with a scale, a power of two: 11 bits of precision.
    F16,
    /// 8-bit integer with a scale: the largest number is 127.
    Int8,
}

/// Largest exponent of a scaled number in 16 bits: numbers below 2^15.
const F16_EXPONENT: i32 = 14;

impl Element {
    /// Every type.
    pub const ALL: [Self; 4] = [Self::F32, Self::Bf16, Self::F16, Self::Int8];

    /// Its name in options and manifests.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
            Self::Int8 => "int8",
        }
    }

    /// Bytes of one number.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 | Self::F16 => 2,
            Self::Int8 => 1,
        }
    }

    /// Whether numbers have a scale for each example and layer.
    #[must_use]
    pub fn is_scaled(self) -> bool {
        match self {
            Self::F32 | Self::Bf16 => false,
            Self::F16 | Self::Int8 => true,
        }
    }

    /// Largest rounding error relative to a number; for integers, relative to the deviation of a
    /// row whose largest number is four deviations.
    pub(crate) fn roundoff(self) -> f64 {
        match self {
            Self::F32 => DType::F32.epsilon() / 2.0,
            Self::Bf16 => DType::Bf16.epsilon() / 2.0,
            Self::F16 => DType::F16.epsilon() / 2.0,
            Self::Int8 => 4.0 / 254.0,
        }
    }

    /// Appends the bytes of the numbers of one example and layer, and returns their scale.
    pub(crate) fn encode(self, values: &[f32], bytes: &mut Vec<u8>) -> f32 {
        let most = || values.iter().fold(0.0f32, |most, value| most.max(value.abs()));
        match self {
            Self::F32 => bytes.extend(DType::F32.encode(values)),
            Self::Bf16 => bytes.extend(DType::Bf16.encode(values)),
            Self::F16 => {
                let scale = power_of_two_for(most());
                let scaled: Vec<f32> = values.iter().map(|value| value / scale).collect();
                bytes.extend(DType::F16.encode(&scaled));
                return scale;
            }
            Self::Int8 => {
                let scale = most() / 127.0;
                // A largest number below 127 subnormal steps has no scale: all become zero.
                let factor = if scale > 0.0 { 1.0 / f64::from(scale) } else { 0.0 };
                let round = |value: &f32| (f64::from(*value) * factor).round() as i8;
                bytes.extend(values.iter().map(|value| round(value).cast_unsigned()));
                return scale;
            }
        }
        1.0
    }

    /// Reads the numbers of one example and layer.
    pub(crate) fn decode(self, bytes: &[u8], scale: f32, values: &mut [f32]) {
        match self {
            Self::F32 => DType::F32.decode_into(bytes, values),
            Self::Bf16 => DType::Bf16.decode_into(bytes, values),
            Self::F16 => {
                DType::F16.decode_into(bytes, values);
                values.iter_mut().for_each(|value| *value *= scale);
            }
            Self::Int8 => {
                for (value, byte) in values.iter_mut().zip(bytes) {
                    *value = scale * f32::from(byte.cast_signed());
                }
            }
        }
    }
}

/// The power of two by which numbers up to `most` are divided for 16 bits; 1 for zeros.
fn power_of_two_for(most: f32) -> f32 {
    if most == 0.0 {
        return 1.0;
    }
    let exponent = most.log2().floor() as i32 - F16_EXPONENT;
    // Both a scale and its inverse are normal numbers.
    2f32.powi(exponent.clamp(-126, 126))
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Element {
    type Err = AttributeError;

    fn from_str(text: &str) -> Result<Self, AttributeError> {
        Self::ALL.into_iter().find(|element| element.name() == text).ok_or_else(|| {
            AttributeError::Setting {
                name: "number type of a store",
                found: text.into(),
                expected: "f32, bf16, f16 or int8".into(),
            }
        })
    }
}

impl From<Element> for String {
    fn from(element: Element) -> Self {
        element.name().into()
    }
}

impl TryFrom<String> for Element {
    type Error = AttributeError;

    fn try_from(text: String) -> Result<Self, AttributeError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_tensor::RngKey;

    /// Largest error relative to the largest number.
    fn allowed(element: Element) -> f32 {
        match element {
            Element::F32 => 0.0,
            Element::Bf16 => 1.0 / 256.0,
            Element::F16 => 1.0 / 2048.0,
            Element::Int8 => 0.5 / 127.0 * 1.001,
        }
    }

    #[test]
    fn numbers_of_any_size_come_back_within_the_precision_of_their_type() {
        for element in Element::ALL {
            for size in [1e-30, 1e-9, 1.0, 3e20] {
                let values: Vec<f32> = RngKey::new(1).stream().normals(100, size);
                let mut bytes = Vec::new();
                let scale = element.encode(&values, &mut bytes);
                assert_eq!(bytes.len(), 100 * element.bytes());
                let mut found = vec![0.0; 100];
                element.decode(&bytes, scale, &mut found);
                let most = values.iter().fold(0.0f32, |most, v| most.max(v.abs()));
                for (a, b) in values.iter().zip(&found) {
                    let off = (a - b).abs();
                    assert!(off <= allowed(element) * most, "{element}, {size}: {a}, {b}");
                }
                assert!(found.iter().any(|value| *value != 0.0));
            }
            let (mut bytes, mut found) = (Vec::new(), [1.0; 3]);
            let scale = element.encode(&[0.0; 3], &mut bytes);
            element.decode(&bytes, scale, &mut found);
            assert_eq!(found, [0.0; 3], "{element}");
            assert_eq!(element.name().parse::<Element>().unwrap(), element);
        }
        assert!("fp8".parse::<Element>().unwrap_err().to_string().contains("f32, bf16"));
    }
}
