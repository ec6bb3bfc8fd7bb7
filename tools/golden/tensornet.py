"""Makes golden vectors of TensorNet: tiny random networks and what the reference computes with them.

Run in an environment with torch and safetensors and a checkout of torchmd-net (commit 833c0770) with its
dependencies (of these warp-lang and lightning-utilities are enough) on PYTHONPATH:

    python tools/golden/tensornet.py OUT b --hidden 32 --layers 2 --rbf 32 --cutoff 5.0
    python tools/golden/tensornet.py OUT a --check

The first writes `<name>_weights.safetensors`, `<name>.safetensors` and `<name>.json`, which lists the
keys; the second computes a set again from its own weights and positions and prints the largest
difference of every key.

The network is the reference's plain path in f64. Its weights are exact in f32, so that one file serves
both precisions. With the reference's initialisation an interaction layer hardly changes its input and a
wrong one would pass; the gains below make it matter.

The virial is not the reference's, which has none: it is the derivative by the edge vectors, summed.
Without `--slim` the tensors after every layer are kept for all systems, with it for the molecule only.
"""

import argparse
import json
import pathlib

import safetensors.torch
import torch
import torchmdnet.models.tensornet as reference
from torchmdnet.models.model import create_model

MEAN, STD = -0.375, 1.75
NOISE = 0.2
#: Weights of the two losses, unequal so that swapping them shows.
TRAIN = {"system": "batch", "steps": 3, "y_weight": 0.25, "neg_dy_weight": 0.75, "lr": 1e-4,
         "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.01, "clip": None, "warmup": None}
KEPT_AFTER = ["representation_model.layers.0.linears_scalar.1.weight",
              "representation_model.tensor_embedding.emb.weight",
              "output_model.output_network.layers.2.bias"]
ETHANOL = ([6, 6, 8, 1, 1, 1, 1, 1, 1],
           [[-1.168, -0.389, 0.052], [0.042, 0.563, -0.048], [1.247, -0.196, 0.021],
            [-2.093, 0.182, -0.031], [-1.171, -1.117, -0.762], [-1.149, -0.922, 1.006],
            [0.019, 1.115, -0.992], [0.004, 1.296, 0.765], [1.979, 0.421, -0.083]])
WATER = ([8, 1, 1], [[3.0, 3.0, 3.1], [2.96, 3.73, 2.48], [3.0, 2.31, 2.51]])
AMMONIUM = ([7, 1, 1, 1, 1],
            [[-2.03, -1.98, -1.98], [-1.05, -2.05, -1.67], [-2.44, -1.26, -1.69],
             [-2.57, -2.87, -1.76], [-2.0, -2.04, -3.01]])
KEYS = {
    "z, batch": "i64[N] species and molecule of each atom",
    "pos": "f64[N,3], exact in f32",
    "box": "f64[3,3], rows a, b, c, lower-triangular; only of the periodic systems",
    "q": "f64[molecules] charges; only of `batch`",
    "edge_i, edge_j": "i32[E] receiver and sender, with i = j, ordered by i, then j",
    "edge_d, edge_u": "f64[E] and f64[E,3]: distance and (pos_i - pos_j)/d at the nearest image, 0 where i = j",
    "energy, forces": "f64[molecules], f64[N,3]",
    "energy_f32, forces_f32": "the same by the reference in f32",
    "virial": "f64[3,3], -dE/d(strain)",
    "x, e_atom_unscaled": "f64[N,H] after the readout, f64[N] before `std`",
    "emb.{I,A,S}, layer<l>.{I,A,S}": "X after the embedding and after each layer: I [N,H]; A [N,3,H] with "
    "X_A = [[0,-a3,a2],[a3,0,-a1],[-a2,a1,0]]; S [N,5,H] as xx, xy, xz, yy, yz",
}
MOLECULE_KEYS = {
    "rbf": "f64[E,R]",
    "embsum.{I,A,S}": "the sums over neighbours before norm and mixing",
    "emb_scale": "f64[N,3,H], factors of I, A and S",
    "layer<l>.{Y,M,C,D}": "f64[N,3,3,H]: mixed, message, (1+0.1q)(YM+MY), update",
    "invariants": "f64[N,3H], before the norm of the readout",
}
TRAIN_KEYS = {
    "y, neg_dy": "f64[molecules], f64[N,3]: the labels of the training step",
    "losses": "f64[steps+1], the total loss before each step and after the last",
    "grad/<parameter>": "f64, of the total loss at the start",
    "param_after3/<parameter>": "f64, after the three steps",
}


def exact(tensor):
    """The nearest values that f32 holds."""
    return tensor.float().to(tensor.dtype)


def take_plain_path():
    """Switches the optimised kernels off; they differ in the last digits and in a sign."""
    reference.OPT = False
    for name in ("compose_tensor", "decompose_tensor", "tensor_matmul_o3", "tensor_matmul_so3"):
        setattr(reference, name, getattr(reference, "_" + name))


def arguments(config, precision):
    return {
        "model": "tensornet", "precision": precision, "embedding_dimension": config["hidden_channels"],
        "num_layers": config["num_layers"], "num_rbf": config["num_rbf"], "rbf_type": "expnorm",
        "trainable_rbf": False, "activation": "silu", "cutoff_lower": config["cutoff_lower"],
        "cutoff_upper": config["cutoff_upper"], "max_z": config["max_z"], "max_num_neighbors": 64,
        "equivariance_invariance_group": config["group"], "static_shapes": False, "derivative": True,
        "atom_filter": -1, "prior_model": None, "output_model": "Scalar", "reduce_op": "add",
    }


def network(config, weights, precision=64):
    model = create_model(arguments(config, precision))
    model.to({32: torch.float32, 64: torch.float64}[precision])
    model.load_state_dict(weights)
    return model


def gain(name):
    """What multiplies a parameter after the noise."""
    if "linears_tensor" in name or "distance_proj" in name:
        return 4.0
    filters = "representation_model.layers." in name and "linears_scalar" in name
    return 2.0 if filters and name.endswith("weight") else 1.0


def random_weights(config, seed):
    torch.manual_seed(seed)
    model = create_model(arguments(config, 64), mean=torch.tensor(MEAN), std=torch.tensor(STD)).double()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias") or "norm" in name:
                parameter += NOISE * torch.randn_like(parameter)
            parameter *= gain(name)
    return {key: value.float() for key, value in model.state_dict().items()}


def gas(count, box, generator):
    """Atoms at least 1 apart in a periodic box; every third lies some boxes away."""
    species = torch.tensor([1, 6, 7, 8])[torch.randint(4, (count,), generator=generator)]
    images = torch.cartesian_prod(*[torch.arange(-1.0, 2.0, dtype=torch.float64)] * 3) @ box
    places = []
    while len(places) < count:
        place = torch.rand(3, generator=generator, dtype=torch.float64) @ box
        if all((place - other + images).norm(dim=1).min() >= 1.0 for other in places):
            places.append(place)
    places = torch.stack(places)
    places[::3] += torch.tensor([1.0, 0.0, -2.0], dtype=torch.float64) @ box
    return species.tolist(), places.tolist()


def systems(cutoff, seed):
    """The systems by name, without results."""
    generator = torch.Generator().manual_seed(seed)
    width = 2 * cutoff
    orthorhombic = torch.diag(torch.tensor([width + 0.2, width + 0.6, width + 1.0]).double())
    triclinic = torch.tensor([[width + 0.7, 0.0, 0.0], [1.9, width + 0.5, 0.0], [-2.3, 1.6, width + 0.4]]).double()
    at_the_cutoff = ([8, 1, 6, 1, 7], [[0.0, 0.0, 0.0], [cutoff - 1e-3, 0.0, 0.0],
                                       [0.0, cutoff + 1e-3, 0.0], [0.0, 0.0, 0.75], [40.0, 0.0, 0.0]])
    described = {
        "mol": ([ETHANOL], None, None),
        "batch": ([ETHANOL, WATER, AMMONIUM], None, [-1.0, 0.0, 1.0]),
        "pbc_orth": ([gas(20, orthorhombic, generator)], orthorhombic, None),
        "pbc_tric": ([gas(20, triclinic, generator)], triclinic, None),
        "edge": ([at_the_cutoff], None, None),
    }
    result = {}
    for name, (molecules, box, charges) in described.items():
        system = {
            "z": torch.tensor(sum((z for z, _ in molecules), [])),
            "pos": exact(torch.tensor(sum((pos for _, pos in molecules), [])).double()),
            "batch": torch.tensor(sum(([i] * len(z) for i, (z, _) in enumerate(molecules)), [])),
        }
        if box is not None:
            system["box"] = exact(box)
        if charges is not None:
            system["q"] = torch.tensor(charges).double()
        result[name] = system
    return result


def parts(tensor):
    """Irreducible parts of [N,3,3,H] in the layout of the file."""
    scalar, skew, symmetric = reference._decompose_tensor(tensor)
    return {"I": scalar, "A": reference.skewtensor_to_vector(skew),
            "S": torch.stack([symmetric[:, i, j] for i, j in ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2))], 1)}


