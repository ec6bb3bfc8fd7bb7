//! The tensors of a model under their transformers names, with the location of each row.

use super::file::{File, Heads, OUTPUT};
use crate::checkpoint::gguf_fault::GgufFault;
use crate::families::gguf::{Change, ROPE_TENSORS, Rule};
use linwright_files::gguf::{GgufType, Numbers, StoredTensor};
use std::collections::BTreeMap;
use std::ops::Range;

/// How a tensor is derived from a stored one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Unchanged.
    Same,
    /// One is subtracted from every number.
    MinusOne,
    /// A matrix is transposed.
    Transposed,
    /// In each run of this many rows, the even rows come first, then the odd ones.
    Halves(usize),
    /// Three parts of this many runs of rows are interleaved: the three runs of each index follow
    /// each other.
    ByHead(usize),
    /// A range of rows.
    Rows(Range<usize>),
}

/// A tensor of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GgufTensor {
    /// Its GGUF name.
    pub stored: String,
    /// Shape under its transformers name, row-major.
    pub shape: Vec<usize>,
    /// Storage type.
    pub dtype: GgufType,
    /// Decoder of that storage type.
    pub(super) numbers: Numbers,
    /// Derivation from the stored tensor.
    pub layout: Layout,
    /// Byte range of the whole stored tensor.
    pub(super) bytes: Range<usize>,
    /// Index of its file, if a model has several.
    pub(super) part: usize,
    /// Numbers in a stored row: a vector is one row, unless its layout moves single numbers.
    pub(super) columns: usize,
}

/// All tensors of a model by their transformers names.
pub(super) fn tensors(
    file: &File<'_>,
    heads: Heads,
) -> Result<BTreeMap<String, GgufTensor>, GgufFault> {
    let tied = file.architecture.ties && file.tied();
    let mut all = BTreeMap::new();
    for (name, tensor) in &file.header.tensors {
        if ROPE_TENSORS.contains(&name.as_str()) || tied && name == OUTPUT {
            continue;
        }
        let (prefix, stem, suffix, rules) = find(file, name)?;
        for rule in rules.iter().filter(|rule| rule.stored == stem) {
            for (index, layout) in layouts(rule, name, tensor, heads)? {
                let middle = rule.name.replace("{}", &index.to_string());
                let full = format!("{prefix}{middle}.{suffix}");
                if all.insert(full, GgufTensor::new(name, tensor, layout)?).is_some() {
                    return Err(GgufFault::UnknownTensor {
                        name: name.clone(),
                        architecture: file.architecture.name,
                        reason: "its name is used by another tensor",
                    });
                }
            }
        }
    }
    Ok(all)
}

/// Prefix in transformers, name within the layer, suffix, and the rules that apply. Fails if no
/// rule matches.
fn find<'n>(
    file: &File<'_>,
    name: &'n str,
) -> Result<(String, &'n str, &'n str, &'static [Rule]), GgufFault> {
    let architecture = file.architecture;
    let unknown = |reason| GgufFault::UnknownTensor {
        name: name.into(),
        architecture: architecture.name,
        reason,
    };
    let not_known = "the model has an unsupported feature";
    let (path, suffix) = name.rsplit_once('.').ok_or_else(|| unknown(not_known))?;
    if !matches!(suffix, "weight" | "bias") {
        return Err(unknown(not_known));
    }
    let (prefix, stem, rules) = match path.strip_prefix("blk.").and_then(|p| p.split_once('.')) {
        None => (String::new(), path, architecture.whole),
        Some((layer, stem)) => {
            let number = layer.parse::<u64>().ok().filter(|number| number.to_string() == layer);
            let number = number.ok_or_else(|| unknown(not_known))?;
            if number >= file.size("block_count")? {
                return Err(unknown("its layer is beyond block_count"));
            }
            (format!("{}.{number}.", architecture.prefix), stem, architecture.layer)
        }
    };
    match rules.iter().any(|rule| rule.stored == stem) {
        true => Ok((prefix, stem, suffix, rules)),
        false => Err(unknown(not_known)),
    }
}

