use super::*;
use crate::fingerprint::Fingerprint;
use crate::lock;
use std::fs::File;
use std::time::{Duration, SystemTime};

fn key(name: &str) -> PieceKey {
    PieceKey::new("fit", Fingerprint::of(&[("name", &name)]))
}

/// A store in a new folder.
fn new_store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("cache/store")).unwrap();
    (folder, store)
}

fn path_of(store: &Store, key: &PieceKey) -> PathBuf {
    path_in(store.root().unwrap(), key).unwrap()
}

fn aside(path: &Path) -> PathBuf {
    PathBuf::from(format!("{}{DAMAGED}", path.display()))
}

/// Names and contents of all files below a folder, with their times.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>, SystemTime)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            let time = path.metadata().unwrap().modified().unwrap();
            found.push((path.clone(), fs::read(&path).unwrap(), time));
        }
    }
    found.sort();
    found
}

/// Sets the last use of a file or of each file of a directory, in seconds after 1970.
fn use_at(path: &Path, seconds: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            use_at(&entry.unwrap().path(), seconds);
        }
    } else {
        File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    }
}

#[test]
fn pieces_are_found_by_kind_and_fingerprint() {
    let (_folder, store) = new_store();
    let (a, b) = (key("a"), key("b"));
    assert_eq!(store.get(&a).unwrap(), None);
    store.put(&a, &[b"two ", b"parts"]).unwrap();
    assert_eq!(store.get(&a).unwrap().unwrap(), b"two parts");
    store.put(&a, &[]).unwrap();
    assert_eq!(store.get(&a).unwrap().unwrap(), b"");
    let other = PieceKey::new("cell", a.fingerprint().clone());
    for missing in [&b, &other] {
        assert!(!store.contains(missing) && store.get(missing).unwrap().is_none());
    }
    assert!(store.contains(&a) && store.take_notes().is_empty());
    let none = Store::none();
    none.put(&a, &[b"lost"]).unwrap();
    assert!(!none.contains(&a) && none.get(&a).unwrap().is_none());
    assert_eq!(none.entries().unwrap(), []);
}

#[test]
fn json_is_computed_once() {
    let (_folder, store) = new_store();
    let key = key("json");
    let value = vec![0.1, -1.0 / 3.0, 1e-300];
    let computed = || Ok::<_, StoreError>(value.clone());
    let not_again = || -> Result<Vec<f64>, StoreError> { panic!("it is stored") };
    assert_eq!(store.finished(&key, computed).unwrap(), value);
    assert_eq!(store.finished(&key, not_again).unwrap(), value);
    // Valid, but not what this program stores.
    store.put(&key, &[b"{\"of\": 1}"]).unwrap();
    assert_eq!(store.finished(&key, computed).unwrap(), value);
    let notes = store.take_notes();
    assert!(notes.len() == 1 && notes[0].contains("has another form"), "{notes:?}");
    assert_eq!(store.finished(&key, not_again).unwrap(), value);
    assert_eq!(Store::none().finished(&key, computed).unwrap(), value);
}

#[test]
fn every_damage_is_moved_aside_told_and_computed_again() {
    let (_folder, store) = new_store();
    let (piece, other) = (key("piece"), key("other"));
    store.put(&piece, &[b"some payload"]).unwrap();
    store.put(&other, &[b"untouched"]).unwrap();
    let path = path_of(&store, &piece);
    let good = fs::read(&path).unwrap();
    let mut cases: Vec<Vec<u8>> = (0..good.len()).map(|cut| good[..cut].to_vec()).collect();
    cases.extend((0..8 * good.len()).map(|bit| {
        let mut bytes = good.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        bytes
    }));
    cases.push([&good[..], b"\0"].concat());
    cases.push(fs::read(path_of(&store, &other)).unwrap());
    cases.push(b"{\"sha256\": \"\", \"cell\": 1}".to_vec());
    for bytes in cases {
        fs::write(&path, &bytes).unwrap();
        assert_eq!(store.get(&piece).unwrap(), None, "{bytes:?}");
        let notes = store.take_notes();
        let [note] = &notes[..] else { panic!("{notes:?}") };
        let name = &piece.fingerprint().0;
        assert!(note.contains(name) && note.contains("computed again"), "{note}");
        assert_eq!(fs::read(aside(&path)).unwrap(), bytes);
        assert!(!store.contains(&piece));
        fs::write(&path, &good).unwrap();
        assert_eq!(store.get(&piece).unwrap().unwrap(), b"some payload");
        assert_eq!(store.get(&other).unwrap().unwrap(), b"untouched");
    }
    fs::write(&path, b"").unwrap();
    assert_eq!(store.get(&piece).unwrap(), None);
    store.put(&piece, &[b"some payload"]).unwrap();
    assert_eq!(fs::read(&path).unwrap(), good);
    store.take_notes().clear();
    // A folder in its place.
    fs::remove_file(&path).unwrap();
    fs::remove_file(aside(&path)).unwrap();
    fs::create_dir(&path).unwrap();
    assert_eq!(store.get(&piece).unwrap(), None);
    assert!(aside(&path).is_dir() && store.take_notes()[0].contains("a folder"));
    let reject = |_| Err::<(), _>("no fit".to_owned());
    store.put(&other, &[b"of another program"]).unwrap();
    assert_eq!(store.decoded(&other, reject).unwrap(), None);
    assert!(store.take_notes()[0].contains("no fit") && !store.contains(&other));
    assert!(store.take_notes().is_empty());
}

