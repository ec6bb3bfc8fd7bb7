"""The tiny decoders whose logits are golden vectors; see decoder.py."""

import dataclasses

import transformers as hf

DEFAULT_ROPE = dict(rope_type="default", rope_theta=10000.0)
NO_BUILT_IN_TOKENS = dict(bos_token_id=None, eos_token_id=None, pad_token_id=None)
TINY = dict(vocab_size=40, hidden_size=24, intermediate_size=32, num_hidden_layers=2,
            num_attention_heads=4, max_position_embeddings=96, **NO_BUILT_IN_TOKENS)
GPT = dict(vocab_size=40, n_embd=24, n_layer=2, n_head=3, n_positions=80, **NO_BUILT_IN_TOKENS)
OPT = dict(vocab_size=40, hidden_size=24, ffn_dim=32, num_hidden_layers=2, num_attention_heads=3,
           max_position_embeddings=80, **NO_BUILT_IN_TOKENS)


@dataclasses.dataclass
class Decoder:
    """A tiny decoder to make golden vectors of."""

    stem: str
    config: hf.PreTrainedConfig
    #: Lengths of the token sequences.
    lengths: tuple
    #: Changes of the configuration that the stored logits must notice.
    twists: tuple = ()
    #: Lengths of the prompts that are continued greedily: around a window, where there is one.
    prompts: tuple = (7,)
    #: Fields of the config.json that transformers does not know.
    blocks: dict = dataclasses.field(default_factory=dict)


def rope(kind, theta=10000.0, **more):
    return dict(rope_type=kind, rope_theta=theta, **more)


def decoders():
    yield from llamas()
    yield from mistrals_and_qwens()
    yield from gemmas()
    yield from phis()
    yield from gpts()
    yield from opts()
    yield from stablelms_and_smollms()
    yield from olmos()
    yield from searched()


def llamas():
    llama, unscaled = hf.LlamaConfig, dict(rope_parameters=rope("default"))
    yield Decoder("llama-tied", llama(**TINY, tie_word_embeddings=True, rms_norm_eps=1e-5),
                  (17, 1, 40), (dict(rope_parameters=rope("default", 5000.0)),))
    llama3 = rope("llama3", 500.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                  original_max_position_embeddings=32)
    yield Decoder(
        "llama3-rope-grouped",
        llama(**TINY, head_dim=8, num_key_value_heads=2, rope_parameters=llama3), (70, 9),
        (dict(rope_parameters=rope("default", 500.0)),
         dict(rope_parameters=llama3 | dict(low_freq_factor=2.0)),
         dict(rope_parameters=llama3 | dict(high_freq_factor=8.0))))
    yield Decoder(
        "llama-head-dim-biases",
        llama(**TINY | dict(hidden_size=20, intermediate_size=18), head_dim=10,
              num_key_value_heads=4, attention_bias=True, mlp_bias=True, hidden_act="gelu"),
        (12, 20), (dict(hidden_act="gelu_new"),))
    linear = rope("linear", factor=4.0)
    yield Decoder("llama-linear-rope", llama(**TINY, rope_parameters=linear), (64, 3), (unscaled,))
    dynamic = rope("dynamic", 100.0, factor=2.0)
    yield Decoder(
        "llama-dynamic-rope",
        llama(**TINY | dict(max_position_embeddings=32), head_dim=8, num_key_value_heads=1,
              rope_parameters=dynamic), (64, 32, 33),
        (dict(rope_parameters=rope("default", 100.0)), dict(max_position_embeddings=31)))
    yarn = rope("yarn", 100.0, factor=4.0, original_max_position_embeddings=24)
    yield Decoder(
        "llama-yarn-rope", llama(**TINY, head_dim=8, num_key_value_heads=2, rope_parameters=yarn),
        (68, 5),
        (dict(rope_parameters=rope("linear", 100.0, factor=4.0)),
         dict(rope_parameters=yarn | dict(attention_factor=1.0)),
         dict(rope_parameters=yarn | dict(original_max_position_embeddings=90))))
    exact = rope("yarn", 60.0, factor=3.0, original_max_position_embeddings=32, beta_fast=4.0,
                 beta_slow=0.5, truncate=False, mscale=0.7, mscale_all_dim=0.4)
    yield Decoder(
        "llama-yarn-exact-range", llama(**TINY, head_dim=12, num_key_value_heads=1,
                                        rope_parameters=exact), (50, 2),
        (dict(rope_parameters=exact | dict(truncate=True)),
         dict(rope_parameters=exact | dict(mscale=0.4)),
         dict(rope_parameters=exact | dict(beta_fast=8.0)),
         dict(rope_parameters=exact | dict(beta_slow=1.0))))


