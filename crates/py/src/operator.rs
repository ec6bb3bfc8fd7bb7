//! Operators on numpy arrays.
//!
//! Rows are passed without a copy, and results are returned in the memory that was computed into.
//! The package checks types of objects and reshapes them to rows; shapes are checked again here,
//! since a kernel panics on a wrong one.

use crate::failure::exception;
use crate::monitor::Stop;
use linwright::compress::FitError;
use linwright::compress::fit::{FitOptions, OperatorFit, Target, fit_operator};
use linwright::jobs::{Failure, message_of};
use linwright::operators::{
    OperatorFileError, are_double, from_bytes, is_double, load, save, to_bytes,
};
use linwright::ops::archive::{self, Tensor, Tensors};
use linwright::ops::{Backward, Grads, Op, OpError, OpSpec, Shape, Tape, Workspace};
use linwright::tensor::{Mat, MatRef, RngKey, Scalar};
use linwright::train::{Control, Progress};
use numpy::{
    Element, PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2,
    PyUntypedArrayMethods,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::PathBuf;

/// An operator in one of two precisions.
#[derive(Debug, Clone)]
enum Held {
    F32(Op<f32>),
    F64(Op<f64>),
}

/// Calls a generic function on the operator of either precision.
macro_rules! on {
    ($held:expr, $op:ident => $work:expr) => {
        match $held {
            Held::F32($op) => $work,
            Held::F64($op) => $work,
        }
    };
}

/// Intermediate results of a forward call.
#[pyclass(frozen, module = "linwright._linwright")]
#[derive(Debug)]
pub(crate) struct RawTape {
    rows: usize,
    saved: Saved,
}

#[derive(Debug)]
pub(crate) enum Saved {
    F32(Tape<f32>),
    F64(Tape<f64>),
}

/// A numpy number type, with the variants of values in either precision.
pub(crate) trait Number: Scalar + Element {
    fn tape(tape: &RawTape) -> Option<&Tape<Self>>;
    fn keep(tape: Tape<Self>) -> Saved;
}

impl Number for f32 {
    fn tape(tape: &RawTape) -> Option<&Tape<Self>> {
        if let Saved::F32(tape) = &tape.saved { Some(tape) } else { None }
    }

    fn keep(tape: Tape<Self>) -> Saved {
        Saved::F32(tape)
    }
}

impl Number for f64 {
    fn tape(tape: &RawTape) -> Option<&Tape<Self>> {
        if let Saved::F64(tape) = &tape.saved { Some(tape) } else { None }
    }

    fn keep(tape: Tape<Self>) -> Saved {
        Saved::F64(tape)
    }
}

/// An operator.
#[pyclass(module = "linwright._linwright")]
#[derive(Debug)]
pub(crate) struct RawOperator {
    held: Held,
}

fn misuse(py: Python<'_>, error: &OpError) -> PyErr {
    exception(py, &Failure::usage(message_of(error)))
}

fn of_file(py: Python<'_>, error: OperatorFileError) -> PyErr {
    let failure = match error {
        OperatorFileError::Output(error) => error.into(),
        error => Failure::general(message_of(&error)),
    };
    exception(py, &failure)
}

/// Rows of an array with this number type, without a copy.
pub(crate) fn rows<'py, T: Number>(
    array: &Bound<'py, PyAny>,
    what: &str,
    cols: usize,
) -> PyResult<PyReadonlyArray2<'py, T>> {
    let array = array.cast::<PyArray2<T>>().map_err(|_| {
        PyTypeError::new_err(format!("{what} must be an array of {} with two axes", T::NAME))
    })?;
    let [height, width] = [array.shape()[0], array.shape()[1]];
    if width != cols {
        return Err(PyValueError::new_err(format!(
            "{what} has shape ({height}, {width}), expected (rows, {cols})"
        )));
    }
    if !array.is_c_contiguous() {
        return Err(PyValueError::new_err(format!("{what} is not contiguous")));
    }
    array.try_readonly().map_err(|error| PyValueError::new_err(format!("{what}: {error}")))
}

pub(crate) fn view<'a, T: Number>(array: &'a PyReadonlyArray2<'_, T>) -> PyResult<MatRef<'a, T>> {
    let [rows, cols] = [array.shape()[0], array.shape()[1]];
    let slice = array.as_slice().map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(MatRef::new(slice, rows, cols))
}

