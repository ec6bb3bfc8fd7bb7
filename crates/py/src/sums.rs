//! Sums over inputs and outputs of a linear layer of an external network.

use crate::operator::{rows, view};
use linwright::measure::stats::{InputSums, SiteStats, TargetSums};
use linwright::tensor::{Mat, MatRef};
use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::Arc;

/// Sums of one layer, exact for any batches.
#[pyclass(module = "linwright._linwright")]
#[derive(Debug)]
pub(crate) struct RawSums {
    shape: (usize, usize),
    inputs: InputSums,
    targets: TargetSums,
}

/// Sums as arrays: of x xᵀ, y xᵀ, x, y, |x| and |y|², and the number of samples.
type Arrays<'py> = (
    Bound<'py, PyArray2<f64>>,
    Bound<'py, PyArray2<f64>>,
    [Bound<'py, PyArray1<f64>>; 3],
    f64,
    u64,
);

#[pymethods]
impl RawSums {
    #[new]
    fn new(shape: (usize, usize)) -> Self {
        let (out, inp) = shape;
        Self { shape, inputs: InputSums::new(inp), targets: TargetSums::new(out, inp) }
    }

    /// Adds a batch of inputs (rows, in) and outputs (rows, out).
    fn add(&mut self, py: Python<'_>, x: &Bound<'_, PyAny>, y: &Bound<'_, PyAny>) -> PyResult<()> {
        let (x, y) = (rows::<f32>(x, "x", self.shape.1)?, rows::<f32>(y, "y", self.shape.0)?);
        let (x, y) = (view(&x)?, view(&y)?);
        if x.rows() != y.rows() {
            let what = format!("y has {} rows, x has {}", y.rows(), x.rows());
            return Err(PyValueError::new_err(what));
        }
        let (inputs, targets) = (&mut self.inputs, &mut self.targets);
        let broken = py.detach(|| {
            let broken = [("x", x), ("y", y)].into_iter().find(|(_, rows)| !is_finite(*rows));
            if broken.is_none() {
                inputs.add(x);
                targets.add(x, y);
            }
            broken.map(|(what, _)| what)
        });
        match broken {
            Some(what) => {
                Err(PyValueError::new_err(format!("{what} has a number that is not finite")))
            }
            None => Ok(()),
        }
    }

    /// Adds the sums of other samples.
    fn merge(&mut self, other: &Self) -> PyResult<()> {
        if self.shape != other.shape {
            let what = format!("sums of shape {:?}, expected {:?}", other.shape, self.shape);
            return Err(PyValueError::new_err(what));
        }
        self.inputs.merge(&other.inputs);
        self.targets.merge(&other.targets);
        Ok(())
    }

    fn shape(&self) -> (usize, usize) {
        self.shape
    }

    fn sums<'py>(&self, py: Python<'py>) -> PyResult<Arrays<'py>> {
        let inputs = Arc::new(self.inputs.clone().finish());
        let SiteStats { inputs, syx, syy, sy } = self.targets.clone().finish(inputs);
        let matrix =
            |mat: &Mat<f64>| PyArray1::from_slice(py, mat.data()).reshape([mat.rows(), mat.cols()]);
        let row = |values: &[f64]| PyArray1::from_slice(py, values);
        let firsts = [row(&inputs.sx), row(&sy), row(&inputs.absolute)];
        Ok((matrix(&inputs.sxx)?, matrix(&syx)?, firsts, syy, inputs.count))
    }
}

fn is_finite(rows: MatRef<'_, f32>) -> bool {
    (0..rows.rows()).all(|row| rows.row(row).iter().all(|value| value.is_finite()))
}