def mistrals_and_qwens():
    mistral, qwen2, qwen3 = hf.MistralConfig, hf.Qwen2Config, hf.Qwen3Config
    yield Decoder("mistral-window", mistral(**TINY, num_key_value_heads=1, sliding_window=7),
                  (33, 8, 70), (dict(sliding_window=8), dict(sliding_window=6)), (6, 7, 8))
    yield Decoder("mistral-head-dim", mistral(**TINY, head_dim=8, num_key_value_heads=2,
                                              sliding_window=None), (30, 4),
                  (dict(sliding_window=4),))
    yield Decoder(
        "qwen2-biases", qwen2(**TINY, num_key_value_heads=2, rope_parameters=rope(
            "default", 1000000.0)), (23, 31), (dict(rope_parameters=DEFAULT_ROPE),))
    layers = ["full_attention", "sliding_attention", "sliding_attention"]
    yield Decoder(
        "qwen2-window-layers",
        qwen2(**TINY | dict(num_hidden_layers=3, intermediate_size=24), num_key_value_heads=1,
              use_sliding_window=True, sliding_window=6, max_window_layers=1,
              tie_word_embeddings=True), (40, 7, 1),
        (dict(sliding_window=7), dict(layer_types=layers[::-1])), (5, 6, 7))
    yield Decoder(
        "qwen3-qk-norms", qwen3(**TINY, head_dim=8, num_key_value_heads=2,
                                tie_word_embeddings=True), (29, 6), (dict(rms_norm_eps=0.1),))
    yarn = rope("yarn", 100.0, factor=2.5, original_max_position_embeddings=32, attention_factor=1.3)
    yield Decoder(
        "qwen3-window-biases-yarn",
        qwen3(**TINY, head_dim=6, num_key_value_heads=4, attention_bias=True, rope_parameters=yarn,
              use_sliding_window=True, sliding_window=5,
              layer_types=["sliding_attention", "full_attention"]), (45, 5),
        (dict(sliding_window=6), dict(rope_parameters=yarn | dict(attention_factor=1.0)),
         dict(rope_parameters=rope("default", 100.0))), (4, 5, 6))


def gemmas():
    gemma, gemma2, gemma3 = hf.GemmaConfig, hf.Gemma2Config, hf.Gemma3TextConfig
    yield Decoder("gemma-tied", gemma(**TINY, head_dim=8, num_key_value_heads=1), (21, 1, 34),
                  (dict(hidden_act="silu"),))
    yield Decoder(
        "gemma-untied-biases",
        gemma(**TINY, head_dim=6, num_key_value_heads=2, attention_bias=True,
              tie_word_embeddings=False, rope_parameters=rope("linear", factor=2.0)), (26, 3),
        (dict(rope_parameters=DEFAULT_ROPE),))
    deep = TINY | dict(num_hidden_layers=3, intermediate_size=20)
    yield Decoder(
        "gemma2-softcaps-window",
        gemma2(**deep, head_dim=6, num_key_value_heads=2, query_pre_attn_scalar=4, sliding_window=5,
               attn_logit_softcapping=3.0, final_logit_softcapping=1.0), (36, 5, 6),
        (dict(sliding_window=6), dict(attn_logit_softcapping=4.0),
         dict(final_logit_softcapping=1.1), dict(query_pre_attn_scalar=6),
         dict(layer_types=["full_attention", "sliding_attention", "full_attention"])), (4, 5, 6))
    yield Decoder(
        "gemma2-no-caps",
        gemma2(**TINY, head_dim=8, num_key_value_heads=1, query_pre_attn_scalar=8, sliding_window=9,
               attn_logit_softcapping=None, final_logit_softcapping=None, attention_bias=True,
               layer_types=["full_attention", "sliding_attention"]), (28, 2),
        (dict(attn_logit_softcapping=5.0), dict(sliding_window=10)), (8, 9, 10))
    local = dict(full_attention=rope("linear", 1000000.0, factor=8.0),
                 sliding_attention=rope("default"))
    yield Decoder(
        "gemma3-two-ropes",
        gemma3(**deep, head_dim=6, num_key_value_heads=1, query_pre_attn_scalar=8, sliding_window=6,
               sliding_window_pattern=3, rope_parameters=local), (70, 6, 7),
        (dict(sliding_window=7), dict(query_pre_attn_scalar=10),
         dict(rope_parameters=local | dict(full_attention=rope("default", 1000000.0))),
         dict(rope_parameters=local | dict(sliding_attention=rope("default", 1000000.0)))),
        (5, 6, 7))
    yield Decoder(
        "gemma3-cap-biases",
        gemma3(**TINY, head_dim=6, num_key_value_heads=2, query_pre_attn_scalar=6, sliding_window=4,
               final_logit_softcapping=1.5, attention_bias=True,
               layer_types=["full_attention", "sliding_attention"]), (24, 4),
        (dict(final_logit_softcapping=None),
         dict(layer_types=["sliding_attention", "full_attention"])), (3, 4, 5))


