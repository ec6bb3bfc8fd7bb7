//! Stores: what goes in comes out, whoever writes it and whenever it stops; damage is found.

use super::*;
use crate::tests::{KEY, classified, classifier, decoder, documents, map_of, points};
use crate::{
    AttributeError, CacheOptions, CompressorSpec, Examples, Reduction, cache, estimate, gradients,
};
use linwright_nets::{Labelled, Net};
use linwright_run::{Monitor, Shard, Silent};
use linwright_tensor::{Mat, RngKey, parallel};
use std::cell::Cell;
use std::collections::BTreeMap;

/// Small shards and tiles, so that there are several.
fn options() -> StoreOptions {
    StoreOptions { batch: 3, shard_rows: 7, ..StoreOptions::default() }
}

/// A network, its examples and the maps of a compressor.
struct World {
    net: Net,
    labelled: Labelled,
    map: GradientMap,
    compressor: CompressorSpec,
}

impl World {
    fn new(compressor: &str) -> Self {
        let (net, labelled) = (classifier(1), points(25));
        let map = map_of(&net, compressor, &|_| true);
        Self { net, labelled, map, compressor: compressor.parse().expect("a compressor") }
    }

    fn sources(&self) -> Sources {
        let examples = classified(&self.labelled);
        let (count, examples) = (examples.count(), examples.identity());
        Sources { network: "weights".into(), examples, count }
    }

    fn store(&self, path: &Path, options: StoreOptions) -> Result<GradientStore, AttributeError> {
        let compressor = (self.compressor, KEY);
        GradientStore::create(path, &self.sources(), &self.map, compressor, options)
    }

    fn fill(
        &self,
        store: &GradientStore,
        options: CacheOptions,
        monitor: &mut dyn Monitor,
    ) -> Result<crate::Cached, AttributeError> {
        let examples = classified(&self.labelled);
        cache((&self.net, &self.map), &examples, store, options, monitor)
    }

    fn filled(&self, path: &Path, options: StoreOptions) -> GradientStore {
        let store = self.store(path, options).expect("a store");
        self.fill(&store, CacheOptions::default(), &mut Silent).expect("gradients");
        store
    }

    /// All gradients, in the batches of the store.
    fn gradients(&self) -> Mat<f32> {
        let examples = classified(&self.labelled);
        let mut rows = Vec::new();
        for shard in (0..25).step_by(7) {
            for start in (shard..25.min(shard + 7)).step_by(3) {
                let batch = examples.batch(start..(start + 3).min(shard + 7).min(25));
                let of = gradients(&self.net, &self.map, &batch, Reduction::Mean, start);
                rows.extend(of.expect("gradients").rows.into_vec());
            }
        }
        Mat::from_vec(25, self.map.size(), rows)
    }
}

/// All numbers of a store.
fn read(store: &GradientStore) -> Result<Mat<f32>, AttributeError> {
    let mut all = Mat::zeros(store.manifest().count, store.manifest().size());
    let mut first = 0;
    for shard in store.all_shards()? {
        for tile in 0..shard.tiles() {
            let (tile, mut values, mut column) = (shard.tile(tile)?, Mat::default(), 0);
            for (layer, about) in store.manifest().layers.iter().enumerate() {
                tile.layer(layer, &mut values)?;
                for (at, row) in tile.rows().enumerate() {
                    let into = &mut all.row_mut(first + row)[column..column + about.size];
                    into.copy_from_slice(values.row(at));
                }
                column += about.size;
            }
        }
        first += shard.rows().len();
    }
    Ok(all)
}

/// The content of every file of a directory.
fn files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in
        fs::read_dir(root).expect("a directory").map(|entry| entry.expect("an entry").path())
    {
        if entry.is_dir() {
            let inner = files(&entry).into_iter();
            let name = PathBuf::from(entry.file_name().expect("a name"));
            all.extend(inner.map(|(path, bytes)| (name.join(path), bytes)));
        } else {
            let name = PathBuf::from(entry.file_name().expect("a name"));
            all.insert(name, fs::read(&entry).expect("a file"));
        }
    }
    all
}

#[test]
fn gradients_come_back_as_they_were_with_what_is_known_of_their_examples() {
    for compressor in ["factgrass:9", "logra:16"] {
        let (world, dir) = (World::new(compressor), tempfile::tempdir().unwrap());
        let store = world.filled(&dir.path().join("s"), options());
        assert_eq!(read(&store).unwrap(), world.gradients(), "{compressor}");
        let shards = store.all_shards().unwrap();
        let rows: Vec<StoredRow> = shards.iter().flat_map(|shard| shard.rows().to_vec()).collect();
        let expected = world.gradients();
        for (example, row) in rows.iter().enumerate() {
            let square: f64 = expected.row(example).iter().map(|v| f64::from(*v).powi(2)).sum();
            assert_eq!((row.example, row.targets), (example, 1));
            assert!(row.loss > 0.0 && (row.norm - square.sqrt()).abs() < 1e-9);
        }
        assert_eq!((rows.len(), shards.len()), (25, 4));
        let again = store.map(&world.net).unwrap();
        let batch = classified(&world.labelled).batch(0..3);
        let of = gradients(&world.net, &again, &batch, Reduction::Mean, 0).unwrap();
        assert_eq!(of.rows.row(1), expected.row(1), "maps come back, too");
    }
}

