"""Makes the config.json of well-known models with their parameter counts.

Run from the root of the repository, in an environment with torch and transformers:

    python tools/golden/configs.py testdata/configs

Each `<name>.json` has `config`, the fields of the published config.json that say how the model is
built and how long it reads (dropout, initial ranges, and names of files left out), and what
transformers builds from it on the meta device:

- `parameters`: all, a tied matrix once; the script knows the published counts and asserts them;
- `linear`: those of the matrices and biases of linear maps inside the layers;
- `tensors`: their number, a tied one once.

The rotary factors of the two Phi-3 are stand-ins of the right number: the published ones are two
lists of 48 measured values, and no count depends on them.
"""

import copy
import json
import pathlib
import sys

import torch
import transformers
from transformers.pytorch_utils import Conv1D

import tiny

LLAMA3_ROPE = dict(factor=8.0, high_freq_factor=4.0, low_freq_factor=1.0,
                   original_max_position_embeddings=8192, rope_type="llama3")
LONG_ROPE = dict(type="longrope", short_factor=[1.0] * 24 + [1.5] * 24,
                 long_factor=[1.0] * 8 + [4.0] * 20 + [32.0] * 20)


def model(kind, head, **fields):
    return dict(architectures=[head], model_type=kind) | fields


def sizes(hidden, inner, layers, heads, vocab, length, **more):
    return dict(hidden_size=hidden, intermediate_size=inner, num_hidden_layers=layers,
                num_attention_heads=heads, vocab_size=vocab, max_position_embeddings=length) | more


def llama(*args, **more):
    return model("llama", "LlamaForCausalLM", hidden_act="silu", **sizes(*args), **more)


def bert(kind, head, *args, **more):
    return model(kind, head, hidden_act="gelu", **sizes(*args), **more)