#[test]
fn a_length_that_lies_asks_for_no_memory() {
    let (_folder, store) = new_store();
    let key = key("a");
    store.put(&key, &[b"payload"]).unwrap();
    let path = path_of(&store, &key);
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.len() - 32 - 7 - 8;
    assert_eq!(bytes[at..at + 8], 7u64.to_le_bytes());
    bytes[at..at + 8].copy_from_slice(&u64::MAX.to_le_bytes());
    fs::write(&path, bytes).unwrap();
    assert_eq!(store.get(&key).unwrap(), None);
    assert!(store.take_notes()[0].contains("expected 18446744073709551615"));
}

#[test]
fn other_stores_are_read_and_never_changed() {
    let (_one, shard) = new_store();
    let (_two, other) = new_store();
    let (_three, main) = new_store();
    let (a, b, c) = (key("a"), key("b"), key("c"));
    shard.put(&a, &[b"of the shard"]).unwrap();
    shard.put(&b, &[b"damaged soon"]).unwrap();
    other.put(&b, &[b"whole"]).unwrap();
    let damaged = path_of(&shard, &b);
    let mut bytes = fs::read(&damaged).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&damaged, &bytes).unwrap();
    let roots = [&shard, &other].map(|store| store.root().unwrap().to_owned());
    for root in &roots {
        files(root).iter().for_each(|(path, ..)| use_at(path, 1000));
    }
    let before = roots.each_ref().map(|root| files(root));
    let main = main.reading_also(roots.to_vec());
    assert!(main.contains(&a) && !main.contains(&c));
    assert_eq!(main.get(&a).unwrap().unwrap(), b"of the shard");
    assert_eq!(main.get(&b).unwrap().unwrap(), b"whole");
    let notes = main.take_notes();
    assert!(notes.len() == 1 && notes[0].contains("not used"), "{notes:?}");
    main.put(&a, &[b"own"]).unwrap();
    assert_eq!(main.get(&a).unwrap().unwrap(), b"own");
    main.evict(0).unwrap();
    assert_eq!(roots.each_ref().map(|root| files(root)), before);
    let only = Store::none().reading_also(roots.to_vec());
    assert_eq!(only.get(&a).unwrap().unwrap(), b"of the shard");
    assert_eq!(roots.each_ref().map(|root| files(root)), before);
}

