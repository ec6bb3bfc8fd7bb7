//! Checks of output paths: never an input, and only results of this program are replaced.

use crate::atomic::is_stream;
use crate::state;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::{Component, Path, PathBuf};

/// Bytes of a page in which its generator is searched for.
const PAGE_BYTES: u64 = 1 << 12;
/// Longest first line of a samples file.
const LINE_BYTES: u64 = 1 << 24;

/// Generator tag of pages of this program.
const GENERATOR: &str = "<meta name=\"generator\" content=\"linwright";

/// An output path that may not be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("output {} {what}", path.display())]
pub struct PlaceError {
    /// The path.
    pub path: PathBuf,
    /// The reason.
    pub what: String,
}

/// Rejects a path that is an input, contains one or is inside one, or is or contains the home or
/// the working directory. Links are followed.
///
/// # Errors
/// [`PlaceError`] saying which.
pub fn check_place(path: &Path, inputs: &[PathBuf], home: Option<&Path>) -> Result<(), PlaceError> {
    check_inputs(path, inputs)?;
    let Some(output) = resolved(path) else { return Ok(()) };
    let refused = |what: &str| Err(PlaceError { path: path.to_owned(), what: what.into() });
    let home = home.and_then(|home| home.canonicalize().ok());
    if home.is_some_and(|home| home.starts_with(&output)) {
        return refused("is the home directory, or contains it");
    }
    let here = Path::new(".").canonicalize();
    if here.is_ok_and(|here| here.starts_with(&output)) {
        return refused("is the working directory, or contains it");
    }
    Ok(())
}

/// Rejects a path that is an input, contains one or is inside one. Links are followed.
///
/// # Errors
/// [`PlaceError`] saying which.
pub fn check_inputs(path: &Path, inputs: &[PathBuf]) -> Result<(), PlaceError> {
    let Some(output) = resolved(path) else { return Ok(()) };
    let refused = |what: String| Err(PlaceError { path: path.to_owned(), what });
    for input in inputs {
        let Ok(found) = input.canonicalize() else { continue };
        let shown = input.display();
        if found == output || is_same_file(&found, &output) {
            return refused(format!("is the input {shown}"));
        }
        if found.starts_with(&output) {
            return refused(format!("contains the input {shown}"));
        }
        // A path below a file is reported by the check of the output.
        if output.starts_with(&found) && found.is_dir() {
            return refused(format!("is inside the input {shown}"));
        }
    }
    Ok(())
}

/// An output of a command that has several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The option that names it.
    pub option: String,
    /// Its path.
    pub path: PathBuf,
    /// Whether it is a folder to which files are added, keeping others.
    pub is_shared: bool,
}

/// Rejects two outputs of one command with the same path, or one inside the other. Links are
/// followed; a pipe or a terminal may be used for several.
///
/// # Errors
/// [`PlaceError`] naming both options.
pub fn check_apart(outputs: &[Output]) -> Result<(), PlaceError> {
    let places = outputs.iter().filter(|output| !is_stream(&output.path));
    let places = places.filter_map(|output| Some((output, resolved(&output.path)?)));
    let places: Vec<_> = places.collect();
    for (index, (output, place)) in places.iter().enumerate() {
        for (other, other_place) in &places[..index] {
            let (option, shown) = (&output.option, other.path.display());
            let what = if place == other_place || is_same_file(place, other_place) {
                format!("of {option} is that of {} as well", other.option)
            } else if place.starts_with(other_place) && !other.is_shared {
                format!("of {option} is inside {shown} of {}", other.option)
            } else if other_place.starts_with(place) && !output.is_shared {
                format!("of {option} contains {shown} of {}", other.option)
            } else {
                continue;
            };
            return Err(PlaceError { path: output.path.clone(), what });
        }
    }
    Ok(())
}

/// A path below the directory of a run, from a path in a recipe.
///
/// # Errors
/// [`PlaceError`] if it is empty or absolute, or leaves the directory by `..`.
pub fn below(given: &str) -> Result<PathBuf, PlaceError> {
    let refused = |what: &str| Err(PlaceError { path: given.into(), what: what.into() });
    let mut path = PathBuf::new();
    for part in Path::new(given).components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::ParentDir => return refused("leaves the directory of the run by .."),
            Component::RootDir | Component::Prefix(_) => return refused("is an absolute path"),
        }
    }
    match path.as_os_str().is_empty() {
        true => refused("is not below the directory of the run"),
        false => Ok(path),
    }
}

