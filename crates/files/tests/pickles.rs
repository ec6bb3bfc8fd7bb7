//! Files of `torch.save`: what PyTorch writes is read with its numbers, and what would run code,
//! or is damaged, is refused with a reason. The files are made by `tools/golden/pickles.py`.

use linwright_files::{FileError, TensorFile, archived_files};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/pickles").join(name)
}

fn open(name: &str) -> Result<TensorFile, FileError> {
    TensorFile::open(&folder(name))
}

#[test]
fn every_number_that_torch_saved_is_read() {
    let reference = open("good/reference.safetensors").unwrap();
    let mut files = BTreeSet::new();
    for (name, expected) in reference.tensors() {
        let (stem, tensor) = name.split_once('/').unwrap();
        let file = open(&format!("good/{stem}.pt")).unwrap();
        let shape = &expected.shape;
        let found = file.read(tensor, shape).unwrap_or_else(|error| panic!("{name}: {error}"));
        let wanted = reference.read(name, shape).unwrap();
        assert_eq!(found.values, wanted.values, "{name}");
        if let [rows, cols] = shape[..] {
            let some = file.read_rows(tensor, [rows, cols], rows / 2..rows).unwrap();
            assert_eq!(some, wanted.values[rows / 2 * cols..], "{name}");
        }
        files.insert(stem.to_owned());
    }
    assert_eq!(files.len(), 13, "{files:?}");
}

#[test]
fn shared_and_turned_tensors_are_named_by_their_numbers() {
    let plain = open("good/plain.pt").unwrap().read("w", &[3, 4]).unwrap();
    let legacy = open("good/legacy.pt").unwrap().read("w", &[3, 4]).unwrap();
    assert_eq!(plain.digest, legacy.digest);
    for name in ["good/tied.pt", "good/tied_legacy.pt"] {
        let tied = open(name).unwrap();
        let places = &tied.tensors();
        assert_eq!(places["embedding"].bytes, places["head"].bytes);
        assert_eq!(places["part"].bytes.start, places["embedding"].bytes.start + 6 * 4);
        let [a, b] = ["embedding", "head"].map(|name| tied.read(name, &[4, 6]).unwrap());
        assert_eq!(a.digest, b.digest);
    }
    let strided = open("good/strided.pt").unwrap();
    let across = strided.tensors().values().filter(|info| info.strides.is_some()).count();
    assert_eq!(across, strided.tensors().len());
}

#[test]
fn types_that_are_no_weights_are_refused_by_name() {
    let file = open("good/types.pt").unwrap();
    let mut refused = 0;
    for (name, info) in file.tensors() {
        if info.dtype.float().is_none() {
            let error = file.read(name, &[5]).unwrap_err();
            assert!(matches!(error, FileError::TensorType { .. }), "{error}");
            let message = error.to_string();
            assert!(message.contains(info.dtype.name()) && message.contains("dequantised"));
            refused += 1;
        }
    }
    assert_eq!(refused, 14);
}

#[test]
fn what_was_left_out_is_said() {
    for (name, said) in [
        ("good/plain.pt", vec![]),
        ("good/nested.pt", vec!["its entry \"state_dict\"; 5 other entries were left out"]),
        (
            "good/mixed.pt",
            vec![
                "7 entries that are not tensors were left out: epoch, big, device, shape, type, \
                  bytes, ?",
            ],
        ),
    ] {
        let file = open(name).unwrap();
        assert_eq!(file.notes().len(), said.len(), "{:?}", file.notes());
        for (note, said) in file.notes().iter().zip(said) {
            assert!(note.contains(said), "{note}");
        }
    }
}

