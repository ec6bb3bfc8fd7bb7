"""Reads the files of `linwright eval` with the functions of lm-evaluation-harness.

    python tools/parity/harness_results.py MODEL --work DIR [--tasks arc_easy wikitext ...]

Ten documents are made up for each task, as for harness_tasks.py, and put to both programs. The harness must
find our files, which are written to DIR, by its own rules, and print its table from the result with every
figure in it; every part of the result and every field of a sample that its own have must be there, in the
same types. Needs `lm_eval` (0.4.13), `datasets`, `torch` and `transformers`.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys

import harness_tasks

TASKS = ["arc_easy", "hellaswag", "truthfulqa_mc2", "lambada_openai", "wikitext"]
# Parts of its result that are made of tasks.
PARTS = ["results", "versions", "n-shot", "higher_is_better", "n-samples"]
# What its own files say of the run; where it ran is said in words of its own.
ABOUT = ["config", "git_hash", "date", "model_source", "model_name", "model_name_sanitized",
         "start_time", "end_time", "total_evaluation_time_seconds", "max_length", "system_instruction",
         "system_instruction_sha", "fewshot_as_multiturn", "chat_template", "chat_template_sha", "task_hashes"]


def shape(value):
    """Names of fields and types, without lengths and values."""
    if isinstance(value, dict):
        return {str(key): shape(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [shape(inner) for inner in value[:1]]
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return type(value).__name__
    return "number"


def missing(own, other, where):
    """What of one shape the other lacks or has in another type."""
    if isinstance(own, dict) and isinstance(other, dict):
        return [line for key in own for line in (
            missing(own[key], other[key], f"{where}.{key}") if key in other else [f"{where}.{key} is absent"])]
    if isinstance(own, list) and isinstance(other, list):
        return missing(own[0], other[0], f"{where}[]") if own and other else []
    return [] if own == other else [f"{where} is {other}, its own is {own}"]


def linwright(args, files):
    """Files of a run."""
    command = [args.linwright, "eval", args.model, "--tasks", ",".join(args.tasks), "--quiet", "--num-fewshot", 0,
               "--log-samples", args.work, "--output", args.work / "results_2026-01-01T00-00-00.json"]
    for task, splits in files.items():
        for split, path in splits.items():
            command += ["--data", f"{task}:{split}={path}"]
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)


def written(out, folder):
    """Result and samples as the harness writes them to files."""
    from lm_eval.loggers import EvaluationTracker

    tracker = EvaluationTracker(output_path=str(folder))
    samples = out.pop("samples")
    tracker.save_results_aggregated(results=out, samples=samples)
    for name, records in samples.items():
        tracker.save_results_samples(task_name=name, samples=records)
    (result,), (records,) = folder.rglob("results_*.json"), folder.rglob("samples_*.jsonl")
    return json.loads(result.read_text()), [json.loads(line) for line in records.read_text().splitlines()]


def table_lacks(table, results):
    """Figures that a table does not show."""
    lines = table.splitlines()
    for task, figures in results.items():
        for name, value in figures.items():
            metric = name.partition(",")[0]
            if isinstance(value, float) and not metric.endswith("_stderr"):
                if not any(re.search(rf"\|{metric} *\|", line) and f"{value:.4f}" in line for line in lines):
                    yield f"the table lacks {name} of {task}, {value:.4f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--tasks", nargs="*", default=TASKS)
    parser.add_argument("--linwright", default="target/release/linwright")
    args = parser.parse_args()
    args.max_length, args.draws, args.chat, args.system = None, 1000, None, None
    os.environ["HF_HUB_OFFLINE"] = "1"
    from datasets import load_dataset
    from lm_eval import utils

    # A folder of an earlier run may hold files of other tasks.
    args.work.mkdir(parents=True)
    files = {task: harness_tasks.made_up(args.work, task) for task in args.tasks}
    linwright(args, files)
    names = [str(path) for path in sorted(args.work.iterdir())]
    results, samples = utils.get_results_filenames(names), utils.get_sample_results_filenames(names)
    if len(results) != 1 or len(samples) != len(args.tasks):
        sys.exit(f"the harness finds {results} and {samples}")
    result = json.loads(pathlib.Path(utils.get_latest_filename(results)).read_text())
    table = utils.make_table(result)
    print(table)
    faults = list(table_lacks(table, result["results"]))
    for task in args.tasks:
        own, records = written(harness_tasks.evaluated(args, task, files[task], 0), args.work / "own" / task)
        (name,) = own["results"]
        for part in PARTS:
            faults += missing(shape(own[part][name]), shape(result[part].get(task)), f"{part}.{task}")
        faults += [f"{key} is absent" for key in ABOUT if key in own and key not in result]
        path = args.work / f"samples_{task}.jsonl"
        rows = load_dataset("json", data_files=str(path), split="train")
        if len(rows) != len(records):
            faults.append(f"{path}: {len(rows)} rows")
        ours = json.loads(path.read_text().splitlines()[0])
        faults += missing(shape(records[0]), shape(ours), f"samples of {task}")
    if faults:
        sys.exit("\n".join(sorted(set(faults))))
    print(f"{len(args.tasks)} tasks: found, shown, and with all that the harness writes")


if __name__ == "__main__":
    main()
