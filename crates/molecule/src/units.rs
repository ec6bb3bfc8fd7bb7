//! Units of energies and lengths.

use serde::{Deserialize, Serialize};

macro_rules! units {
    ($what:literal, $of:ident, $(($unit:ident, $name:literal, $factor:expr, $doc:literal, $also:expr),)*) => {
        #[doc = $what]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum $of {
            $(#[doc = $doc] #[serde(rename = $name)] $unit,)*
        }

        impl $of {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$unit,)*];

            /// Its name in files and options.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$unit => $name,)* }
            }

            /// The unit with this name, in any case or spelling.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                let known: &[(Self, &str, &[&str])] = &[$((Self::$unit, $name, &$also),)*];
                let text = plain(text)?;
                let same = |name: &str| plain(name).is_some_and(|name| name == text);
                let found = known.iter().find(|(_, name, also)| same(name) || also.iter().any(|a| same(a)));
                found.map(|(unit, ..)| *unit)
            }

            /// Its size in electron volts or angstroms.
            #[must_use]
            pub fn factor(self) -> f64 {
                match self { $(Self::$unit => $factor,)* }
            }
        }
    };
}

/// A normalised name of a unit: lower case without blanks, with `/mol` for other spellings of per
/// mole. None for the prefix mega, which lower case would turn into milli.
fn plain(text: &str) -> Option<String> {
    let text = text.trim();
    if text.starts_with("Me") || text.starts_with("MH") {
        return None;
    }
    let mut text = text.to_lowercase().replace(['·', '*', '^', '_', '.', ' '], "");
    for (long, short) in [
        ("kilocalories", "kcal"),
        ("kilocalorie", "kcal"),
        ("kilojoules", "kj"),
        ("kilojoule", "kj"),
        ("permole", "/mol"),
        ("permol", "/mol"),
        ("mole", "mol"),
        ("mol-1", "/mol"),
        ("//", "/"),
    ] {
        text = text.replace(long, short);
    }
    match text.len() > 3 {
        // Plurals, but not "as".
        true => Some(text.trim_end_matches('s').to_owned()),
        false => Some(text),
    }
}

/// Whether a name means atomic units of every quantity.
pub(crate) fn is_atomic(text: &str) -> bool {
    plain(text).is_some_and(|text| matches!(text.as_str(), "au" | "atomic" | "atomicunit"))
}

/// Joules in an electron volt, exact by definition of the SI.
const ELECTRON_VOLT: f64 = 1.602_176_634e-19;
/// Particles in a mole, exact by definition of the SI.
const AVOGADRO: f64 = 6.022_140_76e23;
/// Joules in a thermochemical calorie, exact by definition.
const CALORIE: f64 = 4.184;
/// One joule for each mole of particles, in electron volts for each particle.
pub(crate) const JOULE_PER_MOLE: f64 = 1.0 / (AVOGADRO * ELECTRON_VOLT);
/// Electron volts in a Hartree (CODATA 2018, 27.211386245988, rounded as the reference rounds it).
const HARTREE: f64 = 27.211_386_246;
/// Angstroms in a Bohr (CODATA 2018).
const BOHR: f64 = 0.529_177_210_903;

units! {
    "A unit of energy.", Energy,
    (ElectronVolt, "eV", 1.0, "Electron volts.", ["electronvolt", "electron volt"]),
    (MilliElectronVolt, "meV", 1e-3, "Thousandths of an electron volt.", ["millielectronvolt"]),
    (Hartree, "Hartree", HARTREE, "Hartrees.", ["Ha", "Eh", "au", "atomic", "atomic units"]),
    (MilliHartree, "mHartree", 1e-3 * HARTREE, "Thousandths of a Hartree.", ["mHa", "mEh", "millihartree"]),
    (Rydberg, "Rydberg", HARTREE / 2.0, "Rydbergs.", ["Ry"]),
    (KilocaloriePerMole, "kcal/mol", 1e3 * CALORIE * JOULE_PER_MOLE, "Thermochemical kilocalories per mole.", ["kcal", "kcalmol"]),
    (KilojoulePerMole, "kJ/mol", 1e3 * JOULE_PER_MOLE, "Kilojoules per mole.", ["kJ", "kJmol"]),
}