#[test]
fn one_process_at_a_time_does_unfinished_work() {
    let (_folder, store) = new_store();
    let print = Fingerprint::of(&[("work", &1)]);
    let first = store.unfinished(&print, "a sweep of m").unwrap();
    assert!(first.is_new());
    let file = first.file("journal").unwrap();
    fs::write(&file, "half").unwrap();
    let other = Store::open(store.root().unwrap()).unwrap();
    let error = other.unfinished(&print, "a sweep of m").unwrap_err();
    let us = format!("process {}", std::process::id());
    let text = error.to_string();
    assert!(text.contains("a sweep of m") && text.contains(&us), "{text}");
    assert!(matches!(error, StoreError::Busy { process: Some(_), .. }));
    let entries = store.entries().unwrap();
    let State::Unfinished { what, is_busy, process } = &entries[0].state else {
        panic!("{entries:?}")
    };
    assert_eq!((what.as_str(), *is_busy), ("a sweep of m", true));
    assert_eq!(*process, Some(std::process::id()));
    // Neither of these ends the work of a living process.
    assert!(!other.remove(&entries[0]).unwrap());
    assert_eq!(other.evict(0).unwrap().entries, 0);
    let unrelated = other.unfinished(&Fingerprint::of(&[("work", &2)]), "other work").unwrap();
    drop(first);
    let again = other.unfinished(&print, "a sweep of m").unwrap();
    assert!(!again.is_new() && fs::read(&file).unwrap() == b"half");
    again.finish().unwrap();
    drop(unrelated);
    // Neither finished work nor a directory without any work is left.
    assert_eq!(store.entries().unwrap(), []);
    assert!(store.unfinished(&print, "a sweep of m").unwrap().is_new());
    let nothing = Store::none().unfinished(&print, "a sweep of m").unwrap();
    assert!(nothing.is_new() && nothing.path().is_none());
    nothing.finish().unwrap();
}

#[test]
fn work_that_nobody_does_is_removed_and_other_files_are_not() {
    let (_folder, store) = new_store();
    let print = Fingerprint::of(&[("work", &1)]);
    let work = store.unfinished(&print, "training of m").unwrap();
    fs::create_dir(work.file("sub").unwrap()).unwrap();
    fs::write(work.file("sub/checkpoint").unwrap(), [0; 1000]).unwrap();
    drop(work);
    let root = store.root().unwrap();
    let (name, away) = (&print.0, root.join("unfinished/.removed-1-2"));
    fs::create_dir(&away).unwrap();
    fs::write(away.join("left"), "left").unwrap();
    let foreign = [
        root.join("notes.txt"),
        root.join("fit/notes.txt"),
        root.join("fit").join(&name[..2]).join("notes.txt"),
        root.join("unfinished/notes/text"),
        root.join("UPPER/00").join(name),
    ];
    for path in &foreign {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "of a user").unwrap();
    }
    store.put(&key("a"), &[b"a"]).unwrap();
    let fresh = Store::open(root).unwrap();
    let kinds: Vec<String> = fresh.entries().unwrap().into_iter().map(|e| e.kind).collect();
    assert_eq!(kinds, ["fit", "unfinished", "unfinished"]);
    let evicted = fresh.evict(0).unwrap();
    assert_eq!((evicted.entries, evicted.left_bytes), (3, 0));
    assert!(evicted.bytes > 1000);
    assert_eq!(fresh.entries().unwrap(), []);
    assert!(!away.exists() && foreign.iter().all(|path| path.exists()));
}

#[test]
fn eviction_removes_waste_first_and_then_the_least_recently_used() {
    let (_folder, writer) = new_store();
    let root = writer.root().unwrap();
    let keys: Vec<PieceKey> = (0..6).map(|index| key(&index.to_string())).collect();
    for (index, key) in keys.iter().enumerate() {
        writer.put(key, &[&vec![0; 100 * (index + 1)]]).unwrap();
    }
    // The last ones are the oldest.
    let paths: Vec<PathBuf> = keys.iter().map(|key| path_of(&writer, key)).collect();
    paths.iter().zip([60, 50, 40, 30, 20, 10]).for_each(|(path, time)| use_at(path, time));
    fs::rename(&paths[0], aside(&paths[0])).unwrap();
    let partial = paths[1].with_file_name(format!(".{}.partial-1-1", keys[1].fingerprint().0));
    fs::write(&partial, [0; 50]).unwrap();
    let held = partial.with_extension("partial-1-2");
    let lock = File::create(&held).unwrap();
    lock.try_lock().unwrap();
    for all_but in 0..5 {
        let store = Store::open(root).unwrap();
        assert_eq!(store.get(&keys[5]).unwrap().unwrap().len(), 600, "used by this process");
        let before: u64 = store.entries().unwrap().iter().map(|entry| entry.bytes).sum();
        let bound = before - 1;
        let evicted = store.evict(bound).unwrap();
        assert_eq!((evicted.entries, evicted.bytes), (1, before - evicted.left_bytes));
        let left = [&aside(&paths[0]), &partial, &paths[4], &paths[3], &paths[2]];
        let gone = left.iter().filter(|path| !path.exists()).count();
        assert_eq!(gone, all_but + 1);
        // Damaged and partial ones, in either order, before finished ones, oldest first.
        assert!(all_but < 1 || !left[0].exists() && !left[1].exists());
        assert!(left[2..].iter().zip(2..).all(|(path, order)| path.exists() == (order > all_but)));
    }
    let store = Store::open(root).unwrap();
    store.get(&keys[5]).unwrap().unwrap();
    store.get(&keys[1]).unwrap().unwrap();
    assert_eq!(store.evict(0).unwrap().entries, 0, "what this process read stays");
    assert!(held.exists(), "its writer is alive");
}