fn array<T: Number>(py: Python<'_>, mat: Mat<T>) -> PyResult<Py<PyAny>> {
    let [rows, cols] = [mat.rows(), mat.cols()];
    Ok(PyArray1::from_vec(py, mat.into_vec()).reshape([rows, cols])?.into_any().unbind())
}

fn shaped<T: Number>(py: Python<'_>, shape: Vec<usize>, values: Vec<T>) -> PyResult<Py<PyAny>> {
    Ok(PyArray1::from_vec(py, values).reshape(shape)?.into_any().unbind())
}

fn spec_of(py: Python<'_>, spec: &str) -> PyResult<OpSpec> {
    serde_json::from_str(spec).map_err(|error| {
        let kinds = OpSpec::KINDS.join(", ");
        let failure =
            Failure::usage(format!("operator: {error}")).hint(format!("kinds are: {kinds}"));
        exception(py, &failure)
    })
}

fn forward<T: Number>(
    py: Python<'_>,
    op: &Op<T>,
    x: &Bound<'_, PyAny>,
    keeps: bool,
) -> PyResult<(Py<PyAny>, Option<RawTape>)> {
    let Shape { out, inp } = op.map().shape();
    let x = rows::<T>(x, "x", inp)?;
    let x = view(&x)?;
    let (y, tape) = py.detach(|| {
        let mut y = Mat::zeros(x.rows(), out);
        let mut tape = keeps.then(Tape::default);
        op.map().forward(x, y.view_mut(), tape.as_mut(), &mut Workspace::default());
        (y, tape)
    });
    let tape = tape.map(|tape| RawTape { rows: x.rows(), saved: T::keep(tape) });
    Ok((array(py, y)?, tape))
}

/// Gradients of the input and of the parameters.
type Gradients = (Option<Py<PyAny>>, Option<Vec<Py<PyAny>>>);

fn backward<T: Number>(
    py: Python<'_>,
    op: &Op<T>,
    arrays: [&Bound<'_, PyAny>; 2],
    tape: Option<&RawTape>,
    [wants_dx, wants_grads]: [bool; 2],
) -> PyResult<Gradients> {
    let Shape { out, inp } = op.map().shape();
    let (x, dy) = (rows::<T>(arrays[0], "x", inp)?, rows::<T>(arrays[1], "dy", out)?);
    let (x, dy) = (view(&x)?, view(&dy)?);
    if x.rows() != dy.rows() {
        let what = format!("dy has {} rows, x has {}", dy.rows(), x.rows());
        return Err(PyValueError::new_err(what));
    }
    let tape = match tape {
        None => None,
        Some(tape) => Some(
            T::tape(tape)
                .filter(|_| tape.rows == x.rows())
                .ok_or_else(|| PyValueError::new_err("the tape belongs to another forward call"))?,
        ),
    };
    let (dx, grads) = py.detach(|| {
        let mut ws = Workspace::default();
        let mut own = Tape::default();
        if tape.is_none() {
            let mut y = Mat::zeros(x.rows(), out);
            op.map().forward(x, y.view_mut(), Some(&mut own), &mut ws);
        }
        let mut dx = wants_dx.then(|| Mat::zeros(x.rows(), inp));
        let mut grads = wants_grads.then(|| Grads::zeros(&op.map().params()));
        let dx_view = dx.as_mut().map(Mat::view_mut);
        let args =
            Backward { x, dy, tape: tape.unwrap_or(&own), dx: dx_view, grads: grads.as_mut() };
        op.map().backward(args, &mut ws);
        (dx, grads)
    });
    let dx = dx.map(|dx| array(py, dx)).transpose()?;
    let shapes = op.map().params().into_iter().map(|param| param.shape);
    let grads = grads.map(|grads| {
        shapes.zip(grads.iter()).map(|(shape, grad)| shaped(py, shape, grad.to_vec())).collect()
    });
    Ok((dx, grads.transpose()?))
}

fn inverse<T: Number>(py: Python<'_>, op: &Op<T>, y: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    let map = invertible(py, op)?;
    let Shape { out, inp } = op.map().shape();
    let y = rows::<T>(y, "y", out)?;
    let y = view(&y)?;
    let x = py.detach(|| {
        let mut x = Mat::zeros(y.rows(), inp);
        map.inverse(y, x.view_mut(), &mut Workspace::default()).map(|()| x)
    });
    array(py, x.map_err(|error| singular(py, &error))?)
}

fn singular(py: Python<'_>, error: &OpError) -> PyErr {
    exception(py, &Failure::general(message_of(error)))
}

fn invertible<'a, T: Number>(
    py: Python<'_>,
    op: &'a Op<T>,
) -> PyResult<&'a dyn linwright::ops::Invertible<T>> {
    op.map().invertible().ok_or_else(|| {
        let (kind, Shape { out, inp }) = (op.map().spec().kind(), op.map().shape());
        let what = format!("{kind} of {inp} -> {out} features has no inverse and no determinant");
        exception(py, &Failure::usage(what).hint("circulant_diagonal has both"))
    })
}

