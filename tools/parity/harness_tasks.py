"""Compares `linwright eval --tasks` with lm-evaluation-harness on the same model and documents.

    python tools/parity/harness_tasks.py MODEL --work DIR [--shots 0 2] [--tasks arc_easy ...]

Ten documents are made up for each standard task, in the columns of its data set. Both programs get the
same files. Every log-likelihood must agree to 1e-5 max(1, |ll|), every figure of an
item exactly and every figure of a task to 1e-5 relative, or the script ends with 1. Needs `lm_eval`
(0.4.13), `torch` and `transformers`; build Linwright first.
"""

import argparse
import json
import math
import os
import pathlib
import random
import subprocess
import sys

WORDS = """the of Tom Anna river house red small letter garden teacher paints sees old bread north
market Lena bakes a boat and sings 12 7 every morning quietly""".split()
ENDS = [".", "?", "!", ""]


def words(rng, least, most):
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(least, most)))


def labelled(rng, count, texts=(1, 4)):
    """Choices as ARC has them."""
    return {"text": [words(rng, *texts) for _ in range(count)], "label": list("ABCDE"[:count])}


def hellaswag(rng, i):
    return {"ind": i, "activity_label": "Baking", "ctx_a": f"{words(rng, 4, 9)} [header] {words(rng, 2, 3)}. [title]",
            "ctx_b": words(rng, 1, 3), "endings": [words(rng, 4, 12) + rng.choice([".", " [substeps] then"]) for _ in range(4)],
            "label": str(i % 4)}


def winogrande(rng, i):
    return {"sentence": f"{words(rng, 3, 8)} because _ {words(rng, 2, 6)} .", "option1": "Tom", "option2": "Anna",
            "answer": "12"[i % 2]}


def commonsense(rng, i):
    return {"question": words(rng, 4, 9) + "? ", "choices": labelled(rng, 5), "answerKey": "ABCDE"[i % 5]}


def truthful(rng, i):
    several = [words(rng, 2, 7) for _ in range(rng.randint(3, 6))]
    labels = [1] + [rng.randint(0, 1) for _ in several[1:]]
    return {"question": words(rng, 4, 9) + "?", "mc1_targets": {"choices": several, "labels": [1] + [0] * (len(several) - 1)},
            "mc2_targets": {"choices": several, "labels": labels}}


def page(rng, i):
    parts = [f" = {words(rng, 1, 2)} = \n"]
    for _ in range(rng.randint(1, 8)):
        parts.append(f" {words(rng, 8, 60)} , ( {words(rng, 1, 3)} ) \" {words(rng, 1, 4)} \" 's 1 @,@ 000 @-@ {words(rng, 1, 2)} . \n")
    return {"page": " \n".join(parts)}


def arc(rng, i, count=4):
    return {"id": str(i), "question": words(rng, 4, 12) + "?", "choices": labelled(rng, count), "answerKey": "ABCD"[i % count]}


MADE = {
    "arc_easy": arc,
    "arc_challenge": arc,
    "hellaswag": hellaswag,
    "piqa": lambda r, i: {"goal": words(r, 3, 8), "sol1": words(r, 4, 9), "sol2": words(r, 4, 9), "label": i % 2},
    "winogrande": winogrande,
    "boolq": lambda r, i: {"question": words(r, 4, 8), "passage": words(r, 20, 90), "idx": i, "label": i % 2},
    "openbookqa": lambda r, i: {"question_stem": words(r, 4, 9), "choices": labelled(r, 4), "answerKey": " ABCD"[1 + i % 4]},
    "social_iqa": lambda r, i: {"context": words(r, 4, 9) + ".", "question": words(r, 3, 5) + "?", "answerA": words(r, 1, 4),
                                "answerB": words(r, 1, 4), "answerC": words(r, 1, 4), "label": str(1 + i % 3)},
    "commonsense_qa": commonsense,
    "truthfulqa_mc1": truthful,
    "truthfulqa_mc2": truthful,
    "lambada_openai": lambda r, i: {"text": words(r, 12, 30)},
    "wikitext": page,
    "sciq": lambda r, i: {"question": words(r, 4, 9) + "?", "support": r.choice(["", " " + words(r, 9, 30)]), "distractor1": words(r, 1, 2),
                          "distractor2": words(r, 1, 2), "distractor3": words(r, 1, 2), "correct_answer": words(r, 1, 2)},
    "sst2": lambda r, i: {"sentence": words(r, 4, 12) + " ", "label": i % 2, "idx": i},
    "mnli": lambda r, i: {"premise": words(r, 5, 12) + ".", "hypothesis": words(r, 3, 8) + r.choice(ENDS), "label": i % 3, "idx": i},
}


