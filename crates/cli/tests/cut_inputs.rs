//! Inputs that become shorter while they are read: an error names the file, and nothing is left.

use crate::collapse::many_rows;
use crate::workshop::{Outcome, Workshop};
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::time::Duration;

/// Runs a command and cuts a file some time after it was opened.
fn cut(w: &Workshop, args: &str, file: &str, milliseconds: u64) -> Outcome {
    let whole = w.read(file);
    let mut child = w.command(&format!("{args} -vv")).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.lines().last().unwrap_or_default().contains(&format!("opened {file}")) {
        assert!(stderr.read_line(&mut said).unwrap() > 0, "{args}: {file} is not opened: {said}");
    }
    std::thread::sleep(Duration::from_millis(milliseconds));
    File::options().write(true).open(w.path(file)).unwrap().set_len(0).unwrap();
    stderr.read_to_string(&mut said).unwrap();
    let done = child.wait_with_output().unwrap();
    w.write(file, whole);
    let stdout = String::from_utf8(done.stdout).unwrap();
    Outcome { code: done.status.code(), stdout, stderr: said }
}

/// Cuts a file at several moments. A command may be done before, or see a file without content: at
/// one moment or more it must see that mapped bytes are gone.
fn is_told(w: &Workshop, args: &str, file: &str) {
    let before = w.names();
    let mut told = 0;
    for milliseconds in [0, 2, 5, 10, 20, 40, 80, 160, 320] {
        let outcome = cut(w, args, file, milliseconds);
        if outcome.code == Some(0) {
            for name in w.names().iter().filter(|name| !before.contains(name)) {
                std::fs::remove_file(w.path(name)).unwrap();
            }
            continue;
        }
        let what = format!("{args} after {milliseconds} ms");
        assert!(!outcome.panicked(), "{what}: {}", outcome.stderr);
        let stderr = outcome.failed(&what, 1, &[file]);
        assert_eq!(w.names(), before, "{what}");
        told += usize::from(stderr.contains("became shorter while it was read"));
    }
    assert!(told > 0, "{args}: no read met a cut file");
}

#[test]
fn an_input_that_becomes_shorter_is_an_error_that_names_it() {
    let w = Workshop::new();
    many_rows(&w, 20_000);
    is_told(&w, "collapse measure --features many.safetensors -o result.json", "many.safetensors");
    let told =
        cut(&w, "collapse measure --features many.safetensors --json", "many.safetensors", 1);
    let line = told.stderr.lines().last().unwrap();
    let error: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {told:?}"));
    assert_eq!(error["error"]["exit_code"], 1, "{line}");
}