/// Spearman's correlation of two rankings without ties.
fn rank_correlation(a: &[f32], b: &[f32]) -> f64 {
    let ranks = |values: &[f32]| {
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by(|&i, &j| values[i].total_cmp(&values[j]));
        let mut ranks = vec![0.0; values.len()];
        order.into_iter().enumerate().for_each(|(rank, index)| ranks[index] = rank as f64);
        ranks
    };
    let squares = ranks(a).into_iter().zip(ranks(b)).map(|(a, b)| (a - b).powi(2));
    let count = a.len() as f64;
    1.0 - 6.0 * squares.sum::<f64>() / (count * (count * count - 1.0))
}

#[test]
fn smaller_number_types_rank_as_f32_does() {
    let (world, dir) = (World::new("factgrass:16"), tempfile::tempdir().unwrap());
    let exact = world.gradients();
    let scores = |rows: &Mat<f32>| -> Vec<f32> {
        let pairs = (0..25).flat_map(|i| (0..i).map(move |j| (i, j)));
        pairs.map(|(i, j)| rows.row(i).iter().zip(exact.row(j)).map(|(a, b)| a * b).sum()).collect()
    };
    for (element, least) in [(Element::F16, 0.999), (Element::Bf16, 0.999), (Element::Int8, 0.99)] {
        let path = dir.path().join(element.name());
        let store = world.filled(&path, StoreOptions { element, ..options() });
        let found = rank_correlation(&scores(&read(&store).unwrap()), &scores(&exact));
        assert!(found > least && found < 1.0, "{element}: {found}");
    }
}

#[test]
fn shares_of_processes_and_threads_give_the_same_files() {
    let (world, dir) = (World::new("factgrass:9"), tempfile::tempdir().unwrap());
    let one = dir.path().join("one");
    world.filled(&one, options());
    let expected = files(&one);
    assert_eq!(expected.len(), 1 + 3 + 4);
    for count in [2, 7] {
        let path = dir.path().join(count.to_string());
        let store = world.store(&path, options()).unwrap();
        for index in 0..count {
            let share = Shard::new(index, count).unwrap();
            let options = CacheOptions { share, ..CacheOptions::default() };
            world.fill(&store, options, &mut Silent).unwrap();
        }
        assert!(files(&path) == expected, "{count} processes");
    }
    for threads in [1, 3] {
        let path = dir.path().join(format!("{threads} threads"));
        parallel::with_threads(threads, || world.filled(&path, options())).unwrap();
        assert!(files(&path) == expected, "{threads} threads");
    }
}

/// Asks to stop at a question.
struct StopsAt(Cell<usize>);

impl Monitor for StopsAt {
    fn step(&mut self, _: &str) {}
    fn progress(&mut self, _: u64, _: u64) {}
    fn interrupted(&self) -> bool {
        self.0.set(self.0.get().wrapping_sub(1));
        self.0.get() == usize::MAX
    }
    fn seconds(&self) -> f64 {
        0.0
    }
}

#[test]
fn a_pass_that_stops_anywhere_continues_to_the_same_files() {
    let (world, dir) = (World::new("factgrass:9"), tempfile::tempdir().unwrap());
    let whole = dir.path().join("whole");
    world.filled(&whole, options());
    let expected = files(&whole);
    for stop in 0..10 {
        let path = dir.path().join(stop.to_string());
        let store = world.store(&path, options()).unwrap();
        let mut monitor = StopsAt(Cell::new(stop));
        let stopped = world.fill(&store, CacheOptions::default(), &mut monitor);
        assert!(matches!(stopped, Err(AttributeError::Interrupted)), "{stop}");
        // What a killed process leaves: nobody holds its lock.
        fs::write(path.join(SHARDS).join(".000003.grd.partial-4194999-0"), b"half").unwrap();
        let store = world.store(&path, options()).unwrap();
        let cached = world.fill(&store, CacheOptions::default(), &mut Silent).unwrap();
        // Three batches are a shard.
        assert_eq!((cached.found, cached.computed), (stop / 3, 4 - stop / 3), "{stop}");
        assert!(files(&path) == expected, "{stop}");
    }
}

