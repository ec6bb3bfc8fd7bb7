use super::*;
use linwright_tensor::RngKey;
use linwright_tensor::dtype::DType;
use safetensors::SafeTensors;

fn file(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.resize(bytes.len() + data, 0);
    bytes
}

fn entry(dtype: &str, shape: &str, start: u64, end: u64) -> String {
    format!(r#"{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{start},{end}]}}"#)
}

/// A valid file of three tensors and metadata.
fn valid() -> Vec<u8> {
    let header = format!(
        r#"{{"__metadata__":{{"format":"pt"}},"a":{},"b":{},"c":{}}}"#,
        entry("F32", "[2,3]", 0, 24),
        entry("BF16", "[4]", 24, 32),
        entry("U32", "[0]", 32, 32)
    );
    file(&header, 32)
}

#[test]
fn a_valid_header_gives_names_types_shapes_and_places() {
    let header = parse(&valid()).unwrap();
    let base = valid().len() - 32;
    let (a, b) = (&header.tensors["a"], &header.tensors["b"]);
    assert_eq!(
        (a.dtype, &a.shape[..], a.bytes.clone()),
        (StoredType::F32, &[2, 3][..], base..base + 24)
    );
    assert_eq!((b.dtype.name(), b.dtype.float()), ("BF16", Some(DType::Bf16)));
    assert_eq!(header.tensors["c"].shape, [0]);
    assert_eq!(header.metadata["format"], "pt");
    assert!(parse(&file("{}", 0)).unwrap().tensors.is_empty());
}

#[test]
fn every_fault_has_its_variant() {
    let one = |dtype: &str, shape: &str, start, end, data| {
        file(&format!(r#"{{"w":{}}}"#, entry(dtype, shape, start, end)), data)
    };
    let two = |first: (u64, u64), second: (u64, u64), data| {
        let [a, b] = [first, second].map(|(s, e)| entry("U8", &format!("[{}]", e - s), s, e));
        file(&format!(r#"{{"a":{a},"b":{b}}}"#), data)
    };
    type Check = fn(&FileFault) -> bool;
    let w = entry("U8", "[1]", 0, 1);
    let cases: Vec<(Vec<u8>, Check)> = vec![
        (vec![1, 2, 3], |f| matches!(f, FileFault::TooShort { size: 3 })),
        (file("{}", 0)[..9].to_vec(), |f| {
            matches!(f, FileFault::HeaderBeyondFile { header: 2, left: 1 })
        }),
        (u64::MAX.to_le_bytes().to_vec(), |f| matches!(f, FileFault::HeaderBeyondFile { .. })),
        (file("{]", 0), |f| matches!(f, FileFault::Header { .. })),
        (file("[1]", 0), |f| matches!(f, FileFault::Header { .. })),
        (file(r#"{"w":{"dtype":"F32"}}"#, 0), |f| matches!(f, FileFault::Header { .. })),
        (one("F32", "[-1]", 0, 4, 4), |f| matches!(f, FileFault::Header { .. })),
        (file(&format!(r#"{{"w":{w},"w":{w}}}"#), 1), |f| matches!(f, FileFault::Duplicate { .. })),
        (one("F31", "[1]", 0, 4, 4), |f| matches!(f, FileFault::UnknownType { .. })),
        (one("F32", "[1]", 4, 0, 4), |f| matches!(f, FileFault::Backwards { .. })),
        (one("F32", "[4294967296,4294967296,4]", 0, 4, 4), |f| {
            matches!(f, FileFault::ShapeOverflow { .. })
        }),
        (one("F32", "[2]", 0, 4, 4), |f| matches!(f, FileFault::WrongSize { expected: 8, .. })),
        (one("F4", "[3]", 0, 2, 2), |f| matches!(f, FileFault::WrongSize { .. })),
        (two((0, 4), (2, 6), 6), |f| matches!(f, FileFault::Overlap { at: 2, .. })),
        (two((0, 4), (5, 6), 6), |f| matches!(f, FileFault::Gap { start: 4, end: 5, .. })),
        (one("U8", "[8]", 0, 8, 7), |f| matches!(f, FileFault::DataSize { expected: 8, found: 7 })),
        (one("U8", "[8]", 0, 8, 9), |f| matches!(f, FileFault::DataSize { expected: 8, found: 9 })),
    ];
    for (index, (bytes, check)) in cases.into_iter().enumerate() {
        let fault = parse(&bytes).unwrap_err();
        assert!(check(&fault), "case {index}: {fault:?}");
        // The format's own implementation agrees that the file is bad, but for names given twice.
        let duplicate = matches!(fault, FileFault::Duplicate { .. });
        assert!(duplicate || SafeTensors::deserialize(&bytes).is_err(), "case {index}: {fault}");
    }
}

#[test]
fn a_header_larger_than_the_bound_is_refused_before_it_is_parsed() {
    let mut bytes = vec![b' '; MAX_HEADER_BYTES as usize + 9];
    bytes[..8].copy_from_slice(&(MAX_HEADER_BYTES + 1).to_le_bytes());
    assert!(matches!(parse(&bytes), Err(FileFault::HeaderTooLarge { .. })));
}

#[test]
fn damaged_files_never_panic_and_what_is_accepted_is_valid() {
    let valid = valid();
    let mut stream = RngKey::new(11).fold("damage").stream();
    let mut accepted = 0;
    for case in 0..6000 {
        let mut bytes = valid.clone();
        match case % 3 {
            0 => bytes.truncate(stream.below(valid.len())),
            1 => {
                for _ in 0..=stream.below(4) {
                    let at = stream.below(bytes.len());
                    bytes[at] = stream.bits() as u8;
                }
            }
            _ => {
                // Digits for digits keep the JSON whole and reach the checks behind it.
                for _ in 0..=stream.below(3) {
                    let digits: Vec<usize> =
                        (8..bytes.len()).filter(|&at| bytes[at].is_ascii_digit()).collect();
                    bytes[digits[stream.below(digits.len())]] = b'0' + stream.below(10) as u8;
                }
            }
        }
        if let Ok(header) = parse(&bytes) {
            accepted += 1;
            let reference = SafeTensors::deserialize(&bytes).unwrap();
            assert_eq!(reference.len(), header.tensors.len());
            for (name, info) in &header.tensors {
                assert_eq!(reference.tensor(name).unwrap().data(), &bytes[info.bytes.clone()]);
            }
        }
    }
    assert!(accepted > 100, "{accepted} damaged files were still valid, too few to judge");
}
