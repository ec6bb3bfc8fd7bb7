//! Data sets in HDF5: the groups of ANI-1x, of SPICE, and torchmd-net's own, one for each
//! composition.
//!
//! A group has atomic numbers (atoms), positions (structures, atoms, 3) and labels. Those of ANI-1x
//! are in Hartree and angstroms, those of SPICE in Hartree and bohr, with gradients in place of
//! forces; both declare their units here. Attributes come first: `units` of an array, or `e_unit`
//! and `r_unit` of its group, of one above it, or of the file.

use crate::arrays::{CHARGES, MASSES, Masses, check_unread};
use crate::declared;
use crate::error::MoleculeError;
use crate::structure::{Labels, Structure};
use hdf5_reader::group::Group;
use hdf5_reader::{Attribute, Dataset, Datatype, Hdf5File, OpenOptions};
use linwright_data::most_inflated;
use linwright_run::shown;
use std::collections::BTreeMap;
use std::path::Path;

/// Groups within groups.
const DEPTH: usize = 8;

/// Units by the name under which frames declare them.
type Units = BTreeMap<String, String>;

/// Names of the arrays of a data set, and its units, as for [`crate::Units::parse`].
struct Layout {
    species: &'static str,
    positions: &'static str,
    energies: &'static str,
    forces: &'static str,
    /// Factor from the array to forces.
    sign: f64,
    units: Option<&'static str>,
}

/// A group has the first layout whose species and positions it contains.
const LAYOUTS: [Layout; 3] = [
    Layout {
        species: "types",
        positions: "pos",
        energies: "energy",
        forces: "forces",
        sign: 1.0,
        units: None,
    },
    Layout {
        species: "atomic_numbers",
        positions: "coordinates",
        energies: "wb97x_dz.energy",
        forces: "wb97x_dz.forces",
        sign: 1.0,
        units: Some("Hartree,A"),
    },
    Layout {
        species: "atomic_numbers",
        positions: "conformations",
        energies: "formation_energy",
        forces: "dft_total_gradient",
        sign: -1.0,
        units: Some("Hartree,bohr"),
    },
];

/// The structures of a file.
#[derive(Clone, Debug, Default)]
pub struct HdfStructures {
    /// In the order of the names of groups.
    pub structures: Vec<Structure>,
    /// Structures with a missing label, which is NaN as in ANI-1x.
    pub unlabelled: usize,
}

/// Reads all structures of a file; those with NaN labels are counted and skipped.
///
/// # Errors
/// A file that is not an HDF5 file or is damaged, without a group of a known layout, or with arrays
/// that do not fit each other.
pub fn read_hdf5(path: &Path) -> Result<HdfStructures, MoleculeError> {
    let wrong = |what: String| MoleculeError::Checkpoint { path: path.to_owned(), what };
    let size = std::fs::metadata(path).map_err(linwright_files::FileError::read(path))?.len();
    let most = usize::try_from(most_inflated(size)).unwrap_or(usize::MAX);
    let options = OpenOptions::default().with_max_read_bytes(most).with_max_chunk_bytes(most);
    let damaged = |error: hdf5_reader::error::Error| {
        wrong(format!("cannot be read as HDF5: {}", shown(&error.to_string())))
    };
    let file = Hdf5File::open_with_options(path, options).map_err(damaged)?;
    let found = HdfStructures::default();
    let mut reader = Reader { wrong: &wrong, damaged: &damaged, found, left: most };
    reader.group(&file.root_group().map_err(damaged)?, ("", 0), &Units::new())?;
    match reader.found.structures.is_empty() && reader.found.unlabelled == 0 {
        false => Ok(reader.found),
        true => {
            let pairs = LAYOUTS.map(|one| format!("{} and {}", one.species, one.positions));
            Err(wrong(format!(
                "has no group with structures; expected arrays {}",
                pairs.join(", or ")
            )))
        }
    }
}

struct Reader<'a> {
    wrong: &'a dyn Fn(String) -> MoleculeError,
    damaged: &'a dyn Fn(hdf5_reader::error::Error) -> MoleculeError,
    found: HdfStructures,
    /// Bytes of numbers that may still be read: links can refer to the same arrays repeatedly.
    left: usize,
}

