"""Operators in torch: gradients, state, replacement, statistics."""

from __future__ import annotations

import copy
import io
from typing import Any

import numpy as np
import pytest

import linwright
from linwright import Operator

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import linwright.torch as lt  # noqa: E402

KINDS: list[tuple[str, dict[str, Any]]] = [
    ("dense", {}),
    ("low_rank", {"rank": 3}),
    ("monarch", {}),
    ("circulant_diagonal", {}),
    ("rotor", {}),
    ("sum", {"terms": [{"kind": "low_rank", "rank": 2}, {"kind": "monarch"}]}),
]


def layer(kind: str, options: dict[str, Any], dtype: Any = np.float64) -> lt.Linear:
    op = Operator(kind, (8, 8), seed=1, dtype=dtype, **options)
    return lt.Linear(op, bias=np.arange(8) / 8)


@pytest.mark.parametrize(("kind", "options"), KINDS, ids=[kind for kind, _ in KINDS])
def test_gradcheck_passes_in_double_precision(kind: str, options: dict[str, Any]) -> None:
    module = layer(kind, options)
    x = torch.randn(2, 3, 8, dtype=torch.float64, requires_grad=True)
    names = [name for name, _ in module.named_parameters()]
    values = [parameter.detach().clone().requires_grad_() for parameter in module.parameters()]

    def run(x: Any, *values: Any) -> Any:
        return torch.func.functional_call(module, dict(zip(names, values)), (x,))

    assert torch.autograd.gradcheck(run, (x, *values), atol=1e-6)


@pytest.mark.parametrize(("kind", "options"), KINDS, ids=[kind for kind, _ in KINDS])
def test_a_state_comes_back(kind: str, options: dict[str, Any]) -> None:
    module, other = layer(kind, options), layer(kind, options)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(1.5)
    x = torch.randn(4, 8, dtype=torch.float64)
    assert not torch.equal(module(x), other(x))
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(module(x), other(x))
    assert torch.equal(copy.deepcopy(module)(x), module(x))
    again = lt.Linear(module.operator(), module.bias.detach().numpy())
    assert torch.equal(again(x), module(x))


def test_a_state_of_another_operator_is_refused() -> None:
    rank = layer("low_rank", {"rank": 3}).state_dict()
    with pytest.raises((ValueError, RuntimeError), match="rank"):
        layer("low_rank", {"rank": 2}).load_state_dict(rank)


