"""Uses that mypy checks: what the stubs promise. It is not run."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import linwright


def jobs() -> None:
    model: linwright.Model = linwright.load(Path("pocket"), progress=True)
    result: linwright.Result = model.compress(method="svd", keep=0.8, output=Path("smaller"), progress=print)
    small: linwright.Model = result.model()
    scores = small.evaluate(text="pocket", baseline=model, batch_size=4, shard="0/2")
    data: dict[str, object] = scores.to_dict()
    notes: list[str] = scores.notes
    merged: linwright.Result = linwright.merge(["a", Path("b")], output="whole")
    trained: linwright.Result = linwright.molecule.train(data="waters.xyz", epochs=3, output="potential")
    written: linwright.Result = model.generate(prompt=["Mila"], temperature=0.5, bos="auto")
    print(data, notes, merged, trained, written)


def operators() -> None:
    op = linwright.Operator("low_rank", (6, 4), rank=2)
    y = op(np.zeros((3, 4), np.float32))
    dx, gradients = op.backward(y, y)
    fit: linwright.Fit = linwright.Operator.fit("monarch", weight=dx)
    name: str = next(iter(gradients))
    print(fit.relative_error, op[name], op.log_abs_det()[0] + 1.0)