/// Rejects a path below a directory if it is a link or goes through one: the file would be written
/// elsewhere.
///
/// # Errors
/// [`PlaceError`] naming the link.
pub fn check_links(directory: &Path, below: &Path) -> Result<(), PlaceError> {
    let mut path = directory.to_owned();
    for part in below.components() {
        path.push(part);
        if path.is_symlink() {
            let what = "is a link, which may leave the directory of the run".into();
            return Err(PlaceError { path, what });
        }
    }
    Ok(())
}

/// Whether two paths refer to the same place.
#[must_use]
pub fn is_same(one: &Path, other: &Path) -> bool {
    let place = resolved(one);
    place.is_some() && place == resolved(other)
}

/// The path with links resolved; its end need not exist. `None` if no part of it exists, which is
/// reported by the check of the output.
fn resolved(path: &Path) -> Option<PathBuf> {
    let (mut known, mut missing) = (path, Vec::new());
    loop {
        let here = if known.as_os_str().is_empty() { Path::new(".") } else { known };
        if let Ok(mut found) = here.canonicalize() {
            // Parts that do not exist yet contain no links.
            missing.iter().rev().for_each(|part| match *part == Component::ParentDir {
                true => drop(found.pop()),
                false => found.push(part),
            });
            return Some(found);
        }
        missing.push(known.components().next_back()?);
        known = known.parent()?;
    }
}

/// Whether two paths are the same file, such as hard links.
#[cfg(unix)]
fn is_same_file(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let id = |path: &Path| path.metadata().ok().map(|data| (data.dev(), data.ino()));
    id(one).is_some_and(|found| id(other) == Some(found))
}

#[cfg(not(unix))]
fn is_same_file(_: &Path, _: &Path) -> bool {
    false
}

/// Keys of an object. Results and samples of this program have its name as a key.
type Fields = BTreeMap<String, IgnoredAny>;

/// Whether a file is a result of this program.
#[must_use]
pub fn is_result(path: &Path) -> bool {
    let read = |file| serde_json::from_reader::<_, Fields>(BufReader::new(file)).ok();
    state::open(path).ok().and_then(read).is_some_and(|fields| fields.contains_key("linwright"))
}

/// Whether a file is an HTML page of this program.
#[must_use]
pub fn is_page(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = state::open(path).and_then(|file| file.take(PAGE_BYTES).read_to_end(&mut start));
    read.is_ok() && start.windows(GENERATOR.len()).any(|part| part == GENERATOR.as_bytes())
}

