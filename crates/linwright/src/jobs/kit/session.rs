//! What a job runs in: progress, cancellation, environment, and the build for provenance.

use super::Failure;
use super::inputs::{InputHash, hash, is_data};
use super::record::{Machine, MeasuredFile, pretty};
use super::source::cache_home_of;
use super::verb::RECIPE_VERSION;
use crate::pocket::{Unpacked, unpack};
use linwright_evaluate::{Build, TaskResult, provenance, provenance_of};
use linwright_files::{MEASURED, hub};
use linwright_model::checkpoint::LoadedModel;
use linwright_run::atomic::AtomicDir;
use linwright_run::memory::peak_resident_bytes;
use linwright_run::team::{Alone, Team};
use linwright_run::{Monitor, Provenance, Shard, StepTime, Store};
use linwright_tensor::parallel;
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// What the program that runs jobs provides.
#[derive(Clone, Copy)]
pub struct Host<'a> {
    /// Reads a variable of the environment.
    pub variable: &'a dyn Fn(&str) -> Option<OsString>,
    /// Whether the user asked to stop.
    pub cancelled: &'a dyn Fn() -> bool,
    /// The program, for provenance.
    pub build: Build<'static>,
}

/// The surroundings of a running job.
pub struct Session<'a> {
    monitor: &'a mut dyn Monitor,
    host: Host<'a>,
    /// The job as a recipe, for provenance.
    job: Map<String, Value>,
    /// What the job reads, with hashes.
    data: Vec<InputHash>,
    /// What was hashed in this session: jobs of a recipe read the same files.
    hashed: Vec<InputHash>,
    /// Whether the report is shown or written; it can be larger than the result.
    wants_report: bool,
    /// The share of the work that this process does.
    shard: Shard,
    /// The processes that do the job together.
    team: Rc<dyn Team + 'a>,
    /// Directories of shards, whose finished pieces are read.
    sources: Vec<PathBuf>,
    /// Where the job puts results beside its output, by the key of the option.
    places: Map<String, Value>,
    /// Folder of the run: names below it are recorded without it.
    folder: Option<PathBuf>,
    /// The files of the built-in model, from first use until the end of the session.
    built_in: Option<Unpacked>,
    /// Whether what an interrupted command had done is left alone.
    starts_anew: bool,
    /// A store in place of the user's, for this session alone.
    own_store: Option<AtomicDir>,
    /// The stores that were opened.
    stores: RefCell<Vec<Store>>,
}

impl<'a> Session<'a> {
    /// A session.
    pub fn new(monitor: &'a mut dyn Monitor, host: Host<'a>) -> Self {
        Self {
            monitor,
            host,
            job: Map::new(),
            data: Vec::new(),
            hashed: Vec::new(),
            wants_report: true,
            shard: Shard::WHOLE,
            team: Rc::new(Alone),
            sources: Vec::new(),
            places: Map::new(),
            folder: None,
            built_in: None,
            starts_anew: false,
            own_store: None,
            stores: RefCell::default(),
        }
    }

    /// The session of one of several processes that divide the work of a job.
    #[must_use]
    pub fn with_shard(mut self, shard: Shard) -> Self {
        self.shard = shard;
        self
    }

    /// The session of one of several processes that do a job together, and exchange what they find.
    /// The first alone writes the result.
    #[must_use]
    pub fn with_team(mut self, team: &'a dyn Team) -> Self {
        self.join(Rc::new(team));
        self
    }

    /// From now on this process is a member of a team.
    pub(crate) fn join(&mut self, team: Rc<dyn Team + 'a>) {
        self.team = team;
    }

