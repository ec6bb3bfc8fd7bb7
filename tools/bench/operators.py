"""Times operators against PyTorch's dense layers, in rounds that alternate both programs.

    python tools/bench/operators.py --record RECORD.csv
    python tools/bench/operators.py --record RECORD.csv --quick --rounds 1

Prints a Markdown table of every target: what Linwright took, what the other side took, how many
times faster that is, and the target. Each round starts `linwright bench operators --json` for each
group of targets, then PyTorch in a process of its own for each allocator; ratios are taken within
a round, and their median counts. Linwright compares each answer with its oracle before it times.

PyTorch runs with the C library's allocator as it is, with `--tuned` also told to keep memory
instead of giving it back, and with `--preload LIBRARY` (mimalloc, jemalloc, tcmalloc) also under
that allocator. A target counts against the fastest of them.
"""

import argparse
import dataclasses
import os
import pathlib
import statistics
import sys

import child
import record

HERE = pathlib.Path(__file__).parent
TUNED = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 36),
         "MALLOC_ARENA_MAX": "1"}
ROTOR = "rotor"
NETWORK = "rotor_network"
BH2 = "{kind: block_hadamard, depth: 2}"


@dataclasses.dataclass(frozen=True)
class Target:
    """One line of the table."""

    what: str
    # Operator, features, rows, and the pass that is timed.
    operator: str
    features: int
    rows: int
    timed: str
    # What is divided by it: a figure of PyTorch.
    other: str
    # How many times faster at least, where that is asked for, and what would be good.
    factor: float | None
    aim: float | None = None
    # Type of numbers on our side.
    dtype: str = "f32"

    def key(self):
        """What one start of linwright times."""
        return self.operator, self.features, self.rows, self.dtype

    def passes(self):
        """Passes of `linwright bench operators`, whose times are added."""
        return self.timed.split(" and ")


def targets(args):
    """Every target."""
    def cd(factors):
        return f"{{kind: circulant_diagonal, factors: {factors}}}"

    return [
        Target("double rotor, forward", ROTOR, 2048, 4096, "forward", "forward f32 2048", 8, 15),
        Target("double rotor, forward", ROTOR, 2048, 4096, "forward", "forward bf16 2048", 2, 3),
        Target("double rotor, forward", ROTOR, 8192, 4096, "forward", "forward f32 8192", 10),
        Target("double rotor, forward", ROTOR, 8192, 4096, "forward", "forward bf16 8192", 2.5),
        Target("double rotor, forward and backward", ROTOR, 2048, 4096, "forward and backward",
               "forward and backward f32 2048", None),
        Target("rotor network, forward", NETWORK, 2048, 4096, "forward", "forward f32 2048", 1.3),
        Target("rotor network, training step", NETWORK, 2048, 256, "training",
               "training f32 2048", 1.0),
        Target("rotor, training step, against the layer of an algebra package", ROTOR, 512, 256,
               "training", "algebra training f32 512", 300),
        Target("BH2, forward", BH2, 2048, 4096, "forward", "forward f32 2048", 8),
        Target("CD-2, forward", cd(2), 2048, 4096, "forward", "forward f32 2048", 10),
        *(Target(f"CD-{m}, {what}", cd(m), 96, 96, timed, f"{other} {dtype} 96", factor,
                 dtype=dtype)
          for what, timed, other, factor in (("inverse", "dense-inverse", "inv", 5),
                                             ("inverse of 96 rows", "inverse", "inv", None),
                                             ("log-det", "log-det", "slogdet", 10))
          for dtype in ("f32", "f64") for m in args.cd_factors),
    ]


def quick(target):
    """The same with few features and rows, to try the script."""
    if target.features == 96:
        return target
    features = {512: 64, 2048: 128, 8192: 256}[target.features]
    other = target.other.replace(str(target.features), str(features))
    return dataclasses.replace(target, features=features, rows=64, other=other)


