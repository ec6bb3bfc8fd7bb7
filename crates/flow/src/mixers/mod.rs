//! Operators that mix channels, one file each.
//!
//! A [`MixSpec`] is the text of an option, such as `cd:2` or `plu`. Every kind is a linear operator
//! with inverse and determinant, so [`crate::Mixing`] does not depend on the kinds. A new one is a
//! file with `FORM`, `ABOUT` and `build`, and a word in the list below.

mod butterfly;
mod cd;
mod dense;
mod explicit;
mod exponential;
mod householder;
mod permutation;
mod plu;
mod rotor;
#[cfg(test)]
mod tests;
mod woodbury;

use crate::FlowError;
use linwright_ops::{LinearOp, Op, OpError, OpSpec, Shape};
use linwright_run::shown;
use linwright_tensor::{Mat, RngKey, Scalar, linalg};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Most channels of a kind whose matrix is formed.
const MOST_FORMED: usize = 1024;

/// A kind of operator for listings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MixKind {
    /// Its name, the first word of a [`MixSpec`].
    pub name: &'static str,
    /// The form of its text.
    pub form: &'static str,
    /// What it is, in a few words.
    pub about: &'static str,
}

/// Options behind the name of a kind.
struct Words<'a>(&'a [&'a str]);

impl Words<'_> {
    /// The number at a place, or a default; between one and a limit.
    fn count(&self, at: usize, default: usize, most: usize) -> Result<usize, String> {
        let Some(word) = self.0.get(at) else { return Ok(default.min(most)) };
        let count = word.parse().ok().filter(|count| (1..=most).contains(count));
        count.ok_or_else(|| format!("\"{}\" is not a number from 1 to {most}", shown(word)))
    }

    /// Refuses options beyond the first `most`.
    fn at_most(&self, most: usize) -> Result<(), String> {
        match self.0.get(most) {
            None => Ok(()),
            Some(word) => Err(format!("\"{}\" is one option too many", shown(word))),
        }
    }
}

macro_rules! mixers {
    ($($kind:ident,)*) => {
        /// All kinds, in the order of the list.
        pub const MIX_KINDS: &[MixKind] = &[$(MixKind {
            name: stringify!($kind),
            form: $kind::FORM,
            about: $kind::ABOUT,
        }),*];

        /// Builds the operator of a kind; the error is the reason in words.
        fn build<T: Scalar>(
            name: &str,
            words: &Words<'_>,
            channels: usize,
            key: RngKey,
        ) -> Result<Op<T>, String> {
            match name {
                $(stringify!($kind) => $kind::build(words, channels, key),)*
                _ => Err(format!("there is no kind \"{}\"", shown(name))),
            }
        }

        /// Numbers and indices of the operator of a kind, at least.
        fn least_numbers(name: &str, words: &Words<'_>, channels: u64) -> u64 {
            match name {
                $(stringify!($kind) => $kind::least_numbers(words, channels),)*
                _ => 0,
            }
        }
    };
}

mixers! {
    cd,
    dense,
    plu,
    permutation,
    householder,
    exponential,
    rotor,
    woodbury,
    butterfly,
}

/// The operator that mixes the channels of a flow, as text: a kind and its options.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MixSpec(String);

impl MixSpec {
    /// Reads the text of an option, such as `cd:2`.
    ///
    /// # Errors
    /// [`FlowError::Option`] for an unknown kind or option.
    pub fn parse(text: &str) -> Result<Self, FlowError> {
        let spec = Self(text.trim().to_owned());
        let name = spec.words().0;
        if MIX_KINDS.iter().any(|kind| kind.name == name) {
            return Ok(spec);
        }
        Err(spec.refuse(format!("there is no kind \"{}\"", shown(name))))
    }

    /// Its kind, and the words behind it.
    fn words(&self) -> (&str, Vec<&str>) {
        let mut words = self.0.split(':');
        (words.next().unwrap_or_default(), words.collect())
    }

    fn refuse(&self, found: impl fmt::Display) -> FlowError {
        let forms: Vec<&str> = MIX_KINDS.iter().map(|kind| kind.form).collect();
        FlowError::Option {
            option: "layer",
            found: format!("{}: {found}", shown(&self.0)),
            expected: forms.join(", "),
        }
    }

    /// The operator with its initial numbers.
    ///
    /// # Errors
    /// [`FlowError::Option`] if the kind cannot mix this many channels with these options.
    pub fn build<T: Scalar>(&self, channels: usize, key: RngKey) -> Result<Op<T>, FlowError> {
        let (name, words) = self.words();
        build(name, &Words(&words), channels, key)
            .map_err(|reason| self.refuse(format!("for {channels} channels, {reason}")))
    }
}

impl MixSpec {
    /// Numbers and indices of the operator, at least: a file must hold as many.
    pub(crate) fn least_numbers(&self, channels: usize) -> u64 {
        let (name, words) = self.words();
        least_numbers(name, &Words(&words), channels as u64)
    }
}

impl fmt::Display for MixSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for MixSpec {
    type Error = FlowError;

    fn try_from(text: String) -> Result<Self, FlowError> {
        Self::parse(&text)
    }
}

impl From<MixSpec> for String {
    fn from(spec: MixSpec) -> Self {
        spec.0
    }
}

/// An operator of the registry.
fn registered<T: Scalar>(spec: &OpSpec, channels: usize, key: RngKey) -> Result<Op<T>, String> {
    let shape = Shape { out: channels, inp: channels };
    spec.random(shape, key).map_err(|error: OpError| error.to_string())
}

/// Refuses more channels than a formed matrix may have.
fn check_formed(channels: usize) -> Result<(), String> {
    match channels <= MOST_FORMED {
        true => Ok(()),
        false => {
            Err(format!("this kind mixes at most {MOST_FORMED}; take cd, butterfly or woodbury"))
        }
    }
}

/// Wraps an operator of this crate.
fn linear<T: Scalar>(op: impl LinearOp<T> + 'static) -> Op<T> {
    Op::Linear(Box::new(op))
}

/// A random rotation or reflection (n, n): the factor Q of normal numbers.
fn random_orthogonal(n: usize, key: RngKey) -> Result<Mat<f64>, String> {
    let normal = Mat::from_vec(n, n, key.stream().normals(n * n, 1.0));
    linalg::orthonormal_columns(normal.view()).map_err(|error| error.to_string())
}
