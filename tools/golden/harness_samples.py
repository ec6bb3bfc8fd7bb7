"""Writes what lm-evaluation-harness replies and scores for a task of each form.

    python tools/golden/harness_samples.py assets/pocket testdata/harness

Each file holds a task file's fields, made-up rows and, of the harness, the arguments and replies of
every document, figures and standard errors. Needs lm_eval 0.4.13, torch and transformers.
"""

import argparse
import json
import os
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "parity"))

from harness_tasks import words  # noqa: E402

DOCUMENTS = 6
MEAN = {"aggregation": "mean", "higher_is_better": True}
FORMS = {
    "multiple_choice": (
        {"output_type": "multiple_choice", "doc_to_text": "Question: {{q}}\nAnswer:",
         "doc_to_target": "gold", "doc_to_choice": "{{choices}}", "num_fewshot": 2,
         "description": "Questions.\n\n",
         "metric_list": [{"metric": name, **MEAN} for name in ("acc", "acc_norm", "acc_mutual_info")]},
        lambda r, i: {"q": words(r, 4, 9), "choices": [words(r, 1, 4) for _ in range(3)], "gold": i % 3}),
    "several_contexts": (
        {"output_type": "multiple_choice", "doc_to_text": "{{gold}}", "doc_to_target": "{{rest}}",
         "doc_to_choice": "{{begins}}", "num_fewshot": 1, "metric_list": [{"metric": "acc", **MEAN}]},
        lambda r, i: {"begins": [words(r, 3, 5), words(r, 3, 5)], "rest": words(r, 2, 4), "gold": i % 2}),
    "loglikelihood": (
        {"output_type": "loglikelihood", "doc_to_text": "{{text}}", "doc_to_target": " {{last}}",
         "metric_list": [{"metric": "perplexity", "aggregation": "perplexity", "higher_is_better": False},
                         {"metric": "acc", **MEAN}]},
        lambda r, i: {"text": words(r, 6, 12), "last": words(r, 1, 1)}),
    "loglikelihood_rolling": (
        {"output_type": "loglikelihood_rolling", "doc_to_text": "", "doc_to_target": "{{page}}",
         "metric_list": [{"metric": "word_perplexity"}, {"metric": "byte_perplexity"},
                         {"metric": "bits_per_byte"}]},
        lambda r, i: {"page": ". ".join(words(r, 6, 14) for _ in range(3))}),
    "generate_until": (
        {"output_type": "generate_until", "doc_to_text": "{{text}}", "doc_to_target": "{{answer}}",
         "generation_kwargs": {"until": [".", "\n"], "max_gen_toks": 12, "do_sample": False},
         "filter_list": [{"name": "whole", "filter": [{"function": "take_first"}]},
                         {"name": "word", "filter": [{"function": "regex", "regex_pattern": "(\\w+)"},
                                                     {"function": "take_first"}]}],
         "metric_list": [{"metric": "exact_match", **MEAN, "ignore_case": True}]},
        lambda r, i: {"text": "Once upon a time " + words(r, 3, 6), "answer": words(r, 1, 1)}),
}


def run(model, name, work):
    from lm_eval import simple_evaluate
    from lm_eval.api.task import ConfigurableTask

    fields, make = FORMS[name]
    rng = random.Random(name)
    rows = [make(rng, index) for index in range(DOCUMENTS)]
    path = work / f"{name}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    fields = {"task": name, "dataset_path": "json", "test_split": "test", **fields,
              "metadata": {"version": 1.0}}
    config = {**fields, "dataset_kwargs": {"data_files": {"test": str(path)}}}
    out = simple_evaluate(model=model, tasks=[ConfigurableTask(config=config)], log_samples=True,
                          bootstrap_iters=1000)
    keep = ("doc_id", "arguments", "resps", "filter", "metrics")
    samples = []
    for sample in sorted(out["samples"][name], key=lambda s: (s["filter"], s["doc_id"])):
        kept = {key: sample[key] for key in keep}
        kept["arguments"] = [list(arguments) for arguments in sample["arguments"]]
        samples.append(kept | {metric: sample[metric] for metric in sample["metrics"]})
    return {"made_by": "lm_eval 0.4.13", "model": "pocket", "task": fields, "rows": rows,
            "results": out["results"][name], "samples": samples}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("out", type=pathlib.Path)
    args = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    from lm_eval.models.huggingface import HFLM

    args.out.mkdir(parents=True, exist_ok=True)
    model = HFLM(pretrained=args.model, device="cpu", dtype="float32", batch_size=2)
    for name in FORMS:
        import tempfile
        with tempfile.TemporaryDirectory() as work:
            found = run(model, name, pathlib.Path(work))
        (args.out / f"{name}.json").write_text(json.dumps(found, indent=1, default=str) + "\n")
        print(name, found["results"])


if __name__ == "__main__":
    main()
