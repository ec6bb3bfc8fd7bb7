//! Readers of molecular structures, potentials and settings of their training.

use super::{descriptions, few, outcome};
use linwright_molecule::{
    Checkpoint, LabelKeys, MoleculeError, MoleculeModel, PriorChoices, Structure, Wanted,
    XyzReader, XyzWriter, parse_npz, parse_settings,
};
use std::path::Path;

/// Most numbers of a model that is evaluated, to keep runs short.
const MOST_NUMBERS: usize = 1 << 13;

fn frames(bytes: &[u8]) -> Result<Vec<Structure>, MoleculeError> {
    XyzReader::new(Path::new("frames.xyz"), bytes, LabelKeys::default()).collect()
}

/// Reads frames of extended XYZ, writes them, and reads them again.
pub(super) fn xyz(bytes: &[u8]) -> String {
    outcome(frames(bytes).map(|mut read| {
        let mut writer = XyzWriter::new(Vec::new());
        for frame in &read {
            let written = writer.frame(frame);
            assert!(written.is_ok(), "read frames can be written: {written:?}");
        }
        let mut again = match frames(&writer.into_inner()) {
            Ok(frames) => frames,
            Err(error) => panic!("written frames can be read: {error}"),
        };
        // Other pairs are text; an open box gets an additional one.
        read.iter_mut().chain(&mut again).for_each(|frame| frame.info.clear());
        assert_eq!(again, read, "written frames equal those read");
        let labelled = read.iter().filter(|frame| frame.labels.energy.is_some()).count();
        let cells = read.iter().filter(|frame| frame.cell.is_some()).count();
        format!("{} frames, {} energies, {} cells", few(read.len()), few(labelled), few(cells))
    }))
}

/// Reads structures of an archive of numpy.
pub(super) fn npz(bytes: &[u8]) -> String {
    outcome(parse_npz(Path::new("set.npz"), bytes.to_vec()).map(|read| {
        let labelled = read.iter().filter(|one| one.labels.forces.is_some()).count();
        format!("{} structures, {} with forces", few(read.len()), few(labelled))
    }))
}

/// Reads a checkpoint and predicts a small molecule by it, if it is small.
pub(super) fn checkpoint(bytes: &[u8]) -> String {
    let path = Path::new("model.ckpt");
    let model = |checkpoint| MoleculeModel::of_checkpoint(checkpoint, PriorChoices::default());
    let opened = Checkpoint::parse(path, bytes).and_then(model);
    outcome(opened.map(|model| {
        let (priors, notes) = (model.priors.len(), model.checkpoint.notes.len());
        let tensors = model.checkpoint.tensors.values();
        let numbers: usize = tensors.map(|weight| weight.shape.iter().product::<usize>()).sum();
        let told = format!("{} priors, {} notes", few(priors), few(notes));
        if numbers > MOST_NUMBERS {
            return told;
        }
        let structure = Structure {
            species: vec![1, 2, 1],
            positions: vec![[0.0, 0.0, 0.1], [0.0, 0.8, -0.5], [0.0, -0.8, -0.5]],
            ..Structure::default()
        };
        let energy = [true, false].map(|exact| {
            let mut potential = model.potential(exact).ok()?;
            let found = potential.predict(&structure, Wanted { forces: true }).ok()?;
            assert!(found.energy.is_finite() && found.forces.len() == 3, "{found:?}");
            Some(found.energy)
        });
        format!("{told}, energies {:?}", energy.map(|energy| energy.is_some()))
    }))
}

/// Reads a training file of torchmd-net. Its messages may quote lines of the file.
pub(super) fn settings(bytes: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(bytes) else { return "no text".into() };
    descriptions::outcome(parse_settings(Path::new("train.yaml"), text).map(|settings| {
        format!("{} keys, {} warnings", settings.hyper.len(), few(settings.warnings.len()))
    }))
}