    /// The processes that do the job together.
    #[must_use]
    pub fn team(&self) -> Rc<dyn Team + 'a> {
        Rc::clone(&self.team)
    }

    /// The session of a program that shows no report, so that none need be made.
    #[must_use]
    pub fn without_report(mut self) -> Self {
        self.wants_report = false;
        self
    }

    /// Whether the report is shown or written.
    pub(crate) fn wants_report(&self) -> bool {
        self.wants_report
    }

    /// From now on the report is written to a directory.
    pub(crate) fn want_report(&mut self) {
        self.wants_report = true;
    }

    /// The share of the work that this process does.
    #[must_use]
    pub fn shard(&self) -> Shard {
        self.shard
    }

    /// The share of the work, which a recipe divides by itself: its jobs then run whole.
    pub(crate) fn take_shard(&mut self) -> Shard {
        std::mem::take(&mut self.shard)
    }

    /// Gives the share of the work back after [`Self::take_shard`].
    pub(crate) fn dividing(&mut self, shard: Shard) -> &Self {
        self.shard = shard;
        self
    }

    /// Directories of shards, whose finished pieces are read.
    #[must_use]
    pub fn sources(&self) -> &[PathBuf] {
        &self.sources
    }

    /// Reads the finished pieces of these directories from now on.
    pub(crate) fn read_from(&mut self, sources: Vec<PathBuf>) {
        self.sources = sources;
    }

    /// Records a job, as a recipe, in what is written from now on, and the folder of the run below
    /// which its inputs and outputs are.
    pub(crate) fn record(&mut self, job: Map<String, Value>, folder: Option<&Path>) {
        self.job = job;
        self.folder = folder.map(Path::to_owned);
    }

    /// Records where the job puts results beside its output.
    pub(crate) fn record_places(&mut self, places: Map<String, Value>) {
        self.places = places;
    }

    /// Where the job puts results beside its output, by the key of the option.
    pub(crate) fn places(&self) -> &Map<String, Value> {
        &self.places
    }

    /// From now on jobs use nothing that an interrupted command had done and, with a store of their
    /// own, no finished pieces of earlier commands.
    pub(crate) fn start_anew(&mut self, own_store: Option<AtomicDir>) {
        (self.starts_anew, self.own_store) = (true, own_store);
    }

    /// Whether what an interrupted command had done is left alone.
    pub(crate) fn starts_anew(&self) -> bool {
        self.starts_anew
    }

    /// The directory of the store in place of the user's, if there is one.
    pub(crate) fn own_store(&self) -> Option<&Path> {
        self.own_store.as_ref().map(AtomicDir::path)
    }

    /// Remembers an opened store.
    pub(crate) fn opened(&self, store: &Store) {
        self.stores.borrow_mut().push(store.clone());
    }

    /// Number of finished pieces that were found in stores, so that they were not computed.
    pub(crate) fn pieces_found(&self) -> u64 {
        self.stores.borrow().iter().map(Store::found).sum()
    }

    /// Records an option that was chosen for the user, so that the recorded job has it.
    pub(crate) fn record_choice(&mut self, verb: &str, option: &str, value: Value) {
        if let Some(Value::Object(options)) = self.job.get_mut(verb) {
            options.insert(option.to_owned(), value);
        }
    }

    /// Records the files that a job reads.
    ///
    /// # Errors
    /// [`Failure`] if a file cannot be read.
    pub(crate) fn record_inputs(&mut self, inputs: &[PathBuf]) -> Result<(), Failure> {
        let below =
            |path: &&PathBuf| self.folder.as_ref().is_none_or(|folder| !path.starts_with(folder));
        let outside: Vec<PathBuf> =
            inputs.iter().filter(below).filter(|path| is_data(path)).cloned().collect();
        self.data = self.hashes(&outside)?;
        Ok(())
    }

    /// Records what a recipe reads, with hashes.
    pub(crate) fn record_data(&mut self, data: Vec<InputHash>) {
        self.data = data;
    }

    /// Hashes of inputs, each once.
    ///
    /// # Errors
    /// [`Failure`] if a file cannot be read.
    pub(crate) fn hashes(&mut self, inputs: &[PathBuf]) -> Result<Vec<InputHash>, Failure> {
        let mut found: Vec<InputHash> = Vec::new();
        for path in inputs {
            if found.iter().any(|other| other.path == *path) {
                continue;
            }
            if let Some(known) = self.hashed.iter().find(|known| known.path == *path) {
                found.push(known.clone());
                continue;
            }
            let hash = hash(path)?;
            self.hashed.push(hash.clone());
            found.push(hash);
        }
        Ok(found)
    }

    /// What the job reads, with hashes.
    #[must_use]
    pub fn data(&self) -> &[InputHash] {
        &self.data
    }

    /// Whether a job is recorded.
    pub(crate) fn has_record(&self) -> bool {
        !self.job.is_empty()
    }

    /// The recorded job.
    #[must_use]
    pub fn job(&self) -> &Map<String, Value> {
        &self.job
    }

    /// A path or name without the folder of the run.
    #[must_use]
    pub fn portable(&self, name: impl AsRef<Path>) -> String {
        let name = name.as_ref();
        let below = self.folder.as_ref().and_then(|folder| name.strip_prefix(folder).ok());
        below.filter(|below| *below != Path::new("")).unwrap_or(name).display().to_string()
    }

    /// Files that a directory of results holds beside them: the job as a recipe, and times and
    /// machine in a file of their own.
    ///
    /// # Errors
    /// [`Failure`] if the job cannot be written as YAML.
    pub fn files_beside(&self, measured: &Value) -> Result<Vec<(String, Vec<u8>)>, Failure> {
        let mut recipe = Map::from_iter([("version".to_owned(), RECIPE_VERSION.into())]);
        recipe.extend(self.job.clone());
        let recipe = to_yaml(&Value::Object(recipe))?;
        let machine = Machine {
            commit: self.host.build.commit,
            device: format!("cpu ({})", parallel::instruction_set()),
            threads: parallel::threads(),
            peak_resident_bytes: peak_resident_bytes(),
        };
        Ok(vec![
            ("recipe.yaml".to_owned(), recipe.into_bytes()),
            (MEASURED.to_owned(), pretty(&MeasuredFile { machine, measured })?),
        ])
    }

    /// A line for the user.
    pub fn note(&self, line: &str) {
        self.monitor.note(line);
    }

    /// Notes on damaged pieces of a store.
    pub(crate) fn tell_damage(&self, store: &Store) {
        store.take_notes().iter().for_each(|note| self.note(&format!("note: {note}")));
    }

    /// A line about a choice and its reason, if details are wanted.
    pub fn detail(&self, line: impl FnOnce() -> String) {
        self.at_level(1, line);
    }

    /// A line about each fit or file, if they are wanted.
    pub fn trace(&self, line: impl FnOnce() -> String) {
        self.at_level(2, line);
    }

    fn at_level(&self, level: u8, line: impl FnOnce() -> String) {
        if self.monitor.detail_level() >= level {
            self.monitor.note(&format!("  {}", line()));
        }
    }

    /// Whether the user asked to stop; independent of the session, for callbacks.
    pub fn cancelled(&self) -> &'a dyn Fn() -> bool {
        self.host.cancelled
    }

    /// A variable of the environment.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<OsString> {
        (self.host.variable)(name)
    }

    /// Reads variables of the environment; independent of the session, for callbacks.
    pub fn variables(&self) -> &'a dyn Fn(&str) -> Option<OsString> {
        self.host.variable
    }

    /// The user's cache directory; none if the environment names no absolute directory.
    #[must_use]
    pub fn cache_home(&self) -> Option<PathBuf> {
        cache_home_of(self.host.variable)
    }

    /// The program.
    #[must_use]
    pub fn build(&self) -> Build<'static> {
        self.host.build
    }

    /// The folder of the built-in model.
    ///
    /// # Errors
    /// [`Failure`] if this build has none, or it can be unpacked nowhere.
    pub fn built_in_folder(&mut self) -> Result<PathBuf, Failure> {
        if let Some(unpacked) = &self.built_in {
            return Ok(unpacked.path().to_owned());
        }
        let unpacked = unpack(self.cache_home().as_deref())?;
        if let Some(why) = unpacked.why_not_kept() {
            self.note(&format!(
                "note: the built-in model was unpacked for this run alone: {why}; set XDG_CACHE_HOME to a \
                 folder that can be written"
            ));
        }
        Ok(self.built_in.insert(unpacked).path().to_owned())
    }

    /// Provenance of results of a command.
    #[must_use]
    pub fn provenance(
        &self,
        command: &str,
        loaded: &LoadedModel,
        results: &[TaskResult],
    ) -> Provenance {
        Provenance { recipe: command.to_owned(), ..provenance(self.host.build, loaded, results) }
    }

    /// As [`Self::provenance`], for a network in f32 whose weights have this SHA-256.
    pub(crate) fn provenance_of(
        &self,
        command: &str,
        model_sha256: &str,
        results: &[TaskResult],
    ) -> Provenance {
        let provenance = provenance_of(self.host.build, model_sha256, "f32".into(), results);
        Provenance { recipe: command.to_owned(), ..provenance }
    }

    /// Calls `work` with the hooks of a download.
    pub fn with_hub_hooks<R>(&mut self, work: impl FnOnce(hub::Hooks<'_>) -> R) -> R {
        let cancelled = self.host.cancelled;
        let monitor = RefCell::new(&mut *self.monitor);
        work(hub::Hooks {
            step: &mut |name| monitor.borrow_mut().step(name),
            progress: &mut |done, total| monitor.borrow_mut().progress(done, total),
            cancelled,
        })
    }
}

impl Monitor for Session<'_> {
    fn step(&mut self, name: &str) {
        self.monitor.step(name);
    }

    fn progress(&mut self, done: u64, total: u64) {
        self.monitor.progress(done, total);
    }

    fn whole(&mut self, share: f64) {
        self.monitor.whole(share);
    }

    fn interrupted(&self) -> bool {
        (self.host.cancelled)() || self.monitor.interrupted()
    }

    fn seconds(&self) -> f64 {
        self.monitor.seconds()
    }

    fn note(&self, line: &str) {
        self.monitor.note(line);
    }

    fn detail_level(&self) -> u8 {
        self.monitor.detail_level()
    }

    fn finish(&mut self) -> Vec<StepTime> {
        self.monitor.finish()
    }
}

/// A value as YAML.
///
/// # Errors
/// [`Failure`] if the writer of YAML refuses it.
pub fn to_yaml(value: &Value) -> Result<String, Failure> {
    serde_saphyr::to_string(value)
        .map_err(|error| Failure::general(format!("cannot write YAML: {error}")))
}
