//! Energies and forces of a TensorNet in single precision, fused for one machine.
//!
//! The exact arithmetic of [`TensorNet`](crate::tensornet::TensorNet), arranged for speed:
//!
//! 1. Radial filters depend on the distance alone. They are read from tables by cubic Hermite
//!    interpolation, with the derivative of the interpolant for forces, so that energy and forces
//!    agree; the linear layers on edges, nine tenths of all arithmetic, are avoided. Pairs below
//!    the range of the tables, and all pairs without tables, have separate rows.
//! 2. Atoms go through linear layers in blocks that stay in the cache, with weights packed once.
//! 3. Messages are gathered by receiver. The graph is symmetric, so the backward pass gathers too,
//!    and nothing is scattered: results do not depend on the number of threads.
//! 4. No tape: one arena holds the data for the backward pass.

mod arena;
mod blocks;
mod dense;
mod filters;
mod graph;
mod model;
mod stages;

use crate::error::MoleculeError;
use crate::neighbours::{Neighbours, PairSource};
use crate::potential::{Potential, Prediction, Wanted};
use crate::structure::Structure;
use crate::tensornet::{Family, Head, Reduction, TensorNet, TensorNetConfig};
use arena::Arena;
use filters::{Filters, Grid};
use graph::Graph;
use linwright_tensor::Scalar;
use linwright_tensor::kernels::irreps::{SLAB, row_len};
use model::Model;
use stages::Input;

/// Choices of a [`FastTensorNet`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastOptions {
    /// Intervals of the tables of radial filters; none to compute the filters of every pair.
    pub intervals: Option<usize>,
}

impl Default for FastOptions {
    fn default() -> Self {
        Self { intervals: Some(256) }
    }
}

/// A TensorNet for many structures, in single precision. Slots with other linear operators are
/// applied as equal dense weights.
#[derive(Debug)]
pub struct FastTensorNet {
    config: TensorNetConfig,
    model: Model,
    filters: Filters<f32>,
    grid: Option<Grid>,
    /// Tables of the embedding and of each layer, with rows of single pairs at the end.
    tables: Vec<Vec<f32>>,
    graph: Graph,
    arena: Arena,
    pairs: PairSource,
}

impl FastTensorNet {
    /// Packs the weights of a model, and tabulates its filters.
    ///
    /// # Errors
    /// [`MoleculeError::Architecture`] for features that only [`TensorNet`] supports: latent
    /// charges, heads other than the scalar one, or channels that do not fill registers;
    /// [`MoleculeError::Operator`] for slots whose operators are not linear.
    pub fn new<T: Scalar>(
        model: &TensorNet<T>,
        options: FastOptions,
    ) -> Result<Self, MoleculeError> {
        let config = model.config().clone();
        let refused = |option, found: String, expected: &str| MoleculeError::Architecture {
            option,
            found,
            expected: format!("{expected} on the fast path"),
        };
        if config.model != Family::Tensornet {
            return Err(refused("model", "tensornet2".into(), "tensornet"));
        }
        if config.head != Head::Scalar {
            return Err(refused("output_model", format!("{:?}", config.head), "Scalar"));
        }
        if !config.channels.is_multiple_of(SLAB) {
            let expected = format!("a multiple of {SLAB}");
            return Err(refused("embedding_dimension", config.channels.to_string(), &expected));
        }
        if options.intervals == Some(0) {
            return Err(refused("intervals", "0".into(), "a positive number"));
        }
        let model = model.with_dense_weights()?.cast::<f64>()?;
        let filters = Filters::<f64>::new(&model);
        let grid = options.intervals.map(|intervals| Grid::new(&config, intervals));
        let table = |stage| grid.map_or_else(Vec::new, |grid| grid.table(&filters, stage));
        Ok(Self {
            tables: (0..filters.stages()).map(table).collect(),
            filters: Filters::new(&model),
            model: Model::new(&model, &filters),
            grid,
            pairs: PairSource::new(config.cutoff()),
            config,
            graph: Graph::default(),
            arena: Arena::default(),
        })
    }

