//! Products of linear operators.
//!
//! `W = W_0 W_1 ⋯ W_{k-1}`: the last factor is applied first. W_0: (out, n_0), W_1: (n_0, n_1), and
//! so on to (n_{k-2}, inp), with the inner widths n. For instance a Monarch map times a diagonal.
//!
//! | parameters | MACs per row |
//! | --- | --- |
//! | those of the factors | those of the factors |
//!
//! Source: the product of operators in every library of linear operators. Parameters are those of
//! the factors, named `factor0.u` and so on. Inner widths default to min(out, inp). A product has
//! an inverse and a determinant if all factors have.
//!
//! ```
//! use linwright_ops::{OpSpec, Shape, parameter_count};
//! use linwright_tensor::RngKey;
//!
//! let diagonal = r#"{"kind":"diagonal_low_rank","rank":0}"#;
//! let json = format!(r#"{{"kind":"product","factors":[{{"kind":"monarch"}},{diagonal}]}}"#);
//! let spec: OpSpec = serde_json::from_str(&json)?;
//! let op = spec.random::<f32>(Shape { out: 256, inp: 256 }, RngKey::new(0))?;
//! assert_eq!(parameter_count(&op.map().params()), 2 * 256 * 16 + 256);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use super::children::{self, Parent, total};
use super::{BlockHadamardSpec, OpSpec, RotorSpec};
use crate::{
    Backward, Buffer, BufferMut, Invertible, KindOptions, LinearOp, LogDet, Map, Op, OpError,
    Param, ParamMut, Shape, Structured, Tape, Workspace,
};
use linwright_tensor::{Mat, MatMut, MatRef, RngKey, Scalar};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Options of [`Product`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProductSpec {
    /// The factors, at least one, all linear; the last is applied first.
    pub factors: Vec<OpSpec>,
    /// Inner widths, one fewer than there are factors; min(out, inp) each if absent.
    #[serde(default)]
    pub widths: Option<Vec<usize>>,
}

impl ProductSpec {
    /// Factors and their shapes; none if the number of widths is wrong.
    #[must_use]
    pub fn children(&self, shape: Shape) -> Option<Vec<(&OpSpec, Shape)>> {
        let inner = self.factors.len().saturating_sub(1);
        let least = shape.out.min(shape.inp);
        let widths = self.widths.clone().unwrap_or_else(|| vec![least; inner]);
        if widths.len() != inner {
            return None;
        }
        let ends = [&[shape.out], &widths[..], &[shape.inp]].concat();
        let shapes = ends.windows(2).map(|pair| Shape { out: pair[0], inp: pair[1] });
        Some(self.factors.iter().zip(shapes).collect())
    }
}

/// `W = W_0 ⋯ W_{k-1}`.
#[derive(Clone, Debug)]
pub struct Product<T: Scalar> {
    shape: Shape,
    factors: Vec<Op<T>>,
}

impl<T: Scalar> Product<T> {
    /// Builds from factors, the last of which is applied first.
    ///
    /// # Errors
    /// [`OpError::Unsupported`] if there are no factors, one is not linear, the features of
    /// neighbours differ, or the nesting is too deep for an archive.
    pub fn new(factors: Vec<Op<T>>) -> Result<Self, OpError> {
        let side = |op: Option<&Op<T>>| op.map_or(Shape { out: 0, inp: 0 }, |op| op.map().shape());
        let shape = Shape { out: side(factors.first()).out, inp: side(factors.last()).inp };
        let product = Self { shape, factors };
        product.parent().check_linear(&product.factors)?;
        for (k, pair) in product.factors.windows(2).enumerate() {
            let (to, from) = (pair[0].map().shape().inp, pair[1].map().shape().out);
            if to != from {
                let next = k + 1;
                let reason = format!("factor {next} gives {from} features, factor {k} takes {to}");
                return Err(product.parent().refuse(reason));
            }
        }
        product.spec().check_nesting(shape)?;
        Ok(product)
    }

    /// The factors, the last of which is applied first.
    #[must_use]
    pub fn factors(&self) -> &[Op<T>] {
        &self.factors
    }

    fn parent(&self) -> Parent {
        let kind = <Self as Structured<T>>::KIND;
        Parent { kind, shape: self.shape, child: "factor" }
    }

    /// Width between factors `k` and `k + 1`.
    fn width(&self, k: usize) -> usize {
        self.factors[k].map().shape().inp
    }
}

impl<T: Scalar> Map<T> for Product<T> {
    fn spec(&self) -> OpSpec {
        let factors = self.factors.iter().map(|factor| factor.map().spec()).collect();
        let widths = Some((0..self.factors.len() - 1).map(|k| self.width(k)).collect());
        OpSpec::Product(ProductSpec { factors, widths })
    }

    fn shape(&self) -> Shape {
        self.shape
    }

    fn macs_per_row(&self) -> u64 {
        self.factors.iter().map(|factor| factor.map().macs_per_row()).sum()
    }

    fn params(&self) -> Vec<Param<'_, T>> {
        self.parent().params(&self.factors)
    }

    fn params_mut(&mut self) -> Vec<ParamMut<'_, T>> {
        self.parent().params_mut(&mut self.factors)
    }

    fn buffers(&self) -> Vec<Buffer<'_>> {
        self.parent().buffers(&self.factors)
    }

    fn buffers_mut(&mut self) -> Vec<BufferMut<'_>> {
        self.parent().buffers_mut(&mut self.factors)
    }

    fn check(&self) -> Result<(), OpError> {
        self.parent().check(&self.factors)
    }

    /// Saves the inputs of all factors except the first to be applied, in the order of application,
    /// which is also the order of their tapes.
    fn forward(
        &self,
        x: MatRef<'_, T>,
        mut y: MatMut<'_, T>,
        mut tape: Option<&mut Tape<T>>,
        ws: &mut Workspace<T>,
    ) {
        let mut here: Option<Mat<T>> = None;
        for (k, factor) in self.factors.iter().enumerate().rev() {
            let input = here.as_ref().map_or(x, Mat::view);
            let inner = tape.as_deref_mut().map(Tape::child);
            let mut next = None;
            if k == 0 {
                factor.map().forward(input, y.reborrow(), inner, ws);
            } else {
                let next = next.insert(ws.take(x.rows(), self.width(k - 1)));
                factor.map().forward(input, next.view_mut(), inner, ws);
            }
            if let Some(mut used) = std::mem::replace(&mut here, next) {
                // The saved matrix is swapped with memory of the tape.
                if let Some(tape) = tape.as_deref_mut() {
                    std::mem::swap(tape.save(used.rows(), used.cols()), &mut used);
                }
                ws.give(used);
            }
        }
    }

    fn backward(&self, args: Backward<'_, '_, T>, ws: &mut Workspace<T>) {
        let Backward { x, dy, tape, mut dx, mut grads } = args;
        let last = self.factors.len() - 1;
        let mut here: Option<Mat<T>> = None;
        for (k, factor) in self.factors.iter().enumerate() {
            let map = factor.map();
            let mut of_factor = grads.as_mut().map(|grads| grads.take(map.params().len()));
            let dy = here.as_ref().map_or(dy, Mat::view);
            let tape_of = tape.child_at(last - k);
            let mut next = None;
            let (x, dx) = if k == last {
                (x, dx.take())
            } else {
                let next = next.insert(ws.take(x.rows(), self.width(k)));
                (tape.saved(last - 1 - k).view(), Some(next.view_mut()))
            };
            map.backward(Backward { x, dy, tape: tape_of, dx, grads: of_factor.as_mut() }, ws);
            if let Some(used) = std::mem::replace(&mut here, next) {
                ws.give(used);
            }
            // Gradients rotate: after all factors they are in their order again.
            grads.iter_mut().zip(of_factor).for_each(|(grads, of_factor)| grads.append(of_factor));
        }
    }

    fn clone_op(&self) -> Op<T> {
        Op::Linear(Box::new(self.clone()))
    }

    fn invertible(&self) -> Option<&dyn Invertible<T>> {
        self.factors.iter().all(|factor| factor.map().invertible().is_some()).then_some(self)
    }
}

