"""Makes the golden vectors of the decoder: tiny random checkpoints and their logits.

Run from the root of the repository, in an environment with torch and transformers:

    python tools/golden/decoder.py testdata/decoder

Each set is `<stem>.safetensors` (the checkpoint as transformers names its tensors, f32) and
`<stem>.json`: versions, seed, the config.json that transformers writes, token sequences, and the
logits of every position, computed in f64 with eager attention from the f32 weights and rounded to
f32 digits. Weights are normal with deviation 0.15 (norms around 1), larger than usual so that
attention is far from uniform and every term shows in the logits.
"""

import json
import pathlib
import sys

import torch
import transformers
from safetensors.torch import save_file

SEED = 20240607
TINY = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, vocab_size=96,
            num_attention_heads=4, max_position_embeddings=128)


def configs():
    """Stem, configuration and lengths of the token sequences."""
    llama, qwen2, mistral = (
        transformers.LlamaConfig, transformers.Qwen2Config, transformers.MistralConfig)
    yield "llama-tied", llama(**TINY, tie_word_embeddings=True, rms_norm_eps=1e-5), (17, 1, 40)
    llama3 = dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0,
                  high_freq_factor=4.0, original_max_position_embeddings=64)
    yield "llama3-rope-grouped", llama(
        **TINY | dict(hidden_size=48), num_key_value_heads=2, rope_parameters=llama3), (90, 9)
    yield "qwen2-biases", qwen2(
        **TINY, num_key_value_heads=2, use_sliding_window=False,
        rope_parameters=dict(rope_type="default", rope_theta=1000000.0)), (23, 31)
    yield "mistral-window", mistral(
        **TINY, num_key_value_heads=1, sliding_window=7), (33, 5, 70)
    yield "llama-head-dim-biases", llama(
        **TINY | dict(hidden_size=36), head_dim=10, num_key_value_heads=4, attention_bias=True,
        mlp_bias=True), (12, 20)
    yield "llama-linear-rope", llama(
        **TINY, rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=4.0)), (64, 3)


def randomise(model, generator):
    """Every parameter random and none special: norms around one, biases not zero."""
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        is_norm = name.endswith("norm.weight")
        parameter.data = 1.0 + 0.2 * noise if is_norm else 0.15 * noise


def main(folder):
    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    for stem, config, lengths in configs():
        generator = torch.Generator().manual_seed(SEED)
        config._attn_implementation = "eager"
        model = transformers.AutoModelForCausalLM.from_config(config).eval()
        randomise(model, generator)
        # The kept weights are f32; transformers keeps rotary angles in f32 even in a f64 model.
        tensors = {name: p.detach().clone() for name, p in model.named_parameters()}
        weights = folder / f"{stem}.safetensors"
        save_file(tensors, weights, metadata={"format": "pt"})
        weights.chmod(0o644)
        model = model.double()
        sequences = [torch.randint(0, config.vocab_size, (n,), generator=generator) for n in lengths]
        with torch.no_grad():
            logits = [model(tokens[None]).logits[0].float() for tokens in sequences]
        record = {
            "script": "tools/golden/decoder.py",
            "versions": {"torch": torch.__version__.split("+")[0],
                         "transformers": transformers.__version__},
            "seed": SEED,
            "config": json.loads(config.to_json_string()),
            "sequences": [tokens.tolist() for tokens in sequences],
            "logits": [[[float(f"{v:.7g}") for v in row] for row in rows.tolist()] for rows in logits],
        }
        (folder / f"{stem}.json").write_text(json.dumps(record, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
