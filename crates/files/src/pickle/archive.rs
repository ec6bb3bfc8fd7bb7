//! Files as written by `torch.save`: a pickle of a state dict and further settings, and the numbers
//! of each tensor, in a zip archive of uncompressed entries.
//!
//! The pickle has protocol 2, and only the globals of plain tensors, so that
//! `torch.load(weights_only=True)` accepts it. Numbers begin at multiples of 64 bytes, as those of
//! PyTorch do.

use super::PickleFault as Fault;
use crate::zip::{Written, archive};
use linwright_tensor::dtype::DType;
use serde_json::{Map, Value as Json};

/// Folder of all entries.
const FOLDER: &str = "archive";
/// Version of the archive, of PyTorch since 1.6.
const VERSION: &[u8] = b"3\n";

/// A tensor that is written, row-major.
#[derive(Clone, Debug)]
pub struct TorchTensor {
    /// Its name in the state dict.
    pub name: String,
    /// The type of its numbers.
    pub dtype: DType,
    /// Its shape; empty for a single number.
    pub shape: Vec<usize>,
    /// Its numbers, little-endian.
    pub bytes: Vec<u8>,
}

/// The bytes of a file whose object is a dict: `state_dict` with the tensors in this order, and
/// further entries.
///
/// # Errors
/// A file that would have more than four gigabytes.
pub fn torch_archive(
    tensors: &[TorchTensor],
    entries: &Map<String, Json>,
) -> Result<Vec<u8>, Fault> {
    let mut pickle = Pickle { bytes: vec![0x80, 2] };
    pickle.dict(|pickle| {
        pickle.text("state_dict");
        pickle.state_dict(tensors);
        for (key, value) in entries {
            pickle.text(key);
            pickle.json(value);
        }
    });
    pickle.bytes.push(b'.');
    let entry = |name: &str, bytes| Written { name: format!("{FOLDER}/{name}"), bytes };
    let mut files =
        vec![entry("data.pkl", pickle.bytes.as_slice()), entry("byteorder", b"little".as_slice())];
    for (key, tensor) in tensors.iter().enumerate() {
        files.push(entry(&format!("data/{key}"), &tensor.bytes));
    }
    files.push(entry("version", VERSION));
    Ok(archive(&files)?)
}

/// A pickle that is being written.
struct Pickle {
    bytes: Vec<u8>,
}

impl Pickle {
    fn text(&mut self, text: &str) {
        self.bytes.push(b'X');
        self.bytes.extend((text.len() as u32).to_le_bytes());
        self.bytes.extend(text.as_bytes());
    }

    fn global(&mut self, module: &str, name: &str) {
        self.bytes.extend(format!("c{module}\n{name}\n").into_bytes());
    }

    fn integer(&mut self, value: i64) {
        match i32::try_from(value) {
            Ok(value) => {
                self.bytes.push(b'J');
                self.bytes.extend(value.to_le_bytes());
            }
            Err(_) => {
                self.bytes.extend([0x8a, 8]);
                self.bytes.extend(value.to_le_bytes());
            }
        }
    }

    fn float(&mut self, value: f64) {
        self.bytes.push(b'G');
        self.bytes.extend(value.to_be_bytes());
    }

    fn boolean(&mut self, value: bool) {
        self.bytes.push(if value { 0x88 } else { 0x89 });
    }

    fn tuple(&mut self, items: impl FnOnce(&mut Self)) {
        self.bytes.push(b'(');
        items(self);
        self.bytes.push(b't');
    }

    /// A dict; `items` writes keys and values alternately.
    fn dict(&mut self, items: impl FnOnce(&mut Self)) {
        self.bytes.push(b'}');
        self.filled(items);
    }

    fn ordered_dict(&mut self, items: impl FnOnce(&mut Self)) {
        self.global("collections", "OrderedDict");
        self.bytes.extend(b")R");
        self.filled(items);
    }

    fn filled(&mut self, items: impl FnOnce(&mut Self)) {
        self.bytes.push(b'(');
        items(self);
        self.bytes.push(b'u');
    }

