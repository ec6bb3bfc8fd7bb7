"""Times the singular values of `linwright inspect --spectra` against PyTorch on the same matrices.

    python tools/bench/spectra.py --threads 1 --record RECORD.csv
    python tools/bench/spectra.py --read-only --record RECORD.csv

Rounds alternate both programs. Of Linwright the whole process counts, less the same command without
`--spectra`; of PyTorch the calls alone. Both take the values of each matrix twice, as it is and
with rows of length one (for the Vendi score). `--read-only` compares `linwright inspect` without
spectra with `cat FILE > /dev/null` on a file of 1.5 GB, after one reading of each.
"""

import argparse
import pathlib
import sys
import tempfile

import numpy as np
from safetensors.numpy import save_file

import record
from child import run_json

# Rows, columns, matrices in the file, rounds.
SHAPES = ((768, 768, 6, 5), (3072, 768, 3, 5), (2048, 2048, 1, 3), (4096, 11008, 1, 1))
HERE = pathlib.Path(__file__).parent


def write(path, rows, cols, count):
    generator = np.random.default_rng(1)
    draw = lambda: generator.standard_normal((rows, cols), dtype=np.float32)
    save_file({f"layers.{index}.weight": draw() for index in range(count)}, path)


def spectra(args, work):
    for rows, cols, count, rounds in SHAPES:
        path = work / "random.safetensors"
        write(path, rows, cols, count)
        times = {(side, unit): [] for side in ("linwright", "torch") for unit in ("wall", "cpu")}
        ratios = {"wall": [], "cpu": []}
        command = [args.binary, "inspect", path, "--json", "-q", "--threads", args.threads]
        for _ in range(rounds):
            plain = run_json(command)
            full = run_json([*command, "--spectra", "--no-cache"])
            ours = {"wall": full.wall_seconds - plain.wall_seconds,
                    "cpu": full.cpu_seconds - plain.cpu_seconds}
            other = [args.python, HERE / "torch_spectra.py", path, "--threads", args.threads]
            theirs = run_json(other).result
            for unit in ratios:
                times["linwright", unit].append(ours[unit] / (2 * count))
                times["torch", unit].append(theirs[unit] / (2 * count))
                ratios[unit].append(theirs[unit] / ours[unit])
        model, setting = f"{rows}x{cols}", f"{args.threads} threads"
        for (side, unit), values in times.items():
            quantity = f"singular values, {unit} time a matrix"
            record.append(args.record, "spectra", model, side, setting, quantity, "s", values)
        for unit, values in ratios.items():
            quantity = f"{unit} time of torch over linwright"
            record.append(args.record, "spectra", model, "linwright", setting, quantity, "", values)


def reading(args, work):
    path = work / "large.safetensors"
    write(path, 4096, 4096, 24)
    times = {"linwright": [], "cat": []}
    for round in range(args.rounds + 1):
        ours = run_json([args.binary, "inspect", path, "--json", "-q", "--threads", args.threads])
        shell = f"cat {path} > /dev/null && echo null"
        theirs = run_json(["sh", "-c", shell])
        if round > 0:
            times["linwright"].append(ours)
            times["cat"].append(theirs)
    size = path.stat().st_size / 1e9
    for side, costs in times.items():
        for unit in ("wall", "cpu"):
            values = [size / getattr(cost, f"{unit}_seconds") for cost in costs]
            setting = f"{args.threads} threads"
            quantity = f"reading, per second of {unit}"
            record.append(args.record, "inspect", "1.6 GB", side, setting, quantity, "GB/s", values)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", required=True)
    parser.add_argument("--threads", default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--read-only", action="store_true")
    parser.add_argument("--binary", default="target/release/linwright")
    parser.add_argument("--python", default=sys.executable)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        (reading if args.read_only else spectra)(args, pathlib.Path(work))


if __name__ == "__main__":
    main()
