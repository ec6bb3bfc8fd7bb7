//! HTTP requests to the hub. Redirects are followed here, so that the token is sent to the endpoint
//! only.

use super::Hooks;
use super::error::HubError;
use super::id::HubId;
use super::settings::HubSettings;
use linwright_run::shown_reason;
use std::thread;
use std::time::{Duration, Instant};
use ureq::http::{HeaderMap, Response, Uri};
use ureq::{Agent, Body, Proxy};

/// Largest number of redirects of one request.
const REDIRECTS: usize = 6;
/// Timeout for name resolution and for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// Timeout for the start of a response, and for each further read of its body.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest pause between two attempts.
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// Interval at which a pause checks for cancellation.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Header with the etag of the file behind a redirect.
pub(super) const LINKED_ETAG: &str = "x-linked-etag";

/// HTTP client for one model or data set of a hub.
#[derive(Debug)]
pub(super) struct Client<'a> {
    agent: Agent,
    pub(super) settings: &'a HubSettings,
    pub(super) id: &'a HubId,
}

/// Kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// The headers of the first response with an etag.
    Head,
    /// The body, from this byte offset on.
    From(u64),
}

/// A response with status 200 or 206, or for [`Method::Head`] the headers of a redirect.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) response: Response<Body>,
    /// Host that sent the response.
    pub(super) host: String,
}

/// A failed request.
#[derive(Debug)]
pub(super) enum RequestFailure {
    /// Worth a retry.
    Transient { host: String, reason: String },
    /// Not worth a retry.
    Permanent(Box<HubError>),
}

impl From<HubError> for RequestFailure {
    fn from(error: HubError) -> Self {
        Self::Permanent(Box::new(error))
    }
}

impl<'a> Client<'a> {
    pub(super) fn new(id: &'a HubId, settings: &'a HubSettings) -> Self {
        let config = Agent::config_builder()
            .max_redirects(0)
            .http_status_as_error(false)
            .proxy(if settings.proxies { Proxy::try_from_env() } else { None })
            .user_agent(concat!("linwright/", env!("CARGO_PKG_VERSION")))
            .timeout_resolve(Some(CONNECT_TIMEOUT))
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_recv_response(Some(IDLE_TIMEOUT))
            .timeout_per_read(Some(IDLE_TIMEOUT));
        Self { agent: config.build().into(), settings, id }
    }

    /// URL of a resource of the model or data set. `parts` must be escaped.
    pub(super) fn url(&self, parts: &[&str]) -> String {
        let mut url = self.settings.endpoint.clone();
        for part in parts {
            url.push('/');
            url.push_str(part);
        }
        url
    }

    /// Sends a request and follows redirects. `what` names the resource in messages.
    pub(super) fn send(
        &self,
        method: Method,
        url: &str,
        what: &str,
    ) -> Result<Reply, RequestFailure> {
        let mut at = self.address(url, what)?;
        let home = Origin::of(&at);
        for _ in 0..=REDIRECTS {
            let origin = Origin::of(&at);
            let response = self.send_once(method, &at, origin == home)?;
            let host = origin.host.clone();
            let linked = method == Method::Head && response.headers().contains_key(LINKED_ETAG);
            if !response.status().is_redirection() || linked {
                return self.classify(Reply { response, host }, what, origin == home);
            }
            let location = text(response.headers(), "location").unwrap_or_default();
            let next = self.address(&origin.resolve(&location), what)?;
            if origin.secure && !Origin::of(&next).secure {
                return Err(self
                    .bad_response(&host, what, "redirects to an unencrypted address")
                    .into());
            }
            at = next;
        }
        Err(self.bad_response(&home.host, what, "has too many redirects").into())
    }

    fn send_once(
        &self,
        method: Method,
        at: &Uri,
        home: bool,
    ) -> Result<Response<Body>, RequestFailure> {
        let mut request = match method {
            Method::Head => self.agent.head(at),
            Method::From(_) => self.agent.get(at),
        };
        // Sizes must be those of the file, not of a compressed body.
        request = request.header("Accept-Encoding", "identity");
        if let Method::From(start @ 1..) = method {
            request = request.header("Range", format!("bytes={start}-"));
        }
        if let Some(token) = self.settings.token.as_ref().filter(|_| home) {
            request = request.header("Authorization", token.header());
        }
        request.call().map_err(|error| RequestFailure::Transient {
            host: Origin::of(at).host,
            reason: shown_reason(&error.to_string()),
        })
    }

    fn address(&self, url: &str, what: &str) -> Result<Uri, RequestFailure> {
        let uri = url.parse::<Uri>().ok();
        let known =
            |uri: &Uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some();
        uri.filter(known).ok_or_else(|| {
            let host = self.settings.endpoint.clone();
            self.bad_response(&host, what, "leads to an invalid address").into()
        })
    }