class OrderedEdges(torch.nn.Module):
    """The reference's neighbour list in the order of the file, with the vectors as leaves."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, pos, batch, box):
        index, distance, vectors = self.inner(pos, batch, box)
        order = torch.argsort(index[0] * len(pos) + index[1])
        self.index, self.vectors = index[:, order], vectors[order].detach().requires_grad_(True)
        own = self.index[0] == self.index[1]
        self.distance = torch.where(own[:, None], 1.0, self.vectors).norm(dim=1).masked_fill(own, 0.0)
        return self.index, self.distance, self.vectors


def call(model, system):
    real = next(model.parameters()).dtype
    optional = {key: system[key].to(real) for key in ("box", "q") if key in system}
    return model(system["z"], system["pos"].to(real).clone(), system["batch"], **optional)


class Spy:
    """Records what passes through the functions and modules of a network."""

    def __init__(self, model):
        self.seen, self.products = {}, []
        inner = model.representation_model
        inner.distance_expansion.register_forward_hook(self.output("rbf"))
        inner.tensor_embedding.register_forward_hook(self.output("emb"))
        inner.tensor_embedding.linears_scalar[1].register_forward_hook(self.output("emb_scale"))
        for number, layer in enumerate(inner.layers):
            layer.register_forward_hook(self.output(f"layer{number}"))
        inner.out_norm.register_forward_hook(self.input("invariants"))
        model.output_model.output_network.register_forward_hook(self.input("x"))
        model.output_model.output_network.register_forward_hook(self.output("e_atom_unscaled"))
        self.replaced = {name: getattr(reference, name) for name in (
            "tensornet_embedding_message_passing", "tensor_matmul_o3", "tensor_matmul_so3")}
        reference.tensornet_embedding_message_passing = self.sums
        reference.tensor_matmul_o3 = self.product
        reference.tensor_matmul_so3 = self.square

    def output(self, key):
        return lambda _module, _inputs, output: self.seen.__setitem__(key, output)

    def input(self, key):
        return lambda _module, inputs, _output: self.seen.__setitem__(key, inputs[0])

    def sums(self, *inputs):
        result = self.replaced["tensornet_embedding_message_passing"](*inputs)
        self.seen["embsum"] = reference._compose_tensor(*result)
        return result

    def product(self, mixed, message):
        result = self.replaced["tensor_matmul_o3"](mixed, message)
        self.products.append({"Y": mixed, "M": message, "C": result})
        return result

    def square(self, update, again):
        result = self.replaced["tensor_matmul_so3"](update, again)
        if update is again:
            self.products[-1]["D"] = update
        else:
            # The product of a model of rotations, without the factor of charges.
            self.products.append({"Y": update, "M": again, "C": 2 * result, "rotations": True})
        return result

    def leave(self):
        for name, function in self.replaced.items():
            setattr(reference, name, function)

    def tensors(self, system):
        """What is kept of every system, and what is kept of the molecule only."""
        seen = self.seen
        charge = system["q"][system["batch"]] if "q" in system else torch.zeros(len(system["z"])).double()
        short = {"x": seen["x"], "e_atom_unscaled": seen["e_atom_unscaled"][:, 0]}
        states, inner = {}, {"rbf": seen["rbf"], "invariants": seen["invariants"]}
        for key in ["emb"] + [f"layer{number}" for number in range(len(self.products))]:
            states |= {f"{key}.{part}": tensor for part, tensor in parts(seen[key]).items()}
        inner |= {f"embsum.{part}": tensor for part, tensor in parts(seen["embsum"]).items()}
        scale = torch.nn.functional.silu(seen["emb_scale"])
        inner["emb_scale"] = scale.reshape(len(scale), 3, -1)
        for number, product in enumerate(self.products):
            if not product.pop("rotations", False):
                product["C"] = (1 + 0.1 * charge)[:, None, None, None] * product["C"]
            inner |= {f"layer{number}.{key}": tensor for key, tensor in product.items()}
        return short, states, inner


def results(config, weights, name, system, slim):
    """Everything about one system but the input."""
    energy, forces = call(network(config, weights).eval(), system)
    single, single_forces = call(network(config, weights, 32).eval(), system)
    traced = network(config, weights).eval()
    traced.derivative = False
    spy = Spy(traced)
    edges = traced.representation_model.distance = OrderedEdges(traced.representation_model.distance)
    total = call(traced, system)[0].sum()
    spy.leave()
    slope, = torch.autograd.grad(total, edges.vectors)
    if not torch.allclose(total, energy.sum(), rtol=0.0, atol=1e-12):
        raise SystemExit(f"{name}: the order of the edges changes the energy by {total - energy.sum()}")
    length = edges.distance.masked_fill(edges.distance == 0, 1.0)
    out = {
        "edge_i": edges.index[0].int(), "edge_j": edges.index[1].int(), "edge_d": edges.distance,
        "edge_u": edges.vectors / length[:, None], "energy": energy[:, 0], "forces": forces,
        "energy_f32": single[:, 0], "forces_f32": single_forces, "virial": -slope.T @ edges.vectors,
    }
    short, states, inner = spy.tensors(system)
    out |= short
    if name == "mol" or not slim:
        out |= states
    if name == "mol":
        out |= inner
    return {key: value.detach().contiguous() for key, value in out.items()}


def total_loss(model, system, labels):
    energy, forces = call(model, system)
    loss = torch.nn.functional.mse_loss
    return (TRAIN["y_weight"] * loss(energy, labels["y"][:, None])
            + TRAIN["neg_dy_weight"] * loss(forces, labels["neg_dy"]))


def training(config, weights, system, seed):
    """Labels, losses, gradients and weights of a few steps on one batch."""
    generator = torch.Generator().manual_seed(seed + 1)
    model = network(config, weights).train()
    energy, forces = (result.detach() for result in call(model, system))
    labels = {"y": exact(energy[:, 0] + 0.5 * torch.randn(len(energy), generator=generator).double()),
              "neg_dy": exact(forces + 0.5 * torch.randn(forces.shape, generator=generator).double())}
    optimizer = torch.optim.AdamW(model.parameters(), lr=TRAIN["lr"], betas=TRAIN["betas"], eps=TRAIN["eps"],
                                  weight_decay=TRAIN["weight_decay"])
    out, losses = dict(labels), []
    for step in range(TRAIN["steps"] + 1):
        loss = total_loss(model, system, labels)
        losses.append(loss.detach())
        if step == TRAIN["steps"]:
            break
        optimizer.zero_grad()
        loss.backward()
        if step == 0:
            out |= {f"grad/{key}": p.grad.clone() for key, p in model.named_parameters()}
        optimizer.step()
    out["losses"] = torch.stack(losses)
    out |= {f"param_after3/{key}": dict(model.named_parameters())[key].detach().clone() for key in KEPT_AFTER}
    return out


def computed(config, weights, inputs, slim, seed=1):
    """The tensors of a set by key."""
    out = {}
    for name, system in inputs.items():
        everything = system | results(config, weights, name, system, slim)
        out |= {f"{name}/{key}": value for key, value in everything.items()}
    steps = training(config, weights, inputs[TRAIN["system"]], seed)
    return out | {f"train/{key}": value for key, value in steps.items()}


def check(folder, name):
    """Prints how far a set is from what this script computes with its weights and positions."""
    config = json.loads((folder / f"{name}.json").read_text())["config"]
    stored = safetensors.torch.load_file(folder / f"{name}.safetensors")
    weights = safetensors.torch.load_file(folder / f"{name}_weights.safetensors")
    inputs = {}
    for key, value in stored.items():
        system, _, field = key.partition("/")
        if field in ("z", "pos", "batch", "box", "q"):
            inputs.setdefault(system, {})[field] = value
    found = computed(config, weights, inputs, slim=False)
    worst = {}
    for key, value in stored.items():
        if key not in found:
            raise SystemExit(f"{key} is in the file but not computed")
        if value.shape != found[key].shape or value.dtype != found[key].dtype:
            raise SystemExit(f"{key} is {value.dtype} {list(value.shape)} in the file")
        kind = key.partition("/")[2].partition("/")[0]
        difference = (value.double() - found[key].double()).abs().max().item()
        worst[kind] = max(worst.get(kind, 0.0), difference)
    for kind, difference in sorted(worst.items(), key=lambda entry: -entry[1]):
        print(f"{difference:9.2e} {kind}")


def write(folder, name, config, slim, seed):
    weights = random_weights(config, seed)
    tensors = computed(config, weights, systems(config["cutoff_upper"], seed), slim, seed)
    description = {
        "set": name, "config": config, "weights": f"{name}_weights.safetensors",
        "made_by": "torchmd-net 833c0770, plain path, f64; the virial by the derivative of the edge vectors",
        "keys_per_system": KEYS, "extra_keys_mol": MOLECULE_KEYS, "train_keys": TRAIN_KEYS, "train": TRAIN,
        "states_of": "mol" if slim else "all",
        "tolerance": {"f64": "1e-10 energies, forces, gradients and losses; 1e-11 intermediates",
                      "f32": "1e-5 energies, 4e-5 forces"},
    }
    folder.mkdir(parents=True, exist_ok=True)
    safetensors.torch.save_file(weights, folder / f"{name}_weights.safetensors")
    safetensors.torch.save_file(tensors, folder / f"{name}.safetensors")
    for path in folder.glob(f"{name}*.safetensors"):
        path.chmod(0o644)
    (folder / f"{name}.json").write_text(json.dumps(description, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("name")
    parser.add_argument("--hidden", type=int, default=32)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--rbf", type=int, default=32)
    parser.add_argument("--cutoff", type=float, default=5.0)
    parser.add_argument("--lower", type=float, default=0.0, help="lower cutoff")
    parser.add_argument("--max-z", type=int, default=20)
    parser.add_argument("--group", choices=["O(3)", "SO(3)"], default="O(3)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--slim", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    take_plain_path()
    if options.check:
        check(options.folder, options.name)
        return
    config = {
        "hidden_channels": options.hidden, "num_layers": options.layers, "num_rbf": options.rbf,
        "cutoff_lower": options.lower, "cutoff_upper": options.cutoff, "max_z": options.max_z, "activation": "silu",
        "group": options.group, "rbf": "expnorm", "mean": MEAN, "std": STD,
    }
    write(options.folder, options.name, config, options.slim, options.seed)


if __name__ == "__main__":
    main()
