"""Writes testdata/tensornet/{md17,rmd17,sgdml,splits}.npz: two waters, as numpy.savez stores data sets, and a division.

The second file has the forces of the first structure only, which readers refuse; the third is that of sGDML, compressed
and with its units. numpy 2.4.
"""

from pathlib import Path

import numpy as np

OUT = Path(__file__).parents[2] / "testdata" / "tensornet"

species = np.array([8, 1, 1], dtype=np.uint8)
positions = np.array(
    [
        [[0, 0, 0.1], [0, 0.8, -0.5], [0, -0.8, -0.5]],
        [[0, 0, 0.2], [0, 0.8, -0.5], [0, -0.8, -0.5]],
    ]
)
energies = np.array([[-1.5], [-1.25]])
forces = np.arange(18, dtype=np.float32).reshape(2, 3, 3)
np.savez(OUT / "md17.npz", z=species, R=positions, E=energies, F=forces, name=np.array("water"))
np.savez(
    OUT / "rmd17.npz",
    nuclear_charges=species,
    coords=positions,
    energies=energies[:, 0],
    forces=forces[:1],
)
np.savez_compressed(
    OUT / "sgdml.npz",
    type="d",
    name="water",
    theory="unknown",
    z=species,
    R=positions,
    E=energies,
    F=forces,
    r_unit="Ang",
    e_unit="kcal/mol",
)

# The file in which torchmd-net keeps its division of the data.
order = np.random.default_rng(1).permutation(12)
np.savez(OUT / "splits.npz", idx_train=order[:8], idx_val=order[8:10], idx_test=order[10:])