def run_linwright(args, operator, features, rows, dtype, passes):
    """Milliseconds of each pass, those of the dense operator, and peak bytes of a forward pass."""
    memory = [] if "forward" in passes else ["--no-memory"]
    bench = child.run_json([
        args.linwright, "bench", "operators", operator, "--dims", features, "--rows", rows,
        "--rounds", args.calls, "--passes", ",".join(sorted(passes)), "--dtype", dtype,
        "--threads", args.threads, "--seed", args.seed, "--json", "--quiet", *memory]).result
    if bench["skipped"]:
        sys.exit(f"{operator}, {features} features: {bench['skipped'][0]['reason']}")

    def times(entry):
        return {of["pass"]: of["milliseconds"]["median"] for of in entry["passes"]}

    own = bench["results"][0]
    dense = next(entry for entry in bench["results"] if entry["label"] == "dense")
    return times(own), times(dense), own["forward_peak_bytes"]


def run_torch(args, plan, environment):
    """Milliseconds by name."""
    def sizes(kind, prefix):
        found = {}
        for target in plan:
            if target.other.startswith(f"{prefix} "):
                found.setdefault(target.rows, set()).add(target.features)
        return [word for rows, features in found.items()
                for word in (kind, f"{rows}:{','.join(map(str, sorted(features)))}")]

    linalg = {t.features for t in plan if t.other.startswith(("inv ", "slogdet "))}
    return child.run_json(
        [args.python, HERE / "torch_linear.py", "--threads", args.threads, "--seed", args.seed,
         *sizes("--forward", "forward f32"), *sizes("--forward-bf16", "forward bf16"),
         *sizes("--forward-backward", "forward and backward"),
         *sizes("--training", "training"), *sizes("--algebra", "algebra training"),
         *(["--linalg", *sorted(linalg)] if linalg else [])],
        environment | {"OMP_NUM_THREADS": str(args.threads)}).result["milliseconds"]


def allocators(args):
    """Environment of PyTorch by the name of its allocator."""
    found = {"plain allocator": {}}
    if args.tuned:
        found["tuned allocator"] = TUNED
    for library in args.preload:
        if not os.path.exists(library):
            sys.exit(f"--preload {library}: there is no such file")
        found[pathlib.Path(library).name] = {"LD_PRELOAD": library}
    return found


def measure(args, plan):
    """Rounds: operator figures by `Target.key`, PyTorch's by allocator."""
    groups = {}
    for target in plan:
        groups.setdefault(target.key(), set()).update(target.passes())
    rounds = []
    for place in range(args.rounds):
        print(f"round {place + 1} of {args.rounds}", file=sys.stderr, flush=True)
        ours = {key: run_linwright(args, *key, passes) for key, passes in groups.items()}
        theirs = {name: run_torch(args, plan, environment)
                  for name, environment in allocators(args).items()}
        rounds.append((ours, theirs))
    return rounds


def compare(target, rounds):
    """Our milliseconds, the other side's name and milliseconds, ratios: one for each round."""
    own = [milliseconds(target, ours, 0) for ours, _ in rounds]
    by_allocator = {name: [theirs[name][target.other] for _, theirs in rounds]
                    for name in rounds[0][1]}
    allocator = min(by_allocator, key=lambda name: statistics.median(by_allocator[name]))
    name, other = f"torch {target.other}, {allocator}", by_allocator[allocator]
    return own, name, other, [b / a for a, b in zip(own, other, strict=True)]


def milliseconds(target, ours, which):
    """Those of a target's passes in one round: of the operator (0) or of the dense one (1)."""
    return sum(ours[target.key()][which][timed] for timed in target.passes())


def against_dense(target, rounds):
    """How many times faster than our dense operator in the same process, where that has the pass."""
    dense = rounds[0][0][target.key()][1]
    if any(timed not in dense for timed in target.passes()):
        return ""
    ratios = [milliseconds(target, ours, 1) / milliseconds(target, ours, 0) for ours, _ in rounds]
    return f"{statistics.median(ratios):.2f}"


