"""The other side of tasks.py: one task file in lm-evaluation-harness; prints JSON.

    python tools/bench/harness_task.py MODEL TASK.yaml --threads 2 --batch 16
"""

import argparse
import contextlib
import json
import os
import sys
import time

WARM_DOCUMENTS = 8


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("task")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", default="1")
    args = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch
    from lm_eval import simple_evaluate
    from lm_eval.api.task import ConfigurableTask
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks._yaml_loader import load_yaml

    torch.set_num_threads(args.threads)
    with contextlib.redirect_stdout(sys.stderr):
        model = HFLM(pretrained=args.model, device="cpu", dtype="float32", batch_size=args.batch)
        task = ConfigurableTask(config=dict(load_yaml(args.task)))
        simple_evaluate(model=model, tasks=[task], limit=WARM_DOCUMENTS, bootstrap_iters=0)
        began = time.perf_counter()
        out = simple_evaluate(model=model, tasks=[task], bootstrap_iters=0, log_samples=True)
        seconds = time.perf_counter() - began
    (figures,) = out["results"].values()
    (samples,) = out["samples"].values()
    samples.sort(key=lambda sample: sample["doc_id"])
    replies = [[float(reply[0][0]) for reply in sample["resps"]] for sample in samples]
    figures = {key: value for key, value in figures.items() if isinstance(value, (int, float))}
    print(json.dumps({"seconds": seconds, "figures": figures, "replies": replies}))


if __name__ == "__main__":
    main()
