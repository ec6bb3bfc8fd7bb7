//! Inputs of the networks: generated, or from features, images or texts.

use super::CollapseDepth;
use crate::jobs::kit::{Failure, room};
use linwright_collapse::FeatureFile;
use linwright_collapse::depth::{DepthData, DepthSizes};
use linwright_data::Corpus;
use linwright_nets::{Targets, labelled};
use linwright_tensor::{Mat, RngKey};

/// Tokens of generated sequences and of pieces of text.
const TOKENS: usize = 6;

pub(super) fn data(job: &CollapseDepth, key: RngKey) -> Result<DepthData, Failure> {
    let tokens = match job.network.architecture.is_transformer() {
        true => job.tokens.unwrap_or(TOKENS),
        false => 1,
    };
    if let Some(path) = &job.features {
        let file = FeatureFile::open(path, None, None)?;
        return Ok(DepthData::of_source(&file, file.classes, tokens)?);
    }
    if job.images.is_some() {
        return of_images(job, tokens, key.fold("images"));
    }
    if !job.texts.is_empty() {
        return of_texts(job, tokens, key.fold("texts"));
    }
    let numbers = [job.classes, job.per_class, tokens, job.network.width()].map(|n| n as u64);
    let what = || {
        let [classes, per_class, tokens, width] = numbers;
        format!("{classes} classes of {per_class} examples of {tokens} x {width} numbers")
    };
    let hint = "give fewer --classes, --per-class, --tokens or a smaller width by --architecture";
    room::ensure(what, &[&numbers[..], &[size_of::<f64>() as u64]].concat(), hint)?;
    let (classes, per_class, width) = (job.classes, job.per_class, job.network.width());
    let sizes = DepthSizes { classes, per_class, width, tokens };
    Ok(DepthData::generated(sizes, job.noise, key.fold("data")))
}

/// Draws the same number of images of each class; their pixels together have mean zero and variance
/// one.
fn of_images(job: &CollapseDepth, tokens: usize, key: RngKey) -> Result<DepthData, Failure> {
    let images = job.images.clone().unwrap_or_default().read()?;
    let numbers = images.shape().numbers();
    if numbers % tokens != 0 {
        return Err(Failure::usage(format!(
            "--tokens {tokens}: the {numbers} numbers of an image are no multiple of it"
        ))
        .hint("give other --tokens, or resize of --images"));
    }
    let examples = labelled(&images)?;
    let Targets::Classes(labels) = examples.targets() else {
        return Err(Failure::general("the images have no classes"));
    };
    let order = key.stream().permutation(labels.len());
    let mut chosen = Vec::new();
    for class in 0..images.classes() as u32 {
        let own = order.iter().copied().filter(|image| labels[*image as usize] == class);
        let own: Vec<u32> = own.take(job.per_class).collect();
        if own.len() < job.per_class {
            let (found, wanted) = (own.len(), job.per_class);
            let message = format!("--per-class {wanted}: class {class} has {found} images");
            return Err(Failure::usage(message));
        }
        chosen.extend(own);
    }
    let rows = examples.batch(&chosen).rows;
    let count = rows.data().len() as f64;
    let mean = rows.data().iter().map(|x| f64::from(*x)).sum::<f64>() / count;
    let square = rows.data().iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>();
    let deviation = (square / count).sqrt();
    if deviation == 0.0 {
        return Err(Failure::general("all pixels of the images are equal"));
    }
    let x = rows.data().iter().map(|x| (f64::from(*x) - mean) / deviation).collect();
    Ok(DepthData {
        x: Mat::from_vec(chosen.len() * tokens, numbers / tokens, x),
        labels: chosen.iter().map(|image| labels[*image as usize]).collect(),
        classes: images.classes(),
        tokens,
    })
}

/// Draws pieces of consecutive words of each text, which are its class. A word is a normal vector
/// that its letters determine; transformers read a token more, the same behind every piece, and
/// residual networks the sum of the words, as long as one.
fn of_texts(job: &CollapseDepth, tokens: usize, key: RngKey) -> Result<DepthData, Failure> {
    let words = if tokens > 1 { tokens - 1 } else { TOKENS - 1 };
    let width = job.network.width();
    let (mut x, mut labels) = (Vec::new(), Vec::new());
    let vector = |word: &str| key.fold("word").fold(word).stream().normals(width, 1.0);
    for (class, path) in job.texts.iter().enumerate() {
        let corpus = Corpus::open(path, None)?;
        let text: Vec<&str> =
            corpus.documents.iter().flat_map(|document| document.text.split_whitespace()).collect();
        let pieces = text.len() / words;
        if pieces < job.per_class {
            let (shown, wanted) = (path.display(), job.per_class);
            return Err(Failure::usage(format!(
                "--per-class {wanted}: {shown} has {pieces} pieces of {words} words"
            )));
        }
        let order = key.fold("pieces").fold_index(class as u64).stream().permutation(pieces);
        for piece in &order[..job.per_class] {
            let start = *piece as usize * words;
            let vectors = text[start..start + words].iter().map(|word| vector(word));
            match tokens {
                1 => x.extend(sum(&vectors.collect::<Vec<_>>(), width)),
                _ => x.extend(vectors.chain([vector("")]).flatten()),
            }
            labels.push(class as u32);
        }
    }
    let x = Mat::from_vec(labels.len() * tokens, width, x);
    Ok(DepthData { x, labels, classes: job.texts.len(), tokens })
}

/// The sum of vectors, scaled to the length that one has.
fn sum(vectors: &[Vec<f64>], width: usize) -> Vec<f64> {
    let scale = 1.0 / (vectors.len() as f64).sqrt();
    (0..width).map(|j| scale * vectors.iter().map(|vector| vector[j]).sum::<f64>()).collect()
}
