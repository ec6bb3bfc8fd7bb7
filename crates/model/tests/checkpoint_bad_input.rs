//! A table of damaged checkpoints and impossible outputs: each is refused with its own variant, a
//! message that names the file and the reason, and nothing half-written.

use crate::checkpoint_common::{names, save_small, small_model, tokenizer_json};
use linwright_files::{FileError, FileFault};
use linwright_model::checkpoint::{CheckpointError as Error, Form, SaveOptions, load, save};
use linwright_model::tokenizer::TokenizerError;
use linwright_run::atomic::OutputError;
use linwright_tensor::RngKey;
use linwright_tensor::dtype::DType;
use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

const WEIGHTS: &str = "model.safetensors";
const CONFIG: &str = "config.json";
const INDEX: &str = "model.safetensors.index.json";
const QUERY: &str = "model.layers.0.self_attn.q_proj.weight";

/// What is done to a good directory, what must come of it, and what the message must say.
struct Case {
    damage: fn(&Path),
    expected: fn(&Error) -> bool,
    said: &'static [&'static str],
}

/// Reads, changes and writes the configuration.
fn configure(dir: &Path, change: impl FnOnce(&mut serde_json::Map<String, Value>)) {
    let path = dir.join(CONFIG);
    let mut config: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(config.as_object_mut().unwrap());
    fs::write(path, config.to_string()).unwrap();
}

/// Rewrites one tensor of the weight file, with the format's own implementation.
fn retype(dir: &Path, name: &str, dtype: Dtype, shape: &[usize], bytes: &[u8]) {
    let file = fs::read(dir.join(WEIGHTS)).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&file).unwrap();
    let mut all = tensors.tensors();
    all.retain(|(n, _)| n != name);
    if !bytes.is_empty() {
        all.push((name.into(), TensorView::new(dtype, shape.to_vec(), bytes).unwrap()));
    }
    let changed = safetensors::serialize(all, None).unwrap();
    fs::write(dir.join(WEIGHTS), changed).unwrap();
}

/// Changes the header of the weight file as text, of the same length or not.
fn edit_header(dir: &Path, from: &str, to: &str) {
    let file = fs::read(dir.join(WEIGHTS)).unwrap();
    let (header, data) = file[8..].split_at(header_length(&file));
    let header = std::str::from_utf8(header).unwrap();
    assert!(header.contains(from), "{header}");
    let header = header.replacen(from, to, 1);
    let length = (header.len() as u64).to_le_bytes();
    fs::write(dir.join(WEIGHTS), [&length, header.as_bytes(), data].concat()).unwrap();
}

/// The length field of a weight file.
fn header_length(file: &[u8]) -> usize {
    u64::from_le_bytes(file[..8].try_into().unwrap()) as usize
}

/// Turns the directory into one of shards.
fn cut(dir: &Path) {
    let (decoder, source) = small_model();
    let options = SaveOptions { shard_bytes: 1000, force: true, ..SaveOptions::new(Form::Dense) };
    save(&decoder, &source, &options, dir).unwrap();
}

fn reindex(dir: &Path, change: impl FnOnce(&mut Value)) {
    cut(dir);
    let path = dir.join(INDEX);
    let mut index: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut index);
    fs::write(path, index.to_string()).unwrap();
}

fn truncate(dir: &Path, keep: impl FnOnce(usize) -> usize) {
    let file = fs::read(dir.join(WEIGHTS)).unwrap();
    fs::write(dir.join(WEIGHTS), &file[..keep(file.len())]).unwrap();
}

fn fault(error: &Error, check: fn(&FileFault) -> bool) -> bool {
    matches!(error, Error::File(FileError::Malformed { fault, .. }) if check(fault))
}

