//! Settings of the hub and its cache, from the environment variables of Hugging Face.

use super::error::HubError;
use linwright_run::input;
use std::ffi::OsString;
use std::fmt;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Default endpoint.
const ENDPOINT: &str = "https://huggingface.co";
/// Size limit of a token file, in bytes.
const TOKEN_BYTES: u64 = 4096;

/// Settings of the hub and its cache.
#[derive(Clone, Debug)]
pub struct HubSettings {
    /// The cache shared with other programs: folders `models--owner--name`.
    pub cache: PathBuf,
    /// Scheme and host of the hub, without a trailing slash.
    pub endpoint: String,
    /// Access token. It is sent to the endpoint and nowhere else.
    pub token: Option<Token>,
    /// Never use the network.
    pub offline: bool,
    /// Whether `https_proxy`, `http_proxy` and `no_proxy` apply.
    pub proxies: bool,
    /// Number of retries in a row that receive no bytes.
    pub retries: u32,
    /// Pause before the first retry; it doubles.
    pub pause: Duration,
}

impl HubSettings {
    /// The public hub without a token.
    #[must_use]
    pub fn new(cache: PathBuf) -> Self {
        Self {
            cache,
            endpoint: ENDPOINT.into(),
            token: None,
            offline: false,
            proxies: false,
            retries: 4,
            pause: Duration::from_secs(1),
        }
    }

    /// Settings from environment variables; `variable` looks one up.
    ///
    /// - cache: `HF_HUB_CACHE`, else `hub` in `HF_HOME`, which is `huggingface` in `XDG_CACHE_HOME`
    ///   or in `~/.cache`;
    /// - endpoint: `HF_ENDPOINT`;
    /// - token: `HF_TOKEN`, else the file `HF_TOKEN_PATH`, else the file `token` in `HF_HOME`;
    /// - offline: `HF_HUB_OFFLINE` is `1`, `true`, `yes` or `on`.
    ///
    /// # Errors
    /// [`HubError::NoCache`] if no variable determines the cache, [`HubError::Endpoint`] or
    /// [`HubError::Token`] for an invalid value.
    pub fn from_environment(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, HubError> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let path = |name: &str| path_of(name, &variable);
        let home = home(&variable);
        let cache = path("HF_HUB_CACHE").or_else(|| Some(home.as_ref()?.join("hub")));
        let mut settings = Self::new(cache.ok_or(HubError::NoCache)?);
        settings.proxies = true;
        settings.offline = set("HF_HUB_OFFLINE").is_some_and(|value| is_true(&value));
        if let Some(endpoint) = set("HF_ENDPOINT") {
            settings.endpoint = check_endpoint(&endpoint.to_string_lossy())?;
        }
        if !settings.offline {
            let file = path("HF_TOKEN_PATH").or_else(|| Some(home?.join("token")));
            settings.token = match set("HF_TOKEN") {
                Some(token) => Token::parse(&token.to_string_lossy(), "HF_TOKEN")?,
                None => file.map_or(Ok(None), |file| Token::read(&file))?,
            };
        }
        Ok(settings)
    }
}

/// The cache of the library `datasets`: `HF_DATASETS_CACHE`, else `datasets` in `HF_HOME` as in
/// [`HubSettings::from_environment`]; `None` if no variable determines it.
#[must_use]
pub fn datasets_cache(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    path_of("HF_DATASETS_CACHE", &variable).or_else(|| Some(home(&variable)?.join("datasets")))
}

/// The directory in a variable; a leading `~` is the home directory.
fn path_of(name: &str, variable: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let value = variable(name).filter(|value| !value.is_empty())?;
    Some(expand(&PathBuf::from(value), user(variable).as_deref()))
}

fn user(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    set("HOME").or_else(|| set("USERPROFILE")).map(PathBuf::from)
}

