use super::*;

fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
    let lines =
        lines.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(name, value);
    }
    headers
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).map_or("", |value| value.to_str().unwrap())
}

fn sender(address: &str, transport: Transport) -> Sender {
    Sender { address: Some(address.parse().unwrap()), transport, stream: None }
}

#[test]
fn headers_of_a_connection_are_removed() {
    let mut headers = headers(&[
        ("connection", "X-Mine, keep-alive ,, host,bad name"),
        ("connection", "upgrade"),
        ("host", "a"),
        ("keep-alive", "timeout=5"),
        ("proxy-authorization", "Basic x"),
        ("proxy-authenticate", "Basic"),
        ("proxy-connection", "keep-alive"),
        ("te", "gzip;q=0.5, trailers"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "websocket"),
        ("x-mine", "1"),
        ("x-other", "2"),
    ]);
    let hop = strip(&mut headers);
    assert_eq!(hop, Hop { upgrade: Some(HeaderValue::from_static("websocket")), takes_trailers: true });
    let mut left: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
    left.sort_unstable();
    assert_eq!(left, ["host", "x-other"]);
    request_hop(&mut headers, &hop);
    let connection: Vec<_> = headers.get_all(CONNECTION).iter().map(HeaderValue::as_bytes).collect();
    assert_eq!((connection, text(&headers, "te")), (vec![&b"te"[..], b"upgrade"], "trailers"));
}

#[test]
fn unlisted_upgrades_are_none() {
    let mut headers = headers(&[("upgrade", "websocket"), ("connection", "close")]);
    assert_eq!(strip(&mut headers), Hop::default());
    for (protocol, may) in [("websocket", true), ("h2c", false), ("websocket, H2C", false), ("", false)] {
        assert_eq!(may_upgrade(&HeaderValue::from_static(protocol)), may, "{protocol}");
    }
}

#[test]
fn doubtful_hosts_and_codings_are_refused() {
    let cases: [(&[(&str, &str)], u16); 9] = [
        (&[("host", "a:80")], 200),
        (&[("host", "")], 200),
        (&[("host", "[::1]:80"), ("transfer-encoding", "Chunked")], 200),
        (&[], 400),
        (&[("host", "a"), ("host", "a")], 400),
        (&[("host", "a b")], 400),
        (&[("host", "user@a")], 400),
        (&[("host", "a"), ("transfer-encoding", "gzip, chunked")], 501),
        (&[("host", "a"), ("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")], 501),
    ];
    for (lines, status) in cases {
        let mut request = Request::new(());
        for (name, value) in lines {
            request.headers_mut().append(*name, HeaderValue::from_static(value));
        }
        let found = check(&request).map_or_else(|failure| failure.status().as_u16(), |()| 200);
        assert_eq!(found, status, "{lines:?}");
    }
}

#[test]
fn clients_are_reported_and_cannot_report_others() {
    let lines = [
        ("forwarded", "for=1.1.1.1"),
        ("x-forwarded-for", "1.1.1.1"),
        ("x-forwarded-for", "2.2.2.2"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "evil"),
    ];
    let mut replaced = headers(&lines);
    add_forwarded(&mut replaced, sender("192.0.2.1:5", Transport::Sctp), Some("a:8080"), false);
    assert_eq!(text(&replaced, "forwarded"), "for=192.0.2.1;host=\"a:8080\";proto=http");
    assert_eq!(text(&replaced, "x-forwarded-for"), "192.0.2.1");
    assert_eq!(text(&replaced, "x-forwarded-proto"), "http");
    assert_eq!(text(&replaced, "x-forwarded-host"), "a:8080");
    let mut trusted = headers(&lines);
    add_forwarded(&mut trusted, sender("[2001:db8::1]:5", Transport::Tls), Some("a"), true);
    assert_eq!(text(&trusted, "forwarded"), "for=1.1.1.1, for=\"[2001:db8::1]\";host=a;proto=https");
    assert_eq!(text(&trusted, "x-forwarded-for"), "1.1.1.1, 2.2.2.2, 2001:db8::1");
    assert_eq!(text(&trusted, "x-forwarded-proto"), "https");
    assert_eq!(text(&trusted, "x-forwarded-host"), "evil");
    assert_eq!(trusted.get_all(FORWARDED_FOR).iter().count(), 1);
    let mut mapped = HeaderMap::new();
    add_forwarded(&mut mapped, sender("[::ffff:192.0.2.1]:5", Transport::Tcp), None, false);
    assert_eq!(text(&mapped, "forwarded"), "for=192.0.2.1;proto=http");
}

#[test]
fn a_request_that_comes_back_is_a_loop() {
    let mut headers = headers(&[("via", "1.0 fred, 1.1 p.example.net (Apache/1.1)")]);
    assert!(!is_loop(&headers, "strandline-1"));
    add_via(&mut headers, Version::HTTP_2, "strandline-1");
    assert!(is_loop(&headers, "strandline-1"));
    assert!(!is_loop(&headers, "strandline"));
}

#[test]
fn max_forwards_is_counted_down() {
    let count = |method: Method, value: &'static str| {
        let mut headers = headers(&[("max-forwards", value)]);
        let result = count_down(&method, &mut headers).map_err(|failure| failure.status().as_u16());
        (result, text(&headers, "max-forwards").to_owned())
    };
    assert_eq!(count(Method::OPTIONS, "2"), (Ok(false), "1".to_owned()));
    assert_eq!(count(Method::TRACE, "0").0, Ok(true));
    assert_eq!(count(Method::TRACE, "+1").0, Err(400));
    assert_eq!(count(Method::TRACE, "99999999999999999999").0, Err(400));
    assert_eq!(count(Method::GET, "0"), (Ok(false), "0".to_owned()));
}

#[test]
fn cookies_become_one_header() {
    let mut headers = headers(&[("cookie", "a=1"), ("cookie", "b=2"), ("content-length", "3")]);
    join_cookies(&mut headers);
    assert_eq!(headers.get_all(COOKIE).iter().count(), 1);
    assert_eq!((text(&headers, "cookie"), text(&headers, "content-length")), ("a=1; b=2", "3"));
}

#[test]
fn one_expectation_is_known() {
    assert_eq!(expects_continue(&HeaderMap::new()), Ok(false));
    assert_eq!(expects_continue(&headers(&[("expect", "100-Continue")])), Ok(true));
    assert_eq!(expects_continue(&headers(&[("expect", "more")])), Err(Failure::Expectation));
}
