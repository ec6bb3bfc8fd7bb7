//! Namespaces: the one kind of value that a template can change.

use minijinja::Value;
use minijinja::value::{Enumerator, Object};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Names with values. It holds no other namespace, so no value can hold itself.
#[derive(Debug, Default)]
pub(super) struct Namespace {
    fields: Mutex<BTreeMap<Arc<str>, Value>>,
}

impl Namespace {
    /// The names and values.
    pub(super) fn fields(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Value>> {
        // Every change is one insertion, so a panic elsewhere leaves a consistent state.
        self.fields.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Object for Namespace {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.fields().get(key.as_str()?).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.fields().keys().cloned().map(Value::from).collect())
    }
}
