//! Slots over numbers with tangents: forward and backward pass, and gradients of parameters.

use super::number::{Number, Rows, copied};
use linwright_ops::{Backward, LinearSlot, Tape, Workspace};
use linwright_tensor::kernels::gemm::{Arg, PackedRight, Weight, Write, product, sum_of_products};
use linwright_tensor::{Mat, MatMut, MatRef, Scalar, scratch};
use std::any::Any;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// Weights packed once for all products of a step, by the names of their slots: for the forward
/// pass, and for gradients of inputs. Empty in double precision, and unless the model is prepared.
#[derive(Clone, Debug, Default)]
pub(crate) struct Packs(Arc<BTreeMap<String, [PackedRight; 2]>>);

impl Packs {
    /// Packed weights of dense slots in single precision.
    pub(crate) fn new<T: Scalar>(slots: &[&LinearSlot<T>]) -> Self {
        let pack = |slot: &&LinearSlot<T>| {
            let slot = (*slot as &dyn Any).downcast_ref::<LinearSlot<f32>>()?;
            let weight = dense(slot)?;
            let packed = [Arg::Transposed(weight), Arg::Plain(weight)].map(PackedRight::new);
            Some((slot.id().to_string(), packed))
        };
        Self(Arc::new(slots.iter().filter_map(pack).collect()))
    }

    /// Multiplies some rows with the packed weight of a slot, if there is one.
    fn apply<T: Scalar>(
        &self,
        (slot, which): (&LinearSlot<T>, usize),
        x: &Mat<T>,
        y: &mut Mat<T>,
        rows: &Range<usize>,
    ) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let Some(packed) = self.0.get(&slot.id().0) else { return false };
        let x = (x as &dyn Any).downcast_ref::<Mat<f32>>();
        let y = (y as &mut dyn Any).downcast_mut::<Mat<f32>>();
        let (Some(x), Some(y)) = (x, y) else { return false };
        let y = y.view_mut().rows_range(rows.start, rows.len());
        packed[which].apply(1, part(x, rows), y);
        true
    }
}

/// Products of values from the pass for forces, for the pass with tangents, which needs the same
/// ones in the same order.
#[derive(Debug, Default)]
pub(crate) struct Values<T>(RefCell<Known<T>>);

#[derive(Debug, Default)]
enum Known<T> {
    #[default]
    Nothing,
    Record(VecDeque<Mat<T>>),
    Recall(VecDeque<Mat<T>>),
}

impl<T: Scalar> Values<T> {
    /// Keeps products from now on.
    pub(crate) fn record(&self) {
        *self.0.borrow_mut() = Known::Record(VecDeque::new());
    }

    /// Replays the kept products from now on.
    pub(crate) fn recall(&self) {
        let kept = std::mem::take(&mut *self.0.borrow_mut());
        if let Known::Record(all) = kept {
            *self.0.borrow_mut() = Known::Recall(all);
        }
    }

    /// Reads the values of the next product, if they were kept and it has tangents.
    fn take<N: Number<Real = T>>(&self, into: &mut Rows<N>) -> bool {
        match &mut *self.0.borrow_mut() {
            Known::Recall(all) if N::PLANES == 2 => match all.pop_front() {
                Some(known) => {
                    let unused = std::mem::replace(&mut into.planes[0], known);
                    scratch::give_back(unused.into_vec());
                    true
                }
                None => false,
            },
            Known::Nothing | Known::Record(_) | Known::Recall(_) => false,
        }
    }

    /// Keeps the values of a product, if required.
    fn keep<N: Number<Real = T>>(&self, rows: &Rows<N>) {
        if let Known::Record(all) = &mut *self.0.borrow_mut() {
            all.push_back(copied(&rows.planes[0]));
        }
    }

