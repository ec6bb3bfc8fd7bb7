//! Location and largest size of a user's store.

use super::StoreError;
use std::ffi::OsString;
use std::path::PathBuf;

/// Environment variable with the directory of the store.
pub const ROOT_VARIABLE: &str = "LINWRIGHT_STORE";

/// Environment variable with the largest size of the store, in bytes.
pub const BOUND_VARIABLE: &str = "LINWRIGHT_STORE_BYTES";

/// Largest size of the store unless stated otherwise, in bytes: about the components of all weights
/// of one model of seven billion parameters in f32.
pub const DEFAULT_BOUND_BYTES: u64 = 20_000_000_000;

/// Directory and largest size of a user's store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The directory; `None` if the environment names none, so that nothing is kept.
    pub root: Option<PathBuf>,
    /// Largest size, in bytes.
    pub bound_bytes: u64,
}

/// The store in an environment: `LINWRIGHT_STORE`, else `linwright/store` below `XDG_CACHE_HOME` or
/// `HOME/.cache`, with `LINWRIGHT_STORE_BYTES` as its largest size.
///
/// # Errors
/// [`StoreError::Bound`] if the size is not a number.
pub fn place(variable: &dyn Fn(&str) -> Option<OsString>) -> Result<Place, StoreError> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    // The specification of XDG ignores relative paths.
    let absolute = |name: &str| set(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    let root = set(ROOT_VARIABLE).map(PathBuf::from);
    let root = root.or_else(|| cache.map(|cache| cache.join("linwright/store")));
    let bound_bytes = match set(BOUND_VARIABLE) {
        None => DEFAULT_BOUND_BYTES,
        Some(value) => {
            let parsed = value.to_str().and_then(|text| text.trim().parse().ok());
            parsed.ok_or_else(|| StoreError::Bound { found: value.to_string_lossy().into() })?
        }
    };
    Ok(Place { root, bound_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_says_where_and_how_large() {
        let of = |set: &[(&str, &str)]| {
            let set: Vec<(String, OsString)> =
                set.iter().map(|(name, value)| ((*name).to_owned(), value.into())).collect();
            place(&move |name| set.iter().find(|(n, _)| n == name).map(|(_, value)| value.clone()))
        };
        let own = ("LINWRIGHT_STORE", "/own");
        let (xdg, home) = (("XDG_CACHE_HOME", "/xdg"), ("HOME", "/home"));
        for (set, expected) in [
            (&[own, xdg, home][..], "/own"),
            (&[xdg, home], "/xdg/linwright/store"),
            (&[home], "/home/.cache/linwright/store"),
            (&[("XDG_CACHE_HOME", "relative"), home], "/home/.cache/linwright/store"),
            (&[("LINWRIGHT_STORE", ""), xdg], "/xdg/linwright/store"),
        ] {
            let found = of(set).unwrap();
            let root = Some(PathBuf::from(expected));
            assert_eq!(found, Place { root, bound_bytes: DEFAULT_BOUND_BYTES }, "{set:?}");
        }
        assert_eq!(of(&[("HOME", "relative")]).unwrap().root, None);
        assert_eq!(of(&[own, ("LINWRIGHT_STORE_BYTES", "12")]).unwrap().bound_bytes, 12);
        for wrong in ["12 GB", "-1", "99999999999999999999"] {
            let error = of(&[own, ("LINWRIGHT_STORE_BYTES", wrong)]).unwrap_err().to_string();
            assert!(error.contains(wrong) && error.contains("number of bytes"), "{error}");
        }
    }
}
