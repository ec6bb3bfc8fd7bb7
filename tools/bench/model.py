"""Compares the speed of whole models with that of transformers, and loading with reading the file.

    python tools/bench/model.py WORK --record RECORD.csv

Makes random Llamas under WORK where they are not there yet, in f32 and bf16, and times `linwright
bench model` and transformers (sdpa, the same threads, `generate` for decoding) in turn, each in a
process of its own: what else the machine does meets all of them. transformers runs with the C
library's allocator as it is and tuned to keep memory; the faster counts. Then a checkpoint of 2 GB is
loaded as it is stored, against reading its file once. Prints a Markdown table; ratios are those of the
medians over all rounds, the best of each side behind them.
"""

import argparse
import pathlib
import statistics
import subprocess
import sys
import time

import child
import evaluate
import record

HERE = pathlib.Path(__file__).parent
# Name, hidden width, rows of the forward pass, its target in f32, whether decoding is timed.
MODELS = (("512", 512, 1.15, True), ("2048", 1024, 1.1, True))
BF16_TARGET = 0.5
DECODE_TARGET = 1.5
LOAD_TARGET = 1.2
# MB beside the weights.
BF16_MEMORY = 400
LOAD_MEMORY = 200
VOCAB = 32000
READ_AT_ONCE = 1 << 24


def make(work, shape, dtype):
    path = work / f"{shape}-{dtype}"
    if not path.exists():
        subprocess.run(
            [sys.executable, HERE / "random_llama.py", path, "--shape", shape, "--vocab",
             str(VOCAB), "--dtype", dtype], check=True)
    return path


def weight_bytes(model):
    return sum(path.stat().st_size for path in pathlib.Path(model).glob("*.safetensors"))


def run_linwright(args, model, tokens, new_tokens, rounds):
    return child.run_json([
        args.linwright, "bench", "model", model, "--tokens", tokens, "--new-tokens", new_tokens,
        "--rounds", rounds, "--threads", args.threads, "--json", "--quiet"]).result


def run_transformers(args, model, tokens, new_tokens, rounds, tuned):
    return child.run_json(
        [args.python, HERE / "transformers_model.py", model, "--tokens", tokens, "--new-tokens",
         new_tokens, "--rounds", rounds, "--threads", args.threads],
        (evaluate.TUNED if tuned else {}) | {"OMP_NUM_THREADS": str(args.threads)}).result


def gather(args, model, tokens, new_tokens):
    """Rounds of every pass by subject, and the largest resident set of ours."""
    subjects = {
        "linwright": lambda: run_linwright(args, model, tokens, new_tokens, args.rounds),
        "plain": lambda: run_transformers(args, model, tokens, new_tokens, args.rounds, False),
        "tuned": lambda: run_transformers(args, model, tokens, new_tokens, args.rounds, True),
    }
    found = {name: {} for name in subjects}
    peak = 0
    for _ in range(args.cycles):
        for name, run in subjects.items():
            result = run()
            for key in ("forward_rounds", "decode_rounds", "generate_rounds"):
                found[name].setdefault(key, []).extend(result["timed"][key])
            if name == "linwright":
                peak = max(peak, result["peak_resident_bytes"] or 0)
    return found, peak


def compare(args, label, found, key, target, lines):
    """A line of the table, in milliseconds or tokens a second."""
    faster = min if key == "forward_rounds" else max
    unit = "ms" if key == "forward_rounds" else "tokens/s"
    allocator = faster(("plain", "tuned"), key=lambda name: statistics.median(found[name][key]))
    ours, theirs = found["linwright"][key], found[allocator][key]

    def times(one, other):
        return other / one if key == "forward_rounds" else one / other

    medians = times(statistics.median(ours), statistics.median(theirs))
    best = times(faster(ours), faster(theirs))
    for name, values in found.items():
        subject = "linwright" if name == "linwright" else "transformers"
        setting = "" if name == "linwright" else f"{name} allocator"
        record.append(args.record, "model", label, subject, setting, key.removesuffix("_rounds"),
                      unit, values[key])
    lines.append(
        f"| {label} | {statistics.median(ours):.4g} {unit} | {statistics.median(theirs):.4g} {unit} "
        f"({allocator}) | {medians:.2f} | {best:.2f} | {target} |")


