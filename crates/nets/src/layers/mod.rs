//! The kinds of steps, one file each.

mod attention;
mod conv;
mod linear;
mod norm;
mod plain;
mod pool;

pub(crate) use attention::Attention;
pub(crate) use conv::Conv;
pub(crate) use linear::Linear;
pub(crate) use norm::{Affine, BatchNorm, LayerNorm};
pub(crate) use plain::{Activate, Branch, Dropout, Flatten, Join, Nonlinearity};
pub(crate) use pool::Pool;
