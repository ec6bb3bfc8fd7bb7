"""Makes the vectors of small networks: PyTorch's outputs and gradients of every kind of layer.

Run from the root of the repository, in an environment with torch, numpy and safetensors:

    python tools/parity/nets.py testdata/parity/nets

Writes `nets-torch.json` and `nets-torch.safetensors`. A case of the first file has a `name`, the
description `net` of a network and the `loss` of its output; its tensors begin with the name and a
full stop. Rows are (examples * places, channels), the places of an image row by row.

- Passes, in f64: the input `x`, the network's tensors `tensor.NAME`, the targets of the loss; for
  each mode, `training` and `use`, the output `MODE.y`, and, where the case lists the mode in
  `gradients`, the loss in the case and the gradients `MODE.dy` of the output, `MODE.dx` of the
  normalised input and `MODE.grad.NAME`. `training.after.NAME` are running statistics after it.
- Trainings, in f32: the optimiser, the number of steps and of examples in a batch are in the case;
  `x` and the targets hold the batches one after the other; `trained.NAME` are the tensors after the
  last step, with running statistics, and `losses` those before each step.

Dropout is compared in use only: in training its mask is drawn, and no two random generators draw
the same one. Our gradients in training are tested against central differences with a fixed mask.

PyTorch computes the modules of its own (`torch.nn`, `scaled_dot_product_attention`, `torch.optim`)
in its own layout (examples, channels, height, width). Trainings are repeated in f64; if rounding
moves a tensor by more than CONDITION of its largest number, the script stops, since such a training
cannot be compared.
"""

import argparse
import copy
import json
import pathlib

import numpy as np
import torch
from safetensors.numpy import save
from torch import nn
from torch.nn import functional

SEED = 20260301
TOLERANCE = 1e-10
# Relative to the largest number of a tensor: a tenth of what the tests allow after training.
CONDITION = 1e-5
# The target of a row that the cross entropy leaves out.
IGNORED = 2**32 - 1


