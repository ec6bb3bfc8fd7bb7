//! HTTP/1.1 on one connection: whole requests in, whole responses or events out, with a size limit
//! and a deadline on everything (RFC 9112). `httparse` parses heads; this module reads and writes.

use super::error::ApiError;
use super::stop::Stop;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// Longest head of a request, in bytes.
const LONGEST_HEAD: usize = 16 << 10;
/// Largest number of header fields.
const MAX_HEADERS: usize = 64;
/// Bytes read or written at a time.
const PIECE: usize = 64 << 10;
/// Interval at which a waiting connection checks whether the server is shutting down.
const GLANCE: Duration = Duration::from_millis(100);
/// How long a refused client may continue to send before the connection is closed. Without this,
/// its unread bytes would reset the connection and lose the response.
const LINGER: Duration = Duration::from_secs(1);
/// Slowest accepted reader of a large response, in bytes per second.
const SLOWEST_READER: u64 = 64 << 10;

/// Limits of one connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Largest body, in bytes.
    pub(super) body: usize,
    /// Time limit for a head, for a body, for a piece of a response, and between two requests.
    pub(super) timeout: Duration,
}

/// The head of a request.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) method: String,
    /// Path without the query.
    pub(super) path: String,
    content_type: Option<String>,
    length: Option<u64>,
    has_host: bool,
    expects: bool,
    keep_alive: bool,
}

/// A connection with a client.
pub(super) struct Link<'a> {
    stream: TcpStream,
    /// Received bytes that do not belong to a request yet.
    buffer: Vec<u8>,
    limits: Limits,
    stop: &'a Stop<'a>,
    /// Whether another request may follow the response.
    keep_alive: bool,
}

/// Why reading ended.
enum Silence {
    Closed,
    Late,
}

