//! Training files of torchmd-net: YAML with the hyper-parameters of a run.

use super::damaged;
use crate::error::MoleculeError;
use linwright_files::FileError;
use linwright_run::{input, shown};
use serde_json::{Map, Value, json};
use std::path::Path;

/// Hyper-parameters of a file, completed with defaults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// All hyper-parameters, as in a checkpoint.
    pub hyper: Map<String, Value>,
    /// Notes on unknown keys of the file, which were ignored.
    pub warnings: Vec<String>,
}

/// Options for outputs and logging of a run; their values have no effect here.
const WITHOUT_EFFECT: [&str; 16] = [
    "load_model",
    "conf",
    "log_dir",
    "num_workers",
    "ngpus",
    "num_nodes",
    "redirect",
    "reset_trainer",
    "wandb_use",
    "wandb_name",
    "wandb_project",
    "wandb_resume_from_id",
    "tensorboard_use",
    "dataset_preload_limit",
    "test_interval",
    "save_interval",
];

/// Reads a training file; missing keys get the defaults of torchmd-net's command. Keys may be
/// written with hyphens. Unknown keys are warnings.
///
/// # Errors
/// A file that cannot be read, or that is not YAML with keys and values.
pub fn read_settings(path: &Path) -> Result<Settings, MoleculeError> {
    let text = input::read_text(path, input::MAX_SETTINGS_BYTES).map_err(FileError::read(path))?;
    parse_settings(path, &text)
}

/// The same for the text of a file, called `path` in messages.
///
/// # Errors
/// A text that is not YAML with keys and values.
pub fn parse_settings(path: &Path, text: &str) -> Result<Settings, MoleculeError> {
    parse(text).map_err(|what| damaged(path, what))
}

/// The settings of a text. The error is a description in words.
pub(super) fn parse(text: &str) -> Result<Settings, String> {
    let value: Value =
        serde_saphyr::from_str(text).map_err(|error| format!("is not YAML: {error}"))?;
    let Value::Object(given) = value else {
        return Err("holds no keys and values, expected those of torchmd-train".into());
    };
    let mut settings = Settings { hyper: defaults(), warnings: Vec::new() };
    for (key, value) in given {
        let key = key.replace('-', "_");
        if settings.hyper.contains_key(&key) || key == "check_errors" {
            settings.hyper.insert(key, value);
        } else if !WITHOUT_EFFECT.contains(&&*key) {
            settings.warnings.push(format!("key {} is unknown and was ignored", shown(&key)));
        }
    }
    Ok(settings)
}

/// Hyper-parameters with the defaults of the command.
pub(super) fn defaults() -> Map<String, Value> {
    let mut all = Map::new();
    for part in [of_training(), of_data(), of_model()] {
        if let Value::Object(part) = part {
            all.extend(part);
        }
    }
    all
}

fn of_training() -> Value {
    json!({
        "num_epochs": 300,
        "batch_size": 32,
        "inference_batch_size": null,
        "lr": 1e-4,
        "lr_patience": 10,
        "lr_metric": "val",
        "lr_min": 1e-6,
        "lr_factor": 0.8,
        "lr_warmup_steps": 0,
        "early_stopping_patience": 30,
        "early_stopping_monitor": "val_total_mse_loss",
        "weight_decay": 0.0,
        "ema_alpha_y": 1.0,
        "ema_alpha_neg_dy": 1.0,
        "precision": 32,
        "seed": 1,
        "gradient_clipping": 0.0,
        "remove_ref_energy": false,
        "checkpoint_monitor": "val_total_mse_loss",
        "load_weights": null,
        "y_weight": 1.0,
        "neg_dy_weight": 1.0,
        "train_loss": "mse_loss",
        "train_loss_arg": null,
    })
}

fn of_data() -> Value {
    json!({
        "splits": null,
        "train_size": null,
        "val_size": 0.05,
        "test_size": 0.1,
        "dataset": null,
        "dataset_root": "~/data",
        "dataset_arg": null,
        "coord_files": null,
        "embed_files": null,
        "energy_files": null,
        "force_files": null,
    })
}

fn of_model() -> Value {
    json!({
        "model": "graph-network",
        "output_model": "Scalar",
        "output_mlp_num_layers": 0,
        "prior_model": null,
        "prior_args": null,
        "charge": false,
        "spin": false,
        "embedding_dimension": 256,
        "num_layers": 6,
        "num_rbf": 64,
        "activation": "silu",
        "rbf_type": "expnorm",
        "trainable_rbf": false,
        "neighbor_embedding": false,
        "aggr": "add",
        "distance_influence": "both",
        "attn_activation": "silu",
        "num_heads": 8,
        "vector_cutoff": false,
        "equivariance_invariance_group": "O(3)",
        "box_vecs": null,
        "static_shapes": false,
        "derivative": false,
        "cutoff_lower": 0.0,
        "cutoff_upper": 5.0,
        "atom_filter": -1,
        "max_z": 100,
        "max_num_neighbors": 32,
        "standardize": false,
        "reduce_op": "add",
    })
}
