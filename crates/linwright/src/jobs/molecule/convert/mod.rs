//! Molecular potentials as safetensors, and as checkpoints of torchmd-net.

mod result;

use self::result::PotentialConverted;
use crate::jobs::kit::saving::beside_new;
use crate::jobs::kit::{Failure, Job, Outcome, OutputPath, Session, outputs};
use linwright_molecule::{Checkpoint, Ensemble, PriorChoices, Units, atomic_number};
use linwright_report::ReportKind;
use linwright_run::Monitor;
use linwright_run::atomic::{AtomicFile, Replace};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A molecular potential in another format.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MoleculeConvert {
    /// A checkpoint of torchmd-net (`.ckpt`), a `.safetensors`, or a directory with
    /// `model.safetensors`; or an ensemble: a directory of several, or a `.zip` of torchmd-net.
    #[schemars(extend("x-positional" = true))]
    pub potential: String,
    /// The file to write: a `.ckpt`, which torchmd-net opens, or safetensors with the names of its
    /// state dict; of an ensemble a directory of safetensors, or a `.zip` that torchmd-net opens.
    #[schemars(extend("x-short" = "o", "x-required" = true))]
    pub output: OutputPath,
    /// Units of the model, such as `eV,A` [default: those of the file, or eV and angstroms].
    #[schemars(extend("x-value" = "ENERGY,LENGTH", "x-whole" = true))]
    pub units: Option<String>,
    /// Elements that the model was trained on, such as `H,C,O`; others are
    /// refused then [default: those of the file].
    #[schemars(extend("x-value" = "SYMBOL"))]
    pub species: Vec<String>,
    /// Overwrite what exists.
    pub force: bool,
}

impl Job for MoleculeConvert {
    const VERB: &str = "molecule-convert";
    const ABOUT: &str = "Write a molecular potential as a file of another format, for this program \
        or torchmd-net.\n\n\
        Checkpoints are read without executing anything in them. Weights of the layout before 2026 \
        are rearranged. The file has hyper-parameters, units and species in its metadata. In a \
        `.ckpt` operators are the dense weights that they equal, and torchmd-net reads energies of \
        atoms in single precision.";
    const OUTPUT_ENDING: &str = ".safetensors";
    const RESULTS: &'static [ReportKind] = &[ReportKind::of::<PotentialConverted>()];

    fn inputs(&self) -> Vec<PathBuf> {
        vec![PathBuf::from(&self.potential)]
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        let units = self.units.as_deref().map(Units::parse).transpose()?;
        let number = |symbol: &String| {
            atomic_number(symbol).ok_or_else(|| {
                Failure::usage(format!("--species {symbol}: no element has this symbol"))
            })
        };
        let species = self.species.iter().map(number).collect::<Result<Vec<u8>, _>>()?;
        session.step(&format!("loading {}", self.potential));
        let models = Ensemble::open(&[&self.potential], PriorChoices::default())?;
        let models = models.declared(units, &species);
        let members = models.members();
        let form = Form::of(&self.output, members.len())?;
        let inputs = outputs::inputs_of(self, session);
        let (path, force) = (&self.output, self.force);
        match form {
            Form::Directory => outputs::directory(path, force, &inputs, session)?,
            Form::Archive | Form::File => {
                outputs::file(path, force, &inputs, session, form.is_ours())?;
            }
        }
        session.step("writing");
        let found = match form {
            Form::Directory => {
                let what = format!("An ensemble of {} molecular potentials.", members.len());
                let beside = beside_new(session, &what, &Value::Object(Map::new()))?;
                let writer = models.written(path, force, &beside)?;
                let found = read_back(&models, writer.target.path(), path, session)?;
                writer.commit()?;
                found
            }
            Form::Archive | Form::File => {
                let parts = match form {
                    Form::File => members[0].checkpoint.file_parts(path)?,
                    _ => vec![models.to_archive(path)?],
                };
                let replace = Replace::if_forced(force, form.is_ours());
                let mut file = AtomicFile::create_apart(path, replace)?;
                parts.iter().try_for_each(|part| file.write(part))?;
                let found = match file.path() {
                    Some(unfinished) => read_back(&models, unfinished, path, session)?,
                    // Of a pipe nothing can be read back.
                    None => models.clone(),
                };
                file.commit()?;
                found
            }
        };
        session.finish();
        let notes = members.iter().flat_map(|member| &member.checkpoint.notes);
        notes.for_each(|note| session.note(note));
        let tensors: usize =
            found.members().iter().map(|member| member.checkpoint.tensors.len()).sum();
        Ok(Outcome::of(PotentialConverted {
            output: session.portable(path),
            members: members.len(),
            tensors,
        }))
    }
}

/// What is written.
#[derive(Clone, Copy)]
enum Form {
    /// One model.
    File,
    /// Checkpoints of torchmd-net in a `.zip`.
    Archive,
    /// Several models.
    Directory,
}

impl Form {
    /// Recognises an output of this program that may be replaced.
    fn is_ours(self) -> fn(&Path) -> bool {
        match self {
            Self::Archive => |path| Checkpoint::open_archive(path).is_ok(),
            Self::File | Self::Directory => |path| Checkpoint::open(path).is_ok(),
        }
    }

    fn of(output: &Path, members: usize) -> Result<Self, Failure> {
        let ending = output.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        match (ending, members) {
            ("zip", _) => Ok(Self::Archive),
            (_, 1) => Ok(Self::File),
            ("ckpt" | "safetensors", count) => {
                let output = output.display();
                let told = format!("--output {output}: {count} models do not fit into one file");
                Err(Failure::usage(told).hint("give a directory, or a .zip for torchmd-net"))
            }
            _ => Ok(Self::Directory),
        }
    }
}

/// The models that were written to an unfinished file or directory, of which nothing is left if
/// they cannot be read or differ.
fn read_back(
    written: &Ensemble,
    unfinished: &Path,
    path: &Path,
    session: &mut Session<'_>,
) -> Result<Ensemble, Failure> {
    let found = Ensemble::open(&[unfinished], PriorChoices::default())?;
    check_same(written, &found, path, session)?;
    Ok(found)
}

/// Refuses models that were not read back as they were written.
fn check_same(
    written: &Ensemble,
    found: &Ensemble,
    path: &Path,
    session: &mut Session<'_>,
) -> Result<(), Failure> {
    let models = |ensemble: &Ensemble| -> BTreeMap<String, Checkpoint> {
        let checkpoints = ensemble.members().iter().map(|member| member.checkpoint.clone());
        ensemble.stems().into_iter().zip(checkpoints).collect()
    };
    let (written, found) = (models(written), models(found));
    let pairs = || written.values().zip(found.values());
    if pairs().any(|(own, back)| own.operators.len() != back.operators.len()) {
        session.note("note: operators are written as the dense weights that they equal");
        return Ok(());
    }
    let is_same = written.len() == found.len()
        && pairs().all(|(own, back)| {
            (&own.tensors, own.units, &own.species) == (&back.tensors, back.units, &back.species)
        });
    match is_same {
        true => Ok(()),
        false => Err(Failure::general(format!(
            "{}: was not read back as it was written; check the disk",
            path.display()
        ))),
    }
}
