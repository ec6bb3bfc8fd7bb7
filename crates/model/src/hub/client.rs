//! Requests to the hub: redirects by hand, so that the token stays with the endpoint.

use super::Hooks;
use super::error::HubError;
use super::id::HubId;
use super::settings::Settings;
use linwright_run::shown_reason;
use std::thread;
use std::time::{Duration, Instant};
use ureq::http::{HeaderMap, Response, Uri};
use ureq::{Agent, Body, Proxy};

/// Most redirects of one request.
const REDIRECTS: usize = 6;
/// Time for a connection to stand.
const CONNECT: Duration = Duration::from_secs(15);
/// Time in which an answer begins, and in which the next bytes of it come.
const SILENCE: Duration = Duration::from_secs(60);
/// Longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How soon a wait notices that it should end.
const ATTENTION: Duration = Duration::from_millis(50);
/// The address of a content behind a redirect, as the hub announces it.
pub(super) const LINKED_ETAG: &str = "x-linked-etag";

/// Whoever asks one hub about one model or data set.
#[derive(Debug)]
pub(super) struct Client<'a> {
    agent: Agent,
    pub(super) settings: &'a Settings,
    pub(super) id: &'a HubId,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// The headers alone, of the first answer that names a content.
    Head,
    /// The content from this byte on.
    From(u64),
}

/// An answer with status 200 or 206, or the headers of a redirect for [`Ask::Head`].
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) response: Response<Body>,
    /// Who gave it.
    pub(super) host: String,
}

/// Why there is no reply.
#[derive(Debug)]
pub(super) enum Fault {
    /// It may be better next time.
    Passing { host: String, reason: String },
    /// It will not.
    Final(Box<HubError>),
}

impl From<HubError> for Fault {
    fn from(error: HubError) -> Self {
        Self::Final(Box::new(error))
    }
}

impl<'a> Client<'a> {
    pub(super) fn new(id: &'a HubId, settings: &'a Settings) -> Self {
        let config = Agent::config_builder()
            .max_redirects(0)
            .http_status_as_error(false)
            .proxy(if settings.proxies { Proxy::try_from_env() } else { None })
            .user_agent(concat!("linwright/", env!("CARGO_PKG_VERSION")))
            .timeout_resolve(Some(CONNECT))
            .timeout_connect(Some(CONNECT))
            .timeout_recv_response(Some(SILENCE))
            .timeout_per_read(Some(SILENCE));
        Self { agent: config.build().into(), settings, id }
    }

    /// The address of something of the model. `parts` are escaped.
    pub(super) fn url(&self, parts: &[&str]) -> String {
        let mut url = self.settings.endpoint.clone();
        for part in parts {
            url.push('/');
            url.push_str(part);
        }
        url
    }

    /// Asks, following redirects. `what` is for messages.
    pub(super) fn ask(&self, ask: Ask, url: &str, what: &str) -> Result<Reply, Fault> {
        let mut at = self.address(url, what)?;
        let home = Origin::of(&at);
        for _ in 0..=REDIRECTS {
            let origin = Origin::of(&at);
            let response = self.send(ask, &at, origin == home)?;
            let host = origin.host.clone();
            let linked = ask == Ask::Head && response.headers().contains_key(LINKED_ETAG);
            if !response.status().is_redirection() || linked {
                return self.judge(Reply { response, host }, what, origin == home);
            }
            let location = text(response.headers(), "location").unwrap_or_default();
            let next = self.address(&origin.resolve(&location), what)?;
            if origin.secure && !Origin::of(&next).secure {
                return Err(self
                    .answer(&host, what, "leads to an address without encryption")
                    .into());
            }
            at = next;
        }
        Err(self.answer(&home.host, what, "leads from redirect to redirect").into())
    }

    fn send(&self, ask: Ask, at: &Uri, home: bool) -> Result<Response<Body>, Fault> {
        let mut request = match ask {
            Ask::Head => self.agent.head(at),
            Ask::From(_) => self.agent.get(at),
        };
        // Sizes are those of the file, not of a packed form of it.
        request = request.header("Accept-Encoding", "identity");
        if let Ask::From(start @ 1..) = ask {
            request = request.header("Range", format!("bytes={start}-"));
        }
        if let Some(token) = self.settings.token.as_ref().filter(|_| home) {
            request = request.header("Authorization", token.header());
        }
        request.call().map_err(|error| Fault::Passing {
            host: Origin::of(at).host,
            reason: shown_reason(&error.to_string()),
        })
    }

    fn address(&self, url: &str, what: &str) -> Result<Uri, Fault> {
        let uri = url.parse::<Uri>().ok();
        let known =
            |uri: &Uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some();
        uri.filter(known).ok_or_else(|| {
            let host = self.settings.endpoint.clone();
            self.answer(&host, what, "leads to what is no address").into()
        })
    }

    /// Sorts an answer by its status.
    fn judge(&self, reply: Reply, what: &str, home: bool) -> Result<Reply, Fault> {
        let status = reply.response.status();
        if status.is_success() || status.is_redirection() {
            return Ok(reply);
        }
        let host = reply.host;
        let code = text(reply.response.headers(), "x-error-code").unwrap_or_default();
        match status.as_u16() {
            status @ (401 | 403) if home => Err(Fault::from(HubError::Refused {
                id: self.id.to_string(),
                host,
                what: what.into(),
                status,
                advice: self.advice(status, &code),
            })),
            404 if home => {
                let (what, advice) = self.nothing(what, &code);
                Err(Fault::from(HubError::NotFound { id: self.id.to_string(), host, what, advice }))
            }
            // A server of contents refuses an address that is too old: the next try gets a new one.
            status @ (401 | 403 | 408 | 429 | 500..) => {
                let reason = format!("status {status} for {what}");
                Err(Fault::Passing { host, reason })
            }
            status => {
                let reason = format!("has status {status}; expected 200");
                Err(self.answer(&host, what, &reason).into())
            }
        }
    }

