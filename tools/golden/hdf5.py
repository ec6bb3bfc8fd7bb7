"""Writes testdata/tensornet/{own,ani,spice,other,shapes,units,box,lattice,numbers,factor}.h5: two molecules in the groups of each data set.

One structure of water has no energy (NaN). `other.h5` has no group of a known layout, the forces of `shapes.h5` are of
fewer atoms than its positions. `units.h5` has attributes with units, of the file, a group and arrays, and charges;
`box.h5` has a cell, `lattice.h5` one under a name in capitals. `numbers.h5` has numbers as attributes whose
names have a unit, and masses; `factor.h5` has a number in place of a unit. h5py 3.16.
"""

from pathlib import Path

import h5py
import numpy as np

OUT = Path(__file__).parents[2] / "testdata" / "tensornet"

WATER = np.array([[[0, 0, 0.1 * k], [0, 0.8, -0.5], [0, -0.8, -0.5]] for k in range(3)])
ENERGIES = np.array([-1.5, np.nan, -1.25])
FORCES = np.arange(27, dtype=np.float32).reshape(3, 3, 3)
HYDROGEN = np.array([[[0, 0, 0], [0, 0, 0.7]]])


def write(name, species, positions, energies, forces, sign=1, parent="", packed=False):
    with h5py.File(OUT / name, "w") as file:
        for molecule, numbers, places, energy, force in [
            ("water", [8, 1, 1], WATER, ENERGIES, FORCES),
            ("hydrogen", [1, 1], HYDROGEN, np.array([-0.5]), np.zeros((1, 2, 3))),
        ]:
            group = file.create_group(parent + molecule)
            options = dict(chunks=True, compression="gzip") if packed else {}
            group.create_dataset(species, data=np.array(numbers, dtype=np.uint8))
            group.create_dataset(positions, data=places, **options)
            group.create_dataset(energies, data=energy, **options)
            group.create_dataset(forces, data=sign * force, **options)


write("own.h5", "types", "pos", "energy", "forces")
write("ani.h5", "atomic_numbers", "coordinates", "wb97x_dz.energy", "wb97x_dz.forces", packed=True)
write("spice.h5", "atomic_numbers", "conformations", "formation_energy", "dft_total_gradient", parent="set/")
with h5py.File(OUT / "other.h5", "w") as file:
    file["water/x"] = WATER
with h5py.File(OUT / "shapes.h5", "w") as file:
    file["water/types"] = [8, 1, 1]
    file["water/pos"] = WATER[:2]
    file["water/forces"] = FORCES[:2, :2]
with h5py.File(OUT / "units.h5", "w") as file:
    file.attrs["e_unit"] = "kcal/mol"
    for name in ["a", "b", "c"]:
        file[name + "/types"] = [8, 1, 1]
        file[name + "/pos"] = WATER[:2]
        file[name + "/energy"] = ENERGIES[::2]
        file[name + "/forces"] = FORCES[:2]
    file["b"].attrs["r_unit"] = np.bytes_("bohr")
    file["b/total_charge"] = [1, -1]
    file["c/pos"].attrs["units"] = "bohr"
    file["c/energy"].attrs["units"] = "hartree"
    file["c/forces"].attrs["units"] = "hartree/angstrom"
with h5py.File(OUT / "box.h5", "w") as file:
    file["water/types"] = [8, 1, 1]
    file["water/pos"] = WATER
    file["water/cell"] = np.eye(3)
with h5py.File(OUT / "lattice.h5", "w") as file:
    file["water/types"] = [8, 1, 1]
    file["water/pos"] = WATER
    file["water/Lattice"] = np.eye(3)
with h5py.File(OUT / "numbers.h5", "w") as file:
    file.attrs["unit_count"] = 3
    file.attrs["community"] = "molecules"
    file.attrs["length_units"] = ["nm"]
    file.attrs["energy_unit"] = "kJ/mol"
    file["a/types"] = [8, 1, 1]
    file["a/pos"] = WATER[:2]
    file["a/masses"] = [15.999, 2.014, 2.014]
with h5py.File(OUT / "factor.h5", "w") as file:
    file.attrs["energy_unit"] = 27.2
    file["a/types"] = [8, 1, 1]
    file["a/pos"] = WATER[:2]
