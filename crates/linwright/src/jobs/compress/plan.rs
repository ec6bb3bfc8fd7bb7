//! From options to a plan.

use super::{Compress, Heal, MethodName};
use crate::jobs::{JobError, parse_layers};
use linwright_compress::methods::{
    BlockHadamardMethod, DenseMethod, How, LowRankMethod, Method, RotorMethod, StructuredMethod,
    Training,
};
use linwright_compress::pipeline::{Edit, INPUTS, Plan};
use linwright_compress::{MethodSpec, recipe};
use linwright_model::Transformer;
use linwright_ops::{OpSpec, Role, Sites};

/// Roles that `--targets` takes: those of a layer.
pub(super) const ROLES: [Role; 11] = [
    Role::Query,
    Role::Key,
    Role::Value,
    Role::QueryKeyValue,
    Role::Output,
    Role::Gate,
    Role::Up,
    Role::GateUp,
    Role::Down,
    Role::FcIn,
    Role::FcOut,
];

pub(super) fn plan(job: &Compress, model: &Transformer) -> Result<Plan, JobError> {
    let layers = match &job.layers {
        Some(text) => parse_layers("layers", text)?,
        None => (0..model.config().layers.len()).collect(),
    };
    let method = method(job)?;
    let targets = if job.targets.is_empty() {
        let layer: Vec<Role> =
            model.slots().iter().filter(|s| s.layer().is_some()).map(|s| s.role()).collect();
        INPUTS.concat().into_iter().filter(|role| layer.contains(role)).collect()
    } else {
        job.targets.clone()
    };
    let attention = INPUTS[..2].concat().iter().any(|role| targets.contains(role));
    let mut edits = Vec::new();
    for group in INPUTS {
        let roles: Vec<Role> =
            group.iter().copied().filter(|role| targets.contains(role)).collect();
        if !roles.is_empty() {
            edits.push(Edit { roles, method: method.clone(), heals: false });
        } else if group == [Role::Output] && attention && job.heal != Heal::None {
            let fit = if job.heal == Heal::Trained { How::Trained } else { How::Closed };
            let heal = MethodSpec::Dense(DenseMethod { fit, ..DenseMethod::default() });
            edits.push(Edit { roles: vec![Role::Output], method: heal, heals: true });
        }
    }
    Ok(Plan { layers, edits, seed: job.seed })
}

/// Kinds of operators whose names `--method` accepts: they need no options, and no method has the
/// same name.
pub(super) fn kinds() -> Vec<&'static str> {
    let kinds = OpSpec::KINDS.iter().copied().filter(|kind| !MethodSpec::IDS.contains(kind));
    kinds.filter(|kind| structured(kind, None).is_ok()).collect()
}

/// The method that fits an operator: a kind with its default options, or a specification. With
/// `--keep` a kind needs no rank, which follows from the share.
fn structured(operator: &str, keep: Option<f64>) -> Result<StructuredMethod, JobError> {
    let ranked = format!("{{kind: {}, rank: 1}}", operator.replace('-', "_"));
    let operator = match keep.is_some() && recipe::operator(operator).is_err() {
        true if recipe::operator(&ranked).is_ok() => &ranked,
        _ => operator,
    };
    let operator = recipe::operator(operator).map_err(|error| JobError::new(error.to_string()))?;
    let method = StructuredMethod { keep, ..StructuredMethod::new(operator) };
    method.check().map_err(|reason| JobError::new(format!("--operator {reason}")))?;
    Ok(method)
}

fn method(job: &Compress) -> Result<MethodSpec, JobError> {
    let low_rank_only = |present: bool, flag: &str| {
        if present {
            Err(JobError::new(format!("{flag} goes with --method low_rank")))
        } else {
            Ok(())
        }
    };
    let epochs = job.epochs;
    let standard =
        if job.operator.is_some() { MethodName::Structured } else { MethodName::LowRank };
    let chosen = job.method.unwrap_or(standard);
    if job.operator.is_some() && !matches!(chosen, MethodName::Structured) {
        return Err(JobError::new("--operator goes with --method structured"));
    }
    Ok(match chosen {
        MethodName::LowRank => {
            if job.rank.is_none() && job.keep.is_none() {
                return Err(
                    JobError::new("low rank needs a budget").hint("give --keep SHARE or --rank N")
                );
            }
            let fit = if job.trained { How::Trained } else { How::Closed };
            let training = Training { epochs, ..Training::default() };
            MethodSpec::LowRank(LowRankMethod { rank: job.rank, keep: job.keep, fit, training })
        }
        MethodName::Rotor | MethodName::BlockHadamard => {
            low_rank_only(job.rank.is_some(), "--rank")?;
            low_rank_only(job.trained, "--trained")?;
            if matches!(chosen, MethodName::Rotor) {
                let mut method = RotorMethod { keep: job.keep, ..RotorMethod::default() };
                method.training.epochs = epochs;
                MethodSpec::Rotor(method)
            } else {
                let mut method =
                    BlockHadamardMethod { keep: job.keep, ..BlockHadamardMethod::default() };
                method.training.epochs = epochs;
                MethodSpec::BlockHadamard(method)
            }
        }
        MethodName::Structured | MethodName::Kind(_) => {
            low_rank_only(job.rank.is_some(), "--rank")?;
            low_rank_only(job.trained, "--trained")?;
            let operator = match (chosen, &job.operator) {
                (MethodName::Kind(kind), _) => kind,
                (_, Some(operator)) => operator,
                (_, None) => {
                    return Err(JobError::new("structured needs an operator")
                        .hint("give --operator KIND; `linwright ls operators` lists the kinds"));
                }
            };
            MethodSpec::Structured(structured(operator, job.keep)?)
        }
    })
}
