"""Makes LoRA adapters of every kind that is merged, and what PEFT computes with them merged.

Run from the root of the repository, in an environment with torch, transformers, safetensors and
peft (0.21):

    python tools/golden/adapters.py testdata/adapter

The bases are sets of `testdata/decoder` and `testdata/encoder`. Each `<stem>.json` holds the name of its
base, the two files of the adapter, the weights in hexadecimal, and the logits of the last position of
every sequence of the base.
"""

import json
import pathlib
import sys
import tempfile

import peft
import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]
SEED = 20261128
LLAMA, GPT2, NEOX, PHI3, BERT = (
    "decoder/llama-head-dim-biases", "decoder/gpt2-unscaled-untied", "decoder/neox-parallel",
    "decoder/phi3-window", "encoder/bert-masked")

ADAPTERS = {
    "plain": (LLAMA, dict(target_modules=["q_proj", "v_proj"], r=3, lora_alpha=6)),
    "patterns": (LLAMA, dict(
        target_modules="all-linear", r=2, lora_alpha=4, use_rslora=True,
        rank_pattern={"down_proj": 3, r".*layers\.1\.self_attn\.k_proj": 1}, alpha_pattern={"mlp.up_proj": 7.5})),
    "dora": (LLAMA, dict(target_modules=["o_proj", "gate_proj"], r=2, lora_alpha=3, use_dora=True)),
    "biases": (LLAMA, dict(target_modules=["q_proj", "k_proj"], r=2, lora_alpha=3, lora_bias=True, bias="all")),
    "saved": (LLAMA, dict(target_modules=["up_proj"], r=2, modules_to_save=["lm_head", "norm", "embed_tokens"])),
    "embedding": (LLAMA, dict(target_modules=["embed_tokens", "lm_head"], r=2, lora_alpha=5)),
    "transposed": (GPT2, dict(target_modules=["c_attn", "mlp.c_proj"], r=2, fan_in_fan_out=True)),
    "transposed-dora": (GPT2, dict(target_modules=["c_attn", "c_fc"], r=2, use_dora=True, fan_in_fan_out=True)),
    "transposed-saved": (GPT2, dict(target_modules=["c_attn"], r=1, modules_to_save=["attn.c_proj", "wpe"], fan_in_fan_out=True)),
    "renamed": (NEOX, dict(target_modules=["query_key_value", "lm_head"], r=2)),
    "fused": (PHI3, dict(target_modules=["qkv_proj", "gate_up_proj"], r=2)),
    "encoder": (BERT, dict(target_modules=["query", "dense"], r=2, init_lora_weights="gaussian")),
}


def base_of(record, weights):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "config.json").write_text(json.dumps(record["config"]))
        (folder / "model.safetensors").write_bytes(weights)
        kind = getattr(transformers, record["config"]["architectures"][0])
        return kind.from_pretrained(folder, attn_implementation="eager").eval()


def make(stem, name, options, out):
    path = ROOT / "testdata" / name
    record = json.loads(path.with_suffix(".json").read_text())
    model = base_of(record, path.with_suffix(".safetensors").read_bytes())
    adapted = peft.get_peft_model(model, peft.LoraConfig(**options))
    torch.manual_seed(SEED)
    for parameter in adapted.parameters():
        if parameter.requires_grad:
            parameter.data += 0.2 * torch.randn_like(parameter)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        adapted.save_pretrained(folder)
        settings = json.loads((folder / "adapter_config.json").read_text())
        settings["base_model_name_or_path"] = "some/base"
        settings["target_modules"] = sorted(settings["target_modules"] or [])
        weights = (folder / "adapter_model.safetensors").read_bytes()
        # As it is read back, since not all is written.
        fresh = base_of(record, path.with_suffix(".safetensors").read_bytes())
        merged = peft.PeftModel.from_pretrained(fresh, folder).merge_and_unload().eval()
    logits = []
    for index, sequence in enumerate(record["sequences"]):
        inputs = {"input_ids": torch.tensor([sequence])}
        if "token_types" in record:
            inputs["token_type_ids"] = torch.tensor([record["token_types"][index]])
        with torch.no_grad():
            logits.append([float(f"{v:.7g}") for v in merged(**inputs).logits[0, -1].tolist()])
    content = {"script": "tools/golden/adapters.py", "versions": {"peft": peft.__version__, "transformers": transformers.__version__},
               "base": name, "settings": settings, "weights": weights.hex(), "logits": logits}
    (out / f"{stem}.json").write_text(json.dumps(content) + "\n")
    print(stem, len(weights), list(settings["target_modules"]))


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for stem, (name, options) in ADAPTERS.items():
        make(stem, name, options, out)


if __name__ == "__main__":
    main()