#[test]
fn ended_at_fifty_random_moments_a_pass_has_the_same_files() {
    let (world, dir) = (World::new("factgrass:9"), tempfile::tempdir().unwrap());
    let whole = dir.path().join("whole");
    world.filled(&whole, options());
    let expected = files(&whole);
    let (mut ends, mut stream) = (0, RngKey::new(11).stream());
    let mut round = 0;
    while ends < 50 {
        let path = dir.path().join(round.to_string());
        round += 1;
        loop {
            let store = world.store(&path, options()).unwrap();
            // A disk that is full somewhere in a file, or a stop between two batches.
            let mut stop = StopsAt(Cell::new(stream.below(4)));
            let limit_bytes = (stream.below(2) == 0).then(|| stream.below(12_000) as u64);
            let how = CacheOptions { limit_bytes, ..CacheOptions::default() };
            let ended = match limit_bytes {
                Some(_) => world.fill(&store, how, &mut Silent),
                None => world.fill(&store, how, &mut stop),
            };
            let name = format!(".00000{}.grd.partial-4194999-0", stream.below(4));
            let half = vec![7; stream.below(9000)];
            if ended.is_ok() {
                break;
            }
            ends += 1;
            // What a killed process leaves, as far as it came.
            fs::write(path.join(SHARDS).join(name), half).unwrap();
        }
        let store = world.store(&path, options()).unwrap();
        let found = read(&store).unwrap();
        assert_eq!(found.rows(), 25);
        // What is left of others is removed when a file of its name is written again.
        let mut found = files(&path);
        found.retain(|name, _| !name.to_string_lossy().contains("partial"));
        assert!(found == expected, "round {round}");
    }
}

#[test]
fn any_flipped_bit_is_found() {
    let (world, dir) = (World::new("factgrass:4"), tempfile::tempdir().unwrap());
    for element in [Element::F32, Element::Int8] {
        let store = world.filled(
            &dir.path().join(element.name()),
            StoreOptions { element, shard_rows: 30, ..options() },
        );
        let path = store.shard_path(0);
        let bytes = fs::read(&path).unwrap();
        for at in (0..bytes.len()).step_by(61).chain([bytes.len() - 1]) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            fs::write(&path, damaged).unwrap();
            let message = read(&store).unwrap_err().to_string();
            assert!(
                message.contains("000000.grd") && message.contains("remove the file"),
                "{message}"
            );
        }
        for length in [0, 5, 4096, bytes.len() - 1] {
            fs::write(&path, &bytes[..length]).unwrap();
            let message = read(&store).unwrap_err().to_string();
            assert!(message.contains(&format!("{length} bytes, expected")), "{message}");
        }
        fs::write(&path, &bytes).unwrap();
        read(&store).unwrap();
        // A good shard of another store.
        let other =
            StoreOptions { element, shard_rows: 30, reduction: Reduction::Sum, ..options() };
        let other = world.filled(&dir.path().join(format!("{element} sums")), other);
        fs::copy(other.shard_path(0), &path).unwrap();
        let message = read(&store).unwrap_err().to_string();
        assert!(message.contains("not the one of this shard of this store"), "{message}");
    }
}

#[test]
fn stores_of_anything_else_are_refused_with_what_differs() {
    let (world, dir) = (World::new("factgrass:9"), tempfile::tempdir().unwrap());
    let path = dir.path().join("s");
    world.filled(&path, options());
    let create = |sources: &Sources, key, options| {
        GradientStore::create(&path, sources, &world.map, (world.compressor, key), options)
    };
    let same = world.sources();
    assert!(create(&same, KEY, options()).is_ok());
    let network = Sources { network: "others".into(), ..same.clone() };
    let texts = Sources { examples: "others".into(), ..same.clone() };
    let fewer = Sources { count: 24, ..same.clone() };
    let key = crate::CompressorKey { checkpoint: 1, ..KEY };
    let seed = crate::CompressorKey { seed: 8, ..KEY };
    let sum = StoreOptions { reduction: Reduction::Sum, ..options() };
    let margin = StoreOptions { target: crate::Target::Margin, ..options() };
    let int8 = StoreOptions { element: Element::Int8, ..options() };
    let batch = StoreOptions { batch: 4, ..options() };
    let rows = StoreOptions { shard_rows: 8, ..options() };
    let cases = [
        (create(&network, KEY, options()), "the network is"),
        (create(&texts, KEY, options()), "the text or data is"),
        (create(&fewer, KEY, options()), "the number of examples is 25, expected 24"),
        (create(&same, key, options()), "the checkpoint is 0, expected 1"),
        (create(&same, seed, options()), "the seed is 7, expected 8"),
        (create(&same, KEY, sum), "the reduction is mean, expected sum"),
        (create(&same, KEY, margin), "the target is loss, expected margin"),
        (create(&same, KEY, int8), "the number type is f32, expected int8"),
        (create(&same, KEY, batch), "the batch is 3, expected 4"),
        (create(&same, KEY, rows), "rows of a shard is 7, expected 8"),
        (World::new("factgrass:16").store(&path, options()), "the compressor is factgrass:9"),
    ];
    for (found, expected) in cases {
        let message = found.unwrap_err().to_string();
        assert!(
            message.contains(expected) && message.contains("choose another store"),
            "{message}"
        );
    }
    let zero = StoreOptions { batch: 0, ..options() };
    let message = create(&same, KEY, zero).unwrap_err().to_string();
    assert_eq!(message, "batch: 0; expected at least 1");
}