#[test]
fn a_bounded_store_stays_within_its_bound() {
    let (_folder, filled) = new_store();
    let root = filled.root().unwrap();
    for index in 0..50 {
        filled.put(&key(&format!("old {index}")), &[&[0; 200]]).unwrap();
    }
    let bytes =
        |store: &Store| -> u64 { store.entries().unwrap().iter().map(|entry| entry.bytes).sum() };
    let bound = 10_000;
    assert!(bytes(&filled) > bound);
    let mine = key("first of this process");
    let store = Store::open(root).unwrap().bounded(bound);
    for index in 0..20 {
        store
            .put(&if index == 0 { mine.clone() } else { key(&index.to_string()) }, &[&[1; 200]])
            .unwrap();
        assert!(bytes(&store) <= bound, "after {index}");
    }
    assert!(store.contains(&mine) && store.contains(&key("19")));
    assert!(bytes(&store) > bound / 2, "no more is removed than necessary");
    // Larger than the bound, but in use.
    store.put(&mine, &[&[1; 20_000]]).unwrap();
    assert_eq!(store.get(&mine).unwrap().unwrap().len(), 20_000);
}

#[test]
fn one_key_is_written_and_read_and_evicted_at_once() {
    let (_folder, store) = new_store();
    let root = store.root().unwrap();
    let key = key("same");
    let payload = vec![7; 5000];
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let (key, payload) = (&key, &payload);
            scope.spawn(move || {
                // Stores of their own, as in other processes.
                let store = Store::open(root).unwrap();
                for _ in 0..30 {
                    match thread {
                        0 => drop(Store::open(root).unwrap().evict(0).unwrap()),
                        1..4 => store.put(key, &[payload]).unwrap(),
                        _ => {
                            let found = store.get(key).unwrap();
                            assert!(found.is_none_or(|found| found == *payload));
                        }
                    }
                }
                assert!(store.take_notes().is_empty(), "nothing is damaged");
            });
        }
    });
    store.put(&key, &[&payload]).unwrap();
    assert_eq!(store.get(&key).unwrap().unwrap(), payload);
    let states: Vec<State> = store.entries().unwrap().into_iter().map(|e| e.state).collect();
    assert_eq!(states, [State::Finished]);
}

#[test]
fn keys_that_are_no_file_names_are_refused() {
    let bad = |kind: &'static str, print: &str| {
        let print = Fingerprint(print.to_owned());
        std::panic::catch_unwind(move || PieceKey::new(kind, print)).is_err()
    };
    let good = Fingerprint::of(&[]).0;
    assert!(!bad("fit", &good));
    for kind in ["", "unfinished", "..", "Fit", "a/b"] {
        assert!(bad(kind, &good), "{kind}");
    }
    assert!(bad("fit", "../../../../../../etc/passwd") && bad("fit", ""));
}