def made_up(work, task):
    """Files of ten documents for each split."""
    files = {}
    for split in ["train", "validation", "validation_matched", "test", "dev"]:
        rng = random.Random(f"{task} {split}")
        path = work / f"{task}-{split}.jsonl"
        rows = [MADE[task](rng, i) for i in range(10)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        files[split] = str(path)
    return files


def evaluated(args, task, files, shots):
    """All that lm-evaluation-harness gives."""
    from lm_eval import simple_evaluate
    from lm_eval.api.task import ConfigurableTask
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager
    from lm_eval.tasks._yaml_loader import load_yaml

    if not hasattr(evaluated, "model"):
        evaluated.model = HFLM(pretrained=str(args.model), device="cpu", dtype="float32", batch_size=4, max_length=args.max_length)
        evaluated.manager = TaskManager()
    config = dict(load_yaml(evaluated.manager.task_index[task].yaml_path))
    config.update(dataset_path="json", dataset_name=None, dataset_kwargs={"data_files": files}, num_fewshot=shots)
    for key in ("tag", "group"):
        config.pop(key, None)
    own = ConfigurableTask(config=config)
    return simple_evaluate(model=evaluated.model, tasks=[own], num_fewshot=shots, bootstrap_iters=args.draws,
                           log_samples=True, apply_chat_template=args.chat is not None,
                           fewshot_as_multiturn=args.chat == "multiturn", system_instruction=args.system)


def harness(args, task, files, shots):
    """Figures and samples of lm-evaluation-harness."""
    out = evaluated(args, task, files, shots)
    (name,) = out["results"]
    return out["results"][name], out["samples"][name], out["versions"][name]


def linwright(args, task, files, shots):
    """Figures and samples of Linwright."""
    samples = args.work / f"samples-{task}-{shots}"
    command = [args.linwright, "eval", args.model, "--tasks", task, "--json", "--quiet", "--log-samples", samples,
               "--bootstrap-iters", args.draws]
    for split, path in files.items():
        command += ["--data", f"{task}:{split}={path}"]
    if shots is not None:
        command += ["--num-fewshot", shots]
    if args.chat:
        command += ["--apply-chat-template"]
    if args.chat == "multiturn":
        command += ["--fewshot-as-multiturn"]
    if args.system:
        command += ["--system-instruction", args.system]
    if args.max_length:
        command += ["--max-length", args.max_length]
    out = json.loads(subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE).stdout)
    lines = (samples / f"samples_{task}.jsonl").read_text().splitlines()
    return out["results"][task], [json.loads(line) for line in lines], out["versions"][task]


def likelihoods(sample):
    """All numbers among the replies to a document."""
    found = []

    def walk(value):
        if isinstance(value, (list, tuple)):
            for one in value:
                walk(one)
        elif not isinstance(value, bool):
            try:
                found.append(float(value))
            except ValueError:
                pass

    walk(sample["resps"])
    return found


def compare(task, shots, theirs, ours):
    """Differences in words, and the largest difference of log-likelihoods."""
    (their_figures, their_samples, their_version), (our_figures, our_samples, our_version) = theirs, ours
    wrong, largest = [], 0.0
    # A file without a version has a word there and zero here.
    if isinstance(their_version, (int, float)) and their_version != our_version:
        wrong.append(f"version {our_version}, not {their_version}")
    for a, b in zip(sorted(their_samples, key=lambda s: (s["filter"], s["doc_id"])),
                    sorted(our_samples, key=lambda s: (s["filter"], s["doc_id"])), strict=True):
        x, y = likelihoods(a), likelihoods(b)
        if len(x) != len(y):
            wrong.append(f"document {a['doc_id']}: {len(y)} replies, not {len(x)}")
            continue
        for p, q in zip(x, y):
            off = abs(p - q) / max(1.0, abs(p))
            largest = max(largest, off)
            if not off <= 1e-5:
                wrong.append(f"document {a['doc_id']}: {q}, not {p}")
        for name in a["metrics"]:
            if name.startswith(("acc", "exact")) and task != "truthfulqa_mc2" and a[name] != b[name]:
                gap = sorted(x)[-1] - sorted(x)[-2] if len(x) > 1 else 0.0
                wrong.append(f"document {a['doc_id']}: {name} is {b[name]}, not {a[name]} (gap {gap:.2e})")
    for key, value in their_figures.items():
        if "," not in key:
            continue
        found = our_figures.get(key)
        if isinstance(value, str):
            if found != value:
                wrong.append(f"{key} is {found}, not {value}")
        elif not isinstance(found, (int, float)) or not math.isclose(value, found, rel_tol=1e-5, abs_tol=1e-9):
            wrong.append(f"{key} is {found}, not {value}")
    figures = ", ".join(f"{key.split(',')[0]} {value:.4f}" for key, value in our_figures.items()
                        if "," in key and "stderr" not in key and isinstance(value, float))
    print(f"| {task} | {shots} | {len(our_samples)} | {figures} | {largest:.1e} | {'equal' if not wrong else 'DIFFERS'} |", flush=True)
    for line in wrong[:6]:
        print(f"  {task}: {line}", file=sys.stderr)
    return not wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--tasks", nargs="*", default=list(MADE))
    parser.add_argument("--shots", nargs="*", type=int, default=[0, 2])
    parser.add_argument("--max-length", type=int)
    parser.add_argument("--chat", choices=("one", "multiturn"), help="prompts by the chat template: examples in one message, or each in its own")
    parser.add_argument("--system", help="what the system says")
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--linwright", default="target/release/linwright")
    args = parser.parse_args()
    try:
        import lm_eval  # noqa: F401
    except ImportError:
        sys.exit("lm_eval is not installed: pip install 'lm_eval==0.4.13' torch transformers")
    os.environ["HF_HUB_OFFLINE"] = "1"
    args.work.mkdir(parents=True, exist_ok=True)
    print("| task | shots | items | figures | largest difference | |\n|---|---|---|---|---|---|")
    equal = True
    for task in args.tasks:
        files = made_up(args.work, task)
        for shots in args.shots:
            if task == "wikitext" and shots:
                continue
            equal &= compare(task, shots, harness(args, task, files, shots), linwright(args, task, files, shots))
    sys.exit(0 if equal else 1)


if __name__ == "__main__":
    main()
