"""Times sums by class and metrics of `linwright collapse measure` against the package neural-collapse.

    python tools/bench/collapse.py --package DIR --threads 1 --record RECORD.csv

DIR holds a checkout of https://github.com/rhubarbwu/neural-collapse (commit c05a0b8), whose folder
`neural_collapse` is imported. Both sides read the same random features of 29,233 classes and 512
features, the numbers of "linguistic collapse". Of the package the passes for means, for variances by
class (`traces`), and for the pooled covariance as well (`scatter`) are timed over a few batches of
512 rows, which all cost the same, and multiplied; of Linwright the seconds that it reports itself for
all rows, reading included. Metrics: the package's class-distance normalised variance alone, for
`--pairs` classes of 256 features, against all of Linwright's metrics at the same size.
"""

import argparse
import pathlib
import sys
import tempfile
import time

import numpy as np
import torch
from safetensors.numpy import save_file

import record
from child import run_json

CLASSES, FEATURES, BATCH = 29233, 512, 512
PAIR_FEATURES = 256


def data(rows, classes, features):
    generator = np.random.default_rng(1)
    x = generator.standard_normal((rows, features), dtype=np.float32)
    labels = generator.integers(0, classes, rows)
    # Every class has a sample.
    labels[: min(rows, classes)] = np.arange(min(rows, classes))
    return x, labels.astype(np.int64)


def package(x, labels, batches):
    """Seconds of a batch for means, variances by class and covariance."""
    from neural_collapse.accumulate import CovarAccumulator, MeanAccumulator, VarNormAccumulator

    means = MeanAccumulator(CLASSES, FEATURES)
    spans = [slice(i * BATCH, (i + 1) * BATCH) for i in range(batches)]
    parts = [(torch.from_numpy(x[span]), torch.from_numpy(labels[span])) for span in spans]

    def timed(work):
        began = time.perf_counter()
        for part in parts:
            work(*part)
        return (time.perf_counter() - began) / batches

    of_means = timed(means.accumulate)
    centres, _ = means.compute()
    norms, covariance = VarNormAccumulator(CLASSES, FEATURES), CovarAccumulator(CLASSES, FEATURES)
    of_norms = timed(lambda x, y: norms.accumulate(x, y, centres))
    of_covariance = timed(lambda x, y: covariance.accumulate(x, y, centres))
    return of_means, of_norms, of_covariance


def package_pairs(x, labels, classes):
    from neural_collapse.accumulate import MeanAccumulator, VarNormAccumulator
    from neural_collapse.measure import variability_cdnv

    means, norms = MeanAccumulator(classes, PAIR_FEATURES), None
    x, labels = torch.from_numpy(x), torch.from_numpy(labels)
    means.accumulate(x, labels)
    centres, _ = means.compute()
    norms = VarNormAccumulator(classes, PAIR_FEATURES)
    norms.accumulate(x, labels, centres)
    variances, _ = norms.compute()
    began = time.perf_counter()
    value = variability_cdnv(variances, centres, tile_size=64)
    return time.perf_counter() - began, float(value)


def ours(args, path, *more):
    command = [args.binary, "collapse", "measure", "--features", path, "--resamples", "0",
               "--no-baselines", "--json", "-q", "--threads", args.threads, *more]
    return run_json(command).result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default="target/release/linwright")
    parser.add_argument("--package", required=True, type=pathlib.Path)
    parser.add_argument("--threads", default="1")
    parser.add_argument("--rows", type=int, default=100 * BATCH)
    parser.add_argument("--batches", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=1500)
    parser.add_argument("--record", required=True, type=pathlib.Path)
    args = parser.parse_args()
    sys.path.insert(0, str(args.package))
    torch.set_num_threads(int(args.threads))
    setting = f"{args.threads} threads"

    def note(model, subject, quantity, unit, values):
        record.append(args.record, "collapse", model, subject, setting, quantity, unit, values)

    with tempfile.TemporaryDirectory() as work:
        path = pathlib.Path(work) / "features.safetensors"
        x, labels = data(args.rows, CLASSES, FEATURES)
        save_file({"features": x, "labels": labels}, path)
        what = f"K={CLASSES}, d={FEATURES}, {args.rows} rows"
        of_means, of_norms, of_covariance = package(x, labels, args.batches)
        count = args.rows / BATCH
        theirs = {"traces": count * (of_means + of_norms),
                  "scatter": count * (of_means + of_norms + of_covariance)}
        for name, more in (("traces", ["--traces"]), ("scatter", [])):
            found = ours(args, path, *more)
            note(what, "neural-collapse", f"sums, {name}, extrapolated", "s", [theirs[name]])
            note(what, "linwright", f"sums, {name}", "s", [found["seconds"]["sums"]])
            note(what, "linwright", f"times faster, {name}", "",
                 [theirs[name] / found["seconds"]["sums"]])
            note(what, "linwright", f"all metrics, {name}", "s", [found["seconds"]["metrics"]])
        x, labels = data(4 * args.pairs, args.pairs, PAIR_FEATURES)
        save_file({"features": x, "labels": labels}, path)
        what = f"K={args.pairs}, d={PAIR_FEATURES}"
        seconds, value = package_pairs(x, labels, args.pairs)
        found = ours(args, path, "--traces")
        own = found["layers"][0]["metrics"]["cdnv_mean"]
        if abs(own / value - 1) > 1e-4:
            raise SystemExit(f"cdnv_mean differs: {own} and {value}")
        note(what, "neural-collapse", "cdnv", "s", [seconds])
        note(what, "linwright", "all metrics", "s", [found["seconds"]["metrics"]])


if __name__ == "__main__":
    main()
