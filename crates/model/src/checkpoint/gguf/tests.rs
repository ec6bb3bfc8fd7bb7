use super::*;
use crate::tokenizer::{Bos, Tokenizer};
use linwright_files::FileError;
use linwright_files::gguf::ContainerFault;
use linwright_tensor::RngKey;
use serde_json::json;

/// Share by which a number of a configuration may differ: that of its decimals.
const CONFIG_TOLERANCE: f64 = 1e-6;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/gguf/models")
}

/// Every golden model: stem, file and record.
fn goldens() -> Vec<(String, PathBuf, Value)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "json") {
            let record = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
            all.push((stem, path.with_extension("gguf"), record));
        }
    }
    all.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(all.len() >= 17, "{} models", all.len());
    all
}

fn fnv1a(values: &[f32]) -> String {
    let state = values
        .iter()
        .flat_map(|v| v.to_le_bytes())
        .fold(0xcbf2_9ce4_8422_2325u64, |state, byte| {
            (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    format!("{state:016x}")
}

#[test]
fn every_tensor_of_every_architecture_is_what_transformers_has() {
    for (stem, path, record) in goldens() {
        let gguf = Gguf::open(&path).unwrap_or_else(|e| panic!("{stem}: {e}"));
        let expected = record["tensors"].as_object().unwrap();
        for (name, entry) in expected {
            // Newer releases of transformers call it otherwise than checkpoints do.
            let name = if stem == "gptneox" && name == "lm_head.weight" {
                "embed_out.weight"
            } else {
                name.as_str()
            };
            let shape: Vec<usize> = serde_json::from_value(entry[0].clone()).unwrap();
            let (values, digest) = gguf.read(name, &shape).unwrap();
            assert_eq!(json!(fnv1a(&values)), entry[1], "{stem}: {name}");
            assert_eq!(gguf.read(name, &shape).unwrap().1, digest);
            if let [rows, columns] = shape[..] {
                let part = gguf.read_rows(name, [rows, columns], 1..rows - 1).unwrap();
                assert_eq!(part, values[columns..values.len() - columns], "{stem}: {name}");
            }
        }
        assert_eq!(gguf.contents().tensors.len(), expected.len(), "{stem}");
    }
}

/// Whether a field says the same: absent is null, numbers agree to their decimals.
fn same(ours: &Value, theirs: &Value) -> bool {
    match (ours.as_f64(), theirs.as_f64()) {
        (Some(a), Some(b)) => (a - b).abs() <= CONFIG_TOLERANCE * b.abs(),
        _ => ours == theirs,
    }
}

#[test]
fn configurations_say_what_transformers_had() {
    for (stem, path, record) in goldens() {
        let gguf = Gguf::open(&path).unwrap();
        let (ours, theirs) = (&gguf.contents().config, &record["config"]);
        for (field, value) in ours {
            let Some(expected) = theirs.get(field) else { continue };
            // Written only where there is a tokenizer.
            if field.ends_with("_token_id") || field == "architectures" {
                continue;
            }
            assert!(same(value, expected), "{stem}: {field} is {value}, expected {expected}");
        }
        // The rotary fields stand elsewhere in newer releases of transformers.
        let rope = &theirs["rope_parameters"];
        let full = rope.get("full_attention").unwrap_or(rope);
        let field = |names: [&str; 2]| names.into_iter().find_map(|name| ours.get(name)).cloned();
        if let Some(theta) = full.get("rope_theta") {
            let found = field(["rope_theta", "rotary_emb_base"]).unwrap();
            assert!(same(&found, theta), "{stem}: base {found}");
            let share = field(["partial_rotary_factor", "rotary_pct"]).unwrap_or(json!(1.0));
            let expected = full.get("partial_rotary_factor").cloned().unwrap_or(json!(1.0));
            assert!(same(&share, &expected), "{stem}: share {share}");
        }
        let scaling = &ours.get("rope_scaling").cloned().unwrap_or(Value::Null);
        let kind = full.get("rope_type").and_then(Value::as_str).unwrap_or("default");
        assert_eq!(scaling.get("rope_type").and_then(Value::as_str).unwrap_or("default"), kind);
        for (name, value) in scaling.as_object().into_iter().flatten() {
            let expected = full.get(name).unwrap_or(value);
            assert!(same(value, expected), "{stem}: {name} is {value}, expected {expected}");
        }
    }
}

#[test]
fn tokenizers_give_the_ids_of_their_own_libraries() {
    let mut tested = 0;
    for (stem, path, record) in goldens() {
        let gguf = Gguf::open(&path).unwrap();
        let cases = record["texts"].as_array().unwrap();
        let files = match &gguf.contents().tokenizer {
            Ok(files) => files,
            Err(fault) => {
                assert!(
                    cases.is_empty() && fault.to_string().contains("no_vocab"),
                    "{stem}: {fault}"
                );
                continue;
            }
        };
        let bytes = files.tokenizer.to_string();
        let tokenizer =
            Tokenizer::from_bytes(&path, bytes.as_bytes(), Some(&files.config)).unwrap();
        for case in cases {
            let text = case[0].as_str().unwrap();
            let ids: Vec<u32> = serde_json::from_value(case[1].clone()).unwrap();
            assert_eq!(tokenizer.encode(text, false).unwrap(), ids, "{stem}: {text:?}");
            if let Some(back) = case[2].as_str() {
                assert_eq!(tokenizer.decode(&ids, false).unwrap(), back, "{stem}: {text:?}");
            }
            tested += 1;
        }
        let first = tokenizer.encode_document("a", Bos::Auto).unwrap()[0];
        match (record["first"].as_u64(), stem.as_str()) {
            // The post-processor puts it there, and nothing else says that it starts a document.
            (Some(id), "bert") => {
                assert_eq!(u64::from(tokenizer.encode("a", true).unwrap()[0]), id);
            }
            (Some(id), _) => assert_eq!(u64::from(first), id, "{stem}"),
            (None, _) => assert_eq!(tokenizer.encode("a", true).unwrap().len(), 1, "{stem}"),
        }
    }
    assert!(tested > 20, "{tested} texts");
}

/// A file put together by hand.
#[derive(Clone, Default)]
struct SyntheticGguf {
    keys: Vec<(String, u32, Vec<u8>)>,
    tensors: Vec<(String, Vec<u64>, u32, u64)>,
    data: usize,
    version: u32,
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

/// Types of values, by their numbers in files.
const U32: u32 = 4;
const BOOL: u32 = 7;
const TEXT: u32 = 8;
const ARRAY: u32 = 9;

impl SyntheticGguf {
    fn new() -> Self {
        Self { version: 3, ..Self::default() }
    }

    fn key(mut self, key: &str, kind: u32, value: &[u8]) -> Self {
        self.keys.push((key.into(), kind, value.into()));
        self
    }

    fn number(self, key: &str, value: u32) -> Self {
        self.key(key, U32, &value.to_le_bytes())
    }

    fn tensor(mut self, name: &str, extents: &[u64], kind: u32, offset: u64) -> Self {
        self.tensors.push((name.into(), extents.into(), kind, offset));
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend((self.keys.len() as u64).to_le_bytes());
        for (key, kind, value) in &self.keys {
            out.extend(text(key));
            out.extend(kind.to_le_bytes());
            out.extend(value);
        }
        for (name, extents, kind, offset) in &self.tensors {
            out.extend(text(name));
            out.extend((extents.len() as u32).to_le_bytes());
            extents.iter().for_each(|extent| out.extend(extent.to_le_bytes()));
            out.extend(kind.to_le_bytes());
            out.extend(offset.to_le_bytes());
        }
        out.resize(out.len().next_multiple_of(32) + self.data, 0);
        out
    }

    /// A model of one layer, with some of its keys.
    fn model() -> Self {
        Self { data: 256, ..Self::new() }
            .key("general.architecture", TEXT, &text("qwen2"))
            .number("qwen2.embedding_length", 8)
            .number("qwen2.block_count", 1)
            .number("qwen2.feed_forward_length", 8)
            .number("qwen2.attention.head_count", 2)
            .number("qwen2.context_length", 16)
            .key("qwen2.attention.layer_norm_rms_epsilon", 6, &1e-5f32.to_le_bytes())
            .tensor("token_embd.weight", &[8, 4], 0, 0)
    }

    fn replace(mut self, key: &str, kind: u32, value: &[u8]) -> Self {
        self.keys.retain(|(other, ..)| other != key);
        self.key(key, kind, value)
    }

    fn fault(&self) -> GgufFault {
        Contents::parse(&self.bytes()).err().unwrap()
    }
}

fn nested(depth: usize) -> Vec<u8> {
    let level = [ARRAY.to_le_bytes().to_vec(), 1u64.to_le_bytes().to_vec()].concat();
    let last = [U32.to_le_bytes().to_vec(), 0u64.to_le_bytes().to_vec()].concat();
    [level.repeat(depth - 1), last].concat()
}

#[test]
fn a_small_model_by_hand_is_read() {
    let file = SyntheticGguf::model().key("deep", ARRAY, &nested(4));
    let contents = Contents::parse(&file.bytes()).unwrap();
    assert_eq!(contents.config["hidden_size"], 8);
    assert_eq!(contents.config["rms_norm_eps"], 1e-5);
    assert_eq!(contents.config["num_key_value_heads"], 2);
    assert_eq!(contents.config["tie_word_embeddings"], true);
    assert_eq!(contents.tensors["model.embed_tokens.weight"].shape, [4, 8]);
    assert!(contents.tokenizer.unwrap_err().to_string().contains("tokenizer.ggml.model"));
    let second = SyntheticGguf { version: 2, ..SyntheticGguf::model() };
    assert_eq!(Contents::parse(&second.bytes()).unwrap().header.version, 2);
}

#[test]
fn what_is_wrong_with_the_bytes_is_said() {
    let huge = u64::MAX.to_le_bytes();
    let array = |kind: u32, count: u64| [&kind.to_le_bytes()[..], &count.to_le_bytes()].concat();
    let text_key = |value: &[u8]| SyntheticGguf::new().key("a", TEXT, value).fault();
    let tensors = |file: SyntheticGguf| SyntheticGguf { data: 256, ..file }.fault();
    let f32s =
        |name: &str, extents: &[u64], at: u64| SyntheticGguf::new().tensor(name, extents, 0, at);
    for (fault, said) in [
        (
            linwright_files::gguf::parse(b"GG").err().unwrap().into(),
            "the header at byte 0 takes 4 bytes",
        ),
        (
            linwright_files::gguf::parse(b"PK\x03\x04").err().unwrap().into(),
            "this is not a GGUF file",
        ),
        (linwright_files::gguf::parse(b"tjgg\x03\0\0\0").err().unwrap().into(), "precedes GGUF"),
        (
            SyntheticGguf { version: 1, ..SyntheticGguf::new() }.fault(),
            "version 1 is not supported",
        ),
        (SyntheticGguf { version: 3 << 24, ..SyntheticGguf::new() }.fault(), "big-endian"),
        (SyntheticGguf { version: 9, ..SyntheticGguf::new() }.fault(), "GGUF version 9"),
        (text_key(&huge), "the value of key a at byte 45 takes 18446744073709551615"),
        (text_key(&[2, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]), "key a at byte 45 is not valid UTF-8"),
        (
            SyntheticGguf::new().key("a", 13, &[0; 8]).fault(),
            "key a at byte 33 has the unknown type 13",
        ),
        (SyntheticGguf::new().key("a", BOOL, &[2]).fault(), "key a at byte 37 has the boolean 2"),
        (
            SyntheticGguf::new().key("a", ARRAY, &array(U32, 1 << 62)).fault(),
            "takes 18446744073709551615",
        ),
        (
            SyntheticGguf::new().key("a", ARRAY, &array(TEXT, 1 << 20)).fault(),
            "takes 8388608 bytes",
        ),
        (SyntheticGguf::new().key("a", ARRAY, &nested(5)).fault(), "nests arrays deeper than 4"),
        (
            SyntheticGguf::new().number("a", 1).number("a", 2).fault(),
            "key a occurs twice, again at byte 41",
        ),
        (SyntheticGguf::new().number("general.alignment", 24).fault(), "general.alignment is 24"),
        (SyntheticGguf::new().number("general.alignment", 0).fault(), "general.alignment is 0"),
        (tensors(f32s("t", &[1; 5], 0)), "tensor t at byte 33 has 5 dimensions"),
        (
            tensors(SyntheticGguf::new().tensor("t", &[4], 4, 0)),
            "tensor t at byte 45 has the unknown type 4",
        ),
        (tensors(f32s("t", &[1 << 40, 1 << 40], 0)), "impossible shape"),
        (tensors(f32s("t", &[1 << 62], 0)), "impossible shape"),
        (
            tensors(SyntheticGguf::new().tensor("t", &[33], 2, 0)),
            "rows of 33 numbers, Q4_0 stores blocks",
        ),
        (tensors(f32s("t", &[4], 4)), "tensor t starts at byte 4 of the data"),
        (tensors(f32s("t", &[8, 8], 32)), "tensor t takes 256 bytes from byte 32"),
        (tensors(f32s("t", &[4], u64::MAX - 31)), "tensor t takes 16 bytes from byte 1844"),
        (tensors(f32s("t", &[4], 0).tensor("t", &[4], 0, 32)), "tensor t occurs twice"),
        (
            tensors(f32s("t", &[16], 0).tensor("u", &[4], 0, 32)),
            "tensors t and u overlap at byte 32 of the data",
        ),
    ] {
        assert!(fault.to_string().contains(said), "{fault}, expected {said}");
    }
    let counts = [&b"GGUF\x03\0\0\0"[..], &huge, &huge].concat();
    assert!(matches!(linwright_files::gguf::parse(&counts), Err(ContainerFault::Truncated { .. })));
}

#[test]
fn what_is_wrong_with_the_model_is_said() {
    let without = |key: &str| {
        let mut file = SyntheticGguf::model();
        file.keys.retain(|(other, ..)| other != key);
        file
    };
    let model = SyntheticGguf::model;
    let mut no_embedding = model();
    no_embedding.tensors[0].0 = "output.weight".into();
    for (file, said) in [
        (without("general.architecture"), "key general.architecture is missing"),
        (without("qwen2.block_count"), "key qwen2.block_count is missing"),
        (without("qwen2.attention.layer_norm_rms_epsilon"), "layer_norm_rms_epsilon is missing"),
        (model().replace("general.architecture", TEXT, &text("mamba")), "\"mamba\", known are"),
        (model().replace("qwen2.attention.head_count", U32, &[0; 4]), "head_count is 0, expected"),
        (model().replace("qwen2.attention.head_count", U32, &[3, 0, 0, 0]), "a divisor"),
        (model().number("qwen2.attention.value_length", 6), "6 with keys of 4"),
        (model().number("qwen2.rope.dimension_count", 2), "dimension_count is 2"),
        (model().number("qwen2.attention.sliding_window", 4), "sliding_window is 4"),
        (model().number("qwen2.expert_count", 8), "mixture of experts"),
        (model().replace("qwen2.block_count", U32, &[2, 0, 0, 0]), "more layers than tensors"),
        (model().number("split.count", 3), "llama-gguf-split --merge"),
        (model().key("general.type", TEXT, &text("adapter")), "general.type is \"adapter\""),
        (model().key("qwen2.rope.scaling.type", TEXT, &text("odd")), "\"odd\", expected none"),
        (
            model().key("qwen2.rope.scaling.type", TEXT, &text("linear")),
            "scaling.factor is missing",
        ),
        (model().key("qwen2.rope.freq_base", 6, &f32::NAN.to_le_bytes()), "freq_base is NaN"),
        (
            model().tensor("blk.0.odd.weight", &[4], 0, 128),
            "blk.0.odd.weight is not part of architecture",
        ),
        (model().tensor("blk.1.attn_q.weight", &[4], 0, 128), "beyond block_count"),
        (model().tensor("blk.00.attn_q.weight", &[4], 0, 128), "is not part of architecture"),
        (model().tensor("blk.0.attn_q.scale", &[4], 0, 128), "is not part of architecture"),
        (model().tensor("blk.0.attn_q.weight", &[32], 20, 128), "stored as IQ4_NL, which is not"),
        (model().tensor("blk.0.attn_q.weight", &[4, 2, 2], 0, 128), "a vector or a matrix"),
        (model().tensor("output.weight", &[0, 4], 0, 128), "not empty"),
        (model().tensor("rope_freqs.weight", &[1], 0, 128), "among which is 0"),
        (no_embedding, "no tensor token_embd.weight"),
    ] {
        let fault = file.fault();
        assert!(fault.to_string().contains(said), "{fault}, expected {said}");
    }
}

#[test]
fn numbers_that_are_not_finite_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.gguf");
    let mut bytes = SyntheticGguf::model().bytes();
    let place = bytes.len() - 256 + 4 * 13;
    bytes[place..place + 4].copy_from_slice(&f32::INFINITY.to_le_bytes());
    std::fs::write(&path, bytes).unwrap();
    let gguf = Gguf::open(&path).unwrap();
    let (name, shape) = ("model.embed_tokens.weight", [4, 8]);
    let error = gguf.read(name, &shape).unwrap_err();
    assert!(
        matches!(error, CheckpointError::File(FileError::NonFinite { index: 13, .. })),
        "{error}"
    );
    let error = gguf.read_rows(name, shape, 1..3).unwrap_err();
    assert!(
        matches!(error, CheckpointError::File(FileError::NonFinite { index: 13, .. })),
        "{error}"
    );
    assert!(gguf.read_rows(name, shape, 2..4).is_ok());
    let error = gguf.read(name, &[8, 4]).unwrap_err();
    assert!(matches!(error, CheckpointError::File(FileError::TensorShape { .. })), "{error}");
    assert!(matches!(
        gguf.read("no", &[1]),
        Err(CheckpointError::File(FileError::MissingTensor { .. }))
    ));
}

/// Parses bytes and reads all tensors of what comes out: none of it may panic.
fn survive(bytes: &[u8]) -> bool {
    let Ok(contents) = Contents::parse(bytes) else { return false };
    for tensor in contents.tensors.values() {
        let _ = read::read(bytes, tensor, &|_| {});
    }
    true
}

#[test]
fn truncated_anywhere_a_file_is_refused() {
    for (stem, path, _) in goldens() {
        let whole = std::fs::read(path).unwrap();
        assert!(survive(&whole), "{stem}");
        let contents = Contents::parse(&whole).unwrap();
        let ends = contents.header.tensors.values().map(|tensor| tensor.bytes.end);
        let end = ends.max().unwrap();
        let mut length = 0;
        while length < end {
            assert!(Contents::parse(&whole[..length]).is_err(), "{stem}, {length} bytes");
            // Every byte of small headers; of the rest some.
            length += if length < 2000 { 1 } else { 211 };
        }
    }
}

#[test]
fn random_damage_never_panics() {
    let mut stream = RngKey::new(5).fold("damage").stream();
    let (mut refused, mut read) = (0, 0);
    for (_, path, _) in goldens() {
        let whole = std::fs::read(path).unwrap();
        let contents = Contents::parse(&whole).unwrap();
        let starts = contents.header.tensors.values().map(|tensor| tensor.bytes.start);
        let header = starts.min().unwrap();
        for case in 0..120 {
            let mut bytes = whole.clone();
            for _ in 0..=stream.below(4) {
                let at = stream.below(if case % 8 == 0 { bytes.len() } else { header });
                match case % 3 {
                    0 => bytes[at] ^= 1 << stream.below(8),
                    1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][stream.below(5)],
                    _ => {
                        let end = bytes.len().min(at + 8);
                        bytes[at..end].fill([0, 0xff][stream.below(2)]);
                    }
                }
            }
            if survive(&bytes) { read += 1 } else { refused += 1 }
        }
    }
    assert!(refused > 300 && read > 100, "{refused} refused, {read} read");
}

fn seeds() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/fuzz/gguf");
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| std::fs::read(path).unwrap()).collect()
}

