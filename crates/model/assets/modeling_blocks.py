# SPDX-License-Identifier: MIT OR Apache-2.0
# Copyright (c) The Linwright developers.
"""Runs models whose layers have widths of their own (`block_configs`), in transformers.

    AutoModelForCausalLM.from_pretrained(DIRECTORY, trust_remote_code=True)

The model is a Llama; each layer has the heads and the MLP that its block names, or none.
"""

import copy

import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaMLP


class Block(dict):
    """A block whose keys are attributes too, as some runtimes read them."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(name) from error


class BlocksConfig(LlamaConfig):
    model_type = "nemotron-nas"

    def __init__(self, block_configs=None, **kwargs):
        # Fields of the whole model that only blocks have.
        for name, own in (("intermediate_size", 1), ("num_key_value_heads", None)):
            if kwargs.get(name) is None:
                kwargs[name] = own or kwargs.get("num_attention_heads", 32)
        super().__init__(**kwargs)
        blocks = block_configs or []
        self.block_configs = [Block({k: Block(v) for k, v in b.items()}) for b in blocks]


class Nothing(nn.Module):
    """Adds nothing to the residual stream; `result` makes it what the part in its place returns."""

    def __init__(self, result):
        super().__init__()
        self.result = result

    def forward(self, hidden_states, **_):
        return self.result(torch.zeros_like(hidden_states))


class Linear(nn.Module):
    """One linear layer in place of attention or of an MLP."""

    def __init__(self, name, width, result):
        super().__init__()
        self.add_module(name, nn.Linear(width, width, bias=False))
        self.result = result

    def forward(self, hidden_states, **_):
        (layer,) = self.children()
        return self.result(layer(hidden_states))


def attention(config, block, index):
    """The attention of a layer; it returns a pair."""
    if block.no_op:
        return Nothing(lambda y: (y, None))
    if block.replace_with_linear:
        return Linear("linear_attn", config.hidden_size, lambda y: (y, None))
    own = copy.copy(config)
    own.num_attention_heads = block.get("n_heads") or config.num_attention_heads
    own.num_key_value_heads = own.num_attention_heads // block.n_heads_in_group
    return LlamaAttention(own, index)


def mlp(config, block):
    """The MLP of a layer."""
    if block.no_op:
        return Nothing(lambda y: y)
    if block.replace_with_linear:
        return Linear("linear_mlp", config.hidden_size, lambda y: y)
    own = copy.copy(config)
    own.intermediate_size = block.intermediate_size
    return LlamaMLP(own)


class BlocksForCausalLM(LlamaForCausalLM):
    config_class = BlocksConfig

    def __init__(self, config):
        super().__init__(config)
        for index, layer in enumerate(self.model.layers):
            block = config.block_configs[index]
            layer.self_attn = attention(config, block.attention, index)
            layer.mlp = mlp(config, block.ffn)
            if block.attention.no_op:
                layer.input_layernorm = nn.Identity()
            if block.ffn.no_op:
                layer.post_attention_layernorm = nn.Identity()
