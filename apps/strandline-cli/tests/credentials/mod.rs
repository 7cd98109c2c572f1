//! Credentials for a REGISTER (RFC 7616).

use strandline_sip::auth::{Algorithm, response};
use strandline_sip::codec::Digest;

/// Returns the nonce of a challenge for this algorithm.
pub fn nonce(challenge: &str, algorithm: Algorithm) -> String {
    let wanted = format!("algorithm={}", algorithm.name());
    let line = challenge.lines().find(|line| line.contains(&wanted));
    let line = line.unwrap_or_else(|| panic!("no challenge for {wanted} in {challenge}"));
    line.split("nonce=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
}

/// Returns the Authorization line of a user of example.com who uses a nonce for the `count`th time.
pub fn line(user: &str, password: &str, algorithm: Algorithm, nonce: &str, count: u32) -> String {
    let secret = algorithm.hash(&[user.as_bytes(), b"example.com", password.as_bytes()]);
    let count = format!("{count:08x}");
    let digest = Digest {
        nonce: Some(nonce.as_bytes()),
        uri: Some(b"sip:example.com"),
        qop: Some(b"auth"),
        nc: Some(count.as_bytes()),
        cnonce: Some(b"c"),
        ..Digest::default()
    };
    let answer = String::from_utf8(response(algorithm, &secret, b"REGISTER", &digest)).unwrap();
    format!(
        "Authorization: Digest username=\"{user}\", realm=\"example.com\", nonce=\"{nonce}\", uri=\"sip:example.com\", \
         response=\"{answer}\", algorithm={}, cnonce=\"c\", qop=auth, nc={count}\r\n",
        algorithm.name()
    )
}
