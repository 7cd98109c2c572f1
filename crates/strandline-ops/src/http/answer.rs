//! Responses.

use serde_json::{Value, json};

/// Headers of all responses.
const OF_ALL: [(&str, &str); 3] = [
    ("Cache-Control", "no-store"),
    (
        "Content-Security-Policy",
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:",
    ),
    ("X-Content-Type-Options", "nosniff"),
];

/// A response.
#[derive(Debug, Clone)]
pub struct Answer {
    status: u16,
    kind: &'static str,
    /// A header besides those that all responses have.
    header: Option<(&'static str, String)>,
    body: String,
}

impl Answer {
    /// Creates a response with a body of this media type.
    #[must_use]
    pub fn text(status: u16, kind: &'static str, body: String) -> Self {
        Self { status, kind, header: None, body }
    }

    /// Creates a response with JSON as its body.
    #[must_use]
    pub fn json(status: u16, value: &Value) -> Self {
        Self::text(status, "application/json", format!("{value}\n"))
    }

    /// Creates an error, with advice unless `hint` is empty.
    #[must_use]
    pub fn error(status: u16, what: &str, hint: &str) -> Self {
        let body =
            if hint.is_empty() { json!({"error": what}) } else { json!({"error": what, "hint": hint}) };
        Self::json(status, &body)
    }

    /// Creates a 405: the resource exists, but only for other methods, which are listed as in Allow.
    #[must_use]
    pub fn not_allowed(methods: &str) -> Self {
        let mut answer = Self::error(405, "method not allowed", &format!("allowed here: {methods}"));
        answer.header = Some(("Allow", methods.to_owned()));
        answer
    }

    /// Creates a 401 that asks for a bearer token.
    #[must_use]
    pub fn unauthorized() -> Self {
        let mut answer = Self::error(
            401,
            "a token is required",
            "send Authorization: Bearer TOKEN with the content of admin.token",
        );
        answer.header = Some(("WWW-Authenticate", "Bearer".to_owned()));
        answer
    }

    /// The status.
    #[must_use]
    pub const fn status(&self) -> u16 {
        self.status
    }

    /// The body.
    #[must_use]
    pub fn body(&self) -> &str {
        &self.body
    }

    /// The status, the headers and the body.
    pub(super) fn into_parts(self) -> (u16, Vec<(&'static str, String)>, String) {
        let mut headers = vec![("Content-Type", self.kind.to_owned())];
        headers.extend(self.header);
        headers.extend(OF_ALL.map(|(name, value)| (name, value.to_owned())));
        (self.status, headers, self.body)
    }
}