#[cfg(unix)]
#[test]
fn a_store_leads_nowhere_else_and_keeps_nobody_waiting() {
    use std::os::unix::fs::symlink;
    let (folder, store) = new_store();
    let root = store.root().unwrap().to_owned();
    // Another store, to which folders of this one are links.
    let other = Store::open(&folder.path().join("elsewhere")).unwrap();
    other.put(&key("a"), &[b"theirs"]).unwrap();
    let work = Fingerprint::of(&[("work", &1)]);
    let theirs = other.unfinished(&work, "their work").unwrap();
    fs::write(theirs.file("journal").unwrap(), "thesis").unwrap();
    drop(theirs);
    let before = files(other.root().unwrap());
    let digits = key("a").fingerprint().0[..2].to_owned();
    let links = ["fit".to_owned(), format!("fit/{digits}"), "unfinished".to_owned()];
    for link in links.iter().chain([&format!("unfinished/{}", work.0)]) {
        let at = root.join(link);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        symlink(other.root().unwrap().join(link), &at).unwrap();
        assert_eq!(store.entries().unwrap(), [], "{link}");
        assert_eq!(store.evict(0).unwrap(), Evicted::default(), "{link}");
        if link.starts_with("fit") {
            for error in [
                store.get(&key("a")).unwrap_err(),
                store.put(&key("a"), &[b"ours"]).unwrap_err(),
                store.forget(&key("a")).unwrap_err(),
            ] {
                assert!(error.to_string().contains("is a link"), "{link}: {error}");
            }
            assert!(!store.contains(&key("a")));
        } else {
            let error = store.unfinished(&work, "our work").unwrap_err().to_string();
            assert!(error.contains("is a link"), "{link}: {error}");
        }
        fs::remove_file(&at).unwrap();
        if at.parent() != Some(&root) {
            fs::remove_dir(at.parent().unwrap()).unwrap();
        }
    }
    // An entry whose folder became a link after it was listed.
    store.put(&key("a"), &[b"ours"]).unwrap();
    let [entry] = &store.entries().unwrap()[..] else { panic!("one entry") };
    fs::rename(root.join("fit"), root.join("old")).unwrap();
    symlink(other.root().unwrap().join("fit"), root.join("fit")).unwrap();
    let error = store.remove(entry).unwrap_err().to_string();
    assert!(error.contains("is a link"), "{error}");
    assert_eq!(files(other.root().unwrap()), before);
}

#[cfg(unix)]
#[test]
fn pipes_and_links_in_the_place_of_files_are_damage() {
    use std::os::unix::fs::symlink;
    let (folder, store) = new_store();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let thesis = folder.path().join("thesis");
        fs::write(&thesis, "thesis").unwrap();
        let pipe = |path: &Path| {
            assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
        };
        let work = Fingerprint::of(&[("work", &1)]);
        let held = store.unfinished(&work, "work").unwrap();
        fs::write(held.file("journal").unwrap(), "lines").unwrap();
        let place = held.path().unwrap().to_owned();
        drop(held);
        for name in [lock::NAME, unfinished::WHAT] {
            for kind in ["pipe", "link"] {
                fs::remove_file(place.join(name)).unwrap();
                if kind == "pipe" {
                    pipe(&place.join(name));
                } else {
                    symlink(&thesis, place.join(name)).unwrap();
                }
                let [entry] = &store.entries().unwrap()[..] else { panic!("one entry") };
                assert!(matches!(entry.state, State::Unfinished { is_busy: false, .. }));
                let error = store.unfinished(&work, "work").unwrap_err().to_string();
                assert!(error.contains(&format!("is a {kind}")), "{name}: {error}");
            }
            if name == lock::NAME {
                let [entry] = &store.entries().unwrap()[..] else { panic!("one entry") };
                assert!(store.remove(entry).unwrap() && !place.exists());
                let held = store.unfinished(&work, "work").unwrap();
                fs::write(held.file("journal").unwrap(), "lines").unwrap();
            }
        }
        for kind in ["pipe", "link"] {
            let path = path_of(&store, &key("a"));
            store.put(&key("a"), &[b"piece"]).unwrap();
            fs::remove_file(&path).unwrap();
            if kind == "pipe" {
                pipe(&path);
            } else {
                symlink(&thesis, &path).unwrap();
            }
            assert_eq!(store.get(&key("a")).unwrap(), None);
            let [note] = &store.take_notes()[..] else { panic!("a note") };
            assert!(
                note.contains(&format!("is a {kind}")) && note.contains("moved aside"),
                "{note}"
            );
        }
        let removed = store.evict(0).unwrap();
        assert!(removed.left_bytes == 0 && store.entries().unwrap().is_empty(), "{removed:?}");
        assert_eq!(fs::read(&thesis).unwrap(), b"thesis");
        sender.send(()).unwrap();
    });
    let done = receiver.recv_timeout(Duration::from_secs(60));
    done.expect("nobody waits for a pipe");
}
