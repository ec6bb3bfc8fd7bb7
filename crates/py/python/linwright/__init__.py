"""Linwright: a toolkit for the linear layers of neural networks.

    import linwright

    model = linwright.load("pocket")
    model.slots()
    result = model.compress(keep=0.8, calibration="pocket", output="smaller")
    linwright.load("smaller").evaluate(text="pocket", baseline=model)

Every job of the command `linwright` is a function here, with the same names, defaults and help; those that read a
model are methods of `Model`; those of a group are in a module of its name, such as `linwright.molecule`.
"""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any

from . import _linwright, _methods
from ._errors import (
    FingerprintError,
    GateError,
    Interrupted,
    LinwrightError,
    RecipeError,
    ResourceError,
    UsageError,
)
from ._jobs import GROUPS, VERBS
from ._model import Model, load
from ._operator import Fit, Operator, operators
from ._records import Record
from ._results import Result
from ._statistics import Statistics

_methods.fill()

__version__ = _linwright.build()

#: Adapters to other packages, imported on first use.
_ADAPTERS = ("ase", "lm_eval", "ray", "torch")


def set_threads(threads: int) -> None:
    """Sets the number of threads of all work; 0 means all cores. Results do not depend on it.

    Raises:
        LinwrightError: if threads have started already, as with the first job.
    """
    _linwright.set_threads(threads)


def _module(name: str) -> types.ModuleType:
    """The module of a group of jobs."""
    module = types.ModuleType(f"{__name__}.{name}", GROUPS[name] + ".")
    sys.modules[module.__name__] = module
    return module


def _fill() -> list[str]:
    """Puts the functions of all jobs where they belong; gives the names of those in this module."""
    here = sys.modules[__name__]
    modules = {name: _module(name) for name in GROUPS}
    for verb in VERBS:
        module = here if verb.group is None else modules[verb.group]
        setattr(module, verb.name, verb.function(module.__name__))
    for name, module in modules.items():
        own = [verb.name for verb in VERBS if verb.group == name]
        module.__dict__["__all__"] = own
        setattr(here, name, module)
    return [verb.name for verb in VERBS if verb.group is None] + list(modules)


def __getattr__(name: str) -> Any:
    if name in _ADAPTERS:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "FingerprintError",
    "Fit",
    "GateError",
    "Interrupted",
    "LinwrightError",
    "Model",
    "Operator",
    "Record",
    "RecipeError",
    "ResourceError",
    "Result",
    "Statistics",
    "UsageError",
    "load",
    "operators",
    "set_threads",
    *_fill(),
]
