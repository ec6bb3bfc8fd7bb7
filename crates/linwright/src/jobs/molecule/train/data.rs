//! The structures of a training.

use super::MoleculeTrain;
use super::plan::Plan;
use crate::jobs::kit::{Failure, JobError, Session};
use linwright_molecule::training::Split;
use linwright_molecule::{LabelKeys, MoleculeError, Structure, Units, read_npz, read_xyz};
use linwright_run::shown;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Share of the structures that is held out.
const VALIDATION_SHARE: f64 = 0.05;

/// How many structures a set has, or where they are.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Held {
    Count(usize),
    Share(f64),
    File(PathBuf),
}

impl Held {
    /// Reads `50`, `0.1` or the name of a file.
    pub(super) fn parse(text: &str) -> Result<Self, JobError> {
        if let Ok(count) = text.parse::<usize>() {
            return match count {
                0 => Err(JobError::new("--validation 0: expected at least one structure")),
                count => Ok(Self::Count(count)),
            };
        }
        match text.parse::<f64>() {
            Ok(share) if share > 0.0 && share < 1.0 => Ok(Self::Share(share)),
            Ok(share) => Err(JobError::new(format!(
                "--validation {share}: expected a number of structures, a share above 0 and below \
                 1, or a file"
            ))),
            Err(_) => Ok(Self::File(text.into())),
        }
    }

    /// Number of structures of `all`.
    fn of(&self, all: usize) -> usize {
        match self {
            Self::Count(count) => *count,
            Self::Share(share) => ((all as f64 * share).round_ties_even() as usize).max(1),
            Self::File(_) => 0,
        }
    }
}

/// The file that --validation names, if it does.
pub(super) fn validation_file(option: Option<&str>) -> Option<PathBuf> {
    match Held::parse(option?) {
        Ok(Held::File(path)) => Some(path),
        _ => None,
    }
}

/// All structures of a training.
pub(super) struct Sets {
    pub(super) training: Vec<Structure>,
    pub(super) validation: Vec<Structure>,
    /// Those that the division leaves for a test, and those of the file for it.
    pub(super) test: Vec<Structure>,
    pub(super) isolated: Option<Vec<Structure>>,
    /// Indices of `--data`; none if all of them are trained on.
    pub(super) split: Option<Split>,
}

impl Sets {
    /// Reads and divides the structures.
    ///
    /// # Errors
    /// [`Failure`] for unusable files, and sets that leave none to train on.
    pub(super) fn read(
        job: &MoleculeTrain,
        plan: &Plan,
        session: &Session<'_>,
    ) -> Result<Self, Failure> {
        let told = job.sets.units.is_some().then_some(plan.units.0);
        let files = Files { keys: job.sets.labels.keys(), units: plan.units, told };
        let needs_forces = plan.weights[1] > 0.0;
        let Numbered { all, mut isolated } = files.labelled(&job.data, needs_forces, session)?;
        let (split, beside) = division(job, plan, &all, isolated.len(), session)?;
        let (training, own, mut test) = match &split {
            None => (all.into_iter().map(|(_, one)| one).collect(), Vec::new(), Vec::new()),
            Some(split) => {
                let by_number: BTreeMap<usize, &Structure> =
                    all.iter().map(|(number, one)| (*number, one)).collect();
                let of = |set: &[usize]| -> Vec<Structure> {
                    set.iter().map(|number| by_number[number].clone()).collect()
                };
                (of(&split.train), of(&split.validation), of(&split.test))
            }
        };
        let validation = match beside {
            Some(path) => files.labelled(&path, needs_forces, session)?.kept(&mut isolated),
            None => own,
        };
        if let Some(path) = &job.sets.test {
            test.extend(files.numbered(path, session)?.kept(&mut isolated));
        }
        let isolated = match &job.sets.isolated {
            Some(path) => Some(files.read(path, session)?),
            None => told_isolated(isolated, job, session),
        };
        Ok(Self { training, validation, test, isolated, split })
    }

    /// Structures of all sets.
    pub(super) fn all(&self) -> impl Iterator<Item = &Structure> {
        self.training.iter().chain(&self.validation).chain(&self.test)
    }
}

