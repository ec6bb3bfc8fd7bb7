"""Jobs in shards on a cluster of three node processes, of which one is killed in the middle."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import linwright

ray = pytest.importorskip("ray")
from ray.cluster_utils import Cluster  # noqa: E402

import linwright.ray  # noqa: E402

#: Bytes of a node's store of objects, of which these jobs need none.
STORE = 80 << 20
#: Memory that a node says it has.
MEMORY = 2 << 30
#: Files of a run with times, machine and processes.
UNSTABLE = ("measured.json", ".lock", "shard.json")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Three node processes with a core each."""
    # Nodes import the package that is tested.
    home = str(Path(linwright.__file__).parents[1])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [home, os.environ.get("PYTHONPATH")])))
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    node = {"num_cpus": 1, "object_store_memory": STORE, "memory": MEMORY}
    made = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    made.others = [made.add_node(**node), made.add_node(**node)]
    ray.init(address=made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


def contents(folder: str) -> dict[str, bytes]:
    """All files of a run that are the same on every machine."""
    files = [path for path in Path(folder).rglob("*") if path.is_file() and path.name not in UNSTABLE]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_a_node_that_dies_in_the_middle_changes_no_byte(cluster: Any, caplog: pytest.LogCaptureFixture) -> None:
    # Long enough that every shard runs while another one ends.
    sweep = {"model": "pocket", "lname": "fc_in", "rate": [9, 5], "questions": "pocket", "limit": 200}
    whole = linwright.sweep(**sweep, output="whole")
    told: list[tuple[str, int, int]] = []

    def kill_one(step: str, done: int, total: int) -> None:
        told.append((step, done, total))
        if done == 1 and len(cluster.others) == 2:
            # Every core has a shard: one has ended, and the next was started in its place.
            cluster.remove_node(cluster.others.pop(), allow_graceful=False)

    with caplog.at_level(logging.WARNING, logger="linwright"):
        merged = linwright.ray.run(linwright.sweep, shards=4, output="merged", progress=kill_one, **sweep)
    assert "runs again: the node or process of a shard died" in caplog.text
    assert contents("merged") == contents("whole") and "result.json" in contents("whole")
    assert merged.to_dict().keys() == whole.to_dict().keys()
    assert ("4 shards of sweep", 4, 4) in told and len(cluster.others) == 1

    # The same call again finds the shards done.
    shutil.rmtree("merged")
    linwright.ray.run("sweep", shards=4, output="merged", memory_bytes=1 << 28, **sweep)
    assert contents("merged") == contents("whole")

    with pytest.raises(linwright.LinwrightError, match="no/such"):
        linwright.ray.run("evaluate", shards=2, model="pocket", text="no/such.txt", output="c.json", retries=0)


def test_shards_of_a_store_share_it(cluster: Any) -> None:
    lines = [f'{{"text": "Mila lives in a house by the river, and number {i} is hers."}}' for i in range(6)]
    Path("train.jsonl").write_text("\n".join(lines))
    options: dict[str, Any] = {"model": "pocket", "train": "train.jsonl", "compress": "sjlt:64", "shard_rows": 1}
    linwright.attribute.cache(**options, output="whole")
    linwright.ray.run(linwright.attribute.cache, shards=3, memory_bytes=1 << 28, output="store", **options)
    assert contents("store") == contents("whole") and not Path("store.shards").exists()
    computed = linwright.ray.run(linwright.attribute.fisher, shards=2, store="store")
    assert computed.to_dict()["computed"] == 0, "the shards computed all layers"


def test_shards_that_wait_for_each_other_exchange_what_they_find(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"model": "pocket", "calibration": "pocket:num_tokens=4000", "keep": 0.5}
    linwright.compress(**options, output="whole")
    found = linwright.ray.run(linwright.compress, shards=3, memory_bytes=1 << 28, output="out", **options)
    assert contents("out") == contents("whole") and "model.safetensors" in contents("whole")
    assert found.to_dict()["summary"], "the result is that of the first shard"
    monkeypatch.setattr(linwright.ray, "ROOM_SECONDS", 3.0)
    with pytest.raises(linwright.ResourceError, match="4 shards of compress wait for each other"):
        linwright.ray.run(linwright.compress, shards=4, memory_bytes=1 << 28, output="more", **options)


def test_wrong_usage_is_told_before_any_work() -> None:
    with pytest.raises(linwright.UsageError, match="generate is not divided"):
        linwright.ray.run(linwright.generate, shards=2, model="pocket", prompt="Mila", output="a")
    with pytest.raises(linwright.UsageError, match="no output"):
        linwright.ray.run(linwright.evaluate, shards=2, model="pocket", tasks="pocket")
    with pytest.raises(linwright.UsageError, match="shards is 0"):
        linwright.ray.run("evaluate", shards=0, model="pocket", tasks="pocket", output="a.json")
    with pytest.raises(linwright.UsageError, match="'nothing' is no job"):
        linwright.ray.run("nothing", shards=2)
    with pytest.raises(linwright.UsageError, match="remove a.json"):
        linwright.ray.run("evaluate", shards=2, model="pocket", tasks="pocket", output="a.json", force=True)
    with pytest.raises(TypeError, match="unexpected keyword argument 'quesions'"):
        linwright.ray.run("evaluate", shards=2, model="pocket", quesions="pocket", output="a.json")
    with pytest.raises(TypeError, match="gives shard itself"):
        linwright.ray.run("evaluate", shards=2, model="pocket", shard="0/2")
