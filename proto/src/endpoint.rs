//! Parses the address of a CSI plugin, as command lines and `CSI_ENDPOINT` give it.

use std::fmt;
use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::str::FromStr;

/// The longest path of a Unix socket in bytes: Linux keeps 108 in `sun_path`, the last of which is NUL.
pub const SOCKET_PATH_BYTES_MAX: usize = 107;

/// The address on which a CSI plugin listens.
///
/// | text | endpoint |
/// |---|---|
/// | `unix:///csi/csi.sock`, `unix:/csi/csi.sock`, `/csi/csi.sock` | the absolute path |
/// | `unix://csi.sock`, `unix:csi.sock`, `./csi.sock`, `csi.sock` | the path from the working directory |
/// | `tcp://host:port`, `dns:///host:port`, `host:port` | the address; a name is looked up at each connect |
/// | `tcp://[::1]:port`, `[::1]:port` | IPv6 goes in brackets |
///
/// Schemes may be written in any case. Text without a scheme is a path if it contains a `/` or no `:`, so `csi.sock`
/// and `localhost` are paths; otherwise it has to be `host:port`, so a relative path with a colon needs `unix:` or
/// `./` in front. As in the Go tools, the text behind `unix://` is the path as it stands: there is no host part and
/// no percent-encoding.
///
/// `Display` writes a text that parses to an equal endpoint, provided that the path is valid UTF-8.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// A Unix socket at this path, which is absolute or relative to the working directory.
    Unix(PathBuf),
    /// A TCP address.
    Tcp {
        /// A host name or an IP address; IPv6 is without brackets.
        host: String,
        /// The port; a server that listens on 0 gets any free port.
        port: u16,
    },
}

/// Says why a text is no [`Endpoint`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseEndpointError {
    /// The text is empty.
    #[error("endpoint is empty: expected {ALLOWED}")]
    Empty,
    /// The scheme is not one of those listed at [`Endpoint`].
    #[error("endpoint {text:?} has the unknown scheme {scheme:?}: expected {ALLOWED}")]
    UnknownScheme {
        /// The whole text.
        text: String,
        /// The text before `://`.
        scheme: String,
    },
    /// Nothing follows the scheme.
    #[error("endpoint {text:?} has no path: expected unix:///absolute/path or unix:relative/path")]
    NoPath {
        /// The whole text.
        text: String,
    },
    /// The path has a NUL byte, which no file name can contain.
    #[error("endpoint {text:?} has a NUL byte in its path")]
    NulInPath {
        /// The whole text.
        text: String,
    },
    /// The path is longer than [`SOCKET_PATH_BYTES_MAX`].
    #[error(
        "socket path of {bytes} bytes is too long, at most {SOCKET_PATH_BYTES_MAX} are possible: {path:?}; \
         use a shorter path, or a relative one from a directory nearby"
    )]
    PathTooLong {
        /// The path.
        path: String,
        /// The length of the path.
        bytes: usize,
    },
    /// The address is not `host:port`.
    #[error("endpoint {text:?} is no address, because {why}: expected {ALLOWED}")]
    BadAddress {
        /// The whole text.
        text: String,
        /// The reason.
        why: &'static str,
    },
}

const ALLOWED: &str = "unix:///absolute/path, unix:relative/path, a path, tcp://host:port, dns:///host:port or \
                       host:port, with IPv6 addresses in brackets";

impl FromStr for Endpoint {
    type Err = ParseEndpointError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Err(ParseEndpointError::Empty);
        }
        if let Some(rest) = strip_scheme(text, "unix:") {
            return unix(text, rest.strip_prefix("//").unwrap_or(rest));
        }
        if let Some(rest) = strip_scheme(text, "tcp://").or_else(|| strip_scheme(text, "dns:///")) {
            return tcp(text, rest);
        }
        if let Some((scheme, _)) = text.split_once("://") {
            return Err(ParseEndpointError::UnknownScheme {
                text: text.to_owned(),
                scheme: scheme.to_owned(),
            });
        }
        if text.contains('/') || !text.contains(':') { unix(text, text) } else { tcp(text, text) }
    }
}

fn strip_scheme<'a>(text: &'a str, scheme: &str) -> Option<&'a str> {
    let (head, rest) = text.split_at_checked(scheme.len())?;
    head.eq_ignore_ascii_case(scheme).then_some(rest)
}

fn unix(text: &str, path: &str) -> Result<Endpoint, ParseEndpointError> {
    if path.is_empty() {
        return Err(ParseEndpointError::NoPath { text: text.to_owned() });
    }
    if path.contains('\0') {
        return Err(ParseEndpointError::NulInPath { text: text.to_owned() });
    }
    if path.len() > SOCKET_PATH_BYTES_MAX {
        return Err(ParseEndpointError::PathTooLong { path: path.to_owned(), bytes: path.len() });
    }
    Ok(Endpoint::Unix(path.into()))
}

fn tcp(text: &str, address: &str) -> Result<Endpoint, ParseEndpointError> {
    let (host, port) = split_address(address)
        .map_err(|why| ParseEndpointError::BadAddress { text: text.to_owned(), why })?;
    Ok(Endpoint::Tcp { host: host.to_owned(), port })
}

