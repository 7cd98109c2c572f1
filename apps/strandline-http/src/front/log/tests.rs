use hyper::StatusCode;

use super::*;
use crate::files::testing::Folder;

fn line(format: Format, agent: &str) -> String {
    let folder = Folder::new("log");
    let path = folder.path().join("access.log");
    let log = Arc::new(AccessLog::open(&path, format).unwrap());
    let request = Request::get("http://a/x?y=z").header(USER_AGENT, agent).body(()).unwrap();
    let sender =
        Sender { address: Some(([192, 0, 2, 7], 9899).into()), transport: Transport::Sctp, stream: Some(3) };
    let response = crate::files::status(StatusCode::NOT_FOUND);
    drop(LoggedBody::respond(response, request.method(), Line::begin(&request, sender, Some(&log))));
    drop(log);
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn combined_lines_cannot_be_forged() {
    let line = line(Format::Combined, "agent \"\tevil");
    assert_eq!(line.lines().count(), 1);
    assert!(line.starts_with("192.0.2.7 - - ["), "{line}");
    let end = " +0000] \"GET /x?y=z HTTP/1.1\" 404 0 \"-\" \"agent \\\"\\x09evil\"\n";
    assert!(line.ends_with(end), "{line}");
}

#[test]
fn json_lines_are_objects() {
    let line: serde_json::Value = serde_json::from_str(&line(Format::Json, "agent")).unwrap();
    assert_eq!(line["client"], "192.0.2.7");
    assert_eq!((&line["transport"], &line["stream"]), (&"sctp".into(), &3.into()));
    assert_eq!((&line["status"], &line["complete"]), (&404.into(), &false.into()));
}

#[test]
fn times_are_in_common_log_format() {
    assert_eq!(clf_time("Tue, 14 Nov 2023 22:13:20 GMT"), "14/Nov/2023:22:13:20 +0000");
}

/// Over HTTP/2 a body in the response to HEAD would be a protocol error.
#[tokio::test]
async fn responses_to_head_have_no_body() {
    let folder = Folder::new("log-head");
    let path = folder.path().join("access.log");
    let log = Arc::new(AccessLog::open(&path, Format::Json).unwrap());
    let request = Request::head("http://a/x").body(()).unwrap();
    let sender = Sender { address: None, transport: Transport::Tcp, stream: None };
    let body = crate::files::FileBody::text("not sent".to_owned());
    let line = Line::begin(&request, sender, Some(&log));
    let mut response = LoggedBody::respond(Response::new(body), request.method(), line);
    assert_eq!(response.headers()[CONTENT_LENGTH], "8");
    assert!(response.body().is_end_stream());
    let frame = std::future::poll_fn(|cx| Pin::new(response.body_mut()).poll_frame(cx)).await;
    assert!(frame.is_none());
    drop((response, log));
    let line: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!((&line["body_bytes"], &line["complete"]), (&0.into(), &true.into()));
}