    /// Energy of a structure whose neighbours, up to the cutoff, are known.
    ///
    /// # Errors
    /// As [`Potential::predict`].
    ///
    /// # Panics
    /// If the neighbours belong to another number of atoms.
    pub fn predict_within(
        &mut self,
        structure: &Structure,
        neighbours: &Neighbours,
        wanted: Wanted,
    ) -> Result<Prediction, MoleculeError> {
        let atoms = structure.species.len();
        assert_eq!(neighbours.starts.len(), atoms + 1, "neighbours of {atoms} atoms");
        self.config.check_species(&structure.species)?;
        self.model.meet(&structure.species);
        let rows = self.grid.map_or(0, |grid| grid.rows());
        let species = &structure.species;
        let kind =
            |receiver: usize, sender: usize| self.model.kind(species[receiver], species[sender]);
        let cutoff = self.config.cutoff_upper;
        let grid = (self.grid.as_ref(), rows);
        self.graph.set(&structure.positions, neighbours, cutoff, grid, kind);
        self.append_exact_rows(rows);
        let mut prediction = Prediction::default();
        self.run(structure, wanted, &mut prediction);
        prediction.finite()
    }

    /// Current working memory in bytes, as needed by the last structure.
    #[must_use]
    pub fn working_bytes(&self) -> usize {
        let rows: usize = self.tables.iter().map(|table| 4 * table.len()).sum();
        let own = self.grid.map_or(0, |grid| grid.rows()) * self.tables.len();
        let own = 4 * own * row_len(self.config.channels);
        self.arena.bytes() + self.graph.bytes() + rows - own
    }

    /// Bytes of the tables of radial filters.
    #[must_use]
    pub fn table_bytes(&self) -> usize {
        let rows = self.grid.map_or(0, |grid| grid.rows()) * self.tables.len();
        4 * rows * row_len(self.config.channels)
    }

    /// Filters of the pairs without a table.
    fn append_exact_rows(&mut self, rows: usize) {
        let row = row_len(self.config.channels);
        for (stage, table) in self.tables.iter_mut().enumerate() {
            table.truncate(rows * row);
            self.filters.append_rows(stage, &self.graph.exact, table);
        }
    }

    fn run(&mut self, structure: &Structure, wanted: Wanted, prediction: &mut Prediction) {
        let atoms = structure.species.len();
        let mean = self.config.reduction == Reduction::Mean;
        let share = if mean { 1.0 / atoms.max(1) as f64 } else { 1.0 };
        let input = Input {
            graph: &self.graph,
            tables: &self.tables,
            species: &structure.species,
            charge: structure.charge,
            share,
            forces: wanted.forces,
        };
        self.model.run(&input, &mut self.arena);
        let (offset, scale) = (self.model.mean, self.model.std);
        prediction.atom_energies = vec![0.0; atoms];
        let mut sum = 0.0;
        for (energy, atom) in self.arena.energies.iter().zip(&self.graph.order) {
            let energy = scale * f64::from(*energy);
            prediction.atom_energies[*atom as usize] = energy;
            sum += energy;
        }
        prediction.energy = offset + share * sum;
        if wanted.forces {
            self.graph.forces(&self.arena.distances, &self.arena.directions, prediction);
        }
    }
}

impl Potential for FastTensorNet {
    fn cutoff(&self) -> f64 {
        self.config.cutoff_upper
    }

    fn predict(
        &mut self,
        structure: &Structure,
        wanted: Wanted,
    ) -> Result<Prediction, MoleculeError> {
        // Moved out, so that the list can be read while the rest is written.
        let nothing = PairSource::new(self.config.cutoff());
        let mut pairs = std::mem::replace(&mut self.pairs, nothing);
        let neighbours = pairs.of(structure);
        let found = neighbours.and_then(|list| self.predict_within(structure, list, wanted));
        self.pairs = pairs;
        found
    }

    fn keep_pairs(&mut self, skin: f64) -> Result<(), MoleculeError> {
        self.pairs.keep(skin)
    }
}
