"""Loads models that Linwright saved in dense form into transformers, and compares what they say.

    python tools/parity/dense_export.py --work /tmp/parity [--model DIR --calibration FILE.jsonl]

For tiny random checkpoints of each family, which transformers makes here, and for the model that is
given, layers are replaced by `linwright compress --form dense --dtype f32`. The result must load in
transformers without a missing or an unexpected tensor. Both programs then score the same
documents; the negative log-likelihood of each must agree to 1e-5 relative. Documents of two tokens
are among them, whose score is one logit against all the others. That the compressed model differs
from the original is checked too, so that agreement means something.
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys

import torch
import transformers
from tokenizers import Tokenizer

TOLERANCE = 1e-5
VOCAB = 96
WINDOW = 64
# Lengths of the random documents, in tokens.
LENGTHS = (2, 2, 2, 2, 3, 5, 17, 40, 64, 64)
TINY = dict(hidden_size=64, intermediate_size=112, num_hidden_layers=3, vocab_size=VOCAB,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128)
QKV = ("--layers", "1,2", "--roles", "query,key,value")
# What is replaced, by what, and how the output projection heals.
METHODS = {
    "low rank, o_proj ridge": ("--method", "low-rank", "--rank", "4", *QKV),
    "block-Hadamard, o_proj ridge": ("--method", "block-hadamard", *QKV),
    "low rank, o_proj trained": ("--method", "low-rank", "--rank", "4", *QKV, "--heal", "trained"),
    "low rank of all linears": ("--method", "low-rank", "--keep", "0.6"),
}


def configs():
    """Name and configuration of the tiny random models."""
    llama3 = dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0,
                  high_freq_factor=4.0, original_max_position_embeddings=64)
    yield "llama", transformers.LlamaConfig(**TINY, tie_word_embeddings=True)
    yield "llama3", transformers.LlamaConfig(**TINY, rope_parameters=llama3)
    yield "qwen2", transformers.Qwen2Config(**TINY, use_sliding_window=False)
    yield "mistral", transformers.MistralConfig(**TINY, sliding_window=16)


def make_model(directory, config):
    """A random checkpoint with a tokenizer of words, and calibration text."""
    generator = torch.Generator().manual_seed(5)
    model = transformers.AutoModelForCausalLM.from_config(config)
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        parameter.data = 1 + 0.1 * noise if name.endswith("norm.weight") else 0.1 * noise
    model.save_pretrained(directory)
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
        "normalizer": None, "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "unk_token": "w0",
                  "vocab": {f"w{index}": index for index in range(VOCAB)}},
    }
    (directory / "tokenizer.json").write_text(json.dumps(tokenizer))


def random_documents(lengths, seed):
    """Documents of random words."""
    generator = torch.Generator().manual_seed(seed)
    for length in lengths:
        words = torch.randint(0, VOCAB, (length,), generator=generator).tolist()
        yield " ".join(f"w{word}" for word in words)


def run(linwright, *words):
    """Runs Linwright, stops with its message if it fails, and gives its JSON."""
    command = [linwright, *map(str, words), "--threads", "2", "--quiet", "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


def linwright_nll(linwright, model, document, work):
    """Nats over the document, and tokens counted."""
    path = work / "document.jsonl"
    path.write_text(json.dumps({"text": document}) + "\n")
    result = run(linwright, "eval", model, "--text", path, "--window", WINDOW, "--bos", "never")
    tokens = result["linwright"]["tokens_counted"]
    return result["results"]["text"]["nll_nats_per_token,none"] * tokens, tokens


def transformers_nll(model, tokenizer, document):
    """The same."""
    tokens = tokenizer.encode(document, add_special_tokens=False).ids
    total, counted = 0.0, 0
    for start in range(0, len(tokens), WINDOW):
        window = torch.tensor([tokens[start:start + WINDOW]])
        if window.shape[1] > 1:
            with torch.inference_mode():
                logits = model(input_ids=window, use_cache=False).logits[0, :-1].double()
            total += torch.nn.functional.cross_entropy(
                logits, window[0, 1:], reduction="sum").item()
            counted += window.shape[1] - 1
    return total, counted


def load(directory):
    """The model in transformers, if every tensor found its place."""
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        directory, dtype=torch.float32, output_loading_info=True)
    wrong = {key: value for key, value in info.items() if value}
    if wrong:
        sys.exit(f"{directory}: {wrong}")
    return model.eval(), Tokenizer.from_file(str(directory / "tokenizer.json"))


def compare(args, name, model, dataset, documents):
    """Compresses a model by each method and compares the scores; gives whether all agree."""
    original, tokenizer = load(model)
    agree = True
    for method, options in METHODS.items():
        output = args.work / "compressed"
        run(args.linwright, "compress", model, *options, "--calibration",
            f"{dataset}:num_tokens=4000,seq_len=64", "--form", "dense", "--dtype", "f32", "--evaluation", "bos=never",
            "--output", output, "--force")
        dense, _ = load(output)
        largest, change = 0.0, 0.0
        for document in documents:
            ours, counted = linwright_nll(args.linwright, output, document, args.work)
            theirs, expected = transformers_nll(dense, tokenizer, document)
            before, _ = transformers_nll(original, tokenizer, document)
            if counted != expected:
                sys.exit(f"{name}: {counted} tokens counted, {expected} in transformers")
            largest = max(largest, abs(ours - theirs) / abs(theirs))
            change = max(change, abs(theirs - before) / abs(before))
        good = largest <= TOLERANCE < change
        agree &= good
        print(f"{name:11} {method:30} differs by {largest:.1e} at most; from the original by "
              f"{change:.1e}: {'equal' if good else 'WRONG'}", flush=True)
    return agree


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=pathlib.Path, required=True, help="emptied, then filled")
    parser.add_argument("--model", type=pathlib.Path, help="one more model")
    parser.add_argument("--calibration", type=pathlib.Path, help="its text, JSONL, scored too")
    parser.add_argument("--linwright", default="target/release/linwright")
    args = parser.parse_args()
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    shutil.rmtree(args.work, ignore_errors=True)
    args.work.mkdir(parents=True)
    calibration = args.work / "calibration.jsonl"
    texts = [json.dumps({"text": text}) for text in random_documents([64] * 64, 1)]
    calibration.write_text("\n".join(texts) + "\n")
    agree = True
    for name, config in configs():
        directory = args.work / name
        make_model(directory, config)
        agree &= compare(args, name, directory, calibration, list(random_documents(LENGTHS, 2)))
    if args.model:
        lines = args.dataset.read_text(encoding="utf-8").splitlines()
        documents = [json.loads(line)["text"] for line in lines]
        agree &= compare(args, args.model.name, args.model, args.dataset, documents)
    sys.exit(0 if agree else 1)


if __name__ == "__main__":
    main()
