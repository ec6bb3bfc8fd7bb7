//! Potentials: energy, forces and virial of atoms.
//!
//! Units are electron volts and angstroms, regardless of the model's units.
#![allow(unsafe_code, reason = "handles and arrays of C; symbols of C have their own names")]

use crate::failure::{guarded, number};
use crate::pointers::{path, read, shared, unique, write};
use linwright::jobs::Failure;
use linwright::molecule::{
    Cell, ConvertedPotential, Deviation, Ensemble, Potential, PriorChoices, Structure, Units,
    Wanted,
};
use std::ffi::c_char;
use std::path::PathBuf;

/// A potential with its atoms.
pub struct LinwrightPotential {
    potential: ConvertedPotential,
    model: Ensemble,
    structure: Structure,
    /// Deviations of the members in the last computation; only for an ensemble.
    deviation: Option<Deviation>,
}

impl LinwrightPotential {
    fn open(paths: &[PathBuf], exact: bool) -> Result<Self, Failure> {
        let model = Ensemble::open(paths, PriorChoices::default())?;
        let potential = model.potential(exact).map_err(|error| {
            let failure = Failure::from(error);
            match exact {
                true => failure,
                false => failure.hint("exact supports more architectures, if not all"),
            }
        })?;
        let potential = ConvertedPotential::new(potential, model.units(), Units::default());
        Ok(Self { potential, model, structure: Structure::default(), deviation: None })
    }
}

/// Copies `found` to `place`.
///
/// # Safety
/// `place` is null, or points to as many numbers as `found` has, which nothing else uses.
unsafe fn put(found: &[f64], place: *mut f64, name: &str) -> Result<(), Failure> {
    if !place.is_null() {
        // SAFETY: the contract of this function.
        unsafe { write(place, found.len(), name) }?.copy_from_slice(found);
    }
    Ok(())
}

/// Opens a model.
///
/// # Safety
/// As in the header: `path` is null or a string, `potential` null or points to a handle variable.
// SAFETY: no other symbol begins with `linwright_`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linwright_potential_open(
    path: *const c_char,
    exact: i32,
    potential: *mut *mut LinwrightPotential,
) -> i32 {
    // SAFETY: one path, and the rest by the contract of this function.
    unsafe { linwright_potential_open_ensemble(&raw const path, 1, exact, potential) }
}

/// Opens several models as one, their mean.
///
/// # Safety
/// As in the header: `paths` is null or points to `count` pointers, each null or a string;
/// `potential` is null or points to a handle variable.
// SAFETY: no other symbol begins with `linwright_`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linwright_potential_open_ensemble(
    paths: *const *const c_char,
    count: usize,
    exact: i32,
    potential: *mut *mut LinwrightPotential,
) -> i32 {
    guarded(|| {
        // SAFETY: the pointer was checked.
        let place = unsafe { unique(potential, "potential") }?;
        *place = std::ptr::null_mut();
        if count == 0 {
            return Err(Failure::usage("there are 0 paths, expected at least one"));
        }
        // SAFETY: the number of pointers was checked.
        let paths = unsafe { read(paths, count, "paths") }?;
        // SAFETY: each pointer was checked.
        let texts = paths.iter().map(|one| unsafe { path(*one, "path") });
        let paths = texts.collect::<Result<Vec<_>, _>>()?;
        *place = Box::into_raw(Box::new(LinwrightPotential::open(&paths, exact != 0)?));
        Ok(())
    })
}

/// Frees a potential.
///
/// # Safety
/// As in the header: `potential` is null, or an opened handle that is not used again.
// SAFETY: no other symbol begins with `linwright_`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linwright_potential_free(potential: *mut LinwrightPotential) {
    guarded(|| {
        if !potential.is_null() {
            // SAFETY: it was made by `Box::into_raw` and is freed once, as guaranteed by the
            // caller.
            drop(unsafe { Box::from_raw(potential) });
        }
        Ok(())
    });
}

/// Distance in angstroms beyond which atoms do not interact.
///
/// # Safety
/// As in the header: `potential` is null or a handle.
// SAFETY: no other symbol begins with `linwright_`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linwright_potential_cutoff(potential: *const LinwrightPotential) -> f64 {
    // SAFETY: the handle was checked.
    number(f64::NAN, || Ok(unsafe { shared(potential, "potential") }?.potential.cutoff()))
}

/// Keeps pairs of atoms until one has moved by half of `skin`.
///
/// # Safety
/// As in the header: `potential` is null or a handle.
// SAFETY: no other symbol begins with `linwright_`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linwright_potential_keep_pairs(
    potential: *mut LinwrightPotential,
    skin: f64,
) -> i32 {
    guarded(|| {
        if !(skin.is_finite() && skin >= 0.0) {
            return Err(Failure::usage(format!("skin is {skin}, expected a distance")));
        }
        // SAFETY: the handle was checked.
        let held = unsafe { unique(potential, "potential") }?;
        Ok(held.potential.keep_pairs(skin)?)
    })
}

/// Sets the atomic numbers.
///
/// # Safety
/// As in the header: `potential` is null or a handle, `numbers` null or points to `atoms` numbers.
// SAFETY: no other symbol begins with `linwright_`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linwright_potential_set_species(
    potential: *mut LinwrightPotential,
    numbers: *const u8,
    atoms: usize,
) -> i32 {
    guarded(|| {
        // SAFETY: the handle was checked.
        let held = unsafe { unique(potential, "potential") }?;
        // SAFETY: the length was checked.
        held.structure.species = unsafe { read(numbers, atoms, "numbers") }?.to_vec();
        Ok(())
    })
}