impl Reader<'_> {
    /// Reads a group and those within it, by name.
    fn group(
        &mut self,
        group: &Group,
        (name, depth): (&str, usize),
        outer: &Units,
    ) -> Result<(), MoleculeError> {
        if depth > DEPTH {
            let what =
                format!("has more than {DEPTH} groups within groups, expected at most these");
            return Err((self.wrong)(what));
        }
        let mut own = Units::new();
        for attribute in group.attributes().map_err(self.damaged)? {
            self.declare(&mut own, &attribute.name, &attribute, name)?;
        }
        let declared = declared::within(outer, own);
        let (mut groups, arrays) = group.members().map_err(self.damaged)?;
        let array = |name: &str| arrays.iter().find(|array| array.name() == name);
        let fits = |one: &&Layout| array(one.species).is_some() && array(one.positions).is_some();
        if let Some(layout) = LAYOUTS.iter().find(fits) {
            let known = [layout.species, layout.positions, layout.energies, layout.forces];
            let names = arrays.iter().map(Dataset::name);
            check_unread(&format!("{name}/"), names.filter(|array| !known.contains(array)))
                .map_err(self.wrong)?;
            let mut own = Units::new();
            for (of, part) in [
                (layout.positions, "length_unit"),
                (layout.energies, "energy_unit"),
                (layout.forces, "force_unit"),
            ] {
                let attributes = array(of).map(Dataset::attributes).unwrap_or_default();
                for attribute in attributes {
                    if matches!(attribute.name.to_lowercase().as_str(), "unit" | "units") {
                        self.declare(&mut own, part, &attribute, &format!("{name}/{of}"))?;
                    }
                }
            }
            let mut declared = declared::within(&declared, own);
            if let Some(units) = layout.units {
                let layout = Units::from([("units".to_owned(), units.to_owned())]);
                declared = declared::within(&layout, declared);
            }
            self.structures(layout, array, (name, &declared))?;
        }
        groups.sort_by(|a, b| a.name().cmp(b.name()));
        groups.iter().try_for_each(|inner| {
            let name = format!("{name}/{}", shown(inner.name()));
            self.group(inner, (&name, depth + 1), &declared)
        })
    }

    /// Adds an attribute to the declared units, if it names one.
    fn declare(
        &self,
        declared: &mut Units,
        name: &str,
        attribute: &Attribute,
        place: &str,
    ) -> Result<(), MoleculeError> {
        if !declared::is_unit(name) {
            return Ok(());
        }
        let wrong = |what: String| (self.wrong)(format!("{what} (in {place}/)"));
        let is_number = matches!(
            attribute.datatype,
            Datatype::FixedPoint { .. }
                | Datatype::FloatingPoint { .. }
                | Datatype::Bitfield { .. }
        );
        if is_number {
            return declared::check_number(name).map_err(wrong);
        }
        let texts = attribute.read_string().map(|text| vec![text]);
        let texts = texts.or_else(|_| attribute.read_strings()).map_err(self.damaged)?;
        let [text] = &texts[..] else {
            let count = texts.len();
            return Err(wrong(format!("has {count} texts as {}, expected one", shown(name))));
        };
        declared::check_name(name, text).map_err(wrong)?;
        declared.insert(name.to_owned(), text.clone());
        Ok(())
    }

    fn structures<'d>(
        &mut self,
        layout: &Layout,
        array: impl Fn(&str) -> Option<&'d Dataset>,
        (group, declared): (&str, &Units),
    ) -> Result<(), MoleculeError> {
        let mut left = self.left;
        let mut read = |name: &str,
                        shape: Option<&[usize]>|
         -> Result<Option<Numbers>, MoleculeError> {
            let Some(found) = array(name) else { return Ok(None) };
            left = left.checked_sub(Numbers::bytes_of(found)).ok_or_else(|| {
                (self.wrong)(format!(
                    "has more numbers up to {group}/{name} than a file of its size"
                ))
            })?;
            let numbers = Numbers::read(found).map_err(self.damaged)?.ok_or_else(|| {
                (self.wrong)(format!("has no numbers in {group}/{name}, but {:?}", found.dtype()))
            })?;
            match shape {
                Some(shape) if !numbers.has_shape(shape) => Err((self.wrong)(format!(
                    "has an array {group}/{name} of shape {:?}; expected {shape:?}",
                    numbers.shape
                ))),
                _ => Ok(Some(numbers)),
            }
        };
        let species = read(layout.species, None)?.unwrap_or_default();
        let positions = read(layout.positions, None)?.unwrap_or_default();
        let (structures, atoms) = match positions.shape[..] {
            [structures, atoms, 3] if atoms > 0 && species.numbers.len() == atoms => {
                (structures, atoms)
            }
            _ => {
                return Err((self.wrong)(format!(
                    "has positions of shape {:?} in {group}, with {} atomic numbers; expected \
                     (structures, atoms, 3)",
                    positions.shape,
                    species.numbers.len()
                )));
            }
        };
        let species = elements(&species.numbers)
            .map_err(|what| (self.wrong)(format!("has {what} in {group}/{}", layout.species)))?;
        let energies = read(layout.energies, Some(&[structures]))?;
        let forces = read(layout.forces, Some(&[structures, atoms, 3]))?;
        let charges = CHARGES.into_iter().find(|name| array(name).is_some());
        let charges = match charges {
            Some(name) => read(name, Some(&[structures]))?,
            None => None,
        };
        let masses = match MASSES.into_iter().find(|name| array(name).is_some()) {
            Some(name) => read(name, None)?.map(|Numbers { shape, numbers }| {
                let place = format!("{group}/{name}");
                Masses::of((&place, &shape), numbers, [structures, atoms]).map_err(self.wrong)
            }),
            None => None,
        };
        let masses = masses.transpose()?;
        self.left = left;
        for index in 0..structures {
            let energy = energies.as_ref().map(|all| all.numbers[index]);
            let forces = forces.as_ref().map(|all| triples(all, index, atoms, layout.sign));
            let labels = forces.iter().flatten().flatten().chain(&energy);
            if labels.into_iter().any(|number| number.is_nan()) {
                self.found.unlabelled += 1;
                continue;
            }
            self.found.structures.push(Structure {
                species: species.clone(),
                positions: triples(&positions, index, atoms, 1.0),
                masses: masses.as_ref().map(|masses| masses.at(index)),
                charge: charges.as_ref().map_or(0.0, |all| all.numbers[index]),
                labels: Labels { energy, forces, ..Labels::default() },
                info: declared.clone(),
                ..Structure::default()
            });
        }
        Ok(())
    }
}

