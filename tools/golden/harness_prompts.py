"""Writes the prompts of standard tasks of lm-evaluation-harness, and its scores of given answers.

    python tools/golden/harness_prompts.py testdata/golden/harness-prompts

Each file holds made-up rows of every split and, for each document, the context with its examples, the
continuations of choices, and for a generated answer what each filter extracts and how it is scored. No
model is needed. Needs lm_eval 0.4.13.
"""

import json
import os
import pathlib
import random
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "parity"))

from harness_tasks import words  # noqa: E402

DOCUMENTS = 6


def word_problem(rng, i):
    number = rng.choice(["12", "1,234", "-5", "7.50"])
    return {"question": words(rng, 5, 12) + "? ", "answer": f"{words(rng, 3, 6)} = <<3*4={number}>>{number}.\n#### {number}"}


def lettered(rng, i):
    return {"question": f" {words(rng, 4, 9)}? ", "subject": ["anatomy", "astronomy"][i % 2],
            "choices": [words(rng, 1, 4) for _ in range(4)], "answer": i % 4}


def reasoned(rng, i):
    count = [10, 4, 12][i % 3]
    letter = "ABCD"[i % 4]
    return {"question_id": i, "question": words(rng, 5, 12) + "?\nWhich?", "category": ["computer science", "law"][i % 2],
            "options": [f" {words(rng, 1, 3)} " for _ in range(count)], "answer": letter, "answer_index": i % 4,
            "cot_content": f"A: Let's think step by step. {words(rng, 6, 9)}. The answer is ({letter})."}


# The name, what makes rows, the number of examples, names of splits, and answers.
TASKS = {
    "gsm8k": (word_problem, None, ("train", "test"),
              ["It is 12.\n#### 12", "so #### 1,234.", "The total is $1,234.00 or -5", "none", "#### -5", "7.50 dollars"]),
    "mmlu_anatomy": (lettered, 2, ("dev", "test"), None),
    "mmlu_pro_computer_science": (reasoned, None, ("validation", "test"),
                                  ["think. The answer is (A).", "the answer is C", "answer is (K)", "", "answer is B, or answer is (D)", "(C)"]),
}


def made(name, work):
    from lm_eval.api.task import ConfigurableTask
    from lm_eval.tasks import TaskManager
    from lm_eval.tasks._yaml_loader import load_yaml

    make, shots, splits, answers = TASKS[name]
    rows, files = {}, {}
    for split in splits:
        rng = random.Random(f"{name} {split}")
        rows[split] = [make(rng, i) for i in range(2 * DOCUMENTS)]
        files[split] = str(work / f"{split}.jsonl")
        pathlib.Path(files[split]).write_text("".join(json.dumps(row) + "\n" for row in rows[split]))
    config = dict(load_yaml(TaskManager().task_index[name].yaml_path))
    config.update(dataset_path="json", dataset_name=None, dataset_kwargs={"data_files": files})
    for key in ("tag", "group"):
        config.pop(key, None)
    if shots is not None:
        config["num_fewshot"] = shots
    if name == "mmlu_anatomy":
        # The harness has a data set for each subject.
        for split, path in files.items():
            own = [row for row in rows[split] if row["subject"] == "anatomy"]
            pathlib.Path(path).write_text("".join(json.dumps(row) + "\n" for row in own))
    task = ConfigurableTask(config=config)
    task.set_fewshot_seed(1234)
    task.build_all_requests(limit=None, rank=0, world_size=1)
    documents = {}
    for instance in task.instances:
        document = documents.setdefault(instance.doc_id, {"continuations": []})
        document["context"] = instance.args[0]
        if answers is None:
            document["continuations"].append(instance.args[1])
        else:
            document["answer"] = answers[instance.doc_id % len(answers)]
            document["asked"] = {key: instance.args[1][key] for key in ("until", "max_gen_toks") if key in instance.args[1]}
            instance.resps = [document["answer"]]
    if answers is not None:
        task.apply_filters()
        for instance in task.instances:
            document = documents[instance.doc_id]
            document["filters"] = {
                key: {"filtered": value, **{k: float(v) for k, v in task.process_results(instance.doc, [value]).items()}}
                for key, value in instance.filtered_resps.items()
            }
    return {"made_by": "lm_eval 0.4.13, tools/golden/harness_prompts.py", "task": name, "shots": shots, "rows": rows,
            "documents": [documents[index] for index in sorted(documents)]}


def main():
    out = pathlib.Path(sys.argv[1])
    os.environ["HF_HUB_OFFLINE"] = "1"
    out.mkdir(parents=True, exist_ok=True)
    for name in TASKS:
        with tempfile.TemporaryDirectory() as work:
            found = made(name, pathlib.Path(work))
        (out / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
        print(name, len(found["documents"]))


if __name__ == "__main__":
    main()
