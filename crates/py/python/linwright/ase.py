"""Molecular potentials as calculators of ASE.

    from linwright.ase import LinwrightCalculator

    atoms.calc = LinwrightCalculator("model.ckpt")
    atoms.get_potential_energy()       # eV
    atoms.get_forces()                 # eV/Å
"""

from __future__ import annotations

import os
from typing import Any, Union

import numpy as np
from ase.calculators.calculator import Calculator, PropertyNotImplementedError, all_changes
from ase.stress import full_3x3_to_voigt_6_stress

from . import _linwright


class LinwrightCalculator(Calculator):  # type: ignore[misc]
    """Energy, energies by atom, forces and stress of a model, in the units of ASE.

    Results are float64, and computed again only after positions, elements, cell, periodicity or the charge have
    changed. The total charge is `atoms.info["charge"]`, or the sum of initial charges, or zero.

    Args:
        model: A checkpoint of torchmd-net, or a directory that `molecule.train` wrote.
        exact: Compute in double precision, for every architecture; slower.
        skin: Distance in Å by half of which atoms may move before pairs are searched again; 0 searches always.
            Results do not depend on it.
    """

    implemented_properties = ["energy", "free_energy", "energies", "forces", "stress"]
    ignored_changes = {"initial_magmoms"}

    def __init__(
        self, model: Union[str, os.PathLike[str]], *, exact: bool = False, skin: float = 0.0, **keywords: Any
    ) -> None:
        super().__init__(**keywords)
        self.model = os.fspath(model)
        self._potential = _linwright.RawPotential(self.model, exact)
        if skin > 0:
            self._potential.keep_pairs(skin)
        self._charge: float | None = None

    @property
    def cutoff(self) -> float:
        """Distance in Å beyond which atoms do not interact."""
        return self._potential.cutoff()

    def check_state(self, atoms: Any, tol: float = 1e-15) -> list[str]:
        """What has changed since the last calculation, the charge in `info` included, which ASE does not watch."""
        changes: list[str] = super().check_state(atoms, tol=tol)
        if self._charge is not None and _charge(atoms) != self._charge:
            changes.append("initial_charges")
        return changes

    def calculate(
        self, atoms: Any = None, properties: Any = ("energy",), system_changes: Any = tuple(all_changes)
    ) -> None:
        """Computes everything that is implemented: stress for periodic boxes alone."""
        super().calculate(atoms, properties, system_changes)
        atoms = self.atoms
        periodic = [bool(one) for one in atoms.pbc]
        is_box = all(periodic)
        if "stress" in properties and not is_box:
            raise PropertyNotImplementedError("stress needs a cell that is periodic in all directions")
        charge = _charge(atoms)
        given = {
            "numbers": atoms.numbers.tolist(),
            "positions": np.asarray(atoms.positions, dtype=np.float64).tolist(),
            "cell": np.asarray(atoms.cell, dtype=np.float64).tolist() if any(periodic) else None,
            "periodic": periodic,
            "charge": charge,
        }
        energy, energies, forces, virial = self._potential.predict(given)
        self._charge = charge
        self.results = {
            "energy": energy,
            "free_energy": energy,
            "energies": np.array(energies, dtype=np.float64),
            "forces": np.array(forces, dtype=np.float64).reshape(-1, 3),
        }
        if is_box:
            # ASE's stress is positive under tension.
            stress = -np.array(virial, dtype=np.float64) / atoms.get_volume()
            self.results["stress"] = full_3x3_to_voigt_6_stress(stress)


def _charge(atoms: Any) -> float:
    """The total charge."""
    if "charge" in atoms.info:
        return float(atoms.info["charge"])
    return float(atoms.get_initial_charges().sum())
