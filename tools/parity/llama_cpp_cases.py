"""The tiny models that llama_cpp.py exports: every family that has a GGUF architecture, with each field that decides
what is computed. See there."""

import dataclasses

import transformers as hf

#: llama.cpp rounds contexts up to 256 positions, and picks long or short rotary factors by the context.
ORIGINAL, LONGEST = 256, 1024
#: Runs within the original context: the context and the lengths of prompts.
SHORT = (ORIGINAL, (1, 40, 250))
#: Runs beyond it.
LONG = (LONGEST, (300, 600))
WINDOW = 48
SIZES = dict(vocab_size=384, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
             max_position_embeddings=LONGEST)
#: Between the cubic GELU and that of the error function, and for the table of llama.cpp, which holds 16 bits.
GELU = 1e-2


@dataclasses.dataclass
class Case:
    """A tiny model, and what an export of it must do."""

    name: str
    config: hf.PreTrainedConfig
    #: Vocabulary: "bytes" (byte-level), "pieces" (SentencePiece with byte fallback) or "words" (WordPiece).
    vocabulary: str = "bytes"
    #: Contexts, and lengths of prompts in each.
    runs: tuple = (SHORT, LONG)
    #: Words of the refusal, where llama.cpp could not run the model.
    refused: str | None = None
    #: Words of a note, where llama.cpp computes something else beyond a length.
    noted: str | None = None
    #: Why llama.cpp is allowed a larger difference, and how large.
    allowed: tuple | None = None
    #: Fields that config.json gets besides.
    fields: dict = dataclasses.field(default_factory=dict)
    #: Files beside the model.
    files: dict = dataclasses.field(default_factory=dict)


def rope(kind, theta=10000.0, **more):
    return dict(rope_type=kind, rope_theta=theta, **more)


def scaled(kind, **more):
    return rope(kind, **more, original_max_position_embeddings=ORIGINAL)