def test_it_trains_like_the_dense_layer() -> None:
    torch.manual_seed(0)
    dense = nn.Linear(8, 8)
    ours = lt.Linear(Operator.from_dense(dense.weight), dense.bias.detach().numpy())
    x, y = torch.randn(64, 8), torch.randn(64, 8)
    optimisers = [torch.optim.Adam(module.parameters(), lr=1e-2) for module in (dense, ours)]
    for _ in range(20):
        for module, optimiser in zip((dense, ours), optimisers):
            optimiser.zero_grad()
            ((module(x) - y) ** 2).mean().backward()
            optimiser.step()
    torch.testing.assert_close(ours(x), dense(x), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(ours.to_linear()(x), ours(x), atol=1e-5, rtol=1e-5)


def test_changes_through_data_and_precision_are_seen() -> None:
    module = layer("dense", {}, np.float32)
    x = torch.randn(2, 8)
    before = module(x)
    module.weight.data.zero_()
    torch.testing.assert_close(module(x), module.bias.expand(2, 8))
    assert not torch.equal(before, module(x))
    assert module.double()(x.double()).dtype == torch.float64


def test_wrong_inputs_are_errors() -> None:
    module = layer("low_rank", {"rank": 2}, np.float32)
    with pytest.raises(TypeError, match="x is torch.float64, the parameters are torch.float32"):
        module(torch.zeros(2, 8, dtype=torch.float64))
    with pytest.raises(TypeError, match="torch.float16"):
        module(torch.zeros(2, 8, dtype=torch.float16))
    with pytest.raises(ValueError, match=r"x has shape \(2, 7\), expected \(\.\.\., 8\)"):
        module(torch.zeros(2, 7))
    with pytest.raises(ValueError, match="operators compute on the CPU"):
        module(torch.zeros(2, 8, device="meta"))
    with pytest.raises(ValueError, match=r"bias has shape \(3,\)"):
        lt.Linear(Operator("dense", (8, 8)), bias=np.zeros(3))
    y = module(torch.ones(1, 8))
    with torch.no_grad():
        next(module.parameters()).fill_(float("nan"))
    with pytest.raises(ValueError, match="not finite"):
        module(torch.ones(1, 8))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


class Vision(nn.Module):
    """A network that our own transformer does not know."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(3))
        self.head = nn.Sequential(nn.Linear(36, 16), nn.ReLU(), nn.Linear(16, 5))

    def forward(self, x: Any) -> Any:
        return self.head(self.features(x).flatten(1))


def test_layers_of_any_network_are_captured_fitted_and_replaced() -> None:
    torch.manual_seed(1)
    model = Vision()
    # A layer of rank three, which a fit can find from its inputs and outputs alone.
    with torch.no_grad():
        model.head[0].weight.copy_(torch.randn(16, 3) @ torch.randn(3, 36))
    batches = [(torch.randn(32, 1, 8, 8), torch.zeros(32)) for _ in range(8)]
    stats = lt.capture(model, batches, ["head.0", "head.2"])
    assert stats["head.0"].count == 256 and stats["head.2"].shape == (5, 16)
    assert model.training and not model.head[0]._forward_hooks
    fit = stats["head.0"].fit("low_rank", rank=3)
    assert fit.relative_error < 1e-6 and fit.bias is not None
    before = model(batches[0][0])
    new = lt.replace(model, "head.0", fit)
    assert model.get_submodule("head.0") is new and new.operator().kind == "low_rank"
    torch.testing.assert_close(model(batches[0][0]), before, atol=1e-3, rtol=1e-3)
    # A captured layer may be one of ours already.
    assert lt.capture(model, batches, ["head.0"], limit=1)["head.0"].count == 32


@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 3},
        {"kernel_size": (3, 2), "stride": 2, "padding": 1, "bias": False},
        {"kernel_size": 3, "dilation": 2, "padding": "same"},
        {"kernel_size": 3, "padding": 2, "padding_mode": "reflect"},
    ],
)
def test_convolutions_are_captured_fitted_and_replaced(options: dict[str, Any]) -> None:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Conv2d(3, 4, **options), nn.ReLU()).double()
    batch = torch.randn(16, 3, 9, 8, dtype=torch.float64)
    before = model(batch)
    stats = lt.capture(model, [batch], ["0"])["0"]
    assert stats.count == before[:, 0].numel()
    new = lt.replace(model, "0", stats.fit("dense"))
    torch.testing.assert_close(model(batch), before, atol=1e-4, rtol=1e-4)
    assert torch.autograd.gradcheck(new, (batch[:1].clone().requires_grad_(),))
    assert lt.capture(model, [batch], ["0"])["0"].count == stats.count
    lt.replace(model, "0", new.operator())
    torch.testing.assert_close(model(batch), before, atol=1e-4, rtol=1e-4)


def test_statistics_are_those_of_the_samples_in_any_order() -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(100, n)).astype(np.float32) for n in (6, 4))
    whole, parts, rest = (linwright.Statistics((4, 6)) for _ in range(3))
    whole.add(x[:31], y[:31])
    whole.add(x[31:], y[31:])
    rest.add(x[:31], y[:31])
    parts.add(x[31:], y[31:])
    parts.merge(rest)
    assert parts.count == whole.count == 100
    for name in ("second", "cross", "mean_x", "mean_y", "mean_absolute_x", "power"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))
    np.testing.assert_allclose(whole.second, x.T.astype(np.float64) @ x / 100, atol=1e-6)
    np.testing.assert_allclose(whole.cross, y.T.astype(np.float64) @ x / 100, atol=1e-6)
    fit = whole.fit("dense")
    design = np.hstack([x, np.ones((100, 1))]).astype(np.float64)
    expected = np.linalg.lstsq(design, y.astype(np.float64), rcond=None)[0]
    np.testing.assert_allclose(fit.operator.to_dense(), expected[:6].T, atol=1e-6)
    assert fit.bias is not None
    np.testing.assert_allclose(fit.bias, expected[6], atol=1e-6)


def test_what_cannot_be_captured_or_replaced_is_an_error() -> None:
    model = Vision()
    batch = [torch.randn(2, 1, 8, 8)]
    with pytest.raises(KeyError, match="there is no layer 'head.9'"):
        lt.capture(model, batch, ["head.9"])
    with pytest.raises(TypeError, match="features.1 is a ReLU, expected a linear layer"):
        lt.capture(model, batch, ["features.1"])
    with pytest.raises(TypeError, match="is a Conv2d, expected a linear layer or a convolution of one group"):
        lt.capture(nn.Sequential(nn.Conv2d(2, 2, 3, groups=2)), batch, ["0"])
    with pytest.raises(ValueError, match="never reached"):
        lt.capture(model, [], ["head.0"])
    with pytest.raises(ValueError, match="head.0: x has a number that is not finite"):
        lt.capture(model, [torch.full((1, 1, 8, 8), float("nan"))], ["head.0"])
    assert not model.head[0]._forward_hooks
    with pytest.raises(ValueError, match=r"head.0 has shape \(16, 36\), the operator \(3, 4\)"):
        lt.replace(model, "head.0", Operator("dense", (3, 4)))


def test_layers_of_transformers_are_replaced() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(n_layer=1, n_head=2, n_embd=16, vocab_size=50, n_positions=32)
    torch.manual_seed(2)
    model = transformers.GPT2LMHeadModel(config).eval()
    tokens = {"input_ids": torch.randint(0, 50, (4, 20))}
    name = "transformer.h.0.mlp.c_fc"
    stats = lt.capture(model, [tokens], [name])[name]
    assert stats.shape == (64, 16) and stats.count == 80
    before = model(**tokens).logits
    lt.replace(model, name, stats.fit("dense"))
    torch.testing.assert_close(model(**tokens).logits, before, atol=1e-4, rtol=1e-4)
