"""Peak memory of a perplexity evaluation, against the weights in f32 and an allowance.

    python tools/bench/memory.py MODEL TEXT --name "random Llama, 1 GB" --record RECORD.csv

Exits with 1 if the peak is above the weights and the allowance.
"""

import argparse
import sys

import child
import record


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("text")
    parser.add_argument("--name", required=True, help="the model in the record")
    parser.add_argument("--record", required=True)
    parser.add_argument("--allowance", type=float, default=500, help="MB beside the weights")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--linwright", default="target/release/linwright")
    args = parser.parse_args()
    cost = child.run_json([
        args.linwright, "eval", args.model, "--text", args.text, "--bos", "never", "--threads",
        args.threads, "--json", "--quiet"])
    weights = child.f32_bytes(args.model) / 1e6
    beside = cost.peak_bytes / 1e6 - weights

    def write(quantity, unit, value):
        record.append(args.record, "memory of evaluation", args.name, "linwright", "", quantity,
                      unit, [value])

    write("weights in f32", "MB", weights)
    write("peak memory", "MB", cost.peak_bytes / 1e6)
    write("peak beside the weights", "MB", beside)
    write("whole command", "s", cost.wall_seconds)
    sys.exit(f"more than {args.allowance:.0f} MB" if beside > args.allowance else 0)


if __name__ == "__main__":
    main()
