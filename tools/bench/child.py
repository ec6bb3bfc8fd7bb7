"""Runs a program and says what it cost: seconds by the clock, seconds of CPU, peak memory."""

import dataclasses
import json
import os
import pathlib
import subprocess
import tempfile
import time


@dataclasses.dataclass(frozen=True)
class Cost:
    """What a finished program cost, and the JSON it printed."""

    wall_seconds: float
    cpu_seconds: float
    # Largest resident set, as the kernel counts it.
    peak_bytes: int
    result: dict


def run_json(command, environment=None):
    """Runs a program that prints JSON on stdout.

    Raises `RuntimeError` with what it said on stderr if it fails.
    """
    began = time.monotonic()
    # Progress on stderr would fill a pipe while stdout is read.
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            [str(word) for word in command],
            stdout=subprocess.PIPE,
            stderr=said,
            env=os.environ | (environment or {}),
            text=True,
        )
        stdout = process.stdout.read()
        # Unlike Popen.wait this gives the usage of the one child.
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.monotonic() - began
        said.seek(0)
        stderr = said.read()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: exit {process.returncode}\n{stderr}")
    return Cost(
        wall_seconds=wall,
        cpu_seconds=usage.ru_utime + usage.ru_stime,
        peak_bytes=usage.ru_maxrss * 1024,
        result=json.loads(stdout),
    )


def f32_bytes(model):
    """Bytes of the weights of a checkpoint directory once they are f32."""
    sizes = {"F32": 1.0, "BF16": 2.0, "F16": 2.0}
    total = 0
    for path in pathlib.Path(model).glob("*.safetensors"):
        with open(path, "rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        header.pop("__metadata__", None)
        for tensor in header.values():
            start, end = tensor["data_offsets"]
            total += int((end - start) * sizes[tensor["dtype"]])
    return total
