//! Sums of linear operators.
//!
//! `W = Σ_k W_k`, all (out, inp): `y = Σ_k x W_kᵀ`. For instance a rotor plus a low-rank
//! correction.
//!
//! | parameters | MACs per row |
//! | --- | --- |
//! | those of the terms | those of the terms + out (terms - 1) |
//!
//! Source: the sum of operators in every library of linear operators. Parameters are those of the
//! terms, named `term0.u` and so on; terms are summed in order.
//!
//! ```
//! use linwright_ops::{OpSpec, Shape, parameter_count};
//! use linwright_tensor::RngKey;
//!
//! let json = r#"{"kind":"sum","terms":[{"kind":"rotor"},{"kind":"low_rank","rank":4}]}"#;
//! let spec: OpSpec = serde_json::from_str(json)?;
//! let op = spec.random::<f32>(Shape { out: 256, inp: 256 }, RngKey::new(0))?;
//! assert_eq!(parameter_count(&op.map().params()), 57 + 4 * 512);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use super::children::{self, Parent, total};
use super::{LowRankSpec, OpSpec, RotorSpec};
use crate::{
    Backward, Buffer, BufferMut, KindOptions, LinearOp, Map, Op, OpError, Param, ParamMut, Shape,
    Structured, Tape, Workspace,
};
use linwright_tensor::kernels::elementwise::add_rows;
use linwright_tensor::{MatMut, MatRef, RngKey, Scalar};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Options of [`Sum`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SumSpec {
    /// The terms, at least one, all linear.
    pub terms: Vec<OpSpec>,
}

impl SumSpec {
    /// Terms and their shapes.
    fn children(&self, shape: Shape) -> Vec<(&OpSpec, Shape)> {
        self.terms.iter().map(|term| (term, shape)).collect()
    }
}

/// `W = Σ_k W_k`.
#[derive(Clone, Debug)]
pub struct Sum<T: Scalar> {
    shape: Shape,
    terms: Vec<Op<T>>,
}

impl<T: Scalar> Sum<T> {
    /// Builds from terms.
    ///
    /// # Errors
    /// [`OpError::Unsupported`] if there are no terms, one is not linear, shapes differ, or the
    /// nesting is too deep for an archive.
    pub fn new(terms: Vec<Op<T>>) -> Result<Self, OpError> {
        let shape = terms.first().map_or(Shape { out: 0, inp: 0 }, |term| term.map().shape());
        let sum = Self { shape, terms };
        sum.parent().check_linear(&sum.terms)?;
        for (k, term) in sum.terms.iter().enumerate() {
            let Shape { out, inp } = term.map().shape();
            if term.map().shape() != shape {
                let found = format!("term {k} maps {inp} to {out} features");
                return Err(sum.parent().refuse(found));
            }
        }
        sum.spec().check_nesting(shape)?;
        Ok(sum)
    }

    /// The terms.
    #[must_use]
    pub fn terms(&self) -> &[Op<T>] {
        &self.terms
    }

    fn parent(&self) -> Parent {
        let kind = <Self as Structured<T>>::KIND;
        Parent { kind, shape: self.shape, child: "term" }
    }
}

impl<T: Scalar> Map<T> for Sum<T> {
    fn spec(&self) -> OpSpec {
        OpSpec::Sum(SumSpec { terms: self.terms.iter().map(|term| term.map().spec()).collect() })
    }

    fn shape(&self) -> Shape {
        self.shape
    }

    fn macs_per_row(&self) -> u64 {
        let additions = self.shape.out as u64 * (self.terms.len() as u64 - 1);
        self.terms.iter().map(|term| term.map().macs_per_row()).sum::<u64>() + additions
    }

    fn params(&self) -> Vec<Param<'_, T>> {
        self.parent().params(&self.terms)
    }

    fn params_mut(&mut self) -> Vec<ParamMut<'_, T>> {
        self.parent().params_mut(&mut self.terms)
    }

    fn buffers(&self) -> Vec<Buffer<'_>> {
        self.parent().buffers(&self.terms)
    }

    fn buffers_mut(&mut self) -> Vec<BufferMut<'_>> {
        self.parent().buffers_mut(&mut self.terms)
    }

    fn check(&self) -> Result<(), OpError> {
        self.parent().check(&self.terms)
    }

    fn forward(
        &self,
        x: MatRef<'_, T>,
        mut y: MatMut<'_, T>,
        mut tape: Option<&mut Tape<T>>,
        ws: &mut Workspace<T>,
    ) {
        let mut term_y = ws.take(x.rows(), self.shape.out);
        for (k, term) in self.terms.iter().enumerate() {
            let tape = tape.as_deref_mut().map(Tape::child);
            if k == 0 {
                term.map().forward(x, y.reborrow(), tape, ws);
            } else {
                term.map().forward(x, term_y.view_mut(), tape, ws);
                add_rows(y.reborrow(), term_y.view());
            }
        }
        ws.give(term_y);
    }

    fn backward(&self, args: Backward<'_, '_, T>, ws: &mut Workspace<T>) {
        let Backward { x, dy, tape, mut dx, mut grads } = args;
        let mut term_dx = ws.take(x.rows(), self.shape.inp);
        for (k, term) in self.terms.iter().enumerate() {
            let (map, tape) = (term.map(), tape.child_at(k));
            let mut of_term = grads.as_mut().map(|grads| grads.take(map.params().len()));
            let into = match (&mut dx, k) {
                (None, _) => None,
                (Some(dx), 0) => Some(dx.reborrow()),
                (Some(_), _) => Some(term_dx.view_mut()),
            };
            map.backward(Backward { x, dy, tape, dx: into, grads: of_term.as_mut() }, ws);
            if let (Some(dx), 1..) = (&mut dx, k) {
                add_rows(dx.reborrow(), term_dx.view());
            }
            // Gradients rotate: after all terms they are in their order again.
            grads.iter_mut().zip(of_term).for_each(|(grads, of_term)| grads.append(of_term));
        }
        ws.give(term_dx);
    }

    fn clone_op(&self) -> Op<T> {
        Op::Linear(Box::new(self.clone()))
    }
}