fn weight_files() -> Vec<Case> {
    vec![
        Case {
            damage: |dir| fs::remove_file(dir.join(WEIGHTS)).unwrap(),
            expected: |e| matches!(e, Error::File(FileError::NoWeights { .. })),
            said: &["expected model.safetensors", "found neither"],
        },
        Case {
            damage: |dir| {
                fs::rename(dir.join(WEIGHTS), dir.join("tf_model.h5")).unwrap();
            },
            expected: |e| matches!(e, Error::File(FileError::NoWeights { .. })),
            said: &["tf_model.h5", "TensorFlow files are not read"],
        },
        Case {
            damage: |dir| truncate(dir, |_| 5),
            expected: |e| fault(e, |f| matches!(f, FileFault::TooShort { size: 5 })),
            said: &[WEIGHTS, "truncated"],
        },
        Case {
            damage: |dir| truncate(dir, |_| 100),
            expected: |e| fault(e, |f| matches!(f, FileFault::HeaderBeyondFile { left: 92, .. })),
            said: &[WEIGHTS, "truncated"],
        },
        Case {
            damage: |dir| truncate(dir, |size| size - 1),
            expected: |e| fault(e, |f| matches!(f, FileFault::DataSize { .. })),
            said: &[WEIGHTS, "truncated or damaged"],
        },
        Case {
            damage: |dir| {
                let mut file = fs::read(dir.join(WEIGHTS)).unwrap();
                file.extend([0; 3]);
                fs::write(dir.join(WEIGHTS), file).unwrap();
            },
            expected: |e| fault(e, |f| matches!(f, FileFault::DataSize { .. })),
            said: &[WEIGHTS, "bytes of data"],
        },
        Case {
            damage: |dir| edit_header(dir, "[0,352]", "[4,356]"),
            expected: |e| {
                fault(e, |f| matches!(f, FileFault::Overlap { .. } | FileFault::Gap { .. }))
            },
            said: &[WEIGHTS],
        },
        Case {
            damage: |dir| edit_header(dir, "\"F32\"", "\"F99\""),
            expected: |e| fault(e, |f| matches!(f, FileFault::UnknownType { .. })),
            said: &[WEIGHTS, "F99"],
        },
        Case {
            damage: |dir| edit_header(dir, "{", "<"),
            expected: |e| fault(e, |f| matches!(f, FileFault::Header { .. })),
            said: &[WEIGHTS, "not a safetensors file"],
        },
    ]
}

fn tensors() -> Vec<Case> {
    vec![
        Case {
            damage: |dir| retype(dir, QUERY, Dtype::I8, &[8, 8], &[1; 64]),
            expected: |e| matches!(e, Error::File(FileError::TensorType { found: "I8", .. })),
            said: &[WEIGHTS, QUERY, "expected F32", "dequantised"],
        },
        Case {
            damage: |dir| retype(dir, QUERY, Dtype::F8_E4M3, &[8, 8], &[1; 64]),
            expected: |e| matches!(e, Error::File(FileError::TensorType { found: "F8_E4M3", .. })),
            said: &[WEIGHTS, QUERY, "F8_E4M3"],
        },
        Case {
            damage: |dir| retype(dir, QUERY, Dtype::F32, &[4, 16], &[0; 256]),
            expected: |e| matches!(e, Error::File(FileError::TensorShape { .. })),
            said: &[WEIGHTS, QUERY, "[4, 16]", "[8, 8]"],
        },
        Case {
            damage: |dir| retype(dir, QUERY, Dtype::F32, &[8, 8], &[]),
            expected: |e| matches!(e, Error::File(FileError::MissingTensor { .. })),
            said: &[WEIGHTS, QUERY, "missing", "[8, 8]"],
        },
        Case {
            damage: |dir| {
                let mut bytes = [0; 128];
                bytes[21] = 0x7c;
                retype(dir, QUERY, Dtype::F16, &[8, 8], &bytes);
            },
            expected: |e| matches!(e, Error::File(FileError::NonFinite { index: 10, .. })),
            said: &[WEIGHTS, QUERY, "inf at index 10"],
        },
        Case {
            damage: |dir| {
                let mut bytes = [0; 512];
                bytes[..8].copy_from_slice(&f64::NAN.to_le_bytes());
                retype(dir, QUERY, Dtype::F64, &[8, 8], &bytes);
            },
            expected: |e| matches!(e, Error::File(FileError::NonFinite { index: 0, .. })),
            said: &[WEIGHTS, QUERY, "NaN at index 0"],
        },
    ]
}

