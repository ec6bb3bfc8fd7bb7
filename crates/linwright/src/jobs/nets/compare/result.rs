//! A comparison on a small network, as it is saved and reported.

use crate::jobs::comparison::SlotsCompared;
use linwright_report::{Block, Document, Report};
use serde::{Deserialize, Serialize};

/// A comparison of methods on a small network.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct NetCompared {
    #[serde(flatten)]
    compared: SlotsCompared,
}

impl From<SlotsCompared> for NetCompared {
    fn from(compared: SlotsCompared) -> Self {
        Self { compared }
    }
}

impl Report for NetCompared {
    const KIND: &'static str = "compare-net";

    fn document(&self) -> Document {
        self.compared.document()
    }

    fn times(&self) -> Vec<Block> {
        self.compared.times()
    }
}