LINEAR = rope("linear", factor=4.0)
DYNAMIC = rope("dynamic", factor=4.0)
YARN = scaled("yarn", factor=4.0)
LLAMA3 = scaled("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0)
#: Rotary pairs of the heads of 16 features.
LONG_FACTORS = [1.5, 2.0, 3.0, 4.5, 6.0, 8.0, 11.0, 16.0]
SHORT_FACTORS = [1.0, 1.05, 1.1, 1.2, 1.3, 1.5, 1.7, 2.0]
LONGROPE = scaled("longrope", factor=4.0, short_factor=SHORT_FACTORS, long_factor=LONG_FACTORS)


def scalings(make, family, tables, **more):
    """A family with each rotary scaling. `tables`: whether llama.cpp reads tables of rotary factors for it."""
    def case(name, rope_parameters, **rest):
        return Case(f"{family}-{name}", make(rope_parameters=rope_parameters), **more, **rest)

    yield case("linear", LINEAR)
    yield case("yarn", YARN)
    yield case("yarn-attention-factor", YARN | dict(attention_factor=1.3))
    yield case("yarn-mscales", YARN | dict(mscale=0.7, mscale_all_dim=0.4))
    yield case("yarn-fast", YARN | dict(beta_fast=8.0), refused="beta_fast")
    yield case("yarn-slow", YARN | dict(beta_slow=2.0), refused="beta_slow")
    yield case("yarn-exact-range", YARN | dict(truncate=False), refused="truncate")
    yield case("dynamic", DYNAMIC, refused="dynamic")
    table = None if tables else "rope_scaling"
    yield case("llama3", LLAMA3, refused=table)
    yield case("llama3-other-factors", LLAMA3 | dict(low_freq_factor=2.0, high_freq_factor=5.0), refused=table)
    yield case("longrope", LONGROPE, refused=table)
    yield case("longrope-attention-factor", LONGROPE | dict(attention_factor=1.4), refused=table)


def cases():
    yield from llamas()
    yield from mistrals()
    yield from qwens()
    yield from gemmas()
    yield from phis()
    yield from gpts()
    yield from others()
    yield from berts()


def llamas():
    def llama(**more):
        return hf.LlamaConfig(**SIZES | dict(num_key_value_heads=2) | more)

    yield Case("llama-untied", llama(rms_norm_eps=1e-3), "pieces")
    yield Case("llama-tied", llama(tie_word_embeddings=True, num_key_value_heads=4))
    yield Case("llama-head-dim", llama(head_dim=24), "pieces")
    yield Case("llama-attention-biases", llama(attention_bias=True))
    yield Case("llama-mlp-biases", llama(mlp_bias=True))
    yield Case("llama-theta", llama(rope_parameters=rope("default", 500000.0)))
    yield Case("llama-gelu", llama(hidden_act="gelu"), refused="hidden_act")
    yield from scalings(llama, "llama", True)


def mistrals():
    def mistral(**more):
        return hf.MistralConfig(**SIZES | dict(num_key_value_heads=2, sliding_window=None) | more)

    yield Case("mistral-head-dim", mistral(head_dim=24), "pieces")
    yield Case("mistral-window", mistral(sliding_window=WINDOW), "pieces", ((ORIGINAL, (1, WINDOW)),),
               noted="sliding_window")
    yield Case("mistral-window-of-the-context", mistral(sliding_window=LONGEST), "pieces")
    yield Case("mistral-yarn", mistral(rope_parameters=YARN), "pieces")


def qwens():
    def qwen2(**more):
        return hf.Qwen2Config(**SIZES | dict(num_key_value_heads=2) | more)

    def qwen3(**more):
        return hf.Qwen3Config(**SIZES | dict(num_key_value_heads=2, head_dim=16) | more)

    windowed = dict(use_sliding_window=True, sliding_window=WINDOW, max_window_layers=1)
    yield Case("qwen2-untied", qwen2())
    yield Case("qwen2-tied", qwen2(tie_word_embeddings=True, rope_parameters=rope("default", 1000000.0)))
    yield Case("qwen2-window", qwen2(**windowed), refused="use_sliding_window")
    yield from scalings(qwen2, "qwen2", False)
    yield Case("qwen3-untied", qwen3())
    yield Case("qwen3-tied-head-dim", qwen3(tie_word_embeddings=True, head_dim=24))
    yield Case("qwen3-biases", qwen3(attention_bias=True), refused="attention_bias")
    yield Case("qwen3-window", qwen3(**windowed), refused="use_sliding_window")
    yield from scalings(qwen3, "qwen3", False)


def gemmas():
    more = dict(num_key_value_heads=2, head_dim=16)

    def gemma(**rest):
        return hf.GemmaConfig(**SIZES | more | rest)

    def gemma2(layers=4, **rest):
        return hf.Gemma2Config(**SIZES | more | dict(num_hidden_layers=layers, query_pre_attn_scalar=16,
                                                     sliding_window=WINDOW) | rest)

    def gemma3(layers=7, **rest):
        return hf.Gemma3TextConfig(**SIZES | more | dict(num_hidden_layers=layers, query_pre_attn_scalar=16,
                                                         sliding_window=WINDOW) | rest)

    yield Case("gemma", gemma(), "pieces")
    yield Case("gemma-head-dim", gemma(head_dim=24, num_key_value_heads=1), "pieces")
    yield Case("gemma-linear", gemma(rope_parameters=LINEAR), "pieces")
    yield Case("gemma-untied", gemma(tie_word_embeddings=False), "pieces", refused="tie_word_embeddings")
    yield Case("gemma-biases", gemma(attention_bias=True), "pieces", refused="attention_bias")
    yield Case("gemma2-caps-window", gemma2(attn_logit_softcapping=5.0, final_logit_softcapping=3.0), "pieces")
    yield Case("gemma2-usual-caps", gemma2(), "pieces")
    yield Case("gemma2-no-caps", gemma2(attn_logit_softcapping=None), "pieces", refused="attn_logit_softcapping")
    yield Case("gemma2-no-final-cap", gemma2(final_logit_softcapping=None), "pieces",
               refused="final_logit_softcapping")
    yield Case("gemma2-scale", gemma2(query_pre_attn_scalar=24), "pieces", refused="query_pre_attn_scalar")
    swapped = ["full_attention", "sliding_attention"] * 2
    yield Case("gemma2-swapped-layers", gemma2(layer_types=swapped), "pieces", refused="layer_types")
    third = (["sliding_attention"] * 2 + ["full_attention"]) * 2
    yield Case("gemma2-every-third-layer", gemma2(6, layer_types=third), "pieces")
    yield Case("gemma2-yarn", gemma2(rope_parameters=YARN), "pieces")
    yield Case("gemma3-two-ropes", gemma3(), "pieces")
    local = dict(full_attention=rope("linear", 1000000.0, factor=8.0), sliding_attention=rope("default", 5000.0))
    yield Case("gemma3-linear", gemma3(rope_parameters=local), "pieces")
    yield Case("gemma3-cap", gemma3(final_logit_softcapping=2.0), "pieces")
    yield Case("gemma3-score-cap", gemma3(attn_logit_softcapping=2.0), "pieces")
    yield Case("gemma3-every-third-layer", gemma3(6, layer_types=third), "pieces")
    irregular = ["full_attention", "sliding_attention", "sliding_attention", "full_attention"]
    yield Case("gemma3-irregular-layers", gemma3(4, layer_types=irregular), "pieces", refused="layer_types")
    both = dict(full_attention=YARN, sliding_attention=rope("default"))
    yield Case("gemma3-yarn", gemma3(rope_parameters=both), "pieces")


def phis():
    def phi(**more):
        return hf.PhiConfig(**SIZES | more)

    def phi3(**more):
        sizes = SIZES | dict(num_key_value_heads=2, pad_token_id=0, original_max_position_embeddings=LONGEST)
        return hf.Phi3Config(**sizes | dict(sliding_window=None) | more)

    def part(share, **more):
        return rope("default", partial_rotary_factor=share, **more)

    yield Case("phi-half-rotary", phi(rope_parameters=part(0.5)))
    yield Case("phi-grouped", phi(num_key_value_heads=2, rope_parameters=part(0.25), layer_norm_eps=1e-3))
    yield Case("phi-tied", phi(tie_word_embeddings=True))
    yield Case("phi-qk-norms", phi(qk_layernorm=True), refused="qk_layernorm")
    yield Case("phi3", phi3(), "pieces")
    yield Case("phi3-tied", phi3(tie_word_embeddings=True), "pieces")
    yield Case("phi3-window", phi3(sliding_window=WINDOW), "pieces", ((ORIGINAL, (1, WINDOW)),),
               noted="sliding_window")
    yield Case("phi3-half-rotary", phi3(rope_parameters=part(0.5)), "pieces")
    original = dict(original_max_position_embeddings=ORIGINAL)
    yield Case("phi3-longrope", phi3(**original, rope_parameters=LONGROPE), "pieces")
    half = LONGROPE | dict(partial_rotary_factor=0.5, short_factor=SHORT_FACTORS[::2], long_factor=LONG_FACTORS[::2])
    yield Case("phi3-longrope-half-rotary", phi3(**original, rope_parameters=half), "pieces")
    yield Case("phi3-longrope-attention-factor",
               phi3(**original, rope_parameters=LONGROPE | dict(attention_factor=1.4)), "pieces")


def gpts():
    def gpt2(**more):
        return hf.GPT2Config(**dict(vocab_size=384, n_embd=64, n_layer=2, n_head=4, n_positions=LONGEST) | more)

    def neox(**more):
        return hf.GPTNeoXConfig(**SIZES | more)

    yield Case("gpt2", gpt2())
    yield Case("gpt2-inner", gpt2(n_inner=96, layer_norm_epsilon=1e-3))
    yield Case("gpt2-untied", gpt2(tie_word_embeddings=False))
    yield Case("gpt2-inverse-layer-scale", gpt2(scale_attn_by_inverse_layer_idx=True),
               refused="scale_attn_by_inverse_layer_idx")
    yield Case("gpt2-unscaled", gpt2(scale_attn_weights=False), refused="scale_attn_weights")
    yield Case("gpt2-relu", gpt2(activation_function="relu"), refused="activation_function")
    gelu = dict(allowed=("GELU by the error function, llama.cpp has the cubic one", GELU))
    yield Case("neox-parallel", neox(), **gelu)
    yield Case("neox-sequential", neox(use_parallel_residual=False), **gelu)
    yield Case("neox-tied-whole-rotary",
               neox(tie_word_embeddings=True, rope_parameters=rope("default", partial_rotary_factor=1.0)), **gelu)
    yield Case("neox-no-biases", neox(attention_bias=False), refused="attention_bias")
    yield Case("neox-linear", neox(rope_parameters=LINEAR | dict(partial_rotary_factor=0.5)), **gelu)
    yield Case("neox-yarn", neox(rope_parameters=YARN | dict(partial_rotary_factor=0.5)), **gelu)


def others():
    def stablelm(**more):
        return hf.StableLmConfig(**SIZES | dict(num_key_value_heads=2) | more)

    def olmo(**more):
        return hf.OlmoConfig(**SIZES | dict(num_key_value_heads=2, pad_token_id=0) | more)

    def olmo2(**more):
        return hf.Olmo2Config(**SIZES | dict(num_key_value_heads=2, pad_token_id=0) | more)

    yield Case("stablelm", stablelm())
    yield Case("stablelm-tied-half-rotary",
               stablelm(tie_word_embeddings=True, rope_parameters=rope("default", partial_rotary_factor=0.5)))
    yield Case("stablelm-biases", stablelm(use_qkv_bias=True))
    yield Case("stablelm-parallel", stablelm(use_parallel_residual=True))
    yield Case("stablelm-parallel-qk-norms", stablelm(use_parallel_residual=True, qk_layernorm=True),
               refused="q_layernorm")
    yield Case("stablelm-qk-norms", stablelm(qk_layernorm=True), refused="q_layernorm")
    yield Case("olmo", olmo())
    yield Case("olmo-clip-tied", olmo(clip_qkv=0.5, tie_word_embeddings=True))
    yield Case("olmo-biases", olmo(attention_bias=True), refused="attention_bias")
    yield Case("olmo-yarn", olmo(rope_parameters=YARN))
    yield Case("olmo2", olmo2(rms_norm_eps=1e-3))
    yield Case("olmo2-tied", olmo2(tie_word_embeddings=True))
    yield Case("olmo2-biases", olmo2(attention_bias=True), refused="attention_bias")
    yield from scalings(olmo2, "olmo2", False)


def berts():
    def bert(**more):
        return hf.BertConfig(**SIZES | dict(max_position_embeddings=ORIGINAL) | more)

    gelu = dict(vocabulary="words", runs=((ORIGINAL, (3, 40, 250)),),
                allowed=("GELU by the error function, llama.cpp has the cubic one", GELU))
    for kind in ("mean", "cls"):
        yield Case(f"bert-{kind}", bert(layer_norm_eps=1e-6), **gelu, files=pooling(kind))
    yield Case("bert-without-pooling", bert(), **gelu)
    yield Case("bert-one-type", bert(type_vocab_size=1), **gelu, files=pooling("mean"))
    yield Case("bert-gelu-new", bert(hidden_act="gelu_new"), vocabulary="words", refused="hidden_act")


def pooling(kind):
    """The files of sentence-transformers that say how one vector is made of all."""
    modes = dict(pooling_mode_cls_token=kind == "cls", pooling_mode_mean_tokens=kind == "mean",
                 pooling_mode_max_tokens=False, word_embedding_dimension=64)
    module = "sentence_transformers.models."
    return {"modules.json": [dict(idx=0, name="0", path="", type=module + "Transformer"),
                             dict(idx=1, name="1", path="1_Pooling", type=module + "Pooling")],
            "1_Pooling/config.json": modes}