    /// A product that reuses kept values. The callback receives the first plane to compute.
    pub(crate) fn product<N: Number<Real = T>>(
        values: Option<&Self>,
        mut into: Rows<N>,
        work: impl FnOnce(&mut Rows<N>, usize),
    ) -> Rows<N> {
        let Some(values) = values else {
            work(&mut into, 0);
            return into;
        };
        let known = values.take(&mut into);
        work(&mut into, usize::from(known));
        values.keep(&into);
        into
    }
}

fn add_bias<T: Scalar>(slot: &LinearSlot<T>, y: &mut Mat<T>, rows: &Range<usize>) {
    let Some(bias) = slot.bias() else { return };
    for i in rows.clone() {
        y.row_mut(i).iter_mut().zip(bias).for_each(|(y, bias)| *y += *bias);
    }
}

/// Gradients of parameters by the names of their tensors.
pub(crate) type Gradients<T> = BTreeMap<String, Vec<T>>;

/// Adds to the gradient of a tensor.
pub(crate) fn gradient_of<'a, T: Scalar>(
    gradients: &'a mut Gradients<T>,
    name: &str,
    numbers: usize,
) -> &'a mut [T] {
    if !gradients.contains_key(name) {
        let mut zeros = scratch::take(numbers);
        zeros.fill(T::ZERO);
        gradients.insert(name.to_owned(), zeros);
    }
    gradients.get_mut(name).map_or(&mut [], Vec::as_mut_slice)
}

fn part<'a, T: Scalar>(mat: &'a Mat<T>, rows: &Range<usize>) -> MatRef<'a, T> {
    mat.view().rows_range(rows.start, rows.len())
}

fn dense<T: Scalar>(slot: &LinearSlot<T>) -> Option<MatRef<'_, T>> {
    match slot.op().map().weight() {
        Some(Weight::Full(weight)) => Some(weight),
        Some(Weight::Half(_)) | None => None,
    }
}

/// `y = op(x) + bias` for some rows of both, in the planes from one on.
pub(crate) fn forward_rows<N: Number>(
    (packs, slot): (&Packs, &LinearSlot<N::Real>),
    x: &Rows<N>,
    (y, from): (&mut Rows<N>, usize),
    rows: &Range<usize>,
) {
    let ws = &mut Workspace::default();
    for (plane, (x, y)) in x.planes.iter().zip(&mut y.planes).enumerate().skip(from) {
        if packs.apply((slot, 0), x, y, rows) {
            if plane == 0 {
                add_bias(slot, y, rows);
            }
            continue;
        }
        let y = y.view_mut().rows_range(rows.start, rows.len());
        match plane {
            0 => slot.forward(part(x, rows), y, None, ws),
            _ => slot.op().map().forward(part(x, rows), y, None, ws),
        }
    }
}

/// `y = op(x) + bias`.
pub(crate) fn forward<N: Number>(
    (packs, slot): (&Packs, &LinearSlot<N::Real>),
    x: &Rows<N>,
) -> Rows<N> {
    forward_with(None, (packs, slot), x)
}

/// The same with values that may be known.
pub(crate) fn forward_with<N: Number>(
    values: Option<&Values<N::Real>>,
    of: (&Packs, &LinearSlot<N::Real>),
    x: &Rows<N>,
) -> Rows<N> {
    Values::product(values, Rows::unset(x.rows(), of.1.shape().out), |y, from| {
        forward_rows(of, x, (y, from), &(0..x.rows()));
    })
}

/// The gradient of the input of a slot, at some rows and in the planes from one on.
pub(crate) fn backward_rows<N: Number>(
    (packs, slot): (&Packs, &LinearSlot<N::Real>),
    x: &Rows<N>,
    dy: &Rows<N>,
    (dx, from): (&mut Rows<N>, usize),
    rows: &Range<usize>,
) {
    let planes = x.planes.iter().zip(&dy.planes).zip(&mut dx.planes);
    for ((x, dy), dx) in planes.skip(from) {
        if packs.apply((slot, 1), dy, dx, rows) {
            continue;
        }
        let dx = dx.view_mut().rows_range(rows.start, rows.len());
        let (x, dy) = (part(x, rows), part(dy, rows));
        match dense(slot) {
            Some(weight) => product(N::Real::ONE, dy.into(), weight.into(), dx, Write::Set),
            None => through_operator(slot, x, dy, Some(dx), None),
        }
    }
}

