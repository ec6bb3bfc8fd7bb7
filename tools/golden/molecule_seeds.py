"""Makes small potentials for tests that damage them: checkpoints as torchmd-net writes them, in both layouts, with priors.

Run from the root of the repository, in an environment with torch:

    python tools/golden/molecule_seeds.py testdata/fuzz/potential
"""

import collections
import pathlib
import sys

import torch

SEED = 20251126
CHANNELS, RADIAL, SPECIES = 4, 3, 4


def hyper_parameters(**more):
    return {
        "model": "tensornet",
        "embedding_dimension": CHANNELS,
        "num_layers": 1,
        "num_rbf": RADIAL,
        "rbf_type": "expnorm",
        "trainable_rbf": False,
        "cutoff_lower": 0.0,
        "cutoff_upper": 3.0,
        "max_z": SPECIES,
        "activation": "silu",
        "equivariance_invariance_group": "O(3)",
        "output_model": "Scalar",
        "reduce_op": "add",
        "prior_model": None,
        "prior_args": None,
        **more,
    }


def tensors(generator):
    found = collections.OrderedDict()

    def normal(name, *shape):
        found[f"model.{name}"] = torch.randn(shape, generator=generator)

    def linear(name, inp, out, bias=True):
        normal(f"{name}.weight", out, inp)
        if bias:
            normal(f"{name}.bias", out)

    h, net = CHANNELS, "representation_model"
    found["model.mean"], found["model.std"] = torch.tensor(0.5), torch.tensor(2.0)
    found[f"model.{net}.distance_expansion.means"] = torch.linspace(0.05, 1, RADIAL)
    found[f"model.{net}.distance_expansion.betas"] = torch.full((RADIAL,), 2.0)
    for k in (1, 2, 3):
        linear(f"{net}.tensor_embedding.distance_proj{k}", RADIAL, h)
    normal(f"{net}.tensor_embedding.emb.weight", SPECIES, h)
    linear(f"{net}.tensor_embedding.emb2", 2 * h, h)
    for k in range(3):
        linear(f"{net}.tensor_embedding.linears_tensor.{k}", h, h, bias=False)
    linear(f"{net}.tensor_embedding.linears_scalar.0", h, 2 * h)
    linear(f"{net}.tensor_embedding.linears_scalar.1", 2 * h, 3 * h)
    normal(f"{net}.tensor_embedding.init_norm.weight", h)
    normal(f"{net}.tensor_embedding.init_norm.bias", h)
    for k, (inp, out) in enumerate([(RADIAL, h), (h, 2 * h), (2 * h, 3 * h)]):
        linear(f"{net}.layers.0.linears_scalar.{k}", inp, out)
    for k in range(6):
        linear(f"{net}.layers.0.linears_tensor.{k}", h, h, bias=False)
    linear(f"{net}.linear", 3 * h, h)
    normal(f"{net}.out_norm.weight", 3 * h)
    normal(f"{net}.out_norm.bias", 3 * h)
    found[f"model.{net}.distance.box"] = torch.zeros(3, 3)
    linear("output_model.output_network.layers.0", h, h // 2)
    linear("output_model.output_network.layers.2", h // 2, 1)
    return found


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    generator = torch.Generator().manual_seed(SEED)
    plain = {"state_dict": tensors(generator), "hyper_parameters": hyper_parameters()}
    torch.save(plain, folder / "plain.ckpt")
    old = {"state_dict": tensors(generator), "hyper_parameters": hyper_parameters(check_errors=True)}
    old["state_dict"]["model.prior_model.0.atomref.weight"] = torch.ones(SPECIES, 1)
    old["state_dict"]["model.prior_model.0.initial_atomref"] = torch.ones(SPECIES, 1)
    old["hyper_parameters"]["prior_model"] = [{"Atomref": {"max_z": SPECIES}}]
    torch.save(old, folder / "old.ckpt")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