/// The marked atoms as references, unless those are others; a note says what they are.
fn told_isolated(
    isolated: Vec<Structure>,
    job: &MoleculeTrain,
    session: &Session<'_>,
) -> Option<Vec<Structure>> {
    if isolated.is_empty() {
        return None;
    }
    let is_used = job.sets.references.is_none() && job.init.is_none() && job.config.is_none();
    let count = isolated.len();
    session.note(&format!(
        "note: {count} single atoms are marked by config_type; {}, and not trained on",
        if is_used { "they are the energies of isolated atoms" } else { "they are left out" }
    ));
    is_used.then(|| distinct(isolated))
}

/// Without repeated atoms of the same energy.
fn distinct(isolated: Vec<Structure>) -> Vec<Structure> {
    let mut found: Vec<Structure> = Vec::new();
    for one in isolated {
        let is_same = |other: &Structure| {
            other.species == one.species && other.labels.energy == one.labels.energy
        };
        if !found.iter().any(is_same) {
            found.push(one);
        }
    }
    found
}

/// Which structures are for what, by their numbers in the file, none if all are trained on; and the
/// file of those to validate on, if it is another. `isolated` atoms of the file are references.
fn division(
    job: &MoleculeTrain,
    plan: &Plan,
    all: &[(usize, Structure)],
    isolated: usize,
    session: &Session<'_>,
) -> Result<(Option<Split>, Option<PathBuf>), Failure> {
    let count = all.len();
    if let Some(path) = &job.sets.split {
        let mut split = Split::read(path, count + isolated)?;
        let is_there = |number: &usize| all.binary_search_by_key(number, |(own, _)| *own).is_ok();
        let sets = [&mut split.train, &mut split.validation, &mut split.test];
        let before: usize = sets.iter().map(|set| set.len()).sum();
        sets.into_iter().for_each(|set| set.retain(is_there));
        let after = split.train.len() + split.validation.len() + split.test.len();
        if after < before {
            let left_out = before - after;
            session.note(&format!("note: --split: {left_out} of its structures are single atoms"));
        }
        if split.train.is_empty() || split.validation.is_empty() {
            let told = "--split: no structures but single atoms to train on, or to validate on";
            return Err(Failure::usage(told));
        }
        return Ok((Some(split), None));
    }
    let own = job.sets.validation.as_deref().map(Held::parse).transpose()?;
    let held = own.or_else(|| plan.validation.clone()).unwrap_or(Held::Share(VALIDATION_SHARE));
    let validation = held.of(count);
    let tested = plan.tested.as_ref().map_or(0, |tested| tested.of(count));
    let left = count.checked_sub(validation.saturating_add(tested)).filter(|left| *left > 0);
    let left = left.ok_or_else(|| {
        let (data, out) = (job.data.display(), validation.saturating_add(tested));
        Failure::usage(format!(
            "{data}: {count} structures, of which {out} would be held out; none is left to train on"
        ))
        .hint("hold out fewer by --validation, or give a file there")
    })?;
    let train = plan.trained.as_ref().map_or(left, |held| held.of(count).min(left));
    let draw = || {
        let mut split = Split::random(plan.seed, count, [train, validation, tested]);
        let sets = [&mut split.train, &mut split.validation, &mut split.test];
        sets.into_iter().flatten().for_each(|place| *place = all[*place].0);
        split
    };
    Ok(match held {
        Held::File(path) if tested == 0 && train == count => (None, Some(path)),
        Held::File(path) => (Some(draw()), Some(path)),
        _ => (Some(draw()), None),
    })
}

struct Files {
    keys: LabelKeys,
    /// Units of the files, unless they declare others, and of the potential.
    units: (Units, Units),
    /// Those of --units, so that files may not declare others.
    told: Option<Units>,
}

/// Structures of a file.
struct Numbered {
    /// Their numbers in the file, ascending.
    all: Vec<(usize, Structure)>,
    /// Single atoms that are marked as references, which are not among them.
    isolated: Vec<Structure>,
}

impl Numbered {
    /// The structures; the marked atoms are added to others.
    fn kept(self, isolated: &mut Vec<Structure>) -> Vec<Structure> {
        isolated.extend(self.isolated);
        self.all.into_iter().map(|(_, one)| one).collect()
    }
}

