//! Ensembles: several models of one quantity, their mean and their deviations.

use crate::checkpoint::{Checkpoint, is_checkpoint};
use crate::error::MoleculeError;
use crate::model::MoleculeModel;
use crate::potential::{Deviation, Potential, Prediction, Wanted};
use crate::priors::PriorChoices;
use crate::structure::Structure;
use crate::tensornet::{Head, Property};
use crate::units::Units;
use linwright_files::{DirWriter, FileError, PickleFault, SINGLE, ZipFault, zip_archive};
use linwright_run::atomic::AtomicDir;
use std::path::{Path, PathBuf};

/// One model or several with the same head, units and species. All of them are in memory.
#[derive(Clone, Debug)]
pub struct Ensemble {
    names: Vec<PathBuf>,
    members: Vec<MoleculeModel>,
}

impl Ensemble {
    /// Opens models. Each path is a model as for [`MoleculeModel::open`], a directory without
    /// `model.safetensors` but with checkpoints or directories of models, sorted by name, or an
    /// ensemble of torchmd-net: a `.zip` of checkpoints.
    ///
    /// # Errors
    /// As [`MoleculeModel::open`], a directory or archive without models, and models of different
    /// heads, units or species.
    pub fn open<P: AsRef<Path>>(paths: &[P], choices: PriorChoices) -> Result<Self, MoleculeError> {
        let (mut names, mut members) = (Vec::new(), Vec::new());
        for path in paths {
            let path = path.as_ref();
            let opened = match path.extension().is_some_and(|end| end == "zip") {
                true => Checkpoint::open_archive(path)?,
                false => {
                    let paths = models_in(path)?.into_iter();
                    let open = |path: PathBuf| Checkpoint::open(&path).map(|found| (path, found));
                    paths.map(open).collect::<Result<_, _>>()?
                }
            };
            for (name, checkpoint) in opened {
                members.push(MoleculeModel::of_checkpoint(checkpoint, choices)?);
                names.push(name);
            }
        }
        let ensemble = Self { names, members };
        ensemble.check()?;
        Ok(ensemble)
    }

    /// The models, at least one.
    #[must_use]
    pub fn members(&self) -> &[MoleculeModel] {
        &self.members
    }

    /// File names for the models, without extension: those of the opened files, with an index if
    /// names are equal.
    #[must_use]
    pub fn stems(&self) -> Vec<String> {
        let stem = |path: &PathBuf| {
            let named = if path.ends_with(SINGLE) { path.parent() } else { Some(path.as_path()) };
            let stem = named.and_then(Path::file_stem).and_then(|stem| stem.to_str());
            stem.unwrap_or("model").to_owned()
        };
        let all: Vec<String> = self.names.iter().map(stem).collect();
        // A directory with a file of the name of a single model would be that model.
        let is_taken =
            |stem: &str| stem == "model" || all.iter().filter(|s| *s == stem).count() > 1;
        let mut stems: Vec<String> = Vec::new();
        for (place, stem) in all.iter().enumerate() {
            let mut own = stem.clone();
            while is_taken(&own) || stems.contains(&own) || (own != *stem && all.contains(&own)) {
                own = format!("{own}-{place}");
            }
            stems.push(own);
        }
        stems
    }

    /// The bytes of an ensemble of torchmd-net: one `.zip` of checkpoints. `path` is its name in
    /// errors.
    ///
    /// # Errors
    /// As [`Checkpoint::to_lightning`].
    pub fn to_archive(&self, path: &Path) -> Result<Vec<u8>, MoleculeError> {
        let mut files = Vec::new();
        for (stem, member) in self.stems().into_iter().zip(&self.members) {
            let name = format!("{stem}.ckpt");
            let bytes = member.checkpoint.to_lightning(&path.join(&name))?;
            files.push((name, bytes));
        }
        let malformed = |fault: ZipFault| FileError::Malformed {
            path: path.to_owned(),
            fault: PickleFault::from(fault).into(),
        };
        Ok(zip_archive(&files).map_err(malformed)?)
    }

