//! Units from text: names that a user gives, and units declared by pairs of a frame, arrays and
//! attributes, each part separately.
//!
//! Names are words: `e_unit`, `energy_unit`, `EnergyUnits`, `unit_length`, and `units` for all.
//! Declared units apply. Undeclared parts are given by the user, or else have the default unit of
//! frames without declarations, but only if it is unambiguous: energies in a frame with a declared
//! length have no default unit, and lengths in a frame with a declared energy are angstroms only in
//! formats with this default.

use crate::error::MoleculeError;
use crate::structure::Structure;
use crate::units::{Energy, Length, Units, is_atomic};
use linwright_run::shown;
use std::collections::BTreeMap;

/// Key under which frames declare all units.
const UNITS: &str = "units";

/// The quantity whose unit a name declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quantity {
    Energy,
    Length,
    Force,
    Stress,
    Whole,
    /// A known quantity whose unit does not matter here.
    Other,
    Unknown,
}

/// Prefixes of words for a quantity, and whole words; the first match of a name applies.
const NAMES: [(Quantity, &[&str], &[&str]); 5] = [
    (Quantity::Force, &["force", "grad"], &["f"]),
    (Quantity::Stress, &["stress", "virial"], &[]),
    (
        Quantity::Other,
        &["dipole", "charge", "mass", "time", "freq", "pressure", "temp", "polar", "mag", "vel"],
        &["momentum", "momenta", "v", "m", "t", "q"],
    ),
    (Quantity::Energy, &["energ"], &["e"]),
    (Quantity::Length, &["length", "dist", "pos", "coord", "lattice", "cell", "geometr"], &["r"]),
];

impl Units {
    /// The units with names such as `eV,A` or `kcal/mol,nm`. Without a length, it is angstrom, or
    /// bohr in atomic units.
    ///
    /// # Errors
    /// A name that is unknown, with all known ones.
    pub fn parse(text: &str) -> Result<Self, MoleculeError> {
        let other = if is_atomic(text) { "Bohr" } else { "A" };
        let (energy, length) = text.split_once(',').unwrap_or((text, other));
        let parsed = Energy::parse(energy.trim()).zip(Length::parse(length.trim()));
        let (energy, length) = parsed.ok_or_else(|| MoleculeError::Units { found: text.into() })?;
        Ok(Self { energy, length })
    }
}

impl Quantity {
    /// The quantity whose unit a name declares; none for names such as `unit_cell` and `community`.
    fn of(name: &str) -> Option<Self> {
        let mut words = words(name);
        let is_unit = |word: &String| matches!(word.as_str(), "unit" | "units");
        if words.starts_with(&["unit".to_owned(), "cell".to_owned()]) {
            return None;
        }
        if let Some(at) = words.iter().position(is_unit) {
            words.remove(at);
            return Some(if words.is_empty() { Self::Whole } else { Self::of_words(&words) });
        }
        let [word] = &words[..] else { return None };
        let stem = word.strip_suffix("units").or_else(|| word.strip_suffix("unit"))?;
        Some(Self::of_words(&[stem.to_owned()])).filter(|found| *found != Self::Unknown)
    }

    fn of_words(words: &[String]) -> Self {
        let fits = |(_, starts, wholes): &&(Self, &[&str], &[&str])| {
            words.iter().any(|word| {
                starts.iter().any(|start| word.starts_with(start)) || wholes.contains(&&word[..])
            })
        };
        NAMES.iter().find(fits).map_or(Self::Unknown, |(quantity, ..)| *quantity)
    }
}

