"""Compares the speed of perplexity evaluation with that of transformers.

    python tools/bench/evaluate.py MODEL TEXT --name "random Llama" --record RECORD.csv

Both score the same windows with the same number of threads; their figures must agree to 1e-4
before anything is timed. The runs alternate, so that what else the machine does meets all of them.
transformers is run with several numbers of windows at a time, and with the C library's allocator
as it is and tuned to keep memory instead of giving it back to the kernel after each operation.
CPU seconds of Linwright are those of the whole process, start and loading included; those of
transformers are of the scoring alone.
"""

import argparse
import pathlib
import statistics
import sys

import child
import record

HERE = pathlib.Path(__file__).parent
TUNED = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 36), "MALLOC_ARENA_MAX": "1"}


def run_linwright(args):
    """Tokens a second, CPU seconds, peak bytes, nats per token, tokens."""
    cost = child.run_json([
        args.linwright, "eval", args.model, "--text", args.text, "--window", args.window,
        "--bos", "never", "--threads", args.threads, "--json", "--quiet"])
    own = cost.result["linwright"]
    tokens = own["tokens_counted"]
    nll = cost.result["results"]["text"]["nll_nats_per_token,none"]
    return tokens / own["timing"]["evaluate_seconds"], cost.cpu_seconds, cost.peak_bytes, nll, tokens


def run_transformers(args, batch, tuned):
    """The same."""
    cost = child.run_json(
        [sys.executable, HERE / "transformers_perplexity.py", args.model, args.text, "--window",
         args.window, "--threads", args.threads, "--batch", batch],
        (TUNED if tuned else {}) | {"OMP_NUM_THREADS": str(args.threads)})
    own = cost.result
    tokens = own["tokens_counted"]
    return (tokens / own["seconds"], own["cpu_seconds"], cost.peak_bytes, own["nll_per_token"],
            tokens)


def subjects(args):
    """Subject, setting and a function that measures once."""
    yield "linwright", "", lambda: run_linwright(args)
    for batch in args.batches:
        for tuned in (False, True):
            setting = f"batch {batch}, {'tuned' if tuned else 'plain'} allocator"
            yield "transformers", setting, lambda b=batch, t=tuned: run_transformers(args, b, t)


def check_equal(runs):
    """Stops if figures differ by more than 1e-4, before anything is timed."""
    nll, tokens = next(iter(runs.values()))[3:]
    for subject, run in runs.items():
        if run[4] != tokens or abs(run[3] - nll) > 1e-4 * abs(nll):
            sys.exit(f"{subject}: {run[3]} nats over {run[4]} tokens, not {nll} over {tokens}")
    print(f"all agree: {nll:.6f} nats a token over {tokens} tokens")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("text")
    parser.add_argument("--name", required=True, help="the model in the record")
    parser.add_argument("--record", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--window", type=int, default=512)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--linwright", default="target/release/linwright")
    args = parser.parse_args()
    measures = {(subject, setting): measure for subject, setting, measure in subjects(args)}
    check_equal({key: measure() for key, measure in measures.items()})
    rounds = [{key: measure() for key, measure in measures.items()} for _ in range(args.rounds)]

    def write(subject, setting, quantity, unit, values):
        record.append(args.record, "evaluate", args.name, subject, setting, quantity, unit, values)

    speeds = {}
    for key in measures:
        speed, cpu, peak, *_ = zip(*(of_round[key] for of_round in rounds), strict=True)
        speeds[key] = speed
        write(*key, "speed", "tokens/s", speed)
        write(*key, "cpu", "s", cpu)
        write(*key, "peak memory", "MB", [p / 1e6 for p in peak])
    ours = speeds.pop(("linwright", ""))
    for (_, setting), theirs in speeds.items():
        ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
        write("linwright / transformers", setting, "speed ratio", "1", ratios)
    best = max(statistics.median(theirs) for theirs in speeds.values())
    print(f"ratio of medians against the fastest setting: {statistics.median(ours) / best:.3f}")


if __name__ == "__main__":
    main()