    fn advice(&self, status: u16, code: &str) -> String {
        let token = self.settings.token.is_some();
        if code == "GatedRepo" {
            let page = self.url(&[&self.id.page()]);
            let who = if token { "with the account of your token" } else { "and set HF_TOKEN" };
            let noun = self.id.noun();
            return format!("the {noun} is gated: accept its terms at {page} {who}");
        }
        match (status, token) {
            (401, false) => "it is private, gated or not there: check the name, and set HF_TOKEN",
            (401, true) => {
                let noun = self.id.noun();
                return format!(
                    "there is no such {noun}, or the token is not valid: check the name and HF_TOKEN"
                );
            }
            (_, false) => "it is not open to everybody: set HF_TOKEN",
            (_, true) => "the token may not read it: ask its owner for access, or renew the token",
        }
        .into()
    }

    fn nothing(&self, what: &str, code: &str) -> (String, &'static str) {
        match code {
            "RevisionNotFound" => {
                let revision = format!("revision {} of it", self.id.revision());
                (revision, "check what stands after the @")
            }
            "EntryNotFound" => (what.into(), "its list of files names it; try again later"),
            "RepoNotFound" => (format!("such {}", self.id.noun()), "check owner and name"),
            _ => (what.into(), "check owner, name and revision"),
        }
    }

    /// An answer that cannot be used.
    pub(super) fn answer(&self, host: &str, what: &str, reason: &str) -> HubError {
        HubError::Answer {
            id: self.id.to_string(),
            host: host.into(),
            what: what.into(),
            reason: reason.into(),
        }
    }

    /// Does something until it succeeds, fails for good or fails too often.
    pub(super) fn patiently<T>(
        &self,
        hooks: &Hooks<'_>,
        mut act: impl FnMut() -> Result<T, Fault>,
    ) -> Result<T, HubError> {
        let mut patience = Patience::new(self);
        loop {
            match act() {
                Ok(done) => return Ok(done),
                Err(fault) => patience.wait(fault, hooks)?,
            }
        }
    }
}

/// How often it is tried again, and after what pause.
#[derive(Debug)]
pub(super) struct Patience<'a> {
    client: &'a Client<'a>,
    left: u32,
    pause: Duration,
}

impl<'a> Patience<'a> {
    pub(super) fn new(client: &'a Client<'a>) -> Self {
        Self { client, left: client.settings.retries, pause: client.settings.pause }
    }

    /// Waits before the next attempt, or gives the fault as an error.
    pub(super) fn wait(&mut self, fault: Fault, hooks: &Hooks<'_>) -> Result<(), HubError> {
        let id = self.client.id.to_string();
        let (host, reason) = match fault {
            Fault::Final(error) => return Err(*error),
            Fault::Passing { host, reason } => (host, reason),
        };
        if self.left == 0 {
            return Err(HubError::Unreachable { id, host, reason });
        }
        self.left -= 1;
        let until = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        loop {
            if (hooks.cancelled)() {
                return Err(HubError::Interrupted { id });
            }
            let rest = until.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return Ok(());
            }
            thread::sleep(rest.min(ATTENTION));
        }
    }
}

/// Who is asked: scheme, host and port. A token belongs to one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Origin {
    secure: bool,
    host: String,
    port: u16,
}

impl Origin {
    fn of(uri: &Uri) -> Self {
        let secure = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
        Self { secure, host: uri.host().unwrap_or_default().to_lowercase(), port }
    }

    /// The address that a redirect of this host leads to.
    fn resolve(&self, location: &str) -> String {
        let scheme = if self.secure { "https" } else { "http" };
        if location.starts_with("//") {
            format!("{scheme}:{location}")
        } else if location.starts_with('/') {
            format!("{scheme}://{}:{}{location}", self.host, self.port)
        } else {
            location.into()
        }
    }
}

/// A header as text.
pub(super) fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

/// A header as a number.
pub(super) fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    text(headers, name)?.trim().parse().ok()
}

/// Writes a text so that it can stand between two slashes of an address.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_stays_where_it_says() {
        let at = |text: &str| Origin::of(&text.parse().unwrap());
        let hub = at("https://Hub.example/a");
        assert_eq!(hub, at("https://hub.example:443/b"));
        for other in ["http://hub.example/", "https://hub.example:8443/", "https://example/"] {
            assert_ne!(hub, at(other), "{other}");
        }
        assert_eq!(hub.resolve("/x?y"), "https://hub.example:443/x?y");
        assert_eq!(hub.resolve("//cdn/x"), "https://cdn/x");
        assert_eq!(hub.resolve("http://cdn/x"), "http://cdn/x");
    }

    #[test]
    fn an_escaped_text_is_one_part() {
        assert_eq!(escaped("refs/pr/1"), "refs%2Fpr%2F1");
        assert_eq!(escaped("a b?c#d%é"), "a%20b%3Fc%23d%25%C3%A9");
    }
}