/// The words of a name in lower case; `energyUnit` has two.
pub(crate) fn words(name: &str) -> Vec<String> {
    let (mut words, mut after_small) = (vec![String::new()], false);
    for c in name.chars() {
        if !c.is_alphanumeric() || (c.is_uppercase() && after_small) {
            words.push(String::new());
        }
        if let Some(last) = words.last_mut().filter(|_| c.is_alphanumeric()) {
            last.extend(c.to_lowercase());
        }
        after_small = c.is_lowercase() || c.is_numeric();
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Whether an array or attribute of this name declares a unit.
pub(crate) fn is_unit(name: &str) -> bool {
    Quantity::of(name).is_some()
}

/// Rejects a name that declares the unit of an unknown quantity; the error is the end of a
/// sentence.
pub(crate) fn check_name(name: &str, text: &str) -> Result<(), String> {
    match Quantity::of(name) {
        Some(Quantity::Unknown) => Err(format!(
            "declares units as {} = {}, expected e_unit, r_unit and f_unit; rename or remove it",
            shown(name),
            shown(text)
        )),
        _ => Ok(()),
    }
}

/// Rejects a number in place of the name of a unit. The error is the end of a sentence.
pub(crate) fn check_number(name: &str) -> Result<(), String> {
    match Quantity::of(name) {
        Some(Quantity::Energy | Quantity::Length | Quantity::Force | Quantity::Stress) => {
            Err(format!(
                "declares the unit {} as a number, expected a name such as eV or A; convert what is \
                 in it, or name it",
                shown(name)
            ))
        }
        Some(Quantity::Whole | Quantity::Other | Quantity::Unknown) | None => Ok(()),
    }
}

/// The pairs of a nested group: its own, and those of the enclosing groups for other quantities.
#[cfg(feature = "hdf5")]
pub(crate) fn within(
    outer: &BTreeMap<String, String>,
    own: BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let said = |pairs: &BTreeMap<String, String>| -> Vec<Quantity> {
        let of = |(name, text): (&String, &String)| match Quantity::of(name) {
            Some(Quantity::Whole) => Whole::of(text).quantities(),
            found => found.into_iter().collect(),
        };
        pairs.iter().flat_map(of).collect()
    };
    let inner = said(&own);
    let mut all = own;
    for (name, text) in outer {
        match Quantity::of(name) {
            // Of a declaration of all units, the other part is kept.
            Some(Quantity::Whole) => {
                let Whole { energy, length } = Whole::of(text);
                if let Some(part) = energy.filter(|_| !inner.contains(&Quantity::Energy)) {
                    all.insert("energy_unit".into(), part.to_owned());
                }
                if let Some(part) = length.filter(|_| !inner.contains(&Quantity::Length)) {
                    all.insert("length_unit".into(), part.to_owned());
                }
            }
            Some(found) if !inner.contains(&found) => {
                all.insert(name.clone(), text.clone());
            }
            Some(_) | None => {}
        }
    }
    all
}

/// The parts of a text under [`UNITS`].
#[derive(Clone, Copy, Default)]
struct Whole<'a> {
    energy: Option<&'a str>,
    length: Option<&'a str>,
}

impl<'a> Whole<'a> {
    fn of(text: &'a str) -> Self {
        match text.split_once(',') {
            Some((energy, length)) => Self { energy: Some(energy), length: Some(length) },
            None if is_atomic(text) => Self { energy: Some(text), length: Some(text) },
            None if Energy::parse(text).is_none() && Length::parse(text).is_some() => {
                Self { energy: None, length: Some(text) }
            }
            None => Self { energy: Some(text), length: None },
        }
    }

    #[cfg(feature = "hdf5")]
    fn quantities(self) -> Vec<Quantity> {
        let energy = self.energy.map(|_| Quantity::Energy);
        energy.into_iter().chain(self.length.map(|_| Quantity::Length)).collect()
    }
}

/// A unit, none if its name is unknown, and the pair that declares it.
#[derive(Clone, Debug, PartialEq)]
struct Said<U> {
    unit: Option<U>,
    pair: String,
}

/// The declarations of a frame.
#[derive(Clone, Debug, Default, PartialEq)]
struct Declared {
    energy: Option<Said<Energy>>,
    length: Option<Said<Length>>,
    force: Option<Said<Units>>,
    /// The pair, and its text.
    stress: Option<(String, String)>,
}

impl Declared {
    /// The declarations of the pairs of a frame; contradictions are an error.
    fn of(pairs: &BTreeMap<String, String>) -> Result<Self, MoleculeError> {
        let mut all = Self::default();
        for (name, text) in pairs {
            let Some(quantity) = Quantity::of(name) else { continue };
            let pair = format!("{name} = {}", text.trim());
            match quantity {
                Quantity::Energy => put(&mut all.energy, Energy::parse(text), &pair)?,
                Quantity::Length => put(&mut all.length, Length::parse(text), &pair)?,
                Quantity::Force => put(&mut all.force, Units::parse_force(text), &pair)?,
                Quantity::Stress => all.stress = Some((pair, text.clone())),
                // In frames, `unit` may be a number.
                Quantity::Whole if text.trim().parse::<f64>().is_ok() => {}
                Quantity::Whole => {
                    let Whole { energy, length } = Whole::of(text);
                    if let Some(energy) = energy {
                        put(&mut all.energy, Energy::parse(energy), &pair)?;
                    }
                    if let Some(length) = length {
                        put(&mut all.length, Length::parse(length), &pair)?;
                    }
                }
                // Keys of frames have many meanings.
                Quantity::Other | Quantity::Unknown => {}
            }
        }
        Ok(all)
    }

    /// Description of the declarations, for messages.
    fn text(&self) -> String {
        let pairs = [
            self.energy.as_ref().map(|said| &said.pair),
            self.length.as_ref().map(|said| &said.pair),
            self.force.as_ref().map(|said| &said.pair),
        ];
        let mut pairs: Vec<&str> = pairs.into_iter().flatten().map(String::as_str).collect();
        pairs.dedup();
        let pairs = shown(&pairs.join(", "));
        match (&self.energy, &self.length) {
            (Some(Said { unit: Some(energy), .. }), Some(Said { unit: Some(length), .. })) => {
                let units = Units { energy: *energy, length: *length };
                format!("the units {units} ({pairs})")
            }
            _ => pairs,
        }
    }

    fn mixed(&self, expected: Units) -> MoleculeError {
        MoleculeError::MixedUnits { found: self.text(), expected }
    }

    /// The unit of energies. `is_needed` if the frame has any.
    fn energy(
        &self,
        told: Option<Units>,
        otherwise: Units,
        is_needed: bool,
    ) -> Result<Energy, MoleculeError> {
        let force = self.force.as_ref().and_then(|force| force.unit);
        match (&self.energy, told) {
            (Some(Said { unit: Some(energy), .. }), Some(told)) if *energy != told.energy => {
                Err(self.mixed(told))
            }
            (Some(Said { unit: Some(energy), .. }), _) => Ok(*energy),
            // The user resolves an unknown name.
            (_, Some(told)) => Ok(told.energy),
            (Some(Said { unit: None, pair }), None) => Err(unknown(pair)),
            (None, None) => match (force, &self.length) {
                (Some(force), _) => Ok(force.energy),
                (None, Some(_)) if is_needed => Err(self.lacks("energy")),
                (None, _) => Ok(otherwise.energy),
            },
        }
    }

    /// The unit of lengths.
    fn length(&self, told: Option<Units>, otherwise: Units) -> Result<Length, MoleculeError> {
        let force = self.force.as_ref().and_then(|force| force.unit);
        match (&self.length, told) {
            (Some(Said { unit: Some(length), .. }), Some(told)) if *length != told.length => {
                Err(self.mixed(told))
            }
            (Some(Said { unit: Some(length), .. }), _) => Ok(*length),
            (_, Some(told)) => Ok(told.length),
            (Some(Said { unit: None, pair }), None) => Err(unknown(pair)),
            (None, None) => {
                let is_silent = self.energy.is_none() && self.force.is_none();
                // Forces per bohr occur with positions in either unit.
                let is_angstrom = otherwise.length == Length::Angstrom
                    && force.is_none_or(|force| force.length == Length::Angstrom);
                match is_silent || is_angstrom {
                    true => Ok(otherwise.length),
                    false => Err(self.lacks("length")),
                }
            }
        }
    }

    fn lacks(&self, what: &'static str) -> MoleculeError {
        MoleculeError::PartialUnits { found: self.text(), what }
    }

    /// Converts forces, which may be declared in a separate unit, to the units of a frame.
    fn bring_forces(
        &self,
        structure: &mut Structure,
        units: Units,
        told: Option<Units>,
    ) -> Result<(), MoleculeError> {
        let (Some(said), Some(forces)) = (&self.force, &mut structure.labels.forces) else {
            return Ok(());
        };
        let Some(force) = said.unit else {
            return if told.is_some() { Ok(()) } else { Err(unknown(&said.pair)) };
        };
        if force == units {
            return Ok(());
        }
        if let Some(told) = told.filter(|_| self.energy.is_none() || self.length.is_none()) {
            return Err(self.mixed(told));
        }
        let is_kept = |numbers: Option<Vec<f64>>| numbers.as_deref() == Some(forces.as_flattened());
        if structure.columns.iter().any(|column| is_kept(column.numbers())) {
            // The words of a column would keep the other unit.
            return Err(self.mixed(units));
        }
        let factor = force.force_to(units);
        forces.as_flattened_mut().iter_mut().for_each(|x| *x *= factor);
        Ok(())
    }

    /// Rejects stresses in a separate unit.
    fn check_stress(&self, structure: &Structure, units: Units) -> Result<(), MoleculeError> {
        match &self.stress {
            Some((pair, text)) if structure.labels.stress.is_some() => {
                let is_own = Units::parse_stress(text) == Some(units)
                    || Energy::parse(text) == Some(units.energy);
                match is_own {
                    true => Ok(()),
                    false => Err(MoleculeError::MixedUnits { found: shown(pair), expected: units }),
                }
            }
            _ => Ok(()),
        }
    }
}

/// Declares a part, unless another pair contradicts it.
fn put<U: PartialEq>(
    part: &mut Option<Said<U>>,
    unit: Option<U>,
    pair: &str,
) -> Result<(), MoleculeError> {
    match part {
        Some(first) if first.unit != unit => {
            Err(MoleculeError::UnitsDisagree { first: first.pair.clone(), second: pair.to_owned() })
        }
        Some(_) => Ok(()),
        None => {
            *part = Some(Said { unit, pair: pair.to_owned() });
            Ok(())
        }
    }
}

fn unknown(pair: &str) -> MoleculeError {
    MoleculeError::Units { found: pair.trim_start_matches("units = ").to_owned() }
}

impl Structure {
    /// Determines the units of the frame and converts its forces to them: the declared units, which
    /// the user may not contradict; without a declaration, those of the user, or else the default.
    ///
    /// # Errors
    /// Declarations that contradict each other ([`MoleculeError::UnitsDisagree`]) or the user
    /// ([`MoleculeError::MixedUnits`]), that are unknown ([`MoleculeError::Units`]), or that do not
    /// declare a required part ([`MoleculeError::PartialUnits`]), unless the user supplies it.
    pub fn settle_units(
        &mut self,
        told: Option<Units>,
        otherwise: Units,
    ) -> Result<Units, MoleculeError> {
        let declared = Declared::of(&self.info)?;
        if declared == Declared::default() {
            return Ok(told.unwrap_or(otherwise));
        }
        let labels = &self.labels;
        let has_energies = labels.energy.is_some()
            || labels.forces.is_some()
            || labels.stress.is_some()
            || self.momenta.is_some();
        let energy = declared.energy(told, otherwise, has_energies)?;
        let units = Units { energy, length: declared.length(told, otherwise)? };
        declared.bring_forces(self, units, told)?;
        declared.check_stress(self, units)?;
        self.forget_units();
        self.info.insert(UNITS.to_owned(), units.to_string());
        Ok(units)
    }

    /// As [`Self::settle_units`], and rejects a frame in units other than those of the user, or
    /// else the default.
    ///
    /// # Errors
    /// As [`Self::settle_units`].
    pub fn expect_units(
        &mut self,
        told: Option<Units>,
        otherwise: Units,
    ) -> Result<Units, MoleculeError> {
        let expected = told.unwrap_or(otherwise);
        let declared = Declared::of(&self.info)?;
        match self.settle_units(told, otherwise)? {
            units if units == expected => Ok(units),
            _ => Err(declared.mixed(expected)),
        }
    }

    /// Replaces all declarations of units of the frame. `otherwise` is the default of readers for
    /// frames without a declaration; electron volts and angstroms are not declared if they are the
    /// default.
    pub fn declare_units(&mut self, units: Units, otherwise: Units) {
        self.forget_units();
        if units != Units::default() || otherwise != units {
            self.info.insert(UNITS.to_owned(), units.to_string());
        }
    }

    /// Removes the pairs that declare units of converted values.
    fn forget_units(&mut self) {
        self.info.retain(|name, _| {
            matches!(Quantity::of(name), None | Some(Quantity::Other | Quantity::Unknown))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Units = Units { energy: Energy::ElectronVolt, length: Length::Angstrom };

    fn frame(pairs: &[(&str, &str)]) -> Structure {
        let mut frame = Structure { species: vec![1], ..Structure::default() };
        frame.labels.energy = Some(1.0);
        frame.labels.forces = Some(vec![[1.0; 3]]);
        frame.info = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        frame
    }

    /// The units of a frame of these pairs, and its force.
    fn settled(pairs: &[(&str, &str)], told: Option<&str>, otherwise: &str) -> (String, f64) {
        let [told, otherwise] =
            [told, Some(otherwise)].map(|text| text.map(|text| Units::parse(text).unwrap()));
        let mut frame = frame(pairs);
        match frame.settle_units(told, otherwise.unwrap()) {
            Ok(units) => {
                let once = frame.clone();
                assert_eq!(frame.settle_units(None, units).unwrap(), units, "settled once");
                assert_eq!(frame, once);
                (units.to_string(), frame.labels.forces.unwrap()[0][0])
            }
            Err(error) => (error.to_string(), f64::NAN),
        }
    }

    #[test]
    fn what_is_declared_holds_and_the_rest_is_told_or_refused() {
        let bohr = Length::Bohr.factor();
        for (pairs, told, units, force) in [
            (&[][..], None, "eV,A", 1.0),
            (&[], Some("kcal/mol,nm"), "kcal/mol,nm", 1.0),
            (&[("e_unit", "kcal/mol"), ("r_unit", "Ang")], None, "kcal/mol,A", 1.0),
            (&[("EnergyUnits", "kcal/mol")], None, "kcal/mol,A", 1.0),
            (&[("energy_unit", "kcal/mol")], Some("kcal/mol,nm"), "kcal/mol,nm", 1.0),
            (&[("r_unit", "bohr")], Some("Hartree,Bohr"), "Hartree,Bohr", 1.0),
            (&[("unit_length", "bohr"), ("f_unit", "Ha/bohr")], None, "Hartree,Bohr", 1.0),
            (&[("f_unit", "kcal/mol/Ang")], None, "kcal/mol,A", 1.0),
            (&[("F_unit", "Ha/bohr")], Some("Hartree,Bohr"), "Hartree,Bohr", 1.0),
            (
                &[("E_unit", "hartree"), ("r_unit", "A"), ("f_unit", "Ha/bohr")],
                None,
                "Hartree,A",
                1.0 / bohr,
            ),
            (&[("units", "kcal/mol, nm")], None, "kcal/mol,nm", 1.0),
            (&[("units", "a.u.")], None, "Hartree,Bohr", 1.0),
            (&[("units", "Angstrom"), ("energy_unit", "meV")], None, "meV,A", 1.0),
            (&[("units", "stone")], Some("meV,A"), "meV,A", 1.0),
            (&[("units", "eV,A"), ("e_unit", "electronvolt")], None, "eV,A", 1.0),
            (&[("dipole_unit", "Debye"), ("unit_cell", "a b"), ("unit", "7")], None, "eV,A", 1.0),
        ] {
            let (found, own) = settled(pairs, told, "eV,A");
            assert_eq!(found, units, "{pairs:?}");
            assert!((own - force).abs() < 1e-14, "{pairs:?}: {own}");
        }
        for (pairs, told, otherwise, parts) in [
            (
                &[("r_unit", "Ang")][..],
                None,
                "eV,A",
                &["r_unit = Ang", "no unit for its energies"][..],
            ),
            (&[("e_unit", "kcal")], None, "eV,nm", &["e_unit = kcal", "no unit for its lengths"]),
            (
                &[("f_unit", "Ha/bohr")],
                None,
                "eV,A",
                &["f_unit = Ha/bohr", "lengths", "length_unit"],
            ),
            (
                &[("f_unit", "Ha/bohr")],
                Some("eV,A"),
                "eV,A",
                &["f_unit = Ha/bohr", "expected eV,A"],
            ),
            (&[("f_unit", "N")], None, "eV,A", &["f_unit = N", "expected an energy"]),
            (&[("energy_units", "stone")], None, "eV,A", &["energy_units = stone", "kcal/mol"]),
            (&[("e_unit", "kcal")], Some("eV,A"), "eV,A", &["e_unit = kcal", "expected eV,A"]),
            (
                &[("units", "eV,A"), ("energy_unit", "kcal/mol")],
                Some("eV,A"),
                "eV,A",
                &["energy_unit = kcal/mol and units = eV,A", "disagree"],
            ),
            (
                &[("pos_unit", "A"), ("unit_r", "nm")],
                None,
                "eV,A",
                &["pos_unit = A", "unit_r = nm"],
            ),
        ] {
            let (found, _) = settled(pairs, told, otherwise);
            assert!(parts.iter().all(|part| found.contains(part)), "{pairs:?}: {found}");
        }
        // Without energies, their unit does not matter.
        let mut bare = frame(&[("length_unit", "Bohr")]);
        bare.labels = crate::Labels::default();
        assert_eq!(bare.settle_units(None, OWN).unwrap().to_string(), "eV,Bohr");
    }

    #[test]
    fn stresses_and_columns_in_other_units_are_refused() {
        let mut own = frame(&[("stress_unit", "eV/Ang^3"), ("virial_unit", "eV")]);
        own.labels.stress = Some([[1.0; 3]; 3]);
        own.clone().settle_units(None, OWN).unwrap();
        own.info.insert("stress_unit".into(), "GPa".into());
        own.info.remove("virial_unit");
        let error = own.settle_units(None, OWN).unwrap_err().to_string();
        assert!(error.contains("stress_unit = GPa") && error.contains("eV,A"), "{error}");
        let mut kept = frame(&[("units", "Hartree,A"), ("force_unit", "Hartree/Bohr")]);
        let (name, kind) = ("REF_forces".to_owned(), "R".to_owned());
        kept.columns.push(crate::Column { name, kind, width: 3, text: "1 1 1\n".into() });
        let error = kept.settle_units(None, OWN).unwrap_err().to_string();
        assert!(error.contains("force_unit = Hartree/Bohr"), "{error}");
    }

    #[test]
    fn what_is_written_declares_its_units_once() {
        let pairs = [
            ("units", "kcal/mol,A"),
            ("energy_unit", "kcal/mol"),
            ("lengthUnits", "A"),
            ("unit_force", "kcal/mol/A"),
            ("stress-unit", "kcal/mol/A^3"),
            ("dipole_unit", "Debye"),
        ];
        let kept = |units: Units, otherwise: Units| {
            let mut frame = frame(&pairs);
            frame.declare_units(units, otherwise);
            frame.info.into_iter().map(|(key, text)| format!("{key}={text}")).collect::<Vec<_>>()
        };
        let kcal = Units::parse("kcal/mol,A").unwrap();
        assert_eq!(kept(OWN, OWN), ["dipole_unit=Debye"]);
        assert_eq!(kept(kcal, kcal), ["dipole_unit=Debye", "units=kcal/mol,A"]);
        assert_eq!(kept(OWN, kcal), ["dipole_unit=Debye", "units=eV,A"]);
    }

    #[test]
    fn frames_that_declare_other_units_are_refused() {
        let kcal = Units::parse("kcal/mol,A").unwrap();
        let mut structure = Structure::default();
        structure.expect_units(None, kcal).unwrap();
        structure.declare_units(kcal, kcal);
        structure.expect_units(Some(kcal), OWN).unwrap();
        let error = structure.clone().expect_units(None, OWN).unwrap_err().to_string();
        assert!(error.contains("kcal/mol,A") && error.contains("expected eV,A"), "{error}");
        structure.info.insert("units".into(), "stone".into());
        assert!(structure.expect_units(None, kcal).unwrap_err().to_string().contains("stone"));
    }

    #[test]
    fn names_that_say_a_unit_are_found_in_their_words() {
        for (name, quantity) in [
            ("e_unit", Some(Quantity::Energy)),
            ("Energy_Units", Some(Quantity::Energy)),
            ("energyunit", Some(Quantity::Energy)),
            ("total energy unit", Some(Quantity::Energy)),
            ("units_of_positions", Some(Quantity::Length)),
            ("coordinate-units", Some(Quantity::Length)),
            ("cell_unit", Some(Quantity::Length)),
            ("gradientUnit", Some(Quantity::Force)),
            ("virial_unit", Some(Quantity::Stress)),
            ("Units", Some(Quantity::Whole)),
            ("mass_unit", Some(Quantity::Other)),
            ("unit_of_spins", Some(Quantity::Unknown)),
            ("unit_cell", None),
            ("unitcell", None),
            ("community", None),
            ("opportunity", None),
            ("energy", None),
        ] {
            assert_eq!(Quantity::of(name), quantity, "{name}");
        }
        assert!(check_name("unit_of_spins", "D").unwrap_err().contains("e_unit"));
    }
}
