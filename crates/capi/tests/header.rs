//! Header, Rust and library have the same functions.

use crate::{libraries, package};
use std::collections::BTreeMap;
use std::process::Command;

/// Declarations in C by name, with single spaces between all tokens.
type Declarations = BTreeMap<String, String>;

fn spaced(text: &str) -> String {
    let signs = ['*', '(', ')', ','];
    let spread: String = text
        .chars()
        .map(|c| if signs.contains(&c) { format!(" {c} ") } else { c.to_string() })
        .collect();
    spread.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn named(declaration: &str) -> (String, String) {
    let before = declaration.split('(').next().unwrap();
    let name = before.split([' ', '*']).rfind(|word| !word.is_empty()).unwrap();
    (name.to_owned(), spaced(declaration))
}

/// What a header declares.
fn declared(header: &str) -> Declarations {
    let uncommented: String = header
        .split("/*")
        .enumerate()
        .map(|(index, part)| match index {
            0 => part,
            _ => part.split_once("*/").unwrap().1,
        })
        .collect();
    let lines = uncommented.lines().filter(|line| !line.starts_with('#'));
    let code: Vec<&str> = lines.collect();
    let code = code.join(" ").replace("extern \"C\" {", "");
    code.split(';').filter(|one| one.contains('(')).map(|one| named(one.trim())).collect()
}

/// A type of Rust as C writes it.
fn type_of(rust: &str) -> String {
    let inner = |rest: &str| (type_of(rest), rest.starts_with('*'));
    if let Some(rest) = rust.strip_prefix("*const ") {
        let (inner, is_pointer) = inner(rest);
        return if is_pointer { format!("{inner}const *") } else { format!("const {inner} *") };
    }
    if let Some(rest) = rust.strip_prefix("*mut ") {
        return format!("{} *", inner(rest).0);
    }
    let known = match rust {
        "c_char" => "char",
        "f32" => "float",
        "f64" => "double",
        "i32" => "int32_t",
        "u32" => "uint32_t",
        "u8" => "uint8_t",
        "usize" => "size_t",
        "LinwrightPotential" | "LinwrightOperator" => rust,
        other => panic!("{other} has no type of C"),
    };
    known.to_owned()
}

/// What the functions of a source file are in C.
fn defined(source: &str) -> Declarations {
    let functions = source.split("#[unsafe(no_mangle)]").skip(1);
    let declaration = |text: &str| {
        let signature = text.split(" {\n").next().unwrap();
        let (_, signature) = signature.split_once("extern \"C\" fn ").unwrap();
        let (name, rest) = signature.split_once('(').unwrap();
        let (arguments, back) = rest.rsplit_once(')').unwrap();
        let arguments = arguments.split(',').map(str::trim).filter(|one| !one.is_empty());
        let arguments: Vec<String> = arguments
            .map(|one| {
                let (name, kind) = one.split_once(": ").unwrap();
                format!("{} {name}", type_of(kind))
            })
            .collect();
        let arguments = match arguments.is_empty() {
            true => "void".to_owned(),
            false => arguments.join(", "),
        };
        let back = back.trim().strip_prefix("-> ").map_or("void".to_owned(), type_of);
        named(&format!("{back} {name}({arguments})"))
    };
    functions.map(declaration).collect()
}

#[test]
fn the_header_declares_the_functions_of_the_library_and_no_others() {
    let header = std::fs::read_to_string(package().join("include/linwright.h")).unwrap();
    let mut functions = Declarations::new();
    for entry in std::fs::read_dir(package().join("src")).unwrap() {
        functions.extend(defined(&std::fs::read_to_string(entry.unwrap().path()).unwrap()));
    }
    assert!(functions.len() > 20, "{functions:?}");
    assert_eq!(declared(&header), functions);

    let library = libraries().join(concat!("liblinwright_capi", ".so"));
    let listed = Command::new("nm").args(["-D", "--defined-only"]).arg(&library).output().unwrap();
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let listed = String::from_utf8(listed.stdout).unwrap();
    let words = listed.lines().filter_map(|line| line.split_whitespace().last());
    let mut exported: Vec<&str> = words.filter(|word| word.starts_with("linwright")).collect();
    exported.sort_unstable();
    assert_eq!(exported, functions.keys().collect::<Vec<_>>());
}

#[test]
fn a_function_that_differs_is_found() {
    let rust = "#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn linwright_a(\n    p: *const *const c_char,\n    \
                q: *mut *mut LinwrightOperator,\n    n: usize,\n) -> i32 {\n    0\n}\n";
    let same = "/* One; two. */\nint32_t linwright_a(const char *const *p, LinwrightOperator **q, size_t n);\n";
    assert_eq!(declared(same), defined(rust));
    for other in [
        same.replace("const *p", "*p"),
        same.replace("**q", "*q"),
        same.replace("size_t n", "int n"),
        same.replace("int32_t", "int64_t"),
        same.replace("linwright_a", "linwright_b"),
        String::new(),
    ] {
        assert_ne!(declared(&other), defined(rust), "{other}");
    }
}
