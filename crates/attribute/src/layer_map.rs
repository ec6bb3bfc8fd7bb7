//! The map of the gradient of one layer, the building block of compressors.
//!
//! The gradient of an example at `y = W a + b` is `G = Σ_t g_t a_tᵀ` (out, inp) over its rows, with
//! a 1 appended to `a` if there is a bias, which is then the last column. It is compressed to
//!
//! ```text
//! a'_t = S_inp a_t      g'_t = S_out g_t      y = S_flat vec(Σ_t g'_t a'_tᵀ)
//! ```
//!
//! with `vec` row-major: number `o · width + i` is entry (o, i). `G` itself is never formed: if
//! `S_flat` accepts a vector in parts, `block` rows of the product are in memory at a time, and if
//! it begins with a mask, only the masked entries are computed.

use crate::AttributeError;
use crate::map_file::{LayerParts, Parts};
use crate::maps::{Identity, Rows, VectorMap, read_map};
use linwright_ops::ExampleRows;
use linwright_tensor::kernels::elementwise::add;
use linwright_tensor::kernels::gemm::{Arg, Write, product, product_on_this_thread};
use linwright_tensor::kernels::product_entries::add_entries;
use linwright_tensor::kernels::select::{select_columns, select_columns_on_this_thread};
use linwright_tensor::kernels::transpose::to_columns;
use linwright_tensor::{Mat, MatMut, MatRef, Scratch, parallel};
use serde::{Deserialize, Serialize};

/// Numbers of a block of the product that stays in the cache: 128 KiB.
const BLOCK: usize = 1 << 15;

/// A product of two factors, on this thread or on all.
type Product = fn(f32, Arg<'_, f32>, Arg<'_, f32>, MatMut<'_, f32>, Write);

/// Extents of the gradient of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerShape {
    /// Features out.
    pub out: usize,
    /// Input features, without the bias.
    pub inp: usize,
    /// Whether the layer has a bias, the last column of its gradient.
    pub bias: bool,
}

impl LayerShape {
    /// Columns of the gradient.
    #[must_use]
    pub fn width(self) -> usize {
        self.inp + usize::from(self.bias)
    }

    /// Numbers of the gradient.
    #[must_use]
    pub fn numbers(self) -> usize {
        self.out * self.width()
    }
}

/// Map of the rows of one side of a layer.
#[derive(Debug)]
pub(crate) enum Side {
    /// These columns are selected, in this order.
    Columns(Vec<u32>),
    /// Another map.
    Map(Box<dyn VectorMap>),
}

impl Side {
    fn of(map: Box<dyn VectorMap>) -> Self {
        if map.kind() == Identity::new(0).kind() {
            return Self::Columns((0..map.inp() as u32).collect());
        }
        match map.picks() {
            Some(columns) => Self::Columns(columns.to_vec()),
            None => Self::Map(map),
        }
    }

    /// Keeps only some of its output columns; `columns` are ascending.
    fn narrow(self, columns: &[u32]) -> Self {
        match self {
            Self::Columns(all) => Self::Columns(columns.iter().map(|&c| all[c as usize]).collect()),
            other @ Self::Map(_) => other,
        }
    }

    /// Length of an output row.
    pub(crate) fn out(&self) -> usize {
        match self {
            Self::Columns(columns) => columns.len(),
            Self::Map(map) => map.out(),
        }
    }

    pub(crate) fn apply(&self, x: Rows<'_>, y: MatMut<'_, f32>) {
        match self {
            Self::Columns(columns) => select_columns(x.x, columns, y),
            Self::Map(map) => map.apply(x, y),
        }
    }

    fn steps(&self) -> u64 {
        match self {
            Self::Columns(columns) => columns.len() as u64,
            Self::Map(map) => map.steps(),
        }
    }
}

