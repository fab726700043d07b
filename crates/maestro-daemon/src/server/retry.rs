//! `Idempotency-Key`: what makes a request the retry of an earlier one (CONTRACT §11.5).

use super::{
    body::{self, RequestBody},
    problem::ApiError,
};
use axum::extract::{FromRequest, Request};
use fnv::FnvHasher;
use http::{HeaderMap, HeaderName};
use maestro_protocol::{ProblemCode, RequestMark};
use std::hash::Hasher as _;

/// The header, as a field of a problem names it.
const NAME: &str = "Idempotency-Key";

/// The longest key.
const KEY_MAX_BYTES: usize = 255;

/// A body, read as JSON, of a request that can be retried, and what its retry would have in common with it.
#[derive(Debug)]
pub(super) struct Retriable<T>(pub(super) Option<RequestMark>, pub(super) T);

impl<T: RequestBody, S: Sync> FromRequest<S> for Retriable<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _state: &S) -> Result<Self, ApiError> {
        let (parts, sent) = request.into_parts();
        // Read first: an answer may come only when nothing of the request is left unread.
        let sent = body::read(sent, T::MAX_BYTES).await?;
        let key = key(&parts.headers)?;
        let parsed = body::parse(&sent)?;
        Ok(Self(key.map(|key| RequestMark { key, body: print(&sent) }), parsed))
    }
}

fn key(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let mut keys = headers.get_all(HeaderName::from_static("idempotency-key")).iter();
    let Some(first) = keys.next() else { return Ok(None) };
    let text = first.to_str().ok().filter(|text| (1..=KEY_MAX_BYTES).contains(&text.len()));
    match (text, keys.next()) {
        (Some(text), None) if text.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(Some(text.to_owned())),
        _ => {
            let detail = "the header `Idempotency-Key` is one key of 1 to 255 visible ASCII characters";
            Err(ApiError::new(ProblemCode::InvalidRequest, detail).at(NAME))
        }
    }
}

/// The same for the same bytes, in every version: it is stored.
fn print(body: &[u8]) -> String {
    let mut hasher = FnvHasher::default();
    hasher.write(body);
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::{key, print};
    use http::{HeaderMap, HeaderName, HeaderValue};

    #[test]
    fn a_key_is_one_word_of_visible_ascii() {
        let check = |keys: &[&[u8]], expect: Result<Option<&str>, ()>| {
            let mut headers = HeaderMap::new();
            for key in keys {
                let name = HeaderName::from_static("idempotency-key");
                headers.append(name, HeaderValue::from_bytes(key).expect("a header value"));
            }
            let found = key(&headers).map_err(drop);
            assert_eq!(found.as_ref().map(Option::as_deref), expect.as_ref().copied(), "{keys:?}");
        };
        check(&[], Ok(None));
        check(&[b"a"], Ok(Some("a")));
        check(&[&[b'k'; 255]], Ok(Some(&"k".repeat(255))));
        check(&[&[b'k'; 256]], Err(()));
        check(&[b""], Err(()));
        check(&[b"a b"], Err(()));
        check(&["é".as_bytes()], Err(()));
        check(&[b"a", b"a"], Err(()));
    }

    #[test]
    fn the_print_of_a_body_is_stored_and_never_changes() {
        let check = |body: &[u8], expect: &str| assert_eq!(print(body), expect);
        check(b"", "cbf29ce484222325");
        check(b"a", "af63dc4c8601ec8c");
    }
}