    /// Writes the models as a directory of `.safetensors` and `files`, which appears when it is
    /// committed.
    ///
    /// # Errors
    /// An error of the operating system.
    pub fn written(
        &self,
        out: &Path,
        force: bool,
        files: &[(String, Vec<u8>)],
    ) -> Result<DirWriter, MoleculeError> {
        let target = AtomicDir::create(out, force).map_err(FileError::from)?;
        let mut writer = DirWriter::new(target);
        for (stem, member) in self.stems().into_iter().zip(&self.members) {
            let name = format!("{stem}.safetensors");
            writer.text(&name, &member.checkpoint.to_parts(&out.join(&name))?.concat())?;
        }
        for (name, bytes) in files {
            writer.text(name, bytes)?;
        }
        writer.checksums()?;
        Ok(writer)
    }

    /// Common units.
    #[must_use]
    pub fn units(&self) -> Units {
        self.members[0].checkpoint.units
    }

    /// The models with other units or species; none keeps them.
    #[must_use]
    pub fn declared(mut self, units: Option<Units>, species: &[u8]) -> Self {
        for member in &mut self.members {
            member.checkpoint.units = units.unwrap_or(member.checkpoint.units);
            if !species.is_empty() {
                member.checkpoint.species = species.to_vec();
                member.checkpoint.species.sort_unstable();
            }
        }
        self
    }

    /// The common predicted quantity.
    #[must_use]
    pub fn head(&self) -> Head {
        self.members[0].network.config().head
    }

    /// The ensemble as a potential: its single model, or the mean with deviations.
    ///
    /// # Errors
    /// As [`MoleculeModel::potential`].
    pub fn potential(&self, exact: bool) -> Result<Box<dyn Potential>, MoleculeError> {
        let members = self.members.iter().map(|member| member.potential(exact));
        let mut members = members.collect::<Result<Vec<_>, _>>()?;
        match members.len() {
            1 => Ok(members.remove(0)),
            _ => Ok(Box::new(Mean { members })),
        }
    }

    /// Predictions of the heads for a structure: the mean, and the deviations of several models.
    ///
    /// # Errors
    /// As [`crate::tensornet::TensorNet::properties`].
    pub fn property(
        &self,
        structure: &Structure,
    ) -> Result<(Property, Option<Property>), MoleculeError> {
        let width = self.head().width();
        let of = |member: &MoleculeModel| -> Result<Vec<f64>, MoleculeError> {
            let found = member.network.properties(&[structure]);
            let found = found.map_err(MoleculeError::of_only_structure)?.remove(0);
            Ok([found.total, found.atoms].concat())
        };
        let all = self.members.iter().map(of).collect::<Result<Vec<_>, _>>()?;
        let split = |mut total: Vec<f64>| {
            let atoms = total.split_off(width);
            Property { total, atoms }
        };
        let (mean, deviation) = moments(&all);
        Ok((split(mean), deviation.map(split)))
    }

    fn check(&self) -> Result<(), MoleculeError> {
        let Some((first, others)) = self.members.split_first() else {
            return Err(MoleculeError::Ensemble {
                what: "has no models; expected one or more".into(),
            });
        };
        let shown = |index: usize| self.names[index].display();
        for (index, other) in others.iter().enumerate() {
            let head = |model: &MoleculeModel| model.network.config().head.property();
            let of = |model: &MoleculeModel| {
                let known: Vec<String> =
                    model.checkpoint.species.iter().map(|z| crate::shown_species(*z)).collect();
                [
                    ("head", head(model).to_owned()),
                    ("units", model.checkpoint.units.to_string()),
                    (
                        "species",
                        if known.is_empty() { "not given".into() } else { known.join(" ") },
                    ),
                ]
            };
            let differ = of(first).into_iter().zip(of(other)).find(|(a, b)| a != b);
            if let Some(((key, own), (_, found))) = differ {
                let what = format!(
                    "differs in {key}: {own} in {}, {found} in {}; expected models of one quantity, \
                     in the same units, for the same species (`molecule convert` declares units and \
                     species)",
                    shown(0),
                    shown(index + 1)
                );
                return Err(MoleculeError::Ensemble { what });
            }
        }
        Ok(())
    }
}

