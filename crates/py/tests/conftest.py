"""Shared by all tests: which optional packages are there, and the built-in model."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import linwright

#: Packages without which some tests cannot run; the numpy ones always do.
OPTIONAL = ("pandas", "tqdm", "torch", "transformers", "accelerate", "ase", "lm_eval", "ray", "mypy")


def pytest_report_header() -> str:
    """Says which optional packages are tested: a run without one must not look like a run with it."""
    has = {name: importlib.util.find_spec(name) is not None for name in OPTIONAL}
    there = ", ".join(name for name in OPTIONAL if has[name]) or "none"
    absent = ", ".join(name for name in OPTIONAL if not has[name]) or "none"
    return f"linwright {linwright.__version__}; tested with numpy and: {there}; not tested: {absent}"


@pytest.fixture
def pocket() -> linwright.Model:
    return linwright.load("pocket")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test runs in an empty folder: nothing may depend on the checkout."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
