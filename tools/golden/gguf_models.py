"""Makes tiny GGUF files of every architecture that is read, and what a reader must make of them.

Run from the root of the repository, in an environment with torch, transformers, tokenizers,
sentencepiece and gguf:

    python tools/golden/gguf_models.py testdata/gguf/models

A random model of transformers is written as `<stem>.gguf` (version 3, with the writer and the name
tables of the package gguf, matrices in several storage types, one after the other). `<stem>.json`
holds its configuration, and for each parameter its shape and the FNV-1a hash of the f32 numbers that
are stored, back in their places; where transformers reads files of the architecture itself, it must
find the same numbers, or this script fails. It also holds token sequences with the logits of every
position, in f64 from the stored numbers, and for files with a tokenizer texts and their ids by
sentencepiece or tokenizers.
"""

import io
import json
import pathlib
import sys
import tempfile

import gguf
import numpy as np
import sentencepiece
import tokenizers
import torch
import transformers

SEED = 20250102
TINY = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, vocab_size=48,
            num_attention_heads=4, max_position_embeddings=128)
KINDS = ["F16", "BF16", "Q8_0", "F32", "Q4_0", "Q5_1", "Q5_0", "Q4_1"]
TEXTS = ["Hello world", " two  spaces, and 1234567 digits!", "", "caf\u00e9 \u2603 \U0001f600\n\n\tx",
         "It's what they'LL say: we've a <s> in text.", "a"]


def fnv1a(array):
    state = 0xCBF29CE484222325
    for byte in np.ascontiguousarray(array, dtype="<f4").tobytes():
        state = (state ^ byte) * 0x100000001B3 % 2**64
    return f"{state:016x}"


def neighbours(heads):
    """Rows of each head from rotary halves to rotary neighbours."""
    def change(w):
        return w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)
    return change


def parts(heads):
    """Rows from query, key, value of each head to all queries, all keys, all values."""
    def change(w):
        return w.reshape(heads, 3, w.shape[0] // heads // 3, *w.shape[1:]).swapaxes(0, 1).reshape(w.shape)
    return change


def change_of(arch, config, name):
    """How the rows of a parameter are moved, and what is added to it."""
    heads = config.num_attention_heads
    kv = getattr(config, "num_key_value_heads", heads)
    if arch in ("llama", "olmo") and ".q_proj." in name:
        return neighbours(heads), 0
    if arch in ("llama", "olmo") and ".k_proj." in name:
        return neighbours(kv), 0
    if arch == "gptneox" and "query_key_value" in name:
        return parts(heads), 0
    if arch == "gpt2" and name.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight")):
        return np.transpose, 0
    if arch.startswith("gemma") and name.endswith("norm.weight"):
        return lambda w: w, 1
    return lambda w: w, 0


def keys(writer, config, arch):
    """The metadata of a configuration."""
    get = lambda *names: next((getattr(config, n) for n in names if getattr(config, n, None) is not None), None)
    width, heads = get("hidden_size"), get("num_attention_heads")
    writer.add_context_length(get("max_position_embeddings"))
    writer.add_embedding_length(width)
    writer.add_block_count(get("num_hidden_layers"))
    writer.add_feed_forward_length(get("intermediate_size", "n_inner"))
    writer.add_head_count(heads)
    kv = get("num_key_value_heads")
    if kv:
        writer.add_head_count_kv(kv)
    if get("rms_norm_eps"):
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    else:
        writer.add_layer_norm_eps(get("layer_norm_eps", "layer_norm_epsilon") or 1e-5)
    if get("head_dim") and arch not in ("phi3", "olmo", "olmo2", "stablelm"):
        writer.add_key_length(config.head_dim)
        writer.add_value_length(config.head_dim)
    rope = getattr(config, "rope_parameters", None) or {}
    full = rope.get("full_attention", rope)
    head = get("head_dim") or width // heads
    if full and arch not in ("phi2", "gptneox"):
        writer.add_rope_freq_base(full["rope_theta"])
    if full and arch not in ("gemma", "gemma2", "gemma3", "qwen2", "qwen3"):
        writer.add_rope_dimension_count(int(head * full.get("partial_rotary_factor", 1.0)))
    if full.get("rope_type") == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(full["factor"])
    if full.get("rope_type") == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_factors(full, head))
    if full.get("rope_type") == "longrope":
        original = config.original_max_position_embeddings
        writer.add_rope_scaling_orig_ctx_len(original)
        scale = config.max_position_embeddings / original
        writer.add_rope_scaling_attn_factors((1 + np.log(scale) / np.log(original)) ** 0.5)
        writer.add_tensor("rope_factors_long.weight", np.array(full["long_factor"], np.float32))
        writer.add_tensor("rope_factors_short.weight", np.array(full["short_factor"], np.float32))
    if get("sliding_window") and arch not in ("qwen2", "qwen3"):
        writer.add_sliding_window(config.sliding_window)
    if arch == "gemma2":
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
    if arch in ("gptneox", "stablelm"):
        writer.add_parallel_residual(config.use_parallel_residual)
    if get("clip_qkv"):
        writer.add_clamp_kqv(config.clip_qkv)
    if arch == "bert":
        writer.add_causal_attention(False)


