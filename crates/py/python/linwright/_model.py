"""Models: the objects that methods of jobs are called on."""

from __future__ import annotations

import os
from typing import Any, Union

from . import _linwright
from ._progress import Progress, receiver
from ._records import Record


class Model:
    """A model, by the name of its checkpoint: every job that reads a model is a method.

    Jobs read the checkpoint each time, as commands do, and write to `output`; none changes the model. Use
    `linwright.load`.

    Attributes:
        name: The argument of `load`.
        path: Its directory or file.
    """

    def __init__(self, name: str, path: str) -> None:
        self.name = name
        self.path = path

    def __repr__(self) -> str:
        return f"linwright.load({self.name!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __linwright_model__(self) -> str:
        return self.name

    def slots(self) -> list[Record]:
        """The linear layers: site, shape, kind of operator, parameters and steps of each."""
        result: Record = self.inspect(slots=True)  # type: ignore[attr-defined]
        slots: list[Record] = result["sites"]
        return slots


def load(model: Union[str, os.PathLike[str]], *, progress: Progress = None) -> Model:
    """Finds a model: `pocket`, the built-in one; a directory or file; or `owner/name[@revision]` on the hub.

    Args:
        model: The model.
        progress: How to report the progress of a download, as for jobs.

    Raises:
        LinwrightError: if there is no such model.
    """
    name = os.fspath(model)
    path, _ = _linwright.find(name, receiver(progress))
    if not os.path.exists(path):
        raise FileNotFoundError(f"there is no model {name}: give a directory, a file, pocket, or owner/name on the hub")
    return Model(name, path)
