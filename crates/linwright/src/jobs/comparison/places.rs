//! Places of a comparison: sets of layers with seeds.

use crate::jobs::kit::JobError;
use linwright_compare::Place;
use linwright_compress::{CompressError, SlotSet};
use linwright_ops::{LinearSlot, Sites};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ops::Deref;

/// Seeds of a comparison; a single one is written as a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seeds(pub Vec<u64>);

impl Default for Seeds {
    fn default() -> Self {
        Self(vec![0])
    }
}

impl Deref for Seeds {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        &self.0
    }
}

impl Serialize for Seeds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [seed] => seed.serialize(serializer),
            seeds => seeds.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Seeds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            One(u64),
            Several(Vec<u64>),
        }
        Ok(match Form::deserialize(deserializer)? {
            Form::One(seed) => Self(vec![seed]),
            Form::Several(seeds) => Self(seeds),
        })
    }
}

/// A set of layers with a seed.
#[derive(Clone, Debug)]
pub(in crate::jobs) struct At {
    /// Layers and seed.
    pub(in crate::jobs) place: Place,
    /// Number of the seed.
    pub(in crate::jobs) draw: usize,
    /// The layers to replace.
    pub(in crate::jobs) sites: SlotSet,
}

/// Checks the seeds of a comparison.
///
/// # Errors
/// [`JobError`] for none, and for one twice.
pub(in crate::jobs) fn check_seeds(seeds: &[u64]) -> Result<(), JobError> {
    if seeds.is_empty() {
        return Err(JobError::new("--seed names no seed"));
    }
    match (1..seeds.len()).find(|at| seeds[..*at].contains(&seeds[*at])) {
        Some(at) => {
            let message = format!("--seed names {} twice", seeds[at]);
            Err(JobError::new(message).hint("equal runs are not independent"))
        }
        None => Ok(()),
    }
}

/// All places, seeds first; without sets of layers, the layers are those with selected slots.
///
/// # Errors
/// [`CompressError`] for a set that selects nothing.
pub(in crate::jobs) fn places(
    network: &impl Sites,
    seeds: &[u64],
    sets: Option<&[Vec<usize>]>,
    sites: &SlotSet,
) -> Result<Vec<At>, CompressError> {
    let sets: Vec<SlotSet> = match sets {
        None => vec![sites.clone()],
        Some(sets) => {
            let of =
                |layers: &Vec<usize>| SlotSet { layers: Some(layers.clone()), ..sites.clone() };
            sets.iter().map(of).collect()
        }
    };
    let mut places = Vec::new();
    for (draw, &seed) in seeds.iter().enumerate() {
        for sites in &sets {
            let found = sites.of(network)?;
            let layers = match &sites.layers {
                Some(layers) => layers.clone(),
                None => {
                    let slots = found.iter().filter_map(|site| network.slot(site));
                    let mut layers: Vec<usize> = slots.filter_map(LinearSlot::layer).collect();
                    layers.dedup();
                    layers
                }
            };
            places.push(At { place: Place { layers, seed }, draw, sites: sites.clone() });
        }
    }
    Ok(places)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_seed_is_a_number() {
        for (seeds, text) in [(vec![7], "7"), (vec![0, 1], "[0,1]")] {
            assert_eq!(serde_json::to_string(&Seeds(seeds.clone())).unwrap(), text);
            assert_eq!(serde_json::from_str::<Seeds>(text).unwrap(), Seeds(seeds));
        }
        assert_eq!(serde_json::from_str::<Seeds>("[7]").unwrap(), Seeds(vec![7]));
    }

    #[test]
    fn seeds_are_there_once() {
        assert!(check_seeds(&[0, 1]).is_ok());
        for (seeds, word) in [(&[][..], "no seed"), (&[1, 0, 1], "names 1 twice")] {
            assert!(check_seeds(seeds).unwrap_err().to_string().contains(word));
        }
    }
}
