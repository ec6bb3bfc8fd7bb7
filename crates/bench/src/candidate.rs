//! An operator with its buffers, and the timing of its passes.

use super::{BenchError, Checked, Pass, Subject, check};
use crate::learner::Learner;
use linwright_ops::{Backward, Grads, Op, Shape, Tape, Workspace, parameter_count};
use linwright_tensor::{Mat, RngKey, Scalar};
use std::any::Any;
use std::time::{Duration, Instant};

/// Calls are repeated up to this time per timing, far above the resolution of the clock.
const MIN_DURATION: Duration = Duration::from_millis(10);
/// Largest number of calls per timing.
const MAX_CALLS: u32 = 10_000;
/// Adam's learning rate: small enough that hundreds of steps hardly change the norm of the
/// parameters.
const RATE: f64 = 1e-4;

/// Inputs and outputs of all operators of one shape.
pub(super) struct Rows<T> {
    pub(super) x: Mat<T>,
    pub(super) y: Mat<T>,
    /// Gradient with respect to y.
    dy: Mat<T>,
    /// Gradient with respect to x, or output of the inverse.
    dx: Mat<T>,
    /// Targets of the training.
    target: Mat<T>,
}

impl<T: Scalar> Rows<T> {
    pub(super) fn new(shape: Shape, rows: usize, passes: &[Pass], seed: u64) -> Self {
        let key = RngKey::new(seed).fold("bench rows");
        let normals = |name: &str, cols: usize| {
            let mut stream = key.fold(name).stream();
            Mat::from_vec(rows, cols, stream.normals(rows * cols, 1.0))
        };
        let learns = passes.iter().any(|pass| pass.learns());
        let inverts = passes.contains(&Pass::Inverse);
        let out = if learns { shape.out } else { 0 };
        let inp = if learns || inverts { shape.inp } else { 0 };
        Self {
            x: normals("x", shape.inp),
            y: normals("y", shape.out),
            dy: normals("dy", out),
            dx: Mat::zeros(rows, inp),
            target: normals("target", out),
        }
    }
}

/// An operator being timed.
pub(super) struct Candidate<T: Scalar> {
    pub(super) subject: Subject,
    pub(super) checked: Checked,
    pub(super) op: Op<T>,
    /// A copy for training; `None` without training, and in `f64`.
    trained: Option<Learner>,
    grads: Grads<T>,
    tape: Tape<T>,
    ws: Workspace<T>,
    /// Calls per timing, for each pass of the plan; `None` if the operator does not support the
    /// pass.
    calls: Vec<Option<u32>>,
    /// Seconds per call, for each pass and round.
    pub(super) seconds: Vec<Vec<f64>>,
}

impl<T: Scalar> Candidate<T> {
    /// Builds an operator and compares its output with the oracle's.
    pub(super) fn new(
        subject: &Subject,
        shape: Shape,
        passes: &[Pass],
        seed: u64,
    ) -> Result<Self, BenchError> {
        let op: Op<T> = subject.build(shape, seed)?;
        let checked = check::check(subject, &op, passes, seed)?;
        Ok(Self::checked(subject.clone(), op, passes, checked))
    }

    fn checked(subject: Subject, op: Op<T>, passes: &[Pass], checked: Checked) -> Self {
        let learns = passes.contains(&Pass::Backward);
        let any: &dyn Any = &op;
        let single = any.downcast_ref::<Op<f32>>().filter(|_| passes.contains(&Pass::Training));
        Self {
            subject,
            checked,
            trained: single.map(|op| Learner::new(op.clone())),
            grads: if learns { Grads::zeros(&op.map().params()) } else { Grads::default() },
            op,
            tape: Tape::default(),
            ws: Workspace::default(),
            calls: Vec::new(),
            seconds: Vec::new(),
        }
    }

    pub(super) fn shape(&self) -> Shape {
        self.op.map().shape()
    }

    pub(super) fn parameters(&self) -> u64 {
        parameter_count(&self.op.map().params()) as u64
    }

