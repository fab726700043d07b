//! Which program a request comes from, as it says itself.

use axum::{extract::FromRequestParts, http::request::Parts};
use http::{HeaderMap, header};
use std::convert::Infallible;

/// The longest name that is kept, in characters.
const NAME_MAX: usize = 32;

/// The name of the client that decided, for an approval's outcome: `cli` for `maestro-cli/0.1.0`. A statement, not a
/// proof.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClientName(pub(super) String);

impl<S: Sync> FromRequestParts<S> for ClientName {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(Self(name(&parts.headers)))
    }
}

fn name(headers: &HeaderMap) -> String {
    let agent = headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let product = agent.split(['/', ' ']).next().unwrap_or_default();
    let name = product.strip_prefix("maestro-").unwrap_or(product);
    let plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name: String = name.chars().take_while(plain).take(NAME_MAX).collect();
    if name.is_empty() { "unknown".into() } else { name }
}

#[cfg(test)]
mod tests {
    use super::name;
    use http::{HeaderMap, HeaderValue, header};

    #[test]
    fn a_client_is_named_by_its_product() {
        let check = |agent: &[u8], expect: &str| {
            let value = HeaderValue::from_bytes(agent).expect("a header value");
            assert_eq!(name(&HeaderMap::from_iter([(header::USER_AGENT, value)])), expect);
        };
        check(b"maestro-cli/0.1.0", "cli");
        check(b"curl/8.1 (x)", "curl");
        check(b"", "unknown");
        check(b"\xff\xfe", "unknown");
        check(&[b'a'; 99], &"a".repeat(32));
        assert_eq!(name(&HeaderMap::new()), "unknown");
    }
}