def phis():
    phi, phi3 = hf.PhiConfig, hf.Phi3Config
    yield Decoder("phi-parallel", phi(**TINY | dict(num_attention_heads=3)), (25, 1, 38),
                  (dict(rope_parameters=DEFAULT_ROPE | dict(partial_rotary_factor=0.25)),))
    qk = DEFAULT_ROPE | dict(partial_rotary_factor=0.4)
    yield Decoder(
        "phi-qk-norms-grouped",
        phi(**TINY | dict(num_attention_heads=4, hidden_size=40, num_hidden_layers=1),
            num_key_value_heads=2, qk_layernorm=True, rope_parameters=qk), (22, 4),
        (dict(layer_norm_eps=0.1), dict(rope_parameters=qk | dict(partial_rotary_factor=0.6))))
    yield Decoder("phi3-window", phi3(**TINY, num_key_value_heads=2, sliding_window=9), (30, 9, 10),
                  (dict(sliding_window=10),), (8, 9, 10))
    long = rope("longrope", 100.0, short_factor=[1.0, 1.1, 1.3, 1.6],
                long_factor=[1.2, 2.0, 3.5, 5.0])
    yield Decoder(
        "phi3-longrope",
        phi3(**TINY | dict(num_attention_heads=3), original_max_position_embeddings=32,
             rope_parameters=long), (32, 33, 70),
        (dict(rope_parameters=rope("default", 100.0, partial_rotary_factor=1.0)),
         dict(original_max_position_embeddings=31), dict(original_max_position_embeddings=33)),
        prompts=(7, 20))
    partial = rope("longrope", short_factor=[1.0, 1.2, 1.5], long_factor=[1.5, 2.5, 6.0],
                   partial_rotary_factor=0.75)
    yield Decoder(
        "phi3-longrope-partial-tied",
        phi3(**TINY | dict(num_attention_heads=3), num_key_value_heads=1, tie_word_embeddings=True,
             original_max_position_embeddings=48, rope_parameters=partial), (48, 60, 5),
        (dict(rope_parameters=partial | dict(attention_factor=1.0)),
         dict(rope_parameters=partial | dict(short_factor=[1.0, 1.0, 1.0]))))


def gpts():
    gpt2, gptj, neox = hf.GPT2Config, hf.GPTJConfig, hf.GPTNeoXConfig
    yield Decoder("gpt2-plain", gpt2(**GPT | dict(n_embd=20, n_head=2, n_positions=56)), (19, 1, 40),
                  (dict(activation_function="relu"),))
    yield Decoder(
        "gpt2-inverse-layer-scale",
        gpt2(**GPT | dict(n_embd=20, n_head=2, n_layer=3), n_inner=16,
             scale_attn_by_inverse_layer_idx=True,
             activation_function="gelu"), (27, 3),
        (dict(scale_attn_by_inverse_layer_idx=False), dict(activation_function="gelu_new")))
    yield Decoder(
        "gpt2-unscaled-untied",
        gpt2(**GPT | dict(n_embd=20, n_head=2), n_inner=36, scale_attn_weights=False,
             tie_word_embeddings=False, activation_function="relu"), (18, 5),
        (dict(scale_attn_weights=True),))
    yield Decoder("gptj-parallel", gptj(**GPT, rotary_dim=4, n_inner=32), (24, 1, 41),
                  (dict(rotary_dim=6), dict(activation_function="relu")))
    yield Decoder("gptj-whole-rotary-tied", gptj(**GPT | dict(n_embd=20, n_head=2, n_layer=1),
                                                 rotary_dim=10, tie_word_embeddings=True), (64, 6),
                  (dict(rotary_dim=8),))
    few = TINY | dict(num_attention_heads=3)
    yield Decoder("neox-parallel", neox(**few), (26, 1, 39),
                  (dict(use_parallel_residual=False), dict(hidden_act="relu"),
                   dict(rope_parameters=DEFAULT_ROPE | dict(partial_rotary_factor=0.5))))
    yield Decoder(
        "neox-sequential-linear-rope",
        neox(**few, use_parallel_residual=False, attention_bias=False, hidden_act="gelu_new",
             rope_parameters=rope("linear", 500.0, factor=2.0, partial_rotary_factor=0.5)),
        (31, 4), (dict(use_parallel_residual=True), dict(rope_parameters=rope(
            "default", 500.0, partial_rotary_factor=0.5))))
    yield Decoder(
        "neox-whole-rotary-tied",
        neox(**few, tie_word_embeddings=True, rope_parameters=rope(
            "default", 100.0, partial_rotary_factor=1.0)), (20, 2),
        (dict(rope_parameters=rope("default", 100.0, partial_rotary_factor=0.75)),))