impl<T: Scalar> LinearOp<T> for Product<T> {}

impl<T: Scalar> Product<T> {
    /// Factors with an inverse: all of them, if `invertible` returned this product.
    fn inverses(&self) -> impl Iterator<Item = (usize, &dyn Invertible<T>)> {
        let factors = self.factors.iter().enumerate();
        factors.filter_map(|(k, factor)| Some((k, factor.map().invertible()?)))
    }

    /// Error of factor `k`, with its parts named as parts of the product.
    fn error_of(&self, k: usize, error: OpError) -> OpError {
        if let OpError::Singular { part, index, value, .. } = error {
            let Parent { kind, child, .. } = self.parent();
            OpError::Singular { kind, part: format!("{child}{k}.{part}"), index, value }
        } else {
            error
        }
    }
}

impl<T: Scalar> Invertible<T> for Product<T> {
    fn inverse(
        &self,
        y: MatRef<'_, T>,
        mut x: MatMut<'_, T>,
        ws: &mut Workspace<T>,
    ) -> Result<(), OpError> {
        let last = self.factors.len() - 1;
        let mut here: Option<Mat<T>> = None;
        for (k, factor) in self.inverses() {
            let input = here.as_ref().map_or(y, Mat::view);
            let mut next = None;
            let into = if k == last {
                x.reborrow()
            } else {
                next.insert(ws.take(y.rows(), self.width(k))).view_mut()
            };
            factor.inverse(input, into, ws).map_err(|error| self.error_of(k, error))?;
            if let Some(used) = std::mem::replace(&mut here, next) {
                ws.give(used);
            }
        }
        Ok(())
    }