fn split_address(address: &str) -> Result<(&str, u16), &'static str> {
    let (host, port) = address.rsplit_once(':').ok_or("it has no port")?;
    let port_is_digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let port =
        port_is_digits.then(|| port.parse().ok()).flatten().ok_or("its port is no number up to 65535")?;
    if let Some(host) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        host.parse::<Ipv6Addr>().map_err(|_| "what stands in brackets is no IPv6 address")?;
        return Ok((host, port));
    }
    if host.is_empty() {
        return Err("its host is missing (0.0.0.0 and [::] stand for every address of a machine)");
    }
    if host.contains(':') {
        return Err("it has several colons outside brackets");
    }
    if !host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)) {
        return Err("its host has characters that no host name has");
    }
    Ok((host, port))
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) if path.is_absolute() => write!(f, "unix://{}", path.display()),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp { host, port } if host.contains(':') => write!(f, "tcp://[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "tcp://{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<Endpoint, ParseEndpointError> {
        text.parse()
    }

    fn error(text: &str) -> String {
        parse(text).expect_err(text).to_string()
    }

    fn path(path: &str) -> Result<Endpoint, ParseEndpointError> {
        Ok(Endpoint::Unix(path.into()))
    }

    fn address(host: &str, port: u16) -> Result<Endpoint, ParseEndpointError> {
        Ok(Endpoint::Tcp { host: host.into(), port })
    }

    #[test]
    fn paths_with_and_without_scheme() {
        for text in ["unix:///csi/csi.sock", "unix:/csi/csi.sock", "/csi/csi.sock", "UNIX:///csi/csi.sock"] {
            assert_eq!(parse(text), path("/csi/csi.sock"), "{text}");
        }
        for text in ["unix://run/csi.sock", "unix:run/csi.sock", "run/csi.sock"] {
            assert_eq!(parse(text), path("run/csi.sock"), "{text}");
        }
        assert_eq!(parse("./csi.sock"), path("./csi.sock"));
        assert_eq!(parse("csi.sock"), path("csi.sock"));
        assert_eq!(parse("localhost"), path("localhost"));
        assert_eq!(parse("run/a:1"), path("run/a:1"));
        assert_eq!(parse("unix:a:1"), path("a:1"));
        assert_eq!(parse("unix:///tmp/50%41"), path("/tmp/50%41"));
    }

    #[test]
    fn addresses_with_and_without_scheme() {
        for text in [
            "tcp://csi.example:9000",
            "dns:///csi.example:9000",
            "csi.example:9000",
            "TCP://csi.example:9000",
        ] {
            assert_eq!(parse(text), address("csi.example", 9000), "{text}");
        }
        assert_eq!(parse("127.0.0.1:0"), address("127.0.0.1", 0));
        for text in ["tcp://[::1]:9000", "dns:///[::1]:9000", "[::1]:9000"] {
            assert_eq!(parse(text), address("::1", 9000), "{text}");
        }
    }

    #[test]
    fn errors_say_what_is_wrong_and_what_is_allowed() {
        for (text, part) in [
            ("", "is empty"),
            ("unix://", "has no path"),
            ("unix:", "has no path"),
            ("unix:a\0b", "NUL byte"),
            ("http://localhost:80", "unknown scheme \"http\""),
            ("vsock://2:1024", "unknown scheme \"vsock\""),
            ("tcp://localhost", "has no port"),
            ("tcp://localhost:", "port is no number"),
            ("tcp://localhost:65536", "port is no number"),
            ("tcp://localhost:+80", "port is no number"),
            ("tcp://:80", "host is missing"),
            ("dns:///localhost:80/x", "port is no number"),
            ("dns://8.8.8.8/localhost:80", "unknown scheme \"dns\""),
            ("::1:80", "several colons"),
            ("[::1", "several colons"),
            ("[localhost]:80", "no IPv6 address"),
            ("user@host:80", "no host name"),
            ("foo:bar", "port is no number"),
        ] {
            let error = error(text);
            assert!(error.contains(part), "{text:?}: {error}");
        }
        assert!(error("foo:bar").contains("unix:relative/path"));
    }

    #[test]
    fn a_path_fits_into_a_socket_address() {
        let longest = format!("/{}", "x".repeat(SOCKET_PATH_BYTES_MAX - 1));
        assert_eq!(parse(&longest), path(&longest));
        let error = error(&format!("unix://{longest}x"));
        assert!(error.contains("108 bytes") && error.contains("at most 107"), "{error}");
    }

    fn endpoints() -> impl Strategy<Value = Endpoint> {
        let host = prop_oneof![
            "[a-zA-Z0-9][a-zA-Z0-9._-]{0,20}",
            any::<[u8; 4]>().prop_map(|octets| std::net::Ipv4Addr::from(octets).to_string()),
            any::<[u8; 16]>().prop_map(|octets| Ipv6Addr::from(octets).to_string()),
        ];
        prop_oneof![
            "[^\0]{1,26}".prop_map(|path| Endpoint::Unix(path.into())),
            "(/[^\0]{0,8}){1,3}".prop_map(|path| Endpoint::Unix(path.into())),
            (host, any::<u16>()).prop_map(|(host, port)| Endpoint::Tcp { host, port }),
        ]
    }

    proptest! {
        #[test]
        fn display_parses_to_the_same_endpoint(endpoint in endpoints()) {
            prop_assert_eq!(endpoint.to_string().parse(), Ok(endpoint));
        }

        #[test]
        fn no_text_panics(text in "\\PC*") {
            let _ = parse(&text);
        }
    }
}
