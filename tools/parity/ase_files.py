"""Reads with ASE what linwright writes of molecules, and the reverse.

    python tools/parity/ase_files.py --linwright target/debug/linwright --work DIR

Checked are energies, forces, stress, momenta, masses, constraints, cells, charges and their units, by values that ASE
computes from the files: kinetic energies, temperatures and pressures of a trajectory are compared with those of its log.
Arrays and values that mean nothing to linwright must come through. The potential is the small
random one of testdata. Exits with an error at the first difference.
"""

import argparse
import json
import pathlib
import subprocess

import ase
import ase.io
import numpy as np
from ase.calculators.singlepoint import SinglePointCalculator
from ase.constraints import FixAtoms, FixCartesian
from ase.units import GPa

POTENTIAL = pathlib.Path(__file__).parents[2] / "testdata/tensornet/a_lightning.ckpt"
# Numbers are written so that they are read back exactly; sums over atoms are rounded.
EXACT, SUMS = 0.0, 1e-12
largest = {}


def check(what, found, expected, tolerance):
    found, expected = np.asarray(found, float), np.asarray(expected, float)
    assert found.shape == expected.shape, f"{what}: {found.shape} and {expected.shape}"
    scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
    off = float(np.abs(found - expected).max(initial=0.0)) / scale
    largest[what] = max(largest.get(what, 0.0), off)
    assert off <= tolerance, f"{what}: off by {off:.1e}"


def structures():
    """Molecules and crystals, among them atoms outside of a triclinic cell."""
    rng = np.random.default_rng(26)
    water = np.array([[0, 0, 0.1], [0, 0.8, -0.5], [0, -0.8, -0.5]])
    found = []
    for cell in [None, np.diag([6.0, 7.0, 8.0]), [[6, 0, 0], [1, 6.5, 0], [-0.7, 0.4, 7]]]:
        for charge in (0, 1):
            positions = water + 0.05 * rng.normal(size=(3, 3))
            atoms = ase.Atoms("OH2", positions, cell=cell, pbc=cell is not None)
            if cell is not None:
                atoms.positions[1] += atoms.cell[0] - atoms.cell[2]
            if charge:
                atoms.info["charge"] = charge
            atoms.info["name"] = f'a "name" = {charge}'
            atoms.info["nested"] = {"a": [1, 2.5], "b": [[1, 0], [0, 1]]}
            atoms.info["matrix"] = rng.normal(size=(2, 3))
            atoms.set_tags([7, 0, -1])
            atoms.set_initial_magnetic_moments([0.5, 0, -1.25])
            atoms.new_array("label", np.array(["a", "b", "c"]))
            atoms.new_array("pairs", rng.normal(size=(3, 2)))
            atoms.new_array("is_bright", np.array([True, False, True]))
            constraints = [[], FixAtoms([0]), FixCartesian(1, mask=(True, False, True))]
            atoms.set_constraint(constraints[len(found) % 3])
            if len(found) % 2 == 1:
                atoms.set_masses([15.999, 2.014, 2.014])
                atoms.set_initial_charges([-0.5, 0.25, 0.25 + charge])
            atoms.set_momenta(rng.normal(size=(3, 3)))
            found.append(atoms)
    return found


def same_atoms(what, found, expected):
    assert found.get_chemical_symbols() == expected.get_chemical_symbols(), what
    assert list(found.pbc) == list(expected.pbc), f"{what}: {found.pbc} and {expected.pbc}"
    check(f"{what}: positions", found.positions, expected.positions, EXACT)
    if expected.pbc.any():
        check(f"{what}: cell", found.cell[:], expected.cell[:], EXACT)
    check(f"{what}: charge", found.info.get("charge", 0), expected.info.get("charge", 0), EXACT)
    check(f"{what}: masses", found.get_masses(), expected.get_masses(), EXACT)
    for key in ("tags", "initial_magmoms", "initial_charges", "pairs", "is_bright"):
        assert (key in found.arrays) == (key in expected.arrays), f"{what}: {key}"
        if key in expected.arrays:
            check(f"{what}: arrays of no meaning here", found.arrays[key], expected.arrays[key], EXACT)
            assert found.arrays[key].dtype == expected.arrays[key].dtype, f"{what}: {key}"
    assert list(found.arrays["label"]) == list(expected.arrays["label"]), what
    assert found.info["nested"] == expected.info["nested"], f"{what}: {found.info}"
    check(f"{what}: values of no meaning here", found.info["matrix"], expected.info["matrix"], EXACT)
    check(f"{what}: constraints", held(found), held(expected), EXACT)


