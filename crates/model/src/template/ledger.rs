//! Memory accounting of a template run, with its limits.

use super::namespace::Namespace;
use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, State, Value};

/// Limit of printed bytes, with captures of blocks and macros.
pub const MAX_OUTPUT: usize = 1 << 24;
/// Limit of the bytes of one string: more than the longest context holds.
pub const MAX_TEXT: usize = 1 << 23;
/// Limit of the bytes of all values.
const MAX_ALLOCATED: usize = 96 << 20;
/// Limit of nested items of one value, each counted as often as it would be printed.
const MAX_NODES: usize = 1 << 18;
/// Limit of the nesting depth of values; parsed JSON has at most 128.
const MAX_DEPTH: usize = 160;
/// Limit of values visited by checks.
const MAX_VISITS: usize = 1 << 24;
/// Bytes of a list item.
pub(super) const NODE_BYTES: usize = 32;
/// Bytes of a printed number.
const NUMBER_TEXT: usize = 24;

/// Size of a value when printed in full.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Extent {
    pub(super) nodes: usize,
    pub(super) text: usize,
    pub(super) depth: usize,
}

/// The account of one template run.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    printed: usize,
    allocated: usize,
    visits: usize,
}

/// The error for a limit that was exceeded.
pub(super) fn refusal(reason: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, reason.into())
}

impl Ledger {
    /// The account of a run.
    pub(super) fn of<'a>(state: &'a mut State<'_, '_>) -> &'a mut Self {
        state.get_or_insert_extension_with(Self::default)
    }

    /// Accounts for printed text.
    pub(super) fn print(&mut self, bytes: usize) -> Result<(), Error> {
        self.printed = self.printed.saturating_add(bytes);
        if self.printed > MAX_OUTPUT {
            return Err(refusal(format!("it prints more than {MAX_OUTPUT} bytes")));
        }
        Ok(())
    }

    /// Accounts for a new value of this many bytes.
    pub(super) fn make(&mut self, bytes: usize) -> Result<(), Error> {
        self.allocated = self.allocated.saturating_add(bytes);
        if self.allocated > MAX_ALLOCATED {
            return Err(refusal(format!("it creates more than {MAX_ALLOCATED} bytes of values")));
        }
        Ok(())
    }

    /// Size of a value. Fails for values that no template should print or hold.
    pub(super) fn measure(&mut self, value: &Value) -> Result<Extent, Error> {
        let mut extent = Extent::default();
        self.walk(value, 0, &mut extent)?;
        Ok(extent)
    }

    fn walk(&mut self, value: &Value, depth: usize, extent: &mut Extent) -> Result<(), Error> {
        extent.nodes += 1;
        extent.depth = extent.depth.max(depth);
        self.visits += 1;
        if self.visits > MAX_VISITS {
            return Err(refusal("it handles long lists too often"));
        }
        if depth > MAX_DEPTH {
            return Err(refusal(format!("it nests values more than {MAX_DEPTH} deep")));
        }
        if depth > 0 && value.downcast_object_ref::<Namespace>().is_some() {
            let reason = "it puts a namespace inside another value, which could create a cycle";
            return Err(refusal(reason));
        }
        match value.kind() {
            ValueKind::String => extent.text += value.as_str().map_or(0, str::len),
            ValueKind::Seq | ValueKind::Iterable => {
                for item in value.try_iter()? {
                    self.walk(&item, depth + 1, extent)?;
                }
            }
            ValueKind::Map => {
                for key in value.try_iter()? {
                    let item = value.get_item(&key)?;
                    self.walk(&key, depth + 1, extent)?;
                    self.walk(&item, depth + 1, extent)?;
                }
            }
            _ => extent.text += NUMBER_TEXT,
        }
        if extent.nodes > MAX_NODES {
            return Err(refusal(format!("it creates a value of more than {MAX_NODES} items")));
        }
        check_text(extent.text)
    }

    /// A new value that may be stored: lazy items are computed now and accounted for. `fresh` says
    /// that its strings are new as well.
    pub(super) fn keep(&mut self, value: Value, fresh: bool) -> Result<Value, Error> {
        let value = match value.kind() {
            ValueKind::Iterable => self.listed(&value)?,
            _ => value,
        };
        let bytes = match value.kind() {
            ValueKind::String => {
                let bytes = value.as_str().map_or(0, str::len);
                check_text(bytes)?;
                bytes
            }
            ValueKind::Seq | ValueKind::Map => {
                let extent = self.measure(&value)?;
                match fresh {
                    true => extent.text.saturating_add(extent.nodes * NODE_BYTES),
                    false => value.len().unwrap_or(0) * NODE_BYTES,
                }
            }
            _ => 0,
        };
        self.make(bytes)?;
        Ok(value)
    }

    /// The items of a lazy value.
    fn listed(&mut self, value: &Value) -> Result<Value, Error> {
        let mut items = Vec::new();
        let mut extent = Extent::default();
        for item in value.try_iter()?.checked() {
            let item = item?;
            self.walk(&item, 1, &mut extent)?;
            items.push(item);
        }
        Ok(Value::from(items))
    }
}

/// Rejects a too long string.
pub(super) fn check_text(bytes: usize) -> Result<(), Error> {
    if bytes > MAX_TEXT {
        return Err(refusal(format!("it creates a string of more than {MAX_TEXT} bytes")));
    }
    Ok(())
}

/// Rejects too many items.
pub(super) fn check_items(count: usize) -> Result<(), Error> {
    if count > MAX_NODES {
        return Err(refusal(format!("it creates a value of more than {MAX_NODES} items")));
    }
    Ok(())
}
