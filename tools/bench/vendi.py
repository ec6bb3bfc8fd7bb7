"""Times the row selection of `linwright select` against the released algorithm in numpy.

    python tools/bench/vendi.py --threads 1 --record RECORD.csv
    python tools/bench/vendi.py --threads 2 --large --record RECORD.csv

The released algorithm scores each candidate from the start: the kernel of the chosen rows and the
candidate entry by entry with a function in Python, then its eigenvalues. It is run here for as many
rows as fit into `--seconds`, and both sides must choose the same ones. Its time for 77 rows, a tenth
of 768, is extrapolated: kernel entries of all candidates and steps times the measured time of one,
and eigenvalues of each size times the measured time of one decomposition. The same formula at half
the rows that were run is recorded too, over the time measured there. Of Linwright the seconds of the
selection count that it reports itself. `--large` times Linwright alone on 16384 x 4096, 40 rows, the
size of a layer of GPT-J.
"""

import argparse
import pathlib
import tempfile
import time

import numpy as np
from safetensors.numpy import save_file

import record
from child import run_json

ROWS, COLS, RANK = 768, 3072, 77
# Standard deviation of trained weights of such a width, where kernels are neither zero nor one.
SCALE = 0.02
ROUNDS = 3


def kernel(x, y):
    return np.exp(-np.linalg.norm(x - y) ** 2 / 2)


def score(samples):
    """exp of the entropy of the eigenvalues of K / n, as released."""
    n = len(samples)
    matrix = np.zeros((n, n))
    for i in range(n):
        for j in range(i, n):
            matrix[i, j] = matrix[j, i] = kernel(samples[i], samples[j])
    values = np.linalg.eigvalsh(matrix / n)
    values = values[values > 0.0]
    return np.exp(-(values * np.log(values)).sum())


def released(weight, seconds):
    """Rows chosen before the time is up, and the seconds after each."""
    chosen, times, began = [], [], time.perf_counter()
    while not times or times[-1] < seconds:
        best, pick = 0.0, None
        for row in range(len(weight)):
            value = score(weight[[*chosen, row]])
            if value > best and row not in chosen:
                best, pick = value, row
        chosen.append(pick)
        times.append(time.perf_counter() - began)
    return chosen, times


def entries(rank):
    return sum(ROWS * (t + 1) * (t + 2) // 2 for t in range(rank))


def of_eigenvalues(rank):
    """Seconds of all decompositions, each size timed by itself."""
    total = 0.0
    for size in range(1, rank + 1):
        matrix = np.full((size, size), 0.3) + 0.7 * np.eye(size)
        count = 20
        began = time.perf_counter()
        for _ in range(count):
            np.linalg.eigvalsh(matrix)
        total += ROWS * (time.perf_counter() - began) / count
    return total


def write(path, rows, cols):
    generator = np.random.default_rng(1)
    weight = (SCALE * generator.standard_normal((rows, cols))).astype(np.float32)
    save_file({"weight": weight}, path)
    return weight


def ours(args, path, rank):
    command = [args.binary, "select", path, "--tensor", "weight", "--rank", rank, "--json", "-q",
               "--threads", args.threads]
    return run_json(command).result


def against(args, path, note):
    weight = write(path, ROWS, COLS)
    chosen, times = released(weight, args.seconds)
    rank = len(chosen)
    found = [ours(args, path, rank) for _ in range(ROUNDS)]
    for one in found:
        if one["indices"] != chosen:
            raise SystemExit(f"chosen rows differ: {one['indices']} and {chosen}")
    seconds = [one["seconds"]["selection"] for one in found]
    note(f"{ROWS}x{COLS}, {rank} rows", "released", "selection", "s", times[-1:])
    note(f"{ROWS}x{COLS}, {rank} rows", "linwright", "selection", "s", seconds)

    # The time of a kernel entry is what decompositions leave of the time measured.
    entry = (times[-1] - of_eigenvalues(rank)) / entries(rank)
    earlier = rank // 2
    predicted = entry * entries(earlier) + of_eigenvalues(earlier)
    what = "extrapolated over measured time at half the rows"
    note(f"{ROWS}x{COLS}, {earlier} rows", "released", what, "", [predicted / times[earlier - 1]])
    whole = entry * entries(RANK) + of_eigenvalues(RANK)
    note(f"{ROWS}x{COLS}, {RANK} rows", "released", "selection, extrapolated", "s", [whole])
    seconds = [ours(args, path, RANK)["seconds"]["selection"] for _ in range(ROUNDS)]
    note(f"{ROWS}x{COLS}, {RANK} rows", "linwright", "selection", "s", seconds)
    ratios = [whole / one for one in seconds]
    note(f"{ROWS}x{COLS}, {RANK} rows", "linwright", "extrapolated time over ours", "", ratios)


def large(args, path, note):
    write(path, 16384, 4096)
    found = [ours(args, path, 40) for _ in range(ROUNDS)]
    for part in ("selection", "projection"):
        values = [one["seconds"][part] for one in found]
        note("16384x4096, 40 rows", "linwright", part, "s", values)
    effort = found[0]["effort"]
    share = effort["spectra"] / (effort["spectra"] + effort["excluded"])
    note("16384x4096, 40 rows", "linwright", "share of candidates with a spectrum", "", [share])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default="target/release/linwright")
    parser.add_argument("--threads", default="1")
    parser.add_argument("--seconds", type=float, default=5.0,
                        help="the released algorithm begins no row after so many")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--record", required=True, type=pathlib.Path)
    args = parser.parse_args()
    setting = f"{args.threads} threads"

    def note(model, subject, quantity, unit, values):
        record.append(args.record, "vendi", model, subject, setting, quantity, unit, values)

    with tempfile.TemporaryDirectory() as work:
        path = pathlib.Path(work) / "random.safetensors"
        (large if args.large else against)(args, path, note)


if __name__ == "__main__":
    main()
