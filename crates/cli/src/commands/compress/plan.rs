//! From the options of `linwright compress` to a plan.

use super::{CompressArgs, HealArg, MethodArg};
use crate::failure::{Failure, message_of};
use linwright::compress::methods::{
    BlockHadamardMethod, DenseMethod, How, LowRankMethod, Method, RotorMethod, StructuredMethod,
    Training,
};
use linwright::compress::pipeline::{Edit, INPUTS, Plan};
use linwright::compress::{MethodSpec, recipe};
use linwright::model::Transformer;
use linwright::ops::{OpSpec, Role, Sites};
use linwright::run::shown;

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

pub(super) fn plan(args: &CompressArgs, model: &Transformer) -> Result<Plan, Failure> {
    let layers = match &args.layers {
        Some(text) => parse_layers(text)?,
        None => (0..model.config().layers.len()).collect(),
    };
    let method = method(args)?;
    let targets = if args.targets.is_empty() {
        let layer: Vec<Role> =
            model.slots().iter().filter(|s| s.layer().is_some()).map(|s| s.role()).collect();
        INPUTS.concat().into_iter().filter(|role| layer.contains(role)).collect()
    } else {
        args.targets.clone()
    };
    let attention = INPUTS[..2].concat().iter().any(|role| targets.contains(role));
    let mut edits = Vec::new();
    for group in INPUTS {
        let roles: Vec<Role> =
            group.iter().copied().filter(|role| targets.contains(role)).collect();
        if !roles.is_empty() {
            edits.push(Edit { roles, method: method.clone(), heals: false });
        } else if group == [Role::Output] && attention && args.heal != HealArg::None {
            let fit = if args.heal == HealArg::Trained { How::Trained } else { How::Closed };
            let heal = MethodSpec::Dense(DenseMethod { fit, ..DenseMethod::default() });
            edits.push(Edit { roles: vec![Role::Output], method: heal, heals: true });
        }
    }
    Ok(Plan { layers, edits, seed: args.seed })
}

/// Kinds of operators whose names `--method` accepts: they need no options, and no method has the
/// same name.
pub(super) fn kinds() -> Vec<&'static str> {
    let kinds = OpSpec::KINDS.iter().copied().filter(|kind| !MethodSpec::IDS.contains(kind));
    kinds.filter(|kind| structured(kind, None).is_ok()).collect()
}

/// The method that fits an operator: a kind with its default options, or a specification. With
/// `--keep` a kind needs no rank, which follows from the share.
fn structured(operator: &str, keep: Option<f64>) -> Result<StructuredMethod, Failure> {
    let ranked = format!("{{kind: {}, rank: 1}}", operator.replace('-', "_"));
    let operator = match keep.is_some() && recipe::operator(operator).is_err() {
        true if recipe::operator(&ranked).is_ok() => &ranked,
        _ => operator,
    };
    let operator =
        recipe::operator(operator).map_err(|error| Failure::usage(message_of(&error)))?;
    let method = StructuredMethod { keep, ..StructuredMethod::new(operator) };
    method.check().map_err(|reason| Failure::usage(format!("--operator {reason}")))?;
    Ok(method)
}

fn method(args: &CompressArgs) -> Result<MethodSpec, Failure> {
    let low_rank_only = |present: bool, flag: &str| {
        if present {
            Err(Failure::usage(format!("{flag} goes with --method low_rank")))
        } else {
            Ok(())
        }
    };
    let epochs = args.epochs;
    let standard = if args.operator.is_some() { MethodArg::Structured } else { MethodArg::LowRank };
    let chosen = args.method.unwrap_or(standard);
    if args.operator.is_some() && !matches!(chosen, MethodArg::Structured) {
        return Err(Failure::usage("--operator goes with --method structured"));
    }
    Ok(match chosen {
        MethodArg::LowRank => {
            if args.rank.is_none() && args.keep.is_none() {
                return Err(
                    Failure::usage("low rank needs a budget").hint("give --keep SHARE or --rank N")
                );
            }
            let fit = if args.trained { How::Trained } else { How::Closed };
            let training = Training { epochs, ..Training::default() };
            MethodSpec::LowRank(LowRankMethod { rank: args.rank, keep: args.keep, fit, training })
        }
        MethodArg::Rotor | MethodArg::BlockHadamard => {
            low_rank_only(args.rank.is_some(), "--rank")?;
            low_rank_only(args.trained, "--trained")?;
            if matches!(chosen, MethodArg::Rotor) {
                let mut method = RotorMethod { keep: args.keep, ..RotorMethod::default() };
                method.training.epochs = epochs;
                MethodSpec::Rotor(method)
            } else {
                let mut method =
                    BlockHadamardMethod { keep: args.keep, ..BlockHadamardMethod::default() };
                method.training.epochs = epochs;
                MethodSpec::BlockHadamard(method)
            }
        }
        MethodArg::Structured | MethodArg::Kind(_) => {
            low_rank_only(args.rank.is_some(), "--rank")?;
            low_rank_only(args.trained, "--trained")?;
            let operator = match (chosen, &args.operator) {
                (MethodArg::Kind(kind), _) => kind,
                (_, Some(operator)) => operator,
                (_, None) => {
                    return Err(Failure::usage("structured needs an operator")
                        .hint("give --operator KIND; `linwright ls operators` lists the kinds"));
                }
            };
            MethodSpec::Structured(structured(operator, args.keep)?)
        }
    })
}

/// Parses `3`, `3,5`, `0-7` and their combinations.
pub(crate) fn parse_layers(text: &str) -> Result<Vec<usize>, Failure> {
    let wrong = || {
        let text = shown(text);
        Failure::usage(format!(
            "--layers \"{text}\": expected numbers and ranges such as 3,5 or 0-7"
        ))
    };
    let mut layers = Vec::new();
    for part in text.split(',') {
        let number = |text: &str| text.trim().parse::<usize>().map_err(|_| wrong());
        match part.split_once('-') {
            None => layers.push(number(part)?),
            Some((first, last)) => {
                let (first, last) = (number(first)?, number(last)?);
                if first > last || last > 100_000 {
                    return Err(wrong());
                }
                layers.extend(first..=last);
            }
        }
    }
    let mut seen = layers.clone();
    seen.sort_unstable();
    seen.dedup();
    if seen.len() != layers.len() {
        return Err(Failure::usage(format!("--layers \"{}\" names a layer twice", shown(text))));
    }
    Ok(layers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_numbers_and_ranges_without_repeats() {
        assert_eq!(parse_layers("3,5,0-2").expect("parses"), [3, 5, 0, 1, 2]);
        for text in ["", "a", "3-", "5-3", "1,1", "0-2,1", "-1", "0-99999999"] {
            assert!(parse_layers(text).is_err(), "{text:?}");
        }
    }
}
