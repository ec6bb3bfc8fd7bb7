//! Package metadata of cargo.

use crate::process::output;
use crate::repository::Repository;
use anyhow::{Context, Result};
use serde_json::Value;
use std::process::Command;

/// A package of the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Package {
    /// Package name.
    pub(crate) name: String,
    /// Name of its folder.
    pub(crate) folder: String,
    /// Names of its dependencies, for builds and tests.
    pub(crate) dependencies: Vec<String>,
    /// Those that builds need.
    pub(crate) built: Vec<String>,
}

/// The packages of the workspace.
///
/// # Errors
/// If cargo fails or its output cannot be parsed.
pub(crate) fn packages(repository: &Repository) -> Result<Vec<Package>> {
    let json = output(Command::new("cargo").current_dir(&repository.root).args([
        "metadata",
        "--format-version",
        "1",
        "--locked",
        "--no-deps",
    ]))?;
    parse(&json)
}

fn parse(json: &str) -> Result<Vec<Package>> {
    let metadata: Value = serde_json::from_str(json).context("output of cargo metadata")?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    packages.iter().map(parse_package).collect()
}

fn parse_package(package: &Value) -> Result<Package> {
    let name = package["name"].as_str().context("package without name")?;
    let manifest = package["manifest_path"].as_str().context("package without manifest_path")?;
    let folder = manifest.rsplit(['/', '\\']).nth(1).context("manifest without folder")?;
    let wanted = package["dependencies"].as_array().context("package without dependencies")?;
    let names = |is_wanted: &dyn Fn(&Value) -> bool| {
        let wanted = wanted.iter().filter(|dep| is_wanted(dep));
        let mut names: Vec<String> =
            wanted.filter_map(|dep| dep["name"].as_str().map(String::from)).collect();
        names.sort();
        names.dedup();
        names
    };
    let (dependencies, built) = (names(&|_| true), names(&|dep| dep["kind"] != "dev"));
    Ok(Package { name: name.to_owned(), folder: folder.to_owned(), dependencies, built })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_and_dependencies_are_read() {
        let json = r#"{"packages": [
            {"name": "linwright-a", "manifest_path": "/x/crates/a/Cargo.toml",
             "dependencies": [
                {"name": "b", "kind": null}, {"name": "b", "kind": "dev"}, {"name": "c", "kind": "dev"}
             ]}
        ]}"#;
        let package = &parse(json).unwrap()[0];
        assert_eq!((package.name.as_str(), package.folder.as_str()), ("linwright-a", "a"));
        assert_eq!(package.dependencies, ["b", "c"]);
        assert_eq!(package.built, ["b"]);
    }

    #[test]
    fn other_json_is_refused() {
        assert!(parse("{}").is_err());
        assert!(parse("no").is_err());
    }

    #[test]
    fn this_workspace_is_read() {
        let packages = packages(&Repository::open().unwrap()).unwrap();
        assert!(packages.iter().any(|package| package.folder == "tensor"));
    }
}
