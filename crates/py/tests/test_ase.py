"""The calculator of ASE: units, derivatives, charge, change detection."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linwright

ase = pytest.importorskip("ase")
from ase.calculators.calculator import PropertyNotImplementedError  # noqa: E402
from ase.io import write  # noqa: E402
from ase.optimize import BFGS  # noqa: E402

from linwright.ase import LinwrightCalculator  # noqa: E402


def waters(count: int) -> list[Any]:
    rng = np.random.default_rng(0)
    frames = []
    for _ in range(count):
        atoms = ase.Atoms("OH2", [[0, 0, 0.1], [0, 0.8, -0.5], [0, -0.8, -0.5]])
        atoms.positions += rng.normal(scale=0.05, size=(3, 3))
        atoms.info["REF_energy"] = float(rng.normal())
        atoms.arrays["REF_forces"] = rng.normal(size=(3, 3))
        frames.append(atoms)
    return frames


@pytest.fixture(scope="module")
def potential(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A small potential, trained for one epoch by the job itself."""
    folder = tmp_path_factory.mktemp("potential")
    write(folder / "waters.xyz", waters(12), format="extxyz")
    linwright.molecule.train(
        data=folder / "waters.xyz",
        architecture="channels=16,layers=1,radial=8",
        epochs=1,
        output=folder / "out",
    )
    return str(next((folder / "out").rglob("*.safetensors")))


def test_forces_are_minus_the_slope_of_the_energy(potential: str) -> None:
    atoms = waters(1)[0]
    atoms.calc = LinwrightCalculator(potential, exact=True)
    forces = atoms.get_forces()
    assert forces.dtype == np.float64 and np.abs(forces).max() > 0
    step = 1e-4
    for atom, axis in ((0, 2), (1, 1), (2, 0)):
        energies = []
        for sign in (1, -1):
            moved = atoms.copy()
            moved.calc = atoms.calc
            moved.positions[atom, axis] += sign * step
            energies.append(moved.get_potential_energy())
        assert forces[atom, axis] == pytest.approx(-(energies[0] - energies[1]) / (2 * step), rel=1e-5, abs=1e-6)
    atoms.calc = LinwrightCalculator(potential)
    np.testing.assert_allclose(atoms.get_forces(), forces, atol=1e-4)


def test_energies_are_those_of_the_job(potential: str, tmp_path: Path) -> None:
    frames = waters(3)
    write(tmp_path / "in.xyz", frames, format="extxyz")
    linwright.molecule.evaluate(potential, "in.xyz", exact=True, output="out.xyz")
    from ase.io import read

    for atoms, evaluated in zip(frames, read(tmp_path / "out.xyz", ":")):
        atoms.calc = LinwrightCalculator(potential, exact=True)
        values = {**evaluated.info, **(evaluated.calc.results if evaluated.calc else {})}
        energy = next(value for key, value in values.items() if "energy" in key and "REF" not in key)
        assert atoms.get_potential_energy() == pytest.approx(energy, abs=1e-9)
        assert atoms.get_potential_energies().sum() == pytest.approx(energy, abs=1e-6)


def test_stress_is_the_slope_by_strain(potential: str) -> None:
    atoms = waters(1)[0]
    atoms.set_cell([9.0, 9.5, 10.0])
    atoms.pbc = True
    atoms.calc = LinwrightCalculator(potential, exact=True)
    stress = atoms.get_stress(voigt=False)
    step = 1e-4
    energies = []
    for sign in (1, -1):
        strained = atoms.copy()
        strained.set_cell(atoms.cell @ np.diag([1 + sign * step, 1, 1]), scale_atoms=True)
        strained.calc = atoms.calc
        energies.append(strained.get_potential_energy())
    slope = (energies[0] - energies[1]) / (2 * step) / atoms.get_volume()
    assert stress[0, 0] == pytest.approx(slope, rel=1e-4, abs=1e-9)
    atoms.pbc = [True, True, False]
    with pytest.raises(PropertyNotImplementedError, match="periodic in all directions"):
        atoms.get_stress()


def test_nothing_is_computed_twice(potential: str) -> None:
    atoms = waters(1)[0]
    calculator = LinwrightCalculator(potential)
    atoms.calc = calculator
    atoms.get_potential_energy()
    kept = calculator.results
    atoms.get_forces()
    assert calculator.results is kept
    atoms.info["charge"] = 1
    atoms.get_potential_energy()
    assert calculator.results is not kept
    kept = calculator.results
    atoms.get_forces()
    assert calculator.results is kept
    atoms.positions[0, 0] += 0.01
    atoms.get_forces()
    assert calculator.results is not kept


def test_pairs_that_are_kept_change_nothing(potential: str) -> None:
    paths = []
    for skin in (0.0, 1.0):
        atoms = waters(1)[0]
        atoms.calc = LinwrightCalculator(potential, skin=skin)
        BFGS(atoms, logfile=None).run(fmax=0.01, steps=5)
        paths.append(atoms.positions.copy())
    np.testing.assert_array_equal(*paths)


def test_unknown_elements_and_files_are_errors(potential: str, tmp_path: Path) -> None:
    atoms = ase.Atoms("Au2", [[0, 0, 0], [0, 0, 2.5]])
    atoms.calc = LinwrightCalculator(potential)
    with pytest.raises(linwright.LinwrightError, match="Au"):
        atoms.get_potential_energy()
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(linwright.LinwrightError, match="notes.txt"):
        LinwrightCalculator("notes.txt")
