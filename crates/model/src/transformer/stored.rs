//! A model rounded to a storage type.

use super::Transformer;
use super::weights::{TableValues, TableWeights};
use crate::parts::Part;
use linwright_ops::{HalfDense, LinearSlot, Op, OpError};
use linwright_tensor::dtype::DType;
use linwright_tensor::kernels::gemm::Weight;
use linwright_tensor::{HalfType, Halves, Shelf};
use std::io;
use std::sync::Arc;

/// Numbers per block of rounding.
const PIECE: usize = 1 << 16;

/// A model with the numbers of a file, see [`Transformer::as_stored`].
#[derive(Debug)]
pub struct Stored {
    /// The model.
    pub model: Transformer,
    /// Parts whose numbers changed: the sites of slots, and the names of other tensors.
    pub changed: Vec<String>,
}

/// The reason why a model cannot be rounded as stored.
#[derive(Debug, thiserror::Error)]
pub enum StoredError {
    /// An operator without a dense form.
    #[error("{site}: {source}")]
    Operator {
        /// Its site.
        site: String,
        /// The reason.
        source: OpError,
    },
    /// Numbers that could not be moved to a file.
    #[error("cannot move {site} to a file: {source}")]
    Shelf {
        /// Its site.
        site: String,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl Transformer {
    /// The model with the numbers that a file of this type holds: those of operators rounded one by
    /// one, or, in a dense form, those of their products. Weights that the type represents exactly
    /// are shared with this model, others are converted to it. Without a 16-bit type nothing
    /// changes. Numbers that the type cannot represent are unchanged: saving reports them.
    ///
    /// # Errors
    /// [`StoredError`].
    pub fn as_stored(
        &self,
        dtype: DType,
        is_dense: bool,
        shelf: Option<&Shelf>,
    ) -> Result<Stored, StoredError> {
        let (mut model, mut changed) = (self.clone(), Vec::new());
        let Some(half) = HalfType::of(dtype) else { return Ok(Stored { model, changed }) };
        for part in model.weights.each_mut() {
            match part {
                Part::Table(table) => {
                    if round_table(table, half) {
                        changed.push(table.table.name.clone());
                    }
                }
                Part::Norm(norm) => {
                    let tensors = norm.tensors_mut().into_iter();
                    changed.extend(
                        tensors.filter_map(|(name, values)| round(half, values).then_some(name)),
                    );
                }
                Part::Slot(slot) => {
                    if !round_slot(slot, half, is_dense)? {
                        continue;
                    }
                    let site = slot.id().0.clone();
                    changed.push(site.clone());
                    if let Some(shelf) = shelf {
                        let failed = |source| StoredError::Shelf { site, source };
                        slot.op_mut().map_mut().shelve(shelf).map_err(failed)?;
                    }
                }
            }
        }
        Ok(Stored { model, changed })
    }
}

/// Rounds numbers and returns whether one changed. If one overflows, all are unchanged.
fn round(half: HalfType, values: &mut [f32]) -> bool {
    let mut bits = vec![0; values.len().min(PIECE)];
    let mut wide = vec![0.0; bits.len()];
    let (mut overflows, mut differs) = (false, false);
    for piece in values.chunks(PIECE) {
        let (bits, wide) = (&mut bits[..piece.len()], &mut wide[..piece.len()]);
        half.narrow(piece, bits);
        half.widen(bits, wide);
        overflows |= half.has_non_finite(bits);
        differs |= piece.iter().zip(&*wide).any(|(a, b)| a != b);
    }
    if overflows || !differs {
        return false;
    }
    for piece in values.chunks_mut(PIECE) {
        let bits = &mut bits[..piece.len()];
        half.narrow(piece, bits);
        half.widen(bits, piece);
    }
    true
}

/// A matrix in the type, if it is not exact in it but can be represented.
fn narrowed(weight: &Weight<'_, f32>, half: HalfType) -> Option<Halves> {
    let mat = match weight {
        Weight::Half(halves) if halves.half_type() == half => return None,
        Weight::Half(halves) => halves.to_mat(),
        Weight::Full(values) => {
            let mut row = vec![0.0; values.cols()];
            let fits = |i: usize, row: &mut [f32]| {
                row.copy_from_slice(values.row(i));
                !round(half, row)
            };
            if (0..values.rows()).all(|i| fits(i, &mut row)) {
                return None;
            }
            values.to_mat()
        }
    };
    let rounded = Halves::rounded(half, &mat);
    (!half.has_non_finite(rounded.bits())).then_some(rounded)
}

fn round_table(table: &mut TableWeights, half: HalfType) -> bool {
    let rounded = narrowed(&table.weight(), half);
    table.release();
    match rounded {
        Some(rounded) => {
            table.values = TableValues::Half(Arc::new(rounded));
            true
        }
        None => false,
    }
}

fn round_slot(slot: &mut LinearSlot, half: HalfType, is_dense: bool) -> Result<bool, StoredError> {
    let site = slot.id().0.clone();
    let failed = |source| StoredError::Operator { site: site.clone(), source };
    let is_structured = slot.op().map().weight().is_none();
    let rounded = match slot.op().map().weight() {
        Some(weight) => narrowed(&weight, half),
        None if is_dense => {
            let product = slot.op().to_dense().map_err(failed)?;
            Some(Halves::rounded(half, &product)).filter(|own| !half.has_non_finite(own.bits()))
        }
        None => None,
    };
    slot.op().map().release();
    let mut is_changed = rounded.is_some();
    if let Some(rounded) = rounded {
        slot.replace(Op::Linear(Box::new(HalfDense::new(rounded)))).map_err(failed)?;
    } else if is_structured && !is_dense {
        for param in slot.op_mut().map_mut().params_mut() {
            is_changed |= round(half, param.values);
        }
    }
    let is_bias = slot.bias_mut().is_some_and(|bias| round(half, bias));
    Ok(is_changed || is_bias)
}
