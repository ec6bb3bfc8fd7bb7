"""Times `linwright collapse` against the package neural-collapse, and a language model against its forward pass.

    python tools/bench/collapse.py --package DIR --threads 1 --record RECORD.csv
    python tools/bench/collapse.py --model MODEL --text TEXT --threads 2 --record RECORD.csv

DIR holds a checkout of https://github.com/rhubarbwu/neural-collapse (commit c05a0b8), whose folder
`neural_collapse` is imported. Both sides read the same random features of 29,233 classes and 512
features, the numbers of "linguistic collapse". Of the package the passes for means and for variances
by class (`traces`), and for the pooled covariance as well (`scatter`), are timed over batches of 512
rows, in turns with Linwright on all rows, reading included
(`crates/collapse/examples/collapse_times.rs`); what a row costs is compared, since all batches cost the
package the same. Then the class-distance normalised variance (CDNV) of `--pairs` classes of 256
features, and with `--sizes` the sums with other numbers of classes and features.

MODEL is a checkpoint such as `random_llama.py OUT --shape 100m --tokens 16384` makes with its text. One
run says how long the layers took and how long the sums; memory is the peak of a run on one layer.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

import record
from child import f32_bytes, run_json

CLASSES, FEATURES, BATCH = 29233, 512, 512
PAIR_FEATURES = 256
# Classes and features of the further sizes.
SIZES = ((10, 512), (1000, 64), (1000, 512), (1000, 2048), (10000, 512))


def data(rows, classes, features):
    generator = np.random.default_rng(1)
    x = generator.standard_normal((rows, features), dtype=np.float32)
    labels = generator.integers(0, classes, rows)
    # Every class has a sample.
    labels[: min(rows, classes)] = np.arange(min(rows, classes))
    generator.shuffle(labels)
    return x, labels.astype(np.int64)


def package(x, labels, classes, features, batches):
    """Seconds of a batch for means, variances by class and covariance."""
    import torch
    from neural_collapse.accumulate import CovarAccumulator, MeanAccumulator, VarNormAccumulator

    means = MeanAccumulator(classes, features)
    spans = [slice(i * BATCH, (i + 1) * BATCH) for i in range(batches)]
    parts = [(torch.from_numpy(x[span]), torch.from_numpy(labels[span])) for span in spans]

    def timed(work):
        # Once before, so that what is allocated is there.
        work(*parts[0])
        began = time.perf_counter()
        for part in parts:
            work(*part)
        return (time.perf_counter() - began) / batches

    of_means = timed(means.accumulate)
    centres, _ = means.compute()
    norms, covariance = VarNormAccumulator(classes, features), CovarAccumulator(classes, features)
    of_norms = timed(lambda x, y: norms.accumulate(x, y, centres))
    of_covariance = timed(lambda x, y: covariance.accumulate(x, y, centres))
    return of_means, of_norms, of_covariance


def package_pairs(x, labels, classes, rounds):
    import torch
    from neural_collapse.accumulate import MeanAccumulator, VarNormAccumulator
    from neural_collapse.measure import variability_cdnv

    means = MeanAccumulator(classes, PAIR_FEATURES)
    x, labels = torch.from_numpy(x), torch.from_numpy(labels)
    means.accumulate(x, labels)
    centres, _ = means.compute()
    norms = VarNormAccumulator(classes, PAIR_FEATURES)
    norms.accumulate(x, labels, centres)
    variances, _ = norms.compute()
    seconds, value = [], 0.0
    for _ in range(rounds):
        began = time.perf_counter()
        value = variability_cdnv(variances, centres, tile_size=64)
        seconds.append(time.perf_counter() - began)
    return seconds, float(value)


def ours(args, path, kind):
    """Seconds of `crates/collapse/examples/collapse_times.rs`, and what else it says."""
    command = [args.example, path, args.threads, kind]
    found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return float(np.median(found["seconds"])), found


def sums(args, note, work, classes, features, rounds):
    """Sums of both in turns: microseconds a row, and their ratio."""
    from safetensors.numpy import save_file

    path = work / "features.safetensors"
    rows = max(args.bytes // (4 * features), args.batches * BATCH)
    x, labels = data(rows, classes, features)
    save_file({"features": x, "labels": labels}, path)
    what = f"K={classes}, d={features}"
    theirs, own = {"traces": [], "scatter": []}, {"traces": [], "scatter": []}
    for _ in range(rounds):
        parts = package(x, labels, classes, features, args.batches)
        for name, count in (("traces", 2), ("scatter", 3)):
            theirs[name].append(1e6 * sum(parts[:count]) / BATCH)
            own[name].append(1e6 * ours(args, path, name)[0] / rows)
    for name in ("traces", "scatter"):
        note(what, "neural-collapse", f"sums, {name}", "us/row", theirs[name])
        note(what, "linwright", f"sums, {name}, {rows} rows", "us/row", own[name])
        ratios = [slow / fast for slow, fast in zip(theirs[name], own[name])]
        note(what, "linwright", f"times faster, {name}", "", ratios)


def pairs(args, note, work):
    from safetensors.numpy import save_file

    path = work / "pairs.safetensors"
    x, labels = data(4 * args.pairs, args.pairs, PAIR_FEATURES)
    save_file({"features": x, "labels": labels}, path)
    what = f"K={args.pairs}, d={PAIR_FEATURES}"
    theirs, own = [], []
    for _ in range(args.rounds):
        seconds, value = package_pairs(x, labels, args.pairs, 1)
        theirs += seconds
        median, found = ours(args, path, "pairs")
        own.append(median)
        if abs(found["mean"] / value - 1) > 1e-4:
            raise SystemExit(f"cdnv_mean differs: {found['mean']} and {value}")
    note(what, "neural-collapse", "cdnv", "s", theirs)
    note(what, "linwright", "cdnv", "s", own)
    note(what, "linwright", "times faster, cdnv", "", [a / b for a, b in zip(theirs, own)])


def model(args, note):
    """Share of the time of a pass that the layers take, and memory of one layer beside weights."""
    name = pathlib.Path(args.model).name
    shares, with_baselines = [], []
    for _ in range(args.rounds):
        for shares_of, more in ((shares, ["--no-baselines"]), (with_baselines, [])):
            command = [args.binary, "collapse", "lm", args.model, "--text", args.text,
                       "--min-count", args.min_count, "--resamples", "0", "--json", "-q", "--threads",
                       args.threads, "--num-tokens", args.num_tokens, *more]
            found = run_json(command).result
            seconds = found["seconds"]
            shares_of.append(seconds["model"] / (seconds["model"] + seconds["sums"]))
    what = f"{name}, K={found['classes_kept']}, {found['contexts']} contexts"
    note(what, "linwright", "speed / speed of the layers alone", "", shares)
    note(what, "linwright", "speed / speed of the layers alone, with baselines", "", with_baselines)


def memory(args, note):
    name = pathlib.Path(args.model).name
    command = [args.binary, "collapse", "lm", args.model, "--text", args.text, "--layers", "0",
               "--min-count", "1", "--resamples", "0", "--json", "-q", "--threads", args.threads]
    for label, more in (("", ["--no-baselines"]), (", with baselines", [])):
        cost = run_json([*command, *more])
        what = f"{name}, K={cost.result['classes_kept']}, d={cost.result['layers'][0]['features']}"
        note(what, "linwright", f"peak memory of two places{label}", "MB", [cost.peak_bytes / 1e6])
    note(what, "linwright", "weights in f32", "MB", [f32_bytes(args.model) / 1e6])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default="target/release/linwright")
    parser.add_argument("--example", default="target/release/examples/collapse_times")
    parser.add_argument("--package", type=pathlib.Path)
    parser.add_argument("--model")
    parser.add_argument("--text")
    parser.add_argument("--min-count", type=int, default=1, help="contexts of a class, of --model")
    parser.add_argument("--num-tokens", default="1000000000")
    parser.add_argument("--memory", action="store_true", help="of one layer, instead of speed")
    parser.add_argument("--sizes", action="store_true", help="also other classes and features")
    parser.add_argument("--threads", default="1")
    parser.add_argument("--bytes", type=int, default=1 << 30, help="of the features of Linwright")
    parser.add_argument("--batches", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=1500)
    parser.add_argument("--record", required=True, type=pathlib.Path)
    args = parser.parse_args()
    setting = f"{args.threads} threads"

    def note(model, subject, quantity, unit, values):
        record.append(args.record, "collapse", model, subject, setting, quantity, unit, values)

    if args.model:
        (memory if args.memory else model)(args, note)
        return
    import torch

    sys.path.insert(0, str(args.package))
    torch.set_num_threads(int(args.threads))
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        sums(args, note, work, CLASSES, FEATURES, args.rounds)
        pairs(args, note, work)
        for classes, features in SIZES if args.sizes else ():
            sums(args, note, work, classes, features, 1)


if __name__ == "__main__":
    main()
