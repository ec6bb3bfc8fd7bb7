//! Runs an inspection.

use super::contents::{self, Contents};
use super::duplicates::first_alike;
use super::record::{Duplicates, Inspection, TensorRecord, Totals, ValueStatistics, WeightFile};
use super::source::{Source, Stored};
use super::{InspectError, NameFilter, groups, layer_of, natural_order, pattern_of};
use crate::spectra::{SpectralStatistics, Spectrum, SpectrumError};
use linwright_run::{Monitor, Shard, Store};
use linwright_tensor::kernels::statistics::Statistics;
use linwright_tensor::{MatRef, parallel};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Numbers of matrices processed in parallel, unless one has more: 16 MiB in `f32`.
const BATCH: usize = 1 << 22;

/// Options of an inspection.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Select only tensors whose names match.
    pub filter: Option<NameFilter>,
    /// Select only tensors of these layers.
    pub layers: Option<Vec<usize>>,
    /// Select only tensors of the storage type of this name, in capitals.
    pub dtype: Option<String>,
    /// Whether to compute singular values.
    pub spectra: bool,
    /// Store of spectra.
    pub store: Store,
}

impl Options {
    fn take(&self, tensor: &Stored<'_>) -> bool {
        let in_layers = |layers: &Vec<usize>| {
            layer_of(tensor.name).is_some_and(|layer| layers.contains(&layer))
        };
        self.filter.as_ref().is_none_or(|filter| filter.matches(tensor.name))
            && self.layers.as_ref().is_none_or(in_layers)
            && self.dtype.as_ref().is_none_or(|dtype| dtype == tensor.dtype())
    }

    fn in_words(&self) -> String {
        let mut words = Vec::new();
        words.extend(self.filter.as_ref().map(|f| format!("a name like {:?}", f.pattern())));
        words.extend(self.layers.as_ref().map(|layers| format!("a layer among {layers:?}")));
        words.extend(self.dtype.as_ref().map(|dtype| format!("the type {dtype}")));
        words.join(" and ")
    }
}

/// Inspects a weight file or a directory of them.
///
/// # Errors
/// [`InspectError`].
pub fn run(
    path: &Path,
    options: &Options,
    monitor: &mut dyn Monitor,
) -> Result<Inspection, InspectError> {
    let source = Source::open(path)?;
    let in_file = source.tensors().len();
    let tensors = selected(&source, options)?;
    let contents = read_all(&tensors, monitor)?;
    let first = firsts(&tensors, &contents, monitor)?;
    let mut notes = Vec::new();
    // Empty unless requested: a file may have very many tensors.
    let mut spectra = Vec::new();
    if options.spectra {
        spectra = all_spectra(&tensors, &contents, &first, options, monitor)?;
        // Matrices are processed in parallel.
        notes = options.store.take_notes();
        notes.sort();
    }
    let mut records: Vec<TensorRecord> = Vec::with_capacity(tensors.len());
    for (place, (tensor, contents)) in tensors.iter().zip(&contents).enumerate() {
        let mut record = record(tensor, contents);
        if first[place] != place {
            record.same_as = Some(tensors[first[place]].name.to_owned());
        }
        match spectra.get_mut(place) {
            Some(Ok(figures)) => record.spectrum = Some(figures.clone()),
            Some(Err(reason)) => record.no_spectrum = reason.take(),
            None => {}
        }
        records.push(record);
    }
    let duplicates = duplicates(&tensors, &first);
    drop((contents, first, spectra));
    // A stable sort: only files without a common index may repeat a name.
    let by_name = |a: &TensorRecord, b: &TensorRecord| {
        natural_order(&a.name, &b.name).then(a.file.cmp(&b.file))
    };
    records.sort_unstable_by(by_name);
    let files = source.files().map(|(path, tensors, bytes)| WeightFile {
        path: path.display().to_string(),
        tensors,
        bytes,
    });
    notes.extend(unread(&tensors));
    if tensors.len() < in_file {
        notes.push(format!("{} of {in_file} tensors: {}", tensors.len(), options.in_words()));
    }
    Ok(Inspection {
        model: path.display().to_string(),
        files: files.collect(),
        totals: Totals::of(&records),
        groups: groups::by_name(&records),
        layers: groups::by_layer(&records),
        tensors: records,
        duplicates,
        notes,
    })
}

