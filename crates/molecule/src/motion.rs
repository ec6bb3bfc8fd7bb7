//! What files say about the motion of atoms under names that are not read: it is refused where
//! atoms move, since leaving it out would be another simulation.

use crate::error::MoleculeError;
use crate::structure::Structure;

/// Names of columns, in small letters, and how the same is read.
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
    expected: "a column move_mask:L:1, or move_mask:L:3 by coordinate, of T where atoms may move",
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
        let columns = structure.columns.iter().map(|column| &column.name);
        let is_meant = |name: &&String| self.is_meant(name);
        match columns.chain(structure.info.keys()).find(is_meant) {
            None => Ok(()),
            Some(name) => Err(MoleculeError::Setting {
                name: "structure",
                found: format!(
                    "{} under the name {}, which is not read",
                    self.what,
                    linwright_run::shown(name)
                ),
                expected: format!("{}; rename or remove it", self.expected),
            }),
        }
    }

    fn is_meant(&self, name: &str) -> bool {
        self.names.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}

impl Structure {
    /// Refuses what is held under a name that is not read.
    ///
    /// # Errors
    /// [`MoleculeError::Setting`] that says how it is read.
    pub fn check_held(&self) -> Result<(), MoleculeError> {
        HELD.refuse(self)
    }

    /// The same for dynamics: masses too and, unless velocities are drawn, velocities.
    ///
    /// # Errors
    /// [`MoleculeError::Setting`] that says how it is read.
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
        let mut pair = Structure::default();
        pair.info.insert("constraints".into(), "_JSON []".into());
        assert!(pair.check_held().is_err());
        let mut moving = with("velo");
        moving.forget_velocities();
        assert!(moving.columns.is_empty());
    }
}
