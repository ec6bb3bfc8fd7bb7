"""Trains the TensorNet of torchmd-net by a recipe of linwright, on the same structures.

    python tools/parity/tensornet_training.py recipes/tensornet-ethanol-training.yaml WORK --data DIR

DIR has the files that the recipe names. The network is torchmd-net's with its own initialisation, and so are pass and
gradients; losses, AdamW, norm of gradients, warm-up, cosine, batches and the permutation that divides the data are those
of the job `molecule_train` of the recipe. In WORK are written the weights of the step with the lowest validation loss as
`best.ckpt`, those of the last as `last.ckpt`, which `linwright molecule eval` opens, `curve.jsonl`, `split.json`, and
`results.json` with errors on the structures of the job `molecule_eval`. Interrupted, it goes on at the last validation;
the same seed gives the same order of structures, which is not linwright's order.

It needs torch, pyyaml, ase, and a checkout of torchmd-net (commit 833c0770) with warp-lang and lightning-utilities on
PYTHONPATH. With `--plain` it takes the path without Warp.
"""

import argparse
import json
import math
import os
import pathlib
import time

import ase.io
import numpy
import torch
import torchmdnet.models.tensornet as reference
import yaml
from torchmdnet.models.model import create_model

FLOOR = 0.01


def take_plain_path():
    reference.OPT = False
    for name in ("compose_tensor", "decompose_tensor", "tensor_matmul_o3", "tensor_matmul_so3"):
        setattr(reference, name, getattr(reference, "_" + name))


class Structures:
    """Structures as tensors, one after another."""

    def __init__(self, path):
        frames = ase.io.read(path, ":")
        self.species = [torch.tensor(one.numbers) for one in frames]
        self.places = [torch.tensor(one.positions, dtype=torch.float32) for one in frames]
        self.energies = torch.tensor([one.get_potential_energy() for one in frames], dtype=torch.float64)
        self.forces = [torch.tensor(one.get_forces(), dtype=torch.float32) for one in frames]

    def __len__(self):
        return len(self.species)

    def batch(self, indices):
        owners = torch.cat([torch.full((len(self.species[i]),), k) for k, i in enumerate(indices)])
        joined = [torch.cat([part[i] for i in indices]) for part in (self.species, self.places, self.forces)]
        return joined[0], joined[1], owners, self.energies[list(indices)].float()[:, None], joined[2]


def hyperparameters(job):
    return dict(
        model="tensornet", embedding_dimension=job["channels"], num_layers=job["layers"], num_rbf=job["radial"],
        rbf_type="expnorm", trainable_rbf=False, activation="silu", cutoff_lower=0.0, cutoff_upper=job["cutoff"],
        max_z=100, max_num_neighbors=64, equivariance_invariance_group="O(3)", static_shapes=False, precision=32,
        output_model="Scalar", reduce_op="add", derivative=True, prior_model=None, atom_filter=-1, box_vecs=None,
        vector_cutoff=False, output_mlp_num_layers=0,
    )


def rate(job, step):
    if step < job["warmup"]:
        return job["rate"] * (step + 1) / job["warmup"]
    progress = (step - job["warmup"]) / (job["steps"] - job["warmup"])
    floor = FLOOR * job["rate"]
    return floor + 0.5 * (job["rate"] - floor) * (1 + math.cos(math.pi * progress))


def loss_of(model, job, structures, indices):
    species, places, owners, energies, forces = structures.batch(indices)
    found = model(species, places, owners)
    square = torch.nn.functional.mse_loss
    return job["energy_weight"] * square(found[0], energies) + job["force_weight"] * square(found[1], forces)


def order(seed, epoch, trained):
    return numpy.random.default_rng([seed, epoch]).permutation(trained)


