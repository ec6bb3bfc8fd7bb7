"""Records what transformers computes where a field of a configuration was changed.

Run from the root of the repository, in an environment with torch and transformers:

    python tools/golden/config_changes.py testdata/config_changes.json

Each case takes a tiny checkpoint of `testdata/decoder` or `testdata/encoder` (`stem`), sets fields of its
config.json and removes others, and leaves the weights. It has either

- `rows`: the last row of logits (or of states, where there is no head) of `tokens` in f32, for what
  transformers follows or passes over, or
- `refused`: words of the message with which Linwright refuses it, for what no part of its transformer
  follows; `differs` says how far the numbers of transformers then are from those without the change,
  absent where transformers refuses too.

The cases are what `tools/parity/config_mutations.py` found, one for each cause.
"""

import json
import pathlib
import sys
import tempfile

import torch
import transformers

import tiny

TOKENS = [7, 8, 33, 12, 6, 25, 39, 4, 18, 18, 2, 30, 9, 21, 5]
LINEAR = {"rope_type": "linear", "factor": 2.0}
BOTH = {"full_attention": LINEAR, "sliding_attention": {"rope_type": "default"}}

#: Stem, fields that are set, fields that are removed, and the words of a refusal.
CASES = [
    ("llama-linear-rope", {"tie_word_embeddings": True}, [], None),
    ("opt-no-biases", {"tie_word_embeddings": True}, [], None),
    ("gptj-parallel", {"tie_word_embeddings": True}, [], None),
    ("llama-linear-rope", {"clip_qkv": 0.5}, [], None),
    ("olmo2-post-norms", {"clip_qkv": 0.5}, [], None),
    ("olmo-clip", {"clip_qkv": 0.5}, [], None),
    ("phi-parallel", {"final_logit_softcapping": 1.0}, [], None),
    ("gemma3-two-ropes", {"final_logit_softcapping": 1.0, "attn_logit_softcapping": 2.0}, [], None),
    ("opt-pre-norm", {"attn_logit_softcapping": 2.0}, [], None),
    ("llama-head-dim-biases", {"scale_attn_by_inverse_layer_idx": True}, [], None),
    ("gptj-parallel", {"scale_attn_by_inverse_layer_idx": True, "scale_attn_weights": False}, [], None),
    ("gpt2-plain", {"scale_attn_by_inverse_layer_idx": True}, [], None),
    ("mistral-window", {"query_pre_attn_scalar": 9}, [], None),
    ("mistral-window", {"layer_types": ["full_attention"] * 2}, [], None),
    ("mistral-window", {"layer_types": ["full_attention", "sliding_attention"]}, [], "one kind for all layers"),
    ("mistral-window", {"use_sliding_window": False, "attention_bias": True}, [], None),
    ("qwen2-biases", {"partial_rotary_factor": 0.5}, [], None),
    ("llama-tied", {"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}}, [], None),
    ("phi-parallel", {"partial_rotary_factor": 0.75, "rope_parameters": {}}, [], None),
    ("phi3-window", {"rotary_dim": 4, "no_rope_layers": [0, 1]}, [], None),
    ("gemma2-no-caps", {"no_rope_layers": [0, 1], "sliding_window_pattern": 3}, [], None),
    ("gptj-parallel", {"rope_scaling": LINEAR, "rope_theta": 100.0}, [], None),
    ("neox-parallel", {"rope_theta": 100.0, "num_key_value_heads": 1}, [], None),
    ("gpt2-plain", {"hidden_size": 20, "num_hidden_layers": 2, "n_layer": 1}, ["n_embd"], None),
    ("distilbert-masked", {"hidden_size": 24, "n_layers": 1, "num_hidden_layers": 2}, ["dim"], None),
    ("llama-dynamic-rope", {"original_max_position_embeddings": 8}, [], None),
    ("llama3-rope-grouped", {"original_max_position_embeddings": 8}, [], None),
    ("gemma3-cap-biases", {"rope_scaling": LINEAR, "rope_theta": 300.0, "rope_local_base_freq": 70.0},
     ["rope_parameters"], None),
    ("gemma3-two-ropes", {"rope_parameters": LINEAR | {"rope_theta": 300.0}}, [],
     "one for each kind of layer"),
    ("gemma3-two-ropes", {"rope_scaling": {"type": "linear", "factor": 3.0}}, ["rope_parameters"], "older name"),
    ("olmo2-post-norms", {"rope_parameters": BOTH}, [], "one object for all layers"),
    ("llama-tied", {"rope_parameters": LINEAR | {"partial_rotary_factor": 0.5}}, [], "partial_rotary_factor"),
    ("llama-tied", {"rope_scaling": {"type": "su", "short_factor": [1.0] * 3, "long_factor": [2.0] * 3}}, [],
     "su"),
    ("gemma-tied", {"use_bidirectional_attention": True}, [], "use_bidirectional_attention"),
    ("gemma2-no-caps", {"use_bidirectional_attention": True}, [], "use_bidirectional_attention"),
    ("gemma3-two-ropes", {"use_bidirectional_attention": True}, [], "use_bidirectional_attention"),
    ("llama-tied", {"is_causal": False}, [], "is_causal"),
    ("qwen3-qk-norms", {"per_layer_config": {"1": {"rms_norm_eps": 0.3}}}, [], "per_layer_config"),
    ("bert-masked", {"is_decoder": True}, [], "is_decoder"),
    ("roberta-masked", {"is_decoder": True}, [], "is_decoder"),
    ("roberta-masked", {"hidden_act": "relu"}, [], None),
    ("bert-masked", {"hidden_act": "relu"}, [], None),
    ("distilbert-masked", {"activation": "relu"}, [], None),
    ("smollm3-window-biases", {"use_sliding_window": False}, [], None),
    ("llama-tied", {"embedding_multiplier": 12.0}, [], "embedding_multiplier"),
    ("bert-masked", {"position_embedding_type": "relative_key"}, [], "position_embedding_type"),
]


def computed(folder, architecture):
    causal = "ForCausalLM" in architecture or "LMHead" in architecture
    auto = transformers.AutoModelForCausalLM if causal else transformers.AutoModelForMaskedLM
    model, info = auto.from_pretrained(folder, output_loading_info=True, dtype=torch.float32,
                                       attn_implementation="eager")
    assert not info["missing_keys"] and not info["mismatched_keys"], info
    with torch.inference_mode():
        return model.eval()(input_ids=torch.tensor([TOKENS])).logits[0].double()


def outcome(stem, change, removed):
    """What transformers computes without the change and with it, or why it does not."""
    path = next(pathlib.Path("testdata").glob(f"*coder/{stem}.json"))
    config = json.loads(path.read_text())["config"]
    changed = {name: value for name, value in (config | change).items() if name not in removed}
    results = []
    for one in (config, changed):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "config.json").write_text(json.dumps(one))
            (folder / "model.safetensors").write_bytes(path.with_suffix(".safetensors").read_bytes())
            try:
                results.append(computed(folder, config["architectures"][0]))
            except Exception as error:  # noqa: BLE001 - whatever a class of transformers says
                results.append(error)
    return path.parent.name, results


def main(target):
    torch.set_num_threads(1)
    transformers.logging.set_verbosity(50)
    transformers.logging.disable_progress_bar()
    cases = []
    for stem, change, removed, refused in CASES:
        folder, (before, after) = outcome(stem, change, removed)
        case = {"folder": folder, "stem": stem, "set": change, "remove": removed}
        fails = isinstance(after, Exception)
        if refused is None:
            assert not fails, f"{stem} {change}: {after!r}"
            case["rows"] = tiny.rounded(after[-1])
        else:
            case["refused"] = refused
            if not fails:
                case["differs"] = float(f"{tiny.difference(after, before):.1e}")
        said = repr(after)[:90] if fails else f"{tiny.difference(after, before):.1e} from before"
        print(f"{stem}: {json.dumps(change)[:80]}: {said}")
        cases.append(case)
    head = {"script": "tools/golden/config_changes.py", "tokens": TOKENS,
            "versions": tiny.header("", {})["versions"]}
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    target.write_text(json.dumps(head)[:-1] + ', "cases": [\n' + lines + "\n]}\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
