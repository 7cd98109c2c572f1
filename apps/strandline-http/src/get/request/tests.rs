use super::*;

fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

fn authorization(url: &Url) -> Option<String> {
    let credentials = Credentials::of(url);
    let request = request(url, 0, None, credentials.as_ref()).unwrap();
    assert!(
        !request.uri().to_string().contains('@') && !request.headers()[HOST].to_str().unwrap().contains('@')
    );
    request.headers().get(AUTHORIZATION).map(|value| value.to_str().unwrap().to_owned())
}

#[test]
fn users_of_urls_are_authenticated() {
    let cases = [
        // The example of RFC 7617 section 2.
        ("http://Aladdin:open%20sesame@a/", Some("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==")),
        ("http+sctp://user@a/", Some("Basic dXNlcjo=")),
        ("https://:p%40ss@a/", Some("Basic OnBAc3M=")),
        ("http://a/", None),
    ];
    for (text, value) in cases {
        assert_eq!(authorization(&url(text)).as_deref(), value, "{text}");
    }
}

#[test]
fn credentials_stay_with_their_server() {
    let own = Credentials::of(&url("http://u:p@a:80/x")).unwrap();
    for (to, stays) in [
        ("http://a/y", true),
        ("http://a:81/y", false),
        ("https://a/y", false),
        ("http+sctp://a:80/y", false),
        ("http://b/y", false),
    ] {
        assert_eq!(own.clone().after(&url(to)).is_some(), stays, "{to}");
    }
    let other = own.after(&url("http://v:q@b/")).unwrap();
    assert_eq!(other.value, "Basic djpx");
}

#[test]
fn passwords_are_not_reported() {
    let shown = without_password(&url("http://user:secret@a/x"));
    assert_eq!(shown.as_str(), "http://user:***@a/x");
    assert_eq!(without_password(&url("http://a/x")).as_str(), "http://a/x");
}
