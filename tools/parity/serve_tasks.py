"""Compares lm-evaluation-harness over `linwright serve` with `linwright eval --tasks`.

    python tools/parity/serve_tasks.py MODEL --work DIR [--tokenizer DIR] [--shots 0 2] [--tasks arc_easy ...]

The documents are those that `harness_tasks.py` makes up. lm_eval asks as its model `local-completions`,
with several requests at a time. Every log-likelihood must agree to 1e-5 max(1, |ll|), every figure of an
item exactly, or the script ends with 1. Needs `lm_eval[api]` (0.4.13) and `transformers`; build Linwright
first.
"""

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys

import harness_tasks

# The harness cuts long texts for a server in windows of another length.
TASKS = [task for task in harness_tasks.MADE if task != "wikitext"]


def start(args):
    """The server, and where it is."""
    command = [args.linwright, "serve", args.model, "--port", "0", "--json", "--quiet"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    said = server.stdout.readline()
    if not said:
        sys.exit("the server did not start")
    return server, json.loads(said)["url"]


def harness(args, url, task, files, shots):
    """Figures and samples of lm-evaluation-harness."""
    from lm_eval import simple_evaluate
    from lm_eval.api.task import ConfigurableTask
    from lm_eval.models.openai_completions import LocalCompletionsAPI
    from lm_eval.tasks import TaskManager
    from lm_eval.tasks._yaml_loader import load_yaml

    if not hasattr(harness, "model"):
        # One token more than it may use is for the answer.
        harness.model = LocalCompletionsAPI(
            model=args.model, base_url=f"{url}/completions", tokenizer=args.tokenizer or args.model,
            tokenizer_backend="huggingface", max_length=args.max_length + 2, batch_size=args.batch_size,
            num_concurrent=args.concurrent, add_bos_token=args.add_bos)
        harness.manager = TaskManager()
    config = dict(load_yaml(harness.manager.task_index[task].yaml_path))
    config.update(dataset_path="json", dataset_name=None, dataset_kwargs={"data_files": files}, num_fewshot=shots)
    for key in ("tag", "group"):
        config.pop(key, None)
    own = ConfigurableTask(config=config)
    out = simple_evaluate(model=harness.model, tasks=[own], num_fewshot=shots, bootstrap_iters=args.draws,
                          log_samples=True)
    (name,) = out["results"]
    return out["results"][name], out["samples"][name], out["versions"][name]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--add-bos", action="store_true", help="for tokenizers that begin texts with a special token, which the harness does not ask")
    parser.add_argument("--tokenizer", help="directory of the tokenizer, if that is not MODEL")
    parser.add_argument("--tasks", nargs="*", default=TASKS)
    parser.add_argument("--shots", nargs="*", type=int, default=[0, 2])
    parser.add_argument("--max-length", type=int, default=511, help="at most the model's positions less one")
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--batch-size", type=int, default=1)
    parser.add_argument("--concurrent", type=int, default=4)
    parser.add_argument("--linwright", default="target/release/linwright")
    # What `harness_tasks.py` can ask for, and is not asked for here.
    parser.set_defaults(chat=None, system=None)
    args = parser.parse_args()
    try:
        import lm_eval  # noqa: F401
    except ImportError:
        sys.exit("lm_eval is not installed: pip install 'lm_eval[api]==0.4.13' transformers")
    os.environ["HF_HUB_OFFLINE"] = "1"
    args.work.mkdir(parents=True, exist_ok=True)
    server, url = start(args)
    equal = True
    try:
        print("| task | shots | items | figures | largest difference | |\n|---|---|---|---|---|---|")
        for task in args.tasks:
            files = harness_tasks.made_up(args.work, task)
            for shots in args.shots:
                theirs = harness(args, url, task, files, shots)
                equal &= harness_tasks.compare(task, shots, theirs, harness_tasks.linwright(args, task, files, shots))
    finally:
        server.send_signal(signal.SIGINT)
        code = server.wait(timeout=60)
    if code != 0:
        sys.exit(f"the server ended with {code}")
    sys.exit(0 if equal else 1)


if __name__ == "__main__":
    main()
