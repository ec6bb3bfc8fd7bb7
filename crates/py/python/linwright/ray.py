"""Jobs in shards on a Ray cluster.

    import linwright.ray

    linwright.ray.run(linwright.evaluate, shards=16, model="pocket", tasks="pocket", output="result.json")

Each shard is a task, with the given cores and memory, or the memory that a dry run of the job estimates. Shards work in
`result.json.shards` and the merge writes `result.json`: all nodes must share the folder in which this is called. Shards of a
job with a store, such as `linwright.attribute.cache`, share that. Shards of `linwright.compress`, `search` and `compose` wait
for each other: the cluster must have room for all at once. The result has the bytes of an unsharded run. Shards whose node or
process dies run again, on any node, and resume where they stopped; so does the whole run after an interruption.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Union

from . import _linwright
from ._errors import LinwrightError, ResourceError, UsageError, failure
from ._jobs import VERBS, Option, Verb
from ._jobs import _plain as plain
from ._progress import LOG, Progress, Receiver, receiver
from ._results import Result

#: Most shards of a job, as for `linwright slurm`.
MAX_SHARDS = 1001

#: How long shards that wait for each other wait for room for all of them.
ROOM_SECONDS = 600.0

#: Exit codes that another attempt may not have: failures of files that nodes share, and full memory or disks.
_PASSING = (1, 5)


def run(
    job: Union[Callable[..., Result], str],
    *,
    shards: int,
    cpus: float | None = None,
    memory_bytes: int | None = None,
    retries: int = 3,
    progress: Progress = None,
    **options: Any,
) -> Result:
    """Runs a job in shards on the Ray cluster that this process is connected to, or connects to, and merges them.

    Args:
        job: A function of this package that takes `shard`, such as `linwright.evaluate`, or its name.
        shards: Number of shards.
        cpus: Cores of a shard, which are also its threads. By default 1.
        memory_bytes: Memory of a shard. By default the estimate of a dry run of the job, if there is one (for
            `attribute.cache`, of the memory in addition to the model).
        retries: How often a shard is run again after its node or process died, or its machine ran out of memory.
        progress: As for the job: receives the numbers of finished shards and of all shards.
        options: The keywords of the job, with `output`.

    Returns:
        The result of the merge, as the job returns it.

    Raises:
        UsageError: If the job is not divided, or has no output.
        LinwrightError: The error of a shard or of the merge.
    """
    import ray

    verb = _verb(job)
    given = _options(verb, options)
    if not 1 <= shards <= MAX_SHARDS:
        raise UsageError(f"shards is {shards}, expected 1 to {MAX_SHARDS}")
    place = given.get("output") or (given.get("store", "") if verb.shares_output else "")
    output = str(place).rstrip("/")
    if not output:
        raise UsageError(f"{verb.name} has no output; shards keep their work next to it", "give output=")
    if given.pop("force", False):
        raise UsageError("force=True: a merge replaces nothing", f"remove {output} first")
    if not ray.is_initialized():
        ray.init(log_to_driver=False)
    if memory_bytes is None:
        memory_bytes = _estimated_bytes(verb, given)
    folder = Path(f"{output}.shards")
    is_merged = not (verb.shares_output or verb.waits)
    if is_merged:
        given.pop("output")
        folder.mkdir(parents=True, exist_ok=True)
    resources = {"num_cpus": 1 if cpus is None else cpus, "memory": memory_bytes}
    if verb.waits and shards == 1:
        return verb.run(given, None, progress)
    listener = receiver(progress)
    group = _room(verb, shards, resources, listener) if verb.waits else None
    try:
        _Work(verb, given, folder if is_merged else None, shards, resources, group).finish(retries, listener)
    finally:
        listener.finish()
        if group is not None:
            ray.util.remove_placement_group(group)
    if not is_merged:
        # Finds what shards did, and finishes it.
        return verb.run(given, f"0/{shards}" if verb.waits else None, progress)
    merge = next(one for one in VERBS if one.verb == "merge")
    parts = [str(folder / str(index)) for index in range(shards)]
    return merge.run({"directories": parts, "output": output}, None, progress)


def _verb(job: Union[Callable[..., Result], str]) -> Verb:
    """The verb of a function or of a name."""
    for verb in VERBS:
        words = (verb.verb, verb.name, verb.name if verb.group is None else f"{verb.group}.{verb.name}")
        if getattr(job, "__linwright_verb__", job) in words:
            if not verb.has_shards:
                able = ", ".join(one.name for one in VERBS if one.has_shards)
                raise UsageError(f"{verb.name} is not divided", f"these jobs are: {able}")
            return verb
    raise UsageError(f"{job!r} is no job of linwright", "give a function such as linwright.evaluate, or its name")


def _options(verb: Verb, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options by their keywords, checked as a call of the job checks them."""
    for name in ("shard", "progress"):
        if name in options:
            raise TypeError(f"run() gives {name} itself")
    bound = verb.signature().bind(**options)
    by_name: dict[str, Option] = {option.name: option for option in verb.options}
    return {name: plain(value, by_name[name].key) for name, value in bound.arguments.items() if value is not None}


