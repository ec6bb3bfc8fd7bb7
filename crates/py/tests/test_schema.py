"""Functions, methods and stubs follow from the schemas of jobs alone."""

from __future__ import annotations

import inspect
import json
from typing import Any

import pytest

import linwright
from linwright import _linwright, _stubs
from linwright._jobs import GROUPS, RENAMED, VERBS, Verb


def place(verb: Verb) -> Any:
    return linwright if verb.group is None else getattr(linwright, verb.group)


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.verb)
def test_a_signature_has_the_options_of_the_schema(verb: Verb) -> None:
    schema = json.loads(_linwright.schema(verb.verb))
    signature = inspect.signature(getattr(place(verb), verb.name))
    own = {"shard", "progress"} if verb.has_shards else {"progress"}
    keys = {name.rstrip("_") for name in signature.parameters} - own
    assert keys == set(schema["properties"])
    for name, parameter in signature.parameters.items():
        if name in own:
            continue
        option = schema["properties"][name.rstrip("_")]
        required = bool(option.get("x-positional") or option.get("x-required"))
        assert (parameter.default is inspect.Parameter.empty) == required, name
        if not required and "default" in option:
            expected = option["default"]
            assert parameter.default == (tuple(expected) if isinstance(expected, list) else expected), name


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.verb)
def test_the_help_of_every_option_is_in_the_docstring(verb: Verb) -> None:
    schema = json.loads(_linwright.schema(verb.verb))
    doc = " ".join((getattr(place(verb), verb.name).__doc__ or "").split())
    assert doc.startswith(" ".join(verb.about.split()))
    for option in schema["properties"].values():
        assert " ".join(option["description"].split()) in doc


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb.takes_model], ids=lambda verb: verb.verb)
def test_a_job_with_a_model_is_a_method(verb: Verb) -> None:
    model = linwright.Model("a", "a")
    method = inspect.signature(getattr(model if verb.group is None else getattr(model, verb.group), verb.name))
    function = inspect.signature(getattr(place(verb), verb.name))
    expected = [parameter for name, parameter in function.parameters.items() if name != "model"]
    assert list(method.parameters.values()) == expected


def test_groups_are_modules() -> None:
    import importlib

    assert "molecule" in GROUPS
    for name in GROUPS:
        module = importlib.import_module(f"linwright.{name}")
        assert sorted(module.__all__) == sorted(verb.name for verb in VERBS if verb.group == name)


def test_no_function_has_a_name_that_python_keeps() -> None:
    for verb in VERBS:
        assert verb.name.isidentifier()
        compile(f"{verb.name} = 1", "name", "exec")
    assert RENAMED["eval"] == "evaluate" and callable(linwright.evaluate)


def test_stubs_are_current() -> None:
    for path, text in _stubs.stubs().items():
        assert path.read_text(encoding="utf-8") == text, f"{path} is old: run python -m linwright._stubs"
