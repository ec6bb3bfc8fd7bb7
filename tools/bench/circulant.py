"""Times products of diagonals and circulants against the number of features, as mixes of a flow.

    python tools/bench/circulant.py --record RECORD.csv
    python tools/bench/circulant.py --record RECORD.csv --features 96,192 --factors 2 --rounds 1

Records, for each number of features and each number m of diagonals, how long `--rows` rows in f32
take through the transforms, through their inverse, and through a dense product of the same program,
and how long the inverse as a matrix and the log-determinant take. Beside them, what PyTorch takes
for `linalg.inv` and `linalg.slogdet` of a dense matrix, and for a PLU layer: its log-determinant is
a sum of logarithms, its inverse two triangular solves. All on `--threads` threads; rounds alternate
between both programs. Prints a Markdown table of medians and ratios.
"""

import argparse
import statistics
import time

import torch

import child
import record


def run_linwright(args, features, factors):
    """Milliseconds by pass, the dense product among them."""
    operator = f"{{kind: circulant_diagonal, factors: {factors}}}"
    bench = child.run_json([
        args.linwright, "bench", "operators", operator, "--dims", features, "--rows", args.rows,
        "--rounds", args.calls, "--passes", "forward,inverse,dense-inverse,log-det", "--threads",
        args.threads, "--json", "--quiet", "--no-memory"]).result
    own, dense = (next(entry for entry in bench["results"] if (entry["label"] == "dense") == is_dense)
                  for is_dense in (False, True))
    times = {of["pass"]: of["milliseconds"]["median"] for of in own["passes"]}
    times["dense"] = next(of["milliseconds"]["median"] for of in dense["passes"]
                          if of["pass"] == "forward")
    return times


def median_time(args, call):
    """Median milliseconds of a call."""
    times = []
    for _ in range(args.calls + 2):
        began = time.perf_counter()
        call()
        times.append(1e3 * (time.perf_counter() - began))
    return statistics.median(times[2:])


def run_torch(args, features):
    """Milliseconds by name."""
    generator = torch.Generator().manual_seed(features)
    matrix = torch.randn(features, features, generator=generator) / features**0.5
    rows = torch.randn(features, args.rows, generator=generator)
    left = torch.tril(matrix, -1) * 0.1 + torch.eye(features)
    right = torch.triu(matrix, 1) * 0.1 + torch.diag(1 + matrix.diagonal().abs())
    solve = torch.linalg.solve_triangular
    return {
        "inv": median_time(args, lambda: torch.linalg.inv(matrix)),
        "slogdet": median_time(args, lambda: torch.linalg.slogdet(matrix)),
        "PLU log-det": median_time(args, lambda: right.diagonal().abs().log().sum()),
        "PLU solve": median_time(args, lambda: solve(
            right, solve(left, rows, upper=False, unitriangular=True), upper=True)),
    }


def rounds_of(args, features):
    """Times of all rounds: PyTorch's by name, and ours by number of factors and pass."""
    theirs, ours = {}, {}
    for _ in range(args.rounds):
        for name, value in run_torch(args, features).items():
            theirs.setdefault(name, []).append(value)
        for factors in args.factors:
            for name, value in run_linwright(args, features, factors).items():
                ours.setdefault((factors, name), []).append(value)
    return theirs, ours


def ratio(over, under):
    """Median of the ratios of rounds."""
    return statistics.median(a / b for a, b in zip(over, under, strict=True))


def measured(args, features):
    """Records one number of features, and gives the rows of its table."""
    theirs, ours = rounds_of(args, features)
    setting = f"{features} features, {args.rows} rows, {args.threads} threads"

    def add(subject, quantity, unit, values):
        record.append(args.record, "circulant", "random parameters", subject, setting, quantity, unit,
                      values)

    for name, values in theirs.items():
        add("torch", name, "ms", values)
    rows = []
    for factors in args.factors:
        own = {name: values for (of, name), values in ours.items() if of == factors}
        for name, values in own.items():
            add("linwright", f"m = {factors}, {name}", "ms", values)
        pairs = {"apply": (own["dense"], own["forward"]),
                 "inverse": (theirs["inv"], own["dense-inverse"]),
                 "log-det": (theirs["slogdet"], own["log-det"])}
        for name, (over, under) in pairs.items():
            add("ratio", f"m = {factors}, {name}", "x", [a / b for a, b in zip(over, under)])
        ratios = " | ".join(f"{ratio(*pair):.3g}" for pair in pairs.values())
        medians = " | ".join(f"{statistics.median(own[name]):.3g}"
                             for name in ("dense", "forward", "inverse", "dense-inverse", "log-det"))
        rows.append(f"| {features} | {factors} | {medians} | {ratios} |")
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", required=True, help="CSV file that the times are appended to")
    parser.add_argument("--linwright", default="linwright")
    parser.add_argument("--features", default="12,24,48,96,192,256,384,768")
    parser.add_argument("--factors", default="2,3,4")
    parser.add_argument("--rows", type=int, default=1024)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--calls", type=int, default=9, help="calls in a round, whose median counts")
    args = parser.parse_args()
    args.factors = [int(number) for number in args.factors.split(",")]
    torch.set_num_threads(args.threads)
    lines = ["| features | m | dense | apply | apply inverse | inverse matrix | log-det | "
             "dense / apply | torch inv / inverse | torch slogdet / log-det |",
             "| --: | --: | --: | --: | --: | --: | --: | --: | --: | --: |"]
    for features in map(int, args.features.split(",")):
        lines += measured(args, features)
    print("\n".join(lines))


if __name__ == "__main__":
    main()
