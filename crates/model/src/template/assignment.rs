//! What makes and changes namespaces: `namespace()` and `{% set a.b = value %}`.

use super::ledger::{Ledger, refusal};
use super::namespace::Namespace;
use minijinja::value::Kwargs;
use minijinja::{Error, State, Value};

/// `namespace(a=1)`, `namespace({"a": 1})`.
pub(super) fn namespace(
    state: &mut State<'_, '_>,
    defaults: Option<Value>,
    named: Kwargs,
) -> Result<Value, Error> {
    let space = Namespace::default();
    if let Some(defaults) = defaults {
        for key in defaults.try_iter()? {
            let value = defaults.get_item(&key)?;
            let name = key.as_str().ok_or_else(|| refusal("namespace: a name that is not text"))?;
            space.fields().insert(name.into(), allowed(state, value)?);
        }
    }
    for name in named.args() {
        let value = named.get::<Value>(name)?;
        space.fields().insert(name.into(), allowed(state, value)?);
    }
    named.assert_all_used()?;
    Ok(Value::from_object(space))
}

/// `{% set a.b = value %}`.
pub(super) fn set_attribute(
    state: &mut State<'_, '_>,
    value: Value,
    target: &Value,
    name: &str,
) -> Result<Value, Error> {
    let Some(space) = target.downcast_object_ref::<Namespace>() else {
        let kind = target.kind();
        return Err(refusal(format!("can only assign to namespaces, not {kind}")));
    };
    let value = allowed(state, value)?;
    space.fields().insert(name.into(), value);
    Ok(Value::UNDEFINED)
}

/// A value that a namespace may hold.
fn allowed(state: &mut State<'_, '_>, value: Value) -> Result<Value, Error> {
    if value.downcast_object_ref::<Namespace>().is_some() {
        return Err(refusal("it puts a namespace into a namespace, which could create a cycle"));
    }
    Ledger::of(state).keep(value, false)
}