impl<'a> Link<'a> {
    pub(super) fn new(stream: TcpStream, limits: Limits, stop: &'a Stop<'a>) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::new(), limits, stop, keep_alive: false })
    }

    /// Reads the next head; none if the client disconnected, or sent no request in time.
    ///
    /// # Errors
    /// With the error response to send before the connection is closed.
    pub(super) fn head(&mut self) -> Result<Option<Head>, ApiError> {
        self.keep_alive = false;
        let mut deadline = Instant::now() + self.limits.timeout;
        let mut waiting = self.buffer.is_empty();
        loop {
            if let Some((head, length)) = parse(&self.buffer)? {
                self.buffer.drain(..length);
                self.keep_alive = head.keep_alive && head.length.is_none_or(|length| length == 0);
                return Ok(Some(head));
            }
            if self.buffer.len() > LONGEST_HEAD {
                return Err(too_long());
            }
            match self.fill(deadline) {
                Ok(()) if waiting => {
                    // The time limit of a request starts with its first byte.
                    deadline = Instant::now() + self.limits.timeout;
                    waiting = false;
                }
                Ok(()) => {}
                Err(Silence::Late) if !waiting => return Err(self.late("head")),
                Err(Silence::Late | Silence::Closed) => return Ok(None),
            }
        }
    }

    /// Reads the JSON body of a request; none if the client disconnected.
    ///
    /// # Errors
    /// With the error response to send before the connection is closed.
    pub(super) fn body(&mut self, head: &Head) -> Result<Option<Vec<u8>>, ApiError> {
        let json = |kind: &str| {
            let kind = kind.split(';').next().unwrap_or_default().trim();
            kind.eq_ignore_ascii_case("application/json")
        };
        if let Some(kind) = head.content_type.as_deref().filter(|kind| !json(kind)) {
            let message = format!("Content-Type is {kind:?}; expected application/json");
            return Err(ApiError::new(415, message));
        }
        let Some(length) = head.length else {
            return Err(ApiError::new(411, "Content-Length is missing; send it with the body"));
        };
        let most = self.limits.body;
        let Some(length) = usize::try_from(length).ok().filter(|&length| length <= most) else {
            return Err(ApiError::new(
                413,
                format!(
                    "the body has {length} bytes, at most {most} are accepted; split the request, or start \
                 the server with a larger --limits body=BYTES"
                ),
            ));
        };
        if head.expects && self.write(b"HTTP/1.1 100 Continue\r\n\r\n").is_err() {
            return Ok(None);
        }
        let deadline = Instant::now() + self.limits.timeout;
        while self.buffer.len() < length {
            match self.fill(deadline) {
                Ok(()) => {}
                Err(Silence::Late) => return Err(self.late("body")),
                Err(Silence::Closed) => return Ok(None),
            }
        }
        let rest = self.buffer.split_off(length);
        self.keep_alive = head.keep_alive;
        Ok(Some(std::mem::replace(&mut self.buffer, rest)))
    }

    fn late(&self, part: &str) -> ApiError {
        let seconds = self.limits.timeout.as_secs_f64();
        ApiError::new(408, format!("the {part} of the request did not come within {seconds} s"))
    }

    /// Waits for more bytes.
    fn fill(&mut self, deadline: Instant) -> Result<(), Silence> {
        let mut piece = [0; PIECE];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Silence::Late);
            }
            // A request that is incomplete when the server stops was not accepted.
            if self.stop.is_asked() || self.stream.set_read_timeout(Some(left.min(GLANCE))).is_err()
            {
                return Err(Silence::Closed);
            }
            match self.stream.read(&mut piece) {
                Ok(0) => return Err(Silence::Closed),
                Ok(count) => {
                    self.buffer.extend_from_slice(&piece[..count]);
                    return Ok(());
                }
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                    _ => return Err(Silence::Closed),
                },
            }
        }
    }

    /// Whether the client disconnected while it waited for a response. Requests that it sent in
    /// advance are kept; if they fill the buffer, a disconnection behind them is not detected.
    pub(super) fn is_gone(&mut self) -> bool {
        if self.buffer.len() > LONGEST_HEAD {
            return false;
        }
        let mut piece = [0; LONGEST_HEAD];
        let read = self.stream.set_nonblocking(true).and_then(|()| self.stream.read(&mut piece));
        let restored = self.stream.set_nonblocking(false);
        match read {
            Ok(0) => true,
            Ok(count) => {
                self.buffer.extend_from_slice(&piece[..count]);
                restored.is_err()
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::Interrupted => restored.is_err(),
                _ => true,
            },
        }
    }

    /// Sends a response, and returns whether another request may follow.
    pub(super) fn answer(
        &mut self,
        status: u16,
        headers: &[(&'static str, String)],
        body: &[u8],
    ) -> io::Result<bool> {
        let keep = self.keep_alive && !self.stop.is_asked();
        let mut head = format!(
            "HTTP/1.1 {status} {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
             Connection: {}\r\n",
            reason(status),
            body.len(),
            if keep { "keep-alive" } else { "close" },
        );
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(body);
        self.write(&bytes)?;
        Ok(keep)
    }

    /// Starts a response of events, which ends with the connection.
    pub(super) fn begin_events(&mut self) -> io::Result<()> {
        self.keep_alive = false;
        self.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n\
              Connection: close\r\n\r\n",
        )
    }

    /// Sends one event, whose text has no line breaks.
    pub(super) fn event(&mut self, data: &str) -> io::Result<()> {
        self.write(format!("data: {data}\n\n").as_bytes())
    }

    /// Writes everything, unless the client reads too slowly or the server stops.
    fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let long = Duration::from_secs(bytes.len() as u64 / SLOWEST_READER);
        let deadline = Instant::now() + self.limits.timeout + long;
        while !bytes.is_empty() {
            let last = self.stop.end().map_or(deadline, |end| end.min(deadline));
            let left = last.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            self.stream.set_write_timeout(Some(left.min(GLANCE)))?;
            match self.stream.write(&bytes[..bytes.len().min(PIECE)]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => bytes = &bytes[count..],
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                    _ => return Err(error),
                },
            }
        }
        self.stream.flush()
    }

    /// Closes the connection after the response to a request that was not fully read.
    pub(super) fn hang_up(mut self) {
        let deadline = Instant::now() + LINGER;
        if self.stream.shutdown(Shutdown::Write).is_err() {
            return;
        }
        while self.fill(deadline).is_ok() {
            self.buffer.clear();
        }
    }
}

