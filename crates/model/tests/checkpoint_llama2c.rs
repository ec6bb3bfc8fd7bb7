//! The import of llama2.c files against a forward pass written as llama2.c has it.

use crate::checkpoint_common::{logits, names};
use linwright_files::FileError;
use linwright_model::checkpoint::export::{ExportForm, ExportOptions, export};
use linwright_model::checkpoint::llama2c::import_llama2c;
use linwright_model::checkpoint::{CheckpointError, load};
use linwright_model::tokenizer::{Bos, Tokenizer};
use linwright_tensor::{RngKey, RngStream};
use std::fs;
use std::path::Path;

const DIM: usize = 16;
const HIDDEN: usize = 20;
const LAYERS: usize = 2;
const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const HEAD: usize = DIM / HEADS;
const KV: usize = KV_HEADS * HEAD;
const VOCAB: usize = 270;
const POSITIONS: usize = 24;

/// The tensors of a random model, as llama2.c orders them.
struct Weights {
    embedding: Vec<f32>,
    att_norm: Vec<f32>,
    wq: Vec<f32>,
    wk: Vec<f32>,
    wv: Vec<f32>,
    wo: Vec<f32>,
    ffn_norm: Vec<f32>,
    w1: Vec<f32>,
    w2: Vec<f32>,
    w3: Vec<f32>,
    norm: Vec<f32>,
    head: Option<Vec<f32>>,
}

impl Weights {
    fn random(stream: &mut RngStream, tied: bool) -> Self {
        let mut draw = |count: usize| stream.normals(count, 0.3);
        Self {
            embedding: draw(VOCAB * DIM),
            att_norm: draw(LAYERS * DIM),
            wq: draw(LAYERS * DIM * DIM),
            wk: draw(LAYERS * KV * DIM),
            wv: draw(LAYERS * KV * DIM),
            wo: draw(LAYERS * DIM * DIM),
            ffn_norm: draw(LAYERS * DIM),
            w1: draw(LAYERS * HIDDEN * DIM),
            w2: draw(LAYERS * DIM * HIDDEN),
            w3: draw(LAYERS * HIDDEN * DIM),
            norm: draw(DIM),
            head: (!tied).then(|| draw(VOCAB * DIM)),
        }
    }

    fn file(&self) -> Vec<u8> {
        let vocab = if self.head.is_none() { VOCAB as i32 } else { -(VOCAB as i32) };
        let sizes = [DIM, HIDDEN, LAYERS, HEADS, KV_HEADS].map(|n| n as i32);
        let words = sizes.into_iter().chain([vocab, POSITIONS as i32]);
        let mut bytes: Vec<u8> = words.flat_map(i32::to_le_bytes).collect();
        let rotary = vec![0.0; POSITIONS * HEAD];
        let parts = [
            &self.embedding,
            &self.att_norm,
            &self.wq,
            &self.wk,
            &self.wv,
            &self.wo,
            &self.ffn_norm,
            &self.w1,
            &self.w2,
            &self.w3,
            &self.norm,
            &rotary,
        ];
        for part in parts.into_iter().chain(&self.head) {
            bytes.extend(part.iter().flat_map(|v| v.to_le_bytes()));
        }
        bytes
    }

    /// Logits of every position, with neighbours rotated as pairs.
    fn forward(&self, tokens: &[u32]) -> Vec<Vec<f32>> {
        let mut caches = vec![(Vec::new(), Vec::new()); LAYERS];
        let step = |(position, &token): (usize, &u32)| {
            let mut x = self.embedding[token as usize * DIM..][..DIM].to_vec();
            for (layer, (keys, values)) in caches.iter_mut().enumerate() {
                let n = norm(&x, &self.att_norm[layer * DIM..]);
                let mut q = product(&self.wq[layer * DIM * DIM..], &n, DIM);
                let mut k = product(&self.wk[layer * KV * DIM..], &n, KV);
                rotate(&mut q, position);
                rotate(&mut k, position);
                keys.push(k);
                values.push(product(&self.wv[layer * KV * DIM..], &n, KV));
                let mixed = attend(&q, keys, values);
                add(&mut x, &product(&self.wo[layer * DIM * DIM..], &mixed, DIM));
                let n = norm(&x, &self.ffn_norm[layer * DIM..]);
                let gate = product(&self.w1[layer * HIDDEN * DIM..], &n, HIDDEN);
                let up = product(&self.w3[layer * HIDDEN * DIM..], &n, HIDDEN);
                let inner: Vec<f32> =
                    gate.iter().zip(&up).map(|(g, u)| g / (1.0 + (-g).exp()) * u).collect();
                add(&mut x, &product(&self.w2[layer * DIM * HIDDEN..], &inner, DIM));
            }
            product(self.head.as_ref().unwrap_or(&self.embedding), &norm(&x, &self.norm), VOCAB)
        };
        tokens.iter().enumerate().map(step).collect()
    }
}

