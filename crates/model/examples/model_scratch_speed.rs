//! Scratch timing.
use linwright_model::{Batch, Decoder, DecoderConfig, DecoderGrads, TrainingMemory};
use linwright_ops::NoProbe;
use linwright_tensor::RngKey;
fn cpu() -> f64 {
    let s = std::fs::read_to_string("/proc/self/stat").unwrap();
    let f: Vec<&str> = s.rsplit(')').next().unwrap().split_whitespace().collect();
    (f[11].parse::<f64>().unwrap() + f[12].parse::<f64>().unwrap()) / 100.0
}
fn main() {
    let which = std::env::args().nth(1).unwrap_or_default();
    let config = |h: usize, i: usize, l: usize, heads: usize, kv: usize, v: usize| {
        DecoderConfig::from_json(&serde_json::json!({"model_type":"llama","hidden_size":h,"intermediate_size":i,"num_hidden_layers":l,"num_attention_heads":heads,"num_key_value_heads":kv,"vocab_size":v,"max_position_embeddings":2048,"rms_norm_eps":1e-5})).unwrap()
    };
    let mut stream = RngKey::new(1).stream();
    if which != "train" {
        let vocab: usize = std::env::args().nth(2).map_or(32000, |v| v.parse().unwrap());
        let d = Decoder::random(config(512, 1376, 8, 8, 8, vocab), RngKey::new(1));
        let seqs: Vec<Vec<u32>> = (0..4).map(|_| (0..512).map(|_| stream.below(vocab) as u32).collect()).collect();
        let batch = Batch::new(&seqs.iter().map(Vec::as_slice).collect::<Vec<_>>());
        for _ in 0..4 {
            let t = cpu();
            let mut h = d.embed(&batch).unwrap();
            d.run_layers(&mut h, &batch, 0..8, &mut NoProbe).unwrap();
            let a = (cpu() - t);
            let s = d.token_nll(&h, &batch, &[0; 4]).unwrap();
            let e = (cpu() - t);
            println!("eval {:.0} tok/cpu-s (layers {:.3} s, head {:.3} s) nll {}", 2048.0 / e, a, e - a, s[0][0].nll);
        }
    } else {
        let d = Decoder::random(config(256, 256, 10, 4, 2, 1024), RngKey::new(1));
        println!("{} parameters", d.config().parameters());
        let seqs: Vec<Vec<u32>> = (0..16).map(|_| (0..256).map(|_| stream.below(1024) as u32).collect()).collect();
        let batch = Batch::new(&seqs.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let mut g = DecoderGrads::zeros(&d);
        let mut m = TrainingMemory::default();
        for _ in 0..4 {
            let t = cpu();
            g.clear();
            let loss = d.loss_and_grads(&batch, &batch.next_tokens(), &mut g, &mut m).unwrap();
            println!("train {:.0} tok/cpu-s loss {loss}", 4096.0 / (cpu() - t));
        }
    }
}
