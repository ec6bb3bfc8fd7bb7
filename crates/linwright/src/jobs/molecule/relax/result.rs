//! Relaxations of structures, as they are saved and reported.

use crate::jobs::kit::outcome::{page, table, text};
use linwright_molecule::relaxation::Relaxed;
use linwright_report::number::{grouped, scientific};
use linwright_report::{Document, Report};
use serde::{Deserialize, Serialize};

/// Structures that a report lists.
const LISTED: usize = 20;

/// Relaxations of structures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Relaxations {
    /// The potential.
    pub potential: String,
    /// The file of relaxed structures.
    pub output: String,
    /// Number of structures.
    pub structures: usize,
    /// Number of those that converged.
    pub converged: usize,
    /// The structures, in order.
    pub relaxations: Vec<Relaxation>,
    /// Units of the numbers.
    pub units: RelaxationUnits,
}

/// Relaxation of one structure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Relaxation {
    /// Whether the largest force is as small as was asked for.
    pub converged: bool,
    /// Steps made.
    pub steps: u64,
    /// Energy at the end.
    pub energy: f64,
    /// Largest force on an atom at the end, or row of the virial for each atom.
    pub fmax: f64,
}

impl Relaxation {
    pub(super) fn of(relaxed: &Relaxed) -> Self {
        let Relaxed { prediction, force, steps, is_converged, .. } = relaxed;
        Self { converged: *is_converged, steps: *steps, energy: prediction.energy, fmax: *force }
    }
}

/// Units of relaxations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RelaxationUnits {
    /// Unit of energies.
    pub energy: String,
    /// Unit of the largest force.
    pub fmax: String,
}

impl Default for RelaxationUnits {
    fn default() -> Self {
        Self { energy: "eV".to_owned(), fmax: "eV/A".to_owned() }
    }
}

impl Report for Relaxations {
    const KIND: &'static str = "molecule-relax";

    fn document(&self) -> Document {
        let row = |(index, one): (usize, &Relaxation)| {
            vec![
                index.to_string(),
                one.steps.to_string(),
                format!("{:.6}", one.energy),
                scientific(one.fmax),
                if one.converged { "yes" } else { "no" }.to_owned(),
            ]
        };
        let Self { structures, converged, units, .. } = self;
        let converged = grouped(*converged as u64);
        let heads = [
            "structure".to_owned(),
            "steps".to_owned(),
            format!("energy, {}", units.energy),
            format!("largest force, {}", units.fmax),
            "converged".to_owned(),
        ];
        let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
        let rows: Vec<_> = self.relaxations.iter().take(LISTED).enumerate().map(row).collect();
        let mut blocks = vec![
            text([format!("{converged} of {structures} structures converged")]),
            table(&heads, rows),
        ];
        if *structures > LISTED {
            blocks.push(text([format!("and {} more", structures - LISTED)]));
        }
        page(blocks)
    }
}