def llama3_factors(rope, head):
    turns = rope["rope_theta"] ** -(np.arange(0, head, 2) / head) / (2 * np.pi)
    turns = turns * rope["original_max_position_embeddings"]
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    kept = np.clip((turns - low) / (high - low), 0, 1)
    return (1 / ((1 - kept) / rope["factor"] + kept)).astype(np.float32)


def sentencepiece_vocabulary(size, text):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text.split("\n")), model_writer=model, model_type="bpe",
        vocab_size=size, byte_fallback=True, split_digits=True, normalization_rule_name="identity",
        remove_extra_whitespaces=False, num_threads=1, minloglevel=2)
    sp = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    kinds = [2 if sp.is_unknown(i) else 3 if sp.is_control(i) else 6 if sp.is_byte(i) else 1
             for i in range(size)]

    def write(writer):
        writer.add_tokenizer_model("llama")
        writer.add_tokenizer_pre("default")
        writer.add_token_list([sp.id_to_piece(i) for i in range(size)])
        writer.add_token_scores([sp.get_score(i) for i in range(size)])
        writer.add_token_types(kinds)
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(2)
        writer.add_unk_token_id(0)
        writer.add_add_bos_token(True)
        writer.add_chat_template("{{ messages }}")

    # Text that looks like a special token is one in a tokenizer.json, and text to sentencepiece.
    cases = [t for t in TEXTS if "<s>" not in t and t]
    return write, [[t, sp.encode(t), sp.decode(sp.encode(t))] for t in cases], 1


