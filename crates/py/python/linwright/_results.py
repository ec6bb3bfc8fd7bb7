"""Results of jobs as objects."""

from __future__ import annotations

import html as _html
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from . import _linwright
from ._model import Model, load
from ._records import Record

if TYPE_CHECKING:
    import pandas


class Result(Record):
    """What a job found: its JSON as attributes, and its report.

    `print(result)` shows the report of the command line, a notebook its page.

    Attributes:
        verb: The job.
        options: What it was called with.
        notes: Notes and warnings that it gave.
    """

    def __init__(
        self, raw: _linwright.RawOutcome, verb: str, options: dict[str, Any], notes: list[str]
    ) -> None:
        values = json.loads(raw.json())
        # A result that is no object, as a list of slots, has one name.
        super().__init__(values if isinstance(values, dict) else {"value": values})
        self._raw = raw
        self.verb = verb
        self.options = options
        self.notes = notes

    def __str__(self) -> str:
        return self._raw.text()

    def __repr__(self) -> str:
        return f"<Result of {self.verb}: {', '.join(self._values)}>"

    def _repr_html_(self) -> str:
        page = _html.escape(self.to_html(), quote=True)
        # A frame of its own: the page's style must not reach the notebook.
        return f'<iframe srcdoc="{page}" style="width:100%;height:40em;border:0" sandbox="allow-scripts"></iframe>'

    def _repr_markdown_(self) -> str:
        return self.to_markdown()

    def to_json(self) -> str:
        """The result as the command prints it with `--json`."""
        return self._raw.json()

    def to_markdown(self) -> str:
        """The report as Markdown."""
        return self._raw.markdown()

    def to_html(self, path: Union[str, os.PathLike[str], None] = None) -> str:
        """The report as a page in one file; also written to `path`, if given."""
        page = self._raw.html(f"linwright {self.verb}")
        if path is not None:
            Path(path).write_text(page, encoding="utf-8")
        return page

    @property
    def tables(self) -> list[str]:
        """Captions of the tables of the report, in order; empty where a table has none."""
        return [table["caption"] for table in self._tables()]

    def to_pandas(self, table: Union[int, str] = 0) -> pandas.DataFrame:
        """A table as a DataFrame; needs pandas.

        Args:
            table: Index or caption of a table of the report, whose numbers are rounded as in print; or the name of a
                list of the result, such as `slots`, with all digits.
        """
        import pandas

        if isinstance(table, str) and isinstance(self._values.get(table), list):
            return pandas.json_normalize(self._values[table])
        tables = self._tables()
        if isinstance(table, str):
            chosen = [one for one in tables if one["caption"] == table]
        else:
            chosen = tables[table : table + 1] if table >= 0 else tables[table:][:1]
        if not chosen:
            lists = [key for key, value in self._values.items() if isinstance(value, list)]
            raise KeyError(f"there is no table {table!r}; tables: {self.tables}, lists: {lists}")
        heads = [column["head"] for column in chosen[0]["columns"]]
        frame = pandas.DataFrame([row["cells"] for row in chosen[0]["rows"]], columns=heads)
        for at, column in enumerate(chosen[0]["columns"]):
            if column["numeric"]:
                numbers = pandas.to_numeric(frame.iloc[:, at], errors="coerce")
                # A column with a unit or a word in it stays text.
                if numbers.notna().all():
                    frame.isetitem(at, numbers)
        return frame

    def model(self) -> Model:
        """The model that the job wrote to `output`."""
        output = self.options.get("output")
        if output is None:
            raise ValueError(f"this {self.verb} wrote no model: it was called without output=")
        return load(output)

    def _tables(self) -> list[dict[str, Any]]:
        tables = []
        for block in json.loads(self._raw.report())["blocks"]:
            kind, content = next(iter(block.items()))
            if kind in ("table", "provenance"):
                tables.append(content)
            elif kind == "details":
                tables.append(content["table"])
        return tables
