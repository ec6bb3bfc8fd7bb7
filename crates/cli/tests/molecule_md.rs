//! `molecule md` and `molecule relax`: structures that move.

use crate::interruption::stop_at;
use crate::molecule::{number, potential, random, small};
use crate::workshop::{Workshop, names};

/// A crystal of water molecules, in a box that is smaller than twice the cutoff.
const CRYSTAL: &str = "3
Lattice=\"6 0 0 0.5 6.5 0 0 -0.5 7\" Properties=species:S:1:pos:R:3 pbc=\"T T T\"
O 0 0 0.1
H 0 0.8 -0.5
H 0 -0.8 -0.5
";

const MD: &str = "molecule md potential.ckpt a.xyz --timestep 0.25 --every 4";

#[test]
fn a_simulation_has_a_trajectory_a_log_and_a_report() {
    let w = Workshop::new();
    potential(&w);
    let found = w.ok_json(&format!("{MD} --steps 40 --temperature 100 --seed 3 -o md"));
    assert_eq!((&found["frames"], &found["steps"]), (&11.into(), &40.into()));
    assert_eq!(found["atoms"], 3);
    assert!(number(&found, "energy_drift_ev_per_atom_per_ps").is_finite());
    assert!(number(&found, "steps_per_second") > 0.0 && number(&found, "ns_per_day") > 0.0);
    assert!(found["pressure_gpa"].is_null());
    assert!(found["first"]["temperature_k"].as_f64().unwrap() > 1.0);
    assert_eq!(
        names(&w.path("md")),
        [
            ".lock",
            "basis.json",
            "final.xyz",
            "fingerprint",
            "log.jsonl",
            "measured.json",
            "recipe.yaml",
            "report.html",
            "report.md",
            "reproduce.json",
            "result.json",
            "state.json",
            "trajectory.xyz",
        ]
    );
    assert!(w.json("md/measured.json")["measured"]["steps_per_second"].is_number());
    assert!(w.json("md/result.json").get("steps_per_second").is_none());
    assert_eq!(w.text("md/log.jsonl").lines().count(), 11);
    assert!(w.ok("report md").contains("total energy drifts"));
    // The energies of the frames are those of the potential.
    let again = w.ok_json("molecule eval potential.ckpt md/trajectory.xyz");
    assert_eq!(again["structures"], 11);
    assert!(number(&again, "energy_mae") < 1e-12 && number(&again, "force_mae") < 1e-12);
    // The same command does nothing, a longer one continues, others are rejected.
    let frames = w.read("md/trajectory.xyz");
    let same = w.ok_json(&format!("{MD} --steps 40 --temperature 100 --seed 3 -o md"));
    assert_eq!((&same["steps_made"], &same["frames"]), (&0.into(), &11.into()));
    assert_eq!(w.read("md/trajectory.xyz"), frames);
    w.ok(&format!("{MD} --steps 60 --temperature 100 --seed 3 -o md"));
    w.ok(&format!("{MD} --steps 60 --temperature 100 --seed 3 -o whole --threads 2"));
    for file in ["trajectory.xyz", "log.jsonl", "final.xyz", "state.json", "result.json"] {
        assert!(w.read(&format!("md/{file}")) == w.read(&format!("whole/{file}")), "{file}");
    }
    let shorter = format!("{MD} --steps 20 --temperature 100 --seed 3 -o md");
    w.fails(&shorter, 2, &["--steps 20", "60 steps", "more steps"]);
    w.fails(
        &format!("{MD} --steps 60 --temperature 100 --seed 4 -o md"),
        6,
        &["md", "another run", "seed is 3 there and 4 here"],
    );
}