class OnChannels(nn.Module):
    """A module of the last axis, for images with channels first."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x.movedim(1, -1)).movedim(-1, 1)


class Attention(nn.Module):
    """Attention between all places of an image, row by row."""

    def __init__(self, channels, heads, causal=False, output=True, bias=True):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.query, self.key, self.value = (nn.Linear(channels, channels, bias) for _ in range(3))
        self.output = nn.Linear(channels, channels, bias) if output else nn.Identity()

    def forward(self, x):
        rows = x.flatten(2).mT
        parts = [part(rows).unflatten(-1, (self.heads, -1)).transpose(1, 2)
                 for part in (self.query, self.key, self.value)]
        mixed = functional.scaled_dot_product_attention(*parts, is_causal=self.causal)
        return self.output(mixed.transpose(1, 2).flatten(2)).mT.reshape(x.shape)


class Flat(nn.Module):
    def forward(self, x):
        return x.flatten(1)[:, :, None, None]


class Residual(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return x + self.inner(x)


class Network(nn.Module):
    """The modules of a description, and the named ones by their names."""

    def __init__(self, net):
        super().__init__()
        self.named, self.input = {}, net["input"]
        self.shape = (self.input.get("height", 1), self.input.get("width", 1))
        start = torch.zeros(2, self.input["channels"], *self.shape)
        self.body, _ = self.chain(net["layers"], start)

    def chain(self, layers, x):
        """The layers in a row, with a sample of what they put out, from which shapes follow."""
        modules = []
        for layer in layers:
            kind, options = (layer, {}) if isinstance(layer, str) else next(iter(layer.items()))
            module = self.module(kind, dict(options), x)
            modules.append(module)
            with torch.no_grad():
                x = copy.deepcopy(module)(x)
        return nn.Sequential(*modules), x

    def module(self, kind, options, x):
        channels, name = x.shape[1], options.pop("name", None)
        plain = {"relu": nn.ReLU, "gelu": nn.GELU, "silu": nn.SiLU, "tanh": nn.Tanh,
                 "flatten": Flat}
        if kind in plain:
            return plain[kind]()
        if kind == "residual":
            return Residual(self.chain(options["layers"], x)[0])
        if kind in ("max_pool", "mean_pool"):
            pool = nn.MaxPool2d if kind == "max_pool" else nn.AvgPool2d
            return pool(options["size"], options.get("stride"))
        if kind == "dropout":
            return nn.Dropout(options["share"])
        if kind == "attention":
            self.named[name] = Attention(channels, **options)
            return self.named[name]
        made = {"linear": lambda out, **more: nn.Linear(channels, out, **more),
                "conv": lambda out, kernel, **more: nn.Conv2d(channels, out, kernel, **more),
                "batch_norm": lambda **more: nn.BatchNorm2d(channels, **more),
                "layer_norm": lambda affine=True, **more: nn.LayerNorm(
                    channels, elementwise_affine=affine, **more)}
        self.named[name] = made[kind](**options)
        on_channels = kind in ("linear", "layer_norm")
        return OnChannels(self.named[name]) if on_channels else self.named[name]

    def images(self, rows):
        return rows.unflatten(0, (-1, *self.shape)).movedim(-1, 1)

    def normalised(self, images):
        for key, apply in (("mean", torch.sub), ("std", torch.div)):
            if key in self.input:
                images = apply(images, images.new_tensor(self.input[key])[:, None, None])
        return images

    def state(self):
        """All tensors by the names of Linwright; the counters of batch norms are left out."""
        return {f"{name}.{key}": tensor for name, module in self.named.items()
                for key, tensor in module.state_dict(keep_vars=True).items()
                if not key.endswith("num_batches_tracked")}

    def randomise(self, generator):
        with torch.no_grad():
            for name, tensor in self.state().items():
                tensor.normal_(0.0, 0.5 if tensor.dim() > 1 else 0.3, generator=generator)
                if name.endswith("running_var"):
                    tensor.abs_().add_(0.5)
                elif name.endswith(".weight") and tensor.dim() == 1:
                    # Scales of norms: near zero, f32 would lose the gradients below them.
                    tensor.add_(1.0)


def rows_of(images):
    return images.movedim(1, -1).flatten(0, -2)


def targets_of(loss, outputs, generator):
    """Targets of some rows of outputs, as a tensor with its name."""
    if loss["kind"] == "squared_error":
        return torch.randn(outputs.shape, generator=generator, dtype=outputs.dtype)
    found = torch.randint(outputs.shape[1], outputs.shape[:1], generator=generator)
    if loss.get("ignore"):
        found[1] = IGNORED
    return found


def loss_of(loss, outputs, targets):
    """As `CrossEntropy::mean`, and `SquaredError` with one over the rows as weight."""
    if loss["kind"] == "squared_error":
        return functional.mse_loss(outputs, targets, reduction="sum") / (2 * len(outputs))
    return functional.cross_entropy(outputs, targets, ignore_index=IGNORED)


def one_pass(network, case, x, targets):
    """The tensors of a pass in the present mode of the network."""
    start = network.normalised(network.images(x)).detach().requires_grad_()
    y = rows_of(network.body(start))
    if targets is None:
        return {"y": y}, None
    y.retain_grad()
    loss = loss_of(case["loss"], y, targets)
    network.zero_grad()
    loss.backward()
    found = {"y": y, "dy": y.grad, "dx": rows_of(start.grad)}
    parameters = {k: t for k, t in network.state().items() if isinstance(t, nn.Parameter)}
    return found | {f"grad.{k}": t.grad for k, t in parameters.items()}, loss.item()


def passes(case, generator):
    """The tensors of a case with passes; puts their losses into the case."""
    network = Network(case["net"]).double()
    network.randomise(generator)
    rows = case["examples"] * network.shape[0] * network.shape[1]
    x = torch.randn(rows, network.input["channels"], generator=generator, dtype=torch.float64)
    if case.pop("rounded", False):
        x = x.round()
    found = {"x": x} | {f"tensor.{k}": t.detach().clone() for k, t in network.state().items()}
    y, _ = one_pass(network.eval(), case, x, None)
    targets = found["targets"] = targets_of(case["loss"], y["y"], generator)
    for mode in case["modes"]:
        network.train(mode == "training")
        wanted = targets if mode in case["gradients"] else None
        tensors, loss = one_pass(network, case, x, wanted)
        found |= {f"{mode}.{key}": tensor for key, tensor in tensors.items()}
        if loss is not None:
            case["gradients"][mode] = loss
    if "training" in case["modes"]:
        found |= {f"training.after.{k}": t for k, t in network.state().items() if ".running_" in k}
    return found


def trained(case, network, x, targets):
    """The losses of a training, and the tensors after it."""
    weights = [t for t in network.parameters() if t.dim() > 1]
    others = [t for t in network.parameters() if t.dim() == 1]
    options = {key: case[key] for key in ("lr", "betas", "eps")}
    decay = case["weight_decay"]
    kind = torch.optim.AdamW if decay else torch.optim.Adam
    optimizer = kind([{"params": weights, "weight_decay": decay},
                      {"params": others, "weight_decay": 0.0}], **options)
    losses = []
    for rows, wanted in zip(x.chunk(case["steps"]), targets.chunk(case["steps"])):
        optimizer.zero_grad()
        y = rows_of(network.body(network.normalised(network.images(rows))))
        loss = loss_of(case["loss"], y, wanted)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"losses": torch.tensor(losses, dtype=x.dtype)} | {
        f"trained.{k}": t.detach() for k, t in network.state().items()}


def training(case, generator):
    network = Network(case["net"])
    network.randomise(generator)
    examples = case["steps"] * case["examples"]
    rows = examples * network.shape[0] * network.shape[1]
    x = torch.randn(rows, network.input["channels"], generator=generator)
    with torch.no_grad():
        y = rows_of(network.eval().body(network.normalised(network.images(x))))
    targets = targets_of(case["loss"], y, generator)
    found = {"x": x, "targets": targets}
    found |= {f"tensor.{k}": t.detach().clone() for k, t in network.state().items()}
    double = copy.deepcopy(network).double().train()
    ends = trained(case, network.train(), x, targets)
    wide = targets.double() if targets.is_floating_point() else targets
    exact = trained(case, double, x.double(), wide)
    off = {key: (ends[key].double() - exact[key]).abs().max() / exact[key].abs().max()
           for key in ends}
    worst = max(off, key=off.get)
    if off[worst] > CONDITION:
        raise SystemExit(f"{case['name']}: f32 is off by {off[worst]:.1e} in {worst}")
    case["f32"] = float(f"{off[worst]:.1e}")
    return found | ends


def named(kind, name="a", **options):
    return {kind: {"name": name, **options}}


def residual(*layers):
    return {"residual": {"layers": list(layers)}}


def pool(kind, size, **options):
    return {f"{kind}_pool": {"size": size, **options}}


PLACE = {"channels": 5}
ROW = {"channels": 4, "width": 6}
IMAGE = {"channels": 3, "height": 5, "width": 4}
MLP = [named("linear", "up", out=9), "relu", named("linear", "mid", out=7), "tanh",
       named("layer_norm", "norm"), named("linear", "head", out=4)]
CNN = [named("conv", "conv", out=4, kernel=3, padding=1), "relu", pool("max", 2),
       named("batch_norm", "norm"), "flatten", named("linear", "head", out=3)]
#: Without kinks: where rounding moves a number over one, f32 and f64 are trained to other ends.
SMOOTH = [named("conv", "conv", out=4, kernel=3, padding=1), "gelu", pool("mean", 2),
          named("batch_norm", "norm"), "flatten", named("linear", "head", out=3)]
PRE_NORM = [residual(named("layer_norm", "before"),
                     named("attention", "mix", heads=2, causal=True)),
            residual(named("layer_norm", "between"), named("linear", "up", out=8), "gelu",
                     named("linear", "down", out=4)),
            named("layer_norm", "after"), named("linear", "head", out=5, bias=False)]
POST_NORM = [residual(named("attention", "mix", heads=1)), named("layer_norm", "after_mix"),
             residual(named("linear", "up", out=8), "silu", named("linear", "down", out=4)),
             named("layer_norm", "after", affine=False), pool("mean", 1), "flatten",
             named("linear", "head", out=3)]
BLOCKS = [named("conv", "stem", out=4, kernel=3, padding=1, bias=False),
          residual(named("conv", "first", out=4, kernel=3, padding=1, bias=False),
                   named("batch_norm", "norm_first"), "relu",
                   residual("tanh", named("conv", "inner", out=4, kernel=1, bias=False)),
                   named("batch_norm", "norm_second", momentum=0.3)), "relu",
          named("conv", "down", out=5, kernel=3, stride=2, padding=1), pool("mean", 2, stride=1),
          "flatten", named("linear", "head", out=3)]
#: Name, input, layers: those of a single kind, then composed ones.
NETS = [
    ("linear", PLACE, [named("linear", out=3)]),
    ("linear of places, no bias", IMAGE, [named("linear", out=4, bias=False)]),
    ("normalised input", IMAGE | {"mean": [0.5, -0.25, 1.0], "std": [2.0, 0.5, 1.5]},
     [named("linear", out=2)]),
    ("conv", IMAGE, [named("conv", out=4, kernel=3)]),
    ("conv, stride and padding", IMAGE,
     [named("conv", out=2, kernel=3, stride=2, padding=1, bias=False)]),
    ("conv, windows that leave a rest", IMAGE,
     [named("conv", out=3, kernel=2, stride=3, padding=1)]),
    ("relu", IMAGE, ["relu"]),
    ("gelu", IMAGE, ["gelu"]),
    ("silu", IMAGE, ["silu"]),
    ("tanh", IMAGE, ["tanh"]),
    ("flatten", IMAGE, ["flatten"]),
    ("batch norm of rows", PLACE, [named("batch_norm")]),
    ("batch norm of images", IMAGE, [named("batch_norm", eps=1e-3, momentum=0.25)]),
    ("layer norm", ROW, [named("layer_norm", eps=1e-3)]),
    ("layer norm without scale and shift", ROW, [named("layer_norm", affine=False)]),
    ("residual", ROW, [residual("tanh", named("linear", out=4))]),
    ("max pool", IMAGE, [pool("max", 2)]),
    ("max pool, windows that overlap", IMAGE, [pool("max", 3, stride=1)]),
    ("max pool with ties", IMAGE, [pool("max", 2, stride=1)]),
    ("mean pool", IMAGE, [pool("mean", 2)]),
    ("mean pool, windows that overlap", IMAGE, [pool("mean", 3, stride=1)]),
    ("mean pool, windows apart", IMAGE, [pool("mean", 1, stride=3)]),
    ("attention", ROW, [named("attention", heads=2)]),
    ("attention, causal", ROW, [named("attention", heads=2, causal=True)]),
    ("attention of an image, no bias", IMAGE, [named("attention", heads=3, bias=False)]),
    ("attention without output", ROW, [named("attention", heads=1, output=False)]),
    ("attention, causal, without output and bias", ROW,
     [named("attention", heads=4, causal=True, output=False, bias=False)]),
    ("dropout", ROW, [{"dropout": {"share": 0.4}}, named("linear", out=3)]),
    ("dropout inside", PLACE, [named("linear", "up", out=6), "relu", {"dropout": {"share": 0.5}},
                               named("batch_norm", "norm"), named("linear", "head", out=3)]),
    ("MLP", PLACE, MLP),
    ("CNN", IMAGE, CNN),
    ("pre-norm block", ROW, PRE_NORM),
    ("post-norm block", ROW, POST_NORM),
    ("residual convolutions", IMAGE, BLOCKS),
]
#: Cases with whole numbers as input, so that kinks and ties occur.
ROUNDED = ("relu", "max pool with ties")
ADAM = {"lr": 0.01, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.0}
CROSS_ENTROPY, SQUARED_ERROR = {"kind": "cross_entropy"}, {"kind": "squared_error"}
TRAININGS = [
    ("training of the MLP by Adam", {"channels": 8}, MLP, CROSS_ENTROPY, ADAM),
    ("training of the MLP by AdamW", {"channels": 8}, MLP, SQUARED_ERROR,
     ADAM | {"betas": [0.8, 0.99], "eps": 1e-6, "weight_decay": 0.3}),
    ("training of convolutions by AdamW", IMAGE, SMOOTH, CROSS_ENTROPY,
     ADAM | {"weight_decay": 0.1}),
]


def holds(layers, kind):
    inner = [layer["residual"]["layers"] for layer in layers if "residual" in layer]
    return any(kind in layer for layer in layers) or any(holds(part, kind) for part in inner)


def case_of(index, name, given, layers):
    """A case of passes; where both modes are one, gradients of one are enough."""
    dropout, norm = holds(layers, "dropout"), holds(layers, "batch_norm")
    loss = CROSS_ENTROPY if index % 2 else SQUARED_ERROR
    # The pass in training changes running statistics, so it is the last one.
    modes = ["use"] if dropout else ["use", "training"]
    wanted = modes if norm or dropout else ["training"]
    case = {"name": name, "net": {"input": given, "layers": layers},
            "examples": 2 if "height" in given else 4,
            "loss": loss | ({"ignore": True} if index % 4 == 3 else {}),
            "modes": modes, "gradients": dict.fromkeys(wanted)}
    return case | ({"rounded": True} if name in ROUNDED else {})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    args = parser.parse_args()
    torch.use_deterministic_algorithms(True)
    generator = torch.Generator().manual_seed(SEED)
    cases, tensors = [], {}

    def add(case, found):
        for key, tensor in found.items():
            tensors[f"{case['name']}.{key}"] = np.ascontiguousarray(tensor.detach().numpy())
        cases.append(case)

    for index, (name, given, layers) in enumerate(NETS):
        case = case_of(index, name, given, layers)
        add(case, passes(case, generator))
    for name, given, layers, loss, options in TRAININGS:
        case = {"name": name, "net": {"input": given, "layers": layers}, "loss": loss,
                "examples": 4, "steps": 20, **options}
        add(case, training(case, generator))
    about = {"seed": SEED, "torch": torch.__version__, "tolerance": TOLERANCE,
             "about": "Small networks in PyTorch; tools/parity/nets.py says what the tensors are."}
    args.folder.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(f"  {json.dumps(case)}" for case in cases)
    text = json.dumps(about, indent=1).removesuffix("\n}") + f',\n "cases": [\n{lines}\n ]\n}}\n'
    (args.folder / "nets-torch.json").write_text(text)
    (args.folder / "nets-torch.safetensors").write_bytes(save(tensors))


if __name__ == "__main__":
    main()