/// `HF_HOME` or its default.
fn home(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let caches = || {
        let named = variable("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        named.or_else(|| Some(user(variable)?.join(".cache")))
    };
    path_of("HF_HOME", variable).or_else(|| Some(caches()?.join("huggingface")))
}

/// An access token. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Parses a token; `None` if it is blank. `place` names its source in errors.
    ///
    /// # Errors
    /// [`HubError::Token`] if it has characters that no token has.
    pub fn parse(text: &str, place: &str) -> Result<Option<Self>, HubError> {
        let text = text.trim();
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            let reason = "has characters that no token has".to_owned();
            return Err(HubError::Token { place: place.into(), reason });
        }
        Ok((!text.is_empty()).then(|| Self(text.into())))
    }

    fn read(path: &Path) -> Result<Option<Self>, HubError> {
        let place = path.display().to_string();
        let mut text = String::new();
        let read =
            input::open(path).and_then(|file| file.take(TOKEN_BYTES + 1).read_to_string(&mut text));
        match read {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => {
                Err(HubError::Token { place, reason: format!("cannot be read: {error}") })
            }
            Ok(bytes) if bytes as u64 > TOKEN_BYTES => {
                let reason = format!("is larger than {TOKEN_BYTES} bytes");
                Err(HubError::Token { place, reason })
            }
            Ok(_) => Self::parse(&text, &place),
        }
    }

    #[cfg(feature = "hub")]
    pub(super) fn header(&self) -> String {
        format!("Bearer {}", self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// Replaces a leading `~` by the home directory.
fn expand(path: &Path, user: Option<&Path>) -> PathBuf {
    match (path.strip_prefix("~"), user) {
        (Ok(rest), Some(user)) => user.join(rest),
        _ => path.into(),
    }
}

/// Whether the value of a variable is `1`, `true`, `yes` or `on`.
#[must_use]
pub fn is_true(value: &OsString) -> bool {
    let value = value.to_string_lossy().to_lowercase();
    ["1", "true", "yes", "on"].contains(&value.as_str())
}

fn check_endpoint(text: &str) -> Result<String, HubError> {
    let endpoint = text.trim_end_matches('/');
    let host = endpoint.strip_prefix("https://").or_else(|| endpoint.strip_prefix("http://"));
    // A name and password in the address would be printed with it.
    let plain = |host: &str| {
        !host.is_empty() && host.bytes().all(|b| b.is_ascii_graphic() && !b"@?#\\".contains(&b))
    };
    if host.is_some_and(plain) {
        return Ok(endpoint.to_owned());
    }
    Err(HubError::Endpoint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn settings(variables: &[(&str, &str)]) -> Result<HubSettings, HubError> {
        HubSettings::from_environment(|name| {
            let found = variables.iter().find(|(other, _)| *other == name);
            found.map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn the_cache_is_where_other_programs_look() {
        let home = ("HOME", "/h");
        for (variables, cache) in [
            (vec![home], "/h/.cache/huggingface/hub"),
            (vec![home, ("XDG_CACHE_HOME", "/x")], "/x/huggingface/hub"),
            (vec![home, ("XDG_CACHE_HOME", "x")], "/h/.cache/huggingface/hub"),
            (vec![home, ("XDG_CACHE_HOME", "/x"), ("HF_HOME", "/f")], "/f/hub"),
            (vec![home, ("HF_HOME", "~/f")], "/h/f/hub"),
            (vec![home, ("HF_HOME", "/f"), ("HF_HUB_CACHE", "/c")], "/c"),
            (vec![home, ("HF_HOME", "")], "/h/.cache/huggingface/hub"),
            (vec![("USERPROFILE", "/u")], "/u/.cache/huggingface/hub"),
        ] {
            assert_eq!(settings(&variables).unwrap().cache, Path::new(cache), "{variables:?}");
        }
        assert!(matches!(settings(&[]), Err(HubError::NoCache)));
    }

    #[test]
    fn data_sets_have_a_cache_of_their_own() {
        let cache = |variables: &[(&str, &str)]| {
            datasets_cache(|name| {
                let found = variables.iter().find(|(other, _)| *other == name);
                found.map(|(_, value)| OsString::from(value))
            })
        };
        let home = ("HOME", "/h");
        for (variables, path) in [
            (vec![home], "/h/.cache/huggingface/datasets"),
            (vec![home, ("HF_HOME", "~/f")], "/h/f/datasets"),
            (vec![home, ("HF_HOME", "/f"), ("HF_DATASETS_CACHE", "/d")], "/d"),
        ] {
            assert_eq!(cache(&variables).unwrap(), Path::new(path), "{variables:?}");
        }
        assert_eq!(cache(&[]), None);
    }

    #[test]
    fn words_for_yes_keep_offline() {
        for (value, offline) in
            [("1", true), ("TRUE", true), ("yes", true), ("on", true), ("0", false), ("no", false)]
        {
            let found = settings(&[("HOME", "/h"), ("HF_HUB_OFFLINE", value)]).unwrap();
            assert_eq!(found.offline, offline, "{value}");
        }
    }

    #[test]
    fn a_token_has_three_sources_and_is_never_shown() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().to_str().unwrap();
        let other = dir.path().join("other");
        fs::write(dir.path().join("token"), "hf_home\n").unwrap();
        fs::write(&other, " hf_path ").unwrap();
        let path = ("HF_TOKEN_PATH", other.to_str().unwrap());
        for (variables, token) in [
            (vec![("HF_HOME", home)], "hf_home"),
            (vec![("HF_HOME", home), path], "hf_path"),
            (vec![("HF_HOME", home), path, ("HF_TOKEN", "hf_variable")], "hf_variable"),
        ] {
            let found = settings(&variables).unwrap();
            assert_eq!(found.token, Some(Token(token.into())), "{variables:?}");
            assert!(!format!("{found:?}").contains("hf_"), "{found:?}");
        }
        let offline = settings(&[("HF_HOME", home), ("HF_HUB_OFFLINE", "1")]).unwrap();
        assert_eq!(offline.token, None);
        let error = settings(&[("HF_HOME", home), ("HF_TOKEN", "hf_a\nb")]).unwrap_err();
        assert!(error.to_string().contains("HF_TOKEN") && !error.to_string().contains("hf_a"));
        fs::write(&other, "x".repeat(5000)).unwrap();
        assert!(matches!(settings(&[("HF_HOME", home), path]), Err(HubError::Token { .. })));
    }

    #[test]
    fn an_endpoint_is_an_address_without_a_password() {
        let endpoint = |text| settings(&[("HOME", "/h"), ("HF_ENDPOINT", text)]);
        assert_eq!(endpoint("https://hub.example/").unwrap().endpoint, "https://hub.example");
        for text in ["hub.example", "ftp://x", "https://", "https://me:secret@x", "https://x/?a"] {
            let error = endpoint(text).unwrap_err().to_string();
            assert!(error.contains("HF_ENDPOINT") && !error.contains("secret"), "{error}");
        }
    }
}