#[test]
fn seeds_are_read_and_each_byte_of_them_may_take_any_extreme() {
    let seeds = seeds();
    let mut signatures: Vec<String> = seeds.iter().map(|seed| signature(seed)).collect();
    signatures.sort();
    assert_eq!(
        signatures,
        [
            "read \"bert\" of 2 tensors, finite true, tokenizer WordPiece",
            "read \"gpt2\" of 4 tensors, finite true, tokenizer BPE",
            "read \"gpt_neox\" of 3 tensors, finite true, tokenizer Tokenizer tokenizer.ggml.model is known are and",
            "read \"llama\" of 4 tensors, finite true, tokenizer BPE",
        ]
    );
    for seed in seeds {
        for at in 0..seed.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bytes = seed.clone();
                bytes[at] = value;
                signatures.push(signature(&bytes));
            }
        }
    }
    signatures.sort();
    signatures.dedup();
    assert!(signatures.len() > 60, "{signatures:#?}");
}

#[test]
fn every_byte_of_a_header_may_take_any_extreme() {
    let file = SyntheticGguf::model().bytes();
    let mut refused = 0;
    for at in 0..file.len() - 256 {
        for value in [0, 1, 0x20, 0x7f, 0x80, 0xff] {
            let mut bytes = file.clone();
            bytes[at] = value;
            refused += usize::from(!survive(&bytes));
        }
    }
    assert!(refused > 300, "{refused}");
}