    fn log_abs_det(&self) -> Result<LogDet, OpError> {
        let one = LogDet { log_abs: 0.0, sign: 1.0 };
        self.inverses().try_fold(one, |all, (k, factor)| {
            let found = factor.log_abs_det().map_err(|error| self.error_of(k, error))?;
            Ok(LogDet { log_abs: all.log_abs + found.log_abs, sign: all.sign * found.sign })
        })
    }
}

impl KindOptions for ProductSpec {
    const EXPORTED: bool = true;
    const COUNTS_INDICES: bool = false;

    /// A rotor after BH1.
    fn standard() -> Self {
        let blocks = OpSpec::BlockHadamard(BlockHadamardSpec::default());
        Self { factors: vec![OpSpec::Rotor(RotorSpec::standard()), blocks], widths: None }
    }

    fn sizes(&self, shape: Shape) -> Vec<Self> {
        let shapes = self.children(shape).unwrap_or_default();
        let shapes: Vec<Shape> = shapes.into_iter().map(|(_, shape)| shape).collect();
        let sizes = children::sizes(&self.factors, &shapes);
        sizes.into_iter().map(|factors| Self { factors, widths: self.widths.clone() }).collect()
    }

    fn with_rank(&self, rank: usize) -> Option<Self> {
        let factors = children::with_rank(&self.factors, rank)?;
        Some(Self { factors, widths: self.widths.clone() })
    }

    fn shrunk(&self, by: usize) -> Self {
        let narrower = |widths: &Vec<usize>| widths.iter().map(|w| (w / by).max(1)).collect();
        Self {
            factors: self.factors.iter().map(|factor| factor.shrunk(by)).collect(),
            widths: self.widths.as_ref().map(narrower),
        }
    }

    fn nested(&self) -> &[OpSpec] {
        &self.factors
    }
}

impl<T: Scalar> Structured<T> for Product<T> {
    type Spec = ProductSpec;
    const KIND: &'static str = "product";
    const EQUATION: &'static str = "W = W_0 W_1 .. W_(k-1)";
    const PARAMETERS: &'static str = "those of the factors";
    const MACS: &'static str = "those of the factors";

    fn numbers(spec: &ProductSpec, shape: Shape) -> u64 {
        total(spec.children(shape).unwrap_or_default(), OpSpec::numbers)
    }

    /// Those of the factors.
    fn parts(spec: &ProductSpec, shape: Shape) -> u64 {
        total(spec.children(shape).unwrap_or_default(), OpSpec::parts)
    }

    fn random(spec: &ProductSpec, shape: Shape, key: RngKey) -> Result<Self, OpError> {
        let parent = Parent { kind: Self::KIND, shape, child: "factor" };
        let Some(children) = spec.children(shape) else {
            let (factors, inner) = (spec.factors.len(), spec.factors.len().saturating_sub(1));
            let found = spec.widths.as_ref().map_or(0, Vec::len);
            return Err(parent
                .refuse(format!("{factors} factors have {inner} inner widths, found {found}")));
        };
        Ok(Self { shape, factors: parent.build(&children, key)? })
    }

