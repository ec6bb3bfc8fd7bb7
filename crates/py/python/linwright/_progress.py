"""Progress of jobs: a bar of tqdm, a function of the caller, or nothing."""

from __future__ import annotations

import importlib.util
import logging
import sys
from typing import Any, Callable, Union

#: `True` and `False` force a bar or silence, `None` decides by the terminal; a function gets the name of the step,
#: the units that are done and all units.
Progress = Union[bool, Callable[[str, int, int], object], None]

LOG = logging.getLogger("linwright")


class Receiver:
    """What the extension module calls while a job runs. Notes go to the logger `linwright`."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def step(self, name: str) -> None:
        LOG.debug("%s", name)

    def progress(self, done: int, total: int) -> None:
        pass

    def note(self, line: str) -> None:
        self.notes.append(line)
        level = logging.WARNING if line.startswith("warning:") else logging.INFO
        LOG.log(level, "%s", line)

    def finish(self) -> None:
        pass


class Calls(Receiver):
    """Calls a function with the name of the step, the units that are done, and all units."""

    def __init__(self, function: Callable[[str, int, int], object]) -> None:
        super().__init__()
        self._function = function
        self._step = ""

    def step(self, name: str) -> None:
        super().step(name)
        self._step = name
        self._function(name, 0, 0)

    def progress(self, done: int, total: int) -> None:
        self._function(self._step, done, total)


class Bar(Receiver):
    """A bar of tqdm, which notebooks draw as their own."""

    def __init__(self) -> None:
        super().__init__()
        from tqdm.auto import tqdm

        self._bar: Any = tqdm(total=1, leave=False, bar_format="{desc} {bar} {percentage:3.0f}% {remaining}")

    def step(self, name: str) -> None:
        super().step(name)
        self._bar.reset(total=1)
        self._bar.set_description_str(name)

    def progress(self, done: int, total: int) -> None:
        self._bar.total = total
        self._bar.update(done - self._bar.n)

    def note(self, line: str) -> None:
        super().note(line)
        self._bar.refresh()

    def finish(self) -> None:
        self._bar.close()


def receiver(progress: Progress) -> Receiver:
    """The receiver that an argument `progress` asks for.

    Raises:
        ImportError: if a bar is asked for by `True`, and tqdm is not installed.
    """
    if callable(progress):
        return Calls(progress)
    if progress is None:
        shown = sys.stderr is not None and sys.stderr.isatty() or _in_notebook()
        progress = shown and importlib.util.find_spec("tqdm") is not None
    elif progress and importlib.util.find_spec("tqdm") is None:
        raise ImportError("progress=True needs tqdm: pip install tqdm, or give a function")
    return Bar() if progress else Receiver()


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"
