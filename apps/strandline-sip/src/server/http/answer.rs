//! What somebody is told.

use serde_json::{Value, json};

/// Of the answers that there are.
fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        404 => "Not Found",
        405 => "Method Not Allowed",
        422 => "Unprocessable Content",
        431 => "Request Header Fields Too Large",
        _ => "Error",
    }
}

/// An answer.
#[derive(Debug, Clone)]
pub(in crate::server) struct Answer {
    status: u16,
    kind: &'static str,
    /// Lines.
    headers: String,
    body: String,
}

impl Answer {
    pub(in crate::server) fn text(status: u16, kind: &'static str, body: String) -> Self {
        Self { status, kind, headers: String::new(), body }
    }

    pub(in crate::server) fn json(status: u16, value: &Value) -> Self {
        Self::text(status, "application/json", format!("{value}\n"))
    }

    /// What is wrong, and what would be right, if that isn't said by it.
    pub(in crate::server) fn error(status: u16, what: &str, hint: &str) -> Self {
        let body =
            if hint.is_empty() { json!({"error": what}) } else { json!({"error": what, "hint": hint}) };
        Self::json(status, &body)
    }

    /// 405: there is something here, for other methods.
    pub(in crate::server) fn not_allowed(methods: &str) -> Self {
        let mut answer = Self::error(405, "that can't be done here", &format!("there is {methods}"));
        answer.headers = format!("Allow: {methods}\r\n");
        answer
    }

    /// 401.
    pub(in crate::server) fn unauthorized() -> Self {
        let mut answer = Self::error(
            401,
            "who asks must show the token",
            "Authorization: Bearer, and what is in admin.token",
        );
        answer.headers = "WWW-Authenticate: Bearer\r\n".to_owned();
        answer
    }

    pub(in crate::server) const fn status(&self) -> u16 {
        self.status
    }

    pub(in crate::server) fn body(&self) -> &str {
        &self.body
    }

    /// Its first line and headers.
    pub(super) fn head(&self) -> String {
        let Self { status, kind, headers, body } = self;
        let (reason, len) = (reason(*status), body.len());
        format!(
            "HTTP/1.1 {status} {reason}\r\nContent-Type: {kind}\r\nContent-Length: {len}\r\n{headers}\
             Cache-Control: no-store\r\nContent-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; \
             script-src 'unsafe-inline'; connect-src 'self'; img-src data:\r\nX-Content-Type-Options: nosniff\r\n\
             Connection: close\r\n\r\n"
        )
    }
}
