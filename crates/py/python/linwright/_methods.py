"""Methods of models: the jobs that read one."""

from __future__ import annotations

from typing import Any

from ._jobs import GROUPS, VERBS
from ._model import Model


class ModelJobs:
    """The jobs of a group that read a model, as methods: `model.attribute.cache(...)`."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._model!r}>"

    def __linwright_model__(self) -> str:
        return self._model.name


def fill() -> None:
    """Gives models a method for each job with a model, and an attribute for each group that has some."""
    for verb in VERBS:
        if verb.group is None and verb.takes_model and not hasattr(Model, verb.name):
            setattr(Model, verb.name, verb.method())
    for group, about in GROUPS.items():
        own: dict[str, Any] = {
            verb.name: verb.method() for verb in VERBS if verb.group == group and verb.takes_model
        }
        if own and not hasattr(Model, group):
            own.update(__doc__=f"{about}.", __module__=Model.__module__)
            jobs = type(f"{group.capitalize()}Jobs", (ModelJobs,), own)
            setattr(Model, group, property(jobs, doc=f"{about}."))