/// Every file in `bad/` with what its message must say.
const REFUSED: &[(&str, &str)] = &[
    ("after_stop", "continues after the end"),
    ("append_to_none", "finds no list"),
    ("build_global", "instruction BUILD"),
    ("build_tensor", "instruction BUILD"),
    ("builtins_eval", "__builtin__.eval, so this file would run code"),
    ("builtins_getattr", "builtins.getattr, so this file would run code"),
    ("containers", "containers for its size"),
    ("dict_in_itself", "a dict without tensors"),
    ("empty", "truncated"),
    ("ext1", "instruction EXT1, which calls"),
    ("ext2", "instruction EXT2, which calls"),
    ("ext4", "instruction EXT4, which calls"),
    ("get_unwritten", "never written"),
    ("global_not_called", "byte 49 asks for os.system"),
    ("global_torch_load", "torch.load"),
    ("in_a_text", "truncated"),
    ("inst", "instruction INST, which calls"),
    ("laughs", "no dict"),
    ("legacy_big_endian", "little-endian"),
    ("legacy_count", "asks for 2 numbers, the file has 3"),
    ("legacy_cut", "in the middle of a storage"),
    ("legacy_key", "unknown key"),
    ("legacy_key_missing", "lacks one"),
    ("legacy_key_twice", "a key twice"),
    ("legacy_magic", "not one of torch.save"),
    ("legacy_no_storages", "in the middle of a storage"),
    ("legacy_os_system", "os.system, so this file would run code"),
    ("legacy_storage_unlisted", "continues after its last storage"),
    ("legacy_trailing", "continues after its last storage"),
    ("legacy_version", "another version"),
    ("length_of_2_63", "truncated"),
    ("length_of_2_64", "truncated"),
    ("list_in_itself", "no dict"),
    ("long_of_2_31", "truncated"),
    ("marks", "containers within each other"),
    ("memo_of_2_32", "places in the memo"),
    ("namespace", "argparse.Namespace"),
    ("newobj", "instruction NEWOBJ, which calls"),
    ("newobj_ex", "instruction NEWOBJ_EX, which calls"),
    ("no_mark", "finds no mark"),
    ("no_pickle", "never written"),
    ("no_stop", "truncated"),
    ("obj", "instruction OBJ, which calls"),
    ("odd_items", "a key without a value"),
    ("offset_and_shape", "spans 2 numbers from 1, its storage has 2"),
    ("offset_beyond", "starts at 3"),
    ("offset_negative", "starts at -1"),
    ("old_protocol", "protocol 0"),
    ("os_system", "posix.system, so this file would run code"),
    ("os_system_protocol5", "posix.system, so this file would run code"),
    ("persid_line", "instruction PERSID"),
    ("persid_negative", "negative length"),
    ("persid_number", "is not a tuple"),
    ("persid_short", "other parts than"),
    ("persid_two_lengths", "another type or length than before"),
    ("persid_type", "not a storage"),
    ("persid_view", "before 0.4"),
    ("persid_word", "the word storage"),
    ("pop_beyond_mark", "finds the stack empty"),
    ("reduce_dtype", "other arguments"),
    ("reduce_no_tuple", "is not a known function"),
    ("reduce_none", "is not a known function"),
    ("reduce_storage_class", "other arguments"),
    ("reduce_text", "is not a known function"),
    ("reduce_wrong_args", "other arguments"),
    ("root_no_tensors", "a dict without tensors"),
    ("root_number", "no dict"),
    ("root_tensor", "a single tensor"),
    ("setitem_on_list", "finds no dict"),
    ("shape_list", "no tuples"),
    ("shape_negative", "-1 among its shape"),
    ("shape_of_2_62", "its storage has 2"),
    ("shape_of_nine", "more than 8 extents"),
    ("shape_of_text", "among its shape that is not a number"),
    ("shape_overflows", "impossible shape"),
    ("stack_deep", "values on the stack"),
    ("stack_empty", "finds the stack empty"),
    ("stack_global", "subprocess.Popen, so this file would run code"),
    ("stack_global_numbers", "no two texts"),
    ("storage_escapes", "which is missing"),
    ("storage_longer", "asks for 3 numbers of F32, the file has 8 bytes"),
    ("storage_missing", "data/1, which is missing"),
    ("storage_of_2_62", "the file has 8 bytes"),
    ("stride_beyond", "spans 3 numbers"),
    ("stride_negative", "-1 among its strides"),
    ("stride_overflows", "its storage has 2"),
    ("stride_zero", "the same number at several places"),
    ("strides_fewer", "1 extents and 0 strides"),
    ("text_not_utf8", "not UTF-8"),
    ("twice", "is there twice"),
    ("zip_absolute", "no plain relative name"),
    ("zip_big_endian", "byte order \"big\""),
    ("zip_count", "an entry is cut off"),
    ("zip_cut", "no end record"),
    ("zip_cut_in_directory", "no end record"),
    ("zip_deflated", "is compressed"),
    ("zip_directory_beyond", "beyond the end record"),
    ("zip_disk", "several files"),
    ("zip_encrypted", "is encrypted"),
    ("zip_local_name", "another local header"),
    ("zip_no_object", "holds no data.pkl"),
    ("zip_offset_beyond", "starts beyond the directory"),
    ("zip_only_magic", "no end record"),
    ("zip_overlap", "overlap"),
    ("zip_parent", "no plain relative name"),
    ("zip_script", "TorchScript"),
    ("zip_size_beyond", "ends beyond the directory"),
    ("zip_trailing", "no end record"),
    ("zip_twice", "is there twice"),
    ("zip_two_objects", "several data.pkl"),
    ("zip_wants_64", "an entry is cut off"),
];

#[test]
fn every_hostile_file_is_refused_with_its_reason() {
    let table: BTreeMap<&str, &str> = REFUSED.iter().copied().collect();
    let mut seen = 0;
    for entry in fs::read_dir(folder("bad")).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap();
        let said = table.get(stem).unwrap_or_else(|| panic!("{stem} is not in the table"));
        let error = match TensorFile::open(&path) {
            Err(error @ FileError::Malformed { .. }) => error.to_string(),
            other => panic!("{stem}: {other:?}"),
        };
        assert!(error.contains(said) && error.contains(stem), "{said:?} in {error}");
        seen += 1;
    }
    assert_eq!(seen, REFUSED.len());
}

#[test]
fn every_cut_of_a_good_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["good/plain.pt", "good/legacy.pt"] {
        let bytes = fs::read(folder(name)).unwrap();
        for length in (0..bytes.len()).step_by(7) {
            let path = dir.path().join("cut.pt");
            fs::write(&path, &bytes[..length]).unwrap();
            assert!(TensorFile::open(&path).is_err(), "{name} cut to {length} bytes");
        }
    }
}

#[test]
fn files_of_archives_are_listed_with_their_contents() {
    let bytes = fs::read(folder("good/plain.pt")).unwrap();
    let files = archived_files(&bytes).unwrap();
    let object = files.iter().find(|(name, _)| name.ends_with("/data.pkl")).unwrap();
    assert!(object.1.starts_with(&[0x80]) && object.1.ends_with(b"."), "a pickle");
    let (_, version) = files.iter().find(|(name, _)| name.ends_with("/version")).unwrap();
    assert_eq!(version.trim_ascii(), b"3");
    let bytes = fs::read(folder("bad/zip_deflated.pt")).unwrap();
    let error = archived_files(&bytes).unwrap_err().to_string();
    assert!(error.contains("is compressed"), "{error}");
}
