//! Values of a pickle as JSON: settings stored with the tensors.

use super::PickleFault as Fault;
use super::machine::{Node, Pickled, Value};
use serde_json::{Map, Value as Json};

/// Largest depth of nested containers.
const DEPTH: usize = 32;

/// An entry of the dict that a pickle holds; none if it has no such entry.
pub(super) fn entry(pickled: &Pickled<'_>, name: &str) -> Result<Option<Json>, Fault> {
    let Some(Node::Dict(entries)) = pickled.node(pickled.root) else { return Ok(None) };
    // The last entry with a name is the one that Python sees.
    let found = entries.iter().rev().find(|(key, _)| pickled.as_text(*key) == Some(name));
    // Containers can be referenced repeatedly, so their sizes multiply.
    let mut reader = Reader { pickled, left: pickled.length };
    found.map(|(_, value)| reader.json(*value, 0)).transpose()
}

struct Reader<'a, 'b> {
    pickled: &'a Pickled<'b>,
    /// Values, and bytes of texts, that may still be read.
    left: usize,
}

impl Reader<'_, '_> {
    /// A value as JSON. Numbers that JSON does not have, tensors and other objects become text.
    fn json(&mut self, value: Value, depth: usize) -> Result<Json, Fault> {
        self.spend(1)?;
        Ok(match value {
            Value::None => Json::Null,
            Value::Bool(value) => Json::Bool(value),
            Value::Int(value) => Json::from(value),
            Value::Float(value) => match serde_json::Number::from_f64(value) {
                Some(number) => Json::Number(number),
                None => Json::String(value.to_string()),
            },
            Value::Text(piece) => {
                let text = self.pickled.text(piece);
                self.spend(text.len())?;
                Json::String(text.to_owned())
            }
            Value::Long(_) => Json::String("(an integer of more than 64 bits)".into()),
            Value::Global(_) => Json::String("(a type)".into()),
            Value::Inert => Json::String("(an object)".into()),
            Value::Node(_) => self.container(value, depth)?,
        })
    }

    fn container(&mut self, value: Value, depth: usize) -> Result<Json, Fault> {
        if depth == DEPTH {
            let what = "containers within each other";
            return Err(Fault::Limit { at: self.pickled.end(), what, limit: DEPTH });
        }
        let items = match self.pickled.node(value) {
            Some(Node::List(items)) => &items[..],
            Some(Node::Tuple(items)) => &items[..],
            Some(Node::Dict(entries)) => {
                let mut map = Map::new();
                for (key, value) in entries {
                    let key = match self.json(*key, depth + 1)? {
                        Json::String(key) => key,
                        other => other.to_string(),
                    };
                    map.insert(key, self.json(*value, depth + 1)?);
                }
                return Ok(Json::Object(map));
            }
            Some(Node::Storage(_) | Node::Tensor(_)) | None => {
                return Ok(Json::String("(a tensor)".into()));
            }
        };
        let list: Result<Vec<Json>, Fault> =
            items.iter().map(|item| self.json(*item, depth + 1)).collect();
        Ok(Json::Array(list?))
    }

    fn spend(&mut self, count: usize) -> Result<(), Fault> {
        let what = "values in its settings";
        let limit = self.pickled.length;
        let fault = Fault::Limit { at: self.pickled.end(), what, limit };
        self.left = self.left.checked_sub(count).ok_or(fault)?;
        Ok(())
    }
}
