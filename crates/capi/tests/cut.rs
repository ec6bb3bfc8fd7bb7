//! A file that becomes shorter while a program reads it: the process ends as it would, with a line
//! that names the file.

use linwright::tensor::MappedFile;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

/// Number of the signal.
const SIGBUS: i32 = 7;

#[test]
fn a_process_says_which_file_became_shorter_before_the_signal_ends_it() {
    const FILE: &str = "cut here";
    if Path::new(FILE).exists() {
        // Any function installs the handler.
        assert_eq!(linwright_capi::linwright_set_threads(1), 0);
        let file = File::options().read(true).write(true).open(FILE).unwrap();
        let map = MappedFile::of(file.try_clone().unwrap()).unwrap();
        file.set_len(0).unwrap();
        assert_eq!(std::hint::black_box(map.bytes())[9000], 7);
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join(FILE), [7; 1 << 16]).unwrap();
    let test = "cut::a_process_says_which_file_became_shorter_before_the_signal_ends_it";
    let done = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(said.contains("cut here became shorter while it was read"), "{said}");
    assert_eq!(done.status.signal(), Some(SIGBUS), "{said}");
}