def byte_vocabulary(size, text, pre):
    ones = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
            r"\s*[\r\n]+|\s+(?!\S)|\s+")
    tok = tokenizers.Tokenizer(tokenizers.models.BPE())
    if pre == "qwen2":
        tok.normalizer = tokenizers.normalizers.NFC()
        tok.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([
            tokenizers.pre_tokenizers.Split(tokenizers.Regex(ones), "isolated"),
            tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    else:
        tok.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=size - 1, show_progress=False, special_tokens=[],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tok.train_from_iterator(text.split("\n"), trainer)
    tok.add_special_tokens(["<|endoftext|>"])
    state = json.loads(tok.to_str())["model"]
    tokens = sorted(state["vocab"], key=state["vocab"].get) + ["<|endoftext|>"]
    assert len(tokens) == size

    def write(writer):
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(pre)
        writer.add_token_list(tokens)
        writer.add_token_types([1] * (size - 1) + [3])
        writer.add_token_merges([" ".join(m) for m in state["merges"]])
        writer.add_eos_token_id(size - 1)

    texts = TEXTS + ["one<|endoftext|>two"]
    encoded = [(t, tok.encode(t).ids) for t in texts]
    return write, [[t, i, tok.decode(i, skip_special_tokens=False)] for t, i in encoded], None


def word_vocabulary(size, text):
    tok = tokenizers.BertWordPieceTokenizer(lowercase=True)
    tok.train_from_iterator(text.split("\n"), vocab_size=size, show_progress=False)
    tokens = sorted(tok.get_vocab(), key=tok.get_vocab().get)
    tok = tokenizers.BertWordPieceTokenizer({t: i for i, t in enumerate(tokens)}, lowercase=True)
    special = {t: i for i, t in enumerate(tokens) if t.startswith("[") and len(t) > 2}

    def stored(t):
        return t if t in special else t[2:] if t.startswith("##") else "\u2581" + t

    def write(writer):
        writer.add_tokenizer_model("bert")
        writer.add_tokenizer_pre("default")
        writer.add_token_list([stored(t) for t in tokens])
        writer.add_token_types([3 if t in special else 1 for t in tokens])
        writer.add_bos_token_id(special["[CLS]"])
        writer.add_sep_token_id(special["[SEP]"])
        writer.add_unk_token_id(special["[UNK]"])
        writer.add_pad_token_id(special["[PAD]"])

    return write, [[t, tok.encode(t).ids[1:-1], None] for t in TEXTS if "<s>" not in t], special["[CLS]"]


def models(text):
    """Stem, architecture, configuration, tokenizer."""
    t = transformers
    rope = lambda theta=10000.0, **more: dict(rope_type="default", rope_theta=theta) | more
    yield "llama", "llama", t.LlamaConfig(
        **TINY | dict(vocab_size=384), num_key_value_heads=2, rms_norm_eps=1e-5,
        bos_token_id=1, eos_token_id=2), sentencepiece_vocabulary(384, text)
    llama3 = rope(500000.0, rope_type="llama3", factor=8.0, low_freq_factor=1.0,
                  high_freq_factor=4.0, original_max_position_embeddings=64)
    yield "llama-rope-tied", "llama", t.LlamaConfig(
        **TINY, head_dim=16, tie_word_embeddings=True, rope_parameters=llama3,
        attention_bias=True), None
    yield "mistral", "llama", t.MistralConfig(**TINY, num_key_value_heads=1, sliding_window=7), None
    yield "qwen2", "qwen2", t.Qwen2Config(
        **TINY | dict(vocab_size=320), num_key_value_heads=2, use_sliding_window=False,
        rope_parameters=rope(1e6), tie_word_embeddings=True), byte_vocabulary(320, text, "qwen2")
    yield "qwen3", "qwen3", t.Qwen3Config(**TINY, num_key_value_heads=2, head_dim=16), None
    yield "gemma", "gemma", t.GemmaConfig(**TINY, num_key_value_heads=1, head_dim=16), None
    yield "gemma2", "gemma2", t.Gemma2Config(
        **TINY, num_key_value_heads=2, head_dim=16, sliding_window=9, query_pre_attn_scalar=16), None
    yield "gemma3", "gemma3", t.Gemma3TextConfig(
        **TINY | dict(num_hidden_layers=7, hidden_size=32, intermediate_size=32),
        num_key_value_heads=2, head_dim=16, sliding_window=9, query_pre_attn_scalar=16,
        rope_parameters=dict(sliding_attention=rope(), full_attention=rope(
            1e6, rope_type="linear", factor=8.0))), None
    yield "phi2", "phi2", t.PhiConfig(
        **TINY, num_key_value_heads=4, rope_parameters=rope(partial_rotary_factor=0.5)), None
    yield "phi3", "phi3", t.Phi3Config(
        **TINY | dict(max_position_embeddings=96), num_key_value_heads=2, pad_token_id=0,
        bos_token_id=1, eos_token_id=2, sliding_window=20, original_max_position_embeddings=32,
        rope_parameters=rope(rope_type="longrope", partial_rotary_factor=1.0,
                             short_factor=[1.0, 1.5, 2.0, 2.5], long_factor=[1.0, 3.0, 5.0, 9.0])), None
    yield "gpt2", "gpt2", t.GPT2Config(
        n_embd=32, n_layer=2, n_head=4, n_inner=64, n_positions=64, vocab_size=300,
        bos_token_id=299, eos_token_id=299), byte_vocabulary(300, text, "gpt-2")
    yield "gptneox", "gptneox", t.GPTNeoXConfig(
        **TINY, rope_parameters=rope(partial_rotary_factor=0.25)), None
    yield "stablelm", "stablelm", t.StableLmConfig(
        **TINY, num_key_value_heads=2, use_qkv_bias=True, rope_parameters=rope(
            partial_rotary_factor=0.25)), None
    yield "stablelm-parallel", "stablelm", t.StableLmConfig(
        **TINY, num_key_value_heads=2, qk_layernorm=True, use_parallel_residual=True,
        rope_parameters=rope(partial_rotary_factor=0.5)), None
    yield "olmo", "olmo", t.OlmoConfig(**TINY, num_key_value_heads=2, clip_qkv=0.75, eos_token_id=1), None
    yield "olmo2", "olmo2", t.Olmo2Config(**TINY, num_key_value_heads=4, eos_token_id=1), None
    yield "bert", "bert", t.BertConfig(**TINY | dict(vocab_size=160)), word_vocabulary(160, text)


def randomise(model, generator):
    for name, p in model.named_parameters():
        noise = torch.randn(p.shape, generator=generator)
        norm = p.dim() == 1 and name.endswith("weight")
        p.data = 1.0 + 0.2 * noise if norm else 0.15 * noise


def write(path, arch, config, model, vocabulary):
    """Writes the file and gives the numbers that it holds, by parameter."""
    writer = gguf.GGUFWriter(path, arch)
    writer.add_name(path.stem)
    keys(writer, config, arch)
    if vocabulary:
        vocabulary[0](writer)
    else:
        writer.add_tokenizer_model("no_vocab")
    kinds = gguf.MODEL_ARCH_NAMES
    names = gguf.get_tensor_name_map(next(a for a in kinds if kinds[a] == arch), config.num_hidden_layers)
    held, stacks, count = {}, {}, 0
    for name, p in model.named_parameters():
        if name.startswith("pooler."):
            continue
        w = p.detach().float().numpy()
        if ".q_layernorm.norms." in name or ".k_layernorm.norms." in name:
            stacks.setdefault(name.rsplit(".", 3)[0], []).append(w)
            held[name] = w
            continue
        change, plus = change_of(arch, config, name)
        place = change(np.arange(w.size).reshape(w.shape))
        moved = np.ascontiguousarray(change(w) + np.float32(plus))
        stem, suffix = name.rsplit(".", 1)
        stored = names.get_name(stem)
        assert stored, name
        kind = "F32" if w.ndim == 1 else KINDS[count % len(KINDS)]
        count += w.ndim > 1
        if arch == "gpt2" and moved.shape[-1] % 32:
            kind = "F16"
        kind = gguf.GGMLQuantizationType[kind]
        data = gguf.quants.quantize(moved, kind)
        writer.add_tensor(f"{stored}.{suffix}", data, raw_dtype=kind)
        if arch == "gpt2" and stored == "token_embd":
            # Such files hold the embedding twice.
            writer.add_tensor("output.weight", data, raw_dtype=kind)
        back = np.empty(w.size, np.float32)
        back[place.ravel()] = gguf.quants.dequantize(data, kind).reshape(moved.shape).ravel() - np.float32(plus)
        held[name] = back.reshape(w.shape)
    for stem, rows in stacks.items():
        writer.add_tensor(f"{names.get_name(stem)}.weight", np.stack(rows))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return held


def check_against_transformers(path, auto, arch, config, held):
    """Loads the file by transformers' own reader, where it has one. Its errors of other kinds are
    those of its tables: no such architecture, or another shape than it thinks."""
    # Its reader knows no q and k norms of this architecture.
    if arch in ("gemma", "phi2", "gptneox", "olmo", "olmo2", "bert") or path.stem == "stablelm-parallel":
        return "not read by transformers"
    if path.stem == "mistral":
        return "read as another family by transformers"
    loaded = auto.from_pretrained(path.parent, gguf_file=path.name, config=config)
    for name, p in loaded.named_parameters():
        assert np.array_equal(p.detach().numpy(), held[name]), (path.stem, name)
    return "the same numbers as by transformers"


def main(folder):
    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    text = "\n".join(pathlib.Path(p).read_text() for p in ("ARCHITECTURE.md", "docs/style.md"))
    for stem, arch, config, vocabulary in models(text):
        generator = torch.Generator().manual_seed(SEED)
        config._attn_implementation = "eager"
        auto = transformers.AutoModel if arch == "bert" else transformers.AutoModelForCausalLM
        model = auto.from_config(config).eval()
        randomise(model, generator)
        path = folder / f"{stem}.gguf"
        held = write(path, arch, config, model, vocabulary)
        for name, p in model.named_parameters():
            if name in held:
                p.data = torch.from_numpy(held[name].copy())
        checked = check_against_transformers(path, auto, arch, config, held)
        model = model.double()
        sequences = [torch.randint(0, config.vocab_size, (n,), generator=generator) for n in (20, 45)]
        with torch.no_grad():
            results = [model(tokens[None]) for tokens in sequences]
        outputs = [(r.last_hidden_state if arch == "bert" else r.logits)[0].float() for r in results]
        record = {
            "script": "tools/golden/gguf_models.py",
            "versions": {"torch": torch.__version__.split("+")[0], "gguf": "0.19.0",
                         "transformers": transformers.__version__},
            "seed": SEED,
            "checked": checked,
            "config": json.loads(config.to_json_string(use_diff=False)),
            "tensors": {n: [list(w.shape), fnv1a(w)] for n, w in held.items()},
            "texts": vocabulary[1] if vocabulary else [],
            "first": vocabulary[2] if vocabulary else None,
            "sequences": [tokens.tolist() for tokens in sequences],
            # Of long rows the first numbers.
            "outputs": [[[float(f"{v:.7g}") for v in row[:48]] for row in rows[-3:].tolist()]
                        for rows in outputs],
        }
        (folder / f"{stem}.json").write_text(json.dumps(record, separators=(",", ":")) + "\n")
        print(stem, checked)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
