"""A model for lm-evaluation-harness.

    python -m linwright.lm_eval --model linwright --model_args pretrained=pocket --tasks arc_easy

takes all options of the command `lm_eval`, which does not look for models in other packages (version 0.4.13). In a
program, `import linwright.lm_eval` registers the model under this name.
"""

from __future__ import annotations

import json
from typing import Any

from lm_eval.api.model import TemplateLM
from lm_eval.api.registry import register_model

from . import _linwright
from ._progress import Progress, receiver

#: New tokens of a continuation where the task does not say.
_NEW_TOKENS = 256


@register_model("linwright")
class LinwrightLM(TemplateLM):  # type: ignore[misc]
    """A model in the harness: all three kinds of its requests, answered as `linwright eval` answers them.

    Args:
        pretrained: `pocket`, a directory or file, or `owner/name[@revision]` on the hub; `path` and `model` are other
            names for it.
        dtype: Data type of weights in memory: auto, f32, bf16 or f16; computation is in f32.
        max_length: Longest input in tokens, at most that of the model.
        batch_tokens: Largest number of tokens in a batch; log-probabilities depend on it in the sixth decimal place.
        progress: How to report progress, as for jobs.
    """

    def __init__(
        self,
        pretrained: str | None = None,
        *,
        path: str | None = None,
        model: str | None = None,
        dtype: str = "auto",
        max_length: int | None = None,
        batch_tokens: int | None = None,
        progress: Progress = None,
        **ignored: Any,
    ) -> None:
        super().__init__()
        name = pretrained or path or model
        if name is None:
            raise ValueError("which model? give pretrained=NAME, such as pretrained=pocket")
        # The harness gives a size of batches and a device to every model.
        if unknown := set(ignored) - {"batch_size", "max_batch_size", "device"}:
            raise TypeError(f"linwright has no argument {', '.join(sorted(unknown))}")
        settings = {"dtype": dtype, "max_length": max_length, "batch_tokens": batch_tokens}
        given = {key: value for key, value in settings.items() if value is not None}
        self._progress = progress
        self._model = _linwright.RawLanguageModel(name, json.dumps(given), receiver(progress))

    @property
    def tokenizer_name(self) -> str:
        """A name by which the harness caches requests."""
        name, hash_ = self._model.name()
        return f"{name}@{hash_}"

    @property
    def max_length(self) -> int:
        """Longest input in tokens."""
        return self._model.max_length()

    def loglikelihood(self, requests: list[Any], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """Log-likelihood of each continuation, and whether it is the greedy one."""
        asked = [
            {"kind": "log_likelihood", "context": context, "continuation": continuation}
            for context, continuation in (request.args for request in requests)
        ]
        replies = self._answer(asked, disable_tqdm)
        return [(one["log_likelihood"]["log_likelihood"], one["log_likelihood"]["is_greedy"]) for one in replies]

    def loglikelihood_rolling(self, requests: list[Any], disable_tqdm: bool = False) -> list[float]:
        """Log-likelihood of each text from its start."""
        asked = [{"kind": "rolling", "text": request.args[0]} for request in requests]
        return [-one["rolling"]["nll"] for one in self._answer(asked, disable_tqdm)]

    def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[str]:
        """Greedy continuations.

        Raises:
            ValueError: if a task asks for sampling.
        """
        asked = []
        for request in requests:
            context, options = request.args
            if options.get("do_sample") and options.get("temperature", 1.0) > 0:
                raise ValueError("this task asks for sampling; linwright answers greedily")
            until = options.get("until") or []
            until = [until] if isinstance(until, str) else list(until)
            new_tokens = options.get("max_gen_toks", _NEW_TOKENS)
            asked.append({"kind": "generate", "context": context, "until": until, "new_tokens": new_tokens})
        return [one["generated"]["text"] for one in self._answer(asked, disable_tqdm)]

    def _answer(self, asked: list[dict[str, Any]], silent: bool) -> list[dict[str, Any]]:
        progress: Progress = False if silent else self._progress
        replies: list[dict[str, Any]] = json.loads(self._model.answer(json.dumps(asked), receiver(progress)))
        return replies

    # The template's own ways to these answers are not used.
    def _loglikelihood_tokens(self, requests: Any, **keywords: Any) -> Any:
        raise NotImplementedError("linwright takes texts: loglikelihood")

    def tok_encode(self, string: str, **keywords: Any) -> Any:
        """Not supported: requests are texts."""
        raise NotImplementedError("linwright takes texts: loglikelihood")

    @property
    def eot_token_id(self) -> int:
        """Not supported: requests are texts."""
        raise NotImplementedError("linwright takes texts: loglikelihood")


if __name__ == "__main__":
    from lm_eval.__main__ import cli_evaluate

    cli_evaluate()