fn too_long() -> ApiError {
    ApiError::new(
        431,
        format!(
            "the head of the request has more than {LONGEST_HEAD} bytes or {MAX_HEADERS} fields"
        ),
    )
}

/// A head and its length in bytes, once it is complete.
fn parse(bytes: &[u8]) -> Result<Option<(Head, usize)>, ApiError> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut fields);
    let length = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(length)) if length <= LONGEST_HEAD => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Ok(httparse::Status::Complete(_)) | Err(httparse::Error::TooManyHeaders) => {
            return Err(too_long());
        }
        Err(error) => return Err(ApiError::new(400, format!("not an HTTP request: {error}"))),
    };
    let (Some(method), Some(path), Some(version)) = (parsed.method, parsed.path, parsed.version)
    else {
        return Ok(None);
    };
    let path = path.split('?').next().unwrap_or_default().to_owned();
    let mut head = Head {
        method: method.to_owned(),
        path,
        content_type: None,
        length: None,
        has_host: false,
        expects: false,
        keep_alive: version == 1,
    };
    for field in parsed.headers.iter() {
        head.take(field.name, field.value)?;
    }
    if version == 1 && !head.has_host {
        return Err(ApiError::new(400, "the header Host is missing, which HTTP/1.1 requires"));
    }
    Ok(Some((head, length)))
}

/// Whether a Host header is valid: it may be empty, and contains no spaces and nothing that ends an
/// address.
fn is_host(value: &str) -> bool {
    value.bytes().all(|byte| byte.is_ascii_graphic() && !b"/?#@\\,\"<>".contains(&byte))
}

