//! A program in C, compiled, run and compared with the facade: the same numbers to the last bit,
//! the same messages and exit codes.

use crate::{libraries, package};
use linwright::files::TensorFile;
use linwright::jobs::{Failure, message_of};
use linwright::molecule::{
    Cell, Checkpoint, Ensemble, Numbers, Prediction, PriorChoices, Structure, Wanted, Weight,
};
use linwright::operators;
use linwright::ops::{Backward, Op, OpSpec, Shape, Tape, Workspace};
use linwright::tensor::{Mat, MatRef, RngKey, Scalar};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Rows that the program maps.
const ROWS: usize = 5;

fn reference(name: &str) -> PathBuf {
    package().join("../../testdata/tensornet").join(name)
}

/// Models and an operator, as the program takes them.
struct Files {
    potential: PathBuf,
    ensemble: PathBuf,
    charged: PathBuf,
    operator: PathBuf,
}

impl Files {
    fn make(folder: &Path) -> Self {
        let files = Self {
            potential: reference("a_lightning.ckpt"),
            ensemble: folder.join("ensemble"),
            charged: folder.join("charged.safetensors"),
            operator: folder.join("operator.safetensors"),
        };
        std::fs::create_dir(&files.ensemble).unwrap();
        for (index, factor) in [0.8, 1.0, 1.5].into_iter().enumerate() {
            let mut one = Checkpoint::open(&files.potential).unwrap();
            let factor = Weight { shape: Vec::new(), numbers: Numbers::F64(vec![factor]) };
            one.tensors.insert("std".into(), factor);
            one.save(&files.ensemble.join(format!("{index}.safetensors"))).unwrap();
        }
        charged(&files.potential).save(&files.charged).unwrap();
        operators::save(&operator(), &files.operator, false).unwrap();
        files
    }
}

/// A model of an architecture that the fast path does not have.
fn charged(like: &Path) -> Checkpoint {
    let mut checkpoint = Checkpoint::open(like).unwrap();
    let file = TensorFile::open(&reference("tensornet2_weights.safetensors")).unwrap();
    let tensors = file.tensors().iter().map(|(name, info)| {
        let numbers = Numbers::F32(file.read(name, &info.shape).unwrap().values);
        (name.clone(), Weight { shape: info.shape.clone(), numbers })
    });
    checkpoint.tensors = tensors.collect();
    for (name, value) in [
        ("model", json!("tensornet-nqe")),
        ("output_model", json!("Scalar")),
        ("q_dim", json!(4)),
        ("q_weights", json!([1.0, 2.0])),
        ("coulomb_cutoff", json!(null)),
    ] {
        checkpoint.hyper.insert(name.into(), value);
    }
    checkpoint
}

fn operator() -> Op<f64> {
    let spec: OpSpec = serde_json::from_value(json!({ "kind": "low_rank", "rank": 3 })).unwrap();
    spec.random(Shape { out: 6, inp: 8 }, RngKey::new(4)).unwrap()
}

fn water() -> Structure {
    Structure {
        species: vec![8, 1, 1],
        positions: vec![[0.0, 0.0, 0.1], [0.0, 0.8, -0.5], [0.0, -0.8, -0.5]],
        ..Structure::default()
    }
}

fn predicted(path: &Path, exact: bool, structure: &Structure) -> Prediction {
    let model = Ensemble::open(&[path], PriorChoices::default()).unwrap();
    let mut potential = model.potential(exact).unwrap();
    potential.predict(structure, Wanted { forces: true }).unwrap()
}

/// Runs a command of the compiler's kind, and shows what it said if it failed.
fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| {
        panic!("{command:?}: {error}; these tests need a C compiler named cc, as the build does")
    });
    let said = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{command:?} ended with {}\n{}", output.status, said.concat());
    output
}

