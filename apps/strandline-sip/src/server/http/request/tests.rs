#![allow(clippy::unwrap_used)]

use super::*;

fn read(text: &str) -> Result<Option<(Request, bool)>, &'static str> {
    Request::read(text.as_bytes())
}

#[test]
fn what_is_asked_for_stands_without_escapes() {
    let text =
        "DELETE /bindings/a%40b?contact=sip%3Aa&x HTTP/1.1\r\nHost: h\r\nauthorization: Bearer  t \r\n\r\n";
    let (request, is_head) = read(text).unwrap().unwrap();
    assert_eq!(
        (request.method.as_str(), request.parts(), is_head),
        ("DELETE", vec!["bindings", "a@b"], false)
    );
    assert_eq!(
        (request.value("contact"), request.value("x"), request.value("y")),
        (Some("sip:a"), Some(""), None)
    );
    assert_eq!(request.token.as_deref(), Some("t"));
    let (request, is_head) = read("HEAD / HTTP/1.1\r\n\r\n").unwrap().unwrap();
    assert_eq!((request.method.as_str(), request.path.len(), is_head), ("GET", 0, true));
    for len in 0..text.len() {
        assert_eq!(read(&text[..len]), Ok(None));
    }
    assert_eq!(escape("a b/ü@c"), "a%20b%2F%C3%BC@c");
    assert_eq!(unescape(&escape("a b/ü@c")).unwrap(), "a b/ü@c");
}

#[test]
fn what_makes_no_sense_is_told() {
    for text in [
        "GET /%zz HTTP/1.1\r\n\r\n",
        "GET /?a=%4 HTTP/1.1\r\n\r\n",
        "GET a HTTP/1.1\r\n\r\n",
        "\u{1}\r\n\r\n",
    ] {
        assert!(read(text).is_err(), "{text}");
    }
}
