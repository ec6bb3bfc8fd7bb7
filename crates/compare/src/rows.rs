//! What a comparison asks for: rows, shares, sets of layers, seeds.

use crate::judge::Way;
use linwright_compress::Size;
use serde::{Deserialize, Serialize};

/// Name of the dense network where rows are compared with it.
pub const DENSE: &str = "dense";

/// A row of a comparison: a candidate, which may have a label and a size of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row<W> {
    /// The candidate.
    pub candidate: W,
    /// Its label [default: its name, or that of its method and size].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Its own size, in place of the shares of the comparison.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Size>,
}

impl<W: Way> Row<W> {
    /// A candidate at the shares of the comparison.
    #[must_use]
    pub fn of(candidate: W) -> Self {
        Self { candidate, label: None, size: None }
    }

    /// Its name, unique in a comparison.
    #[must_use]
    pub fn name(&self) -> String {
        self.own_name().unwrap_or_else(|| self.candidate.name())
    }

    /// Its name, if it is not that of its candidate.
    fn own_name(&self) -> Option<String> {
        self.label.clone().or_else(|| self.size.map(|size| self.candidate.sized(size)))
    }
}

/// A candidate at a share, or at a size of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked<W> {
    /// The candidate.
    pub candidate: W,
    /// The share; none of a candidate with one size, or with a size of its own.
    pub keep: Option<f64>,
    /// The name of its row, if that is not the name of the candidate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Its own size, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Size>,
}

impl<W> Asked<W> {
    /// A candidate at a share, if it has sizes.
    #[must_use]
    pub fn at(candidate: W, keep: Option<f64>) -> Self {
        Self { candidate, keep, label: None, size: None }
    }

    /// The same of another kind of candidates.
    #[must_use]
    pub fn with<V>(&self, candidate: V) -> Asked<V> {
        Asked { candidate, keep: self.keep, label: self.label.clone(), size: self.size }
    }
}

impl<W: Way> Asked<W> {
    /// The name of its row.
    #[must_use]
    pub fn name(&self) -> String {
        self.label.clone().unwrap_or_else(|| self.candidate.name())
    }
}

/// Where the cells of a comparison are: layers that are replaced together, and a seed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// The layers, from zero.
    pub layers: Vec<usize>,
    /// Seed of the fits.
    pub seed: u64,
}

/// What a comparison asks for.
#[derive(Debug)]
pub struct Asking<'a, W> {
    /// The rows.
    pub rows: &'a [Row<W>],
    /// Shares of the parameters; without any, rows without a size have that of their method.
    pub keeps: &'a [f64],
    /// Sets of layers with each seed, seeds first.
    pub places: &'a [Place],
    /// Names of rows with which all others are compared.
    pub against: &'a [String],
}

impl<W> Clone for Asking<'_, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W> Copy for Asking<'_, W> {}

impl<W: Way> Asking<'_, W> {
    /// Whether its report has means over runs: there are several seeds, several sets of layers,
    /// rows to compare with, or sizes of rows in place of shares.
    #[must_use]
    pub fn has_runs(&self) -> bool {
        self.keeps.is_empty() || self.places.len() > 1 || !self.against.is_empty()
    }

    /// The cells of one place, in order.
    #[must_use]
    pub fn cells(&self) -> Vec<Asked<W>> {
        self.rows.iter().flat_map(|row| asked_of(row, self.keeps)).collect()
    }

    /// Names of the lines of its report: rows, at each share if they have it.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.cells().iter().map(|asked| line_of(&asked.name(), asked.keep)).collect()
    }
}

/// The name of a row at a share.
pub(crate) fn line_of(name: &str, keep: Option<f64>) -> String {
    keep.map_or_else(|| name.to_owned(), |keep| format!("{name} at {keep}"))
}

/// The cells of candidates at shares, in order.
#[must_use]
pub fn asked<W: Way>(candidates: &[W], keeps: &[f64]) -> Vec<Asked<W>> {
    candidates.iter().flat_map(|own| asked_of(&Row::of(own.clone()), keeps)).collect()
}

fn asked_of<W: Way>(row: &Row<W>, keeps: &[f64]) -> Vec<Asked<W>> {
    let Row { candidate, size, .. } = row;
    let keeps: Vec<Option<f64>> = match candidate.has_sizes() && size.is_none() {
        true if !keeps.is_empty() => keeps.iter().copied().map(Some).collect(),
        true | false => vec![None],
    };
    let of =
        |keep| Asked { candidate: candidate.clone(), keep, label: row.own_name(), size: *size };
    keeps.into_iter().map(of).collect()
}
