//! Ids of models and data sets on the hub: `owner/name` and `owner/name@revision`.

use super::error::HubError;
use std::fmt;

/// Longest owner or name on the hub, in bytes.
const MAX_BYTES: usize = 96;
/// Longest revision, in bytes.
const MAX_REVISION_BYTES: usize = 200;
/// Default branch.
const MAIN: &str = "main";
/// Extensions that mark a path to a file.
const FILE_ENDS: [&str; 6] = [".safetensors", ".gguf", ".bin", ".pt", ".pth", ".json"];

/// Kind of a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Model,
    Dataset,
}

/// A model or a data set on the hub, at a branch, a tag or a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubId {
    kind: Kind,
    /// Empty for old data sets, which have no owner.
    owner: String,
    name: String,
    revision: String,
}

impl HubId {
    /// Parses `owner/name` or `owner/name@revision`; the default revision is `main`. `None` for
    /// what looks like a path: another number of slashes, a part that begins with a dot, the
    /// extension of a weight file.
    ///
    /// # Errors
    /// [`HubError::Revision`] for an invalid revision.
    pub fn parse(text: &str) -> Result<Option<Self>, HubError> {
        let (repository, revision) = match text.split_once('@') {
            Some((repository, revision)) => (repository, revision),
            None => (text, MAIN),
        };
        let Some((owner, name)) = repository.split_once('/') else {
            return Ok(None);
        };
        if !is_part(owner) || !is_part(name) || FILE_ENDS.iter().any(|end| name.ends_with(end)) {
            return Ok(None);
        }
        if !is_revision(revision) {
            return Err(HubError::Revision { id: repository.into(), revision: revision.into() });
        }
        let [owner, name, revision] = [owner, name, revision].map(str::to_owned);
        Ok(Some(Self { kind: Kind::Model, owner, name, revision }))
    }

    /// Parses the id of a data set: `owner/name`, or `name` for an old data set; the default
    /// revision is `main`. `None` for what looks like a path.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn parse_dataset(text: &str, revision: Option<&str>) -> Result<Option<Self>, HubError> {
        let (owner, name) = text.split_once('/').unwrap_or(("", text));
        let old = owner.is_empty() && !text.contains(['/', '.']);
        let fine = is_part(name) && (old || is_part(owner));
        if !fine || FILE_ENDS.iter().any(|end| name.ends_with(end)) {
            return Ok(None);
        }
        let revision = revision.unwrap_or(MAIN);
        if !is_revision(revision) {
            return Err(HubError::Revision { id: text.into(), revision: revision.into() });
        }
        let [owner, name, revision] = [owner, name, revision].map(str::to_owned);
        Ok(Some(Self { kind: Kind::Dataset, owner, name, revision }))
    }

    /// Owner, if any, and name.
    #[must_use]
    pub fn parts(&self) -> (Option<&str>, &str) {
        (Some(self.owner.as_str()).filter(|owner| !owner.is_empty()), &self.name)
    }

    /// The same repository at another revision, which must be valid.
    pub(super) fn with_revision(&self, revision: &str) -> Self {
        Self { revision: revision.into(), ..self.clone() }
    }

    /// The same repository at a commit.
    #[must_use]
    pub fn at(&self, commit: &Commit) -> Self {
        Self { revision: commit.0.clone(), ..self.clone() }
    }

    /// `owner/name`.
    #[must_use]
    pub fn repository(&self) -> String {
        match self.parts() {
            (Some(owner), name) => format!("{owner}/{name}"),
            (None, name) => name.to_owned(),
        }
    }

    /// Branch, tag or commit.
    #[must_use]
    pub fn revision(&self) -> &str {
        &self.revision
    }

    /// Name of its folder in the cache.
    pub(super) fn folder(&self) -> String {
        let kind = match self.kind {
            Kind::Model => "models",
            Kind::Dataset => "datasets",
        };
        format!("{kind}--{}", self.repository().replace('/', "--"))
    }
}

#[cfg(feature = "hub")]
impl HubId {
    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    /// `model` or `data set`.
    pub(super) fn noun(&self) -> &'static str {
        match self.kind {
            Kind::Model => "model",
            Kind::Dataset => "data set",
        }
    }

    /// Path of its page on the hub.
    pub(super) fn page(&self) -> String {
        match self.kind {
            Kind::Model => self.repository(),
            Kind::Dataset => format!("datasets/{}", self.repository()),
        }
    }

    /// Path of its entry in the API of the hub.
    pub(super) fn api(&self) -> String {
        match self.kind {
            Kind::Model => format!("api/models/{}", self.repository()),
            Kind::Dataset => format!("api/datasets/{}", self.repository()),
        }
    }
}