def table(args, plan, rounds):
    """Prints the table and writes the record; gives the targets that were missed."""
    missed = []
    written = set()
    lines = ["| what | type | features | rows | ms | against | ms | times | lowest to highest | "
             "times our dense | target | |",
             "| --- | --- | --: | --: | --: | --- | --: | --: | --: | --: | --: | --- |"]
    for target in plan:
        own, name, other, ratios = compare(target, rounds)
        ratio = statistics.median(ratios)
        met = target.factor is None or ratio >= target.factor
        wanted = "" if target.factor is None else f"{target.factor:g}"
        wanted += f" (aim {target.aim:g})" if target.aim else ""
        verdict = "" if target.factor is None else "met" if met else "missed"
        lines.append(
            f"| {target.what} | {target.dtype} | {target.features} | {target.rows} | "
            f"{statistics.median(own):.4g} | {name} | {statistics.median(other):.4g} | "
            f"{ratio:.2f} | {min(ratios):.2f} to {max(ratios):.2f} | "
            f"{against_dense(target, rounds)} | {wanted} | {verdict} |")
        if not met:
            missed.append(f"{target.what} in {target.dtype} against {name}")
        setting = f"{target.features} features, {target.rows} rows, {args.threads} threads"
        if target.dtype != "f32":
            setting += f", {target.dtype}"
        for subject, quantity, unit, values in (
                ("linwright", target.what, "ms", own),
                (name, target.timed, "ms", other),
                (f"linwright against {name}", target.what, "1", ratios)):
            line = (subject, setting, quantity, unit)
            if line not in written:
                written.add(line)
                record.append(args.record, "operators", "random parameters", *line, values)
    lines += memory(args, rounds, missed)
    print("\n".join(["", *lines]))
    return missed


def memory(args, rounds, missed):
    """Lines about the peak of forward passes beside input and output."""
    allowed = 2.0 * args.threads
    lines = ["", "Peak of a forward pass beside input, output and operator, at most "
             f"{allowed:g} MB:", "", "| operator | features | rows | MB | |",
             "| --- | --: | --: | --: | --- |"]
    for key in rounds[0][0]:
        peaks = [ours[key][2] for ours, _ in rounds]
        if None in peaks:
            continue
        operator, features, rows, _ = key
        values = [peak / 1e6 for peak in peaks]
        met = statistics.median(values) <= allowed
        lines.append(f"| {operator} | {features} | {rows} | {statistics.median(values):.2f} | "
                     f"{'met' if met else 'missed'} |")
        if not met:
            missed.append(f"memory of {operator}, {features} features")
        record.append(args.record, "operators", "random parameters", "linwright",
                      f"{features} features, {rows} rows, {args.threads} threads",
                      f"peak memory of {operator}", "MB", values)
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=3,
                        help="rounds inside each start of linwright")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--linwright", default="target/release/linwright")
    parser.add_argument("--python", default=sys.executable, help="an interpreter that has torch")
    parser.add_argument("--tuned", action="store_true", help="also with a tuned C allocator")
    parser.add_argument("--preload", nargs="*", default=[], metavar="LIBRARY")
    parser.add_argument("--cd-factors", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--only", help="targets whose name contains this")
    parser.add_argument("--skip", nargs="+", default=[], metavar="WORD",
                        help="no targets whose name or other side contains one of these: bf16, 8192")
    parser.add_argument("--quick", action="store_true", help="small sizes, to try the script")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a target is missed")
    args = parser.parse_args()
    plan = [target for target in targets(args) if (args.only or "") in target.what
            and not any(word in f"{target.what} {target.other}" for word in args.skip)]
    if not plan:
        sys.exit("--only and --skip leave no target")
    plan = [quick(target) for target in plan] if args.quick else plan
    missed = table(args, plan, measure(args, plan))
    sys.exit(f"missed: {'; '.join(missed)}" if missed and args.strict else 0)


if __name__ == "__main__":
    main()
