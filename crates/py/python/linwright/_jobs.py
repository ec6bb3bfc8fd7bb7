"""Functions of all jobs, generated from their schemas: signatures, defaults and help are those of the command."""

from __future__ import annotations

import difflib
import inspect
import json
import keyword
import os
import textwrap
from collections.abc import Callable, Mapping
from typing import Any, Union

from . import _linwright
from ._errors import UsageError
from ._model import Model
from ._progress import Progress, receiver
from ._results import Result

#: Names of Python for words of the command line that Python needs itself.
RENAMED = {"eval": "evaluate", "import": "import_model"}

#: Arguments that every function has in addition to the options of its job.
_PROGRESS = "How to report progress: a function of step, done and total, True for a bar, False for silence."
_SHARD = "Do one of N shares of the work, as `i/N` counted from 0, into output; merge() makes the result of all."
_WAITING = "Do one of N shares of the work, as `i/N` counted from 0, while others do theirs; the first writes output."

#: A path.
StrPath = Union[str, "os.PathLike[str]"]
#: What an option of text takes: many are names or paths of files, some numbers or words.
Text = Union[str, int, float, "os.PathLike[str]", Model]


class Option:
    """An option of a job.

    Attributes:
        key: Its name in recipes and on the command line.
        name: Its name as a keyword.
        help: A sentence or two.
    """

    def __init__(self, option: Mapping[str, Any]) -> None:
        self.key: str = option["key"]
        self.name = self.key + "_" if keyword.iskeyword(self.key) else self.key
        self.help: str = option["help"]
        self.is_list: bool = option["is_list"]
        self.is_path: bool = option["is_path"]
        self.is_positional: bool = option["is_positional"]
        self.is_required: bool = option["is_required"]
        self.aliases = {alias.replace("-", "_") for alias in option["aliases"]}
        self.names: list[str] = [name["name"] for name in option["names"] or []]
        default = option["default"]
        self.default = tuple(default) if isinstance(default, list) else default
        self._kind: str = option["kind"]

    @property
    def takes_model(self) -> bool:
        """Whether it is the model that a method is called on."""
        return self.key == "model" and self.is_positional

    @property
    def annotation(self) -> str:
        """Its type, as stubs write it."""
        if self._kind == "name":
            one = "Literal[" + ", ".join(map(repr, self.names)) + "]"
        elif self._kind == "text":
            one = "StrPath" if self.is_path else "Text"
        else:
            one = {"flag": "bool", "integer": "int", "number": "float"}[self._kind]
        if self.is_list:
            return f"{one} | Sequence[{one}]"
        return one if self.is_required or self.default is not None else f"{one} | None"

    def parameter(self) -> inspect.Parameter:
        """The parameter of a signature."""
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD if self.is_positional else inspect.Parameter.KEYWORD_ONLY
        default = inspect.Parameter.empty if self.is_required else self.default
        return inspect.Parameter(self.name, kind, default=default, annotation=self.annotation)