fn converted<T: Number, U: Number>(op: &Op<T>) -> Result<Op<U>, OpError> {
    let (header, tensors) = archive::save(op)?;
    let convert = |tensor| match tensor {
        Tensor::Values(shape, values) => {
            let values: Vec<T> = values;
            Tensor::Values(shape, values.iter().map(|v| U::from_f64(v.to_f64())).collect())
        }
        Tensor::Indices(indices) => Tensor::Indices(indices),
    };
    let tensors: Tensors<U> =
        tensors.into_iter().map(|(name, tensor)| (name, convert(tensor))).collect();
    archive::load(&header, tensors)
}

fn parameters<T: Number>(py: Python<'_>, op: &Op<T>) -> PyResult<Vec<(String, Py<PyAny>)>> {
    let params = op.map().params().into_iter();
    params.map(|p| Ok((p.name, shaped(py, p.shape, p.values.to_vec())?))).collect()
}

/// Writes the numbers of a parameter, flat, if all are finite.
fn set_parameter<T: Number>(op: &mut Op<T>, name: &str, values: &Bound<'_, PyAny>) -> PyResult<()> {
    let values: PyReadonlyArray1<'_, T> = values.extract().map_err(|_| {
        PyTypeError::new_err(format!("parameter {name} must be an array of {}", T::NAME))
    })?;
    let values = values.as_slice().map_err(|error| PyValueError::new_err(error.to_string()))?;
    if !values.iter().all(|value| value.to_f64().is_finite()) {
        return Err(PyValueError::new_err(format!(
            "parameter {name} has a number that is not finite"
        )));
    }
    let mut params = op.map_mut().params_mut();
    let Some(param) = params.iter_mut().find(|param| param.name == name) else {
        let names: Vec<&str> = params.iter().map(|param| param.name.as_str()).collect();
        let what = format!("there is no parameter {name}; there are: {}", names.join(", "));
        return Err(PyValueError::new_err(what));
    };
    if param.values.len() != values.len() {
        let what = format!(
            "parameter {name} has shape {:?}, {} numbers were given",
            param.shape,
            values.len()
        );
        return Err(PyValueError::new_err(what));
    }
    param.values.copy_from_slice(values);
    Ok(())
}

fn set_buffer<T: Number>(op: &mut Op<T>, name: &str, values: &[u32]) -> Result<(), OpError> {
    let (kind, map) = (op.map().spec().kind(), op.map_mut());
    for buffer in map.buffers_mut() {
        if buffer.name == name && buffer.values.len() == values.len() {
            buffer.values.copy_from_slice(values);
            return map.check();
        }
    }
    let present = map.buffers().into_iter().map(|b| format!("{} ({})", b.name, b.values.len()));
    let present = present.collect::<Vec<_>>().join(", ");
    Err(OpError::MissingTensor { kind, name: format!("{name} ({})", values.len()), present })
}

#[pymethods]
impl RawOperator {
    /// An operator with random parameters.
    #[staticmethod]
    fn random(
        py: Python<'_>,
        spec: &str,
        shape: (usize, usize),
        seed: u64,
        double: bool,
    ) -> PyResult<Self> {
        let spec = spec_of(py, spec)?;
        let (shape, key) = (Shape { out: shape.0, inp: shape.1 }, RngKey::new(seed));
        let held: Result<Held, OpError> = py.detach(|| {
            Ok(match double {
                false => Held::F32(spec.random(shape, key)?),
                true => Held::F64(spec.random(shape, key)?),
            })
        });
        held.map(|held| Self { held }).map_err(|error| misuse(py, &error))
    }