/// Atomic numbers; the error is a part of a sentence.
fn elements(numbers: &[f64]) -> Result<Vec<u8>, String> {
    let number = |value: &f64| match *value {
        value if value.fract() == 0.0 && (1.0..=118.0).contains(&value) => Ok(value as u8),
        value => Err(format!("{value} as an atomic number, expected 1 to 118,")),
    };
    numbers.iter().map(number).collect()
}

/// Rows of one structure, times a sign.
fn triples(all: &Numbers, index: usize, atoms: usize, sign: f64) -> Vec<[f64; 3]> {
    let rows = &all.numbers.as_chunks().0[index * atoms..][..atoms];
    rows.iter().map(|row: &[f64; 3]| row.map(|x| sign * x)).collect()
}

#[derive(Default)]
struct Numbers {
    shape: Vec<usize>,
    numbers: Vec<f64>,
}

impl Numbers {
    /// Bytes of the numbers of an array when it is read.
    fn bytes_of(array: &Dataset) -> usize {
        let sides = array.shape().iter().map(|side| usize::try_from(*side).unwrap_or(usize::MAX));
        sides.fold(size_of::<f64>(), usize::saturating_mul)
    }

    /// The numbers of an array; none if they are not numbers.
    fn read(array: &Dataset) -> Result<Option<Self>, hdf5_reader::error::Error> {
        macro_rules! widened {
            ($kind:ty) => {
                array.read_array::<$kind>()?.iter().map(|x| *x as f64).collect()
            };
        }
        let numbers: Vec<f64> = match *array.dtype() {
            Datatype::FloatingPoint { size: 8, .. } => widened!(f64),
            Datatype::FloatingPoint { size: 4, .. } => widened!(f32),
            Datatype::FixedPoint { size: 1, signed: false, .. } => widened!(u8),
            Datatype::FixedPoint { size: 1, .. } => widened!(i8),
            Datatype::FixedPoint { size: 2, signed: false, .. } => widened!(u16),
            Datatype::FixedPoint { size: 2, .. } => widened!(i16),
            Datatype::FixedPoint { size: 4, signed: false, .. } => widened!(u32),
            Datatype::FixedPoint { size: 4, .. } => widened!(i32),
            Datatype::FixedPoint { size: 8, .. } => widened!(i64),
            Datatype::FixedPoint { .. }
            | Datatype::FloatingPoint { .. }
            | Datatype::String { .. }
            | Datatype::Compound { .. }
            | Datatype::Array { .. }
            | Datatype::Enum { .. }
            | Datatype::VarLen { .. }
            | Datatype::Opaque { .. }
            | Datatype::Reference { .. }
            | Datatype::Bitfield { .. } => return Ok(None),
        };
        let shape = array.shape().iter().map(|size| *size as usize).collect();
        Ok(Some(Self { shape, numbers }))
    }

    /// Whether the shape is this one, up to a last extent of one.
    fn has_shape(&self, shape: &[usize]) -> bool {
        self.shape == shape || self.shape.strip_suffix(&[1]) == Some(shape)
    }
}
