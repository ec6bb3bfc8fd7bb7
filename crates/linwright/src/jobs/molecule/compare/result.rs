//! A comparison on a potential, as it is saved and reported.

use crate::jobs::comparison::SlotsCompared;
use linwright_report::{Block, Document, Report};
use serde::{Deserialize, Serialize};

/// A comparison of methods on a potential.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PotentialCompared {
    #[serde(flatten)]
    compared: SlotsCompared,
}

impl From<SlotsCompared> for PotentialCompared {
    fn from(compared: SlotsCompared) -> Self {
        Self { compared }
    }
}

impl Report for PotentialCompared {
    const KIND: &'static str = "molecule-compare";

    fn document(&self) -> Document {
        self.compared.document()
    }

    fn times(&self) -> Vec<Block> {
        self.compared.times()
    }
}
