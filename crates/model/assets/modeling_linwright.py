# SPDX-License-Identifier: MIT OR Apache-2.0
# Copyright (c) The Linwright developers.
"""Runs models whose linear layers Linwright replaced by structured operators, in transformers.

    AutoModelForCausalLM.from_pretrained(DIRECTORY, trust_remote_code=True)

The model is of the class that it was before. Its modules that `config.json` lists under
`linwright.sites` are exchanged for `LinwrightLinear`, which holds the parameters of an operator as
they stand among the weights (`<site>.u`, `<site>.v`, ...). Nothing else is changed: attention
kernels, caches, generation and training are those of transformers.
"""

import json
import shutil
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional
from transformers import AutoModel, AutoModelForCausalLM, AutoModelForMaskedLM
from transformers.configuration_utils import PretrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

try:
    from transformers import conversion_mapping
except ImportError:  # Before transformers 5 classes have the names of their files.
    conversion_mapping = None

SCHEMA = 1


def low_rank(op, x):
    """W = U V."""
    return functional.linear(functional.linear(x, op.v), op.u)


def diagonal_low_rank(op, x):
    """W = diag(d) + U V; of a rectangle, d is the main diagonal."""
    own = x[..., : op.d.numel()] * op.d
    return low_rank(op, x) + functional.pad(own, (0, op.out_features - op.d.numel()))


def blocks(x, weight):
    """Block-diagonal; weight: (blocks, rows, columns) of a block."""
    parts = x.unflatten(-1, (weight.shape[0], weight.shape[2]))
    return torch.einsum("...bi,boi->...bo", parts, weight).flatten(-2)


def hadamard(x):
    """The orthonormal Walsh-Hadamard transform of the last axis, a power of two."""
    size, step = x.shape[-1], 1
    while step < size:
        pairs = x.unflatten(-1, (-1, 2, step))
        upper, lower = pairs[..., 0, :], pairs[..., 1, :]
        x, step = torch.stack([upper + lower, upper - lower], dim=-2).flatten(-3), 2 * step
    return x / size**0.5


def block_hadamard(op, x):
    """W = F (H B) ... (H B), F and B block-diagonal, H the Walsh-Hadamard transform."""
    x = functional.pad(x, (0, op.final.shape[0] * op.final.shape[2] - x.shape[-1]))
    for index in range(op.header["depth"] - 1):
        x = hadamard(blocks(x, getattr(op, f"inner{index}")))
    return blocks(x, op.final)


def kronecker(op, x):
    """W = sum of the Kronecker products of A_k and B_k."""
    grid = x.unflatten(-1, (op.a.shape[2], op.b.shape[2]))
    # One term after another: all at once would hold them all.
    terms = (a @ (grid @ b.mT) for a, b in zip(op.a, op.b, strict=True))
    return sum(terms).flatten(-2)


def submatrix(op, x):
    """Some rows and columns of W; the others are zero."""
    kept = functional.linear(x[..., op.columns.to(torch.int64)], op.weight)
    out = kept.new_zeros(*x.shape[:-1], op.out_features)
    out[..., op.rows.to(torch.int64)] = kept
    return out


def monarch(op, x):
    """W = P L P' R, L and R block-diagonal, P a transposition of the grid of features."""
    parts = x.unflatten(-1, (op.right.shape[0], op.right.shape[2]))
    hidden = torch.einsum("...kp,kqp->...kq", parts, op.right)
    return torch.einsum("...kj,jik->...ij", hidden, op.left).flatten(-2)


def signs(buffer, rows):
    """+1 or -1, from 0 or 1."""
    return 1.0 - 2.0 * buffer.to(torch.int64).reshape(rows, -1)