    /// Runs every pass twice: the first call allocates memory, the second determines the number of
    /// calls per timing.
    pub(super) fn warm_up(
        &mut self,
        passes: &[Pass],
        rows: &mut Rows<T>,
    ) -> Result<(), BenchError> {
        self.seconds = vec![Vec::new(); passes.len()];
        for &pass in passes {
            let calls = if self.has(pass) {
                self.call(pass, rows)?;
                let once = self.call(pass, rows)?.as_secs_f64().max(1e-9);
                let wanted = (MIN_DURATION.as_secs_f64() / once).ceil();
                Some((wanted as u32).clamp(1, MAX_CALLS))
            } else {
                None
            };
            self.calls.push(calls);
        }
        Ok(())
    }

    fn has(&self, pass: Pass) -> bool {
        match pass {
            Pass::Forward | Pass::Backward => true,
            Pass::Training => self.trained.is_some(),
            Pass::Inverse | Pass::DenseInverse | Pass::LogDet => {
                self.op.map().invertible().is_some()
            }
        }
    }

    /// Times one pass of the plan in another round.
    pub(super) fn time(
        &mut self,
        index: usize,
        pass: Pass,
        rows: &mut Rows<T>,
    ) -> Result<(), BenchError> {
        let Some(calls) = self.calls[index] else { return Ok(()) };
        let mut sum = Duration::ZERO;
        for _ in 0..calls {
            sum += self.call(pass, rows)?;
        }
        self.seconds[index].push(sum.as_secs_f64() / f64::from(calls));
        Ok(())
    }

    /// Runs one call; only the pass itself is timed.
    fn call(&mut self, pass: Pass, rows: &mut Rows<T>) -> Result<Duration, BenchError> {
        match pass {
            Pass::Forward => {
                let began = Instant::now();
                let (x, y) = (rows.x.view(), rows.y.view_mut());
                self.op.map().forward(x, y, None, &mut self.ws);
                let taken = began.elapsed();
                self.finite(pass, rows.y.data())?;
                Ok(taken)
            }
            Pass::Backward => self.backward(rows),
            Pass::Training => self.training(rows),
            Pass::Inverse | Pass::DenseInverse | Pass::LogDet => self.inversion(pass, rows),
        }
    }

    fn backward(&mut self, rows: &mut Rows<T>) -> Result<Duration, BenchError> {
        let Self { op, tape, grads, ws, .. } = self;
        tape.clear();
        op.map().forward(rows.x.view(), rows.y.view_mut(), Some(tape), ws);
        grads.clear();
        let began = Instant::now();
        let (x, dy, dx) = (rows.x.view(), rows.dy.view(), Some(rows.dx.view_mut()));
        op.map().backward(Backward { x, dy, tape, dx, grads: Some(grads) }, ws);
        let taken = began.elapsed();
        self.finite(Pass::Backward, rows.dx.data())?;
        Ok(taken)
    }

    fn training(&mut self, rows: &mut Rows<T>) -> Result<Duration, BenchError> {
        let any: &mut dyn Any = rows;
        let (Some(learner), Some(rows)) = (&mut self.trained, any.downcast_mut::<Rows<f32>>())
        else {
            return Ok(Duration::ZERO);
        };
        let began = Instant::now();
        learner.step(&rows.x, &rows.target, &mut rows.y, RATE);
        let taken = began.elapsed();
        if learner.is_finite() { Ok(taken) } else { Err(self.not_finite(Pass::Training)) }
    }

    fn inversion(&mut self, pass: Pass, rows: &mut Rows<T>) -> Result<Duration, BenchError> {
        // Mutable access to parameters makes the operator discard derived values.
        drop(self.op.map_mut().params_mut());
        let Self { op, ws, .. } = self;
        let Some(invertible) = op.map().invertible() else { return Ok(Duration::ZERO) };
        let began = Instant::now();
        let (taken, finite) = match pass {
            Pass::LogDet => {
                let found = invertible.log_abs_det()?;
                (began.elapsed(), found.log_abs.is_finite())
            }
            Pass::DenseInverse => {
                let found = invertible.inverse_dense()?;
                (began.elapsed(), all_finite(found.data()))
            }
            Pass::Forward | Pass::Backward | Pass::Training | Pass::Inverse => {
                // x takes the role of y: invertible operators are square, and other passes change
                // y.
                invertible.inverse(rows.x.view(), rows.dx.view_mut(), ws)?;
                (began.elapsed(), all_finite(rows.dx.data()))
            }
        };
        if finite { Ok(taken) } else { Err(self.not_finite(pass)) }
    }