class Training:
    """A training that goes on from its file."""

    def __init__(self, job, seed, structures, work):
        self.job, self.seed, self.structures, self.work = job, seed, structures, work
        held = int(job["validation"])
        permuted = numpy.random.default_rng(seed).permutation(len(structures))
        trained = len(structures) - held
        self.trained, self.validated = permuted[:trained], permuted[trained:]
        split = {"train": self.trained.tolist(), "validation": self.validated.tolist(), "test": []}
        (work / "split.json").write_text(json.dumps(split))
        energies = structures.energies[self.trained]
        torch.manual_seed(seed)
        # The same mean and deviation as `references: mean`.
        self.model = create_model(hyperparameters(job), mean=energies.mean().float(), std=energies.std().float())
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=job["rate"], weight_decay=job["weight_decay"])
        self.state = {"step": 0, "curve": [], "best": math.inf, "seconds": 0.0}
        self.best = None
        self.kept = work / "training.pt"
        if self.kept.exists():
            kept = torch.load(self.kept, weights_only=False)
            self.model.load_state_dict(kept["model"])
            self.optimizer.load_state_dict(kept["optimizer"])
            self.state, self.best = kept["state"], kept["best"]

    def validate(self, train):
        loss = loss_of(self.model, self.job, self.structures, self.validated).item()
        state = self.state
        if loss < state["best"]:
            state["best"], state["best_step"] = loss, state["step"]
            self.best = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
        state["curve"].append({"step": state["step"], "train": train, "validation": loss})
        print(json.dumps(state["curve"][-1] | {"seconds": round(state["seconds"], 1)}), flush=True)
        kept = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "state": state,
                "best": self.best}
        torch.save(kept, self.kept.with_suffix(".new"))
        os.replace(self.kept.with_suffix(".new"), self.kept)

    def run(self):
        job, state = self.job, self.state
        of_epoch = math.ceil(len(self.trained) / job["batch"])
        losses, began = [], time.perf_counter()
        while state["step"] < job["steps"]:
            epoch, place = divmod(state["step"], of_epoch)
            ordered = self.trained[order(self.seed, epoch, len(self.trained))]
            for group in self.optimizer.param_groups:
                group["lr"] = rate(job, state["step"])
            self.optimizer.zero_grad()
            loss = loss_of(self.model, job, self.structures, ordered[place * job["batch"]:][:job["batch"]])
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), job["clip"])
            self.optimizer.step()
            losses.append(loss.item())
            state["step"] += 1
            if state["step"] % of_epoch == 0 or state["step"] == job["steps"]:
                state["seconds"] += time.perf_counter() - began
                self.validate(sum(losses) / len(losses))
                losses, began = [], time.perf_counter()

    def write(self, weights, name):
        named = {f"model.{key}": tensor for key, tensor in weights.items()}
        torch.save({"state_dict": named, "hyper_parameters": hyperparameters(self.job)}, self.work / name)


def errors(model, structures):
    """Mean absolute errors of energies per atom and of components of forces."""
    of_energy, of_force = [], []
    for first in range(0, len(structures), 50):
        chosen = range(first, min(first + 50, len(structures)))
        species, places, owners, energies, forces = structures.batch(chosen)
        found = model(species, places, owners)
        atoms = torch.bincount(owners)
        of_energy.append(((found[0] - energies)[:, 0].abs() / atoms).detach())
        of_force.append((found[1] - forces).abs().flatten().detach())
    return {"energy_mae": torch.cat(of_energy).double().mean().item(),
            "force_mae": torch.cat(of_force).double().mean().item()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=pathlib.Path)
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path())
    parser.add_argument("--seed", type=int, help="instead of the recipe's")
    parser.add_argument("--steps", type=int, help="instead of the recipe's")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--plain", action="store_true")
    options = parser.parse_args()
    recipe = yaml.safe_load(options.recipe.read_text())
    job = next(one["molecule_train"] for one in recipe["jobs"] if "molecule_train" in one)
    job |= job.pop("training") | job.pop("architecture") | job.pop("loss")
    test = next(one["molecule_eval"] for one in recipe["jobs"] if "molecule_eval" in one)
    assert (job["schedule"], job["references"]) == ("cosine", "mean"), "the script knows no other settings"
    job["steps"] = options.steps or job["steps"]
    seed = recipe["seed"] if options.seed is None else options.seed
    torch.set_num_threads(options.threads)
    if options.plain:
        take_plain_path()
    options.work.mkdir(parents=True, exist_ok=True)
    training = Training(job, seed, Structures(options.data / job["data"]), options.work)
    training.run()
    judged, state, found = Structures(options.data / test["structures"]), training.state, {}
    last = {name: tensor.clone() for name, tensor in training.model.state_dict().items()}
    for name, weights in [("last", last), ("best", training.best)]:
        training.write(weights, f"{name}.ckpt")
        training.model.load_state_dict(weights)
        found[name] = errors(training.model, judged)
    found |= {"seed": seed, "best_step": state["best_step"], "steps": state["step"], "seconds": state["seconds"]}
    (options.work / "curve.jsonl").write_text("".join(json.dumps(point) + "\n" for point in state["curve"]))
    (options.work / "results.json").write_text(json.dumps(found, indent=2) + "\n")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
