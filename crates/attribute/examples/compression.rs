//! Times the compression of gradients of one layer for `tools/bench/attribution.py`, which runs
//! torch in turns with it: writes inputs, maps and results to a directory for comparison, prints
//! `ready`, then the milliseconds of one call for the name in every line that it reads.
//!
//! `cargo run --release -p linwright-attribute --example compression -- DIRECTORY [threads] [width]
//! [tokens] [examples] [size]`
//!
//! `logra` and `factgrass` compress a batch, everything from inputs and gradients of outputs to
//! compressed gradients; `gathers` is a part of the latter, `blocks` the same with masks of
//! cache lines. The limits of the machine: `memory` reads inputs and gradients once,
//! `product` is a product of 2 · 1024³ operations.

use linwright_attribute::{CompressorKey, CompressorSpec, LayerMap, LayerShape};
use linwright_ops::ExampleRows;
use linwright_tensor::kernels::gemm::{Arg, Write as How, product};
use linwright_tensor::{Mat, MatMut, MatRef, RngKey, Scratch, little_endian_bytes, parallel};
use safetensors::tensor::{Dtype, View};
use std::borrow::Cow;
use std::error::Error;
use std::hint::black_box;
use std::io::{BufRead, Write, stdin, stdout};
use std::path::Path;
use std::time::Instant;

/// Side of the large product.
const SIDE: usize = 1024;

/// The numbers of a batch, and the maps of both compressors.
struct Batch {
    inputs: Mat<f32>,
    gradients: Mat<f32>,
    examples: Vec<ExampleRows>,
    logra: LayerMap,
    factgrass: LayerMap,
    blocks: LayerMap,
    factors: [Mat<f32>; 2],
}

impl Batch {
    fn draw([width, tokens, examples, size]: [usize; 4]) -> Result<Self, Box<dyn Error>> {
        let key = RngKey::new(1);
        let rows = tokens * examples;
        let draw = |name: &str, rows, cols| {
            Mat::from_vec(rows, cols, key.fold(name).stream().normals(rows * cols, 1.0))
        };
        let shape = LayerShape { out: width, inp: width, bias: false };
        let map = |name: &str, more: &str| -> Result<LayerMap, Box<dyn Error>> {
            let spec: CompressorSpec = format!("{name}:{size}{more}").parse()?;
            Ok(spec.build(("layer", shape), CompressorKey { seed: 1, checkpoint: 0 }, None)?)
        };
        let spans: Vec<_> = (0..examples).map(|e| e * tokens..(e + 1) * tokens).collect();
        Ok(Self {
            inputs: draw("inputs", rows, width),
            gradients: draw("gradients", rows, width),
            examples: ExampleRows::of_spans(&spans),
            logra: map("logra", "")?,
            factgrass: map("factgrass", "")?,
            blocks: map("factgrass", ",block=16")?,
            factors: [draw("left", SIDE, SIDE), draw("right", SIDE, SIDE)],
        })
    }

    fn compressed(&self, map: &LayerMap) -> Mat<f32> {
        let mut rows = Mat::zeros(self.examples.len(), map.size());
        let (count, kept) = (self.inputs.rows(), map.kept());
        let mut inputs = Scratch::new(count * kept);
        map.reduce_inputs_to(self.inputs.view(), MatMut::new(&mut inputs, count, kept));
        let inputs = MatRef::new(&inputs, count, kept);
        map.add_examples(self.gradients.view(), inputs, &self.examples, rows.view_mut());
        rows
    }

    /// Milliseconds of one call.
    fn timed(&self, name: &str) -> Result<f64, Box<dyn Error>> {
        let start = Instant::now();
        match name {
            "logra" => drop(black_box(self.compressed(&self.logra))),
            "factgrass" => drop(black_box(self.compressed(&self.factgrass))),
            "blocks" => drop(black_box(self.compressed(&self.blocks))),
            "gathers" => drop(black_box((
                self.factgrass.reduce_inputs(self.inputs.view()),
                self.factgrass.reduce_gradients(self.gradients.view()),
            ))),
            "memory" => {
                black_box(self.sums());
            }
            "product" => {
                let [left, right] = &self.factors;
                let mut y = Mat::zeros(SIDE, SIDE);
                let (left, right) = (Arg::Plain(left.view()), Arg::Plain(right.view()));
                product(1.0, left, right, y.view_mut(), How::Set);
                black_box(y);
            }
            other => return Err(format!("there is no {other}").into()),
        }
        Ok(start.elapsed().as_secs_f64() * 1e3)
    }

    /// Sums of all numbers of a batch in blocks of rows, which reads them once.
    fn sums(&self) -> f32 {
        let rows = [&self.inputs, &self.gradients];
        let blocks = rows.into_iter().flat_map(|m| m.data().chunks(64 * m.cols())).collect();
        let sum = |_, block: &[f32]| {
            let mut sums = [0.0f32; 64];
            for part in block.chunks_exact(64) {
                sums.iter_mut().zip(part).for_each(|(sum, x)| *sum += x);
            }
            sums.iter().sum::<f32>()
        };
        parallel::map(blocks, sum).into_iter().sum()
    }

    /// Writes what the other side reads to a directory: maps, and the batch with both results.
    fn write(&self, directory: &Path) -> Result<(), Box<dyn Error>> {
        let maps = [("logra", &self.logra), ("factgrass", &self.factgrass)];
        let mut tensors =
            vec![("inputs", self.inputs.clone()), ("gradients", self.gradients.clone())];
        for (name, map) in maps {
            map.parts().write(&directory.join(format!("{name}.safetensors")))?;
            tensors.push((name, self.compressed(map)));
        }
        let view = |(name, m): &(&'static str, Mat<f32>)| {
            let bytes = little_endian_bytes(m.data()).to_vec();
            (*name, Tensor { shape: vec![m.rows(), m.cols()], bytes })
        };
        let views: Vec<_> = tensors.iter().map(view).collect();
        Ok(safetensors::serialize_to_file(views, None, &directory.join("batch.safetensors"))?)
    }
}

/// A matrix in a file.
struct Tensor {
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl View for Tensor {
    fn dtype(&self) -> Dtype {
        Dtype::F32
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.bytes)
    }

    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut given = std::env::args().skip(1);
    let directory = given.next().ok_or("expected a directory")?;
    let mut numbers = [2, 2048, 512, 8, 4096];
    for (number, given) in numbers.iter_mut().zip(given) {
        *number = given.parse()?;
    }
    let [threads, sizes @ ..] = numbers;
    parallel::set_threads(threads)?;
    let batch = Batch::draw(sizes)?;
    batch.write(Path::new(&directory))?;
    let mut out = stdout();
    writeln!(out, "ready")?;
    for line in stdin().lock().lines() {
        writeln!(out, "{}", batch.timed(line?.trim())?)?;
        out.flush()?;
    }
    Ok(())
}
