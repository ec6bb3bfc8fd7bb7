"""Jobs from Python: results, errors, progress, interruption."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linwright


def test_pocket_has_slots_anywhere(pocket: linwright.Model) -> None:
    slots = pocket.slots()
    assert len(slots) > 8
    assert all(slot.parameters > 0 for slot in slots)
    assert any("q_proj" in str(slot.to_dict()) for slot in slots)


def test_a_result_is_an_object_and_plain_data(pocket: linwright.Model) -> None:
    result = pocket.inspect(filter="*layers.0.*", by="layer")
    assert result.to_dict() == json.loads(result.to_json())
    assert result.verb == "inspect" and result.options["filter"] == "*layers.0.*"
    key = next(iter(result))
    assert getattr(result, key) == result[key] or result[key] is not None
    with pytest.raises(AttributeError, match="there is no 'nothing'; there are: "):
        result.nothing
    page = result.to_html("page.html")
    assert Path("page.html").read_text(encoding="utf-8") == page
    assert page.lstrip().lower().startswith("<!doctype html")
    assert "<iframe" in result._repr_html_() and "<!doctype" not in result._repr_html_().lower()
    assert str(result) and result.to_markdown()


def test_tables_are_frames(pocket: linwright.Model) -> None:
    pandas = pytest.importorskip("pandas")
    result = pocket.inspect(slots=True)
    frame = result.to_pandas("sites")
    assert len(frame) == len(pocket.slots())
    assert pandas.api.types.is_integer_dtype(frame["parameters"])
    with pytest.raises(KeyError, match="there is no table 'none'"):
        result.to_pandas("none")


def test_evaluation_is_that_of_the_command(pocket: linwright.Model) -> None:
    text = Path("text.txt")
    text.write_text("The cat sat on the mat. " * 40, encoding="utf-8")
    first = pocket.evaluate(text=text)
    again = linwright.evaluate("pocket", text="text.txt")
    assert first["results"].to_dict() == again["results"].to_dict()
    numbers = [value for task in first["results"].to_dict().values() for value in task.values()]
    assert any(isinstance(number, float) and np.isfinite(number) for number in numbers)


def test_a_model_that_a_job_wrote_loads(pocket: linwright.Model) -> None:
    Path("text.txt").write_text("The cat sat on the mat. " * 40, encoding="utf-8")
    result = pocket.compress(method="svd", keep=0.8, output="smaller", layers="0")
    assert result.model().path == "smaller"
    operators = {slot.to_dict()["site"]: slot.to_dict()["operator"] for slot in result.model().slots()}
    assert any("low_rank" in str(operator) for operator in operators.values()), operators


def test_unknown_options_are_type_errors(pocket: linwright.Model) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'rates'; did you mean 'rate'"):
        pocket.sweep(rates=[1.0])
    with pytest.raises(TypeError, match="missing a required argument: 'model'"):
        linwright.sweep()
    with pytest.raises(TypeError, match="text is a object"):
        pocket.evaluate(text=object())


def test_contradictions_are_usage_errors_with_the_text_of_the_command(pocket: linwright.Model) -> None:
    with pytest.raises(linwright.UsageError, match="--max-ppl needs --text") as caught:
        pocket.evaluate(max_ppl=3.0)
    assert caught.value.exit_code == 2 and isinstance(caught.value, ValueError)
    with pytest.raises(linwright.UsageError, match="max_length is 0, expected a whole number from"):
        pocket.evaluate(text="pocket", max_length=0)
    with pytest.raises(linwright.UsageError, match="max_ppl is nan, expected a finite number"):
        pocket.evaluate(text="pocket", max_ppl=float("nan"))
    with pytest.raises(linwright.UsageError, match="shard"):
        pocket.evaluate(text="pocket", shard="3/2")


def test_a_missed_gate_has_the_result(pocket: linwright.Model) -> None:
    Path("text.txt").write_text("zq xv jjk " * 60, encoding="utf-8")
    with pytest.raises(linwright.GateError) as caught:
        pocket.evaluate(text="text.txt", max_ppl=1.0)
    assert caught.value.exit_code == 4
    assert caught.value.result["results"]


def test_a_missing_model_is_named() -> None:
    with pytest.raises(FileNotFoundError, match="there is no model ./nothing"):
        linwright.load("./nothing")


def test_values_of_numpy_and_paths_are_options(pocket: linwright.Model) -> None:
    Path("text.txt").write_text("The cat sat on the mat. " * 40, encoding="utf-8")
    plan = pocket.evaluate(text=Path("text.txt"), max_length=np.int64(64), stride=np.int64(32), window=np.int64(64), dry_run=np.bool_(True))
    assert plan.options == {"model": "pocket", "text": "text.txt", "max_length": 64, "stride": 32, "window": 64, "dry_run": True}


def test_progress_reaches_a_function_and_notes_the_logger(
    pocket: linwright.Model, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[tuple[str, int, int]] = []
    Path("pocket").mkdir()
    with caplog.at_level(logging.INFO, logger="linwright"):
        result = pocket.inspect(slots=True, progress=lambda *told: seen.append(told))
    assert ("loading pocket", 0, 0) in seen
    assert any("pocket is the built-in model" in note for note in result.notes)
    assert any("pocket is the built-in model" in record.message for record in caplog.records)


def test_a_callback_that_raises_stops_the_job(pocket: linwright.Model) -> None:
    class Enough(Exception):
        pass

    def stop(step: str, done: int, total: int) -> None:
        raise Enough(step)

    with pytest.raises(Enough):
        pocket.evaluate(text="pocket", progress=stop)


def test_other_threads_run_meanwhile(pocket: linwright.Model) -> None:
    ticks = 0
    done = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not done.is_set():
            ticks += 1
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    start = time.monotonic()
    pocket.evaluate(text="pocket", limit=8, progress=False)
    seconds = time.monotonic() - start
    done.set()
    thread.join()
    assert ticks > 20 * seconds, f"{ticks} ticks in {seconds} s"


INTERRUPTED = """
import linwright, os, signal
model = linwright.load("pocket")
def stop(step, done, total):
    if done > 0:
        os.kill(os.getpid(), signal.SIGINT)