/// The layouts of the tensors derived from a stored one, with an index for names.
fn layouts(
    rule: &Rule,
    name: &str,
    tensor: &StoredTensor,
    heads: Heads,
) -> Result<Vec<(usize, Layout)>, GgufFault> {
    let rows = tensor.shape.first().copied().unwrap_or(0);
    let wrong = |expected: String| GgufFault::Shape {
        name: name.into(),
        found: tensor.shape.clone(),
        expected,
    };
    let halves = |count: usize| match rows / count {
        run if rows.is_multiple_of(count) && run.is_multiple_of(2) && run > 0 => {
            Ok(Layout::Halves(run))
        }
        _ => Err(wrong(format!("{count} heads of an even number of rows"))),
    };
    // Numbers of heads and their sizes are at most 2^31.
    let (queries, keys) = (heads.queries * heads.size, heads.keys * heads.size);
    let fused = |range: Range<usize>| match rows == queries + 2 * keys {
        true => Ok(Layout::Rows(range)),
        false => Err(wrong(format!("{} rows of queries, keys and values", queries + 2 * keys))),
    };
    let one = |layout| vec![(0, layout)];
    Ok(match rule.change {
        Change::Same => one(Layout::Same),
        Change::MinusOne => one(Layout::MinusOne),
        Change::Transposed if tensor.shape.len() == 2 => one(Layout::Transposed),
        Change::Transposed => one(Layout::Same),
        Change::QueryHalves => one(halves(heads.queries)?),
        Change::KeyHalves => one(halves(heads.keys)?),
        Change::ByHead if rows.is_multiple_of(3 * heads.queries) => {
            one(Layout::ByHead(heads.queries))
        }
        Change::ByHead => {
            return Err(wrong(format!("three times {} heads of rows", heads.queries)));
        }
        Change::Queries => one(fused(0..queries)?),
        Change::Keys => one(fused(queries..queries + keys)?),
        Change::Values => one(fused(queries + keys..queries + 2 * keys)?),
        Change::EachRow if tensor.shape.len() == 2 && rows <= heads.queries => {
            (0..rows).map(|row| (row, Layout::Rows(row..row + 1))).collect()
        }
        Change::EachRow => return Err(wrong(format!("at most {} rows", heads.queries))),
    })
}

impl GgufTensor {
    fn new(name: &str, tensor: &StoredTensor, layout: Layout) -> Result<Self, GgufFault> {
        let numbers = tensor.dtype.numbers.ok_or_else(|| super::unread(name, tensor))?;
        let mut shape = tensor.shape.clone();
        let matrix = shape.len() == 2;
        if !(matrix || shape.len() == 1) || shape.contains(&0) {
            return Err(GgufFault::Shape {
                name: name.into(),
                found: shape,
                expected: "a vector or a matrix that is not empty".into(),
            });
        }
        match (&layout, shape.first_mut()) {
            (Layout::Transposed, _) => shape.reverse(),
            (Layout::Rows(rows), Some(first)) => *first = rows.len(),
            _ => {}
        }
        // A separate norm for each head.
        if matches!(layout, Layout::Rows(_)) && shape.len() == 2 && shape[0] == 1 {
            shape.remove(0);
        }
        let moves = matches!(layout, Layout::Halves(_) | Layout::ByHead(_) | Layout::Rows(_));
        let columns = match tensor.shape.last() {
            Some(_) if !matrix && moves => 1,
            Some(&last) => last,
            None => 1,
        };
        if !columns.is_multiple_of(numbers.block_numbers()) {
            return Err(GgufFault::Shape {
                name: name.into(),
                found: tensor.shape.clone(),
                expected: "numbers stored one by one, since they are permuted".into(),
            });
        }
        Ok(Self {
            stored: name.into(),
            shape,
            dtype: tensor.dtype,
            numbers,
            layout,
            bytes: tensor.bytes.clone(),
            part: tensor.part,
            columns,
        })
    }

    /// Rows of the stored tensor.
    pub(super) fn stored_rows(&self) -> usize {
        self.bytes.len().checked_div(self.row_bytes()).unwrap_or(0)
    }

    /// Bytes of a stored row.
    pub(super) fn row_bytes(&self) -> usize {
        self.columns / self.numbers.block_numbers() * self.numbers.block_bytes()
    }

    /// The stored row of a row. Not for transposed tensors.
    pub(super) fn source_row(&self, row: usize) -> usize {
        match &self.layout {
            Layout::Same | Layout::MinusOne | Layout::Transposed => row,
            Layout::Halves(run) => {
                let (start, place, half) = (row / run * run, row % run, run / 2);
                start + 2 * (place % half) + place / half
            }
            Layout::ByHead(heads) => {
                let run = self.stored_rows() / (3 * heads);
                let (head, part, place) = (row / (3 * run), row / run % 3, row % run);
                (part * heads + head) * run + place
            }
            Layout::Rows(rows) => rows.start + row,
        }
    }

    /// Rows of the tensor in units of stored rows. Not for transposed tensors.
    pub(super) fn rows(&self) -> usize {
        match &self.layout {
            Layout::Rows(rows) => rows.len(),
            _ => self.stored_rows(),
        }
    }
}