impl<T: Scalar> LinearOp<T> for Sum<T> {}

impl KindOptions for SumSpec {
    const EXPORTED: bool = true;
    const COUNTS_INDICES: bool = false;

    /// A rotor and low rank 16.
    fn standard() -> Self {
        let low_rank = OpSpec::LowRank(LowRankSpec { rank: 16 });
        Self { terms: vec![OpSpec::Rotor(RotorSpec::standard()), low_rank] }
    }

    fn sizes(&self, shape: Shape) -> Vec<Self> {
        let sizes = children::sizes(&self.terms, &vec![shape; self.terms.len()]);
        sizes.into_iter().map(|terms| Self { terms }).collect()
    }

    fn with_rank(&self, rank: usize) -> Option<Self> {
        children::with_rank(&self.terms, rank).map(|terms| Self { terms })
    }

    fn shrunk(&self, by: usize) -> Self {
        Self { terms: self.terms.iter().map(|term| term.shrunk(by)).collect() }
    }

    fn nested(&self) -> &[OpSpec] {
        &self.terms
    }
}

impl<T: Scalar> Structured<T> for Sum<T> {
    type Spec = SumSpec;
    const KIND: &'static str = "sum";
    const EQUATION: &'static str = "W = sum_k W_k";
    const PARAMETERS: &'static str = "those of the terms";
    const MACS: &'static str = "those of the terms + out (terms - 1)";

    fn numbers(spec: &SumSpec, shape: Shape) -> u64 {
        total(spec.children(shape), OpSpec::numbers)
    }

    /// Those of the terms.
    fn parts(spec: &SumSpec, shape: Shape) -> u64 {
        total(spec.children(shape), OpSpec::parts)
    }

