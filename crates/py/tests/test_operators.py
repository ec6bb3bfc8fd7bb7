"""Operators on arrays: agreement with numpy, exact gradients, files, types."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linwright
from linwright import Operator

#: A case of every kind that needs options, and defaults of the others.
OPTIONS: dict[str, dict[str, Any]] = {
    "low_rank": {"rank": 3},
    "diagonal_low_rank": {"rank": 2},
    "submatrix": {"rows": [0, 3], "columns": [1, 2]},
    "sum": {"terms": [{"kind": "low_rank", "rank": 2}, {"kind": "dense"}]},
    "product": {"factors": [{"kind": "dense"}], "widths": []},
}


def every_kind(dtype: Any) -> list[Operator]:
    """An operator of each kind that has one at 8 x 8."""
    made = []
    for kind in linwright.operators():
        try:
            made.append(Operator(kind.kind, (8, 8), seed=3, dtype=dtype, **OPTIONS.get(kind.kind, {})))
        except linwright.UsageError:
            continue
    assert len(made) >= 9, [op.kind for op in made]
    return made


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_forward_is_the_dense_product(dtype: Any) -> None:
    x = np.random.default_rng(0).normal(size=(2, 5, 8)).astype(dtype)
    for op in every_kind(dtype):
        y = op(x)
        assert y.shape == (2, 5, 8) and y.dtype == dtype
        if op.is_linear:
            tolerance = 1e-4 if dtype == np.float32 else 1e-12
            np.testing.assert_allclose(y, x @ op.to_dense().T, rtol=tolerance, atol=tolerance)
        else:
            with pytest.raises(linwright.UsageError):
                op.to_dense()


def test_gradients_are_central_differences() -> None:
    rng = np.random.default_rng(1)
    x, dy = rng.normal(size=(3, 8)), rng.normal(size=(3, 8))
    step = 1e-6
    for op in every_kind(np.float64):
        dx, grads = op.backward(x, dy)
        direction = rng.normal(size=x.shape)
        found = ((op(x + step * direction) - op(x - step * direction)) * dy).sum() / (2 * step)
        assert found == pytest.approx((dx * direction).sum(), rel=1e-5, abs=1e-7), op
        for name, grad in grads.items():
            direction = rng.normal(size=grad.shape)
            ahead, behind = copy.copy(op), copy.copy(op)
            ahead[name] = op[name] + step * direction
            behind[name] = op[name] - step * direction
            found = ((ahead(x) - behind(x)) * dy).sum() / (2 * step)
            assert found == pytest.approx((grad * direction).sum(), rel=1e-4, abs=1e-6), (op, name)


def test_inverse_and_determinant_are_those_of_the_dense_weight() -> None:
    op = Operator("circulant_diagonal", (16, 16), seed=2, dtype=np.float64)
    x = np.random.default_rng(2).normal(size=(4, 16))
    np.testing.assert_allclose(op.inverse(op(x)), x, rtol=1e-9, atol=1e-9)
    sign, log_abs = np.linalg.slogdet(op.to_dense())
    assert op.log_abs_det() == (pytest.approx(log_abs), sign)
    assert op.is_invertible
    rank = Operator("low_rank", (16, 16), rank=2)
    assert not rank.is_invertible
    with pytest.raises(linwright.UsageError, match="low_rank of 16 -> 16 features has no inverse"):
        rank.inverse(np.zeros((1, 16), np.float32))


def test_a_planted_low_rank_weight_is_fitted() -> None:
    rng = np.random.default_rng(3)
    weight = rng.normal(size=(12, 4)) @ rng.normal(size=(4, 20))
    fit = Operator.fit("low_rank", weight=weight, rank=4)
    assert fit.procedure == "closed" and fit.relative_error < 1e-20
    np.testing.assert_allclose(fit.operator.to_dense(), weight, atol=1e-9)
    x = rng.normal(size=(60, 20))
    y = x @ weight.T
    for data in ({"samples": (x, y)}, {"moments": (x.T @ x, y.T @ x, (y * y).sum())}):
        found = Operator.fit("low_rank", rank=4, **data)  # type: ignore[arg-type]
        np.testing.assert_allclose(found.operator.to_dense(), weight, atol=1e-7)
    with pytest.raises(TypeError, match="a fit needs one of"):
        Operator.fit("low_rank", rank=4)
    with pytest.raises(linwright.UsageError):
        Operator.fit("low_rank", rank=4, weight=np.full((3, 3), np.nan))


def test_files_and_pickles_keep_the_bits(tmp_path: Path) -> None:
    for dtype in (np.float32, np.float64):
        for op in every_kind(dtype):
            path = tmp_path / f"{op.kind}_{op.dtype}.safetensors"
            op.save(path)
            for again in (Operator.load(path), pickle.loads(pickle.dumps(op)), copy.deepcopy(op)):
                assert again.spec == op.spec and again.dtype == op.dtype
                for name, values in op.parameters().items():
                    np.testing.assert_array_equal(again[name], values)
            with pytest.raises(linwright.UsageError, match="exists"):
                op.save(path)
            op.save(path, force=True)
    notes = tmp_path / "notes.txt"
    notes.write_text("mine")
    with pytest.raises(linwright.UsageError):
        op.save(notes, force=True)
    with pytest.raises(linwright.LinwrightError, match="notes.txt"):
        Operator.load(notes)
    assert notes.read_text() == "mine"


def test_contiguous_arrays_are_read_in_place_and_strided_ones_work() -> None:
    op = Operator.from_dense(np.eye(4, dtype=np.float32) * 2)
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    strided = x.T[:, :]
    np.testing.assert_array_equal(op(strided[:, :4]), 2 * strided[:, :4])
    x.setflags(write=False)
    np.testing.assert_array_equal(op(x[:, :4].copy()), 2 * x[:, :4])
    rows, _ = op._rows(np.ones((3, 4), np.float32), "x", 4)
    base = np.ones((2, 3, 4), np.float32)
    rows, lead = op._rows(base, "x", 4)
    assert np.shares_memory(rows, base) and lead == (2, 3)
    assert op(np.zeros((0, 4), np.float32)).shape == (0, 4)
    assert op(np.ones(4, np.float32)).shape == (4,)


def test_wrong_shapes_and_types_are_errors() -> None:
    op = Operator("dense", (3, 4))
    with pytest.raises(TypeError, match="x is float64, the operator is float32"):
        op(np.zeros((2, 4)))
    with pytest.raises(TypeError, match="x is int64, expected float32 or float64"):
        op(np.zeros((2, 4), np.int64))
    with pytest.raises(TypeError, match="x is a str"):
        op("rows")
    with pytest.raises(ValueError, match=r"x has shape \(2, 5\), expected \(\.\.\., 4\)"):
        op(np.zeros((2, 5), np.float32))
    with pytest.raises(ValueError, match="dy has 3 rows, x has 2"):
        op.backward(np.zeros((2, 4), np.float32), np.zeros((3, 3), np.float32))
    with pytest.raises(ValueError, match=r"parameter weight has shape \(3, 4\), got \(4, 3\)"):
        op["weight"] = np.zeros((4, 3), np.float32)
    with pytest.raises(ValueError, match="not finite"):
        op["weight"] = np.full((3, 4), np.inf, np.float32)
    with pytest.raises(KeyError):
        op["bias"]
    with pytest.raises(linwright.UsageError, match="kinds are: dense, low_rank"):
        Operator("wavelet", (3, 4))
    with pytest.raises(linwright.UsageError, match="rank"):
        Operator("low_rank", (3, 4), rank=9)
    with pytest.raises(TypeError, match="float32 or float64, not int8"):
        Operator("dense", (3, 4), dtype=np.int8)
    op["weight"] = np.ones((3, 4), np.float32)
    assert op["weight"].sum() == 12


def test_the_same_seed_gives_the_same_bits() -> None:
    first, second, other = (Operator("monarch", (16, 16), seed=seed) for seed in (5, 5, 6))
    for name, values in first.parameters().items():
        np.testing.assert_array_equal(values, second[name])
    assert any((values != other[name]).any() for name, values in first.parameters().items())
    assert first.size == sum(values.size for values in first.parameters().values())
    assert 0 < first.macs_per_row < 256


def test_tensors_of_torch_are_read_without_a_copy() -> None:
    torch = pytest.importorskip("torch")
    op = Operator("low_rank", (6, 4), rank=2, dtype=np.float64)
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    rows, _ = op._rows(x, "x", 4)
    assert rows.__array_interface__["data"][0] == x.data_ptr()
    np.testing.assert_allclose(op(x), x.detach().numpy() @ op.to_dense().T)
    y = torch.from_dlpack(op(x))
    assert y.shape == (3, 6)