/// The gradient of the input of a slot.
pub(crate) fn backward<N: Number>(
    (packs, slot): (&Packs, &LinearSlot<N::Real>),
    x: &Rows<N>,
    dy: &Rows<N>,
) -> Rows<N> {
    backward_with(None, (packs, slot), x, dy)
}

/// The same with values that may be known.
pub(crate) fn backward_with<N: Number>(
    values: Option<&Values<N::Real>>,
    of: (&Packs, &LinearSlot<N::Real>),
    x: &Rows<N>,
    dy: &Rows<N>,
) -> Rows<N> {
    Values::product(values, Rows::unset(x.rows(), of.1.shape().inp), |dx, from| {
        backward_rows(of, x, dy, (dx, from), &(0..x.rows()));
    })
}

fn through_operator<T: Scalar>(
    slot: &LinearSlot<T>,
    x: MatRef<'_, T>,
    dy: MatRef<'_, T>,
    dx: Option<MatMut<'_, T>>,
    grads: Option<&mut linwright_ops::Grads<T>>,
) {
    let (ws, mut tape) = (&mut Workspace::default(), Tape::default());
    let mut y = Mat::zeros(x.rows(), slot.shape().out);
    slot.op().map().forward(x, y.view_mut(), Some(&mut tape), ws);
    slot.op().map().backward(Backward { x, dy, tape: &tape, dx, grads }, ws);
}

/// Adds gradients of a slot's parameters, at some rows: of the tangent of `<dy, op(x) + bias>`, or
/// of its value without tangents.
pub(crate) fn parameters<N: Number>(
    slot: &LinearSlot<N::Real>,
    x: &Rows<N>,
    dy: &Rows<N>,
    rows: &Range<usize>,
    into: &mut Gradients<N::Real>,
) {
    let last = N::PLANES - 1;
    let id = slot.id().to_string();
    let planes = (0..N::PLANES).map(|plane| (part(&dy.planes[last - plane], rows), plane));
    let planes: Vec<_> = planes.map(|(dy, plane)| (dy, part(&x.planes[plane], rows))).collect();
    if let Some(weight) = dense(slot) {
        let (out, inp) = (weight.rows(), weight.cols());
        let name = format!("{id}.weight");
        let write = if into.contains_key(&name) { Write::Add } else { Write::Set };
        let numbers = gradient_of(into, &name, out * inp);
        let factors = planes.iter().map(|(dy, x)| [Arg::Transposed(*dy), Arg::Plain(*x)]);
        let factors: Vec<_> = factors.collect();
        sum_of_products(&factors, MatMut::new(numbers, out, inp), write);
    } else {
        let mut grads = slot.zero_grads();
        planes.iter().for_each(|(dy, x)| through_operator(slot, *x, *dy, None, Some(&mut grads)));
        for (param, grad) in slot.op().map().params().iter().zip(grads.iter()) {
            let numbers = gradient_of(into, &format!("{id}.{}", param.name), grad.len());
            numbers.iter_mut().zip(grad).for_each(|(to, g)| *to += *g);
        }
    }
    if let Some(bias) = slot.bias() {
        let numbers = gradient_of(into, &format!("{id}.bias"), bias.len());
        let dy = part(&dy.planes[last], rows);
        for i in 0..dy.rows() {
            numbers.iter_mut().zip(dy.row(i)).for_each(|(to, g)| *to += *g);
        }
    }
}

/// The tangent of a number, or its value if it has none.
pub(crate) fn last<N: Number>(number: N) -> N::Real {
    let (value, tangent) = number.parts();
    if N::PLANES == 2 { tangent } else { value }
}