def opts():
    opt = hf.OPTConfig
    yield Decoder("opt-pre-norm", opt(**OPT), (20, 1, 37), (dict(activation_function="gelu"),))
    yield Decoder(
        "opt-post-norm-projections",
        opt(**OPT, word_embed_proj_dim=16, do_layer_norm_before=False), (25, 3))
    yield Decoder(
        "opt-no-biases",
        opt(**OPT, enable_bias=False, layer_norm_elementwise_affine=False, tie_word_embeddings=False,
            activation_function="gelu"), (16, 6), (dict(activation_function="relu"),))
    yield Decoder("opt-no-final-norm", opt(**OPT, _remove_final_layer_norm=True), (14, 2))


def stablelms_and_smollms():
    stablelm, smollm3 = hf.StableLmConfig, hf.SmolLM3Config
    few = TINY | dict(num_attention_heads=3)
    yield Decoder("stablelm-sequential", stablelm(**few, num_key_value_heads=3), (22, 1, 36),
                  (dict(rope_parameters=DEFAULT_ROPE | dict(partial_rotary_factor=0.5)),))
    yield Decoder(
        "stablelm-parallel-qk-norms",
        stablelm(**TINY | dict(hidden_size=32, intermediate_size=16), num_key_value_heads=2,
                 use_parallel_residual=True, qk_layernorm=True), (27, 4),
        (dict(layer_norm_eps=0.1),))
    yield Decoder(
        "stablelm-biases-tied",
        stablelm(**few, num_key_value_heads=1, use_qkv_bias=True, tie_word_embeddings=True,
                 rope_parameters=DEFAULT_ROPE | dict(partial_rotary_factor=0.75)), (18, 3),
        (dict(rope_parameters=DEFAULT_ROPE | dict(partial_rotary_factor=0.5)),))
    yield Decoder(
        "smollm3-no-rope-layers",
        smollm3(**TINY | dict(num_hidden_layers=3, intermediate_size=24), num_key_value_heads=1,
                no_rope_layer_interval=2), (33, 1),
        (dict(no_rope_layers=[1, 1, 1]), dict(no_rope_layers=[1, 1, 0]),
         dict(rope_parameters=DEFAULT_ROPE)))
    yield Decoder(
        "smollm3-window-biases",
        smollm3(**TINY, num_key_value_heads=2, no_rope_layers=[0, 1], use_sliding_window=True,
                sliding_window=5, attention_bias=True, mlp_bias=True, tie_word_embeddings=False),
        (28, 5, 6), (dict(sliding_window=6), dict(layer_types=["full_attention"] * 2)), (4, 5, 6))


def olmos():
    olmo, olmo2 = hf.OlmoConfig, hf.Olmo2Config
    yield Decoder("olmo-clip", olmo(**TINY, clip_qkv=1.5), (24, 1, 35),
                  (dict(clip_qkv=None), dict(clip_qkv=1.6)))
    yield Decoder("olmo-grouped-tied-biases",
                  olmo(**TINY, num_key_value_heads=2, tie_word_embeddings=True, attention_bias=True),
                  (19, 4), (dict(clip_qkv=1.5),))
    yield Decoder("olmo2-post-norms", olmo2(**TINY, rope_parameters=rope("default", 500000.0)),
                  (23, 1, 34), (dict(rms_norm_eps=0.1), dict(rope_parameters=DEFAULT_ROPE)))
    yield Decoder(
        "olmo2-grouped-biases",
        olmo2(**TINY, num_key_value_heads=2, attention_bias=True, hidden_act="gelu_pytorch_tanh"),
        (21, 5), (dict(hidden_act="silu"),))


def searched():
    def block(group, multiple, attention="", mlp=""):
        names = ("no_op", "replace_with_linear")
        return dict(attention=dict(n_heads_in_group=group) | {n: n == attention for n in names},
                    ffn=dict(ffn_mult=multiple) | {n: n == mlp for n in names})

    blocks = [block(2, None, mlp="no_op"), block(None, 5.25, attention="no_op"),
              block(None, None, "replace_with_linear", "replace_with_linear"),
              block(1, None, mlp="replace_with_linear")]
    config = hf.LlamaConfig(
        **TINY | dict(hidden_size=12, num_attention_heads=2, num_hidden_layers=4),
        block_configs=blocks)
    yield Decoder("decilm-blocks", config, (24, 1, 7), blocks=dict(
        model_type="nemotron-nas", architectures=["DeciLMForCausalLM"], block_configs=blocks,
        num_key_value_heads=None, intermediate_size=None))
