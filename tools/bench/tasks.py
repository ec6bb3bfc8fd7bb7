"""Compares the speed of multiple-choice tasks with that of lm-evaluation-harness.

    python tools/bench/tasks.py WORK --hellaswag hellaswag_val.txt --arc-easy arc_easy.jsonl \\
        --vocabulary VOCAB.json MERGES.txt --record RECORD.csv

Makes a random Llama (hidden 512, 8 layers) with the byte-level vocabulary of GPT-2 under WORK, and one
task file for each set, which both programs read as it is. Log-likelihoods must agree to
1e-5 max(1, |ll|) and accuracies exactly, or the script ends. The programs alternate, each in a
process of its own with the same threads; the harness runs with several batch sizes and with the C
library's allocator as it is and tuned to keep memory, and the fastest counts. Seconds are those of the
evaluation, without start and loading, on both sides.

Rows: hellaswag has six lines for each document (context, index of the right ending, four endings);
arc_easy has a JSON object a line with `query`, `choices` and `gold`.
"""

import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys

import child
import evaluate
import record

HERE = pathlib.Path(__file__).parent
TARGETS = {"hellaswag": 2.0, "arc_easy": 1.5}
GPT2_TOKENS = 50257
TASK = """task: {name}_rows
dataset_path: json
dataset_kwargs: {{data_files: {{validation: {rows}}}}}
output_type: multiple_choice
validation_split: validation
doc_to_text: "{text}"
doc_to_target: gold
doc_to_choice: "{{{{choices}}}}"
metric_list:
  - {{metric: acc, aggregation: mean, higher_is_better: true}}
  - {{metric: acc_norm, aggregation: mean, higher_is_better: true}}
metadata: {{version: 1.0}}
"""


def hellaswag_rows(path):
    lines = path.read_text().splitlines()
    for start in range(0, len(lines) - 5, 6):
        query, gold, *endings = lines[start:start + 6]
        yield {"query": query, "gold": int(gold), "choices": endings}


def arc_rows(path):
    for line in path.read_text().splitlines():
        row = json.loads(line)
        yield {key: row[key] for key in ("query", "gold", "choices")}


def write_task(args, name, rows, text):
    """The task file, and beside it the rows."""
    rows = list(rows)[:args.documents]
    data = (args.work / f"{name}.jsonl").resolve()
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    path = args.work / f"{name}_rows.yaml"
    path.write_text(TASK.format(name=name, rows=data, text=text))
    return path


def make_model(args):
    path = args.work / "hidden-512-gpt2-vocabulary"
    if not path.exists():
        subprocess.run([sys.executable, HERE / "random_llama.py", path, "--shape", "hidden-512",
                        "--vocab", str(GPT2_TOKENS)], check=True)
        (path / "tokenizer.json").unlink()
        vocabulary, merges = args.vocabulary
        shutil.copy(vocabulary, path / "vocab.json")
        shutil.copy(merges, path / "merges.txt")
        (path / "tokenizer_config.json").write_text(json.dumps(
            {"tokenizer_class": "GPT2Tokenizer", "model_max_length": 2048,
             "eos_token": "<|endoftext|>", "bos_token": "<|endoftext|>"}) + "\n")
    return path


def run_linwright(args, model, task):
    """Seconds, peak bytes, accuracies, log-likelihoods of every document."""
    samples = args.work / "samples"
    cost = child.run_json([
        args.linwright, "eval", model, "--tasks", task, "--bos", "never", "--threads", args.threads,
        "--log-samples", samples, "--json", "--quiet"])
    seconds = cost.result["linwright"]["timing"]["evaluate_seconds"]
    (figures,) = cost.result["results"].values()
    lines = (samples / f"samples_{task.stem}.jsonl").read_text().splitlines()
    replies = [[float(reply[0][0]) for reply in json.loads(line)["resps"]] for line in lines]
    return seconds, cost.peak_bytes, figures, replies


def run_harness(args, model, task, batch, tuned):
    cost = child.run_json(
        [args.python, HERE / "harness_task.py", model, task, "--threads", args.threads, "--batch",
         batch],
        (evaluate.TUNED if tuned else {}) | {"OMP_NUM_THREADS": str(args.threads)})
    own = cost.result
    return own["seconds"], cost.peak_bytes, own["figures"], own["replies"]


