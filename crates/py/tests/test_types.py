"""The package and its stubs pass mypy in strict mode."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import linwright

FOLDER = Path(__file__).parent.parent


def mypy(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mypy", *arguments]
    return subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, timeout=280)


def test_mypy_finds_nothing(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    said = mypy("--cache-dir", str(tmp_path / "cache"))
    assert said.returncode == 0, said.stdout + said.stderr


def test_mypy_finds_wrong_keywords(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "import linwright\n"
        "linwright.load('pocket').sweep(rates=[1.0])\n"
        "linwright.evaluate('pocket', limit='many')\n"
        "linwright.molecule.evaluate()\n"
    )
    said = mypy("--cache-dir", str(tmp_path / "cache"), str(wrong))
    assert said.stdout.count("error:") == 3, said.stdout
    for words in ('Unexpected keyword argument "rates"', 'Argument "limit"', 'Missing positional arguments "potential"'):
        assert words in said.stdout, said.stdout


def test_the_package_says_that_it_is_typed() -> None:
    assert linwright.__file__ is not None
    assert (Path(linwright.__file__).parent / "py.typed").exists()
