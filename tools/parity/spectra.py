"""Compares the spectra that Linwright finds with those of numpy in double precision.

    python tools/parity/spectra.py MODEL.safetensors
    python tools/parity/spectra.py MATRIX.dat... --rows 768 --cols 768

Every figure is computed here again from its definition in docs/math.md. A raw matrix is big-endian
f32 without header; it is written into a safetensors file first.
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

RESOLUTION = 1e-7
FIGURE_TOLERANCE = 1e-6
LEAST_TAIL = 5


def entropy(shares):
    shares = shares[shares > 0]
    return float(-(shares * np.log(shares)).sum())


def law_median(beta):
    """Median of the law of Marchenko and Pastur, by bisection of a sum over its density."""
    low, high = (1 - math.sqrt(beta)) ** 2, (1 + math.sqrt(beta)) ** 2
    # In x = 1 + beta + 2 sqrt(beta) cos t the density has no roots at its ends.
    t = (np.arange(2_000_000) + 0.5) * (math.pi / 2_000_000)
    x = 1 + beta + 2 * math.sqrt(beta) * np.cos(t)
    share = np.cumsum(2 / math.pi * np.sin(t) ** 2 / x) * (math.pi / 2_000_000)
    median = x[np.searchsorted(share, 0.5)]
    assert low <= median <= high
    return float(median)


def power_law(values):
    """Exponent and size of the best tail of falling positive values."""
    best = (math.inf, None, 0)
    logs = np.log(values)
    for k in range(LEAST_TAIL, len(values) + 1):
        if k < len(values) and logs[k] == logs[k - 1]:
            continue
        excess = (logs[:k] - logs[k - 1]).sum()
        if excess <= 0:
            continue
        alpha = 1 + k / excess
        above = np.exp((1 - alpha) * (logs[:k] - logs[k - 1]))
        steps = np.arange(k)
        distance = max(abs(above - steps / k).max(), abs(above - (steps + 1) / k).max())
        if distance < best[0]:
            best = (distance, alpha, k)
    return best[1], best[2]


def vendi(w):
    norms = np.linalg.norm(w, axis=1)
    rows = w[norms > 0] / norms[norms > 0][:, None]
    s = np.linalg.svd(rows, compute_uv=False)
    return math.exp(entropy(s * s / len(rows)))


def figures(w):
    w = w.astype(np.float64)
    m, n = w.shape
    s = np.linalg.svd(w, compute_uv=False)
    squares = s * s
    small, large = min(m, n), max(m, n)
    energy = np.cumsum(squares) / squares.sum()
    sigma = float(np.median(s)) / math.sqrt(large * law_median(small / large))
    edge = sigma * (math.sqrt(m) + math.sqrt(n))
    alpha, tail = power_law(squares[s > RESOLUTION * s[0]])
    return s, {
        "frobenius_norm": math.sqrt(squares.sum()),
        "largest": float(s[0]),
        "stable_rank": squares.sum() / squares[0],
        "effective_rank": math.exp(entropy(s / s.sum())),
        "rank_90": int(np.searchsorted(energy, 0.90)) + 1,
        "rank_95": int(np.searchsorted(energy, 0.95)) + 1,
        "rank_99": int(np.searchsorted(energy, 0.99)) + 1,
        "break_even_rank": m * n // (m + n),
        "noise.sigma": sigma,
        "noise.edge": edge,
        "noise.above": int((s > edge).sum()),
        "power_law.alpha": alpha,
        "power_law.tail": tail,
        "vendi_score": vendi(w),
    }


def compare(name, w, record):
    s, expected = figures(w)
    worst = max(abs(value - s[place - 1]) / s[0] for place, value in record["curve"])
    faults = [] if worst <= RESOLUTION else [f"singular values differ by {worst:.1e} of the largest"]
    for key, value in expected.items():
        found = record
        for part in key.split("."):
            found = found[part]
        whole = isinstance(value, int)
        if (found != value) if whole else abs(found - value) > FIGURE_TOLERANCE * abs(value):
            faults.append(f"{key}: {found}, expected {value}")
    shown = ", ".join(f"{key} {expected[key]:.6g}" for key in ("largest", "rank_90", "rank_99"))
    print(f"{'differs' if faults else 'agrees'}  {name}: {shown}; values to {worst:.1e}")
    for fault in faults:
        print(f"    {fault}")
    return not faults


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--cols", type=int)
    parser.add_argument("--binary", default="target/release/linwright")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        path = args.files[0]
        if path.suffix != ".safetensors":
            shape = (args.rows, args.cols)
            load = lambda file: np.fromfile(file, ">f4").reshape(shape).astype("<f4")
            path = pathlib.Path(work) / "matrices.safetensors"
            save_file({f"{f.parent.name}.{f.stem}": load(f) for f in args.files}, path)
        command = [args.binary, "inspect", str(path), "--spectra", "--no-cache", "--json", "-q"]
        found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        good, count = True, 0
        with safe_open(path, "np") as tensors:
            for tensor in found["tensors"]:
                if tensor["spectrum"] is not None:
                    w = tensors.get_tensor(tensor["name"])
                    good &= compare(tensor["name"], w, tensor["spectrum"])
                    count += 1
    if not count:
        print("no matrix has a spectrum")
    sys.exit(0 if good and count else 1)


if __name__ == "__main__":
    main()