fn norm(x: &[f32], weight: &[f32]) -> Vec<f32> {
    let mean = x.iter().map(|v| v * v).sum::<f32>() / x.len() as f32;
    x.iter().zip(weight).map(|(v, w)| w * v / (mean + 1e-5).sqrt()).collect()
}

fn product(weight: &[f32], x: &[f32], out: usize) -> Vec<f32> {
    let rows = weight.chunks(x.len()).take(out);
    rows.map(|row| row.iter().zip(x).map(|(w, v)| w * v).sum()).collect()
}

fn add(x: &mut [f32], y: &[f32]) {
    x.iter_mut().zip(y).for_each(|(x, y)| *x += y);
}

fn rotate(x: &mut [f32], position: usize) {
    for (index, pair) in x.chunks_mut(2).enumerate() {
        let within = (2 * index % HEAD) as f32;
        let angle = position as f32 / 10_000f32.powf(within / HEAD as f32);
        let (sin, cos) = angle.sin_cos();
        let (a, b) = (pair[0], pair[1]);
        (pair[0], pair[1]) = (a * cos - b * sin, a * sin + b * cos);
    }
}

fn attend(q: &[f32], keys: &[Vec<f32>], values: &[Vec<f32>]) -> Vec<f32> {
    let mut mixed = Vec::new();
    for head in 0..HEADS {
        let (q, kv) = (&q[head * HEAD..][..HEAD], head / (HEADS / KV_HEADS) * HEAD);
        let score = |k: &Vec<f32>| {
            k[kv..][..HEAD].iter().zip(q).map(|(k, q)| k * q).sum::<f32>() / (HEAD as f32).sqrt()
        };
        let weights: Vec<f32> = keys.iter().map(|k| score(k).exp()).collect();
        let total: f32 = weights.iter().sum();
        let at = |i: usize| weights.iter().zip(values).map(|(w, v)| w / total * v[kv + i]).sum();
        mixed.extend((0..HEAD).map(at).collect::<Vec<f32>>());
    }
    mixed
}

/// Byte tokens and eleven pieces.
fn tokenizer_file() -> Vec<u8> {
    let special = ["<unk>", "\n<s>\n", "\n</s>\n"].map(str::to_owned);
    let bytes = (0..256).map(|b| format!("<0x{b:02X}>"));
    let pieces = ["he", " t", " the", " a", "th", " ", "t", "h", "e", "a", "n"].map(str::to_owned);
    let mut file = 7i32.to_le_bytes().to_vec();
    for (id, piece) in special.into_iter().chain(bytes).chain(pieces).enumerate() {
        let score = if id < 259 { 0.0 } else { 259.0 - id as f32 };
        file.extend(score.to_le_bytes());
        file.extend((piece.len() as i32).to_le_bytes());
        file.extend(piece.as_bytes());
    }
    file
}

fn write_files(dir: &Path, weights: &Weights) -> [std::path::PathBuf; 3] {
    let [bin, tok, out] = ["model.bin", "tok.bin", "out"].map(|name| dir.join(name));
    fs::write(&bin, weights.file()).unwrap();
    fs::write(&tok, tokenizer_file()).unwrap();
    [bin, tok, out]
}

