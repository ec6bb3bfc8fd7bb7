"""Makes small GGUF files for tests that damage them: one for each kind of tokenizer and layout.

Run from the root of the repository, in an environment with numpy and the package gguf:

    python tools/golden/gguf_seeds.py testdata/fuzz/gguf
"""

import pathlib
import sys

import gguf
import numpy as np

SEED = 20250103


def tokens(writer, kind, names, kinds):
    writer.add_tokenizer_model(kind)
    writer.add_token_list(names)
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)


def start(path, arch, width=8):
    writer = gguf.GGUFWriter(path, arch)
    writer.add_context_length(16)
    writer.add_embedding_length(width)
    writer.add_block_count(1)
    writer.add_feed_forward_length(8)
    writer.add_head_count(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_layer_norm_eps(1e-5)
    return writer


def finish(writer, rng, tensors):
    for name, shape, kind in tensors:
        kind = gguf.GGMLQuantizationType[kind]
        numbers = rng.normal(size=shape).astype(np.float32)
        writer.add_tensor(name, gguf.quants.quantize(numbers, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(SEED)
    writer = start(folder / "pieces.gguf", "llama", 32)
    tokens(writer, "llama", ["<unk>", "<s>", "</s>", "<0x41>", "\u2581", "a", "b", "ab", "\u2581ab"],
           [2, 3, 3, 6, 1, 1, 1, 1, 1])
    writer.add_token_scores([0.0, 0.0, 0.0, 0.0, -5.0, -4.0, -3.0, -1.0, -2.0])
    writer.add_rope_dimension_count(16)
    finish(writer, rng, [("token_embd.weight", (9, 32), "Q4_0"), ("blk.0.attn_q.weight", (32, 32), "Q8_0"),
                         ("blk.0.attn_k.bias", (32,), "F32"), ("output_norm.weight", (32,), "BF16")])
    writer = start(folder / "bytes.gguf", "gpt2")
    writer.add_tokenizer_pre("gpt-2")
    tokens(writer, "gpt2", ["a", "b", "<|end|>", "ab", "\u0120"], [1, 1, 3, 1, 1])
    writer.add_token_merges(["a b"])
    finish(writer, rng, [("token_embd.weight", (5, 8), "F16"), ("blk.0.attn_qkv.weight", (24, 8), "F16"),
                         ("blk.0.attn_qkv.bias", (24,), "F32"), ("output.weight", (5, 8), "F32")])
    writer = start(folder / "words.gguf", "bert")
    tokens(writer, "bert", ["[UNK]", "[CLS]", "[SEP]", "\u2581a", "b"], [3, 3, 3, 1, 1])
    writer.add_array("nested", [[1, 2], [3]])
    finish(writer, rng, [("token_embd.weight", (5, 8), "F32"), ("token_types.weight", (2, 8), "F32")])
    writer = start(folder / "heads.gguf", "gptneox")
    writer.add_rope_dimension_count(2)
    writer.add_tokenizer_model("no_vocab")
    finish(writer, rng, [("token_embd.weight", (4, 8), "F16"), ("blk.0.attn_qkv.weight", (24, 8), "BF16"),
                         ("blk.0.attn_qkv.bias", (24,), "F32")])


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
