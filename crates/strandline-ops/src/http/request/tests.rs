use super::*;

fn request(method: &Method, target: &str, credentials: &str) -> Result<Request, &'static str> {
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, credentials.parse().unwrap());
    Request::of(method, &target.parse().unwrap(), &headers)
}

#[test]
fn what_is_asked_for_stands_without_escapes() {
    let asked = request(&Method::DELETE, "/bindings/a%40b?contact=sip%3Aa&x", "Bearer  t ").unwrap();
    assert_eq!((asked.method.as_str(), asked.parts()), ("DELETE", vec!["bindings", "a@b"]));
    let values = (asked.value("contact"), asked.value("x"), asked.value("y"));
    assert_eq!(values, (Some("sip:a"), Some(""), None));
    let asked = request(&Method::HEAD, "/", "").unwrap();
    assert_eq!((asked.method.as_str(), asked.path.len()), ("GET", 0));
    assert_eq!(escape("a b/ü@c"), "a%20b%2F%C3%BC@c");
    assert_eq!(unescape(&escape("a b/ü@c")).unwrap(), "a b/ü@c");
}

#[test]
fn what_makes_no_sense_is_told() {
    for target in ["/%zz", "/?a=%4", "/%ff", "*"] {
        assert!(request(&Method::GET, target, "").is_err(), "{target}");
    }
}

#[test]
fn a_sign_is_no_digit_of_an_escape() {
    for target in ["/%+f", "/a?b=%-1", "/%+"] {
        assert!(Request::for_target("GET", target).is_err(), "{target}");
    }
}

#[test]
fn bearer_is_accepted_in_any_case() {
    for credentials in ["Bearer secret", "bearer secret", "BEARER   secret"] {
        assert!(request(&Method::GET, "/", credentials).unwrap().shows("secret"), "{credentials}");
    }
    for credentials in ["", "Bearer", "secret", "Basic secret", "Bearer secre", "Bearer secrets"] {
        assert!(!request(&Method::GET, "/", credentials).unwrap().shows("secret"), "{credentials}");
    }
    assert!(!request(&Method::GET, "/", "Bearer ").unwrap().shows(""));
}