    /// Reads an operator in the precision of its file.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let held: Result<Held, OperatorFileError> = py.detach(|| {
            Ok(match is_double(&path)? {
                false => Held::F32(load(&path)?),
                true => Held::F64(load(&path)?),
            })
        });
        held.map(|held| Self { held }).map_err(|error| of_file(py, error))
    }

    fn save(&self, py: Python<'_>, path: PathBuf, force: bool) -> PyResult<()> {
        let done = py.detach(|| on!(&self.held, op => save(op, &path, force)));
        done.map_err(|error| of_file(py, error))
    }

    /// The bytes of a file, for pickles.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = on!(&self.held, op => to_bytes(op)).map_err(|error| of_file(py, error))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// From the bytes of a file.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        let read = || -> Result<Held, OperatorFileError> {
            Ok(match are_double(bytes)? {
                false => Held::F32(from_bytes(bytes)?),
                true => Held::F64(from_bytes(bytes)?),
            })
        };
        read().map(|held| Self { held }).map_err(|error| of_file(py, error))
    }

    /// The same operator in another precision.
    fn converted(&self, py: Python<'_>, double: bool) -> PyResult<Self> {
        let held = match (&self.held, double) {
            (Held::F32(op), true) => converted(op).map(Held::F64),
            (Held::F64(op), false) => converted(op).map(Held::F32),
            (held, _) => Ok(held.clone()),
        };
        held.map(|held| Self { held }).map_err(|error| misuse(py, &error))
    }

    /// Whether numbers are f64.
    fn is_double(&self) -> bool {
        matches!(self.held, Held::F64(_))
    }

    /// Kind and options as JSON.
    fn spec(&self) -> PyResult<String> {
        let spec = on!(&self.held, op => op.map().spec());
        serde_json::to_string(&spec).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Features out and in.
    fn shape(&self) -> (usize, usize) {
        let Shape { out, inp } = on!(&self.held, op => op.map().shape());
        (out, inp)
    }

    /// Number of parameters, and steps of arithmetic for a row.
    fn cost(&self) -> (usize, u64) {
        on!(&self.held, op => (op.parameters(), op.map().macs_per_row()))
    }

    fn is_linear(&self) -> bool {
        on!(&self.held, op => matches!(op, Op::Linear(_)))
    }

    fn is_invertible(&self) -> bool {
        on!(&self.held, op => op.map().invertible().is_some())
    }

    /// Maps rows; with `keeps` also returns the tape for `backward`.
    fn forward(
        &self,
        py: Python<'_>,
        x: &Bound<'_, PyAny>,
        keeps: bool,
    ) -> PyResult<(Py<PyAny>, Option<RawTape>)> {
        on!(&self.held, op => forward(py, op, x, keeps))
    }

    /// Gradients of the input and of the parameters, each if wanted; without a tape the forward
    /// pass is repeated.
    fn backward(
        &self,
        py: Python<'_>,
        x: &Bound<'_, PyAny>,
        dy: &Bound<'_, PyAny>,
        tape: Option<&RawTape>,
        wants: [bool; 2],
    ) -> PyResult<Gradients> {
        on!(&self.held, op => backward(py, op, [x, dy], tape, wants))
    }

    fn inverse(&self, py: Python<'_>, y: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        on!(&self.held, op => inverse(py, op, y))
    }

    /// Logarithm of the absolute determinant, and its sign.
    fn log_abs_det(&self, py: Python<'_>) -> PyResult<(f64, f64)> {
        let det = on!(&self.held, op => invertible(py, op)?.log_abs_det());
        det.map(|det| (det.log_abs, det.sign)).map_err(|error| singular(py, &error))
    }

    fn to_dense(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        on!(&self.held, op => {
            let dense = py.detach(|| op.to_dense()).map_err(|error| misuse(py, &error))?;
            array(py, dense)
        })
    }

    /// Copies of the parameters, by name and in order.
    fn parameters(&self, py: Python<'_>) -> PyResult<Vec<(String, Py<PyAny>)>> {
        on!(&self.held, op => parameters(py, op))
    }

    /// Copies of the fixed integer buffers, by name and in order.
    fn buffers(&self, py: Python<'_>) -> Vec<(String, Py<PyAny>)> {
        let copy = |values: &[u32]| PyArray1::from_slice(py, values).into_any().unbind();
        on!(&self.held, op => {
            let buffers = op.map().buffers().into_iter();
            buffers.map(|buffer| (buffer.name, copy(buffer.values))).collect()
        })
    }

    /// Writes a buffer; on invalid values the operator is unchanged.
    fn set_buffer(&mut self, py: Python<'_>, name: &str, values: Vec<u32>) -> PyResult<()> {
        let mut held = self.held.clone();
        let done = on!(&mut held, op => set_buffer(op, name, &values));
        done.map_err(|error| misuse(py, &error))?;
        self.held = held;
        Ok(())
    }

    /// Writes the numbers of a parameter, given flat.
    fn set_parameter(&mut self, name: &str, values: &Bound<'_, PyAny>) -> PyResult<()> {
        on!(&mut self.held, op => set_parameter(op, name, values))
    }
}

