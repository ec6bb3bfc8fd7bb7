"""The Python sessions of the tutorials, run and compared: blocks marked `pycon` of a page, one after another, in an empty
folder in which `testdata` is that of the checkout."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

#: The checkout that these tests stand in.
ROOT = Path(__file__).parents[3]
PAGES = sorted((ROOT / "docs/tutorials").glob("*.md"))
#: Dots stand for any text; white space is as wide as the page has it.
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def session(page: str) -> str:
    """The sessions of a page, at their lines."""
    inside, lines = False, []
    for line in page.splitlines():
        if line.startswith("```"):
            inside = line == "```pycon"
            lines.append("")
        else:
            lines.append(line if inside else "")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_session_prints_what_it_says(page: Path, elsewhere: Path) -> None:
    (elsewhere / "testdata").symlink_to(ROOT / "testdata")
    test = doctest.DocTestParser().get_doctest(session(page.read_text()), {}, page.stem, str(page), 0)
    assert test.examples, "no block marked pycon"
    told: list[str] = []
    ended = doctest.DocTestRunner(optionflags=OPTIONS).run(test, out=told.append)
    assert ended.failed == 0, "".join(told)


def test_every_tutorial_is_there_and_has_both_languages() -> None:
    assert len(PAGES) == 7
    for page in PAGES:
        text = page.read_text()
        languages = re.findall(r"^```(console|pycon)$", text, flags=re.MULTILINE)
        assert {"console", "pycon"} <= set(languages), page


def test_a_session_with_another_output_fails(tmp_path: Path) -> None:
    good = session("Text >>> 1\n```pycon\n>>> a = 1\n```\nmore\n```pycon\n>>> a + 1\n2\n```\n")
    bad = good.replace("\n2\n", "\n3\n")
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    results = [
        runner.run(doctest.DocTestParser().get_doctest(text, {}, "t", None, 0), out=lambda _: None).failed
        for text in (good, bad)
    ]
    assert results == [0, 1]
