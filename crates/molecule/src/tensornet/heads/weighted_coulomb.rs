//! The energy with the Coulomb energy of latent charges, which the pass adds to the outputs.

use super::{HeadForm, scalar};

pub(super) const FORM: HeadForm = HeadForm { has_coulomb: true, ..scalar::FORM };
