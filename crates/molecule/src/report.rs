//! Reports of simulations.

use crate::dynamics::{Ensemble, Fluctuation, MdSummary, Thermo};
use linwright_report::number::{grouped, scientific, significant};
use linwright_report::plot::{Axis, Plot, Series, Style};
use linwright_report::{Block, Document, Figure, Report, Scale, Table};
use linwright_run::Measured;
use serde::{Deserialize, Serialize};

/// Femtoseconds a second in nanoseconds a day.
const NS_PER_DAY: f64 = 86_400.0 * 1e-6;

/// What was simulated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Simulation {
    /// Name of the potential.
    pub potential: String,
    /// Name of the file with the structure.
    pub structure: String,
    /// Number of atoms.
    pub atoms: u64,
    /// What was kept constant.
    pub ensemble: Ensemble,
    /// Time step in femtoseconds.
    pub time_step_fs: f64,
    /// Seed of velocities and random forces.
    pub seed: u64,
    /// Completed steps.
    pub steps: u64,
}

/// Summary of a simulation, from its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SimulationResult {
    /// What was simulated.
    #[serde(flatten)]
    pub simulation: Simulation,
    /// Recorded steps.
    pub frames: u64,
    /// Slope of the total energy over time per atom; none with fewer than three frames.
    pub energy_drift_ev_per_atom_per_ps: Option<f64>,
    /// Root mean square deviation of the total energy from that line, for each atom.
    pub energy_deviation_ev_per_atom: Option<f64>,
    /// Temperature over the frames.
    pub temperature_k: Fluctuation,
    /// Pressure over the frames, of periodic cells.
    pub pressure_gpa: Option<Fluctuation>,
    /// The first frame.
    pub first: Thermo,
    /// The last frame.
    pub last: Thermo,
    /// Some of the frames, evenly spaced.
    pub curve: Vec<Thermo>,
    /// Time of the steps that this process made.
    #[serde(default)]
    pub seconds: Measured<f64>,
    /// Their number.
    #[serde(default)]
    pub steps_made: Measured<u64>,
    /// Steps in a second; none without steps.
    #[serde(default)]
    pub steps_per_second: Measured<Option<f64>>,
    /// Nanoseconds of dynamics in a day; none without steps.
    #[serde(default)]
    pub ns_per_day: Measured<Option<f64>>,
}

impl SimulationResult {
    /// The result of a simulation with these frames; none without frames.
    #[must_use]
    pub fn new(simulation: Simulation, summary: &MdSummary) -> Option<Self> {
        let [first, last] = summary.ends()?;
        let (atoms, drift) = (simulation.atoms.max(1) as f64, summary.drift());
        Some(Self {
            simulation,
            frames: summary.count(),
            energy_drift_ev_per_atom_per_ps: drift.map(|(slope, _)| slope / atoms),
            energy_deviation_ev_per_atom: drift.map(|(_, rest)| rest / atoms),
            temperature_k: summary.temperature(),
            pressure_gpa: summary.pressure(),
            first,
            last,
            curve: summary.curve().to_vec(),
            seconds: Measured(0.0),
            steps_made: Measured(0),
            steps_per_second: Measured(None),
            ns_per_day: Measured(None),
        })
    }

    /// The result with the speed of the process, which made `steps` in this time.
    #[must_use]
    pub fn timed(mut self, steps: u64, seconds: f64) -> Self {
        let speed = (steps > 0 && seconds > 0.0).then(|| steps as f64 / seconds);
        let days = speed.map(|speed| speed * self.simulation.time_step_fs * NS_PER_DAY);
        (self.seconds, self.steps_made) = (Measured(seconds), Measured(steps));
        (self.steps_per_second, self.ns_per_day) = (Measured(speed), Measured(days));
        self
    }

    /// The main finding in a sentence.
    #[must_use]
    pub fn headline(&self) -> String {
        let length = format!(
            "{} steps of {} fs, {} ps",
            grouped(self.simulation.steps),
            self.simulation.time_step_fs,
            significant(1e-3 * self.simulation.time_step_fs * self.simulation.steps as f64, 3)
        );
        let Fluctuation { mean, deviation } = self.temperature_k;
        let temperature = format!("temperature {mean:.1} K (deviation {deviation:.1} K)");
        match (self.simulation.ensemble, self.energy_drift_ev_per_atom_per_ps) {
            (Ensemble::Nve, Some(drift)) => format!(
                "{length}: the total energy drifts by {} eV/atom/ps; {temperature}",
                scientific(drift)
            ),
            (Ensemble::Nve, None) | (Ensemble::Langevin { .. }, _) => {
                format!("{length}: {temperature}")
            }
        }
    }

    /// Energies, temperature and pressure of the first frame, of the last one, and over all.
    #[must_use]
    pub fn table(&self) -> Table {
        let row = |name: &str, of: &dyn Fn(&Thermo) -> Option<f64>, spread: Option<Fluctuation>| {
            let shown = |value: Option<f64>| value.map_or_else(String::new, |x| format!("{x:.4}"));
            vec![
                name.to_owned(),
                shown(of(&self.first)),
                shown(of(&self.last)),
                shown(spread.map(|spread| spread.mean)),
                shown(spread.map(|spread| spread.deviation)),
            ]
        };
        let mut rows = vec![
            row("potential energy, eV", &|at| Some(at.potential_energy), None),
            row("kinetic energy, eV", &|at| Some(at.kinetic_energy), None),
            row("total energy, eV", &|at| Some(at.total_energy), None),
            row("temperature, K", &|at| Some(at.temperature), Some(self.temperature_k)),
        ];
        if self.pressure_gpa.is_some() {
            rows.push(row("pressure, GPa", &|at| at.pressure, self.pressure_gpa));
        }
        let columns = [
            ("quantity", false),
            ("first frame", true),
            ("last frame", true),
            ("mean", true),
            ("deviation", true),
        ];
        Table::new("Energies and temperature", columns).with(rows)
    }

