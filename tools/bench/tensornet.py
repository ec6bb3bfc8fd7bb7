"""Times energies and forces of TensorNets, compared with torchmd-net's optimised path.

    python tools/bench/tensornet.py WORK --cases a20,a100,a1000,b1000 --record RECORD.csv

Random models and random structures of H, C, N and O, 0.1 atoms per cubic Angstrom and at least 1 Angstrom
apart; a thousand atoms are periodic. Case `a` has 128 channels, two layers and a cutoff of 4.5 Angstrom, case
`b` 256 channels, three layers and 5 Angstrom. Both programs evaluate the same files on the same number of
threads, in turns; energies must agree to 1e-5, forces to 1e-4 of their largest.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import time

import ase
import ase.io
import numpy
import record
import torch
from torchmdnet.models.model import create_model

SHAPES = {"a": (128, 2, 4.5), "b": (256, 3, 5.0)}
TARGETS = {"a20": 11.0, "a100": 10.0, "a1000": 15.0, "b1000": 20.0}
DENSITY = 0.1
WARM_UP = 2


def structure(count, seed):
    random = numpy.random.default_rng(seed)
    side = (count / DENSITY) ** (1 / 3)
    periodic = count >= 1000
    places = numpy.empty((0, 3))
    while len(places) < count:
        place = random.uniform(0, side, 3)
        apart = places - place
        if periodic:
            apart -= side * numpy.round(apart / side)
        if len(places) == 0 or (apart**2).sum(1).min() > 1.0:
            places = numpy.vstack([places, place])
    atoms = ase.Atoms(random.choice(list("HCNO"), count), places)
    if periodic:
        atoms.set_cell([side] * 3)
        atoms.pbc = True
    return atoms


def checkpoint(path, case):
    """A checkpoint of torchmd-net with random weights."""
    channels, layers, cutoff = SHAPES[case]
    hyper = dict(
        model="tensornet", embedding_dimension=channels, num_layers=layers, num_rbf=32, rbf_type="expnorm",
        trainable_rbf=False, activation="silu", cutoff_lower=0.0, cutoff_upper=cutoff, max_z=100,
        max_num_neighbors=128, equivariance_invariance_group="O(3)", static_shapes=False, precision=32,
        output_model="Scalar", reduce_op="add", derivative=True, prior_model=None, atom_filter=-1, box_vecs=None,
        vector_cutoff=False, output_mlp_num_layers=0,
    )
    torch.manual_seed(0)
    model = create_model(dict(hyper, dtype=torch.float32))
    weights = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    torch.save({"state_dict": weights, "hyper_parameters": hyper}, path)
    return model


def theirs(model, atoms):
    box = torch.tensor(numpy.array(atoms.cell), dtype=torch.float32) if atoms.pbc.any() else None
    species = torch.tensor(atoms.numbers)
    places = torch.tensor(atoms.positions, dtype=torch.float32)
    energy, forces = model(species, places, torch.zeros(len(species), dtype=torch.long), box=box)
    return energy.item(), forces.detach().numpy()


def compare(work, case, count, options):
    stem = work / f"{case}{count}"
    potential, structures, predicted = f"{stem}.ckpt", f"{stem}.xyz", f"{stem}-predicted.xyz"
    model = checkpoint(potential, case)
    atoms = structure(count, options.seed)
    ase.io.write(structures, atoms)
    common = [options.linwright, "molecule"]
    subprocess.run([*common, "eval", potential, structures, "-o", predicted, "--force"], check=True,
                   stdout=subprocess.DEVNULL)
    own = ase.io.read(predicted)
    energy, forces = theirs(model, atoms)
    assert abs(own.get_potential_energy() - energy) <= 1e-5 * max(1, abs(energy)), (own.get_potential_energy(), energy)
    assert numpy.abs(own.get_forces() - forces).max() <= 1e-4 * numpy.abs(forces).max()
    ratios, ours, reference, limits = [], [], [], []
    for _ in range(options.rounds):
        arguments = ["bench", potential, structures, "--threads", str(options.threads), "--repeats",
                     str(options.repeats), "--json"]
        found = json.loads(subprocess.run([*common, *arguments], check=True, capture_output=True).stdout)
        found = found["structures"][0]
        times = []
        for repeat in range(WARM_UP + max(3, options.repeats // 5)):
            began = time.perf_counter()
            theirs(model, atoms)
            times += [1e3 * (time.perf_counter() - began)] if repeat >= WARM_UP else []
        ours.append(found["milliseconds"]["median"])
        limits.append(ours[-1] / found["least_milliseconds"])
        reference.append(statistics.median(times))
        ratios.append(reference[-1] / ours[-1])
    setting = f"{options.threads} threads"
    bytes_of_atom = [found["working_bytes"] / count]
    for subject, quantity, unit, values in [
        ("linwright", "time", "ms", ours), ("torchmd-net", "time", "ms", reference),
        ("torchmd-net / linwright", "time ratio", "1", ratios), ("linwright", "time / limit", "1", limits),
        ("linwright", "memory of an atom", "B", bytes_of_atom),
    ]:
        record.append(options.record, "tensornet", f"{case}{count}", subject, setting, quantity, unit, values)
    target = TARGETS.get(f"{case}{count}")
    if target and statistics.median(ratios) < target:
        print(f"{case}{count}: below its target of {target}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--linwright", default="target/release/linwright")
    parser.add_argument("--cases", default=",".join(TARGETS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=25)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--record", type=pathlib.Path, required=True)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(options.threads)
    for name in options.cases.split(","):
        compare(options.work, name[0], int(name[1:]), options)


if __name__ == "__main__":
    main()