/// Whether a file contains samples of this program, by its first line.
#[must_use]
pub fn is_samples(path: &Path) -> bool {
    let mut line = Vec::new();
    let read = state::open(path)
        .and_then(|file| BufReader::new(file.take(LINE_BYTES)).read_until(b'\n', &mut line));
    let fields = read.ok().and_then(|_| serde_json::from_slice::<Fields>(&line).ok());
    fields.is_some_and(|fields| fields.contains_key("linwright"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn inputs_are_found_under_any_name() {
        let dir = tempfile::tempdir().unwrap();
        let model = dir.path().join("models/m");
        fs::create_dir_all(&model).unwrap();
        fs::write(model.join("config.json"), "{}").unwrap();
        let text = dir.path().join("t.txt");
        fs::write(&text, "text").unwrap();
        let hard = dir.path().join("hard.txt");
        fs::hard_link(&text, &hard).unwrap();
        let inputs = [model.clone(), text.clone()];
        #[cfg(unix)]
        let link = dir.path().join("link");
        #[cfg(unix)]
        std::os::unix::fs::symlink(&model, &link).unwrap();
        for (output, word) in [
            (text, "is the input"),
            (hard, "is the input"),
            (model.join("../m"), "is the input"),
            (dir.path().join("models"), "contains the input"),
            (PathBuf::from("."), "working directory"),
            (PathBuf::from("/"), "contains the input"),
            (model.join("result.json"), "is inside the input"),
            (model.join("config.json"), "is inside the input"),
            (model.join("new/folder/result.json"), "is inside the input"),
            (dir.path().join("new/../models/m/result.json"), "is inside the input"),
            #[cfg(unix)]
            (link.join("result.json"), "is inside the input"),
            #[cfg(unix)]
            (link, "is the input"),
        ] {
            let error = format!("{:?}", check_place(&output, &inputs, None).unwrap_err());
            assert!(error.contains(word), "{}: {error}", output.display());
        }
        check_place(&dir.path().join("models/other"), &inputs, None).unwrap();
        check_place(&dir.path().join("models/m2/new/result.json"), &inputs, None).unwrap();
    }

    #[test]
    fn outputs_of_one_command_are_apart() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("a")).unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(dir.path().join("a"), dir.path().join("link")).unwrap();
        let checked = |one: &str, other: &str| {
            let of = |option: &str, path: &str| {
                let is_shared = option == "--samples";
                Output { option: option.into(), path: dir.path().join(path), is_shared }
            };
            check_apart(&[of("--output", one), of("--html", other), of("--samples", "shared")])
        };
        for (one, other, words) in [
            ("a", "a", "of --html is that of --output as well"),
            ("new", "a/../new", "is that of --output"),
            ("new", "new/x", "of --html is inside"),
            ("shared", "new", "of --samples is that of --output"),
            ("a", "shared/../shared", "of --samples is that of --html"),
            ("new/x/y", "new", "of --html contains"),
            #[cfg(unix)]
            ("a", "link/x", "is inside"),
            #[cfg(unix)]
            ("link", "a", "is that of --output"),
        ] {
            let error = checked(one, other).unwrap_err().to_string();
            assert!(error.contains(words), "{one} {other}: {error}");
        }
        for (one, other) in [("a", "ab"), ("new", "new.html"), ("a/x", "shared/y")] {
            checked(one, other).unwrap();
        }
        #[cfg(unix)]
        checked("/dev/null", "/dev/null").unwrap();
    }

    #[test]
    fn places_of_a_recipe_stay_below_its_directory() {
        for (given, expected) in
            [("a.html", "a.html"), ("./pages//a.html", "pages/a.html"), ("..a", "..a")]
        {
            assert_eq!(below(given), Ok(expected.into()), "{given}");
        }
        for (given, word) in [
            ("", "is not below"),
            (".", "is not below"),
            ("./", "is not below"),
            ("/a", "absolute"),
            ("..", "by .."),
            ("a/../../b", "by .."),
            ("a/..", "by .."),
        ] {
            let error = below(given).unwrap_err().to_string();
            assert!(error.contains(word), "{given}: {error}");
        }
    }

    #[test]
    #[cfg(unix)]
    fn links_below_the_directory_of_a_run_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("run");
        fs::create_dir_all(run.join("real")).unwrap();
        std::os::unix::fs::symlink(dir.path(), run.join("out")).unwrap();
        std::os::unix::fs::symlink("nowhere", run.join("dangling")).unwrap();
        for fine in ["real/a", "new/b", "c"] {
            check_links(&run, Path::new(fine)).unwrap();
        }
        for link in ["out", "out/a", "real/../out", "dangling", "dangling/a"] {
            let error = check_links(&run, Path::new(link)).unwrap_err().to_string();
            assert!(error.contains("is a link"), "{link}: {error}");
        }
    }

    #[test]
    fn our_files_are_told_from_others() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let recognised = |content: &str, of: fn(&Path) -> bool| {
            fs::write(&path, content).unwrap();
            of(&path)
        };
        assert!(recognised("{\"results\": {}, \"linwright\": {\"schema\": 1}}", is_result));
        for other in ["", "{}", "[\"linwright\"]", "linwright", "{\"model_source\": \"linwright\"}"]
        {
            assert!(!recognised(other, is_result), "{other}");
        }
        assert!(recognised("<html><meta name=\"generator\" content=\"linwright 0.1\">", is_page));
        assert!(!recognised(
            "<html><meta name=\"generator\" content=\"pandoc\">linwright",
            is_page
        ));
        let sample = "{\"doc_id\": 0, \"doc\": {}, \"linwright\": \"0.1.0\"}\n";
        assert!(recognised(&sample.repeat(2), is_samples));
        for other in ["", "{}\n", "{\"doc_id\": 0}\n", "{\"text\": \"doc_id\"}\n"] {
            assert!(!recognised(other, is_samples), "{other}");
        }
    }
}
