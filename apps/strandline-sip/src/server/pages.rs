//! The live page and the metrics page.

use strandline_ops::http::{Answer, Request};
use strandline_ops::metrics::CONTENT_TYPE;

use super::hub::Hub;
use super::{metrics, status};

/// The live page, which is self-contained.
pub(super) const PAGE: &str = include_str!("live.html");

/// Answers a request for one of the pages.
pub(super) fn answer(hub: &Hub, request: &Request) -> Answer {
    let page = |kind, body| match request.method.as_str() {
        "GET" => Answer::text(200, kind, body),
        _ => Answer::not_allowed("GET, HEAD"),
    };
    match request.parts()[..] {
        [] => page("text/html; charset=utf-8", PAGE.to_owned()),
        ["live.json"] => page("application/json", status::json(hub)),
        ["metrics"] => page(CONTENT_TYPE, metrics::text(hub)),
        _ => {
            let others = "Not found. The paths are /, /live.json and /metrics.\n".to_owned();
            Answer::text(404, "text/plain; charset=utf-8", others)
        }
    }
}