/// Sets the positions.
///
/// # Safety
/// As in the header: `potential` is null or a handle, `positions` null or points to 3 x `atoms`
/// numbers.
// SAFETY: no other symbol begins with `linwright_`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linwright_potential_set_positions(
    potential: *mut LinwrightPotential,
    positions: *const f64,
    atoms: usize,
) -> i32 {
    guarded(|| {
        // SAFETY: the handle was checked.
        let held = unsafe { unique(potential, "potential") }?;
        // SAFETY: the length was checked.
        let numbers = unsafe { read(positions, atoms.saturating_mul(3), "positions") }?;
        // Memory is kept, since this is done at each step of a simulation.
        held.structure.positions.clear();
        held.structure.positions.extend_from_slice(numbers.as_chunks::<3>().0);
        Ok(())
    })
}

/// Sets the cell.
///
/// # Safety
/// As in the header: `potential` is null or a handle, `cell` null or points to nine numbers,
/// `periodic` null or to three.
// SAFETY: no other symbol begins with `linwright_`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linwright_potential_set_cell(
    potential: *mut LinwrightPotential,
    cell: *const f64,
    periodic: *const i32,
) -> i32 {
    guarded(|| {
        // SAFETY: the handle was checked.
        let held = unsafe { unique(potential, "potential") }?;
        if cell.is_null() {
            held.structure.cell = None;
            return Ok(());
        }
        let mut set = Cell::periodic([[0.0; 3]; 3]);
        // SAFETY: nine numbers.
        let numbers = unsafe { read(cell, 9, "cell") }?;
        set.rows.as_flattened_mut().copy_from_slice(numbers);
        if !periodic.is_null() {
            // SAFETY: three numbers.
            let flags = unsafe { read(periodic, 3, "periodic") }?;
            set.periodic = [flags[0] != 0, flags[1] != 0, flags[2] != 0];
        }
        held.structure.cell = Some(set);
        Ok(())
    })
}

/// Sets the total charge.
///
/// # Safety
/// As in the header: `potential` is null or a handle.
// SAFETY: no other symbol begins with `linwright_`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linwright_potential_set_charge(
    potential: *mut LinwrightPotential,
    charge: f64,
) -> i32 {
    guarded(|| {
        if !charge.is_finite() {
            return Err(Failure::usage(format!("charge is {charge}, expected a finite number")));
        }
        // SAFETY: the handle was checked.
        unsafe { unique(potential, "potential") }?.structure.charge = charge;
        Ok(())
    })
}

/// Computes the requested quantities.
///
/// # Safety
/// As in the header: `potential` is null or a handle; the others are null or point to one, `atoms`,
/// 3 x `atoms` and nine numbers.
// SAFETY: no other symbol begins with `linwright_`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linwright_potential_compute(
    potential: *mut LinwrightPotential,
    energy: *mut f64,
    atom_energies: *mut f64,
    forces: *mut f64,
    virial: *mut f64,
) -> i32 {
    guarded(|| {
        // SAFETY: the handle was checked.
        let held = unsafe { unique(potential, "potential") }?;
        held.deviation = None;
        held.structure.check()?;
        held.model.members()[0].checkpoint.check_species(&held.structure)?;
        let wanted = Wanted { forces: !(forces.is_null() && virial.is_null()) };
        let found = held.potential.predict(&held.structure, wanted)?;
        let atoms = held.structure.species.len();
        if found.atom_energies.len() != atoms || (wanted.forces && found.forces.len() != atoms) {
            let what = format!("the model predicts no energy of each of the {atoms} atoms");
            return Err(Failure::general(what));
        }
        held.deviation = found.deviation;
        let places = [
            (&[found.energy][..], energy, "energy"),
            (&found.atom_energies, atom_energies, "atom_energies"),
            (found.forces.as_flattened(), forces, "forces"),
            (found.virial.as_flattened(), virial, "virial"),
        ];
        for (numbers, place, name) in places {
            // SAFETY: as many numbers as the header says, or null.
            unsafe { put(numbers, place, name) }?;
        }
        Ok(())
    })
}

/// How much the members of an ensemble differ.
///
/// # Safety
/// As the header says: `potential` is null or a handle; the others are null or to one and 3 x
/// `atoms` numbers.
// SAFETY: no other symbol begins with `linwright_`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linwright_potential_deviation(
    potential: *const LinwrightPotential,
    energy: *mut f64,
    forces: *mut f64,
) -> i32 {
    guarded(|| {
        // SAFETY: the handle was checked.
        let held = unsafe { shared(potential, "potential") }?;
        let found = held.deviation.as_ref().ok_or_else(|| {
            Failure::usage("there is no deviation: nothing was computed, or by a single model")
        })?;
        if found.forces.is_empty() && !forces.is_null() {
            return Err(Failure::usage(
                "the last computation had no forces, so no deviation of them",
            ));
        }
        // SAFETY: one number, or null.
        unsafe { put(&[found.energy], energy, "energy") }?;
        // SAFETY: as many numbers as the header says, or null.
        unsafe { put(found.forces.as_flattened(), forces, "forces") }
    })
}