fn shards() -> Vec<Case> {
    vec![
        Case {
            damage: |dir| {
                cut(dir);
                let name = names(dir).into_iter().find(|name| name.starts_with("model-00002"));
                fs::remove_file(dir.join(name.unwrap())).unwrap();
            },
            expected: |e| matches!(e, Error::File(FileError::MissingShard { .. })),
            said: &[INDEX, "model-00002", "missing"],
        },
        Case {
            damage: |dir| {
                reindex(dir, |i| {
                    i["weight_map"][QUERY] = json!("../secret.safetensors");
                });
            },
            expected: |e| matches!(e, Error::File(FileError::ShardPath { .. })),
            said: &[INDEX, "../secret.safetensors", QUERY],
        },
        Case {
            damage: |dir| reindex(dir, |i| i["weight_map"][QUERY] = json!("/etc/passwd")),
            expected: |e| matches!(e, Error::File(FileError::ShardPath { .. })),
            said: &[INDEX, "/etc/passwd"],
        },
        Case {
            damage: |dir| {
                reindex(dir, |i| {
                    let head = i["weight_map"]["lm_head.weight"].clone();
                    i["weight_map"]["model.embed_tokens.weight"] = head;
                });
            },
            expected: |e| matches!(e, Error::File(FileError::NotInShard { .. })),
            said: &[INDEX, "model.embed_tokens.weight", "different models"],
        },
        Case {
            damage: |dir| reindex(dir, |i| i["weight_map"] = json!(["a"])),
            expected: |e| matches!(e, Error::File(FileError::Json { .. })),
            said: &[INDEX, "weight_map is not an object"],
        },
        Case {
            damage: |dir| reindex(dir, |i| i["weight_map"][QUERY] = json!(7)),
            expected: |e| matches!(e, Error::File(FileError::Json { .. })),
            said: &[INDEX, QUERY],
        },
    ]
}

fn settings() -> Vec<Case> {
    vec![
        Case {
            damage: |dir| fs::remove_file(dir.join(CONFIG)).unwrap(),
            expected: |e| matches!(e, Error::File(FileError::Read { .. })),
            said: &["config.json", "cannot read"],
        },
        Case {
            damage: |dir| fs::write(dir.join(CONFIG), "{\"hidden_size\": ").unwrap(),
            expected: |e| matches!(e, Error::File(FileError::Json { .. })),
            said: &["config.json", "not valid JSON"],
        },
        Case {
            damage: |dir| configure(dir, |c| drop(c.remove("hidden_size"))),
            expected: |e| matches!(e, Error::Config { .. }),
            said: &["config.json", "no field hidden_size"],
        },
        Case {
            damage: |dir| configure(dir, |c| c["num_attention_heads"] = json!(0)),
            expected: |e| matches!(e, Error::Config { .. }),
            said: &["config.json", "num_attention_heads is 0"],
        },
        Case {
            damage: |dir| {
                fs::write(dir.join("tokenizer.json"), tokenizer_json(12).to_string()).unwrap();
            },
            expected: |e| matches!(e, Error::Tokenizer(TokenizerError::Vocabulary { .. })),
            said: &["tokenizer.json", "t11", "below 11"],
        },
        Case {
            damage: |dir| fs::write(dir.join("tokenizer.json"), "{}").unwrap(),
            expected: |e| matches!(e, Error::Tokenizer(TokenizerError::Invalid { .. })),
            said: &["tokenizer.json", "not a tokenizer"],
        },
        Case {
            damage: |dir| configure(dir, |c| drop(c.insert("linwright".into(), json!(3)))),
            expected: |e| matches!(e, Error::Native { .. }),
            said: &["config.json", "linwright", "expected an object"],
        },
        Case {
            damage: |dir| native(dir, 9, "model.layers.0.mlp.up_proj", &json!({})),
            expected: |e| matches!(e, Error::Native { .. }),
            said: &["config.json", "schema is 9", "newer"],
        },
        Case {
            damage: |dir| {
                let header = json!({"kind": "magic", "shape": {"out": 12, "inp": 8}});
                native(dir, 1, "model.layers.0.mlp.up_proj", &header);
            },
            expected: |e| matches!(e, Error::Native { .. }),
            said: &["config.json", "mlp.up_proj", "magic"],
        },
        Case {
            damage: |dir| native(dir, 1, "model.layers.7.mlp.up_proj", &low_rank(12, 8, 2)),
            expected: |e| matches!(e, Error::Native { .. }),
            said: &["config.json", "layers.7.mlp.up_proj", "does not have"],
        },
        Case {
            damage: |dir| native(dir, 1, "model.layers.0.mlp.up_proj", &low_rank(12, 9, 2)),
            expected: |e| matches!(e, Error::Native { .. }),
            said: &["config.json", "mlp.up_proj", "9 to 12", "8 to 12"],
        },
        Case {
            damage: |dir| native(dir, 1, "model.layers.0.mlp.up_proj", &low_rank(12, 8, 2)),
            expected: |e| matches!(e, Error::Operator { .. }),
            said: &["mlp.up_proj", "tensor u is missing"],
        },
        Case {
            damage: |dir| native(dir, 1, "model.layers.0.mlp.up_proj", &low_rank(12, 8, 99)),
            expected: |e| matches!(e, Error::Operator { .. }),
            said: &["mlp.up_proj", "rank 99"],
        },
    ]
}