#[test]
fn simulations_keep_a_temperature_and_start_with_momenta() {
    let w = Workshop::new();
    potential(&w);
    let langevin = "--ensemble langevin --friction 0.05 --temperature 50 --units eV,A --exact";
    let found = w.ok_json(&format!("{MD} {langevin} --steps 20 -o warm"));
    assert_eq!(found["ensemble"]["kind"], "langevin");
    let named = w.ok_json(&format!("{MD} --ensemble nvt --steps 2 -o named"));
    assert_eq!(named["ensemble"]["kind"], "langevin");
    let noted = w.run(&format!("{MD} --temperature 100 --steps 2 -o noted"));
    assert!(noted.stderr.contains("--ensemble langevin keeps it"), "{}", noted.stderr);
    assert_eq!(found["ensemble"]["friction"], 0.05);
    // The last frame has momenta, with which another simulation begins by default.
    let last = found["last"]["kinetic_energy_ev"].as_f64().unwrap();
    let kinetic = |more: &str, output: &str| {
        let line =
            "molecule md potential.ckpt warm/final.xyz --steps 1 --every 1 --exact".to_owned();
        let found = w.ok_json(&format!("{line} {more} -o {output}"));
        found["first"]["kinetic_energy_ev"].as_f64().unwrap()
    };
    assert!((kinetic("", "on") - last).abs() < 1e-12 * last);
    assert_eq!(kinetic("--temperature 0", "still"), 0.0);
    assert!((kinetic("--temperature 50", "drawn") - last).abs() > 1e-6 * last);
    w.write("crystal.xyz", CRYSTAL);
    let line = "molecule md potential.ckpt crystal.xyz --steps 4 --every 2 -o solid";
    assert!(w.ok_json(line)["pressure_gpa"]["mean"].is_number());
    assert!(w.text("solid/trajectory.xyz").contains("stress="));
    for (options, told) in [
        ("--friction 0.1", "--friction"),
        ("--ensemble langevin --friction 0", "--friction 0"),
        ("--ensemble langevin --temperature 0", "--temperature 0"),
        ("--temperature nan", "--temperature"),
        ("--timestep 0", "--timestep 0"),
        ("--ensemble npt", "langevin"),
    ] {
        w.fails(&format!("molecule md potential.ckpt a.xyz {options} -o odd"), 2, &[told]);
        assert!(!w.path("odd").exists());
    }
}

#[test]
fn a_stopped_simulation_goes_on_to_the_same_bytes() {
    let w = Workshop::new();
    potential(&w);
    let line = "molecule md potential.ckpt a.xyz --steps 30000 --every 50 --ensemble langevin -o";
    w.ok(&format!("{line} whole"));
    for (name, code) in [("-INT", Some(75)), ("-KILL", None), ("-TERM", Some(75))] {
        let (status, said) = stop_at(&w, &format!("{line} md"), "simulating", name);
        assert_eq!(status.code(), code, "{said}");
        assert!(!w.path("md/result.json").exists());
        assert!(code.is_none() || said.contains("same command again"), "{said}");
    }
    w.ok(&format!("{line} md"));
    for file in ["trajectory.xyz", "log.jsonl", "final.xyz", "state.json", "result.json"] {
        assert!(w.read(&format!("md/{file}")) == w.read(&format!("whole/{file}")), "{file}");
    }
    // Files that were changed are refused by name.
    w.write("md/state.json", w.text("md/state.json").replacen("velocities", "speeds", 1));
    w.fails(&format!("{line} md"), 1, &["md/state.json", "remove its directory"]);
}

#[test]
fn ensembles_move_atoms_by_their_mean() {
    let w = Workshop::new();
    potential(&w);
    std::fs::create_dir(w.path("ensemble")).unwrap();
    for seed in 1..4 {
        random(&w, &format!("ensemble/{seed}.safetensors"), small(), seed);
    }
    let line = "molecule md ensemble a.xyz --steps 4 --timestep 0.01 --every 2 --exact";
    w.ok(&format!("{line} --seed 3 -o md"));
    let again = w.ok_json("molecule eval ensemble md/trajectory.xyz --exact");
    assert_eq!((&again["structures"], &again["members"]), (&3.into(), &3.into()));
    assert!(number(&again, "energy_mae") < 1e-9 && number(&again, "force_mae") < 1e-9, "{again}");
    let one = w.ok_json("molecule eval ensemble/2.safetensors md/trajectory.xyz --exact");
    assert!(number(&one, "force_mae") > 1e-3, "{one}");
    w.ok("molecule relax ensemble a.xyz --fmax 1000 --steps 3 --exact -o relaxed.xyz");
    let again = w.ok_json("molecule eval ensemble relaxed.xyz --exact");
    assert!(number(&again, "force_mae") < 1e-9, "{again}");
    // Another member is another simulation.
    random(&w, "ensemble/3.safetensors", small(), 9);
    w.fails(&format!("{line} --seed 3 -o md"), 6, &["md", "another run"]);
}

