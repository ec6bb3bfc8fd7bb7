//! Information on the motion of atoms under names that are not read: it is an error if atoms move,
//! since ignoring it would change the simulation. This concerns columns, and pairs of a frame with
//! a value for each atom; other pairs describe the whole, such as the mass of a molecule.

use crate::error::MoleculeError;
use crate::structure::Structure;

/// Prefix of ASE for JSON values.
const JSON: &str = "_JSON ";

/// Names of columns, in lower case, and the supported form.
struct Unread {
    names: &'static [&'static str],
    what: &'static str,
    expected: &'static str,
}

const HELD: Unread = Unread {
    names: &[
        "fix",
        "fixed",
        "freeze",
        "frozen",
        "constraint",
        "constraints",
        "move",
        "movable",
        "moveable",
        "selective_dynamics",
    ],
    what: "which atoms may move",
    expected: "a column move_mask:L:1, or move_mask:L:3 by coordinate, with T where atoms may move",
};
const MASSES: Unread = Unread {
    names: &["mass", "atomic_mass", "atomic_masses", "initial_masses"],
    what: "masses",
    expected: "a column masses:R:1 in atomic mass units",
};
const VELOCITIES: Unread = Unread {
    names: &["v", "vel", "velo", "velocity", "velocities"],
    what: "velocities",
    expected: "a column momenta:R:3 as ASE writes it, masses times velocities in \
               (amu eV)^(1/2), or none",
};

impl Unread {
    fn refuse(&self, structure: &Structure) -> Result<(), MoleculeError> {
        let atoms = structure.species.len();
        let columns = structure.columns.iter().map(|column| ("the column", &column.name));
        let pairs = structure.info.iter().filter(|(_, text)| is_of_atoms(text, atoms));
        let mut all = columns.chain(pairs.map(|(name, _)| ("the pair", name)));
        match all.find(|(_, name)| self.is_meant(name)) {
            None => Ok(()),
            Some((place, name)) => Err(MoleculeError::Setting {
                name: "structure",
                found: format!(
                    "{place} {} has {}, and is not read",
                    linwright_run::shown(name),
                    self.what,
                ),
                expected: format!("{}; rename or remove it", self.expected),
            }),
        }
    }

    fn is_meant(&self, name: &str) -> bool {
        self.names.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}

/// Whether a pair has values for single atoms: one number or flag for each atom or coordinate, or
/// the constraints of ASE. `mass=46.07` describes the molecule.
fn is_of_atoms(text: &str, atoms: usize) -> bool {
    let text = text.trim();
    let text = text.strip_prefix(JSON).unwrap_or(text);
    // ASE writes constraints as a list of objects.
    let objects: Result<Vec<serde_json::Map<String, serde_json::Value>>, _> =
        serde_json::from_str(text);
    let between = |c: char| c.is_whitespace() || matches!(c, ',' | '[' | ']' | '{' | '}');
    let count = text.split(between).filter(|word| !word.is_empty()).count();
    objects.is_ok_and(|all| !all.is_empty()) || (atoms > 1 && [atoms, 3 * atoms].contains(&count))
}

/// Whether an array or column with this name says which atoms may move.
pub(crate) fn is_held(name: &str) -> bool {
    HELD.is_meant(name)
}

/// Whether an array or column with this name has velocities.
pub(crate) fn is_velocities(name: &str) -> bool {
    VELOCITIES.is_meant(name)
}

impl Structure {
    /// Rejects fixed atoms under a name that is not read.
    ///
    /// # Errors
    /// [`MoleculeError::Setting`] with the supported form.
    pub fn check_held(&self) -> Result<(), MoleculeError> {
        HELD.refuse(self)
    }

    /// The same for dynamics, also for masses and, unless velocities are drawn, for velocities.
    ///
    /// # Errors
    /// [`MoleculeError::Setting`] with the supported form.
    pub fn check_motion(&self, draws_velocities: bool) -> Result<(), MoleculeError> {
        self.check_held()?;
        if self.masses.is_none() {
            MASSES.refuse(self)?;
        }
        match draws_velocities || self.momenta.is_some() {
            true => Ok(()),
            false => VELOCITIES.refuse(self),
        }
    }

    /// Removes velocities under names that are not read.
    pub(crate) fn forget_velocities(&mut self) {
        self.columns.retain(|column| !VELOCITIES.is_meant(&column.name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structure::Column;

    #[test]
    fn names_that_are_not_read_are_refused_with_those_that_are() {
        let with = |name: &str| {
            let column = Column { name: name.into(), ..Column::default() };
            Structure { columns: vec![column], ..Structure::default() }
        };
        let told = |name: &str| with(name).check_motion(false).unwrap_err().to_string();
        assert!(told("Fixed").contains("move_mask:L:1"), "{}", told("Fixed"));
        assert!(told("mass").contains("masses:R:1"), "{}", told("mass"));
        assert!(told("vel").contains("momenta:R:3"), "{}", told("vel"));
        with("tags").check_motion(false).unwrap();
        // Those that are drawn replace them, and own masses are read.
        with("vel").check_motion(true).unwrap();
        let own = Structure { masses: Some(Vec::new()), momenta: Some(Vec::new()), ..with("mass") };
        own.check_motion(false).unwrap();
        assert!(with("frozen").check_held().is_err() && with("vel").check_held().is_ok());
        let pair = |name: &str, text: &str| {
            let mut frame = Structure { species: vec![1; 3], ..Structure::default() };
            frame.info.insert(name.into(), text.into());
            frame.check_motion(false).map_err(|error| error.to_string())
        };
        // Of the molecule as a whole.
        for (name, text) in [
            ("mass", "46.07"),
            ("velocity", "0.5"),
            ("v", "3 4"),
            ("fixed", "T"),
            ("move", "12"),
            ("constraints", "_JSON []"),
            ("constraint", "none"),
        ] {
            assert_eq!(pair(name, text), Ok(()), "{name}={text}");
        }
        // Of each atom.
        for (name, text) in [
            ("mass", "1 16 1"),
            ("fixed", "[T, F, F]"),
            ("vel", "_JSON [[1, 0, 0], [0, 0, 0], [0, 0, 0]]"),
            ("constraints", "_JSON [{\"name\": \"FixAtoms\", \"kwargs\": {\"indices\": [0]}}]"),
        ] {
            let told = pair(name, text).unwrap_err();
            assert!(told.contains(&format!("the pair {name} has ")), "{told}");
        }
        let mut moving = with("velo");
        moving.forget_velocities();
        assert!(moving.columns.is_empty());
    }
}