units! {
    "A unit of length.", Length,
    (Angstrom, "A", 1.0, "Angstroms.", ["Å", "\u{212b}", "Ang", "Angstrom", "Ångström", "Ångstrom"]),
    (Nanometre, "nm", 10.0, "Nanometres.", ["nanometer", "nanometre"]),
    (Picometre, "pm", 0.01, "Picometres.", ["picometer", "picometre"]),
    (Bohr, "Bohr", BOHR, "Bohr radii.", ["a0", "au", "atomic", "atomic units", "bohr radius"]),
}

impl Default for Length {
    fn default() -> Self {
        Units::default().length
    }
}

/// The units of a file or a model. Forces are energies per length, stresses per volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Units {
    /// Unit of energies.
    pub energy: Energy,
    /// Unit of lengths.
    pub length: Length,
}

impl Default for Units {
    fn default() -> Self {
        Self { energy: Energy::ElectronVolt, length: Length::Angstrom }
    }
}

impl Units {
    /// The units of forces, such as `kcal/mol/Ang` or `hartree/bohr`.
    #[must_use]
    pub fn parse_force(text: &str) -> Option<Self> {
        let text = text.trim();
        if is_atomic(text) {
            return Some(Self { energy: Energy::Hartree, length: Length::Bohr });
        }
        let split = |(at, between): (usize, &str)| {
            let (energy, length) = (&text[..at], text[at + between.len()..].trim());
            let length = length.strip_suffix("-1").map_or(length, |l| l.trim_end_matches('^'));
            let length = length.trim_start_matches('(').trim_end_matches(')');
            Some(Self {
                energy: Energy::parse(energy.trim_start_matches('(').trim_end_matches(')'))?,
                length: Length::parse(length)?,
            })
        };
        text.rmatch_indices(['/', ' ', '*']).find_map(split)
    }

    /// The units of stresses, such as `eV/A^3`.
    #[must_use]
    pub fn parse_stress(text: &str) -> Option<Self> {
        if is_atomic(text) {
            return Self::parse_force(text);
        }
        let (energy, volume) = text.rsplit_once('/')?;
        let length = volume.trim().trim_start_matches('(').trim_end_matches(')');
        let length = length.strip_suffix('3').or_else(|| length.strip_suffix('³'))?;
        Some(Self {
            energy: Energy::parse(energy.trim().trim_start_matches('(').trim_end_matches(')'))?,
            length: Length::parse(length.trim_end_matches(['^', '*']))?,
        })
    }

    /// Factor from energies in these units to energies in others.
    #[must_use]
    pub fn energy_to(self, other: Self) -> f64 {
        self.energy.factor() / other.energy.factor()
    }

    /// Factor from lengths in these units to lengths in others.
    #[must_use]
    pub fn length_to(self, other: Self) -> f64 {
        self.length.factor() / other.length.factor()
    }

    /// Factor from forces in these units to forces in others.
    #[must_use]
    pub fn force_to(self, other: Self) -> f64 {
        self.energy_to(other) / self.length_to(other)
    }

    /// Factor from stresses in these units to stresses in others.
    #[must_use]
    pub fn stress_to(self, other: Self) -> f64 {
        self.energy_to(other) / self.length_to(other).powi(3)
    }

    /// Coulomb's constant: energy of two elementary charges at distance one, in these units.
    #[must_use]
    pub fn coulomb(self) -> f64 {
        /// In electron volts and angstroms: `e / (4 pi epsilon_0)`, CODATA 2018.
        const COULOMB: f64 = 14.399_645_478_425;
        COULOMB / (self.energy.factor() * self.length.factor())
    }
}

impl std::fmt::Display for Units {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{},{}", self.energy.name(), self.length.name())
    }
}

