"""Named values as objects."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any


def _wrapped(value: Any) -> Any:
    if isinstance(value, dict):
        return Record(value)
    if isinstance(value, list):
        return [_wrapped(item) for item in value]
    return value


class Record(Mapping[str, Any]):
    """Named values, as attributes and as a mapping: `record.perplexity` is `record["perplexity"]`.

    A name with other characters, or that a mapping has itself, is a key alone: `record["word_perplexity,none"]`,
    `record["items"]`.
    """

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def __getitem__(self, key: str) -> Any:
        return _wrapped(self._values[key])

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __getattr__(self, name: str) -> Any:
        # A copy is filled after it was made.
        values = self.__dict__.get("_values", {})
        if name in values:
            return _wrapped(values[name])
        known = ", ".join(values)
        raise AttributeError(f"there is no {name!r}; there are: {known}", name=name, obj=self)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(key for key in self._values if key.isidentifier())]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._values!r})"

    def to_dict(self) -> dict[str, Any]:
        """The values as plain Python: dictionaries, lists, numbers, texts. The caller may change them."""
        copy: dict[str, Any] = json.loads(json.dumps(self._values))
        return copy
