use super::*;

fn on_challenge(credentials: &mut Credentials, challenges: &[&str]) -> bool {
    let mut answer = "SIP/2.0 401 Unauthorized\r\n".to_owned();
    for challenge in challenges {
        let _ = write!(answer, "WWW-Authenticate: {challenge}\r\n");
    }
    answer.push_str("\r\n");
    credentials.on_challenge(7, Challenger::Server, &Came { bytes: answer.as_bytes() })
}

fn line(credentials: &mut Credentials) -> String {
    let line = credentials.line(7, "Mufasa", Challenger::Server, "GET", "/dir/index.html");
    String::from_utf8(line.to_vec()).unwrap()
}

/// The example of RFC 7616 section 3.9.1, except for the cnonce: with its cnonce the result is that section's
/// hashes.
#[test]
fn responses_are_those_of_the_rfc() {
    for (algorithm, expected) in [
        (Algorithm::Md5, "8ca523f5e9506fed4657c9700eebdbec"),
        (Algorithm::Sha256, "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
    ] {
        let secret = algorithm.hash("Mufasa:http-auth@example.org:Circle of Life");
        let what = algorithm.hash("GET:/dir/index.html");
        let nonce = "7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v";
        let cnonce = "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ";
        assert_eq!(algorithm.hash(&format!("{secret}:{nonce}:00000001:{cnonce}:auth:{what}")), expected);
    }
    // The example of RFC 2069, corrected in its erratum.
    let old = Challenge {
        realm: "testrealm@host.com".to_owned(),
        nonce: "dcd98b7102dd2f0e8b11d0f600bfb0c093".to_owned(),
        algorithm: Algorithm::Md5,
        qop: false,
        count: 1,
    };
    let response = old.response("Mufasa", "CircleOfLife", "GET", "/dir/index.html");
    assert_eq!(response, "1949323746fe6a43ef61f9606e7febea");
}

#[test]
fn first_known_challenge_is_answered_and_reused() {
    let mut credentials = Credentials::new("secret".to_owned());
    assert_eq!(line(&mut credentials), "");
    let known = r#"Digest realm="a, b", nonce="n1", algorithm=SHA-256, qop="auth,auth-int""#;
    let later = r#"Digest realm="a, b", nonce="n1", algorithm=MD5, qop="auth""#;
    assert!(on_challenge(
        &mut credentials,
        &["Basic realm=\"x\"", "Digest realm=\"x\", nonce=\"n\", algorithm=X", known, later]
    ));
    let first = line(&mut credentials);
    assert!(
        first.starts_with("Authorization: Digest username=\"Mufasa\", realm=\"a, b\", nonce=\"n1\", uri="),
        "{first}"
    );
    assert!(first.contains("algorithm=SHA-256") && first.contains("nc=00000001") && first.ends_with("\r\n"));
    assert!(line(&mut credentials).contains("nc=00000002"));
    // A proxy's challenge is separate from a server's.
    assert_eq!(credentials.line(7, "Mufasa", Challenger::Proxy, "INVITE", "sip:b"), b"");
    assert!(on_challenge(&mut credentials, &[r#"Digest realm="a", nonce="n2""#]));
    let second = line(&mut credentials);
    assert!(
        second.contains("nonce=\"n2\"") && second.contains("algorithm=MD5") && !second.contains("nc="),
        "{second}"
    );
}

#[test]
fn what_can_not_be_answered_is_told() {
    let mut credentials = Credentials::new("secret".to_owned());
    for challenge in ["Basic realm=\"x\"", "Digest realm=\"x\"", "Digest", "Digest nonce=\"unfinished"] {
        assert!(!on_challenge(&mut credentials, &[challenge]), "{challenge}");
    }
    assert!(!on_challenge(&mut credentials, &[]));
}
