//! Structured pruning: a transformer with fewer features, heads, layers or residual dimensions,
//! which are dense matrices again and load in other programs.
//!
//! A [`PruneMethod`] narrows several linear layers together, where a [`Method`] replaces each by
//! itself. A new one is one file and one line of the list.
//!
//! [`Method`]: linwright_compress::methods::Method

mod branches;
mod eliminate;
mod error;
mod head_pairs;
mod narrowed;
mod pieces;
mod refit;
#[cfg(test)]
mod tests;

pub use error::PruneError;
pub use narrowed::SiteSize;

use crate::LmError;
use linwright_compress::pipeline::{Context, Edited};
use linwright_model::checkpoint::export::layers_may_differ;
use linwright_model::{Transformer, Windows};
use linwright_run::Monitor;
use schemars::{Schema, schema_for};
use serde::{Deserialize, Serialize};

/// How much of a model is kept, and of which layers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cut {
    /// Share of the parameters of the linear layers in the selected transformer layers that is
    /// kept, above 0 and at most 1. What is kept is never more.
    pub keep: f64,
    /// Widths are multiples of this number; [`Cut::alignment`] of the model if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub align: Option<usize>,
    /// Transformer layers that are pruned; all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layers: Option<Vec<usize>>,
}

/// A model to be pruned.
#[derive(Debug)]
pub struct PruneProblem<'a> {
    /// The original model.
    pub original: &'a Transformer,
    /// Calibration text, if there is any; the method was checked not to need it otherwise.
    pub windows: Option<&'a Windows>,
    /// The size.
    pub cut: &'a Cut,
    /// Seed of random numbers.
    pub seed: u64,
    /// Model hash, memory bounds and the store of finished pieces.
    pub context: &'a Context<'a>,
}

/// A way of structured pruning.
pub trait PruneMethod: Clone {
    /// Its name in recipes and on the command line.
    const ID: &'static str;

    /// Summary for listings.
    const SUMMARY: &'static str;

    /// Whether it reads calibration text.
    fn needs_text(&self) -> bool;

    /// Checks options independently of a model.
    ///
    /// # Errors
    /// The option and what is wrong with it, for a message.
    fn check(&self) -> Result<(), String>;

    /// Parameters of every pruned site afterwards, without running the model: exactly, or those of
    /// equal shares if a ranking over all layers divides them.
    ///
    /// # Errors
    /// [`PruneError`] for a model that the method cannot prune, or not to this size.
    fn sizes(&self, original: &Transformer, cut: &Cut) -> Result<Vec<SiteSize>, PruneError>;

    /// Whether layers may have different widths afterwards, which few families can store.
    fn is_uneven(&self, original: &Transformer, cut: &Cut) -> bool {
        !cut.has_all(original)
    }

    /// Prunes a model.
    ///
    /// # Errors
    /// [`LmError`].
    fn prune(
        &self,
        problem: &PruneProblem<'_>,
        monitor: &mut dyn Monitor,
    ) -> Result<Edited<Transformer>, LmError>;
}

macro_rules! prune_methods {
    ($($module:ident => $name:ident, $variant:ident;)*) => {
        $(mod $module; pub use $module::*;)*

        /// A way of structured pruning with its options.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "method", rename_all = "snake_case")]
        pub enum PruneSpec {
            $(#[doc = concat!("See [`", stringify!($name), "`].")]
            $variant($name),)*
        }

        impl PruneSpec {
            /// Names of all methods, in the order of the list.
            pub const IDS: &'static [&'static str] = &[$(<$name as PruneMethod>::ID),*];

            /// Summaries, in the same order.
            pub const SUMMARIES: &'static [&'static str] = &[$(<$name as PruneMethod>::SUMMARY),*];

            /// Schema of the options of the method with this name, if there is one.
            #[must_use]
            pub fn schema_of(id: &str) -> Option<Schema> {
                $(if id == <$name as PruneMethod>::ID {
                    return Some(schema_for!($name));
                })*
                None
            }

            /// Name of the method.
            #[must_use]
            pub fn id(&self) -> &'static str {
                match self { $(Self::$variant(_) => <$name as PruneMethod>::ID,)* }
            }

            /// See [`PruneMethod::needs_text`].
            #[must_use]
            pub fn needs_text(&self) -> bool {
                match self { $(Self::$variant(method) => method.needs_text(),)* }
            }

            /// See [`PruneMethod::check`].
            ///
            /// # Errors
            /// As there.
            pub fn check(&self) -> Result<(), String> {
                match self { $(Self::$variant(method) => method.check(),)* }
            }

            /// See [`PruneMethod::sizes`].
            ///
            /// # Errors
            /// As there, for a cut that no model can have, and for one that no form of the family
            /// can store.
            pub fn sizes(&self, original: &Transformer, cut: &Cut) -> Result<Vec<SiteSize>, PruneError> {
                cut.check(original)?;
                let is_uneven = match self { $(Self::$variant(method) => method.is_uneven(original, cut),)* };
                if is_uneven {
                    layers_may_differ(original.config()).map_err(|reason| PruneError::Model { method: self.id(), reason })?;
                }
                match self { $(Self::$variant(method) => method.sizes(original, cut),)* }
            }

            /// See [`PruneMethod::prune`].
            ///
            /// # Errors
            /// As there, for a cut that no model can have, and without text for a method that reads
            /// it.
            pub fn prune(
                &self,
                problem: &PruneProblem<'_>,
                monitor: &mut dyn Monitor,
            ) -> Result<Edited<Transformer>, LmError> {
                problem.cut.check(problem.original)?;
                if self.needs_text() && problem.windows.is_none() {
                    return Err(PruneError::NoText { method: self.id() }.into());
                }
                match self { $(Self::$variant(method) => method.prune(problem, monitor),)* }
            }
        }
    };
}

prune_methods! {
    width => Width, Width;
    modegpt => Modegpt, Modegpt;
    llm_pruner => LlmPruner, LlmPruner;
    slicegpt => SliceGpt, Slicegpt;
    drop_layers => DropLayers, DropLayers;
}

impl Cut {
    /// Checks the share and the layers.
    ///
    /// # Errors
    /// [`PruneError::Keep`], [`PruneError::Layer`].
    pub fn check(&self, original: &Transformer) -> Result<(), PruneError> {
        if !(self.keep > 0.0 && self.keep <= 1.0) {
            return Err(PruneError::Keep { keep: self.keep });
        }
        let layers = original.config().layers.len();
        match self.layers.iter().flatten().find(|layer| **layer >= layers) {
            Some(&layer) => Err(PruneError::Layer { layer, layers }),
            None => Ok(()),
        }
    }

    /// Whether every layer is pruned.
    #[must_use]
    pub fn has_all(&self, original: &Transformer) -> bool {
        (0..original.config().layers.len()).all(|layer| self.has(layer))
    }

    /// Whether a layer is pruned.
    #[must_use]
    pub fn has(&self, layer: usize) -> bool {
        self.layers.as_ref().is_none_or(|layers| layers.contains(&layer))
    }

    /// Multiple of widths: as given, or 8, or 1 where a width is at most 512.
    #[must_use]
    pub fn alignment(&self, width: usize) -> usize {
        self.align.unwrap_or(if width > 512 { 8 } else { 1 })
    }
}