/// The map of the gradient of one layer.
#[derive(Debug)]
pub struct LayerMap {
    shape: LayerShape,
    inp: Side,
    out: Side,
    /// The entries (row, column) of the product that are computed, if not all.
    entries: Option<Vec<(u32, u32)>>,
    /// Maps of the flattened product, or of its entries.
    flat: Vec<Box<dyn VectorMap>>,
    size: usize,
    bytes: u64,
    parts: LayerParts,
}

impl LayerMap {
    /// The map that applies `inp` to inputs, `out` to gradients of outputs, and `flat`, the first
    /// one first, to the flattened product.
    ///
    /// # Errors
    /// [`AttributeError::Map`] if they do not fit each other or the layer.
    pub fn new(
        shape: LayerShape,
        inp: Box<dyn VectorMap>,
        out: Box<dyn VectorMap>,
        flat: Vec<Box<dyn VectorMap>>,
    ) -> Result<Self, AttributeError> {
        let fits = |map: &dyn VectorMap, expected: usize, of: &str| {
            let found = || format!("one for {} numbers", map.inp());
            let refused = || map.parts().refused(found(), format!("{expected}, the {of}"));
            if map.inp() == expected { Ok(()) } else { Err(refused()) }
        };
        fits(&*inp, shape.width(), "columns of the gradient")?;
        fits(&*out, shape.out, "rows of the gradient")?;
        let mut size = inp.out() * out.out();
        for map in &flat {
            fits(&**map, size, "numbers before it")?;
            size = map.out();
        }
        let all = [&inp, &out].into_iter().chain(&flat);
        let bytes = all.map(|map| map.bytes()).sum();
        let each = |maps: &[Box<dyn VectorMap>]| maps.iter().map(|map| map.parts()).collect();
        let parts =
            LayerParts { inp: vec![inp.parts()], out: vec![out.parts()], flat: each(&flat) };
        let all = Self {
            shape,
            inp: Side::of(inp),
            out: Side::of(out),
            entries: None,
            flat,
            size,
            bytes,
            parts,
        };
        Ok(all.with_entries())
    }

    /// Computes only masked entries, if the first map of the product is a mask.
    fn with_entries(mut self) -> Self {
        let Some(picked) = self.flat.first().and_then(|map| map.picks()) else { return self };
        let width = self.inp.out() as u32;
        let pairs: Vec<(u32, u32)> = picked.iter().map(|&at| (at / width, at % width)).collect();
        let sorted = |mut all: Vec<u32>| {
            all.sort_unstable();
            all.dedup();
            all
        };
        let (rows, columns) = pairs.iter().copied().unzip();
        let (rows, columns): (Vec<u32>, Vec<u32>) = (sorted(rows), sorted(columns));
        // A side that is not a choice of columns is computed as a whole.
        let place = |side: &Side, chosen: &[u32], at: u32| match side {
            Side::Columns(_) => chosen.partition_point(|&c| c < at) as u32,
            Side::Map(_) => at,
        };
        let local = pairs
            .into_iter()
            .map(|(row, column)| (place(&self.out, &rows, row), place(&self.inp, &columns, column)))
            .collect();
        self.entries = Some(local);
        self.inp = self.inp.narrow(&columns);
        self.out = self.out.narrow(&rows);
        self.flat.remove(0);
        self
    }

    /// The map stored in a file.
    ///
    /// # Errors
    /// [`AttributeError::Map`] for parts that do not form a map of this layer.
    pub fn of_parts(shape: LayerShape, parts: &LayerParts) -> Result<Self, AttributeError> {
        let one = |maps: &[Parts], of: &str| match maps {
            [map] => read_map(map),
            other => Err(AttributeError::Map {
                kind: of.into(),
                found: format!("{} maps", other.len()),
                expected: "one".into(),
            }),
        };
        let flat = parts.flat.iter().map(read_map).collect::<Result<_, _>>()?;
        Self::new(shape, one(&parts.inp, "inp")?, one(&parts.out, "out")?, flat)
    }

    /// Its form in a file.
    #[must_use]
    pub fn parts(&self) -> LayerParts {
        self.parts.clone()
    }

