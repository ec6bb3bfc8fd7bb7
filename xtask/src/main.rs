//! All checks of the repository: `cargo xtask check`.
//!
//! Each check is one file in `checks/` and one line of the list there. `cargo xtask NAME...` runs
//! only the named ones.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool prints its findings"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "a tool of the repository asks the environment where cargo puts things"
)]

mod book;
mod checks;
mod lexer;
mod markdown;
mod metadata;
mod offence;
mod process;
mod repository;
mod session;
mod source;

use anyhow::{Result, bail};
use checks::{CHECKS, Check};
use repository::Repository;
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Runs the command of the arguments; false if a check found violations.
fn run(args: &[String]) -> Result<bool> {
    if args.is_empty() || args.iter().any(|arg| arg == "--help" || arg == "-h") {
        println!("{}", help());
        return Ok(true);
    }
    let repository = Repository::open()?;
    if let Some((command, rest)) = args.split_first()
        && command == "fuzz"
    {
        return fuzz(&repository, rest);
    }
    if args == ["fmt"] {
        return checks::format::write(&repository).map(|()| true);
    }
    if args == ["book"] {
        let offences = book::build(&repository, &session::target(&repository))?;
        offences.iter().for_each(|offence| println!("    {offence}"));
        return Ok(offences.is_empty());
    }
    run_checks(&repository, &chosen(args)?)
}

/// Fuzzes a reader of outside files. A separate program, since it needs the readers and this one
/// imports none of our crates.
fn fuzz(repository: &Repository, args: &[String]) -> Result<bool> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = std::process::Command::new(cargo);
    command.current_dir(&repository.root);
    command.args(["run", "--quiet", "--package", "linwright-fuzz", "--"]).args(args);
    Ok(command.status()?.success())
}

/// The checks named by the arguments; `check` means all.
fn chosen(args: &[String]) -> Result<Vec<&'static Check>> {
    if args == ["check"] {
        return Ok(CHECKS.iter().collect());
    }
    let find = |arg: &String| CHECKS.iter().find(|check| check.name == arg);
    match args.iter().find(|arg| find(arg).is_none()) {
        Some(unknown) => bail!("no command or check is called `{unknown}`\n\n{}", help()),
        None => Ok(args.iter().filter_map(find).collect()),
    }
}

fn run_checks(repository: &Repository, checks: &[&Check]) -> Result<bool> {
    let mut failed = Vec::new();
    for check in checks {
        let start = Instant::now();
        let offences = (check.run)(repository)?;
        let verdict = if offences.is_empty() { "ok" } else { "FAILED" };
        let seconds = start.elapsed().as_secs_f64();
        println!("{:<10} {verdict:<6} {seconds:6.1} s  {}", check.name, check.about);
        offences.iter().for_each(|offence| println!("    {offence}"));
        if !offences.is_empty() {
            failed.push(check.name);
        }
    }
    if !failed.is_empty() {
        println!("\nfailed: {}", failed.join(" "));
    }
    Ok(failed.is_empty())
}

fn help() -> String {
    let mut text = String::from(
        "usage: cargo xtask check        run every check\n\
        \x20      cargo xtask NAME...      run the named checks\n\
        \x20      cargo xtask fmt          format every Rust file in place\n\
        \x20      cargo xtask book         make a site of all documents in target/book\n\
        \x20      cargo xtask fuzz TARGET  drive a reader with damaged input:\n\
        \x20                               [--runs N] [--seconds S] [--seed K]\n\nchecks:",
    );
    for check in CHECKS {
        text.push_str(&format!("\n  {:<10} {}", check.name, check.about));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(String::from).collect()
    }

    #[test]
    fn check_means_all_and_names_mean_themselves() {
        assert_eq!(chosen(&words("check")).unwrap().len(), CHECKS.len());
        let named = chosen(&words("caps layers")).unwrap();
        assert_eq!(named.iter().map(|check| check.name).collect::<Vec<_>>(), ["caps", "layers"]);
    }

    #[test]
    fn an_unknown_name_is_refused() {
        let error = chosen(&words("caps layer")).unwrap_err().to_string();
        assert!(error.contains("`layer`"), "{error}");
    }

    #[test]
    fn every_check_is_in_the_help_and_has_its_own_name() {
        let names: std::collections::BTreeSet<_> = CHECKS.iter().map(|check| check.name).collect();
        assert_eq!(names.len(), CHECKS.len());
        assert!(names.iter().all(|name| help().contains(name)));
    }
}
