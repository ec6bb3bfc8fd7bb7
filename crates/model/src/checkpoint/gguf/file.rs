//! A GGUF file as a model: its architecture, and the values of its keys.

use crate::checkpoint::gguf_fault::GgufFault;
use crate::families::Family;
use crate::families::gguf::Architecture;
use linwright_files::gguf::{ContainerFault, Header, MetaValue, StoredTensor, wrong_type};

/// Name of the embedding tensor.
pub(super) const EMBEDDING: &str = "token_embd.weight";
/// Name of the output matrix.
pub(super) const OUTPUT: &str = "output.weight";
/// Key of the architecture.
pub(super) const ARCHITECTURE: &str = "general.architecture";
/// Upper bound of any size.
const MAX_SIZE: u64 = 1 << 31;

/// A parsed header and its architecture.
#[derive(Clone, Copy, Debug)]
pub(super) struct File<'a> {
    /// The bytes of its parts; metadata are in the first.
    parts: &'a [&'a [u8]],
    pub(super) header: &'a Header,
    pub(super) family: &'static Family,
    pub(super) architecture: &'static Architecture,
}

/// Head sizes by which tensors are split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Heads {
    pub(super) queries: usize,
    pub(super) keys: usize,
    pub(super) size: usize,
}

impl<'a> File<'a> {
    /// Determines the architecture.
    pub(super) fn new(parts: &'a [&'a [u8]], header: &'a Header) -> Result<Self, GgufFault> {
        let missing = || GgufFault::MissingKey {
            key: ARCHITECTURE.into(),
            expected: "the name of an architecture",
        };
        let value = header.metadata.get(ARCHITECTURE).ok_or_else(missing)?;
        let MetaValue::Text(name) = value else {
            return Err(wrong_type(ARCHITECTURE, value, "the name of an architecture").into());
        };
        let unknown = || {
            let known: Vec<&str> = Family::with_gguf().map(|(_, known)| known.name).collect();
            GgufFault::Architecture { found: name.clone(), known: known.join(", ") }
        };
        let (family, architecture) = Family::of_gguf(name).ok_or_else(unknown)?;
        let file = Self { parts, header, family, architecture };
        file.check_whole()?;
        Ok(file)
    }

    /// The bytes of a tensor.
    pub(super) fn bytes_of(&self, tensor: &StoredTensor) -> &'a [u8] {
        &self.parts[tensor.part][tensor.bytes.clone()]
    }

    /// Rejects parts of models, adapters and mixtures of experts.
    fn check_whole(&self) -> Result<(), GgufFault> {
        let refused =
            |found: &str, advice| Err(GgufFault::NotAModel { found: found.into(), advice });
        match self.get("general.type") {
            None => {}
            Some(MetaValue::Text(kind)) if kind == "model" => {}
            Some(other) => {
                return refused(
                    &format!("general.type is {}", other.describe()),
                    "only files of type \"model\" are read",
                );
            }
        }
        if self.get("split.count").and_then(MetaValue::as_u64).is_some_and(|count| count > 1) {
            return refused(
                "the file is one of several parts of a model",
                "join them with llama-gguf-split --merge",
            );
        }
        if self.own("expert_count").and_then(MetaValue::as_u64).is_some_and(|count| count > 0) {
            return refused(
                "the model is a mixture of experts",
                "only models with one feed-forward part in each layer are read",
            );
        }
        Ok(())
    }

    /// The value of a key.
    pub(super) fn get(&self, key: &str) -> Option<&'a MetaValue> {
        self.header.metadata.get(key)
    }

    /// Full key name of the architecture.
    pub(super) fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture.name)
    }

    /// Value of an architecture key.
    pub(super) fn own(&self, key: &str) -> Option<&'a MetaValue> {
        self.get(&self.key(key))
    }

    /// An optional size. Layer-wise values must all be equal.
    pub(super) fn optional_size(&self, key: &str) -> Result<Option<u64>, GgufFault> {
        const EXPECTED: &str = "a whole number from 1 to 2147483648, the same for all layers";
        let Some(value) = self.own(key) else {
            return Ok(None);
        };
        let size = match value {
            MetaValue::Array(array) => array.numbers(self.parts[0]).and_then(|mut numbers| {
                let first = numbers.next()?;
                let whole = first.fract() == 0.0 && (0.0..=MAX_SIZE as f64).contains(&first);
                (whole && numbers.all(|number| number == first)).then_some(first as u64)
            }),
            other => other.as_u64(),
        };
        match size {
            Some(size) if (1..=MAX_SIZE).contains(&size) => Ok(Some(size)),
            _ => Err(wrong_type(&self.key(key), value, EXPECTED).into()),
        }
    }

    /// A required size.
    pub(super) fn size(&self, key: &str) -> Result<u64, GgufFault> {
        let expected = "a positive whole number";
        let missing = || GgufFault::MissingKey { key: self.key(key), expected };
        self.optional_size(key)?.ok_or_else(missing)
    }

    /// An optional finite number.
    pub(super) fn optional_number(&self, key: &str) -> Result<Option<f64>, GgufFault> {
        let Some(value) = self.own(key) else {
            return Ok(None);
        };
        match value.as_f64() {
            Some(number) if number.is_finite() => Ok(Some(number)),
            _ => Err(wrong_type(&self.key(key), value, "a finite number").into()),
        }
    }

    /// An optional boolean.
    pub(super) fn optional_flag(&self, key: &str) -> Result<Option<bool>, GgufFault> {
        match self.own(key) {
            None => Ok(None),
            Some(MetaValue::Bool(flag)) => Ok(Some(*flag)),
            Some(value) => Err(wrong_type(&self.key(key), value, "a truth value").into()),
        }
    }

    /// Whether the file has a tensor.
    pub(super) fn has(&self, tensor: &str) -> bool {
        self.header.tensors.contains_key(tensor)
    }

    /// Numbers of heads and their size, consistent with each other.
    pub(super) fn heads(&self) -> Result<Heads, GgufFault> {
        let (width, queries) = (self.size("embedding_length")?, self.size("attention.head_count")?);
        let keys = self.optional_size("attention.head_count_kv")?.unwrap_or(queries);
        let size = match self.optional_size("attention.key_length")? {
            Some(size) => size,
            None if width.is_multiple_of(queries) => width / queries,
            None => {
                return Err(ContainerFault::Key {
                    key: self.key("attention.head_count"),
                    found: queries.to_string(),
                    expected: "a divisor of embedding_length, as attention.key_length is absent",
                }
                .into());
            }
        };
        let values = self.optional_size("attention.value_length")?.unwrap_or(size);
        let shared = self.architecture.head_dim || size.checked_mul(queries) == Some(width);
        if values != size || !shared {
            return Err(ContainerFault::Key {
                key: self.key("attention.value_length"),
                found: format!("{values} with keys of {size}, {queries} heads and width {width}"),
                expected: "the length of keys, and heads that share the width of the model",
            }
            .into());
        }
        // Each is at most 2^31.
        Ok(Heads { queries: queries as usize, keys: keys as usize, size: size as usize })
    }

    /// Whether the output matrix is tied to the embedding: absent, or a copy of it.
    pub(super) fn tied(&self) -> bool {
        let tensors = &self.header.tensors;
        match (tensors.get(EMBEDDING), tensors.get(OUTPUT)) {
            (_, None) => true,
            (Some(a), Some(b)) if a.dtype == b.dtype && a.shape == b.shape => {
                self.bytes_of(a) == self.bytes_of(b)
            }
            _ => false,
        }
    }

    /// Rows of the embedding.
    pub(super) fn vocab(&self) -> Result<usize, GgufFault> {
        let missing = || GgufFault::NotAModel {
            found: format!("the file has no tensor {EMBEDDING}"),
            advice: "it holds a vocabulary, not a model",
        };
        let tensor = self.header.tensors.get(EMBEDDING).ok_or_else(missing)?;
        tensor.shape.first().copied().filter(|_| tensor.shape.len() == 2).ok_or_else(|| {
            GgufFault::Shape {
                name: EMBEDDING.into(),
                found: tensor.shape.clone(),
                expected: "a matrix".into(),
            }
        })
    }
}
