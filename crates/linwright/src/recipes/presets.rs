//! Built-in recipes, and recipe files.

use crate::jobs::kit::Failure;
use linwright_compress::form::RecipeError;
use linwright_run::input;
use linwright_run::spelling::distance;
use std::path::Path;

/// Size limit of a recipe in bytes.
const MAX_BYTES: u64 = 1 << 22;

/// A built-in recipe.
#[derive(Debug)]
pub struct Preset {
    /// The name for `-r`.
    pub name: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// The recipe.
    pub text: &'static str,
}

/// The built-in recipes.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "main-job",
        summary: "rotor, low-rank and block-Hadamard maps on one layer of the built-in model",
        text: include_str!("../../../../recipes/main-job.yaml"),
    },
    Preset {
        name: "rotor-paper-pocket",
        summary: "the rotor paper's comparison on one, two and three layers of the built-in model",
        text: include_str!("../../../../recipes/rotor-paper-pocket.yaml"),
    },
    Preset {
        name: "equal-parameters-pocket",
        summary: "rotor networks and other operators of equal size, on the same layers",
        text: include_str!("../../../../recipes/equal-parameters-pocket.yaml"),
    },
    Preset {
        name: "rotor-paper-stories260k",
        summary: "the rotor paper's comparison on stories260K, whose files you provide",
        text: include_str!("../../../../recipes/rotor-paper-stories260k.yaml"),
    },
    Preset {
        name: "laser-pocket",
        summary: "LASER on the built-in model: rank reduction in each layer, scored on questions; seconds",
        text: include_str!("../../../../recipes/laser-pocket.yaml"),
    },
    Preset {
        name: "two-methods-pocket",
        summary: "a list of jobs: all layers of the built-in model by two methods, one exported",
        text: include_str!("../../../../recipes/two-methods-pocket.yaml"),
    },
    Preset {
        name: "laser-pocket-finding",
        summary: "whether LASER and Vendi-LASER help the built-in model, by frequency of the facts",
        text: include_str!("../../../../recipes/laser-pocket-finding.yaml"),
    },
];

/// Name and text of a built-in recipe or of a file.
pub(crate) fn open(path: &Path) -> Result<(String, String), Failure> {
    let preset = PRESETS.iter().find(|preset| Path::new(preset.name) == path);
    if let Some(preset) = preset
        && !path.exists()
    {
        return Ok((preset.name.to_owned(), preset.text.to_owned()));
    }
    let name =
        path.file_stem().map_or_else(|| "run".into(), |stem| stem.to_string_lossy().into_owned());
    let text = input::read_text(path, MAX_BYTES).map_err(|source| {
        let missing = source.kind() == std::io::ErrorKind::NotFound;
        let failure = Failure::from(RecipeError::Io { path: path.to_owned(), source });
        if missing { failure.hint(presets_near(&path.to_string_lossy())) } else { failure }
    })?;
    Ok((name, text))
}

/// The hint for an unknown recipe name.
fn presets_near(name: &str) -> String {
    let names: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
    let near = |known: &&str| distance(name, known) <= 1 + name.chars().count() / 3;
    let asked = names.iter().copied().filter(near).min_by_key(|known| distance(name, known));
    let asked = asked.map_or_else(String::new, |known| format!("did you mean {known}? "));
    format!("{asked}the built-in recipes are {}", names.join(", "))
}