#[test]
fn structures_are_relaxed_and_what_did_not_converge_is_told() {
    let w = Workshop::new();
    potential(&w);
    let relax = "molecule relax potential.ckpt a.xyz";
    for optimizer in ["lbfgs", "fire"] {
        let line = format!("{relax} --optimizer {optimizer} --fmax 0.05 --steps 3000 --exact");
        let found = w.ok_json(&format!("{line} -o {optimizer}.xyz"));
        assert_eq!((&found["structures"], &found["converged"]), (&2.into(), &2.into()));
        let one = &found["relaxations"][1];
        assert!(number(one, "fmax") <= 0.05 && number(one, "steps") > 0.0, "{one}");
        let text = w.text(&format!("{optimizer}.xyz"));
        assert_eq!(text.matches("converged=T").count(), 2, "{text}");
        // The forces that were written are those of the potential, and small.
        let line = format!("molecule eval potential.ckpt {optimizer}.xyz --exact");
        let again = w.ok_json(&line);
        assert!(number(&again, "force_rmse") < 1e-12);
    }
    let short = format!("{relax} --steps 1 --fmax 1e-6 --limit 1 -o short.xyz");
    let outcome = w.run(&short);
    assert_eq!(outcome.code, Some(4), "{outcome:?}");
    assert!(outcome.stderr.contains("1 of 1 structures did not converge"), "{outcome:?}");
    assert!(outcome.stdout.contains("no"), "{outcome:?}");
    assert_eq!(w.text("short.xyz").matches("converged=F").count(), 1);
    w.fails(&short, 2, &["short.xyz", "--force"]);
    assert_eq!(w.run(&format!("{short} --force")).code, Some(4));
    // Cells relax too, if there are any.
    w.write("crystal.xyz", CRYSTAL);
    let line =
        "molecule relax potential.ckpt crystal.xyz --cell --steps 3 --fmax 1e-9 --units eV,A";
    assert_eq!(w.run(&format!("{line} -o cell.xyz")).code, Some(4));
    let cell = w.text("cell.xyz");
    assert!(cell.contains("stress=") && !cell.contains("0.5 6.5 0"), "{cell}");
    w.fails(&format!("{relax} --cell -o odd.xyz"), 2, &["structure 0", "cell", "repeats"]);
    w.fails(&format!("{relax} --fmax 0 -o odd.xyz"), 2, &["--fmax 0"]);
    assert!(!w.path("odd.xyz").exists());
}

/// Files that no command takes as structures: content, exit code, and words of the message.
const BAD: [(&str, i32, &[&str]); 14] = [
    ("", 1, &["bad.xyz", "no structures"]),
    ("two\n", 1, &["bad.xyz, line 1", "the number of atoms"]),
    ("3\n\nO 0 0 0\n", 1, &["bad.xyz, line 4", "expected 3 atoms, of which 1 are there"]),
    ("1\n\nO 0 nan 0\n", 1, &["line 3, column 5", "nan", "a finite number"]),
    ("1\n\nO 0 0 1e200\n", 1, &["structure 0", "coordinate z of atom 0"]),
    ("2\n\nO 0 0 0\nH 0 0 0\n", 1, &["structure 0", "atoms 0 and 1 are 0 apart"]),
    ("1\n\nQq 0 0 0\n", 1, &["line 3", "Qq", "symbol of an element"]),
    ("1\n\nAu 0 0 0\n", 1, &["structure 0", "Au", "max_z"]),
    ("1\nProperties=species:S:1\nO\n", 1, &["line 2", "pos:R:3"]),
    ("1\nProperties=species:S:1:pos:R:3:forces:R:3\nO 0 0 0\n", 1, &["line 3", "a force"]),
    (
        "1\nLattice=\"3 0 0 0 3 0 3 3 0\" Properties=species:S:1:pos:R:3\nO 0 0 0\n",
        1,
        &["structure 0", "the cell", "no volume"],
    ),
    ("1\nLattice=\"3 0 0\" Properties=species:S:1:pos:R:3\nO 0 0 0\n", 1, &["line 2", "nine"]),
    (
        "1\nProperties=species:S:1:pos:R:3 units=\"kcal/mol,A\"\nO 0 0 0\n",
        2,
        &["structure 0", "kcal/mol,A", "expected eV,A", "--units"],
    ),
    (
        "2\nLattice=\".03 0 0 0 .03 0 0 0 .03\" Properties=species:S:1:pos:R:3\nO 0 0 0\nH 0 0 .01\n",
        1,
        &["structure 0", "other units"],
    ),
];

#[test]
fn no_command_takes_bad_structures_and_none_leaves_anything() {
    let w = Workshop::new();
    potential(&w);
    for (content, code, words) in BAD {
        w.write("bad.xyz", content);
        let before = w.names();
        for command in [
            "molecule eval potential.ckpt bad.xyz -o out.xyz",
            "molecule md potential.ckpt bad.xyz --steps 5 -o out",
            "molecule relax potential.ckpt bad.xyz -o out.xyz",
        ] {
            for exact in ["", " --exact"] {
                w.fails(&format!("{command}{exact}"), code, words);
                assert_eq!(w.names(), before, "{command}");
            }
        }
    }
    let bytes = w.read("potential.ckpt");
    w.write("short.ckpt", &bytes[..bytes.len() / 2]);
    w.write("text.ckpt", "weights");
    for potential in ["short.ckpt", "text.ckpt", "a.xyz", "model", "missing.ckpt"] {
        for command in ["eval P a.xyz", "md P a.xyz -o out", "relax P a.xyz -o out.xyz", "info P"] {
            let line = format!("molecule {}", command.replace('P', potential));
            w.fails(&line, 1, &[potential]);
        }
    }
    assert!(!w.path("out").exists() && !w.path("out.xyz").exists());
}
