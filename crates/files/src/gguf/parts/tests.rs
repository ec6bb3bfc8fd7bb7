use super::*;
use std::fs;

/// A folder with the parts of a small model.
fn folder() -> (tempfile::TempDir, Vec<PathBuf>) {
    let parts = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/gguf/split"));
    let dir = tempfile::tempdir().unwrap();
    let mut names: Vec<_> = parts.read_dir().unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    let copy = |name: &std::ffi::OsString| {
        let path = dir.path().join(name);
        fs::copy(parts.join(name), &path).unwrap();
        path
    };
    let paths = names.iter().map(copy).collect();
    (dir, paths)
}

/// Changes the value of a key of two bytes.
fn set(path: &Path, key: &str, value: u16) {
    let mut bytes = fs::read(path).unwrap();
    let at = bytes.windows(key.len()).position(|window| window == key.as_bytes()).unwrap();
    // The name, a type of four bytes, the value.
    let at = at + key.len() + 4;
    bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
    fs::write(path, bytes).unwrap();
}

fn refused(path: &Path) -> String {
    GgufFile::open(path).map(|_| ()).unwrap_err().to_string()
}

#[test]
fn any_part_opens_all_of_them() {
    let (_dir, paths) = folder();
    let whole = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/gguf/models"));
    let whole = GgufFile::open(&whole.join("mistral.gguf")).unwrap();
    for path in &paths {
        let parts = GgufFile::open(path).unwrap();
        assert_eq!(parts.paths().count(), 3);
        let (own, other) = (parts.header(), whole.header());
        assert_eq!(
            own.metadata.keys().collect::<Vec<_>>(),
            other.metadata.keys().collect::<Vec<_>>()
        );
        assert_eq!(own.tensors.len(), other.tensors.len());
        for (name, tensor) in &own.tensors {
            let same = &other.tensors[name];
            assert_eq!((tensor.dtype, &tensor.shape), (same.dtype, &same.shape), "{name}");
            let bytes = &parts.part(tensor.part)[tensor.bytes.clone()];
            assert_eq!(bytes, &whole.part(0)[same.bytes.clone()], "{name}");
        }
    }
    assert_eq!(one_split_model(&paths), Some(paths[0].as_path()));
    assert_eq!(one_split_model(&paths[1..]), Some(paths[1].as_path()));
    let mixed = [paths[0].clone(), paths[0].with_file_name("other.gguf")];
    assert_eq!(one_split_model(&mixed), None);
    let two = [paths[0].clone(), paths[0].with_file_name("other-00001-of-00003.gguf")];
    assert_eq!(one_split_model(&two), None);
}

#[test]
fn what_is_wrong_with_parts_names_the_part() {
    let (_dir, paths) = folder();
    fs::remove_file(&paths[1]).unwrap();
    for given in [&paths[0], &paths[2]] {
        let error = refused(given);
        assert!(error.contains("mistral-00002-of-00003.gguf: part 2 of 3"), "{error}");
        assert!(error.contains("is missing; put it beside"), "{error}");
    }
    type Change<'a> = &'a dyn Fn(&[PathBuf]);
    let cases: [(Change<'_>, &str); 8] = [
        // Two parts that are the same file.
        (
            &|p| drop(fs::copy(&p[0], &p[1])),
            "00002-of-00003.gguf: the file is part 1 of 3, expected part 2 of 3",
        ),
        (
            &|p| set(&p[1], "split.no", 2),
            "00002-of-00003.gguf: the file is part 3 of 3, expected part 2 of 3",
        ),
        (
            &|p| set(&p[1], "split.count", 4),
            "00002-of-00003.gguf: the file is part 2 of 4, expected part 2 of 3",
        ),
        (
            &|p| set(&p[2], "split.tensors.count", 9),
            "00003-of-00003.gguf: the file is a part of a model of 9 tensors",
        ),
        (&|p| set(&p[0], "split.no", 3), "key split.no is 3, expected a number below split.count"),
        (&|p| fs::write(&p[1], b"GGUF").unwrap(), "00002-of-00003.gguf"),
        (
            &|p| drop(fs::copy(p[0].with_file_name("whole.gguf"), &p[1])),
            "the file is a whole model, expected part 2 of 3",
        ),
        (
            &|p| p.iter().for_each(|p| set(p, "split.tensors.count", 9)),
            "hold 21 tensors, expected 9",
        ),
    ];
    let whole = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/gguf/models"));
    for (change, said) in cases {
        let (dir, paths) = folder();
        fs::copy(whole.join("mistral.gguf"), dir.path().join("whole.gguf")).unwrap();
        change(&paths);
        let error = refused(&paths[0]);
        assert!(error.contains(said), "{said}: {error}");
    }
    // A part of another model with the same numbers: its tensors are there already.
    let (_dir, paths) = folder();
    fs::copy(&paths[0], &paths[1]).unwrap();
    set(&paths[1], "split.no", 1);
    let error = refused(&paths[2]);
    assert!(error.contains("is also in part 1; these are not parts of one model"), "{error}");
    // A part under another name cannot find the others.
    let (dir, paths) = folder();
    let renamed = dir.path().join("model.gguf");
    fs::rename(&paths[0], &renamed).unwrap();
    let error = refused(&renamed);
    assert!(error.contains("expected a name such as NAME-00001-of-00003.gguf"), "{error}");
}
