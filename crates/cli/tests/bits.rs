//! Same seed, same bits, whatever the number of threads.

use crate::workshop::Workshop;

#[test]
fn compress_and_eval_do_not_depend_on_threads() {
    let w = Workshop::new();
    for method in ["rotor:epochs=1", "low-rank --keep 0.4", "block-hadamard:epochs=2"] {
        for threads in [1, 2] {
            w.ok(&format!(
                "compress model --method {method} --calibration calibration.jsonl:num_tokens=1500 --force \
                 --threads {threads} -o out{threads}"
            ));
        }
        assert!(w.weights("out1") == w.weights("out2"), "{method}");
        assert!(w.weights("out1") != w.weights("model"), "{method}");
        let [one, two] = [1, 2].map(|threads| {
            w.ok_json(&format!(
                "eval out1 --text text.jsonl --tasks questions --data questions=questions.jsonl --window 64 \
                 --threads {threads}"
            ))
        });
        assert_eq!(one["results"], two["results"], "{method}");
        assert_eq!(two["linwright"]["threads"], 2);
    }
}

#[test]
fn another_seed_gives_another_start() {
    let w = Workshop::new();
    for seed in [0, 1] {
        w.ok(&format!(
            "compress model --method rotor:epochs=1 --layers 0 --seed {seed} \
             --calibration calibration.jsonl:num_tokens=1500 -o out{seed}"
        ));
    }
    assert!(w.weights("out0") != w.weights("out1"));
}
