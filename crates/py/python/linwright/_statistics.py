"""Sums over inputs and outputs of a linear layer, from which operators are fitted."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _linwright
from ._operator import Fit, Operator, Spec, _array


class Statistics:
    """Second moments of inputs x (in) and outputs y (out) of a layer, over samples.

    Batches are added exactly, so that their order, and their division over shards, has no effect; products within a
    batch are in f32. The memory is that of the moments, whatever the number of samples.

    Args:
        shape: Features out and in.
    """

    def __init__(self, shape: tuple[int, int]) -> None:
        self._raw = _linwright.RawSums(shape)

    def add(self, x: Any, y: Any) -> None:
        """Adds samples: x (..., in) and y (..., out), read as float32.

        Raises:
            ValueError: if shapes do not match, or a number is not finite; nothing is added then.
        """
        out, inp = self.shape
        self._raw.add(_rows(x, "x", inp), _rows(y, "y", out))
        self.__dict__.pop("_sums", None)

    def merge(self, other: Statistics) -> None:
        """Adds the samples of another one, as of a shard."""
        self._raw.merge(other._raw)
        self.__dict__.pop("_sums", None)

    @property
    def shape(self) -> tuple[int, int]:
        """Features out and in."""
        return self._raw.shape()

    @cached_property
    def _sums(self) -> tuple[NDArray[Any], NDArray[Any], list[NDArray[Any]], float, int]:
        return self._raw.sums()

    @property
    def count(self) -> int:
        """Number of samples."""
        return self._sums[4]

    @property
    def second(self) -> NDArray[Any]:
        """E[x xᵀ], (in, in), not centred."""
        return self._sums[0] / max(self.count, 1)

    @property
    def cross(self) -> NDArray[Any]:
        """E[y xᵀ], (out, in)."""
        return self._sums[1] / max(self.count, 1)

    @property
    def power(self) -> float:
        """E|y|²."""
        return self._sums[3] / max(self.count, 1)

    @property
    def mean_x(self) -> NDArray[Any]:
        """E[x], (in)."""
        return self._sums[2][0] / max(self.count, 1)

    @property
    def mean_y(self) -> NDArray[Any]:
        """E[y], (out)."""
        return self._sums[2][1] / max(self.count, 1)

    @property
    def mean_absolute_x(self) -> NDArray[Any]:
        """E|x|, (in), by which some methods scale features."""
        return self._sums[2][2] / max(self.count, 1)

    def fit(self, kind: Spec, *, bias: bool = True, **options: Any) -> Fit:
        """The operator with the least E|y - op(x) - b|².

        Args:
            kind: The kind, as for `Operator`.
            bias: Whether b is fitted as well, as `bias` of the result; otherwise it is zero.
            options: Options of the kind, and those of `Operator.fit`.
        """
        if self.count == 0:
            raise ValueError("there are no samples: add some first")
        second, cross, power = self.second, self.cross, self.power
        if bias:
            second = second - np.outer(self.mean_x, self.mean_x)
            cross = cross - np.outer(self.mean_y, self.mean_x)
            power = max(power - float(self.mean_y @ self.mean_y), 0.0)
        fit = Operator.fit(kind, moments=(second, cross, power), **options)
        if bias:
            fit.bias = self.mean_y - fit.operator(self.mean_x)
        return fit

    def __repr__(self) -> str:
        return f"<Statistics {self.shape}, {self.count} samples>"


def _rows(value: Any, what: str, features: int) -> NDArray[Any]:
    array = _array(value, what)
    if array.ndim == 0 or array.shape[-1] != features:
        raise ValueError(f"{what} has shape {array.shape}, expected (..., {features})")
    return np.ascontiguousarray(array.reshape(-1, features), dtype=np.float32)
