//! Milliseconds of energy and forces on the fast path: `fast_speed STRUCTURE.xyz CHANNELS LAYERS
//! CUTOFF [exact]`, with random weights. Prints the medians of one and of two threads, the bytes by
//! atom, and the energy.

use linwright_molecule::tensornet::{TensorNet, TensorNetConfig};
use linwright_molecule::{
    FastOptions, FastTensorNet, LabelKeys, Neighbours, Potential, Wanted, read_xyz,
};
use linwright_tensor::RngKey;
use linwright_tensor::parallel::with_threads;
use std::error::Error;
use std::path::Path;
use std::time::Instant;

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, path, channels, layers, cutoff, rest @ ..] = &arguments[..] else {
        return Err("fast_speed STRUCTURE.xyz CHANNELS LAYERS CUTOFF [exact]".into());
    };
    let cutoff: f64 = cutoff.parse()?;
    let config = TensorNetConfig::new(channels.parse()?, layers.parse()?, 32, cutoff);
    let model = TensorNet::<f32>::random(config, RngKey::new(1))?;
    let options = match rest.is_empty() {
        true => FastOptions::default(),
        false => FastOptions { intervals: None },
    };
    let mut fast = FastTensorNet::new(&model, options)?;
    let structure = read_xyz(Path::new(path), &LabelKeys::default())?.remove(0);
    let atoms = structure.species.len();
    let wanted = Wanted { forces: true };
    for threads in [1, 2] {
        let times = with_threads(threads, || -> Result<[f64; 2], String> {
            let mut times = [Vec::new(), Vec::new()];
            let start = Instant::now();
            while times[0].len() < 7 || start.elapsed().as_secs_f64() < 1.0 {
                let begin = Instant::now();
                let list =
                    Neighbours::within(&structure, 0.0, cutoff).map_err(|e| e.to_string())?;
                times[1].push(1e3 * begin.elapsed().as_secs_f64());
                drop(list);
                let begin = Instant::now();
                fast.predict(&structure, wanted).map_err(|e| e.to_string())?;
                times[0].push(1e3 * begin.elapsed().as_secs_f64());
            }
            Ok(times.map(median))
        })??;
        println!("threads {threads}: {:.3} ms, of which neighbours {:.3}", times[0], times[1]);
    }
    let bytes = fast.working_bytes() / atoms.max(1);
    println!("{atoms} atoms, {bytes} bytes each, tables {} bytes", fast.table_bytes());
    Ok(())
}