#[test]
fn logits_equal_those_of_the_original_layout() {
    for tied in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let weights = Weights::random(&mut RngKey::new(2).stream(), tied);
        let [bin, tok, out] = write_files(dir.path(), &weights);
        let saved = import_llama2c(&bin, &tok, &out, false, Vec::new()).unwrap();
        assert_eq!(saved.gap.largest, 0.0);
        let model = load(&out).unwrap();
        assert_eq!(model.decoder.config().tied_embeddings, tied);
        let tokenizer = model.tokenizer.unwrap();
        let tokens = tokenizer.encode_document("the ant\nñ", Bos::Auto).unwrap();
        assert_eq!(tokens, [1, 261, 262, 269, 265, 13, 198, 180]);
        assert_eq!(tokenizer.decode(&tokens, true).unwrap(), "the ant\nñ");
        let found = logits(&model.decoder, &tokens);
        for (row, expected) in weights.forward(&tokens).iter().enumerate() {
            let largest = expected.iter().fold(0.0f32, |m, v| m.max(v.abs()));
            for (a, b) in expected.iter().zip(found.row(row)) {
                assert!((a - b).abs() < 1e-4 * largest, "row {row}: {a} and {b}");
            }
        }
    }
}

/// Its pieces hold spaces as they are, and those of GGUF the mark that stands for them.
#[test]
fn an_imported_model_goes_on_to_gguf_with_the_same_tokens() {
    let dir = tempfile::tempdir().unwrap();
    let weights = Weights::random(&mut RngKey::new(2).stream(), true);
    let [bin, tok, out] = write_files(dir.path(), &weights);
    import_llama2c(&bin, &tok, &out, false, Vec::new()).unwrap();
    let model = load(&out).unwrap();
    let gguf = dir.path().join("gguf");
    let options = ExportOptions { form: Some(ExportForm::Gguf), ..ExportOptions::default() };
    export(&model.decoder, &model.source, &options, &gguf).unwrap();
    let file = gguf.join("model-F32.gguf");
    let back = load(&file).unwrap();
    let [own, read] = [model.tokenizer, back.tokenizer].map(Option::unwrap);
    for text in ["the ant", "a  the\n then 12 \u{f1}", "", " "] {
        let ids = |tokenizer: &Tokenizer| tokenizer.encode_document(text, Bos::Auto).unwrap();
        assert_eq!(ids(&read), ids(&own), "{text:?}");
    }
    assert_eq!(read.encode("the", false).unwrap(), [261]);
    let json = back.source.companion("tokenizer.json").unwrap();
    let json: serde_json::Value = serde_json::from_slice(json).unwrap();
    let vocab = json["model"]["vocab"].as_object().unwrap();
    assert_eq!(vocab["\u{2581}the"], 261);
    assert!(!vocab.keys().any(|piece| piece.contains(' ')));
    // The ends of a text are not text for the programs that read the file.
    let special = |token: &&serde_json::Value| token["special"] == true;
    let added = json["added_tokens"].as_array().unwrap().iter().filter(special);
    let added: Vec<_> = added.map(|token| token["content"].as_str().unwrap()).collect();
    assert_eq!(added, ["<unk>", "<s>", "</s>"]);
}

#[test]
fn damaged_files_are_refused_and_leave_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut weights = Weights::random(&mut RngKey::new(2).stream(), true);
    let [bin, tok, out] = write_files(dir.path(), &weights);
    let good = fs::read(&bin).unwrap();
    for (bytes, said) in [
        (&good[..good.len() - 1], "truncated"),
        (&[good.as_slice(), &[0]].concat()[..], "too long"),
        (&good[..20], "truncated"),
    ] {
        fs::write(&bin, bytes).unwrap();
        let error = import_llama2c(&bin, &tok, &out, false, Vec::new()).unwrap_err();
        assert!(matches!(error, CheckpointError::Llama2c { .. }), "{error}");
        assert!(error.to_string().contains("model.bin: ") && error.to_string().contains(said));
    }
    weights.wk[77] = f32::NAN;
    fs::write(&bin, weights.file()).unwrap();
    let error = import_llama2c(&bin, &tok, &out, false, Vec::new()).unwrap_err();
    assert!(
        matches!(error, CheckpointError::File(FileError::NonFinite { index: 77, .. })),
        "{error}"
    );
    assert_eq!(names(dir.path()), ["model.bin", "tok.bin"]);
}