impl fmt::Display for HubId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.repository())?;
        if self.revision == MAIN { Ok(()) } else { write!(f, "@{}", self.revision) }
    }
}

/// The id of a commit: 40 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit(String);

impl Commit {
    /// Parses 40 digits; otherwise `None`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        (text.len() == 40 && text.bytes().all(digit)).then(|| Self(text.to_owned()))
    }

    /// The digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether an owner or name is valid.
fn is_part(part: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let ends = |byte: Option<&u8>| byte.is_some_and(|byte| !b"-.".contains(byte));
    let bytes = part.as_bytes();
    (1..=MAX_BYTES).contains(&bytes.len())
        && bytes.iter().copied().all(inner)
        && ends(bytes.first())
        && ends(bytes.last())
        && !part.contains("--")
        && !part.contains("..")
}

/// Whether a revision is valid. It becomes a path below `refs`, so only names that git allows and
/// characters that every file system accepts are valid.
fn is_revision(revision: &str) -> bool {
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.+/".contains(&byte);
    revision.len() <= MAX_REVISION_BYTES
        && revision.bytes().all(fine)
        && revision
            .split('/')
            .all(|part| !part.is_empty() && !part.starts_with('.') && !part.ends_with('.'))
        && !revision.contains("..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_told_from_paths() {
        for (text, shown) in [
            ("owner/name", "owner/name"),
            ("owner/name@main", "owner/name"),
            ("HuggingFaceTB/SmolLM-135M@v1.0", "HuggingFaceTB/SmolLM-135M@v1.0"),
            ("a/b_c.d@refs/pr/3", "a/b_c.d@refs/pr/3"),
        ] {
            let id = HubId::parse(text).unwrap().unwrap();
            assert_eq!(id.to_string(), shown);
        }
        let long = format!("owner/{}", "n".repeat(97));
        for path in [
            "model",
            "./model",
            "../a/b",
            "/a",
            "a/b/c",
            "a/",
            "/b",
            "~/b",
            "a/.b",
            "-a/b",
            "a/b..c",
            "a--b/c",
            "models/x.gguf",
            "a/model.safetensors",
            "a b/c",
            "a\\b/c",
            "",
            "@main",
            &long,
        ] {
            assert_eq!(HubId::parse(path).unwrap(), None, "{path}");
        }
    }

    #[test]
    fn data_sets_may_have_no_owner() {
        let parse = |text| HubId::parse_dataset(text, None).unwrap();
        let id = parse("allenai/ai2_arc").unwrap();
        assert_eq!(
            (id.to_string().as_str(), id.folder().as_str()),
            ("allenai/ai2_arc", "datasets--allenai--ai2_arc")
        );
        let old = parse("hellaswag").unwrap();
        assert_eq!(
            (old.parts(), old.folder().as_str()),
            ((None, "hellaswag"), "datasets--hellaswag")
        );
        let at = HubId::parse_dataset("a/b", Some("refs/convert/parquet")).unwrap().unwrap();
        assert_eq!(at.to_string(), "a/b@refs/convert/parquet");
        for path in ["", "/a", "a/", "a/b/c", "./a", "rows.v2", "a/rows.json", "a b", "a--b"] {
            assert_eq!(parse(path), None, "{path}");
        }
        assert!(HubId::parse_dataset("a/b", Some("../x")).is_err());
    }

    #[test]
    fn revisions_cannot_leave_their_folder() {
        for revision in
            ["", "../x", "a/../b", "/etc", "a//b", ".git", "a\\b", "a b", "a\n", "x/", "a."]
        {
            let error = HubId::parse(&format!("o/n@{revision}")).unwrap_err().to_string();
            assert!(error.starts_with("o/n: "), "{error}");
        }
        assert!(HubId::parse(&format!("o/n@{}", "r".repeat(201))).is_err());
    }

    #[test]
    fn a_commit_is_forty_digits() {
        let digits = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(Commit::parse(digits).unwrap().as_str(), digits);
        for text in [
            "",
            "main",
            &digits[1..],
            &digits.to_uppercase(),
            "../../../../../../../../../../../../etc/x",
        ] {
            assert_eq!(Commit::parse(text), None, "{text}");
        }
        let id = HubId::parse("o/n").unwrap().unwrap();
        assert_eq!(id.at(&Commit::parse(digits).unwrap()).to_string(), format!("o/n@{digits}"));
    }
}
