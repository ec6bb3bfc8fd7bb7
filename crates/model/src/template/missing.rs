//! The missing field that a template accesses, for messages.

use super::compile::{Compiled, KEEP};
use linwright_run::shown;
use minijinja::Value;
use minijinja::machinery::{Instruction, Instructions};
use std::collections::BTreeSet;

/// Largest number of fields that a message lists.
const LISTED: usize = 24;

/// The first missing field on a line, and the existing fields. A field that the template only
/// tests, as in `x is defined`, is not missing.
pub(super) fn missing(
    compiled: &Compiled<'_>,
    variables: &Value,
    line: Option<usize>,
    known: impl Fn(&str) -> bool,
) -> Option<String> {
    let parts: Vec<&Instructions<'_>> =
        std::iter::once(&compiled.instructions).chain(compiled.blocks.values()).collect();
    let locals: BTreeSet<&str> = parts.iter().flat_map(|part| locals(part)).collect();
    parts.iter().find_map(|part| {
        let mut at = 0;
        while let Some(instruction) = part.get(at) {
            let here = line.is_none() || part.get_line(at) == line;
            at += 1;
            let Instruction::Lookup(name) = instruction else { continue };
            let mut path = vec![*name];
            while let Some(Instruction::GetAttr(name)) = part.get(at) {
                path.push(name);
                at += 1;
            }
            if here
                && !locals.contains(path[0])
                && !known(path[0])
                && !is_asked_about(part, at)
                && let Some(message) = lacks(variables, &path)
            {
                return Some(message);
            }
        }
        None
    })
}

/// Names set by the template.
fn locals<'a>(part: &Instructions<'a>) -> Vec<&'a str> {
    let stored = |instruction: &Instruction<'a>| match instruction {
        Instruction::StoreLocal(name) => Some(*name),
        Instruction::PushLoop(_) => Some("loop"),
        _ => None,
    };
    (0..).map_while(|at| part.get(at)).filter_map(stored).collect()
}

/// Whether the value before an instruction may be undefined.
fn is_asked_about(part: &Instructions<'_>, at: u32) -> bool {
    let next = (at..).map_while(|at| part.get(at));
    let mut next = next.skip_while(|next| matches!(next, Instruction::CallFunction(KEEP, _)));
    match next.next() {
        Some(Instruction::PerformTest(name, ..)) => matches!(*name, "defined" | "undefined"),
        Some(Instruction::ApplyFilter(name, ..)) => matches!(*name, "default" | "d"),
        // The argument of `default` is in between.
        Some(Instruction::LoadConst(_)) => {
            matches!(next.next(), Some(Instruction::ApplyFilter("default" | "d", ..)))
        }
        _ => false,
    }
}

/// A message if a path has no value.
fn lacks(variables: &Value, path: &[&str]) -> Option<String> {
    let mut value = variables.clone();
    for (depth, name) in path.iter().enumerate() {
        let next = value.get_attr(name).ok().filter(|next| !next.is_undefined());
        let Some(next) = next else {
            let field = shown(&path[..=depth].join("."));
            let of = match path[..depth].join(".") {
                outer if outer.is_empty() => String::new(),
                outer => format!(" of {}", shown(&outer)),
            };
            return Some(format!(
                "field `{field}` is missing; the fields{of} are {}",
                keys(&value)
            ));
        };
        value = next;
    }
    None
}

/// The names of a value's fields.
fn keys(value: &Value) -> String {
    let Some(object) = value.as_object() else { return "none".into() };
    let keys: Vec<String> = object
        .try_iter_pairs()
        .into_iter()
        .flatten()
        .filter_map(|(key, _)| key.as_str().map(shown))
        .take(LISTED + 1)
        .collect();
    let rest = if keys.len() > LISTED { " and more" } else { "" };
    match keys.is_empty() {
        true => "none".into(),
        false => format!("{:?}{rest}", &keys[..keys.len().min(LISTED)]),
    }
}