#: Name, published count of parameters (None where the card counts other heads), fields of config.json.
MODELS = {
    "Llama-2-7b": (6738415616, llama(
        4096, 11008, 32, 32, 32000, 4096, num_key_value_heads=32, pretraining_tp=1,
        rms_norm_eps=1e-5, rope_scaling=None, tie_word_embeddings=False, torch_dtype="float16",
        bos_token_id=1, eos_token_id=2)),
    "Llama-3.1-8B": (8030261248, llama(
        4096, 14336, 32, 32, 128256, 131072, attention_bias=False, mlp_bias=False,
        num_key_value_heads=8, pretraining_tp=1, rms_norm_eps=1e-5, rope_scaling=LLAMA3_ROPE,
        rope_theta=500000.0, tie_word_embeddings=False, torch_dtype="bfloat16",
        bos_token_id=128000, eos_token_id=128001)),
    "Llama-3.2-1B": (1235814400, llama(
        2048, 8192, 16, 32, 128256, 131072, attention_bias=False, mlp_bias=False, head_dim=64,
        num_key_value_heads=8, pretraining_tp=1, rms_norm_eps=1e-5,
        rope_scaling=LLAMA3_ROPE | dict(factor=32.0), rope_theta=500000.0,
        tie_word_embeddings=True, torch_dtype="bfloat16", bos_token_id=128000,
        eos_token_id=[128001, 128008, 128009])),
    "SmolLM2-135M": (134515008, llama(
        576, 1536, 30, 9, 49152, 8192, attention_bias=False, mlp_bias=False, num_key_value_heads=3,
        rms_norm_eps=1e-5, rope_scaling=None, rope_theta=100000, rope_interleaved=False,
        tie_word_embeddings=True, torch_dtype="bfloat16", bos_token_id=0, eos_token_id=0)),
    "Mistral-7B-v0.1": (7241732096, model(
        "mistral", "MistralForCausalLM", hidden_act="silu", **sizes(
            4096, 14336, 32, 32, 32000, 32768), num_key_value_heads=8, rms_norm_eps=1e-5,
        rope_theta=10000.0, sliding_window=4096, tie_word_embeddings=False,
        torch_dtype="bfloat16", bos_token_id=1, eos_token_id=2)),
    "Mistral-7B-v0.3": (7248023552, model(
        "mistral", "MistralForCausalLM", hidden_act="silu", **sizes(
            4096, 14336, 32, 32, 32768, 32768), num_key_value_heads=8, rms_norm_eps=1e-5,
        rope_theta=1000000.0, sliding_window=None, tie_word_embeddings=False,
        torch_dtype="bfloat16", bos_token_id=1, eos_token_id=2)),
    "Qwen2.5-7B": (7615616512, model(
        "qwen2", "Qwen2ForCausalLM", hidden_act="silu", **sizes(
            3584, 18944, 28, 28, 152064, 131072), num_key_value_heads=4, rms_norm_eps=1e-6,
        rope_theta=1000000.0, sliding_window=131072, max_window_layers=28, use_mrope=False,
        use_sliding_window=False, tie_word_embeddings=False, torch_dtype="bfloat16",
        bos_token_id=151643, eos_token_id=151643)),
    "Qwen3-8B": (8190735360, model(
        "qwen3", "Qwen3ForCausalLM", hidden_act="silu", **sizes(
            4096, 12288, 36, 32, 151936, 40960), num_key_value_heads=8, head_dim=128,
        attention_bias=False, rms_norm_eps=1e-6, rope_scaling=None, rope_theta=1000000,
        sliding_window=None, max_window_layers=36, use_sliding_window=False,
        tie_word_embeddings=False, torch_dtype="bfloat16", bos_token_id=151643,
        eos_token_id=151645)),
    "gemma-2b": (2506172416, model(
        "gemma", "GemmaForCausalLM", hidden_act="gelu", hidden_activation=None, **sizes(
            2048, 16384, 18, 8, 256000, 8192), num_key_value_heads=1, head_dim=256,
        attention_bias=False, rms_norm_eps=1e-6, rope_scaling=None, rope_theta=10000.0,
        torch_dtype="bfloat16", bos_token_id=2, eos_token_id=1, pad_token_id=0)),
    "gemma-2-9b": (9241705984, model(
        "gemma2", "Gemma2ForCausalLM", hidden_act="gelu_pytorch_tanh",
        hidden_activation="gelu_pytorch_tanh", **sizes(3584, 14336, 42, 16, 256000, 8192),
        num_key_value_heads=8, head_dim=256, attention_bias=False, attn_logit_softcapping=50.0,
        final_logit_softcapping=30.0, query_pre_attn_scalar=256, sliding_window=4096,
        sliding_window_size=4096, cache_implementation="hybrid", rms_norm_eps=1e-6,
        rope_theta=10000.0, torch_dtype="float32", bos_token_id=2, eos_token_id=1,
        pad_token_id=0)),
    "gemma-3-1b-it": (999885952, model(
        "gemma3_text", "Gemma3ForCausalLM", hidden_activation="gelu_pytorch_tanh", **sizes(
            1152, 6912, 26, 4, 262144, 32768), num_key_value_heads=1, head_dim=256,
        attention_bias=False, attn_logit_softcapping=None, final_logit_softcapping=None,
        cache_implementation="hybrid", query_pre_attn_scalar=256, rms_norm_eps=1e-6,
        rope_local_base_freq=10000, rope_scaling=None, rope_theta=1000000, sliding_window=512,
        sliding_window_pattern=6, torch_dtype="bfloat16", bos_token_id=2, eos_token_id=[1, 106],
        pad_token_id=0)),
    "phi-1_5": (1418270720, model(
        "phi", "PhiForCausalLM", hidden_act="gelu_new", **sizes(2048, 8192, 24, 32, 51200, 2048),
        num_key_value_heads=None, layer_norm_eps=1e-5, partial_rotary_factor=0.5,
        qk_layernorm=False, rope_scaling=None, rope_theta=10000.0, tie_word_embeddings=False,
        torch_dtype="float16", bos_token_id=None, eos_token_id=None)),
    "phi-2": (2779683840, model(
        "phi", "PhiForCausalLM", hidden_act="gelu_new", **sizes(2560, 10240, 32, 32, 51200, 2048),
        num_key_value_heads=32, layer_norm_eps=1e-5, partial_rotary_factor=0.4,
        qk_layernorm=False, rope_scaling=None, rope_theta=10000.0, tie_word_embeddings=False,
        torch_dtype="float16", bos_token_id=50256, eos_token_id=50256)),
    "Phi-3-mini-128k": (3821079552, model(
        "phi3", "Phi3ForCausalLM", hidden_act="silu", **sizes(
            3072, 8192, 32, 32, 32064, 131072), num_key_value_heads=32, attention_bias=False,
        original_max_position_embeddings=4096, rms_norm_eps=1e-5, rope_scaling=LONG_ROPE,
        rope_theta=10000.0, sliding_window=262144, tie_word_embeddings=False,
        torch_dtype="bfloat16", bos_token_id=1, eos_token_id=32000, pad_token_id=32000)),
    "Phi-3.5-mini": (3821079552, model(
        "phi3", "Phi3ForCausalLM", hidden_act="silu", **sizes(
            3072, 8192, 32, 32, 32064, 131072), num_key_value_heads=32, attention_bias=False,
        original_max_position_embeddings=4096, rms_norm_eps=1e-5, rope_scaling=LONG_ROPE,
        rope_theta=10000.0, sliding_window=262144, tie_word_embeddings=False,
        torch_dtype="bfloat16", bos_token_id=1, eos_token_id=32000, pad_token_id=32000)),
    "gpt2": (124439808, model(
        "gpt2", "GPT2LMHeadModel", activation_function="gelu_new", layer_norm_epsilon=1e-5,
        n_ctx=1024, n_embd=768, n_head=12, n_layer=12, n_positions=1024, vocab_size=50257,
        bos_token_id=50256, eos_token_id=50256)),
    "gpt-j-6b": (6050882784, model(
        "gptj", "GPTJForCausalLM", activation_function="gelu_new", layer_norm_epsilon=1e-5,
        n_embd=4096, n_head=16, n_inner=None, n_layer=28, n_positions=2048, rotary=True,
        rotary_dim=64, scale_attn_weights=True, tie_word_embeddings=False, vocab_size=50400,
        bos_token_id=50256, eos_token_id=50256)),
    "pythia-410m": (405334016, model(
        "gpt_neox", "GPTNeoXForCausalLM", hidden_act="gelu", **sizes(
            1024, 4096, 24, 16, 50304, 2048), layer_norm_eps=1e-5, rotary_emb_base=10000,
        rotary_pct=0.25, use_parallel_residual=True, tie_word_embeddings=False,
        torch_dtype="float16", bos_token_id=0, eos_token_id=0)),
    "opt-350m": (331196416, model(
        "opt", "OPTForCausalLM", activation_function="relu", do_layer_norm_before=False,
        ffn_dim=4096, hidden_size=1024, max_position_embeddings=2048, num_attention_heads=16,
        num_hidden_layers=24, prefix="</s>", vocab_size=50272, word_embed_proj_dim=512,
        torch_dtype="float16", bos_token_id=2, eos_token_id=2, pad_token_id=1)),
    "opt-1.3b": (1315758080, model(
        "opt", "OPTForCausalLM", activation_function="relu", do_layer_norm_before=True,
        ffn_dim=8192, hidden_size=2048, max_position_embeddings=2048, num_attention_heads=32,
        num_hidden_layers=24, prefix="</s>", vocab_size=50272, word_embed_proj_dim=2048,
        torch_dtype="float16", bos_token_id=2, eos_token_id=2, pad_token_id=1)),
    "stablelm-2-1_6b": (1644515328, model(
        "stablelm", "StableLmForCausalLM", hidden_act="silu", **sizes(
            2048, 5632, 24, 32, 100352, 4096), num_key_value_heads=32, layer_norm_eps=1e-5,
        partial_rotary_factor=0.25, rope_theta=10000, use_qkv_bias=True,
        tie_word_embeddings=False, torch_dtype="float16", bos_token_id=100257,
        eos_token_id=100257)),
    "stablelm-2-12b": (12143185920, model(
        "stablelm", "StableLmForCausalLM", hidden_act="silu", **sizes(
            5120, 13824, 40, 32, 100352, 4096), num_key_value_heads=8, layer_norm_eps=1e-5,
        partial_rotary_factor=0.25, qk_layernorm=True, rope_theta=10000, use_qkv_bias=False,
        use_parallel_residual=True, tie_word_embeddings=False, torch_dtype="bfloat16",
        bos_token_id=100257, eos_token_id=100257)),
    "SmolLM3-3B": (3075098624, model(
        "smollm3", "SmolLM3ForCausalLM", hidden_act="silu", **sizes(
            2048, 11008, 36, 16, 128256, 65536), num_key_value_heads=4, attention_bias=False,
        mlp_bias=False, no_rope_layer_interval=4,
        no_rope_layers=[1, 1, 1, 0] * 9, layer_types=["full_attention"] * 36,
        max_window_layers=28, pretraining_tp=2, rms_norm_eps=1e-6, rope_scaling=None,
        rope_theta=5000000.0, sliding_window=None, use_sliding_window=False,
        torch_dtype="bfloat16", bos_token_id=128000, eos_token_id=128012,
        pad_token_id=128004)),
    "OLMo-1B": (1176764416, model(
        "olmo", "OlmoForCausalLM", hidden_act="silu", **sizes(
            2048, 8192, 16, 16, 50304, 2048), num_key_value_heads=16, attention_bias=False,
        clip_qkv=None, rope_scaling=None, rope_theta=10000.0, tie_word_embeddings=True,
        eos_token_id=50279, pad_token_id=1)),
    "OLMo-2-7B": (7298617344, model(
        "olmo2", "Olmo2ForCausalLM", hidden_act="silu", **sizes(
            4096, 11008, 32, 32, 100352, 4096), num_key_value_heads=32, attention_bias=False,
        rms_norm_eps=1e-6, rope_scaling=None, rope_theta=500000, tie_word_embeddings=False,
        torch_dtype="float32", eos_token_id=100257, pad_token_id=100277)),
    "bert-base-uncased": (None, bert(
        "bert", "BertForMaskedLM", 768, 3072, 12, 12, 30522, 512, layer_norm_eps=1e-12,
        position_embedding_type="absolute", type_vocab_size=2, pad_token_id=0)),
    "roberta-base": (124697433, bert(
        "roberta", "RobertaForMaskedLM", 768, 3072, 12, 12, 50265, 514, layer_norm_eps=1e-5,
        type_vocab_size=1, bos_token_id=0, eos_token_id=2, pad_token_id=1)),
    "distilbert-base-uncased": (66985530, model(
        "distilbert", "DistilBertForMaskedLM", activation="gelu", dim=768, hidden_dim=3072,
        max_position_embeddings=512, n_heads=12, n_layers=6, sinusoidal_pos_embds=False,
        tie_weights_=True, vocab_size=30522, pad_token_id=0)),
    "all-MiniLM-L6-v2": (22713216, bert(
        "bert", "BertModel", 384, 1536, 6, 12, 30522, 512, layer_norm_eps=1e-12,
        position_embedding_type="absolute", type_vocab_size=2, pad_token_id=0)),
}


def counts(config):
    """What transformers builds from a config.json."""
    kind = transformers.CONFIG_MAPPING[config["model_type"]]
    read = kind.from_dict(copy.deepcopy(config))
    with torch.device("meta"):
        built = getattr(transformers, config["architectures"][0])(read)
    linear = sum(
        parameter.numel() for name, module in built.named_modules() for parameter in
        module.parameters(recurse=False) if isinstance(module, (torch.nn.Linear, Conv1D))
        # A layer has a number in its name.
        and any(part.isdigit() for part in name.split(".")))
    return {"parameters": sum(p.numel() for p in built.parameters()), "linear": linear,
            "tensors": len(list(built.parameters()))}


def main(folder):
    transformers.logging.set_verbosity_error()
    folder.mkdir(parents=True, exist_ok=True)
    for name, (published, config) in MODELS.items():
        found = counts(config)
        differs = published not in (None, found["parameters"])
        print(f"{name:24} {found['parameters']:12,}")
        assert not differs, f"{name}: published {published}"
        record = tiny.header("tools/golden/configs.py", config) | found
        del record["seed"]
        (folder / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
