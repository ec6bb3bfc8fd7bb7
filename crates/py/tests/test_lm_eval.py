"""The model of lm-evaluation-harness gives the command's numbers."""

from __future__ import annotations

import json
import math
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