    fn finite(&self, pass: Pass, values: &[T]) -> Result<(), BenchError> {
        if all_finite(values) { Ok(()) } else { Err(self.not_finite(pass)) }
    }

    fn not_finite(&self, pass: Pass) -> BenchError {
        let (label, shape) = (self.subject.label.clone(), self.shape());
        BenchError::NonFinite { label, shape, pass: pass.name() }
    }
}

fn all_finite<T: Scalar>(values: &[T]) -> bool {
    values.iter().all(|value| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scaling::Scaling;
    use crate::{Dtype, Oracle, standard};

    #[test]
    fn training_moves_a_copy_towards_the_target() {
        let shape = Shape { out: 16, inp: 16 };
        let subject = Subject::new(standard("dense").unwrap());
        let passes = [Pass::Training];
        let mut rows = Rows::new(shape, 8, &passes, 1);
        let mut candidate = Candidate::new(&subject, shape, &passes, 1).unwrap();
        let loss = |op: &Op<f32>, rows: &mut Rows<f32>| -> f32 {
            op.map().forward(rows.x.view(), rows.y.view_mut(), None, &mut Workspace::default());
            rows.y.data().iter().zip(rows.target.data()).map(|(y, t)| (y - t).powi(2)).sum()
        };
        let before = candidate.op.clone();
        let first = loss(&candidate.trained.as_ref().unwrap().op, &mut rows);
        for _ in 0..200 {
            candidate.call(Pass::Training, &mut rows).unwrap();
        }
        assert!(loss(&candidate.trained.as_ref().unwrap().op, &mut rows) < first);
        let values = |op: &Op<f32>| op.map().params()[0].values.to_vec();
        assert_eq!(values(&candidate.op), values(&before), "the timed forward pass stays the same");
        assert_ne!(values(&candidate.trained.as_ref().unwrap().op), values(&before));
    }

    #[test]
    fn every_pass_but_training_exists_in_double_precision() {
        let shape = Shape { out: 12, inp: 12 };
        let subject = Subject::new(standard("circulant_diagonal").unwrap());
        let passes: Vec<Pass> = Dtype::F64.passes().collect();
        assert_eq!(passes.len() + 1, Pass::ALL.len());
        let mut rows = Rows::<f64>::new(shape, 5, &passes, 1);
        let mut candidate = Candidate::<f64>::new(&subject, shape, &passes, 1).unwrap();
        candidate.warm_up(&passes, &mut rows).unwrap();
        for (index, &pass) in passes.iter().enumerate() {
            candidate.time(index, pass, &mut rows).unwrap();
            assert_eq!(candidate.seconds[index].len(), 1, "{}", pass.name());
        }
        assert!(candidate.checked.largest_error < 1e-10);
    }

    #[test]
    fn numbers_that_are_not_finite_are_an_error_of_the_pass() {
        let shape = Shape { out: 4, inp: 4 };
        let subject = Subject::new(standard("dense").unwrap());
        let mut rows = Rows::new(shape, 3, &[Pass::Backward], 1);
        let mut candidate = Candidate::<f32>::new(&subject, shape, &[Pass::Backward], 1).unwrap();
        rows.dy.data_mut()[2] = f32::INFINITY;
        let error = candidate.call(Pass::Backward, &mut rows).unwrap_err();
        assert!(error.to_string().contains("backward"), "{error}");
    }

    #[test]
    fn inverses_are_timed_where_there_are_any() {
        let shape = Shape { out: 6, inp: 6 };
        let passes = [Pass::Inverse, Pass::DenseInverse, Pass::LogDet];
        let subject = Subject::new(standard("dense").unwrap());
        let mut rows = Rows::<f64>::new(shape, 3, &passes, 1);
        let op = Op::Linear(Box::new(Scaling { features: 6, factor: 2.0, claimed: 2.0 }));
        let checked = Checked { oracle: Oracle::DenseWeight, largest_error: 0.0 };
        let mut candidate = Candidate::checked(subject, op, &passes, checked);
        candidate.warm_up(&passes, &mut rows).unwrap();
        for (index, pass) in passes.into_iter().enumerate() {
            candidate.time(index, pass, &mut rows).unwrap();
            assert_eq!(candidate.seconds[index].len(), 1);
        }
        assert_eq!(rows.dx.at(1, 2), rows.x.at(1, 2) / 2.0);
    }
}
