//! Priors as plain data.

use super::Prior;
use crate::symbol;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A prior with its numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name")]
pub enum PriorInfo {
    /// Energies of isolated atoms.
    Atomref {
        /// Those that are not zero, by element.
        energies: BTreeMap<String, f64>,
    },
    /// Screened repulsion of nuclei.
    #[serde(rename = "ZBL")]
    Zbl {
        /// Distance at which it vanishes.
        cutoff: f64,
    },
    /// Dispersion.
    D2 {
        /// Distance from which it is left out.
        cutoff: f64,
    },
    /// Electrostatics of partial charges.
    Coulomb {
        /// Distance below which it is off, and above which it is fully on.
        switch: [f64; 2],
        /// Whether the energy is what torchmd-net computes.
        compat: bool,
    },
}

impl From<&Prior> for PriorInfo {
    fn from(prior: &Prior) -> Self {
        match prior {
            Prior::Atomref { energies } => {
                let known = energies.iter().enumerate().filter(|(_, energy)| **energy != 0.0);
                let named = known.filter_map(|(number, energy)| {
                    let symbol = u8::try_from(number).ok().and_then(symbol)?;
                    Some((symbol.to_owned(), *energy))
                });
                Self::Atomref { energies: named.collect() }
            }
            Prior::Zbl { cutoff } => Self::Zbl { cutoff: *cutoff },
            Prior::D2 { cutoff } => Self::D2 { cutoff: *cutoff },
            Prior::Coulomb { switch, compat } => Self::Coulomb { switch: *switch, compat: *compat },
        }
    }
}

impl PriorInfo {
    /// Its name, as files have it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Atomref { .. } => "Atomref",
            Self::Zbl { .. } => "ZBL",
            Self::D2 { .. } => "D2",
            Self::Coulomb { .. } => "Coulomb",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn priors_are_read_back_with_their_names() {
        let energies = vec![0.0, -1.5, 0.0];
        let all = [
            Prior::Atomref { energies },
            Prior::Zbl { cutoff: 4.0 },
            Prior::D2 { cutoff: 10.0 },
            Prior::Coulomb { switch: [1.0, 2.0], compat: true },
        ];
        for prior in &all {
            let info = PriorInfo::from(prior);
            let value = serde_json::to_value(&info).unwrap();
            assert_eq!(value["name"], prior.name());
            assert_eq!(info.name(), prior.name());
            assert_eq!(serde_json::from_value::<PriorInfo>(value).unwrap(), info);
        }
        let atoms = serde_json::to_value(PriorInfo::from(&all[0])).unwrap();
        assert_eq!(atoms, json!({"name": "Atomref", "energies": {"H": -1.5}}));
    }
}