def _room(verb: Verb, shards: int, resources: Mapping[str, Any], listener: Receiver) -> Any:
    """Resources for shards that wait for each other, and so must all run at once."""
    import ray

    bundle = {name: resources[key] for key, name in (("num_cpus", "CPU"), ("memory", "memory")) if resources[key]}
    group = ray.util.placement_group([bundle] * shards)
    listener.step(f"waiting for room for {shards} shards of {verb.name} at once")
    ready, _ = ray.wait([group.ready()], timeout=ROOM_SECONDS)
    if ready:
        return group
    ray.util.remove_placement_group(group)
    raise ResourceError(
        f"{shards} shards of {verb.name} wait for each other, and the cluster has no room for all at once: {bundle} each",
        "give fewer shards, or less for each",
    )


def _estimated_bytes(verb: Verb, given: Mapping[str, Any]) -> int | None:
    """The memory that a dry run reports, if the job has one."""
    if not any(option.name == "dry_run" for option in verb.options):
        return None
    try:
        found = verb.run({**given, "dry_run": True}, None, False)
    except LinwrightError as error:
        # Some options, such as more than one text, exclude a dry run, but not the job.
        LOG.info("no estimate of memory: %s", error.message)
        return None
    return _most_bytes(found.to_dict())


def _most_bytes(found: Any) -> int | None:
    """The largest number of a key for memory in bytes."""
    if isinstance(found, dict):
        own = [value for key, value in found.items() if key.endswith("memory_bytes") and isinstance(value, int)]
        inside = [_most_bytes(value) for value in found.values()]
    elif isinstance(found, list):
        own, inside = [], [_most_bytes(value) for value in found]
    else:
        return None
    return max([*own, *(value for value in inside if value is not None)], default=None)


class _Work:
    """The shards of a job as tasks."""

    def __init__(
        self,
        verb: Verb,
        given: Mapping[str, Any],
        folder: Path | None,
        shards: int,
        resources: Mapping[str, Any],
        group: Any,
    ) -> None:
        import ray

        # A process of its own for each: threads are set once in a process. Attempts are counted here.
        task = ray.remote(max_calls=1, max_retries=0)(_shard)
        self._task, self._resources = task, resources
        self._verb, self._given, self._folder, self._shards = verb, dict(given), folder, shards
        self._group = group
        self._threads = max(1, int(resources["num_cpus"]))

    def start(self, index: int) -> Any:
        """Submits a shard."""
        shard = f"{index}/{self._shards}"
        own = {} if self._folder is None else {"output": str(self._folder / str(index))}
        given = {**self._given, **own}
        options = dict(self._resources)
        if self._group is not None:
            from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

            options["scheduling_strategy"] = PlacementGroupSchedulingStrategy(
                self._group, placement_group_bundle_index=index
            )
        return self._task.options(**options).remote(os.getcwd(), self._verb.verb, given, shard, self._threads)

    def finish(self, retries: int, listener: Receiver) -> None:
        """Waits for all shards, and restarts those that died."""
        import ray

        running = {self.start(index): index for index in range(self._shards)}
        attempts = [1] * self._shards
        listener.step(f"{self._shards} shards of {self._verb.name}")
        done = 0
        try:
            while running:
                listener.progress(done, self._shards)
                ended, _ = ray.wait(list(running), num_returns=1)
                index = running.pop(ended[0])
                error = _error(ended[0])
                if error is None:
                    done += 1
                    continue
                if attempts[index] > retries or not _is_passing(error):
                    raise error
                attempts[index] += 1
                listener.note(f"warning: shard {index} runs again: {error}")
                running[self.start(index)] = index
            listener.progress(done, self._shards)
        finally:
            for reference in running:
                ray.cancel(reference, force=True)


def _is_passing(error: BaseException) -> bool:
    return isinstance(error, LinwrightError) and error.exit_code in _PASSING


def _error(reference: Any) -> BaseException | None:
    """The error of a shard."""
    import ray

    try:
        ended = ray.get(reference)
    except ray.exceptions.OutOfMemoryError as error:
        return ResourceError(f"the node of a shard ran out of memory: {_first_line(error)}", "give memory_bytes=")
    except ray.exceptions.RayTaskError as error:
        # What is no failure of linwright is a defect, or a node without the package.
        cause: BaseException = error.as_instanceof_cause()
        return cause
    except ray.exceptions.RayError as error:
        return LinwrightError(f"the node or process of a shard died: {_first_line(error)}")
    return None if ended is None else failure(*ended)


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]


def _shard(
    folder: str, name: str, given: dict[str, Any], shard: str, threads: int
) -> tuple[int, str, str | None] | None:
    """Runs a shard, in a process of a node; errors come back as plain data."""
    os.chdir(folder)
    _linwright.set_threads(threads)
    verb = next(one for one in VERBS if one.verb == name)
    try:
        verb.run(given, shard, False)
    except LinwrightError as error:
        return error.exit_code, error.message, error.hint
    return None