impl Head {
    /// Parses one header field.
    fn take(&mut self, name: &str, value: &[u8]) -> Result<(), ApiError> {
        let value = String::from_utf8_lossy(value);
        // Unicode spaces are not trimmed: programs that disagree about them would read different
        // lengths.
        let value = value.trim_matches([' ', '\t']);
        let wrong = |status, expected| {
            ApiError::new(status, format!("the header {name} is {value:?}; expected {expected}"))
        };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => {
                // Digits only: parse() would also accept a sign.
                let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
                let length = value.parse().ok().filter(|_| digits);
                let length = length.ok_or_else(|| wrong(400, "a number of bytes"))?;
                if self.length.replace(length).is_some_and(|before| before != length) {
                    return Err(wrong(400, "one length"));
                }
            }
            // The end of an undecoded body is unknown: the bytes after the head may be the body or
            // a request. So such requests are refused here, and the connection is closed.
            "transfer-encoding" => {
                return Err(ApiError::new(
                    411,
                    "chunked bodies are not supported; send the body with a Content-Length",
                ));
            }
            "host" if self.has_host => return Err(wrong(400, "one Host")),
            "host" if !is_host(value) => return Err(wrong(400, "a host, with a port or without")),
            "host" => self.has_host = true,
            "content-type" => self.content_type = Some(value.to_owned()),
            "connection" => {
                let says = |word: &str| {
                    value.split(',').any(|part| part.trim().eq_ignore_ascii_case(word))
                };
                self.keep_alive = !says("close") && (self.keep_alive || says("keep-alive"));
            }
            "expect" if value.eq_ignore_ascii_case("100-continue") => self.expects = true,
            "expect" => return Err(wrong(417, "100-continue")),
            _ => {}
        }
        Ok(())
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        411 => "Length Required",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        417 => "Expectation Failed",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        _ => "Internal Server Error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_and_wrong_ones_refused() {
        let read = |text: &str| parse(text.as_bytes());
        let whole = "POST /v1/completions?x=1 HTTP/1.1\r\nContent-Length: 12\r\n\
                     Host: x:80\r\nContent-Type: application/json\r\nConnection: Keep-Alive\r\n\r\n";
        let (head, length) = read(&format!("{whole}{{\"prompt\"")).unwrap().unwrap();
        assert_eq!(
            (head.path.as_str(), head.length, length),
            ("/v1/completions", Some(12), whole.len())
        );
        assert!(head.keep_alive && !head.expects);
        assert!(read(&whole[..40]).unwrap().is_none());
        let old = read("GET / HTTP/1.0\r\n\r\n").unwrap().unwrap().0;
        assert!(!old.keep_alive);
        let field = |field: &str| read(&format!("GET / HTTP/1.1\r\nHost: x\r\n{field}\r\n\r\n"));
        assert!(!field("Connection: close").unwrap().unwrap().0.keep_alive);
        for (bad, status) in [
            ("Content-Length: -1", 400),
            ("Content-Length: +1", 400),
            ("Content-Length: 99999999999999999999", 400),
            ("Content-Length: 1\r\nContent-Length: 2", 400),
            ("Content-Length: 1, 1", 400),
            ("Content-Length: \u{a0}1", 400),
            ("Content-Length: 1\u{2003}", 400),
            ("Content-Length: \u{b}1", 400),
            ("Host: y", 400),
            ("Host: x", 400),
            ("Transfer-Encoding: chunked", 411),
            ("Transfer-Encoding: identity", 411),
            ("Content-Length: 0\r\nTransfer-Encoding: chunked", 411),
            ("Expect: tea", 417),
            ("no colon", 400),
        ] {
            assert_eq!(field(bad).unwrap_err().status, status, "{bad}");
        }
        let many: String = (0..80).map(|i| format!("X-{i}: 1\r\n")).collect();
        assert_eq!(field(many.trim_end()).unwrap_err().status, 431);
        assert_eq!(field(&format!("X: {}", "y".repeat(20_000))).unwrap_err().status, 431);
        assert_eq!(read("\u{1}\r\n\r\n").unwrap_err().status, 400);
        assert_eq!(read("GET / HTTP/1.1\r\n\r\n").unwrap_err().status, 400);
        for (host, is_one) in [("", true), ("[::1]:80", true), ("a b", false), ("a/b", false)] {
            let read = read(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
            assert_eq!(read.is_ok(), is_one, "{host}");
        }
    }

    /// A connection of a server with this stop flag, and the client's end.
    fn connected<'a>(stop: &'a Stop<'a>) -> (Link<'a>, TcpStream) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let limits = Limits { body: 1 << 20, timeout: Duration::from_secs(60) };
        (Link::new(stream, limits, stop).unwrap(), client)
    }

    #[test]
    fn who_reads_nothing_holds_the_end_of_the_server_up_no_longer_than_its_grace() {
        let stop = Stop::new(&|| true, Duration::from_millis(200));
        let (mut link, client) = connected(&stop);
        let began = Instant::now();
        let piece = "x".repeat(1 << 20);
        while link.event(&piece).is_ok() {
            assert!(began.elapsed() < Duration::from_secs(20), "it reads nothing");
        }
        let late = began.elapsed();
        assert!(late > Duration::from_secs(1) && late < Duration::from_secs(10), "{late:?}");
        drop(client);
    }

    #[test]
    fn a_client_that_sent_its_next_request_and_left_is_seen_to_be_gone() {
        let stop = Stop::new(&|| false, Duration::ZERO);
        let (mut link, mut client) = connected(&stop);
        let next = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n";
        client.write_all(next).unwrap();
        let began = Instant::now();
        while link.buffer.len() < next.len() && began.elapsed() < Duration::from_secs(20) {
            assert!(!link.is_gone());
        }
        assert_eq!(link.head().unwrap().unwrap().path, "/health", "it was kept");
        drop(client);
        while !link.is_gone() {
            assert!(began.elapsed() < Duration::from_secs(20), "it has gone");
        }
    }
}
