"""Opens with torchmd-net what linwright writes of potentials, and compares energies and forces.

    python tools/parity/tensornet_checkpoints.py --linwright target/release/linwright --work DIR

Potentials are the small random ones of testdata in both layouts, one that is trained for a few steps on structures of
testdata, with energies of atoms as a prior, the same with low-rank layers, and an ensemble. Each is written by `molecule
convert` as a checkpoint (the ensemble as a `.zip`), opened by torchmd-net's `load_model`, and compared with `molecule eval
--exact` of the original on a molecule. It needs a checkout of torchmd-net (commit 833c0770) with its dependencies on
PYTHONPATH, and ase. Exits with an error if an energy differs by more than 1e-6 of it, or a force by more than 1e-4.
"""

import argparse
import pathlib
import subprocess

import ase.io
import numpy as np
import torch
from torchmdnet.models.model import load_model

FOLDER = pathlib.Path(__file__).parents[2] / "testdata/tensornet"
ENERGY, FORCE = 1e-6, 1e-4


def theirs(path, atoms):
    model = load_model(str(path), derivative=True)
    found = model(torch.tensor(atoms.numbers), torch.tensor(atoms.positions, dtype=torch.float32),
                  torch.zeros(len(atoms), dtype=torch.long))
    return float(found[0].mean()), found[1].detach().numpy().reshape(-1, len(atoms), 3).mean(0)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--linwright", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    options = parser.parse_args()
    work = options.work
    work.mkdir(parents=True, exist_ok=True)

    def run(*words):
        command = [options.linwright.absolute(), "molecule", *map(str, words)]
        subprocess.run(command, cwd=work, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    run("train", "--data", FOLDER / "md17.npz", "--units", "kcal/mol,A", "--validation", 1, "--steps", 20,
        "--architecture", "channels=16,layers=2,radial=8", "-o", work / "trained", "--force")
    run("compress", work / "trained", "--method", "svd", "--keep", 0.5, "-o", work / "compressed", "--force")
    ensemble = work / "ensemble"
    ensemble.mkdir(exist_ok=True)
    for seed in (1, 2, 3):
        run("train", "--data", FOLDER / "md17.npz", "--units", "kcal/mol,A", "--validation", 1, "--steps", 5,
            "--architecture", "channels=16,layers=1,radial=8", "--seed", seed, "-o", ensemble / str(seed), "--force")
    water = ase.Atoms("OH2", [[0, 0, 0.1], [0, 0.8, -0.5], [0.05, -0.8, -0.5]])
    ase.io.write(work / "in.xyz", water, format="extxyz")
    cases = [(FOLDER / "a_lightning.ckpt", "a.ckpt"), (FOLDER / "a_lightning_old_layout.ckpt", "old.ckpt"),
             (work / "trained", "trained.ckpt"), (work / "compressed", "compressed.ckpt"), (ensemble, "ensemble.zip")]
    for original, written in cases:
        run("convert", original, "-o", written, "--force")
        run("eval", original, "in.xyz", "--exact", "-o", "out.xyz", "--force")
        own = ase.io.read(work / "out.xyz")
        energy, forces = theirs(work / written, water)
        off = abs(own.get_potential_energy() - energy), np.abs(own.get_forces() - forces).max()
        assert off[0] <= ENERGY * max(1.0, abs(energy)), f"{written}: {own.get_potential_energy()} and {energy}"
        assert off[1] <= FORCE, f"{written}: forces are off by {off[1]}"
        print(f"| {written} | {energy:.6f} | {off[0]:.1e} | {off[1]:.1e} |")


if __name__ == "__main__":
    main()