/// The models of a path: itself, or those in a directory that is not a model.
fn models_in(path: &Path) -> Result<Vec<PathBuf>, MoleculeError> {
    let is_model = |path: &Path| path.join(SINGLE).is_file();
    if !path.is_dir() || is_model(path) {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    for entry in path.read_dir().map_err(FileError::read(path))? {
        let entry = entry.map_err(FileError::read(path))?.path();
        if is_model(&entry) || (entry.is_file() && is_checkpoint(&entry)) {
            found.push(entry);
        }
    }
    found.sort();
    match found.is_empty() {
        false => Ok(found),
        true => Err(MoleculeError::Checkpoint {
            path: path.to_owned(),
            what: "has no models; expected model.safetensors, or .ckpt and .safetensors of an \
                ensemble"
                .into(),
        }),
    }
}

/// Mean and unbiased standard deviation of numbers over members; no deviation for a single one.
fn moments(members: &[Vec<f64>]) -> (Vec<f64>, Option<Vec<f64>>) {
    let count = members.len() as f64;
    let numbers = 0..members[0].len();
    let sum = |of: &dyn Fn(&Vec<f64>) -> f64| members.iter().map(of).sum::<f64>();
    let mean: Vec<f64> = numbers.clone().map(|k| sum(&|one| one[k]) / count).collect();
    let square = |k: usize| sum(&|one| (one[k] - mean[k]) * (one[k] - mean[k]));
    let deviation = (members.len() > 1)
        .then(|| numbers.map(|k| (square(k) / (count - 1.0)).sqrt()).collect::<Vec<f64>>());
    (mean, deviation)
}

/// Several potentials, and their mean.
struct Mean {
    members: Vec<Box<dyn Potential>>,
}

impl Potential for Mean {
    fn cutoff(&self) -> f64 {
        self.members.iter().map(|member| member.cutoff()).fold(0.0, f64::max)
    }

    fn predict(
        &mut self,
        structure: &Structure,
        wanted: Wanted,
    ) -> Result<Prediction, MoleculeError> {
        let mut all = Vec::with_capacity(self.members.len());
        let mut shape = Prediction::default();
        for member in &mut self.members {
            shape = member.predict(structure, wanted)?;
            all.push(numbers_of(&shape));
        }
        let (mean, deviation) = moments(&all);
        let mut found = shape.clone();
        fill(&mut found, &mean);
        found.deviation = deviation.map(|deviation| {
            fill(&mut shape, &deviation);
            Deviation { energy: shape.energy, forces: shape.forces }
        });
        Ok(found)
    }

    fn keep_pairs(&mut self, skin: f64) -> Result<(), MoleculeError> {
        self.members.iter_mut().try_for_each(|member| member.keep_pairs(skin))
    }
}

/// All numbers of a prediction, in a fixed order.
fn numbers_of(prediction: &Prediction) -> Vec<f64> {
    let Prediction { energy, atom_energies, forces, virial, .. } = prediction;
    let parts = [&[*energy][..], virial.as_flattened(), atom_energies, forces.as_flattened()];
    parts.concat()
}

/// The reverse of [`numbers_of`].
fn fill(prediction: &mut Prediction, numbers: &[f64]) {
    let Prediction { energy, atom_energies, forces, virial, .. } = prediction;
    let places = std::iter::once(energy)
        .chain(virial.as_flattened_mut())
        .chain(atom_energies)
        .chain(forces.as_flattened_mut());
    places.zip(numbers).for_each(|(place, number)| *place = *number);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::reference;
    use crate::{Numbers, Weight};

    fn water() -> Structure {
        Structure {
            species: vec![8, 1, 1],
            positions: vec![[0.0, 0.0, 0.1], [0.0, 0.8, -0.5], [0.0, -0.8, -0.5]],
            ..Structure::default()
        }
    }

    /// A checkpoint whose outputs have another factor.
    fn scaled(factor: f64) -> Checkpoint {
        let mut checkpoint = Checkpoint::open(&reference("a_lightning.ckpt")).unwrap();
        let std = checkpoint.tensors.get_mut("std").unwrap();
        *std = Weight { shape: Vec::new(), numbers: Numbers::F64(vec![factor]) };
        checkpoint
    }

    /// Three models in a directory, and what each predicts.
    fn three(folder: &Path) -> Vec<Prediction> {
        let factors = [0.8, 1.0, 1.5];
        let each = factors.iter().enumerate().map(|(index, factor)| {
            let path = folder.join(format!("model_{index}.safetensors"));
            scaled(*factor).save(&path).unwrap();
            let mut potential = MoleculeModel::open(&path).unwrap().potential(true).unwrap();
            potential.predict(&water(), Wanted { forces: true }).unwrap()
        });
        each.collect()
    }

    #[test]
    fn an_ensemble_predicts_means_and_unbiased_deviations() {
        let folder = tempfile::tempdir().unwrap();
        let each = three(folder.path());
        let ensemble = Ensemble::open(&[folder.path()], PriorChoices::default()).unwrap();
        assert_eq!(ensemble.members().len(), 3);
        for exact in [true, false] {
            let mut potential = ensemble.potential(exact).unwrap();
            let found = potential.predict(&water(), Wanted { forces: true }).unwrap();
            let deviation = found.deviation.unwrap();
            let check = |mean: f64, spread: f64, of: &dyn Fn(&Prediction) -> f64| {
                let values: Vec<f64> = each.iter().map(of).collect();
                let want = values.iter().sum::<f64>() / 3.0;
                let square: f64 = values.iter().map(|x| (x - want) * (x - want)).sum();
                let near = |a: f64, b: f64| (a - b).abs() < if exact { 1e-12 } else { 1e-4 };
                assert!(near(mean, want), "{mean} {want}");
                assert!(near(spread, (square / 2.0).sqrt()), "{spread} {square}");
            };
            check(found.energy, deviation.energy, &|one| one.energy);
            assert!(deviation.energy > 0.1 && found.atom_energies.len() == 3);
            for (atom, axis) in (0..3).flat_map(|atom| (0..3).map(move |axis| (atom, axis))) {
                let (mean, spread) = (found.forces[atom][axis], deviation.forces[atom][axis]);
                check(mean, spread, &|one| one.forces[atom][axis]);
            }
        }
    }

    #[test]
    fn other_properties_have_means_and_deviations_too() {
        let members = [1.0, 3.0].map(|factor| {
            let mut checkpoint = scaled(factor);
            checkpoint.hyper.insert("output_model".into(), "ElectronicSpatialExtent".into());
            checkpoint.tensors.get_mut("mean").unwrap().numbers = Numbers::F64(vec![0.0]);
            MoleculeModel::of_checkpoint(checkpoint, PriorChoices::default()).unwrap()
        });
        let names = vec![PathBuf::from("a"), PathBuf::from("b")];
        let ensemble = Ensemble { names, members: members.to_vec() };
        ensemble.check().unwrap();
        let own = members[0].network.properties(&[&water()]).unwrap().remove(0);
        let (mean, deviation) = ensemble.property(&water()).unwrap();
        let deviation = deviation.unwrap();
        // Of one and three times a number: twice, and a root of two times it.
        let near = |found: &[f64], factor: f64, own: &[f64]| {
            assert_eq!(found.len(), own.len());
            let pairs = found.iter().zip(own);
            pairs.for_each(|(a, b)| assert!((a - factor * b).abs() < 1e-10, "{a} {b}"));
        };
        near(&mean.total, 2.0, &own.total);
        near(&mean.atoms, 2.0, &own.atoms);
        let sizes = own.atoms.iter().map(|x| x.abs()).collect::<Vec<_>>();
        near(&deviation.atoms, 2.0_f64.sqrt(), &sizes);
        near(&deviation.total, 2.0_f64.sqrt(), &[own.total[0].abs()]);
    }

    #[test]
    fn files_directories_and_archives_are_the_same_ensemble() {
        let folder = tempfile::tempdir().unwrap();
        three(folder.path());
        let paths = [0, 1, 2].map(|k| folder.path().join(format!("model_{k}.safetensors")));
        let archive = folder.path().join("ensemble.zip");
        let files = paths.each_ref().map(|path| std::fs::read(path).unwrap());
        let names = ["model_0.safetensors", "model_1.safetensors", "model_2.safetensors"];
        std::fs::write(&archive, stored(&names, &files)).unwrap();
        let energy = |paths: &[&Path]| {
            let ensemble = Ensemble::open(paths, PriorChoices::default()).unwrap();
            let found = ensemble.potential(true).unwrap().predict(&water(), Wanted::default());
            (ensemble.members().len(), found.unwrap().energy)
        };
        let want = energy(&[folder.path()]);
        assert_eq!(want.0, 3);
        assert_eq!(energy(&[&archive]), want);
        let error = Checkpoint::open(&archive).unwrap_err().to_string();
        assert!(error.contains("several models"), "{error}");
        assert_eq!(energy(&paths.each_ref().map(PathBuf::as_path)), want);
    }

    #[test]
    fn an_ensemble_is_written_for_both_programs() {
        let folder = tempfile::tempdir().unwrap();
        three(folder.path());
        let models = Ensemble::open(&[folder.path()], PriorChoices::default()).unwrap();
        let models = models.declared(Some(Units::parse("kcal/mol,A").unwrap()), &[8, 1]);
        let (archive, own) = (folder.path().join("all.zip"), folder.path().join("own"));
        std::fs::write(&archive, models.to_archive(&archive).unwrap()).unwrap();
        models.written(&own, false, &[]).unwrap().commit().unwrap();
        for path in [archive, own] {
            let found = Ensemble::open(&[path], PriorChoices::default()).unwrap();
            assert_eq!(found.stems(), ["model_0", "model_1", "model_2"]);
            assert_eq!(found.units().to_string(), models.units().to_string());
            for (a, b) in found.members().iter().zip(models.members()) {
                assert_eq!(a.checkpoint.tensors, b.checkpoint.tensors);
                assert_eq!(a.checkpoint.species, [1, 8]);
            }
        }
    }

    #[test]
    fn names_of_files_are_different() {
        let model = MoleculeModel::of_checkpoint(scaled(1.0), PriorChoices::default()).unwrap();
        let names = ["a/model.safetensors", "b/x.ckpt", "c/x.safetensors", "d"];
        let members = vec![model; names.len()];
        let ensemble = Ensemble { names: names.map(PathBuf::from).to_vec(), members };
        assert_eq!(ensemble.stems(), ["a", "x-1", "x-2", "d"]);
        // Nor is one that of a single model, or of another one with a number.
        let names = ["model.ckpt", "x.ckpt", "b/x.ckpt", "x-1.ckpt"].map(PathBuf::from).to_vec();
        let ensemble = Ensemble { names, ..ensemble };
        assert_eq!(ensemble.stems(), ["model-0", "x-1-1", "x-2", "x-1"]);
    }

    #[test]
    fn models_that_do_not_belong_together_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let said = |change: &dyn Fn(&mut Checkpoint)| {
            let mut other = scaled(1.0);
            scaled(1.0).save(&path("a.safetensors")).unwrap();
            change(&mut other);
            other.save(&path("b.safetensors")).unwrap();
            let paths = [path("a.safetensors"), path("b.safetensors")];
            Ensemble::open(&paths, PriorChoices::default()).unwrap_err().to_string()
        };
        let units = said(&|other| other.units = Units::parse("kcal/mol,A").unwrap());
        assert!(units.contains("units") && units.contains("kcal/mol"), "{units}");
        let species = said(&|other| other.species = vec![1, 8]);
        assert!(species.contains("H O") && species.contains("b.safetensors"), "{species}");
        let head = said(&|other| {
            other.hyper.insert("output_model".into(), "DipoleMoment".into());
        });
        assert!(head.contains("dipole_moment"), "{head}");
        let empty = folder.path().join("empty");
        std::fs::create_dir(&empty).unwrap();
        let error = Ensemble::open(&[&empty], PriorChoices::default()).unwrap_err().to_string();
        assert!(error.contains("no models"), "{error}");
        std::fs::write(path("none.zip"), stored(&["readme.txt"], &[b"x".to_vec()])).unwrap();
        let error = Ensemble::open(&[path("none.zip")], PriorChoices::default()).unwrap_err();
        assert!(error.to_string().contains("without checkpoints"), "{error}");
    }

    /// A zip archive of uncompressed files.
    fn stored(names: &[&str], files: &[Vec<u8>]) -> Vec<u8> {
        let (mut bytes, mut directory) = (Vec::new(), Vec::new());
        for (name, file) in names.iter().zip(files) {
            let sizes = [file.len() as u32; 2].map(u32::to_le_bytes).concat();
            let name_length = (name.len() as u16).to_le_bytes();
            // Version, flags, method, time, date and checksum: none of them is read but the method.
            let fields = [&[20, 0][..], &[0; 12], &sizes, &name_length, &[0, 0]].concat();
            let start = (bytes.len() as u32).to_le_bytes();
            bytes.extend([&b"PK\x03\x04"[..], &fields, name.as_bytes(), file].concat());
            directory.extend([&b"PK\x01\x02"[..], &[20, 0], &fields, &[0; 10], &start].concat());
            directory.extend(name.as_bytes());
        }
        let count = (names.len() as u16).to_le_bytes();
        let [size, start] = [directory.len(), bytes.len()].map(|n| (n as u32).to_le_bytes());
        let end = [&b"PK\x05\x06"[..], &[0; 4], &count, &count, &size, &start, &[0, 0]].concat();
        [bytes, directory, end].concat()
    }
}