    fn json(&mut self, value: &Json) {
        match value {
            Json::Null => self.bytes.push(b'N'),
            Json::Bool(value) => self.boolean(*value),
            Json::Number(number) => match number.as_i64() {
                Some(value) => self.integer(value),
                None => self.float(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => self.text(text),
            Json::Array(items) => {
                self.bytes.extend(b"](");
                items.iter().for_each(|item| self.json(item));
                self.bytes.push(b'e');
            }
            Json::Object(map) => self.dict(|pickle| {
                for (key, value) in map {
                    pickle.text(key);
                    pickle.json(value);
                }
            }),
        }
    }

    fn state_dict(&mut self, tensors: &[TorchTensor]) {
        self.ordered_dict(|pickle| {
            for (key, tensor) in tensors.iter().enumerate() {
                pickle.text(&tensor.name);
                pickle.tensor(tensor, key);
            }
        });
    }

    /// A tensor with its own storage.
    fn tensor(&mut self, tensor: &TorchTensor, key: usize) {
        let count = tensor.shape.iter().product::<usize>() as i64;
        let mut strides = vec![1; tensor.shape.len()];
        for axis in (1..tensor.shape.len()).rev() {
            strides[axis - 1] = strides[axis] * tensor.shape[axis].max(1);
        }
        self.global("torch._utils", "_rebuild_tensor_v2");
        self.tuple(|pickle| {
            pickle.tuple(|pickle| {
                pickle.text("storage");
                pickle.global("torch", storage_of(tensor.dtype));
                pickle.text(&key.to_string());
                pickle.text("cpu");
                pickle.integer(count);
            });
            pickle.bytes.push(b'Q');
            pickle.integer(0);
            for sizes in [&tensor.shape, &strides] {
                pickle.tuple(|pickle| sizes.iter().for_each(|size| pickle.integer(*size as i64)));
            }
            pickle.boolean(false);
            pickle.ordered_dict(|_| ());
        });
        self.bytes.push(b'R');
    }
}

/// PyTorch's name of a storage.
fn storage_of(dtype: DType) -> &'static str {
    match dtype {
        DType::F64 => "DoubleStorage",
        DType::F32 => "FloatStorage",
        DType::F16 => "HalfStorage",
        DType::Bf16 => "BFloat16Storage",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, TensorFile};
    use serde_json::json;

    fn written() -> (Vec<TorchTensor>, Map<String, Json>) {
        let tensor = |name: &str, shape: &[usize], dtype, bytes: Vec<u8>| TorchTensor {
            name: name.into(),
            dtype,
            shape: shape.to_vec(),
            bytes,
        };
        let singles = (0..6).flat_map(|k| (k as f32 - 2.5).to_le_bytes()).collect();
        let tensors = vec![
            tensor("model.b.weight", &[2, 3], DType::F32, singles),
            tensor("model.a", &[], DType::F64, (1e300f64).to_le_bytes().to_vec()),
        ];
        let settings = json!({
            "hyper_parameters": {
                "none": null, "on": true, "off": false, "count": 3_000_000_000_i64, "least": -7,
                "rate": 1e-4, "name": "O(3) \u{e9}", "list": [1, [2.5], {}], "map": {"x": []},
            },
            "epoch": 3,
        });
        (tensors, settings.as_object().cloned().unwrap())
    }

    #[test]
    fn a_written_archive_is_read_back() {
        let (tensors, settings) = written();
        let bytes = torch_archive(&tensors, &settings).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.ckpt");
        std::fs::write(&path, &bytes).unwrap();
        let file = TensorFile::open(&path).unwrap();
        assert_eq!(file.tensors().len(), 2);
        for tensor in &tensors {
            let info = &file.tensors()[&tensor.name];
            assert_eq!(info.shape, tensor.shape);
            let stored = info.stored(&bytes, 0..tensor.shape.iter().product());
            assert_eq!(&stored[..], &tensor.bytes[..], "{}", tensor.name);
        }
        let format = Format::of(&path, &bytes);
        for (key, value) in &settings {
            assert_eq!(format.entry(&bytes, key).unwrap().as_ref(), Some(value), "{key}");
        }
    }

    #[test]
    fn numbers_begin_at_multiples_of_64_bytes_and_archives_have_the_same_bytes() {
        let (tensors, settings) = written();
        let bytes = torch_archive(&tensors, &settings).unwrap();
        let entries = crate::zip::entries(&bytes).unwrap();
        assert_eq!(entries.len(), 5);
        for entry in entries.iter().filter(|entry| entry.name.contains("/data/")) {
            assert_eq!(entry.bytes.start % 64, 0, "{}", entry.name);
        }
        assert_eq!(bytes, torch_archive(&tensors, &settings).unwrap());
    }
}