impl Files {
    /// Structures with energies, and with forces if they are needed.
    fn labelled(
        &self,
        path: &Path,
        needs_forces: bool,
        session: &Session<'_>,
    ) -> Result<Numbered, Failure> {
        let found = self.numbered(path, session)?;
        for (index, one) in &found.all {
            let missing = match (&one.labels.energy, &one.labels.forces) {
                (None, _) => "energy",
                (Some(_), None) if needs_forces => "forces",
                _ => continue,
            };
            let told = format!(
                "{}, structure {index}: no {missing}, expected energy and forces",
                shown(&path.display().to_string())
            );
            return Err(Failure::general(told).hint(match missing {
                "energy" => "name the energies of the file by --keys energy=NAME",
                _ => "name the forces of the file by --keys forces=NAME, or give --loss NAME:force_weight=0",
            }));
        }
        Ok(found)
    }

    /// Structures apart from single atoms that are marked as references.
    fn numbered(&self, path: &Path, session: &Session<'_>) -> Result<Numbered, Failure> {
        let all = self.read(path, session)?.into_iter().enumerate();
        let (isolated, all): (Vec<_>, Vec<_>) = all.partition(|(_, one)| is_isolated_atom(one));
        if all.is_empty() {
            let path = shown(&path.display().to_string());
            let told = format!("{path}: no structures but isolated atoms");
            return Err(Failure::general(told).hint("--isolated takes a file of atoms alone"));
        }
        Ok(Numbered { all, isolated: isolated.into_iter().map(|(_, one)| one).collect() })
    }

    fn read(&self, path: &Path, session: &Session<'_>) -> Result<Vec<Structure>, Failure> {
        let ending = path.extension().and_then(|ending| ending.to_str());
        let mut all = match ending {
            Some("npz") => read_npz(path)?,
            Some("h5" | "hdf5") => read_hdf5(path, session)?,
            _ => read_xyz(path, &self.keys)?,
        };
        if all.is_empty() {
            return Err(Failure::general(format!("{}: no structures in the file", path.display())));
        }
        for (index, one) in all.iter_mut().enumerate() {
            let labels = &one.labels;
            let numbers = labels.forces.iter().flatten().flatten().chain(&labels.energy);
            if let Some(number) = numbers.into_iter().find(|number| !number.is_finite()) {
                return Err(Failure::general(format!(
                    "{}, structure {index}: a label is {number}, expected a finite number; leave \
                     the structure out, or compute it again",
                    shown(&path.display().to_string())
                )));
            }
            one.check().map_err(|error| error.of_structure(index))?;
            let from = one.settle_units(self.told, self.units.0).map_err(|error| {
                let hint = match (&error, self.told) {
                    (MoleculeError::UnitsDisagree { .. }, _) => {
                        "--units cannot say which of them holds"
                    }
                    (_, Some(_)) => "leave --units out: the file declares its own",
                    (_, None) => "--units names those of the file",
                };
                Failure::from(error.of_structure(index)).hint(hint)
            })?;
            one.convert(from, self.units.1);
        }
        Ok(all)
    }
}

/// Whether a structure is one atom, marked as a reference as MACE and GAP mark it.
fn is_isolated_atom(structure: &Structure) -> bool {
    let is_marked = |text: &String| {
        let letters = text.chars().filter(|c| c.is_alphanumeric());
        let plain: String = letters.flat_map(char::to_lowercase).collect();
        matches!(plain.as_str(), "isolatedatom" | "isolatedatoms")
    };
    structure.species.len() == 1 && structure.info.get("config_type").is_some_and(is_marked)
}

#[cfg(feature = "hdf5")]
fn read_hdf5(path: &Path, session: &Session<'_>) -> Result<Vec<Structure>, Failure> {
    let found = linwright_molecule::read_hdf5(path)?;
    if found.unlabelled > 0 {
        let (left_out, path) = (found.unlabelled, path.display());
        session
            .note(&format!("{path}: {left_out} structures with labels that are NaN are left out"));
    }
    Ok(found.structures)
}

#[cfg(not(feature = "hdf5"))]
fn read_hdf5(path: &Path, _: &Session<'_>) -> Result<Vec<Structure>, Failure> {
    let told = format!(
        "{}: this program was built without HDF5 files",
        shown(&path.display().to_string())
    );
    Err(Failure::general(told)
        .hint("build it with `--features hdf5`, or give extended XYZ or an archive of numpy"))
}
