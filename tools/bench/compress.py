"""Time per stage and peak memory of replacing query, key and value of one layer.

    python tools/bench/compress.py MODEL TEXT --name "Llama-3.2-1B's shape" --record RECORD.csv

For a rotor network, low rank and block-Hadamard: capture, fits, ridge regression of the output
projection, saving, loading back and comparing. Exits with 1 if a peak is above the weights in f32
and the allowance.
"""

import argparse
import pathlib
import shutil
import sys

import child
import record

METHODS = {
    "rotor": ("--method", "rotor"),
    "low rank 4": ("--method", "low-rank", "--rank", 4),
    "block-Hadamard": ("--method", "block-hadamard"),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("text")
    parser.add_argument("--name", required=True, help="the model in the record")
    parser.add_argument("--record", required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True, help="directory for results")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--layer", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=20_000)
    parser.add_argument("--allowance", type=float, default=1500, help="MB beside the weights")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--linwright", default="target/release/linwright")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    output = args.work / "compressed"
    weights = child.f32_bytes(args.model) / 1e6
    too_much = []
    for method in args.methods:
        cost = child.run_json([
            args.linwright, "compress", args.model, *METHODS[method], "--layers", args.layer,
            "--roles", "query,key,value", "--heal", "ridge", "--calibration",
            f"{args.text}:num_tokens={args.tokens}", "--evaluation", "bos=never", "--output", output, "--force",
            "--threads", args.threads, "--json", "--quiet"])
        shutil.rmtree(output)

        def write(quantity, unit, value, method=method):
            record.append(args.record, "compress", args.name, "linwright", method, quantity, unit,
                          [value])

        for stage in cost.result["stages"]:
            write(stage["stage"], "s", stage["seconds"])
        write("whole command", "s", cost.wall_seconds)
        write("cpu", "s", cost.cpu_seconds)
        beside = cost.peak_bytes / 1e6 - weights
        write("peak memory", "MB", cost.peak_bytes / 1e6)
        write("peak beside the weights", "MB", beside)
        if beside > args.allowance:
            too_much.append(method)
    sys.exit(f"more than {args.allowance:.0f} MB: {', '.join(too_much)}" if too_much else 0)


if __name__ == "__main__":
    main()
