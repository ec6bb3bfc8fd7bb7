//! Trials: networks other than language models, with what is fitted to and what is scored on.
//!
//! An [`ImageTrial`] has a small network and labelled images, a [`MoleculeTrial`] a potential and
//! structures. A [`TrialJudge`] judges what replaces their slots, for comparisons of methods.

mod images;
mod judge;
mod molecules;
mod trial;

pub use images::{ImageCalibration, ImageEvaluation, ImageNames, ImageTrial, ImageTrialError};
pub use judge::{PassMacs, PassSpeed, TrialJudge};
pub use molecules::{
    MoleculeTrial, MoleculeTrialError, StructureCalibration, StructureNames, StructureSource,
    Structures, TrialPotential, calibration_batches, common_note, open_structures,
    scored_structures, task_result,
};
pub use trial::{ExamplesOf, Trial, TrialError};
