"""Makes a checkpoint of the Llama family with random weights, and a text of random words for it.

    python tools/bench/random_llama.py OUT --shape small --vocab 4096 --dtype f32 --tokens 65536

Writes OUT/config.json, OUT/model.safetensors, OUT/tokenizer.json (a token is a word `w0`, `w1`, ...)
and, with --tokens, OUT/text.txt with that many random words. Weights are normal with deviation
0.02, norms are one; each tensor has its own stream under the seed. Tensors are drawn and written
one after another in pieces, so that memory stays small whatever the shape. With --used, the text has
only that many words, and the other rows of the embedding and the whole head are zeros that take no
room on the disk; with --sparse all matrices are, for dry runs on large shapes. Needs numpy alone.
"""

import argparse
import json
import pathlib
import zlib

import numpy as np

# hidden, intermediate, layers, heads, key and value heads, tied embeddings
SHAPES = {
    "tiny": (64, 160, 3, 4, 2, True),
    "small": (512, 1376, 8, 8, 8, False),
    "100m": (768, 2048, 12, 12, 12, True),
    "gigabyte": (1024, 2816, 15, 16, 16, False),
    "hidden-512": (512, 1376, 8, 8, 8, False),
    "hidden-2048": (2048, 5632, 4, 16, 16, False),
    "2gb": (2048, 5632, 18, 16, 16, False),
    "llama-3.2-1b": (2048, 8192, 16, 32, 8, True),
    "llama-3.1-8b": (4096, 14336, 32, 32, 8, False),
    "llama-7b": (4096, 11008, 32, 32, 32, False),
    "mistral-7b": (4096, 14336, 32, 32, 8, False),
    "qwen2.5-1.5b": (1536, 8960, 28, 12, 2, True),
    "fox-1-1.6b": (2048, 5632, 32, 16, 4, True),
    "qwen3-8b": (4096, 12288, 36, 32, 8, False),
    "llama-3.1-70b": (8192, 28672, 80, 64, 8, False),
}
SCALE = np.float32(0.02)
# Numbers drawn at a time.
PIECE = 1 << 22


def config_of(shape, vocab, dtype, layers=None):
    """The config.json, in the words of transformers."""
    hidden, intermediate, standard, heads, kv_heads, tied = SHAPES[shape]
    family = next((f for f in ("qwen2", "qwen3") if shape.startswith(f)), "llama")
    return {
        "architectures": [f"{family.capitalize()}ForCausalLM"],
        "model_type": family,
        "hidden_size": hidden,
        "intermediate_size": intermediate,
        "num_hidden_layers": layers or standard,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": hidden // heads,
        "vocab_size": vocab,
        "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": tied,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "torch_dtype": {"f32": "float32", "bf16": "bfloat16"}[dtype],
    }


def tensors_of(config):
    """Name and shape of every tensor, in the order of computation."""
    hidden, middle = config["hidden_size"], config["intermediate_size"]
    kv = config["num_key_value_heads"] * config["head_dim"]
    yield "model.embed_tokens.weight", (config["vocab_size"], hidden)
    for index in range(config["num_hidden_layers"]):
        at = f"model.layers.{index}."
        yield at + "input_layernorm.weight", (hidden,)
        yield at + "self_attn.q_proj.weight", (hidden, hidden)
        yield at + "self_attn.k_proj.weight", (kv, hidden)
        yield at + "self_attn.v_proj.weight", (kv, hidden)
        yield at + "self_attn.o_proj.weight", (hidden, hidden)
        if config["model_type"] == "qwen2":
            for name, rows in (("q", hidden), ("k", kv), ("v", kv)):
                yield at + f"self_attn.{name}_proj.bias", (rows,)
        if config["model_type"] == "qwen3":
            yield at + "self_attn.q_norm.weight", (config["head_dim"],)
            yield at + "self_attn.k_norm.weight", (config["head_dim"],)
        yield at + "post_attention_layernorm.weight", (hidden,)
        yield at + "mlp.gate_proj.weight", (middle, hidden)
        yield at + "mlp.up_proj.weight", (middle, hidden)
        yield at + "mlp.down_proj.weight", (hidden, middle)
    yield "model.norm.weight", (hidden,)
    if not config["tie_word_embeddings"]:
        yield "lm_head.weight", (config["vocab_size"], hidden)


def stored(values, dtype):
    """The little-endian bytes of f32 numbers; bf16 is rounded to nearest, ties to even."""
    if dtype == "f32":
        return values.astype("<f4").tobytes()
    bits = values.view(np.uint32)
    rounded = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return (rounded >> np.uint32(16)).astype("<u2").tobytes()


def write_weights(path, config, dtype, seed, used=None, sparse=False):
    """Writes the safetensors file and returns the number of parameters."""
    size = {"f32": 4, "bf16": 2}[dtype]
    header, offset = {}, 0
    for name, shape in tensors_of(config):
        end = offset + size * int(np.prod(shape))
        header[name] = {"dtype": dtype.upper(), "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps({"__metadata__": {"format": "pt"}} | header, separators=(",", ":"))
    text += " " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text.encode())
        for name, shape in tensors_of(config):
            count = int(np.prod(shape))
            at = file.tell()
            if (used and name == "lm_head.weight") or (sparse and len(shape) > 1):
                count = 0
            elif used and name == "model.embed_tokens.weight":
                count = used * shape[1]
            if len(shape) == 1:
                file.write(stored(np.ones(count, np.float32), dtype))
                continue
            stream = np.random.default_rng([seed, zlib.crc32(name.encode())])
            for start in range(0, count, PIECE):
                piece = stream.standard_normal(min(PIECE, count - start), np.float32)
                file.write(stored(piece * SCALE, dtype))
            # What was not written is zeros, and a hole of the file.
            file.seek(at + size * int(np.prod(shape)))
        file.truncate()
    return offset // size


def tokenizer_of(vocab):
    """A tokenizer.json that splits at white space and knows the words w0, w1, ..."""
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
        "model": {
            "type": "WordLevel",
            "vocab": {f"w{index}": index for index in range(vocab)},
            "unk_token": "w0",
        },
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--shape", choices=SHAPES, default="small")
    parser.add_argument("--vocab", type=int, default=4096)
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--tokens", type=int, default=0, help="words of text.txt, 0 for none")
    parser.add_argument("--layers", type=int, help="number of layers, instead of the shape's")
    parser.add_argument("--used", type=int, help="words of the text [default: all]")
    parser.add_argument("--sparse", action="store_true", help="matrices of zeros that take no room")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    args.out.mkdir(parents=True)
    config = config_of(args.shape, args.vocab, args.dtype, args.layers)
    weights = args.out / "model.safetensors"
    parameters = write_weights(weights, config, args.dtype, args.seed, args.used, args.sparse)
    (args.out / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    tokenizer = json.dumps(tokenizer_of(args.vocab), separators=(",", ":"))
    (args.out / "tokenizer.json").write_text(tokenizer + "\n")
    if args.tokens:
        words = np.random.default_rng([args.seed, 0]).integers(0, args.used or args.vocab, args.tokens)
        text = " ".join(f"w{word}" for word in words)
        (args.out / "text.txt").write_text(text + "\n")
    print(f"{args.out}: {parameters:,} parameters, {4 * parameters / 1e6:,.0f} MB in f32")


if __name__ == "__main__":
    main()