/// Stops a fit on request of Python.
struct Stopping<'a>(&'a Stop);

impl Control for Stopping<'_> {
    fn progress(&mut self, _progress: &Progress<'_>) {}

    fn interrupted(&self) -> bool {
        self.0.is_asked()
    }
}

/// Data of a fit: the arrays of a weight, of samples x and y, or of second and cross moments.
#[derive(FromPyObject)]
pub(crate) struct FitData<'py> {
    #[pyo3(item)]
    weight: Option<PyReadonlyArray2<'py, f64>>,
    #[pyo3(item)]
    samples: Option<(PyReadonlyArray2<'py, f64>, PyReadonlyArray2<'py, f64>)>,
    #[pyo3(item)]
    moments: Option<(PyReadonlyArray2<'py, f64>, PyReadonlyArray2<'py, f64>, f64)>,
}

/// Options of a fit.
#[derive(FromPyObject)]
pub(crate) struct FitSettings {
    #[pyo3(item)]
    starts: u32,
    #[pyo3(item)]
    iterations: u32,
    #[pyo3(item)]
    tolerance: f64,
    #[pyo3(item)]
    seed: u64,
}

impl FitData<'_> {
    fn target(&self) -> PyResult<Target<'_>> {
        match (&self.weight, &self.samples, &self.moments) {
            (Some(weight), None, None) => Ok(Target::Weight(view(weight)?)),
            (None, Some((x, y)), None) => Ok(Target::Samples { x: view(x)?, y: view(y)? }),
            (None, None, Some((second, cross, power))) => {
                let (second, cross) = (view(second)?, view(cross)?);
                Ok(Target::Moments { second, cross, power: *power })
            }
            _ => Err(PyTypeError::new_err(
                "a fit needs one of weight=W, samples=(x, y) and moments=(second, cross, power)",
            )),
        }
    }
}

/// Relative error of a fit, the procedure, its iterations and ignored directions.
type FitReport = (f64, &'static str, u64, usize);

/// Fits an operator.
#[pyfunction]
pub(crate) fn fit(
    py: Python<'_>,
    spec: &str,
    data: FitData<'_>,
    settings: FitSettings,
) -> PyResult<(RawOperator, FitReport)> {
    let spec = spec_of(py, spec)?;
    let target = data.target()?;
    let FitSettings { starts, iterations, tolerance, seed } = settings;
    let options = FitOptions { starts, iterations, tolerance, key: RngKey::new(seed) };
    let (fitted, asked) = py.detach(|| {
        let stop = Stop::new();
        let fitted = fit_operator(&spec, &target, &options, &mut Stopping(&stop));
        (fitted, stop.take())
    });
    if let Some(asked) = asked {
        return Err(asked);
    }
    let fitted = fitted.map_err(|error| exception(py, &unfitted(error)))?;
    let OperatorFit { op, relative_error, procedure, iterations, dropped_directions } = fitted;
    let report = (relative_error, procedure.name(), iterations, dropped_directions);
    Ok((RawOperator { held: Held::F64(op) }, report))
}

fn unfitted(error: FitError) -> Failure {
    match error {
        FitError::Train(error) => error.into(),
        FitError::Numerics { .. } => Failure::general(message_of(&error)),
        error => Failure::usage(message_of(&error)),
    }
}

/// All kinds of operators: kind, equation, formulas of parameters and steps, and whether they are
/// linear.
#[pyfunction]
pub(crate) fn kinds() -> Vec<(&'static str, &'static str, &'static str, &'static str)> {
    OpSpec::SUMMARIES.iter().map(|one| (one.kind, one.equation, one.parameters, one.macs)).collect()
}