def read_seconds(path):
    """Seconds to read the weight files once into memory, from the page cache as loading does."""
    began = time.perf_counter()
    kept = [file.read_bytes() for file in pathlib.Path(path).glob("*.safetensors")]
    seconds = time.perf_counter() - began
    del kept
    return seconds


def pass_seconds(path):
    """Seconds to read them through a small buffer, which keeps nothing."""
    began = time.perf_counter()
    buffer = bytearray(READ_AT_ONCE)
    for file in pathlib.Path(path).glob("*.safetensors"):
        with open(file, "rb", buffering=0) as handle:
            while handle.readinto(buffer):
                pass
    return time.perf_counter() - began


def loading(args, work, lines, memory):
    model = make(work, "2gb", "bf16")
    read_seconds(model)
    reads, passes, loads, peak = [], [], [], 0
    for _ in range(args.cycles * args.rounds):
        reads.append(read_seconds(model))
        passes.append(pass_seconds(model))
        result = run_linwright(args, model, 1, 0, 0)
        loads.append(result["load_seconds"])
        peak = max(peak, result["peak_resident_bytes"] or 0)
    weights = weight_bytes(model)
    for subject, quantity, values in (("read into memory", "seconds", reads),
                                      ("read through a buffer", "seconds", passes),
                                      ("linwright", "load", loads)):
        record.append(args.record, "model", "2 GB in bf16", subject, "", quantity, "s", values)
    for what, values, target in (("into memory", reads, f"below {LOAD_TARGET}"),
                                 ("through a buffer", passes, "")):
        ratio = statistics.median(loads) / statistics.median(values)
        lines.append(
            f"| loading {weights / 1e9:.2f} GB held in bf16 | {statistics.median(loads):.3g} s | "
            f"{statistics.median(values):.3g} s (reading {what}) | {ratio:.2f} | "
            f"{min(loads) / min(values):.2f} | {target} |")
    memory.append(("loading 2 GB", peak, weights, LOAD_MEMORY))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("work", type=pathlib.Path, help="directory for the models")
    parser.add_argument("--record", required=True)
    parser.add_argument("--cycles", type=int, default=3, help="turns of all programs")
    parser.add_argument("--rounds", type=int, default=3, help="rounds within a turn")
    parser.add_argument("--new-tokens", type=int, default=48)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="", help="a word of the lines to make")
    parser.add_argument("--linwright", default="target/release/linwright")
    parser.add_argument("--python", default=sys.executable, help="an interpreter with torch")
    args = parser.parse_args()
    lines, memory = [], []
    for width, tokens, target, decodes in MODELS:
        for dtype in ("f32", "bf16"):
            label = f"hidden {width}, {dtype}"
            if args.only not in label:
                continue
            model = make(args.work, f"hidden-{width}", dtype)
            found, peak = gather(args, model, tokens, args.new_tokens if decodes else 0)
            wanted = target if dtype == "f32" else BF16_TARGET
            compare(args, f"forward, {label}, {tokens} tokens", found, "forward_rounds", wanted,
                    lines)
            for key, name in (("decode_rounds", "decode"), ("generate_rounds", "generate")):
                compare(args, f"{name}, {label}", found, key, DECODE_TARGET, lines)
            if dtype == "bf16":
                # Of the forward pass alone: what decoding adds is the cache of keys and values.
                alone = run_linwright(args, model, tokens, 0, 1)["peak_resident_bytes"]
                memory.append((f"forward, {label}", alone, weight_bytes(model), BF16_MEMORY))
                memory.append((f"forward and decode, {label}", peak, weight_bytes(model), "none"))
    if args.only in "loading":
        loading(args, args.work, lines, memory)
    print("\n| pass | Linwright | transformers | times | best against best | at least |")
    print("| --- | --: | --: | --: | --: | --: |")
    print("\n".join(lines))
    print("\n| model | peak MB | weights MB | beside them | at most |")
    print("| --- | --: | --: | --: | --: |")
    for label, peak, weights, most in memory:
        print(f"| {label} | {peak / 1e6:,.0f} | {weights / 1e6:,.0f} | "
              f"{(peak - weights) / 1e6:,.0f} | {most} |")


if __name__ == "__main__":
    main()
