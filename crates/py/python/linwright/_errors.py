"""Exceptions, one class for each exit code of the command, with the message of the command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Union

if TYPE_CHECKING:
    from ._results import Result


class LinwrightError(Exception):
    """A job failed. The message has what, where, expected and found; `hint` is what to do next.

    Attributes:
        message: What is wrong, as `linwright` prints it.
        hint: What to do next, or None.
        exit_code: The exit code of the command.
    """

    exit_code: int = 1

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\nhint: {self.hint}"


class UsageError(LinwrightError, ValueError):
    """Options that contradict each other or the model."""

    exit_code = 2


class RecipeError(LinwrightError, ValueError):
    """An invalid recipe or configuration."""

    exit_code = 3


class GateError(LinwrightError):
    """A quality gate was missed; `result` is the result of the job."""

    exit_code = 4
    result: Result


class ResourceError(LinwrightError):
    """Out of memory or disk."""

    exit_code = 5


class FingerprintError(LinwrightError):
    """The directory to resume belongs to another run."""

    exit_code = 6


class Interrupted(KeyboardInterrupt):
    """Stopped by Ctrl-C. Not a LinwrightError, so that `except Exception` does not swallow it.

    Attributes:
        resumable: Whether the same call resumes where this one stopped.
        message, hint, exit_code: As for LinwrightError; the exit code is 75 or 130.
    """

    def __init__(self, message: str, hint: str | None = None, exit_code: int = 130) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_code = exit_code
        self.resumable = exit_code == 75

    def __str__(self) -> str:
        return f"{self.message}; the same call resumes" if self.resumable else self.message


_CLASSES: tuple[type[LinwrightError], ...] = (
    UsageError,
    RecipeError,
    GateError,
    ResourceError,
    FingerprintError,
)


def failure(exit_code: int, message: str, hint: str | None) -> Union[LinwrightError, Interrupted]:
    """The exception of an exit code."""
    if exit_code in (75, 130):
        return Interrupted(message, hint, exit_code)
    kind = next((kind for kind in _CLASSES if kind.exit_code == exit_code), LinwrightError)
    return kind(message, hint)