/// Checks that a number is another one within a share of it.
#[cfg(test)]
pub(crate) fn near(found: f64, expected: f64, share: f64) {
    assert!((found - expected).abs() <= share * expected.abs(), "{found}, expected {expected}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::constants;

    #[test]
    fn factors_are_those_of_the_reference() {
        let constants = constants();
        let value = |name: &str| constants[name].as_f64().unwrap();
        near(Energy::Hartree.factor(), value("hartree_to_eV"), 1e-15);
        near(Energy::KilocaloriePerMole.factor(), value("kcalmol_to_eV"), 1e-6);
        near(Length::Bohr.factor(), value("bohr_to_angstrom_in_spice_reader"), 1e-6);
        near(1.0 / Energy::KilojoulePerMole.factor(), 96.485_33, 1e-7);
        let metric = Units { energy: Energy::KilojoulePerMole, length: Length::Nanometre };
        near(metric.coulomb(), 138.935_458, 1e-8);
    }

    #[test]
    fn names_are_parsed_and_unknown_ones_listed() {
        for energy in Energy::ALL {
            for length in Length::ALL {
                let units = Units { energy: *energy, length: *length };
                assert_eq!(Units::parse(&units.to_string()).unwrap(), units);
            }
        }
        assert_eq!(Units::parse("EV").unwrap(), Units::default());
        assert_eq!(Units::parse("ha,bohr").unwrap().energy, Energy::Hartree);
        for (text, energy) in [
            ("kcal/mol", Energy::KilocaloriePerMole),
            ("kcal mol^-1", Energy::KilocaloriePerMole),
            ("kcal*mol-1", Energy::KilocaloriePerMole),
            ("kcal/mole", Energy::KilocaloriePerMole),
            ("kilocalories per mole", Energy::KilocaloriePerMole),
            ("kcal_per_mol", Energy::KilocaloriePerMole),
            ("KJ/MOL", Energy::KilojoulePerMole),
            ("kJ mol**-1", Energy::KilojoulePerMole),
            ("hartrees", Energy::Hartree),
            ("a.u.", Energy::Hartree),
            ("mHa", Energy::MilliHartree),
            ("meV", Energy::MilliElectronVolt),
            ("Ry", Energy::Rydberg),
        ] {
            assert_eq!(Energy::parse(text), Some(energy), "{text}");
        }
        for text in ["MeV", "MHa", "", "Ang", "kcal/mol/Ang", "J", "kcal/g"] {
            assert_eq!(Energy::parse(text), None, "{text}");
        }
        for (text, length) in [
            ("Ang", Length::Angstrom),
            ("angstroms", Length::Angstrom),
            ("Å", Length::Angstrom),
            ("\u{212b}", Length::Angstrom),
            ("Bohr", Length::Bohr),
            ("bohrs", Length::Bohr),
            ("a0", Length::Bohr),
            ("a_0", Length::Bohr),
            ("pm", Length::Picometre),
        ] {
            assert_eq!(Length::parse(text), Some(length), "{text}");
        }
        let force = |text: &str| Units::parse_force(text).map(|units| units.to_string());
        for (text, units) in [
            ("kcal/mol/Ang", "kcal/mol,A"),
            ("hartree/bohr", "Hartree,Bohr"),
            ("kcal mol^-1 A^-1", "kcal/mol,A"),
            ("eV/Å", "eV,A"),
            ("(kJ/mol)/nm", "kJ/mol,nm"),
            ("a.u.", "Hartree,Bohr"),
        ] {
            assert_eq!(force(text).as_deref(), Some(units), "{text}");
        }
        assert_eq!((force("eV"), force("N/m")), (None, None));
        for text in ["a.u.", "au", "atomic units", "Atomic", "Ha,bohr", "au,au"] {
            assert_eq!(Units::parse(text).unwrap().to_string(), "Hartree,Bohr", "{text}");
        }
        assert_eq!(Units::parse("Hartree").unwrap().to_string(), "Hartree,A");
        let stress = |text: &str| Units::parse_stress(text).map(|units| units.to_string());
        for (text, units) in [
            ("eV/A^3", Some("eV,A")),
            ("kcal/mol/Ang**3", Some("kcal/mol,A")),
            ("eV/Å³", Some("eV,A")),
            ("a.u.", Some("Hartree,Bohr")),
            ("GPa", None),
            ("eV/A", None),
        ] {
            assert_eq!(stress(text).as_deref(), units, "{text}");
        }
        let error = Units::parse("furlong").unwrap_err().to_string();
        assert!(error.contains("furlong") && error.contains("kcal/mol") && error.contains("Bohr"));
    }
}