fn low_rank(out: usize, inp: usize, rank: usize) -> Value {
    json!({"kind": "low_rank", "rank": rank, "shape": {"out": out, "inp": inp}})
}

fn native(dir: &Path, schema: u64, site: &str, header: &Value) {
    let object = json!({"schema": schema, "sites": {site: header}});
    configure(dir, |config| {
        drop(config.insert("linwright".into(), object));
    });
}

#[test]
fn every_damaged_checkpoint_is_refused_with_file_and_reason() {
    let parts = [weight_files(), tensors(), shards(), settings()];
    for (index, case) in parts.into_iter().flatten().enumerate() {
        let dir = tempfile::tempdir().unwrap();
        let model = dir.path().join("model");
        save_small(&model);
        (case.damage)(&model);
        let error = load(&model).map(|_| ()).unwrap_err();
        assert!((case.expected)(&error), "case {index}: {error:?}");
        for said in case.said {
            assert!(error.to_string().contains(said), "case {index}: {said:?} in {error}");
        }
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    assert!(matches!(load(file.path()), Err(Error::NotADirectory { .. })));
    assert!(matches!(load(Path::new("/nowhere/at/all")), Err(Error::File(FileError::Read { .. }))));
}

#[test]
fn outputs_that_cannot_be_are_refused_and_leave_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (decoder, source) = small_model();
    let (there, file) = (dir.path().join("there"), dir.path().join("file"));
    fs::create_dir(&there).unwrap();
    fs::write(&file, "text").unwrap();
    let usual = SaveOptions::new(Form::Dense);
    let attempt = |options: &SaveOptions, out: &Path| {
        save(&decoder, &source, options, out).map(|_| ()).unwrap_err()
    };
    let exists = attempt(&usual, &there);
    assert!(
        matches!(exists, Error::File(FileError::Output(OutputError::Exists { .. }))),
        "{exists}"
    );
    assert!(exists.to_string().contains("there") && exists.to_string().contains("--force"));
    let under = attempt(&usual, &file.join("model"));
    assert!(
        matches!(under, Error::File(FileError::Output(OutputError::NoParent { .. }))),
        "{under}"
    );
    assert!(under.to_string().contains("file is not a directory"), "{under}");
    // Full after 0, 1000, 2000 ... bytes: in the configuration, in the weights, in the hashes.
    for max_bytes in (0..6000).step_by(500) {
        let options = SaveOptions { max_bytes: Some(max_bytes), ..usual.clone() };
        let full = attempt(&options, &dir.path().join("model"));
        assert!(
            matches!(full, Error::File(FileError::Output(OutputError::Full { .. }))),
            "{max_bytes}: {full}"
        );
        assert!(full.to_string().contains("model/"), "{full}");
    }
    assert_eq!(names(dir.path()), ["file", "there"]);
    assert!(names(&there).is_empty());
}

#[test]
fn numbers_that_cannot_be_stored_are_refused_and_leave_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for (value, dtype) in [(f32::NAN, DType::F32), (70_000.0, DType::F16), (f32::MAX, DType::Bf16)]
    {
        let (mut decoder, source) = small_model();
        decoder.for_each_param_mut(&mut |name, values| {
            if name == QUERY {
                values[17] = value;
            }
        });
        let options = SaveOptions { dtype: Some(dtype), ..SaveOptions::new(Form::Native) };
        let error = save(&decoder, &source, &options, &dir.path().join("model")).unwrap_err();
        assert!(matches!(error, Error::File(FileError::Unstorable { index: 17, .. })), "{error}");
        assert!(error.to_string().contains(QUERY), "{error}");
    }
    assert!(names(dir.path()).is_empty());
}

#[test]
fn random_damage_to_weights_never_panics() {
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("model");
    save_small(&model);
    let good = fs::read(model.join(WEIGHTS)).unwrap();
    let header = 8 + header_length(&good);
    let mut stream = RngKey::new(4).fold("damage").stream();
    let (mut refused, mut loaded) = (0, 0);
    for case in 0..2000 {
        let mut file = good.clone();
        if case % 4 == 0 {
            file.truncate(stream.below(file.len()));
        } else {
            let range = if case % 4 == 1 { file.len() } else { header };
            for _ in 0..=stream.below(3) {
                file[stream.below(range)] ^= 1 << stream.below(8);
            }
        }
        fs::write(model.join(WEIGHTS), file).unwrap();
        match load(&model) {
            Ok(_) => loaded += 1,
            Err(error) => {
                assert!(error.to_string().contains(WEIGHTS), "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 1000 && loaded > 50, "{refused} refused, {loaded} loaded");
}
