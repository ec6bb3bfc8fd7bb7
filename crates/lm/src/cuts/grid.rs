//! Grids: which weights are cut, and to which sizes.

use crate::LmError;
use linwright_compress::intervention::{FusedPart, Lname};
use linwright_compress::methods::{LaserMethod, MethodSpec};
use linwright_compress::plan::SlotSet;
use linwright_compress::{CompressError, Size};
use linwright_model::{Role, Transformer};
use linwright_ops::{LinearSlot, SiteId, Sites};
use serde::{Deserialize, Serialize};

/// The cuts of a sweep: every selection of weights in every layer at every size.
///
/// Selections are the names and roles; with patterns, each of them within the slots of each
/// pattern; with parts, each part of each.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grid {
    /// The paper's names of weights.
    #[serde(default)]
    pub lnames: Vec<Lname>,
    /// Roles of weights.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<Role>,
    /// Globs over names of slots, or regular expressions after `re:`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patterns: Vec<String>,
    /// Patterns of slots that are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<String>,
    /// Parts of fused weights.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<FusedPart>,
    /// Layers, from zero, in order; all by default. Those without such weights are left out.
    #[serde(default)]
    pub layers: Option<Vec<usize>>,
    /// Whether all layers are cut together, as one cell, instead of each separately.
    #[serde(default)]
    pub together: bool,
    /// Sizes.
    pub sizes: Vec<Size>,
    /// The intervention with its options.
    pub method: LaserMethod,
    /// Seed of random numbers.
    #[serde(default)]
    pub seed: u64,
}

/// Weights of a layer that are cut together: all conditions hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Weights {
    /// The paper's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lname: Option<Lname>,
    /// Their role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// Pattern of their names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// The part of each that is cut; all of it by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<FusedPart>,
}

/// Slots that are cut together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Place {
    /// What selects them.
    #[serde(flatten)]
    pub weights: Weights,
    /// Their layer; `None` for all layers of the grid together.
    pub layer: Option<usize>,
    /// The slots.
    pub sites: Vec<SiteId>,
}

impl Weights {
    /// The name in reports: `fc_in`, `query_key_value`, `*.mlp.*`, `query in query_key_value`.
    #[must_use]
    pub fn name(&self) -> String {
        let words = [
            self.part.map(|part| part.name().to_owned()),
            self.lname.map(|name| name.name().to_owned()),
            self.role.map(|role| role.name().to_owned()),
            self.pattern.clone(),
        ];
        words.into_iter().flatten().collect::<Vec<_>>().join(" in ")
    }

    /// The slots of some layers.
    #[must_use]
    pub fn set(&self, layers: Option<Vec<usize>>, ignore: &[String]) -> SlotSet {
        SlotSet {
            lnames: self.lname.into_iter().collect(),
            roles: self.role.iter().map(ToString::to_string).collect(),
            layers,
            patterns: self.pattern.iter().cloned().collect(),
            ignore: ignore.to_vec(),
        }
    }

    /// A method, for these weights.
    #[must_use]
    pub fn cut_by(&self, method: LaserMethod) -> LaserMethod {
        LaserMethod { part: self.part, ..method }
    }
}

impl Place {
    /// Its name in reports: `fc_in of layer 3`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{} of {}", self.weights.name(), self.layer_name())
    }

    /// The name of its layer.
    #[must_use]
    pub fn layer_name(&self) -> String {
        self.layer.map_or_else(|| "all layers".to_owned(), |layer| format!("layer {layer}"))
    }
}

impl Grid {
    /// What is selected in each layer, in order.
    fn weights(&self) -> Vec<Weights> {
        let lname = |name: &Lname| Weights { lname: Some(*name), ..Weights::default() };
        let role = |role: &Role| Weights { role: Some(*role), ..Weights::default() };
        let mut all: Vec<Weights> = self.lnames.iter().map(lname).collect();
        all.extend(self.roles.iter().map(role));
        let is_named = !all.is_empty();
        if !is_named {
            all.push(Weights::default());
        }
        if !self.patterns.is_empty() {
            all = crossed(&all, &self.patterns, |weights, pattern| {
                weights.pattern = Some(pattern.clone());
            });
        }
        if !self.parts.is_empty() {
            all = crossed(&all, &self.parts, |weights, part| {
                weights.part = Some(*part);
                if !is_named {
                    weights.role = Role::parse(part.of_role());
                }
            });
        }
        all.retain(|weights| *weights != Weights::default());
        all
    }

    /// The layers of a selection: of those given, or of all, the ones that have such weights.
    fn layers_of(&self, weights: &Weights, model: &Transformer) -> Result<Vec<usize>, LmError> {
        let asked = self.layers.clone();
        let asked = asked.unwrap_or_else(|| (0..model.config().layers.len()).collect());
        if asked.is_empty() {
            return Err(LmError::Sweep { reason: "the grid has no layers".to_owned() });
        }
        if weights.lname == Some(Lname::Dont) {
            return Ok(asked);
        }
        let sites = weights.set(self.layers.clone(), &self.ignore).of(model)?;
        let layers: Vec<Option<usize>> =
            sites.iter().map(|site| model.slot(site).and_then(LinearSlot::layer)).collect();
        Ok(asked.into_iter().filter(|layer| layers.contains(&Some(*layer))).collect())
    }
}

/// Each selection narrowed by each condition.
fn crossed<C>(
    all: &[Weights],
    conditions: &[C],
    narrow: impl Fn(&mut Weights, &C),
) -> Vec<Weights> {
    let pairs = all.iter().flat_map(|weights| conditions.iter().map(move |own| (weights, own)));
    let narrowed = pairs.map(|(weights, own)| {
        let mut weights = weights.clone();
        narrow(&mut weights, own);
        weights
    });
    narrowed.collect()
}

/// The places of a grid in a model, in order.
///
/// # Errors
/// [`LmError`] for an empty grid, slots, parts or layers that do not exist, or invalid
/// options.
pub fn places(grid: &Grid, model: &Transformer) -> Result<Vec<Place>, LmError> {
    let empty = |what: &str| LmError::Sweep { reason: format!("the grid has no {what}") };
    let all = grid.weights();
    if all.is_empty() || grid.sizes.is_empty() {
        return Err(empty(if all.is_empty() { "names" } else { "sizes" }));
    }
    for size in &grid.sizes {
        let method = grid.method.intervention.name().to_owned();
        MethodSpec::Laser(all[0].cut_by(grid.method))
            .check(Some(*size))
            .map_err(|reason| CompressError::Options { method, reason })?;
    }
    let mut found = Vec::new();
    for weights in all {
        let layers = grid.layers_of(&weights, model)?;
        let sets = match grid.together {
            true => vec![(None, layers)],
            false => layers.iter().map(|layer| (Some(*layer), vec![*layer])).collect(),
        };
        for (layer, layers) in sets {
            let sites = weights.set(Some(layers), &grid.ignore).of(model)?;
            if let Some(part) = weights.part {
                sites.iter().try_for_each(|site| part.rows(model, site).map(drop))?;
            }
            let place = Place { weights: weights.clone(), layer, sites };
            if found.iter().any(|other: &Place| other.name() == place.name()) {
                let reason = format!("{} is selected twice", place.name());
                return Err(LmError::Sweep { reason });
            }
            found.push(place);
        }
    }
    Ok(found)
}
