"""The model of lm-evaluation-harness gives the command's numbers."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import linwright

pytest.importorskip("lm_eval")
from lm_eval.api.registry import get_model  # noqa: E402

import linwright.lm_eval  # noqa: E402


def request(*args: Any) -> Any:
    return SimpleNamespace(args=args)


@pytest.fixture(scope="module")
def lm() -> Any:
    return get_model("linwright").create_from_arg_string("pretrained=pocket", {"batch_size": 1, "device": None})


def test_likelihoods_are_finite_and_greedy_ones_are_told(lm: Any) -> None:
    (written,) = lm.generate_until([request("Mila lives in", {"until": ["."], "max_gen_toks": 8})])
    assert written and "." not in written
    (own, other) = lm.loglikelihood(
        [request("Mila lives in", written), request("Mila lives in", " zzz qqq")], disable_tqdm=True
    )
    assert own[1] and not other[1]
    assert own[0] > other[0] and other[0] < 0


def test_generation_is_that_of_the_job(lm: Any) -> None:
    (written,) = lm.generate_until([request("Mila lives in", {"until": [], "max_gen_toks": 6, "do_sample": False})])
    job = linwright.generate("pocket", prompt="Mila lives in", max_new_tokens=6)
    assert job["results"][0].text.startswith(written) or written.startswith(job["results"][0].text)
    with pytest.raises(ValueError, match="sampling"):
        lm.generate_until([request("Mila", {"do_sample": True, "temperature": 1.0})])


def test_rolling_is_that_of_the_job(lm: Any) -> None:
    text = "Mila lives in the village. She has a red house, and a dog."
    Path("page.jsonl").write_text(json.dumps({"page": text}) + "\n", encoding="utf-8")
    (rolling,) = lm.loglikelihood_rolling([request(text)])
    job = linwright.evaluate("pocket", tasks=["wikitext"], data=["wikitext=page.jsonl"])
    bits = job["results"]["wikitext"]["bits_per_byte,none"]
    assert rolling == pytest.approx(-bits * len(text.encode()) * math.log(2), rel=1e-9)
    assert lm.loglikelihood([]) == []


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="which model"):
        linwright.lm_eval.LinwrightLM()
    with pytest.raises(TypeError, match="linwright has no argument rank"):
        linwright.lm_eval.LinwrightLM("pocket", rank=3)
    with pytest.raises(linwright.LinwrightError):
        linwright.lm_eval.LinwrightLM(str(Path("nowhere")))


def test_a_task_of_the_harness_runs_as_a_command() -> None:
    """One import or one command: the released harness does not look into other packages."""
    lines = ["Mila lives in the village.", "Tom has a red house."]
    Path("data.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in lines), encoding="utf-8")
    task = {
        "task": "lines",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(Path("data.jsonl").resolve())}},
        "test_split": "test",
        "output_type": "loglikelihood_rolling",
        "doc_to_text": "",
        "doc_to_target": "{{text}}",
        "metric_list": [{"metric": "bits_per_byte"}],
    }
    Path("tasks").mkdir()
    Path("tasks/lines.yaml").write_text(json.dumps(task), encoding="utf-8")
    command = [sys.executable, "-m", "linwright.lm_eval", "--model", "linwright", "--model_args", "pretrained=pocket"]
    command += ["--tasks", "lines", "--include_path", "tasks", "--output_path", "out"]
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = {**os.environ, "PYTHONPATH": paths, "HF_HOME": str(Path("home").resolve()), "HF_HUB_OFFLINE": "1"}
    said = subprocess.run(command, capture_output=True, text=True, timeout=280, env=environment)
    assert said.returncode == 0, said.stdout + said.stderr
    (written,) = Path("out").rglob("results_*.json")
    bits = json.loads(written.read_text(encoding="utf-8"))["results"]["lines"]["bits_per_byte,none"]
    lm = linwright.lm_eval.LinwrightLM("pocket")
    total = -sum(lm.loglikelihood_rolling([request(line) for line in lines]))
    assert bits == pytest.approx(total / math.log(2) / sum(len(line.encode()) for line in lines), rel=1e-6)


def test_numbers_are_those_of_transformers(lm: Any, pocket: linwright.Model) -> None:
    for package in ("torch", "transformers", "accelerate", "peft"):
        pytest.importorskip(package)
    import lm_eval.models  # noqa: F401

    arguments = f"pretrained={pocket.path},dtype=float32"
    theirs = get_model("hf").create_from_arg_string(arguments, {"batch_size": 1, "device": "cpu"})
    pairs = [("Mila lives in", " the village"), ("Tom has", " a red house."), ("", " She has a dog.")]
    requests = [SimpleNamespace(args=pair, request_type="loglikelihood") for pair in pairs]
    for one, other in zip(lm.loglikelihood(requests), theirs.loglikelihood(requests, disable_tqdm=True)):
        assert one[0] == pytest.approx(other[0], abs=1e-4) and one[1] == other[1]
    # Longer than the model's window.
    texts = [SimpleNamespace(args=("Tom " * 400,), request_type="loglikelihood_rolling")]
    (one,), (other,) = lm.loglikelihood_rolling(texts), theirs.loglikelihood_rolling(texts, disable_tqdm=True)
    assert one == pytest.approx(other, rel=1e-6)