def circulant_factors(op):
    """Diagonals (m, n) and half spectra (m - 1, bins), in f32: FFT has no shorter type."""
    bins, form = op.in_features // 2 + 1, op.header["parameterisation"]

    def inner(values):
        return functional.pad(values.float(), (1, bins - 1 - values.shape[1]))

    if form == "polar":
        diagonals = op.log_diagonals.float().exp()
        diagonals = diagonals * signs(op.diagonal_signs, len(diagonals))
        if len(diagonals) == 1:
            return diagonals, []
        spectra = torch.polar(op.log_moduli.float().exp(), inner(op.phases))
        ends, turned = torch.ones_like(spectra.real), signs(op.spectrum_signs, len(spectra))
        for column in range(turned.shape[1]):
            ends[:, -column] = turned[:, column]
        return diagonals, spectra * ends
    diagonals = op.diagonals.float()
    if len(diagonals) == 1:
        return diagonals, []
    if form == "raw":
        return diagonals, torch.complex(op.spectrum_re.float(), inner(op.spectrum_im))
    return diagonals, torch.fft.rfft(op.columns.float())


def circulant_diagonal(op, x):
    """W = diag(d_0) circ(c_0) diag(d_1) ..., from its last factor on."""
    diagonals, spectra = circulant_factors(op)
    y = x.float() * diagonals[-1]
    for index in reversed(range(len(spectra))):
        y = torch.fft.irfft(torch.fft.rfft(y) * spectra[index], n=op.in_features)
        y = y * diagonals[index]
    return y.to(x.dtype)


def total(op, x):
    """W = the sum of the terms."""
    return sum(child(x) for child in op.children())


def product(op, x):
    """W = the product of the factors; the last is applied first."""
    for child in reversed(list(op.children())):
        x = child(x)
    return x


def dense(op, x):
    """W itself, inside a sum or a product."""
    return functional.linear(x, op.weight)


KINDS = {
    "block_hadamard": block_hadamard,
    "circulant_diagonal": circulant_diagonal,
    "dense": dense,
    "diagonal_low_rank": diagonal_low_rank,
    "kronecker": kronecker,
    "low_rank": low_rank,
    "monarch": monarch,
    "product": product,
    "submatrix": submatrix,
    "sum": total,
}


class LinwrightLinear(nn.Module):
    """A linear layer of a kind and shape (out, in) that holds an operator's tensors by name."""

    def __init__(self, header, shape, tensors, bias=False):
        super().__init__()
        if header["kind"] not in KINDS:
            raise ValueError(f"this file has no operator of the kind {header['kind']!r}")
        self.header, (self.out_features, self.in_features) = header, shape
        for name, inner, inner_shape in self._inside():
            own = {
                kind: {n[len(name) + 1 :]: s for n, s in all.items() if n.startswith(f"{name}.")}
                for kind, all in tensors.items()
            }
            self.add_module(name, LinwrightLinear(inner, inner_shape, own))
        for name, size in tensors["parameters"].items():
            if "." not in name:
                self.register_parameter(name, nn.Parameter(torch.empty(size)))
        for name, size in tensors["buffers"].items():
            if "." not in name:
                self.register_buffer(name, torch.zeros(size, dtype=torch.uint32))
        self.bias = nn.Parameter(torch.empty(self.out_features)) if bias else None

    def _inside(self):
        """Name, header and shape of what a sum or a product is made of."""
        if self.header["kind"] == "sum":
            for index, term in enumerate(self.header["terms"]):
                yield f"term{index}", term, (self.out_features, self.in_features)
        if self.header["kind"] == "product":
            ends = [self.out_features, *self.header["widths"], self.in_features]
            for index, factor in enumerate(self.header["factors"]):
                yield f"factor{index}", factor, ends[index : index + 2]

    def forward(self, x):
        """(..., features in) to (..., features out)."""
        y = KINDS[self.header["kind"]](self, x)
        return y if self.bias is None else y + self.bias


