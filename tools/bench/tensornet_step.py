"""Times training steps of a TensorNet in turns with torchmd-net's optimised path.

    python tools/bench/tensornet_step.py WORK DATA.xyz --record RECORD.csv

A step is the loss of energies and forces (0.5 each, mean squares) of the first eight frames of an extended XYZ
file, gradients of all parameters, and Adam, in single precision: 128 channels, two layers, a cutoff of 4.5
Angstrom, random weights from one checkpoint. Neighbours are found in every step on both sides; energies lack
their mean. Each round is one step of each side, and which is first alternates; losses of all steps must agree to
2e-4. The other side is `cargo build --release -p linwright-molecule --example training_step`.
"""

import argparse
import pathlib
import statistics
import time

import ase.io
import numpy
import record
import torch
from ase.calculators.singlepoint import SinglePointCalculator
from mlp_step import Other
from tensornet import checkpoint
from torch.nn.functional import mse_loss

RATE = 1e-4
WARM = 3
TARGET = 5.0


class Linwright(Other):
    """Steps of the example."""

    def step(self):
        """Milliseconds of one step, and its loss."""
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        return tuple(map(float, self.line().split()))


class TorchMdNet:
    """Steps of torchmd-net in this process."""

    def __init__(self, model, frames):
        self.model = model.train()
        self.optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
        single = torch.float32
        self.species = torch.tensor(numpy.concatenate([atoms.numbers for atoms in frames]))
        self.places = torch.tensor(numpy.concatenate([atoms.positions for atoms in frames]), dtype=single)
        self.molecules = torch.repeat_interleave(torch.arange(len(frames)), len(frames[0]))
        self.energies = torch.tensor([[atoms.get_potential_energy()] for atoms in frames], dtype=single)
        self.forces = torch.tensor(numpy.concatenate([atoms.get_forces() for atoms in frames]), dtype=single)

    def step(self):
        """Milliseconds of one step, and its loss."""
        began = time.perf_counter()
        self.optimizer.zero_grad()
        energies, forces = self.model(self.species, self.places, self.molecules)
        loss = 0.5 * mse_loss(energies, self.energies) + 0.5 * mse_loss(forces, self.forces)
        loss.backward()
        self.optimizer.step()
        return 1e3 * (time.perf_counter() - began), loss.item()


def labelled(frames):
    """The frames with energies around zero, under names that every reader knows."""
    mean = statistics.fmean(atoms.get_potential_energy() for atoms in frames)
    for atoms in frames:
        energy, forces = atoms.get_potential_energy() - mean, atoms.get_forces()
        atoms.calc = SinglePointCalculator(atoms, energy=energy, forces=forces)
        atoms.cell, atoms.pbc, atoms.info = None, False, {}
    return frames


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--linwright", default="target/release/examples/training_step")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--record", type=pathlib.Path, required=True)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(options.threads)
    potential, structures = options.work / "step.ckpt", options.work / "step.xyz"
    frames = labelled(ase.io.read(options.data, f":{options.batch}"))
    ase.io.write(structures, frames)
    model = checkpoint(potential, "a")
    ours = Linwright([options.linwright, str(potential), str(structures), str(options.threads)])
    sides = [ours, TorchMdNet(model, ase.io.read(structures, ":"))]
    times, ratios = ([], []), []
    for index in range(WARM + options.rounds):
        found = {side: side.step() for side in (sides if index % 2 == 0 else reversed(sides))}
        (own, own_loss), (reference, loss) = (found[side] for side in sides)
        assert abs(own_loss - loss) <= 2e-4 * abs(loss), (index, own_loss, loss)
        if index >= WARM:
            times[0].append(own)
            times[1].append(reference)
            ratios.append(reference / own)
    ours.end()
    case, setting = f"step{options.batch}", f"{options.threads} threads"
    for subject, quantity, unit, values in [
        ("linwright", "time", "ms", times[0]), ("torchmd-net", "time", "ms", times[1]),
        ("torchmd-net / linwright", "time ratio", "1", ratios),
    ]:
        record.append(options.record, "tensornet", case, subject, setting, quantity, unit, values)
    if statistics.median(ratios) < TARGET:
        print(f"{case}: below its target of {TARGET}", flush=True)


if __name__ == "__main__":
    main()