    /// Classifies a response by its status.
    fn classify(&self, reply: Reply, what: &str, home: bool) -> Result<Reply, RequestFailure> {
        let status = reply.response.status();
        if status.is_success() || status.is_redirection() {
            return Ok(reply);
        }
        let host = reply.host;
        let code = text(reply.response.headers(), "x-error-code").unwrap_or_default();
        match status.as_u16() {
            status @ (401 | 403) if home => Err(RequestFailure::from(HubError::Refused {
                id: self.id.to_string(),
                host,
                what: what.into(),
                status,
                advice: self.advice(status, &code),
            })),
            404 if home => {
                let (what, advice) = self.not_found(what, &code);
                Err(RequestFailure::from(HubError::NotFound {
                    id: self.id.to_string(),
                    host,
                    what,
                    advice,
                }))
            }
            // A content server rejects an expired URL; the next attempt gets a new one.
            status @ (401 | 403 | 408 | 429 | 500..) => {
                let reason = format!("status {status} for {what}");
                Err(RequestFailure::Transient { host, reason })
            }
            status => {
                let reason = format!("has status {status}; expected 200");
                Err(self.bad_response(&host, what, &reason).into())
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
            (401, false) => "it is private, gated or missing: check the name, and set HF_TOKEN",
            (401, true) => {
                let noun = self.id.noun();
                return format!(
                    "there is no such {noun}, or the token is not valid: check the name and HF_TOKEN"
                );
            }
            (_, false) => "it is not public: set HF_TOKEN",
            (_, true) => "the token may not read it: ask its owner for access, or renew the token",
        }
        .into()
    }

    fn not_found(&self, what: &str, code: &str) -> (String, &'static str) {
        match code {
            "RevisionNotFound" => {
                let revision = format!("revision {} of it", self.id.revision());
                (revision, "check the revision after the @")
            }
            "EntryNotFound" => (what.into(), "its list of files has it, so try again later"),
            "RepoNotFound" => (format!("such {}", self.id.noun()), "check owner and name"),
            _ => (what.into(), "check owner, name and revision"),
        }
    }

    /// The error for an unusable response.
    pub(super) fn bad_response(&self, host: &str, what: &str, reason: &str) -> HubError {
        HubError::Answer {
            id: self.id.to_string(),
            host: host.into(),
            what: what.into(),
            reason: reason.into(),
        }
    }

    /// Calls `act` until it succeeds, fails permanently or has used up its retries.
    pub(super) fn with_retries<T>(
        &self,
        hooks: &Hooks<'_>,
        mut act: impl FnMut() -> Result<T, RequestFailure>,
    ) -> Result<T, HubError> {
        let mut retries = Retries::new(self);
        loop {
            match act() {
                Ok(done) => return Ok(done),
                Err(fault) => retries.wait(fault, hooks)?,
            }
        }
    }
}

/// Remaining retries and the pause before the next one.
#[derive(Debug)]
pub(super) struct Retries<'a> {
    client: &'a Client<'a>,
    left: u32,
    pause: Duration,
}

impl<'a> Retries<'a> {
    pub(super) fn new(client: &'a Client<'a>) -> Self {
        Self { client, left: client.settings.retries, pause: client.settings.pause }
    }

    /// Pauses before the next attempt.
    ///
    /// # Errors
    /// The failure, if it is permanent or no retry is left; [`HubError::Interrupted`].
    pub(super) fn wait(
        &mut self,
        fault: RequestFailure,
        hooks: &Hooks<'_>,
    ) -> Result<(), HubError> {
        let id = self.client.id.to_string();
        let (host, reason) = match fault {
            RequestFailure::Permanent(error) => return Err(*error),
            RequestFailure::Transient { host, reason } => (host, reason),
        };
        if self.left == 0 {
            return Err(HubError::Unreachable { id, host, reason });
        }
        self.left -= 1;
        let until = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(MAX_PAUSE);
        loop {
            if (hooks.cancelled)() {
                return Err(HubError::Interrupted { id });
            }
            let rest = until.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return Ok(());
            }
            thread::sleep(rest.min(POLL_INTERVAL));
        }
    }
}

/// Origin of a URL: scheme, host and port. A token belongs to one origin.
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

    /// Target URL of a redirect with this `Location`, relative to the origin.
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

/// Value of a header as text.
pub(super) fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

/// Value of a header as a number.
pub(super) fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    text(headers, name)?.trim().parse().ok()
}

/// Percent-encodes a text as one path segment of a URL.
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
    fn redirects_resolve_against_their_origin() {
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