def place(model, site):
    """The name of the module of a site, or None: a model without a head has no sites of it."""
    prefix = f"{model.base_model_prefix}."
    modules = dict(model.named_modules())
    # A model without a head has its modules at the top.
    for name in (site, site.removeprefix(prefix)):
        if name in modules:
            return name
    head = model.get_output_embeddings()
    if head is None and not site.startswith(prefix):
        return None
    # A newer class may call its head otherwise, and renames the tensors that it reads.
    if head is not None and "." not in site:
        return next(name for name, module in modules.items() if module is head)
    raise ValueError(f"{type(model).__name__} has no module {site}")


def keep_renaming(base, config, name):
    """Lets the class of this name rename tensors of older files as the original class does."""
    if conversion_mapping is None:
        return
    of = conversion_mapping.get_checkpoint_conversion_mapping
    renaming = of(base.__name__) or of(config.model_type)
    if renaming is not None:
        register = conversion_mapping.register_checkpoint_conversion_mapping
        register(name, renaming, overwrite=True)


def replace(model, settings):
    """Exchanges the modules of all sites that this model has."""
    for site, header in settings["sites"].items():
        name = place(model, site)
        if name is None:
            continue
        parent, _, leaf = name.rpartition(".")
        shape = (header["shape"]["out"], header["shape"]["inp"])
        bias = getattr(model.get_submodule(name), "bias", None) is not None
        new = LinwrightLinear(header, shape, settings["base"]["tensors"][site], bias)
        setattr(model.get_submodule(parent), leaf, new)


class LinwrightConfig(PretrainedConfig):
    """Reads the configuration as the class of the original model."""

    model_type = "linwright"

    @classmethod
    def from_dict(cls, config_dict, **kwargs):
        """The configuration of the original model, with the list of sites in `linwright`."""
        settings = config_dict["linwright"]
        if settings["schema"] != SCHEMA:
            raise ValueError(f"config.json has schema {settings['schema']}, expected {SCHEMA}")
        base = {key: settings["base"][key] for key in ("model_type", "architectures")}
        if base["model_type"] not in CONFIG_MAPPING:
            raise ValueError(f"transformers has no model of the type {base['model_type']!r}")
        return CONFIG_MAPPING[base["model_type"]].from_dict(config_dict | base, **kwargs)


class _Wrapped:
    """Makes the original class with its modules exchanged."""

    auto = None

    @classmethod
    def original(cls, config):
        """A subclass of the class that the auto class of transformers takes."""
        base = cls.auto._model_mapping[type(config)]
        base = base[0] if isinstance(base, (list, tuple)) else base

        def __init__(self, config, *args, **kwargs):
            base.__init__(self, config, *args, **kwargs)
            replace(self, config.linwright)

        def save_pretrained(self, save_directory, *args, **kwargs):
            base.save_pretrained(self, save_directory, *args, **kwargs)
            shutil.copy(__file__, Path(save_directory) / Path(__file__).name)
            path = Path(save_directory) / "config.json"
            own = {"model_type": LinwrightConfig.model_type, "architectures": [cls.__name__]}
            path.write_text(json.dumps(json.loads(path.read_text()) | own, indent=2) + "\n")

        keep_renaming(base, config, cls.__name__)
        own = {"__init__": __init__, "save_pretrained": save_pretrained}
        return type(cls.__name__, (base,), own | {"__module__": cls.__module__})

    @classmethod
    def from_pretrained(cls, name, *args, config, **kwargs):
        return cls.original(config).from_pretrained(name, *args, config=config, **kwargs)

    @classmethod
    def _from_config(cls, config, **kwargs):
        return cls.original(config)._from_config(config, **kwargs)

    @classmethod
    def register_for_auto_class(cls, auto_class=None):
        """Asked for by transformers; `config.json` has the auto classes already."""


class LinwrightModel(_Wrapped):
    auto = AutoModel


class LinwrightForCausalLM(_Wrapped):
    auto = AutoModelForCausalLM


class LinwrightForMaskedLM(_Wrapped):
    auto = AutoModelForMaskedLM
