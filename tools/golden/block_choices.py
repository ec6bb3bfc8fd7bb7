"""A tiny decoder whose layers differ, as neural architecture search leaves them (DeciLM).

transformers has no such model. It is put together from the parts of Llama: `block_configs` says for
every layer how many query heads share a key head, how wide the MLP is, or that one of the two is left
out (`no_op`, with its norm) or is one matrix (`replace_with_linear`). Field and tensor names are those
of the public model files.
"""

import copy

import torch
import transformers
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaMLP

import tiny


class Nothing(torch.nn.Module):
    """Adds nothing to the residual stream."""

    def forward(self, hidden_states, **_):
        return torch.zeros_like(hidden_states)


class NoAttention(Nothing):
    def forward(self, hidden_states, **_):
        return super().forward(hidden_states), None


class LinearAttention(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear_attn = torch.nn.Linear(width, width, bias=False)

    def forward(self, hidden_states, **_):
        return self.linear_attn(hidden_states), None


class LinearMLP(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear_mlp = torch.nn.Linear(width, width, bias=False)

    def forward(self, hidden_states):
        return self.linear_mlp(hidden_states)


def mlp_width(multiple, hidden):
    """Two thirds of `multiple` times the width, rounded up to a multiple of 256."""
    return -(-int(2 * multiple * hidden / 3) // 256) * 256


def build(config, generator):
    """A Llama whose layers follow `config.block_configs`, with random parameters."""
    config._attn_implementation = "eager"
    model = transformers.LlamaForCausalLM(config).eval()
    for index, (layer, block) in enumerate(zip(model.model.layers, config.block_configs)):
        own, attention, mlp = copy.deepcopy(config), block["attention"], block["ffn"]
        if attention["no_op"]:
            layer.input_layernorm, layer.self_attn = torch.nn.Identity(), NoAttention()
        elif attention["replace_with_linear"]:
            layer.self_attn = LinearAttention(config.hidden_size)
        else:
            own.num_key_value_heads = config.num_attention_heads // attention["n_heads_in_group"]
            layer.self_attn = LlamaAttention(own, index)
        if mlp["no_op"]:
            layer.post_attention_layernorm, layer.mlp = torch.nn.Identity(), Nothing()
        elif mlp["replace_with_linear"]:
            layer.mlp = LinearMLP(config.hidden_size)
        else:
            own.intermediate_size = mlp_width(mlp["ffn_mult"], config.hidden_size)
            layer.mlp = LlamaMLP(own)
    tiny.randomise(model, generator)
    return model