    /// Extents of the gradient.
    #[must_use]
    pub fn shape(&self) -> LayerShape {
        self.shape
    }

    /// Numbers of a compressed gradient.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Bytes of its maps.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Numbers of a reduced input, which are kept from the forward pass to the backward pass.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.inp.out()
    }

    /// Numbers of reduced gradients of outputs and of reduced inputs, if a compressed gradient is
    /// their product and nothing else.
    #[must_use]
    pub fn factors(&self) -> Option<(usize, usize)> {
        let is_product = self.flat.is_empty() && self.entries.is_none();
        is_product.then(|| (self.out.out(), self.inp.out()))
    }

    /// Total number of multiply-adds and moves for an example with this number of rows.
    #[must_use]
    pub fn steps(&self, rows: usize) -> u64 {
        let product = match &self.entries {
            Some(entries) => entries.len(),
            None => self.inp.out() * self.out.out(),
        };
        let flat: u64 = self.flat.iter().map(|map| map.steps()).sum();
        rows as u64 * (self.inp.steps() + self.out.steps() + product as u64) + flat
    }

    pub(crate) fn inp_side(&self) -> &Side {
        &self.inp
    }

    /// Reduces inputs (rows, inp), with the column of ones of a bias.
    #[must_use]
    pub fn reduce_inputs(&self, x: MatRef<'_, f32>) -> Mat<f32> {
        let mut reduced = Mat::zeros(x.rows(), self.inp.out());
        self.reduce_inputs_to(x, reduced.view_mut());
        reduced
    }

    /// [`Self::reduce_inputs`] into memory (rows, [`Self::kept`]).
    ///
    /// # Panics
    /// If the shapes do not match.
    pub fn reduce_inputs_to(&self, x: MatRef<'_, f32>, reduced: MatMut<'_, f32>) {
        self.inp.apply(Rows { x, one: self.shape.bias }, reduced);
    }

    /// Reduces gradients of outputs (rows, out).
    #[must_use]
    pub fn reduce_gradients(&self, dy: MatRef<'_, f32>) -> Mat<f32> {
        let mut reduced = Mat::zeros(dy.rows(), self.out.out());
        self.out.apply(Rows::plain(dy), reduced.view_mut());
        reduced
    }

    /// Adds the compressed gradients of examples to their rows of `y` (examples, size), from
    /// gradients of outputs (rows, out) and reduced inputs (rows, ..), some rows of which belong to
    /// each example. Examples are divided over threads; a single example is divided by rows.
    ///
    /// # Panics
    /// If the shapes do not match, or there is no such example or row.
    pub fn add_examples(
        &self,
        dy: MatRef<'_, f32>,
        x: MatRef<'_, f32>,
        examples: &[ExampleRows],
        y: MatMut<'_, f32>,
    ) {
        let mut of_examples: Vec<(MatMut<'_, f32>, Vec<&ExampleRows>)> =
            y.row_blocks(1).into_iter().map(|row| (row, Vec::new())).collect();
        examples.iter().for_each(|part| of_examples[part.example].1.push(part));
        of_examples.retain(|(_, parts)| !parts.is_empty());
        let is_single = of_examples.len() == 1;
        let add = |dy: MatRef<'_, f32>, x: MatRef<'_, f32>, y: &mut [f32]| match is_single {
            true => self.add_with_threads(dy, x, y),
            false => self.add(dy, x, y),
        };
        // Columns are gathered for one example at a time, so that they are still in the cache;
        // other maps are products, which are faster with many rows.
        let (columns, reduced) = match &self.out {
            Side::Columns(columns) if !is_single => (Some(columns), None),
            Side::Columns(_) | Side::Map(_) => (None, Some(self.reduce_gradients(dy))),
        };
        parallel::for_each(of_examples, |_, (mut row, parts)| {
            for ExampleRows { rows, .. } in parts {
                let x = x.rows_range(rows.start, rows.len());
                if let Some(reduced) = &reduced {
                    let dy = reduced.view().rows_range(rows.start, rows.len());
                    add(dy, x, row.row_mut(0));
                } else if let Some(columns) = columns {
                    let mut picked = Scratch::new(rows.len() * columns.len());
                    let of_rows = dy.rows_range(rows.start, rows.len());
                    let into = MatMut::new(&mut picked, rows.len(), columns.len());
                    select_columns_on_this_thread(of_rows, columns, into);
                    add(MatRef::new(&picked, rows.len(), columns.len()), x, row.row_mut(0));
                }
            }
        });
    }

    /// Adds the compressed gradient of one example to `y`, from its reduced gradients (rows, ..)
    /// and inputs (rows, ..). Computed on the calling thread only.
    ///
    /// # Panics
    /// If the shapes do not match.
    #[track_caller]
    pub fn add(&self, dy: MatRef<'_, f32>, x: MatRef<'_, f32>, y: &mut [f32]) {
        self.add_by(product_on_this_thread, dy, x, y);
    }

    /// [`Self::add`] with large products divided over all threads, with the same bits.
    fn add_with_threads(&self, dy: MatRef<'_, f32>, x: MatRef<'_, f32>, y: &mut [f32]) {
        self.add_by(product, dy, x, y);
    }

    #[track_caller]
    fn add_by(&self, product: Product, dy: MatRef<'_, f32>, x: MatRef<'_, f32>, y: &mut [f32]) {
        let found = (dy.rows(), dy.cols(), x.cols(), y.len());
        let expected = (x.rows(), self.out.out(), self.inp.out(), self.size);
        assert_eq!(found, expected, "rows, reduced gradients, reduced inputs, size");
        match self.flat.as_slice() {
            [] | [_] => self.add_first(product, dy, x, y),
            [first, others @ ..] => {
                let mut image = Mat::zeros(1, first.out());
                self.add_first(product, dy, x, image.data_mut());
                for map in others {
                    let mut next = Mat::zeros(1, map.out());
                    map.add_part(0, image.data(), next.data_mut());
                    image = next;
                }
                add(y, image.data());
            }
        }
    }

    /// Adds the image of the product under the first of the maps of the product.
    fn add_first(&self, product: Product, dy: MatRef<'_, f32>, x: MatRef<'_, f32>, y: &mut [f32]) {
        let first = self.flat.first();
        if let Some(entries) = &self.entries {
            // Features in rows, so that an entry is a product of two rows.
            let [mut of_dy, mut of_x] = [dy, x].map(|m| Scratch::new(m.rows() * m.cols()));
            to_columns(dy, dy.rows(), &mut of_dy);
            to_columns(x, x.rows(), &mut of_x);
            let dy = MatRef::new(&of_dy, dy.cols(), dy.rows());
            let x = MatRef::new(&of_x, x.cols(), x.rows());
            let Some(map) = first else {
                return add_entries(dy, x, entries, y);
            };
            let mut chosen = Scratch::zeros(entries.len());
            add_entries(dy, x, entries, &mut chosen);
            return map.add_part(0, &chosen, y);
        }
        let (rows, width) = (dy.cols(), x.cols());
        let Some(map) = first else {
            let (dy, y) = (Arg::Transposed(dy), MatMut::new(y, rows, width));
            return product(1.0, dy, Arg::Plain(x), y, Write::Add);
        };
        let block =
            if map.takes_parts() { (BLOCK / width.max(1)).clamp(1, rows.max(1)) } else { rows };
        let mut memory = Scratch::new(block * width);
        for start in (0..rows).step_by(block.max(1)) {
            let count = block.min(rows - start);
            let part = &mut memory[..count * width];
            let (of_block, into) =
                (dy.columns(start, count), MatMut::new(&mut *part, count, width));
            let (of_block, x) = (Arg::Transposed(of_block), Arg::Plain(x));
            product(1.0, of_block, x, into, Write::Set);
            map.add_part(start * width, part, y);
        }
    }
}
