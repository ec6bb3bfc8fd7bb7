//! The C interface as C programs see it: header, symbols, and a program in C.

#[cfg(target_os = "linux")]
mod cut;
mod header;
mod program;

use std::path::PathBuf;

/// Folder of the libraries, which cargo builds beside this test.
fn libraries() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    program.parent().unwrap().to_owned()
}

/// Folder of the package.
fn package() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}
