//! Files of `torch.save`, read without running any code, and written.
//!
//! Since PyTorch 1.6 such a file is a zip archive: `NAME/data.pkl` is a pickle of the object,
//! `NAME/data/KEY` holds the numbers of each storage, `NAME/byteorder` their byte order. Before, it
//! was five pickles (magic number, version, machine, object, storage keys) followed, for each key,
//! by the count of its numbers (i64) and the numbers. In both a tensor is a storage with offset,
//! shape and strides, so tensors may share numbers.
//!
//! The [`machine`] knows the few globals of a state dict and rejects all others.
//! Source: `torch/serialization.py` of PyTorch.

mod archive;
mod calls;
mod fault;
mod globals;
mod machine;
mod opcode;
mod plain;
mod state_dict;

pub use archive::{TorchTensor, torch_archive};
pub use fault::PickleFault;

use super::header::Header;
use super::zip::{self, Entry};
use linwright_run::shown;
use machine::{Node, Pickled, Value};
use serde_json::Value as Json;
use state_dict::Place;
use std::collections::BTreeMap;

/// First bytes of a file of PyTorch before 1.6, whatever its name: protocol 2, an integer of ten
/// bytes.
pub(super) const LEGACY_START: [u8; 4] = [0x80, 2, 0x8a, 10];
/// The value of that integer, little-endian.
const LEGACY_MAGIC: [u8; 10] = [0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19];
/// Version of the older layout.
const LEGACY_VERSION: i64 = 1001;

/// An entry of the object of an archive, as JSON; none if there is no such entry.
pub(super) fn entry_of_zip(bytes: &[u8], name: &str) -> Result<Option<Json>, PickleFault> {
    let entries = zip::entries(bytes)?;
    let (_, object) = object_of(&entries)?;
    let pickled = machine::run(&bytes[..object.bytes.end], object.bytes.start)?;
    plain::entry(&pickled, name)
}

/// As [`entry_of_zip`], for a file of the older layout.
pub(super) fn entry_of_legacy(bytes: &[u8], name: &str) -> Result<Option<Json>, PickleFault> {
    let mut at = 0;
    // Magic number, version and machine come first.
    for _ in 0..3 {
        at = machine::run(bytes, at)?.end();
    }
    plain::entry(&machine::run(bytes, at)?, name)
}

/// The folder and the pickle of an archive.
fn object_of<'a>(entries: &'a [Entry<'a>]) -> Result<(&'a str, &'a Entry<'a>), PickleFault> {
    let layout = |what: &str| PickleFault::Layout { what: what.into() };
    let mut objects =
        entries.iter().filter_map(|entry| object_prefix(entry.name).map(|p| (p, entry)));
    match (objects.next(), objects.next()) {
        (Some(only), None) => Ok(only),
        (None, _) => Err(layout("the archive holds no data.pkl")),
        (Some(_), Some(_)) => Err(layout("the archive holds several data.pkl")),
    }
}

/// Parses and checks an archive; `bytes` is the whole file.
pub(super) fn parse_zip(bytes: &[u8]) -> Result<Header, PickleFault> {
    let entries = zip::entries(bytes)?;
    let layout = |what: String| PickleFault::Layout { what };
    let (prefix, object) = object_of(&entries)?;
    let parts: BTreeMap<&str, &Entry<'_>> =
        entries.iter().filter_map(|e| Some((e.name.strip_prefix(prefix)?, e))).collect();
    if parts.contains_key("constants.pkl") {
        return Err(layout("the archive holds a TorchScript program, not weights".into()));
    }
    if let Some(order) = parts.get("byteorder")
        && &bytes[order.bytes.clone()] != b"little"
    {
        let found = shown(&String::from_utf8_lossy(&bytes[order.bytes.clone()]));
        return Err(layout(format!(
            "the numbers are in byte order {found:?}, only little is read"
        )));
    }
    let pickled = machine::run(&bytes[..object.bytes.end], object.bytes.start)?;
    if pickled.end() != object.bytes.end {
        return Err(layout("data.pkl continues after the end of its pickle".into()));
    }
    let place = |storage: &machine::Storage| {
        let key = pickled.text(storage.key);
        let wrong = |what: String| PickleFault::Storage { at: storage.at, what };
        let entry = parts.get(format!("data/{key}").as_str());
        let missing = || wrong(format!("leads to data/{}, which is missing", shown(key)));
        Place::new(storage, entry.ok_or_else(missing)?.bytes.clone())
    };
    let places = pickled.storages.iter().map(place).collect::<Result<Vec<_>, _>>()?;
    state_dict::header(&pickled, &places)
}

