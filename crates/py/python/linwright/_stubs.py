"""Stubs of the functions generated from schemas: `python -m linwright._stubs` writes them next to the sources.

A test compares them with what it would write.
"""

from __future__ import annotations

import inspect
import textwrap
from pathlib import Path

from ._jobs import GROUPS, VERBS, Verb

_FOLDER = Path(__file__).parent

_HEAD = '''"""{about}

Written by `python -m linwright._stubs`.
"""

from collections.abc import Sequence
from typing import Literal

'''

_INIT = """from . import {groups}
from ._errors import FingerprintError as FingerprintError
from ._errors import GateError as GateError
from ._errors import Interrupted as Interrupted
from ._errors import LinwrightError as LinwrightError
from ._errors import RecipeError as RecipeError
from ._errors import ResourceError as ResourceError
from ._errors import UsageError as UsageError
from ._jobs import StrPath, Text
from ._model import Model as Model
from ._model import load as load
from ._operator import Fit as Fit
from ._operator import Operator as Operator
from ._operator import operators as operators
from ._progress import Progress as Progress
from ._records import Record as Record
from ._results import Result as Result
from ._statistics import Statistics as Statistics

__version__: str

def set_threads(threads: int) -> None: ...
"""

_MODEL = """from ._jobs import StrPath, Text
from ._progress import Progress
from ._records import Record
from ._results import Result

def load(model: StrPath, *, progress: Progress = None) -> Model: ...

class Model:
    name: str
    path: str
    def __init__(self, name: str, path: str) -> None: ...
    def __linwright_model__(self) -> str: ...
    def slots(self) -> list[Record]: ...
"""

_GROUP = """from ._jobs import StrPath, Text
from ._progress import Progress
from ._results import Result

"""


def _parameter(parameter: inspect.Parameter) -> str:
    if parameter.name == "self":
        return "self"
    text = f"{parameter.name}: {parameter.annotation}"
    return text if parameter.default is inspect.Parameter.empty else f"{text} = {parameter.default!r}"


def _definition(verb: Verb, *, bound: bool = False) -> str:
    """A function, or a method, with its documentation."""
    signature = verb.signature(bound=bound)
    parts = []
    for parameter in signature.parameters.values():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        parts.append(_parameter(parameter))
    arguments = "".join(f"    {part},\n" for part in parts)
    doc = verb.doc(bound=bound).replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    body = textwrap.indent(f'"""{doc}\n"""', "    ", lambda line: bool(line.strip()))
    return f"def {verb.name}(\n{arguments}) -> Result:\n{body}\n"


def _with_models() -> dict[str, list[Verb]]:
    """Jobs with a model by their group."""
    found = {name: [verb for verb in VERBS if verb.group == name and verb.takes_model] for name in GROUPS}
    return {name: verbs for name, verbs in found.items() if verbs}


def _groups() -> str:
    """The attributes of models for groups of jobs."""
    attribute = "    @property\n    def {}(self) -> {}Jobs: ...\n"
    return "".join(attribute.format(name, name.capitalize()) for name in _with_models())


def _classes() -> str:
    """The classes of these attributes."""
    text = ""
    for name, verbs in _with_models().items():
        methods = "\n".join(_definition(verb, bound=True) for verb in verbs)
        methods = textwrap.indent(methods, "    ", lambda line: bool(line.strip()))
        text += f"\nclass {name.capitalize()}Jobs:\n    \"\"\"{GROUPS[name]}.\"\"\"\n\n{methods}"
    return text


def stubs() -> dict[Path, str]:
    """The text of every stub by its path."""
    groups = ", ".join(f"{name} as {name}" for name in GROUPS)
    alone = [verb for verb in VERBS if verb.group is None]
    head = _HEAD.format(about="Linwright: a toolkit for the linear layers of neural networks.")
    functions = "\n".join(_definition(verb) for verb in alone)
    texts = {_FOLDER / "__init__.pyi": f"{head}{_INIT.format(groups=groups)}\n{functions}"}
    methods = "\n".join(_definition(verb, bound=True) for verb in alone if verb.takes_model)
    methods = textwrap.indent(methods, "    ", lambda line: bool(line.strip()))
    head = _HEAD.format(about="Models: the objects that methods of jobs are called on.")
    texts[_FOLDER / "_model.pyi"] = f"{head}{_MODEL}{_groups()}{methods}{_classes()}"
    for name, about in GROUPS.items():
        functions = "\n".join(_definition(verb) for verb in VERBS if verb.group == name)
        texts[_FOLDER / f"{name}.pyi"] = _HEAD.format(about=f"{about}.") + _GROUP + functions
    return texts


if __name__ == "__main__":
    for path, text in stubs().items():
        path.write_text(text, encoding="utf-8")
        print(path)