    fn random(spec: &SumSpec, shape: Shape, key: RngKey) -> Result<Self, OpError> {
        let parent = Parent { kind: Self::KIND, shape, child: "term" };
        Ok(Self { shape, terms: parent.build(&spec.children(shape), key)? })
    }

    fn examples() -> Vec<(SumSpec, Shape)> {
        let low_rank = |rank| OpSpec::LowRank(super::LowRankSpec { rank });
        let rotor = OpSpec::Rotor(super::RotorSpec::default());
        let inner = SumSpec { terms: vec![low_rank(1), OpSpec::Dense(super::DenseSpec {})] };
        let case = |out, inp, terms| (SumSpec { terms }, Shape { out, inp });
        vec![
            case(16, 16, vec![rotor.clone(), low_rank(2)]),
            case(5, 12, vec![low_rank(3), rotor, low_rank(1)]),
            case(7, 3, vec![OpSpec::Sum(inner), low_rank(2)]),
            case(1, 6, vec![low_rank(1)]),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive;

    fn of(json: &str, shape: Shape) -> Result<Op<f64>, OpError> {
        serde_json::from_str::<OpSpec>(json).unwrap().random(shape, RngKey::new(0))
    }

    const SHAPE: Shape = Shape { out: 4, inp: 4 };

    #[test]
    fn impossible_terms_are_named() {
        for (terms, text) in [
            ("", "sum cannot map 4 to 4 features: it needs at least one term"),
            (r#"{"kind":"low_rank","rank":9}"#, "term 0: low_rank cannot map 4 to 4 features"),
            (
                r#"{"kind":"dense"},{"kind":"rotor_network"}"#,
                "term 1, rotor_network, is not linear",
            ),
        ] {
            let error = of(&format!(r#"{{"kind":"sum","terms":[{terms}]}}"#), SHAPE).unwrap_err();
            assert!(error.to_string().contains(text), "{error}");
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |depth: usize| {
            let (open, close) = (r#"{"kind":"sum","terms":["#.repeat(depth), "]}".repeat(depth));
            of(&format!(r#"{open}{{"kind":"dense"}}{close}"#), SHAPE)
        };
        assert!(nested(7).is_ok());
        let error = nested(8).unwrap_err().to_string();
        assert!(error.contains("nested 9 deep, at most 8 are possible"), "{error}");
        assert!(nested(40).is_err());
        let many = vec![r#"{"kind":"dense"}"#; 256].join(",");
        let error = of(&format!(r#"{{"kind":"sum","terms":[{many}]}}"#), SHAPE).unwrap_err();
        assert!(error.to_string().contains("made of 257 operators, at most 256"), "{error}");
        let deepest = Sum::new(vec![nested(7).unwrap()]).unwrap_err().to_string();
        assert!(deepest.contains("nested 9 deep"), "{deepest}");
    }

    #[test]
    fn operators_may_be_put_together_from_outside() {
        let part = |json, shape| of(json, shape).unwrap();
        let low_rank = r#"{"kind":"low_rank","rank":2}"#;
        let sum =
            Sum::new(vec![part(r#"{"kind":"rotor"}"#, SHAPE), part(low_rank, SHAPE)]).unwrap();
        let names: Vec<String> = sum.params().into_iter().map(|p| p.name).collect();
        let rotor = ["term0.bivectors_left", "term0.bivectors_right", "term0.alpha"];
        assert_eq!(names, [&rotor[..], &["term1.u", "term1.v"]].concat());
        let (header, tensors) = archive::save(&sum.clone_op()).unwrap();
        let back = archive::load::<f64>(&header, tensors).unwrap();
        assert_eq!(back.to_dense().unwrap(), sum.to_dense());

        let other = part(low_rank, Shape { out: 3, inp: 4 });
        let error = Sum::new(vec![part(low_rank, SHAPE), other]).unwrap_err().to_string();
        assert!(error.contains("term 1 maps 4 to 3 features"), "{error}");
        assert!(Sum::<f64>::new(Vec::new()).is_err());
    }
}