try:
    model.evaluate(text="pocket", output="result.json", batch_size=1, progress=stop)
except Exception as error:
    print("swallowed", repr(error))
except KeyboardInterrupt as error:
    print(type(error).__name__, error.resumable, error.exit_code)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_ctrl_c_stops_and_the_same_call_goes_on(pocket: linwright.Model, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    said = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=300, env=environment
    )
    assert said.stdout.strip() == "Interrupted True 75", said.stdout + said.stderr
    assert not (tmp_path / "result.json").exists()
    seen: list[tuple[str, int, int]] = []
    resumed = pocket.evaluate(
        text="pocket", output="result.json", batch_size=1, progress=lambda *told: seen.append(told)
    )
    assert (tmp_path / "result.json").exists()
    whole = pocket.evaluate(text="pocket", batch_size=1)
    assert resumed["results"].to_dict() == whole["results"].to_dict()


def test_shards_merge_to_the_same_result(pocket: linwright.Model) -> None:
    for index in range(2):
        pocket.evaluate(text="pocket", limit=20, output=f"shard{index}", shard=f"{index}/2")
    merged = linwright.merge(["shard0", "shard1"], output="merged.json")
    whole = pocket.evaluate(text="pocket", limit=20)
    assert merged["results"].to_dict() == whole["results"].to_dict()


def test_shards_that_wait_for_each_other_make_one_model(pocket: linwright.Model) -> None:
    options: dict[str, Any] = {"keep": 0.5, "calibration": "pocket:num_tokens=2000", "progress": False}
    pocket.compress(**options, output="whole")

    def shard(index: int) -> linwright.Result:
        return pocket.compress(**options, output="out", shard=f"{index}/2")

    with ThreadPoolExecutor() as pool:
        first, second = pool.map(shard, range(2))
    assert Path("out/model.safetensors").read_bytes() == Path("whole/model.safetensors").read_bytes()
    assert first.to_dict()["output"] == "out" and second.to_dict()["shard"] == "1/2"
    assert shard(1).to_dict() == first.to_dict(), "who comes later gets the result of the first"


def test_interrupted_is_no_exception_that_is_swallowed() -> None:
    assert not issubclass(linwright.Interrupted, Exception)
    assert issubclass(linwright.Interrupted, KeyboardInterrupt)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_bar_is_shown_where_it_is_asked_for(
    pocket: linwright.Model, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("tqdm")
    Path("text.txt").write_text("The cat sat on the mat. " * 40, encoding="utf-8")
    pocket.evaluate(text="text.txt", progress=True)
    assert "evaluating pocket" in capfd.readouterr().err
    # Nobody watches a file: no bar by itself.
    pocket.evaluate(text="text.txt")
    assert capfd.readouterr().err == ""


def test_every_job_refuses_unknown_options_by_name() -> None:
    from linwright._jobs import VERBS

    for verb in VERBS:
        place = linwright if verb.group is None else getattr(linwright, verb.group)
        required = {option.name: "x" for option in verb.options if option.is_required}
        with pytest.raises(TypeError, match=rf"{verb.name}\(\) got an unexpected keyword argument 'colour_'"):
            getattr(place, verb.name)(**required, colour_=1)


def test_generation_is_a_job(pocket: linwright.Model) -> None:
    one = pocket.generate(prompt="Mila lives in", max_new_tokens=5)
    two = linwright.generate("pocket", prompt=["Mila lives in", "Tom"], max_new_tokens=5)
    assert one["results"][0].text == two["results"][0].text
    assert len(two["results"]) == 2 and "Mila lives in" in str(two)
    drawn = [pocket.generate(prompt="Tom", max_new_tokens=8, temperature=2.0, seed=seed) for seed in (1, 1, 2)]
    texts = [one["results"][0].text for one in drawn]
    assert texts[0] == texts[1] != texts[2]
    with pytest.raises(linwright.UsageError, match="there is no prompt"):
        pocket.generate()
    with pytest.raises(linwright.UsageError, match="--top-p is 1.5"):
        pocket.generate(prompt="x", top_p=1.5)