def held(atoms):
    """Which coordinates constraints hold."""
    mask = np.zeros((len(atoms), 3), dtype=bool)
    for constraint in atoms.constraints:
        mask[constraint.index] |= getattr(constraint, "mask", True)
    return mask


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--linwright", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    options = parser.parse_args()
    work = options.work
    work.mkdir(parents=True, exist_ok=True)

    def run(*words):
        command = [options.linwright.absolute(), "molecule", *map(str, words), "--json"]
        done = subprocess.run(command, cwd=work, capture_output=True, text=True)
        assert done.returncode in (0, 4), done.stderr
        return json.loads(done.stdout)

    written = structures()
    # Full precision: the default of ASE has eight decimal places.
    ase.io.write(work / "in.xyz", written, format="extxyz")
    read_back = ase.io.read(work / "in.xyz", ":")

    run("eval", POTENTIAL, "in.xyz", "--exact", "-o", "out.xyz", "--force")
    predicted = ase.io.read(work / "out.xyz", ":")
    assert len(predicted) == len(written)
    for found, expected in zip(predicted, read_back):
        same_atoms("eval -o", found, expected)
        check("eval -o: momenta", found.get_momenta(), expected.get_momenta(), EXACT)
        assert found.info["name"] == expected.info["name"], found.info
        assert found.get_forces().shape == (3, 3) and np.isfinite(found.get_potential_energy())
        assert ("stress" in found.calc.results) == found.pbc.all(), found.calc.results

    # What ASE writes as results is read as labels, stress in its order of components included.
    for atoms in predicted:
        results = {key: atoms.calc.results[key] for key in ("energy", "forces", "stress") if key in atoms.calc.results}
        atoms.calc = SinglePointCalculator(atoms, **results)
    ase.io.write(work / "labelled.xyz", predicted, format="extxyz")
    errors = run("eval", POTENTIAL, "labelled.xyz", "--exact")
    for key in ("energy_mae", "force_mae", "stress_mae"):
        # ASE writes eight decimal places.
        check(f"ASE's labels: {key}", errors[key], 0.0, 2e-8)

    for index, expected in enumerate(read_back):
        ase.io.write(work / "one.xyz", expected, format="extxyz")
        expected = ase.io.read(work / "one.xyz")
        directory = work / f"md{index}"
        run("md", POTENTIAL, "one.xyz", "--steps", 20, "--every", 5, "--timestep", 0.25, "-o", directory.absolute())
        frames = ase.io.read(directory / "trajectory.xyz", ":")
        log = [json.loads(line) for line in (directory / "log.jsonl").read_text().splitlines()]
        assert len(frames) == len(log) == 5
        same_atoms("md", frames[0], expected)
        for frame in frames:
            still = held(expected)
            check("md: held coordinates", frame.positions[still], expected.positions[still], EXACT)
        check("md: first momenta", frames[0].get_momenta(), expected.get_momenta(), SUMS)
        for frame, line in zip(frames, log):
            check("md: potential energy", frame.get_potential_energy(), line["potential_energy_ev"], EXACT)
            check("md: kinetic energy", frame.get_kinetic_energy(), line["kinetic_energy_ev"], 1e-9)
            check("md: temperature", frame.get_temperature(), line["temperature_k"], 1e-6)
            if frame.pbc.all():
                stress = frame.get_stress(include_ideal_gas=True)
                check("md: pressure", -stress[:3].mean() / GPa, line["pressure_gpa"], 1e-6)
            else:
                assert line["pressure_gpa"] is None
        final = ase.io.read(directory / "final.xyz")
        check("md: final", final.positions, frames[-1].positions, EXACT)

    run("relax", POTENTIAL, "in.xyz", "--steps", 5, "--fmax", 0.01, "-o", "relaxed.xyz", "--force")
    for found, expected in zip(ase.io.read(work / "relaxed.xyz", ":"), read_back):
        assert found.info["steps"] <= 5 and isinstance(found.info["converged"], (bool, np.bool_)), found.info
        force = np.linalg.norm(found.get_forces(), axis=1).max()
        check("relax: fmax", found.info["fmax"], force, SUMS)
        assert found.get_chemical_symbols() == expected.get_chemical_symbols()
        check("relax: constraints", held(found), held(expected), EXACT)
        still = held(expected)
        check("relax: held coordinates", found.positions[still], expected.positions[still], EXACT)

    # Virials of ASE under any key, in the order of its components, are minus the stress times the volume.
    crystals = [atoms.copy() for atoms in predicted if atoms.pbc.all()]
    for key in ("virial", "virials", "REF_virial"):
        for atoms, source in zip(crystals, [atoms for atoms in predicted if atoms.pbc.all()]):
            atoms.info[key] = -source.get_stress(voigt=False) * source.get_volume()
        ase.io.write(work / "virials.xyz", crystals, format="extxyz")
        check(f"ASE's {key}", run("eval", POTENTIAL, "virials.xyz", "--exact")["stress_mae"], 0.0, 2e-8)
        for atoms in crystals:
            del atoms.info[key]

    print(f"ASE {ase.__version__}, {len(written)} structures")
    for what, off in largest.items():
        print(f"| {what} | {off:.1e} |")


if __name__ == "__main__":
    main()