    fn examples() -> Vec<(ProductSpec, Shape)> {
        let diagonal = || OpSpec::DiagonalLowRank(super::DiagonalLowRankSpec { rank: 0 });
        let low_rank = |rank| OpSpec::LowRank(super::LowRankSpec { rank });
        let near_diagonal = OpSpec::DiagonalLowRank(super::DiagonalLowRankSpec { rank: 2 });
        let butterfly =
            |orthogonal| OpSpec::Butterfly(super::ButterflySpec { orthogonal, factors: Some(2) });
        let monarch = OpSpec::Monarch(super::MonarchSpec::default());
        let inner = ProductSpec { factors: vec![diagonal(), low_rank(2)], widths: None };
        let case =
            |out, inp, factors, widths| (ProductSpec { factors, widths }, Shape { out, inp });
        vec![
            case(9, 9, vec![monarch, diagonal()], None),
            case(5, 12, vec![low_rank(3), diagonal(), low_rank(2)], Some(vec![7, 4])),
            case(7, 3, vec![OpSpec::Product(inner), low_rank(1)], Some(vec![5])),
            case(1, 6, vec![low_rank(1)], None),
            case(8, 8, vec![butterfly(false), near_diagonal, butterfly(true)], None),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(json: &str, (out, inp): (usize, usize)) -> Result<Op<f64>, OpError> {
        serde_json::from_str::<OpSpec>(json).unwrap().random(Shape { out, inp }, RngKey::new(0))
    }

    #[test]
    fn impossible_factors_are_named() {
        let dense = r#"{"kind":"dense"}"#;
        for (options, text) in [
            (r#""factors":[]"#.to_owned(), "it needs at least one factor"),
            (r#""factors":[],"widths":[3]"#.to_owned(), "0 factors have 0 inner widths, found 1"),
            (
                format!(r#""factors":[{dense},{dense}],"widths":[]"#),
                "2 factors have 1 inner widths",
            ),
            (
                format!(r#""factors":[{dense},{{"kind":"butterfly"}}],"widths":[6]"#),
                "factor 1: butterfly cannot map 4 to 6 features",
            ),
            (
                format!(r#""factors":[{{"kind":"rotor_network"}},{dense}]"#),
                "factor 0, rotor_network, is not linear",
            ),
            (
                format!(r#""factors":[{dense},{dense}],"widths":[18446744073709551615]"#),
                "it would hold 18446744073709551615 numbers",
            ),
        ] {
            let error = of(&format!(r#"{{"kind":"product",{options}}}"#), (4, 4)).unwrap_err();
            assert!(error.to_string().contains(text), "{error}");
        }
    }

    #[test]
    fn it_has_an_inverse_if_all_factors_have() {
        let diagonal = r#"{"kind":"diagonal_low_rank","rank":0}"#;
        let build = |other: &str| {
            of(&format!(r#"{{"kind":"product","factors":[{other},{diagonal}]}}"#), (4, 4)).unwrap()
        };
        assert!(build(r#"{"kind":"monarch"}"#).map().invertible().is_none());
        let mut op = build(r#"{"kind":"butterfly"}"#);
        op.map_mut().params_mut()[1].values[2] = 0.0;
        let inverse = op.map().invertible().unwrap();
        let (y, mut x) = (Mat::zeros(1, 4), Mat::zeros(1, 4));
        let inverted = inverse.inverse(y.view(), x.view_mut(), &mut Workspace::default());
        for error in [inverted.unwrap_err(), inverse.log_abs_det().unwrap_err()] {
            assert!(error.to_string().contains("factor1.d[2] is 0"), "{error}");
        }
    }

    #[test]
    fn it_is_the_product_in_the_order_of_writing() {
        let low_rank = r#"{"kind":"low_rank","rank":2}"#;
        let (a, b) = (of(low_rank, (3, 5)).unwrap(), of(low_rank, (5, 4)).unwrap());
        let (wide, deep) = (a.to_dense().unwrap(), b.to_dense().unwrap());
        let product = Product::new(vec![a.clone(), b.clone()]).unwrap();
        for (k, found) in product.to_dense().data().iter().enumerate() {
            let expected: f64 = (0..5).map(|m| wide.at(k / 4, m) * deep.at(m, k % 4)).sum();
            assert!((found - expected).abs() < 1e-14);
        }
        let error = Product::new(vec![b, a]).unwrap_err().to_string();
        assert!(error.contains("factor 1 gives 3 features, factor 0 takes 4"), "{error}");
        assert!(Product::<f64>::new(Vec::new()).is_err());
    }
}
