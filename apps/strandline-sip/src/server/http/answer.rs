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
pub(in crate::server) struct Answer {
    status: u16,
    kind: &'static str,
    /// A header besides those that all responses have.
    header: Option<(&'static str, String)>,
    body: String,
}

impl Answer {
    pub(in crate::server) fn text(status: u16, kind: &'static str, body: String) -> Self {
        Self { status, kind, header: None, body }
    }

    pub(in crate::server) fn json(status: u16, value: &Value) -> Self {
        Self::text(status, "application/json", format!("{value}\n"))
    }

    /// An error, with optional advice.
    pub(in crate::server) fn error(status: u16, what: &str, hint: &str) -> Self {
        let body =
            if hint.is_empty() { json!({"error": what}) } else { json!({"error": what, "hint": hint}) };
        Self::json(status, &body)
    }

    /// 405: the resource exists, but only for other methods.
    pub(in crate::server) fn not_allowed(methods: &str) -> Self {
        let mut answer = Self::error(405, "method not allowed", &format!("allowed here: {methods}"));
        answer.header = Some(("Allow", methods.to_owned()));
        answer
    }

    /// 401.
    pub(in crate::server) fn unauthorized() -> Self {
        let mut answer = Self::error(
            401,
            "a token is required",
            "send Authorization: Bearer TOKEN with the content of admin.token",
        );
        answer.header = Some(("WWW-Authenticate", "Bearer".to_owned()));
        answer
    }

    pub(in crate::server) const fn status(&self) -> u16 {
        self.status
    }

    pub(in crate::server) fn body(&self) -> &str {
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