/// What the program prints when it was linked with more arguments.
fn printed(folder: &Path, files: &Files, link: &[String]) -> Vec<String> {
    let program = folder.join("interface");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-o"]).arg(&program);
    compiler.arg("-I").arg(package().join("include")).arg(package().join("tests/interface.c"));
    run(compiler.args(link));
    let Files { potential, ensemble, charged, operator } = files;
    let output = run(Command::new(&program).args([potential, ensemble, charged, operator]));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// The numbers of a line that begins with `name`, after a line `section` if there is one.
fn numbers(lines: &[String], section: Option<&str>, name: &str) -> Vec<f64> {
    let start = section.map_or(0, |section| {
        lines.iter().position(|line| line == section).unwrap_or_else(|| panic!("no {section}"))
    });
    let line = lines[start..].iter().find_map(|line| line.strip_prefix(&format!("{name} ")));
    let line = line.unwrap_or_else(|| panic!("no {name}: {lines:#?}"));
    line.split(' ').map(|number| number.parse().unwrap()).collect()
}

fn compare(lines: &[String], section: &str, expected: &Prediction) {
    let at = |name| numbers(lines, Some(section), name);
    assert_eq!(at("energy"), [expected.energy], "{section}");
    assert_eq!(at("atom_energies"), expected.atom_energies, "{section}");
    assert_eq!(at("forces"), expected.forces.as_flattened(), "{section}");
    assert_eq!(at("virial"), expected.virial.as_flattened(), "{section}");
}

/// Outputs and gradients of the input, as doubles.
fn mapped<T: Scalar>(op: &Op<T>) -> [Vec<f64>; 2] {
    let Shape { out, inp } = op.map().shape();
    let x = (0..ROWS * inp).map(|i| T::from_f64(((i * 37 % 64) as f64 - 32.0) / 16.0));
    let x: Vec<T> = x.collect();
    let x = MatRef::new(&x, ROWS, inp);
    let (mut y, mut dx) = (Mat::zeros(ROWS, out), Mat::zeros(ROWS, inp));
    let (mut tape, mut ws) = (Tape::default(), Workspace::default());
    op.map().forward(x, y.view_mut(), Some(&mut tape), &mut ws);
    let dx_view = Some(dx.view_mut());
    let args = Backward { x, dy: y.view(), tape: &tape, dx: dx_view, grads: None };
    op.map().backward(args, &mut ws);
    [y, dx].map(|mat| mat.into_vec().into_iter().map(Scalar::to_f64).collect())
}

fn check_numbers(lines: &[String], files: &Files) {
    let mut structure = water();
    compare(lines, "open", &predicted(&files.potential, false, &structure));
    compare(lines, "again", &predicted(&files.potential, false, &structure));
    compare(lines, "after", &predicted(&files.potential, false, &structure));
    compare(lines, "exact", &predicted(&files.potential, true, &structure));
    let alone = predicted(&files.potential, false, &structure).energy;
    assert_eq!(numbers(lines, None, "alone"), [alone]);
    assert_eq!(numbers(lines, None, "both"), [alone]);
    assert_eq!(numbers(lines, None, "cutoff"), [4.5]);
    let mean = predicted(&files.ensemble, false, &structure);
    compare(lines, "ensemble", &mean);
    let deviation = mean.deviation.unwrap();
    assert!(deviation.energy > 0.0);
    assert_eq!(numbers(lines, None, "deviation"), [deviation.energy]);
    assert_eq!(numbers(lines, None, "deviation_forces"), deviation.forces.as_flattened());
    let rows = [[9.0, 0.0, 0.0], [0.5, 8.0, 0.0], [0.0, 0.25, 7.5]];
    structure.cell = Some(Cell::periodic(rows));
    compare(lines, "cell", &predicted(&files.potential, false, &structure));
    structure.cell = Some(Cell { rows, periodic: [true, true, false] });
    compare(lines, "slab", &predicted(&files.potential, false, &structure));
    structure = water();
    let neutral = predicted(&files.charged, true, &structure).energy;
    structure.charge = 1.0;
    let charged = predicted(&files.charged, true, &structure);
    assert_ne!(neutral, charged.energy);
    compare(lines, "charged", &charged);

    let own = operators::load::<f64>(&files.operator).unwrap();
    let single = operators::load::<f32>(&files.operator).unwrap();
    for (names, expected) in
        [(["y", "dx"], mapped(&own)), (["y_single", "dx_single"], mapped(&single))]
    {
        for (name, expected) in names.iter().zip(expected) {
            assert_eq!(numbers(lines, None, name), expected, "{name}");
        }
    }
}

/// What was refused: name, exit code, and parts of message and hint.
const REFUSED: &[(&str, i32, &str)] = &[
    ("deviation before computing", 2, "nothing was computed"),
    ("deviation of no forces", 2, "had no forces"),
    ("absent", 1, "cannot read no/such/model.ckpt"),
    ("null path", 2, "path is null, expected a pointer"),
    ("empty path", 2, "path is empty"),
    ("null handle", 2, "potential is null"),
    ("no paths", 2, "0 paths"),
    ("null paths", 2, "paths is null"),
    ("charged and fast", 2, "| exact supports more architectures"),
    ("deviation of one", 2, "by a single model"),
    ("null species", 2, "numbers is null"),
    ("too many", 2, "more than memory can hold"),
    ("misaligned", 2, "positions is not aligned to 8 bytes"),
    ("charge", 2, "charge is NaN"),
    ("skin", 2, "skin is -1, expected a distance"),
    ("null potential", 2, "potential is null"),
    ("two positions of three", 1, "the structure has 3 species, but 2 positions"),
    ("coincident", 1, "atom"),
    ("infinite", 1, "atom 1"),
    ("unknown", 2, "atom 2 (number 200)"),
    ("flat cell", 1, "cell"),
    ("absent", 1, "cannot read no/such/operator.safetensors"),
    ("another file", 1, "a_lightning.ckpt"),
    ("16 bits", 2, "bits is 16, expected 0, 32 or 64"),
    ("null handle", 2, "op is null"),
    ("other precision", 2, "| open it with bits = 32"),
    ("null x", 2, "x is null"),
    ("null y", 2, "y is null"),
    ("too many rows", 2, "more than memory can hold"),
    ("overlap", 2, "y overlaps x"),
    ("overlap with x", 2, "dx overlaps x"),
    ("null dy", 2, "dy is null"),
    ("null operator", 2, "op is null"),
];

fn check_texts(lines: &[String], files: &Files) {
    let refused: Vec<&String> = lines.iter().filter(|line| line.starts_with("refused ")).collect();
    assert_eq!(refused.len(), REFUSED.len(), "{refused:#?}");
    for (line, (name, code, part)) in refused.iter().zip(REFUSED) {
        let start = format!("refused {name}: {code}: ");
        assert!(line.starts_with(&start) && line.contains(part), "{line}\nis not {start}{part}");
    }
    let expect = |line: &str| assert!(lines.iter().any(|one| one == line), "no {line}: {lines:#?}");
    expect("no error [] []");
    expect("operator 8 6 64 32");
    expect("null 0 0 0");
    expect("cutoff of null nan");
    assert_eq!(lines.iter().filter(|line| *line == "handle null").count(), 2);
    assert!(lines[0].starts_with(&format!("version {}", env!("CARGO_PKG_VERSION"))));

    // The texts are those of the command.
    let error = Ensemble::open(&["no/such/model.ckpt"], PriorChoices::default()).unwrap_err();
    expect(&format!("refused absent: 1: {}", Failure::from(error).message()));
    let error = operators::load::<f64>(&files.potential).unwrap_err();
    expect(&format!("refused another file: 1: {}", message_of(&error)));
}

#[test]
fn a_program_in_c_gets_the_numbers_and_messages_of_the_facade() {
    let folder = tempfile::tempdir().unwrap();
    let files = Files::make(folder.path());
    let at = libraries().display().to_string();
    let shared = [format!("-L{at}"), format!("-Wl,-rpath,{at}"), "-llinwright_capi".to_owned()];
    let with_system = ["-lpthread", "-ldl", "-lm"].map(str::to_owned);
    let archive = [format!("{at}/liblinwright_capi.a")];
    let lines = printed(folder.path(), &files, &shared);
    check_texts(&lines, &files);
    check_numbers(&lines, &files);
    assert_eq!(printed(folder.path(), &files, &[&archive[..], &with_system].concat()), lines);
}
