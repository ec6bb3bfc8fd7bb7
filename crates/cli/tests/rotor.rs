//! `rotor convergence`: tables, files and refusals.

use crate::workshop::Workshop;

#[test]
fn convergence_writes_figure_table_and_data() {
    let w = Workshop::new();
    let plan = "rotor convergence --dims 16..32 --seeds 3 --seed 1 --threads 2 -q --out found";
    let shown = w.ok(plan);
    for said in ["not converged", "angles equal", "exact", "3 bivectors", "wrote rotor-convergence"]
    {
        assert!(shown.contains(said), "{said:?} in {shown}");
    }
    let json = w.json("found/rotor-convergence.json");
    assert_eq!(json["training"].as_array().unwrap().len(), 2 * 10);
    assert!(w.text("found/rotor-convergence.svg").contains("d = 32"));
    let csv = w.text("found/rotor-convergence.csv");
    assert!(csv.contains("\ntraining,normal,16,1,,iterations,"), "{csv}");
    // Numbers of iterations and errors, not times: they are the same again.
    let again = w.ok_json("rotor convergence --dims 16,32 --seeds 3 --seed 1 --threads 1 -q");
    assert_eq!((&again["training"], &again["accuracy"]), (&json["training"], &json["accuracy"]));
}

#[test]
fn impossible_experiments_are_refused() {
    let w = Workshop::new();
    for (args, words) in [
        ("--dims 48", &["48", "power of two", "64..4096"][..]),
        ("--dims 64..", &["power of two"]),
        ("--dims 8192", &["generators: found 13", "4 to 12"]),
        ("--dims 64..16", &["algebras"]),
        ("--seeds 0", &["--seeds", "from 1 to"]),
    ] {
        w.fails(&format!("rotor convergence {args} --out found"), 2, words);
    }
    w.fails("rotor spin", 2, &["spin"]);
    assert!(!w.path("found").exists());
}