class Verb:
    """A kind of job.

    Attributes:
        verb: Its name in recipes.
        name: Its name as a function.
        group: Its module, or None.
        about: What it does.
    """

    def __init__(self, verb: Mapping[str, Any]) -> None:
        self.verb: str = verb["verb"]
        word: str = verb["name"].replace("-", "_")
        self.name = RENAMED.get(word, word + "_" if keyword.iskeyword(word) else word)
        self.group: str | None = verb["group"]
        self.about: str = verb["about"]
        self.has_shards: bool = verb["has_shards"]
        self.shares_output: bool = verb["shares_output"]
        self.waits: bool = verb["waits"]
        self.writes_model: bool = verb["writes_model"]
        self.options = [Option(option) for option in verb["options"]]

    @property
    def takes_model(self) -> bool:
        """Whether it is a method of models."""
        return any(option.takes_model for option in self.options)

    def signature(self, *, bound: bool = False) -> inspect.Signature:
        """The signature of the function, or of the method of a model."""
        options = [option for option in self.options if not (bound and option.takes_model)]
        # Positional parameters come first, required ones before others.
        options.sort(key=lambda option: (not option.is_positional, not option.is_required))
        parameters = [option.parameter() for option in options]
        keyword_only = inspect.Parameter.KEYWORD_ONLY
        if self.has_shards:
            parameters.append(inspect.Parameter("shard", keyword_only, default=None, annotation="str | None"))
        parameters.append(inspect.Parameter("progress", keyword_only, default=None, annotation="Progress"))
        if bound:
            me = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
            parameters.insert(0, me)
        return inspect.Signature(parameters, return_annotation="Result")

    def doc(self, *, bound: bool = False) -> str:
        """The documentation: what it does, and a line for each argument."""
        lines = [self.about, "", "Args:"]
        described = [(option.name, option.help) for option in self.options if not (bound and option.takes_model)]
        described += [("shard", _WAITING if self.waits else _SHARD)] if self.has_shards else []
        described.append(("progress", _PROGRESS))
        for name, text in described:
            lines.append(textwrap.fill(
                f"{name}: {text}", 100, initial_indent="    ", subsequent_indent="        ", break_on_hyphens=False
            ))
        return "\n".join(lines)

    def call(self, given: Mapping[str, Any], bound: inspect.Signature, *arguments: Any) -> Result:
        """Runs the job with the arguments of a call."""
        by_alias = {alias: option.name for option in self.options for alias in option.aliases}
        given = {by_alias.get(name, name): value for name, value in given.items()}
        if unknown := [name for name in given if name not in bound.parameters]:
            near = difflib.get_close_matches(unknown[0], list(bound.parameters), 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise TypeError(f"{self.name}() got an unexpected keyword argument {unknown[0]!r}{hint}")
        try:
            values = bound.bind(*arguments, **given).arguments
        except TypeError as error:
            raise TypeError(f"{self.name}() {error}") from None
        return self.run(values, values.pop("shard", None), values.pop("progress", None))

    def run(self, values: Mapping[str, Any], shard: str | None, progress: Progress) -> Result:
        """Runs the job with options by the names of their keywords."""
        by_name = {option.name: option for option in self.options}
        options = {
            by_name[name].key: _plain(value, name)
            for name, value in values.items()
            if value is not None
        }
        listener = receiver(progress)
        raw, missed = _linwright.run(self.verb, json.dumps(options), shard, listener)
        result = Result(raw, self.verb, options, listener.notes)
        if missed is not None:
            missed.result = result
            raise missed
        return result

    def function(self, module: str) -> Callable[..., Result]:
        """The function of the job."""
        signature = self.signature()

        def function(*arguments: Any, **given: Any) -> Result:
            return self.call(given, signature, *arguments)

        return self._dressed(function, signature, module, self.name, self.doc())

    def method(self) -> Callable[..., Result]:
        """The method of models."""
        signature = self.signature(bound=True)
        whole = self.signature()

        def method(self_: Any, *arguments: Any, **given: Any) -> Result:
            signature.bind_partial(self_, *arguments)
            given.update(model=self_)
            positional = [name for name in signature.parameters if name != "self"]
            given.update(zip(positional, arguments))
            return self.call(given, whole)

        holder = "Model" if self.group is None else f"{self.group.capitalize()}Jobs"
        return self._dressed(method, signature, "linwright._model", f"{holder}.{self.name}", self.doc(bound=True))

    def _dressed(
        self,
        function: Callable[..., Result],
        signature: inspect.Signature,
        module: str,
        qualified: str,
        doc: str,
    ) -> Callable[..., Result]:
        function.__module__, function.__name__, function.__qualname__ = module, self.name, qualified
        function.__doc__ = doc
        function.__signature__ = signature  # type: ignore[attr-defined]
        function.__linwright_verb__ = self.verb  # type: ignore[attr-defined]
        return function


def _plain(value: Any, name: str) -> Any:
    """A value as in JSON."""
    if isinstance(value, (bool, int, float, str)):
        if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
            raise UsageError(f"{name} is {value}, expected a finite number")
        return value
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        return _plain(value.item(), name)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "__linwright_model__"):
        return value.__linwright_model__()
    if isinstance(value, (list, tuple, set, frozenset, range)) or hasattr(value, "tolist"):
        values = value.tolist() if hasattr(value, "tolist") else value
        return [_plain(item, name) for item in values]
    raise TypeError(f"{name} is a {type(value).__name__}, expected a number, a text, a path or a list of these")


_ALL = json.loads(_linwright.verbs())
#: All jobs, in the order of the command's help.
VERBS: list[Verb] = [Verb(verb) for verb in _ALL["verbs"]]
#: Groups of jobs, by name, with a sentence on each.
GROUPS: dict[str, str] = {group["name"]: group["about"] for group in _ALL["groups"]}
