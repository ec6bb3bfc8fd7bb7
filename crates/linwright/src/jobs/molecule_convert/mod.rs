//! Molecular potentials as safetensors.

use super::outcome::text;
use super::{Failure, Job, Outcome, Session, outputs};
use linwright_molecule::{Checkpoint, MoleculeModel, Units, atomic_number};
use linwright_run::Monitor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::{Path, PathBuf};

/// A molecular potential as safetensors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MoleculeConvert {
    /// A checkpoint of torchmd-net (`.ckpt`), a `.safetensors`, or a directory with
    /// `model.safetensors`.
    #[schemars(extend("x-positional" = true))]
    pub potential: String,
    /// The file to write, which names of torchmd-net load as a state dict.
    #[schemars(extend("x-short" = "o", "x-path" = true, "x-required" = true))]
    pub output: PathBuf,
    /// Units of the model, such as `eV,A` [default: those of the file, or eV and angstroms].
    #[schemars(extend("x-value" = "ENERGY,LENGTH", "x-whole" = true))]
    pub units: Option<String>,
    /// Elements that the model was trained on, such as `H,C,O`; others are
    /// refused then [default: those of the file].
    #[schemars(extend("x-value" = "SYMBOL"))]
    pub species: Vec<String>,
    /// Overwrite an existing file.
    pub force: bool,
}

impl Job for MoleculeConvert {
    const VERB: &str = "molecule-convert";
    const ABOUT: &str = "Write a molecular potential as one safetensors file.\n\n\
        Checkpoints are read without executing anything in them. Weights of the layout before 2026 \
        are rearranged. The file has hyper-parameters, units and species in its metadata.";
    const OUTPUT_ENDING: &str = ".safetensors";

    fn inputs(&self) -> Vec<PathBuf> {
        vec![PathBuf::from(&self.potential)]
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        let inputs = outputs::inputs_of(self, session);
        outputs::file(&self.output, self.force, &inputs, session, |path| {
            Checkpoint::open(path).is_ok()
        })?;
        session.step(&format!("loading {}", self.potential));
        let MoleculeModel { mut checkpoint, .. } = MoleculeModel::open(Path::new(&self.potential))?;
        if let Some(units) = &self.units {
            checkpoint.units = Units::parse(units)?;
        }
        if !self.species.is_empty() {
            let number = |symbol: &String| {
                atomic_number(symbol).ok_or_else(|| {
                    Failure::usage(format!("--species {symbol}: no element has this symbol"))
                })
            };
            checkpoint.species = self.species.iter().map(number).collect::<Result<_, _>>()?;
            checkpoint.species.sort_unstable();
        }
        session.step("writing");
        checkpoint.save(&self.output)?;
        let again = MoleculeModel::open(&self.output)?;
        if again.checkpoint.tensors != checkpoint.tensors {
            return Err(Failure::general(format!(
                "{}: was not read back as it was written; check the disk",
                self.output.display()
            )));
        }
        session.finish();
        checkpoint.notes.iter().for_each(|note| session.note(note));
        let result = json!({
            "schema": 1,
            "output": session.portable(&self.output),
            "tensors": checkpoint.tensors.len(),
        });
        let line =
            format!("wrote {} tensors to {}", checkpoint.tensors.len(), self.output.display());
        Ok(Outcome::new(result, vec![text([line])]))
    }
}