/// Computes the singular values of the matrices of a shard and stores them, where [`run`] finds
/// them. Returns their number, and the number in all shards.
///
/// # Errors
/// As [`run`].
pub fn run_shard(
    path: &Path,
    options: &Options,
    shard: Shard,
    monitor: &mut dyn Monitor,
) -> Result<[usize; 2], InspectError> {
    let source = Source::open(path)?;
    let tensors = selected(&source, options)?;
    let contents = read_all(&tensors, monitor)?;
    let first = firsts(&tensors, &contents, monitor)?;
    let places = matrices(&tensors, &contents, &first);
    let is_own = |(index, _): &(usize, &usize)| shard.owns(*index);
    let owned: Vec<usize> =
        places.iter().enumerate().filter(is_own).map(|(_, place)| *place).collect();
    spectra_at(&owned, &tensors, options, monitor)?;
    Ok([owned.len(), places.len()])
}

/// The tensors that the options select.
fn selected<'s>(source: &'s Source, options: &Options) -> Result<Vec<Stored<'s>>, InspectError> {
    let mut tensors = source.tensors();
    let (all, name) = (tensors.len(), tensors.first().map(|tensor| tensor.name));
    tensors.retain(|tensor| options.take(tensor));
    match (tensors.is_empty(), name) {
        (true, Some(first)) => Err(InspectError::NothingMatches {
            tensors: all,
            wanted: options.in_words(),
            first: first.to_owned(),
        }),
        _ => Ok(tensors),
    }
}