def check_equal(name, ours, theirs):
    """Stops if log-likelihoods or accuracies differ."""
    largest = 0.0
    for index, (own, other) in enumerate(zip(ours[3], theirs[3], strict=True)):
        for a, b in zip(own, other, strict=True):
            off = abs(a - b) / max(1.0, abs(b))
            largest = max(largest, off)
            if not off <= 1e-5:
                sys.exit(f"{name}, document {index}: {a}, not {b}")
    for key in ("acc,none", "acc_norm,none"):
        if ours[2][key] != theirs[2][key]:
            sys.exit(f"{name}: {key} is {ours[2][key]}, not {theirs[2][key]}")
    print(f"{name}: {len(ours[3])} documents agree, largest difference {largest:.1e}", flush=True)


def compare(args, model, name, task):
    """A line of the table."""
    subjects = {("linwright", ""): lambda: run_linwright(args, model, task)}
    for batch in args.batches:
        for tuned in (False, True):
            setting = f"batch {batch}, {'tuned' if tuned else 'plain'} allocator"
            subjects["lm-evaluation-harness", setting] = (
                lambda b=batch, t=tuned: run_harness(args, model, task, b, t))
    first = {key: run() for key, run in subjects.items()}
    for key, found in first.items():
        if key[0] != "linwright":
            check_equal(name, first["linwright", ""], found)
    rounds = [first]
    rounds += [{key: run() for key, run in subjects.items()} for _ in range(args.rounds - 1)]
    seconds, peaks = {}, {}
    for key in subjects:
        seconds[key] = [of_round[key][0] for of_round in rounds]
        peaks[key] = [of_round[key][1] / 1e6 for of_round in rounds]
        record.append(args.record, "tasks", name, *key, "evaluation", "s", seconds[key])
        record.append(args.record, "tasks", name, *key, "peak memory", "MB", peaks[key])
    ours = seconds.pop(("linwright", ""))
    fastest = min(seconds, key=lambda key: statistics.median(seconds[key]))
    ratios = [b / a for a, b in zip(ours, seconds[fastest], strict=True)]
    record.append(args.record, "tasks", name, "lm-evaluation-harness / linwright", fastest[1],
                  "seconds ratio", "1", ratios)
    return (f"| {name}, {len(first['linwright', ''][3])} documents | {statistics.median(ours):.3g} s | "
            f"{statistics.median(seconds[fastest]):.3g} s ({fastest[1]}) | "
            f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) | "
            f"{TARGETS[name]} | {statistics.median(peaks['linwright', '']):,.0f} MB | "
            f"{statistics.median(peaks[fastest]):,.0f} MB |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("work", type=pathlib.Path, help="directory for model and tasks")
    parser.add_argument("--hellaswag", type=pathlib.Path, required=True)
    parser.add_argument("--arc-easy", type=pathlib.Path, required=True)
    parser.add_argument("--vocabulary", type=pathlib.Path, nargs=2, required=True,
                        metavar=("VOCAB", "MERGES"))
    parser.add_argument("--record", required=True)
    parser.add_argument("--documents", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batches", type=int, nargs="+", default=[8])
    parser.add_argument("--only", choices=TARGETS, help="one of the sets")
    parser.add_argument("--linwright", default="target/release/linwright")
    parser.add_argument("--python", default=sys.executable, help="an interpreter with lm_eval")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    model = make_model(args)
    tasks = {
        "hellaswag": write_task(args, "hellaswag", hellaswag_rows(args.hellaswag), "{{query}}"),
        "arc_easy": write_task(args, "arc_easy", arc_rows(args.arc_easy), "{{query}}\\nAnswer:"),
    }
    lines = [compare(args, model, name, task) for name, task in tasks.items()
             if args.only in (None, name)]
    print("\n| task | Linwright | lm-evaluation-harness | times (range) | at least | peak | its peak |")
    print("| --- | --: | --: | --: | --: | --: | --: |")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