#[test]
fn directories_that_are_no_store_are_refused_and_stay() {
    let (world, dir) = (World::new("factgrass:9"), tempfile::tempdir().unwrap());
    let refused = |found: Result<GradientStore, AttributeError>, expected: &str| {
        let message = found.unwrap_err().to_string();
        assert!(
            message.contains("is not a store of gradients") && message.contains(expected),
            "{message}"
        );
    };
    let path = dir.path().join("letters");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("letter.txt"), "dear").unwrap();
    refused(world.store(&path, options()), "it holds letter.txt");
    refused(GradientStore::open(&path), "manifest.json");
    assert_eq!(files(&path).len(), 1);

    let path = dir.path().join("s");
    let store = world.store(&path, options()).unwrap();
    let error = store.all_shards().unwrap_err().to_string();
    assert!(error.contains("0 of 4 shards exist"), "{error}");
    let manifest = path.join(MANIFEST);
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("factgrass:9", "factgrass:4")).unwrap();
    refused(GradientStore::open(&path), "its checksum differs");
    let changed = |change: fn(&mut Manifest)| {
        let mut other = store.manifest().clone();
        change(&mut other);
        let checked = serde_json::to_string(&Checked::of(&other).unwrap()).unwrap();
        fs::write(&manifest, checked).unwrap();
        GradientStore::open(&path)
    };
    refused(changed(|manifest| manifest.format = 9), "format 9, expected 1");
    refused(changed(|manifest| manifest.tile_rows = 0), "is zero");
    refused(changed(|manifest| manifest.layers[0].size = usize::MAX), "out of range");
    refused(changed(|manifest| manifest.shard_rows = 1 << 60), "larger than any disk");
    fs::write(&manifest, text).unwrap();
    let maps = maps_path(&path, 1);
    let mut bytes = fs::read(&maps).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&maps, bytes).unwrap();
    refused(GradientStore::open(&path), "the maps of a layer were changed");
}

#[test]
fn a_full_disk_is_an_error_that_leaves_only_whole_shards() {
    let (world, dir) = (World::new("factgrass:9"), tempfile::tempdir().unwrap());
    let path = dir.path().join("s");
    let store = world.store(&path, options()).unwrap();
    let before = files(&path);
    for limit_bytes in [0, 100, 5000, 8300] {
        let options = CacheOptions { limit_bytes: Some(limit_bytes), ..CacheOptions::default() };
        let error = world.fill(&store, options, &mut Silent).unwrap_err();
        let is_full = matches!(&error, AttributeError::Output(OutputError::Full { .. }));
        assert!(is_full && error.to_string().contains("000000.grd"), "{error}");
        assert!(files(&path) == before, "{limit_bytes}: nothing partial");
    }
    world.fill(&store, CacheOptions::default(), &mut Silent).unwrap();
    read(&store).unwrap();
}

#[test]
fn estimates_are_told_before_anything_runs() {
    let (model, texts) = (decoder(), documents(&[9; 20]));
    let map = map_of(&model, "factgrass:16", &|_| true);
    let dir = tempfile::tempdir().unwrap();
    for element in Element::ALL {
        let path = dir.path().join(element.name());
        let sources =
            Sources { network: "w".into(), examples: texts.identity(), count: texts.count() };
        let compressor = ("factgrass:16".parse().unwrap(), KEY);
        let options = StoreOptions { element, ..options() };
        let store = GradientStore::create(&path, &sources, &map, compressor, options).unwrap();
        let told = estimate((&model, &map), &texts, &store).unwrap();
        assert!(told.seconds.0 > 0.0 && told.memory_bytes > map.bytes());
        cache((&model, &map), &texts, &store, CacheOptions::default(), &mut Silent).unwrap();
        let shards = files(&path.join(SHARDS));
        let bytes: usize = shards.values().map(Vec::len).sum();
        assert_eq!((store.shard_bytes(), store.all_shards().unwrap().len()), (bytes as u64, 3));
        assert!(told.disk_bytes >= bytes as u64);
        let done = estimate((&model, &map), &texts, &store).unwrap();
        assert_eq!(done.seconds.0, 0.0, "nothing is left");
    }
}