/// Index of the first tensor equal to each.
fn firsts(
    tensors: &[Stored<'_>],
    contents: &[Contents],
    monitor: &mut dyn Monitor,
) -> Result<Vec<usize>, InspectError> {
    let prints: Vec<u128> = contents.iter().map(|contents| contents.fingerprint).collect();
    first_alike(tensors, &prints, &|| monitor.interrupted()).ok_or(InspectError::Interrupted)
}

fn read_all(
    tensors: &[Stored<'_>],
    monitor: &mut dyn Monitor,
) -> Result<Vec<Contents>, InspectError> {
    monitor.step("reading");
    let total = tensors.iter().map(|tensor| tensor.bytes() as u64).sum();
    let mut done = 0;
    let mut contents = Vec::with_capacity(tensors.len());
    for tensor in tensors {
        contents.push(
            contents::read(tensor, &|| monitor.interrupted()).ok_or(InspectError::Interrupted)?,
        );
        done += tensor.bytes() as u64;
        monitor.progress(done, total);
    }
    Ok(contents)
}

fn record(tensor: &Stored<'_>, contents: &Contents) -> TensorRecord {
    let values = |values: Statistics| ValueStatistics {
        nan: values.nan,
        infinite: values.infinite,
        mean: values.mean,
        std: values.std(),
        abs_max: values.abs_max(),
    };
    TensorRecord {
        name: tensor.name.to_owned(),
        group: pattern_of(tensor.name),
        layer: layer_of(tensor.name),
        file: tensor.place,
        dtype: tensor.dtype().to_owned(),
        shape: tensor.shape().to_vec(),
        parameters: tensor.count() as u64,
        bytes: tensor.bytes() as u64,
        values: contents.values.map(values),
        rows: contents.rows,
        same_as: None,
        spectrum: None,
        no_spectrum: None,
    }
}

fn duplicates(tensors: &[Stored<'_>], first: &[usize]) -> Vec<Duplicates> {
    let mut members: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    let repeats = first.iter().enumerate().filter(|(place, first)| place != *first);
    for (place, &first) in repeats {
        let names = members.entry(first).or_insert_with(|| vec![tensors[first].name.to_owned()]);
        names.push(tensors[place].name.to_owned());
    }
    let duplicates = |(first, names): (usize, Vec<String>)| Duplicates {
        bytes: tensors[first].bytes() as u64,
        names,
    };
    members.into_iter().map(duplicates).collect()
}

/// Statistics of a tensor's spectrum, or the reason why there are none (`None` for a tensor that is
/// not a matrix).
type SpectrumResult = Result<Box<SpectralStatistics>, Option<String>>;

/// Spectral statistics of all tensors; `first` has the index of the first tensor equal to each.
fn all_spectra(
    tensors: &[Stored<'_>],
    contents: &[Contents],
    first: &[usize],
    options: &Options,
    monitor: &mut dyn Monitor,
) -> Result<Vec<SpectrumResult>, InspectError> {
    let mut spectra: Vec<SpectrumResult> =
        tensors.iter().zip(contents).map(|(t, c)| Err(obstacle(t, c))).collect();
    let places = matrices(tensors, contents, first);
    for (&place, found) in places.iter().zip(spectra_at(&places, tensors, options, monitor)?) {
        spectra[place] = found.map(Box::new).map_err(Some);
    }
    for place in 0..tensors.len() {
        if first[place] != place {
            spectra[place] = spectra[first[place]].clone();
        }
    }
    Ok(spectra)
}

/// Indices of the matrices that have spectra, equal ones once.
fn matrices(tensors: &[Stored<'_>], contents: &[Contents], first: &[usize]) -> Vec<usize> {
    let has_spectrum = |place: usize| {
        tensors[place].shape().len() == 2 && obstacle(&tensors[place], &contents[place]).is_none()
    };
    (0..tensors.len()).filter(|&place| first[place] == place && has_spectrum(place)).collect()
}

/// Statistics of the spectra of matrices, or the reason why one has none.
fn spectra_at(
    places: &[usize],
    tensors: &[Stored<'_>],
    options: &Options,
    monitor: &mut dyn Monitor,
) -> Result<Vec<Result<SpectralStatistics, String>>, InspectError> {
    monitor.step("singular values");
    let total = places.iter().map(|&place| effort(tensors[place].shape())).sum();
    let (mut spectra, mut done) = (Vec::with_capacity(places.len()), 0);
    let mut rest = places;
    while !rest.is_empty() {
        let mut numbers = 0;
        let fits = rest.iter().take_while(|&&place| {
            numbers += tensors[place].count();
            numbers <= BATCH
        });
        let (batch, later) = rest.split_at(fits.count().max(1));
        let outcomes =
            parallel::map(batch.to_vec(), |_, place| spectrum(&tensors[place], &options.store));
        for (&place, outcome) in batch.iter().zip(outcomes) {
            spectra.push(outcome?);
            done += effort(tensors[place].shape());
        }
        if monitor.interrupted() {
            return Err(InspectError::Interrupted);
        }
        monitor.progress(done, total);
        rest = later;
    }
    Ok(spectra)
}

/// A note on tensors whose numbers are not known.
fn unread(tensors: &[Stored<'_>]) -> Option<String> {
    let unread = tensors.iter().filter(|tensor| tensor.encoding().is_none());
    let types: BTreeSet<&str> = unread.clone().map(|tensor| tensor.dtype()).collect();
    let count = unread.count();
    (count > 0).then(|| {
        let types = types.into_iter().collect::<Vec<_>>().join(", ");
        format!(
            "the numbers of {count} tensors of the types {types} are not read: nothing is known of \
             their values, NaN and infinities"
        )
    })
}

/// The reason why a matrix has no spectrum, if there is one.
fn obstacle(tensor: &Stored<'_>, contents: &Contents) -> Option<String> {
    if tensor.shape().len() != 2 {
        return None;
    }
    let Some(values) = contents.values else {
        return Some(format!("stored as {}, which is not supported", tensor.dtype()));
    };
    if values.nan + values.infinite > 0 {
        return Some(format!("{} numbers are not finite", values.nan + values.infinite));
    }
    (tensor.count() == 0).then(|| "it is empty".to_owned())
}

/// Relative cost of a spectrum: a Gram matrix and its eigenvalues.
fn effort(shape: &[usize]) -> u64 {
    let (small, large) = (shape[0].min(shape[1]) as u64, shape[0].max(shape[1]) as u64);
    (small * small).saturating_mul(large + 2 * small)
}

/// Statistics of a matrix's spectrum, from the store if possible, or the reason why it has none.
fn spectrum(
    tensor: &Stored<'_>,
    store: &Store,
) -> Result<Result<SpectralStatistics, String>, InspectError> {
    let values = tensor.read();
    let (rows, cols) = (tensor.shape()[0], tensor.shape()[1]);
    match Spectrum::stored(store, MatRef::new(&values, rows, cols)) {
        Ok(spectrum) => Ok(Ok(SpectralStatistics::of(&spectrum))),
        Err(SpectrumError::NoConvergence(error)) => Ok(Err(error.to_string())),
        Err(SpectrumError::Store(error)) => Err(error.into()),
    }
}