/// The folder of an archive, if the entry is its `data.pkl`.
fn object_prefix(name: &str) -> Option<&str> {
    let prefix = name.strip_suffix("data.pkl")?;
    let folder = prefix.strip_suffix('/').unwrap_or(prefix);
    let is_folder = prefix.is_empty() || (folder.len() < prefix.len() && !folder.contains('/'));
    is_folder.then_some(prefix)
}

/// Parses and checks a file of the older layout; `bytes` is the whole file.
pub(super) fn parse_legacy(bytes: &[u8]) -> Result<Header, PickleFault> {
    let layout = |what: &str| PickleFault::Layout { what: what.into() };
    let magic = machine::run(bytes, 0)?;
    if !matches!(magic.root, Value::Long(piece) if magic.raw(piece) == LEGACY_MAGIC) {
        return Err(layout("the file is a pickle, but not one of torch.save"));
    }
    let version = machine::run(bytes, magic.end())?;
    if version.root != Value::Int(LEGACY_VERSION) {
        return Err(layout("the file has another version of the layout than 1001"));
    }
    let machine = machine::run(bytes, version.end())?;
    if !is_little_endian(&machine) {
        return Err(layout("the file does not say that its numbers are little-endian"));
    }
    let pickled = machine::run(bytes, machine.end())?;
    let keys = machine::run(bytes, pickled.end())?;
    let places = legacy_places(bytes, &pickled, &keys)?;
    state_dict::header(&pickled, &places)
}

fn is_little_endian(machine: &Pickled<'_>) -> bool {
    let Some(Node::Dict(entries)) = machine.node(machine.root) else { return false };
    let key = |(key, _): &&(Value, Value)| machine.as_text(*key) == Some("little_endian");
    entries.iter().find(key).is_some_and(|(_, value)| *value == Value::Bool(true))
}

/// Byte ranges of the storages of a file of the older layout, in the order of the pickle.
fn legacy_places(
    bytes: &[u8],
    pickled: &Pickled<'_>,
    keys: &Pickled<'_>,
) -> Result<Vec<Place>, PickleFault> {
    let layout = |what: &str| PickleFault::Layout { what: what.into() };
    let Some(Node::List(list)) = keys.node(keys.root) else {
        return Err(layout("the file has no list of storages"));
    };
    let index: BTreeMap<&str, usize> =
        pickled.storages.iter().enumerate().map(|(i, s)| (pickled.text(s.key), i)).collect();
    let mut places = vec![None; pickled.storages.len()];
    let mut at = keys.end();
    for key in list {
        let known = keys.as_text(*key).and_then(|key| index.get(key));
        let &known = known.ok_or_else(|| layout("the list of storages has an unknown key"))?;
        let storage = &pickled.storages[known];
        let truncated = PickleFault::Truncated { at: bytes.len(), within: "a storage" };
        let count = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>());
        let count = u64::from_le_bytes(*count.ok_or(truncated.clone())?);
        if count != storage.numbers {
            let what = format!("asks for {} numbers, the file has {count}", storage.numbers);
            return Err(PickleFault::Storage { at: storage.at, what });
        }
        let start = at + 8;
        let size = storage.size().and_then(|size| start.checked_add(size));
        let end = size.filter(|end| *end <= bytes.len()).ok_or(truncated)?;
        if places[known].replace(Place::new(storage, start..end)?).is_some() {
            return Err(layout("the list of storages has a key twice"));
        }
        at = end;
    }
    if at != bytes.len() {
        return Err(layout("the file continues after its last storage"));
    }
    let places: Option<Vec<Place>> = places.into_iter().collect();
    places.ok_or_else(|| layout("the list of storages lacks one that the object refers to"))
}