    fn figure(&self) -> Option<Figure> {
        let atoms = self.simulation.atoms.max(1) as f64;
        let start = self.first.total_energy;
        let energy = |at: &Thermo| 1e3 * (at.total_energy - start) / atoms;
        let panels = [
            self.panel("change of the total energy, meV/atom", energy)?,
            self.panel("temperature, K", |at| at.temperature)?,
        ];
        Some(Figure {
            title: "Energy and temperature over time".to_owned(),
            note: "The total energy is that of the atoms and their motion, relative to the first \
                   frame."
                .to_owned(),
            y_title: String::new(),
            panels: panels.to_vec(),
        })
    }

    fn panel(&self, title: &str, of: impl Fn(&Thermo) -> f64) -> Option<Plot> {
        let points = self.curve.iter().map(|at| (1e-3 * at.time, of(at), None));
        let points: Vec<_> = points.collect();
        let axis = |title: &str, values: Vec<f64>| {
            let scale = Scale::around(values.into_iter(), false)?;
            Some(Axis { title: title.to_owned(), scale, ticks: None })
        };
        Some(Plot {
            title: title.to_owned(),
            x: axis("time, ps", points.iter().map(|point| point.0).collect())?,
            y: axis("", points.iter().map(|point| point.1).collect())?,
            series: vec![Series { index: 0, points, style: Style::Line }],
            baseline: None,
        })
    }
}

impl Report for SimulationResult {
    const KIND: &'static str = "molecule-md";

    fn document(&self) -> Document {
        let kept = match self.simulation.ensemble {
            Ensemble::Nve => "energy (NVE, velocity Verlet)".to_owned(),
            Ensemble::Langevin { temperature, friction } => {
                format!("temperature, {temperature} K (Langevin, friction {friction} / fs)")
            }
        };
        let mut facts = vec![
            ("Potential", self.simulation.potential.clone()),
            (
                "Structure",
                format!("{}, {} atoms", self.simulation.structure, grouped(self.simulation.atoms)),
            ),
            ("Constant", kept),
            ("Seed", self.simulation.seed.to_string()),
            ("Frames", grouped(self.frames)),
        ];
        if let Some(deviation) = self.energy_deviation_ev_per_atom {
            let told = format!("{} eV/atom", scientific(deviation));
            facts.push(("Deviation of the energy from its drift", told));
        }
        let mut blocks = vec![Block::Table(self.table())];
        blocks.extend(self.figure().map(Block::Figure));
        Document {
            title: format!("Molecular dynamics of {}", self.simulation.structure),
            kicker: "Simulation".to_owned(),
            headline: Some(self.headline()),
            facts: facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            series: vec!["simulation".to_owned()],
            blocks,
            ..Document::default()
        }
    }

    fn times(&self) -> Vec<Block> {
        let speeds = self.steps_per_second.0.zip(self.ns_per_day.0).map(|(steps, days)| {
            let [steps, days] = [steps, days].map(|speed| significant(speed, 3));
            Block::Text(vec![format!("{steps} steps/s, {days} ns/day")])
        });
        speeds.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_report::{conformance, html};

    fn result(pressure: Option<f64>) -> SimulationResult {
        let mut summary = MdSummary::default();
        let thermo = |step: u64| Thermo {
            step,
            time: 0.5 * step as f64,
            potential_energy: -10.0,
            kinetic_energy: 1.0,
            total_energy: -9.0 + 3e-6 * step as f64,
            temperature: 290.0 + step as f64,
            pressure,
        };
        (0..50).for_each(|step| summary.add(thermo(step)));
        let simulation = Simulation {
            potential: "water <model>".to_owned(),
            structure: "water.xyz".to_owned(),
            atoms: 3,
            ensemble: Ensemble::Nve,
            time_step_fs: 0.5,
            seed: 1,
            steps: 49,
        };
        SimulationResult::new(simulation, &summary).unwrap()
    }

    #[test]
    fn a_simulation_is_a_page_with_its_drift_and_its_curves() {
        for pressure in [None, Some(0.5)] {
            let result = result(pressure);
            let drift = result.energy_drift_ev_per_atom_per_ps.unwrap();
            assert!((drift - 2e-3).abs() < 1e-9, "{drift}");
            let page = html::render(&result.document()).unwrap();
            conformance::check_page(&page);
            assert!(page.contains("<svg"), "{page}");
            assert!(page.contains("water &lt;model&gt;"), "{page}");
            assert!(page.contains("drifts by") && page.contains("314.5 K"), "{page}");
            assert_eq!(page.contains("pressure, GPa"), pressure.is_some());
        }
    }

    #[test]
    fn a_saved_result_gives_the_same_report() {
        let result = result(Some(1.0)).timed(40, 2.0);
        let value = serde_json::to_value(&result).unwrap();
        assert_eq!(serde_json::from_value::<SimulationResult>(value).unwrap(), result);
        let speed = Block::Text(vec!["20.0 steps/s, 0.864 ns/day".to_owned()]);
        assert_eq!(result.times(), [speed]);
        let langevin = Ensemble::Langevin { temperature: 300.0, friction: 0.01 };
        let mut other = result;
        other.simulation.ensemble = langevin;
        assert!(!other.headline().contains("drifts"), "{}", other.headline());
        assert!(other.timed(0, 0.1).times().is_empty());
    }
}
