"""Loads exports of Linwright into transformers and PEFT, and compares what they compute.

    cargo run -p linwright-model --example export_sets -- testdata /tmp/exports
    python tools/parity/export.py /tmp/exports

Every folder that has a `<folder>.json` beside it is an export of a tiny reference model: operators in
the factored form and as dense weights, smaller and layer-wise widths, adapters, GGUF files. It must load without a missing or an
unexpected tensor, and give the logits that Linwright gave (or the last hidden rows of an encoder
without a head) to 1e-5 of the largest. Models of the factored form must also survive bf16, a cache
and saving by transformers. Folders of the factored form must be refused where their Python file is
not allowed, those of the native form always: they hold no weights that the original class could use.

`--check-packages` only says which packages are absent, and ends with 2 if any are.
"""

import argparse
import importlib.util
import json
import pathlib
import sys
import tempfile

PACKAGES = ("torch", "transformers", "peft", "gguf")
ABSENT = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
if ABSENT:
    print(f"absent packages: {', '.join(ABSENT)}; pip install {' '.join(ABSENT)}", file=sys.stderr)
    sys.exit(2)

import torch  # noqa: E402
import transformers  # noqa: E402

#: Share of the largest number. Both sides compute in f32, in different orders.
TOLERANCE = 1e-5
#: bf16 has eight bits; a dozen products one after another.
TOLERANCE_BF16 = 0.2


def load(folder, auto, **options):
    """The model, if every tensor found its place."""
    model, info = getattr(transformers, auto).from_pretrained(
        folder, output_loading_info=True, **options
    )
    # An encoder that is loaded without a pooling layer of its own gets a random one.
    wrong = {
        key: [name for name in value if "pooler" not in str(name)]
        for key, value in info.items()
        if isinstance(value, (list, set, tuple)) and value
    }
    if any(wrong.values()):
        sys.exit(f"{folder}: {wrong}")
    return model.eval()


def rows_of(model, tokens):
    """Logits, or hidden rows where there is no head."""
    with torch.inference_mode():
        out = model(input_ids=torch.tensor([tokens]))
    return (out.logits if "logits" in out else out.last_hidden_state)[0].double()


def difference(model, record):
    """Largest difference as a share of the largest number."""
    worst = 0.0
    for tokens, expected in zip(record["sequences"], record["results"], strict=True):
        expected = torch.tensor(expected, dtype=torch.float64)
        gap = (rows_of(model, tokens) - expected).abs().max() / expected.abs().max()
        worst = max(worst, gap.item()) if gap == gap else float("nan")
    return worst


def refuses(folder, auto, trusted=False):
    """Whether nothing is loaded; `trusted` lets Python files run."""
    try:
        getattr(transformers, auto).from_pretrained(folder, trust_remote_code=trusted)
    except (ValueError, OSError):
        return True
    return False


def check_factored(folder, record, model):
    """What else must hold of the factored form; the failures."""
    failures = []
    if not refuses(folder, record["auto"]):
        failures.append("loaded without permission")
    half = load(folder, record["auto"], trust_remote_code=True, dtype=torch.bfloat16)
    if not difference(half, record) < TOLERANCE_BF16:
        failures.append(f"bf16 differs by {difference(half, record):.1e}")
    with tempfile.TemporaryDirectory() as again:
        model.save_pretrained(again)
        saved = load(again, record["auto"], trust_remote_code=True, dtype=torch.float32)
        if not difference(saved, record) < TOLERANCE:
            failures.append("saved by transformers it is another model")
    if record["auto"] == "AutoModelForCausalLM":
        prompt = torch.tensor([record["sequences"][0][:4]])
        mask = torch.ones_like(prompt)
        both = [
            model.generate(
                prompt,
                attention_mask=mask,
                max_new_tokens=8,
                do_sample=False,
                use_cache=cache,
                pad_token_id=0,
            )
            for cache in (True, False)
        ]
        if not torch.equal(*both):
            failures.append("its cache changes what it writes")
    bare = load_bare(folder)
    if "linwright" not in str(type(bare)).lower():
        failures.append(f"AutoModel gives {type(bare)}")
    return failures


def load_bare(folder):
    """The model without a head."""
    return transformers.AutoModel.from_pretrained(folder, trust_remote_code=True)


def load_adapter(folder, record):
    """The base with its adapter, merged."""
    import peft

    base = json.loads((folder / "adapter_config.json").read_text())["base_model_name_or_path"]
    model = load(base, record["auto"], dtype=torch.float32)
    before = difference(model, record)
    adapted = peft.PeftModel.from_pretrained(model, folder).eval()
    if before < 100 * TOLERANCE:
        sys.exit(f"{folder}: the base is the same model; agreement would mean nothing")
    off = difference(adapted, record)
    return max(off, difference(adapted.merge_and_unload(), record))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("exports", type=pathlib.Path, nargs="?", help="what the example wrote")
    parser.add_argument("--check-packages", action="store_true", help="look for packages only")
    args = parser.parse_args()
    if args.check_packages:
        return
    if args.exports is None:
        parser.error("name the folder that the example wrote")
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    print(f"transformers {transformers.__version__}, torch {torch.__version__}")
    records, good = sorted(args.exports.glob("*.json")), True
    if not records:
        sys.exit(f"{args.exports}: no exports")
    for path in records:
        folder, record = path.with_suffix(""), json.loads(path.read_text())
        failures = []
        if record["form"] == "native":
            autos = {record["auto"], "AutoModel", "AutoConfig"}
            asked = [(auto, trusted) for auto in sorted(autos) for trusted in (False, True)]
            loaded = [auto for auto, trusted in asked if not refuses(folder, auto, trusted)]
            good &= not loaded
            verdict = f"LOADED by {', '.join(loaded)}" if loaded else "as it must be"
            print(f"{folder.name:44} refused     {verdict}", flush=True)
            continue
        if record["form"] == "lora":
            off = load_adapter(folder, record)
        else:
            remote = record["form"] in ("factored", "blocks")
            options = {"trust_remote_code": True} if remote else {}
            if record["form"] == "gguf":
                # The tiny models have no tokenizer, from which transformers would count the tokens.
                original = str(folder).removesuffix("gguf") + "original"
                config = transformers.AutoConfig.from_pretrained(original)
                options = {"gguf_file": "model-F32.gguf", "config": config}
            model = load(folder, record["auto"], dtype=torch.float32, **options)
            off = difference(model, record)
            if record["form"] == "factored":
                failures = check_factored(folder, record, model)
        if not off < TOLERANCE:
            failures.append("WRONG")
        good &= not failures
        print(f"{folder.name:44} off by {off:.1e} {'; '.join(failures) or 'equal'}", flush=True)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
