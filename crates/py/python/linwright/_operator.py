"""Structured linear operators on arrays."""

from __future__ import annotations

import json
import os
from typing import Any, Union

import numpy as np
from numpy.typing import NDArray

from . import _linwright
from ._records import Record

#: What a specification may be: a kind, or kind and options.
Spec = Union[str, dict[str, Any]]
_TYPES = {np.dtype(np.float32): False, np.dtype(np.float64): True}


class Operator:
    """A linear map y = x Wᵀ with structure, or a small network: cheap, with named parameters and exact gradients.

        op = linwright.Operator("low_rank", (64, 96), rank=8)
        y = op(x)                                  # x (..., 96) -> y (..., 64)
        dx, gradients = op.backward(x, dy)
        best = linwright.Operator.fit("monarch", weight=W)

    Arrays are of numpy, or any with DLPack such as CPU tensors of torch. Contiguous ones of the operator's precision
    are read without a copy; strided ones are copied, ones of another type refused.

    Args:
        kind: A kind of `linwright.operators()`, or a dictionary with `kind` and options.
        shape: Features out and in.
        seed: Key of the random parameters, whose distribution is that of the kind's source.
        dtype: float32 or float64.
        options: Options of the kind, such as rank=8.

    Raises:
        UsageError: if the kind does not have these options or this shape.
    """

    def __init__(
        self,
        kind: Spec,
        shape: tuple[int, int],
        *,
        seed: int = 0,
        dtype: Any = np.float32,
        **options: Any,
    ) -> None:
        self._hold(_linwright.RawOperator.random(_spec(kind, options), shape, seed, _is_double(dtype)))

    def _hold(self, raw: _linwright.RawOperator) -> None:
        self._raw = raw
        # Asked at every call, and never changed.
        self._shape = raw.shape()
        self._dtype: np.dtype[Any] = np.dtype(np.float64 if raw.is_double() else np.float32)

    @classmethod
    def _of(cls, raw: _linwright.RawOperator) -> Operator:
        op = cls.__new__(cls)
        op._hold(raw)
        return op

    @classmethod
    def from_dense(cls, weight: Any) -> Operator:
        """A whole weight (out, in) as an operator, in its precision."""
        weight = _array(weight, "weight")
        if weight.ndim != 2:
            raise ValueError(f"weight has shape {weight.shape}, expected (out, in)")
        out, inp = weight.shape
        op = cls("dense", (out, inp), dtype=weight.dtype)
        op["weight"] = weight
        return op

    @classmethod
    def load(cls, path: Union[str, os.PathLike[str]]) -> Operator:
        """Reads a file of `save`."""
        return cls._of(_linwright.RawOperator.load(os.fspath(path)))

    @classmethod
    def fit(
        cls,
        kind: Spec,
        *,
        weight: Any = None,
        samples: tuple[Any, Any] | None = None,
        moments: tuple[Any, Any, float] | None = None,
        starts: int = 4,
        iterations: int = 400,
        tolerance: float = 1e-6,
        seed: int = 0,
        **options: Any,
    ) -> Fit:
        """Fits an operator by least squares, in f64.

        Args:
            kind: The kind, as for `Operator`.
            weight: A dense weight (out, in): the nearest operator in the Frobenius norm.
            samples: Inputs (rows, in) and targets (rows, out): least mean |y - op(x)|².
            moments: Second moments E[x xᵀ] (in, in), cross moments E[y xᵀ] (out, in), and the power E|y|²: the same
                from sums.
            starts: Starts of a fit that is not closed; the best is kept.
            iterations: Largest number of iterations of a start.
            tolerance: A start ends where the error falls by less than this share.
            seed: Key of random starts.
            options: Options of the kind.
        """
        data: dict[str, Any] = {"weight": None, "samples": None, "moments": None}
        if weight is not None:
            data["weight"] = _double(weight, "weight")
        if samples is not None:
            data["samples"] = (_double(samples[0], "samples[0]"), _double(samples[1], "samples[1]"))
        if moments is not None:
            second, cross = _double(moments[0], "moments[0]"), _double(moments[1], "moments[1]")
            data["moments"] = (second, cross, float(moments[2]))
        settings = {"starts": starts, "iterations": iterations, "tolerance": tolerance, "seed": seed}
        raw, report = _linwright.fit(_spec(kind, options), data, settings)
        return Fit(cls._of(raw), *report)

    def save(self, path: Union[str, os.PathLike[str]], *, force: bool = False) -> None:
        """Writes a safetensors file with kind and options in its metadata.

        Raises:
            UsageError: if the file exists and `force` is false, or it is no operator's.
        """
        self._raw.save(os.fspath(path), force)

    def astype(self, dtype: Any) -> Operator:
        """A copy in another precision."""
        return self._of(self._raw.converted(_is_double(dtype)))

    def __call__(self, x: Any) -> NDArray[Any]:
        return self.forward(x)

    def forward(self, x: Any) -> NDArray[Any]:
        """Maps x (..., in) to y (..., out)."""
        rows, lead = self._rows(x, "x", self.shape[1])
        y, _ = self._raw.forward(rows, False)
        return y.reshape(*lead, self.shape[0])

    def backward(self, x: Any, dy: Any) -> tuple[NDArray[Any], dict[str, NDArray[Any]]]:
        """From dy, the gradient of a loss with respect to `forward(x)`, those of x and of each parameter."""
        (rows, lead), (dys, _) = self._rows(x, "x", self.shape[1]), self._rows(dy, "dy", self.shape[0])
        dx, grads = self._raw.backward(rows, dys, None, [True, True])
        assert dx is not None and grads is not None
        return dx.reshape(*lead, self.shape[1]), dict(zip(self.parameters(), grads))

    def inverse(self, y: Any) -> NDArray[Any]:
        """The x with `forward(x) = y`.

        Raises:
            UsageError: if the kind has no inverse.
            LinwrightError: if the operator is singular.
        """
        rows, lead = self._rows(y, "y", self.shape[0])
        return self._raw.inverse(rows).reshape(*lead, self.shape[1])

    def log_abs_det(self) -> tuple[float, float]:
        """log|det W| and the sign of the determinant; errors as for `inverse`."""
        return self._raw.log_abs_det()

    def to_dense(self) -> NDArray[Any]:
        """The equivalent weight (out, in)."""
        return self._raw.to_dense()

    def parameters(self) -> dict[str, NDArray[Any]]:
        """Copies of the parameters by name; `op[name] = values` writes one."""
        return dict(self._raw.parameters())

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.parameters()[name]

    def __setitem__(self, name: str, values: Any) -> None:
        values = _array(values, name)
        if values.dtype != self.dtype:
            raise TypeError(f"parameter {name} is {self.dtype}, got {values.dtype}")
        expected = self[name].shape
        if values.shape != expected:
            raise ValueError(f"parameter {name} has shape {expected}, got {values.shape}")
        self._raw.set_parameter(name, np.ascontiguousarray(values).reshape(-1))

    @property
    def spec(self) -> dict[str, Any]:
        """Kind and options."""
        spec: dict[str, Any] = json.loads(self._raw.spec())
        return spec

    @property
    def kind(self) -> str:
        """The kind."""
        return str(self.spec["kind"])

    @property
    def shape(self) -> tuple[int, int]:
        """Features out and in, as of a weight."""
        return self._shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64."""
        return self._dtype

    @property
    def size(self) -> int:
        """Number of parameters."""
        return self._raw.cost()[0]

    @property
    def macs_per_row(self) -> int:
        """Steps of arithmetic for one row: multiply-adds, single additions, single multiplications."""
        return self._raw.cost()[1]

    @property
    def is_linear(self) -> bool:
        """Whether there is no nonlinearity inside."""
        return self._raw.is_linear()

    @property
    def is_invertible(self) -> bool:
        """Whether it has `inverse` and `log_abs_det`."""
        return self._raw.is_invertible()

    def __repr__(self) -> str:
        return f"<Operator {json.dumps(self.spec)} {self.shape} {self.dtype}, {self.size} parameters>"

    def __copy__(self) -> Operator:
        return self.astype(self.dtype)

    def __deepcopy__(self, memo: object) -> Operator:
        return self.astype(self.dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self._raw.to_bytes(),)

    def _rows(self, x: Any, what: str, features: int) -> tuple[NDArray[Any], tuple[int, ...]]:
        """An array as contiguous rows, and its leading axes."""
        x = _array(x, what)
        if x.dtype != self.dtype:
            raise TypeError(f"{what} is {x.dtype}, the operator is {self.dtype}: convert one of them with astype")
        if x.ndim == 0 or x.shape[-1] != features:
            raise ValueError(f"{what} has shape {x.shape}, expected (..., {features})")
        lead = x.shape[:-1]
        return np.ascontiguousarray(x.reshape(-1, features)), lead


class Fit(Record):
    """A fitted operator.

    Attributes:
        operator: The operator, in f64.
        relative_error: E|y - op(x)|² over E|y|², or the error itself where the target is zero.
        procedure: closed, alternating or trained.
        iterations: Iterations of the best start.
        dropped_directions: Directions of the inputs without data, which are ignored.
        bias: The bias (out) that was fitted with it, or None.
    """

    def __init__(
        self, operator: Operator, relative_error: float, procedure: str, iterations: int, dropped: int
    ) -> None:
        super().__init__(
            {
                "relative_error": relative_error,
                "procedure": procedure,
                "iterations": iterations,
                "dropped_directions": dropped,
            }
        )
        self.operator = operator
        self.bias: NDArray[Any] | None = None


def operators() -> list[Record]:
    """All kinds of operators: kind, equation, and formulas of parameters and of arithmetic."""
    names = ("kind", "equation", "parameters", "macs")
    return [Record(dict(zip(names, kind))) for kind in _linwright.kinds()]


def _restored(data: bytes) -> Operator:
    return Operator._of(_linwright.RawOperator.from_bytes(data))


def _spec(kind: Spec, options: dict[str, Any]) -> str:
    spec = {"kind": kind} if isinstance(kind, str) else dict(kind)
    return json.dumps({**spec, **options})


def _is_double(dtype: Any) -> bool:
    found = np.dtype(dtype)
    if found not in _TYPES:
        raise TypeError(f"operators are float32 or float64, not {found}")
    return _TYPES[found]


def _array(value: Any, what: str) -> NDArray[Any]:
    """An array of numpy without a copy: one, a list, or an object with DLPack."""
    if isinstance(value, np.ndarray):
        array = value
    elif hasattr(value, "__dlpack__"):
        # Tensors of torch refuse while gradients are tracked.
        array = np.from_dlpack(value.detach() if hasattr(value, "detach") else value)
    elif isinstance(value, (list, tuple)):
        array = np.asarray(value, dtype=np.float64)
    else:
        raise TypeError(f"{what} is a {type(value).__name__}, expected an array of numpy or one with DLPack")
    if array.dtype.kind != "f":
        raise TypeError(f"{what} is {array.dtype}, expected float32 or float64")
    return array


def _double(value: Any, what: str) -> NDArray[Any]:
    array = _array(value, what)
    if array.ndim != 2:
        raise ValueError(f"{what} has shape {array.shape}, expected two axes")
    return np.ascontiguousarray(array, dtype=np.float64)
