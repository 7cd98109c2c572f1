//! A service that requires passwords, and phones that know theirs.

use std::time::Duration;

use strandline_sip::auth::{Algorithm, Authenticator, Nonces, Source, Users, response};
use strandline_sip::codec::Digest;

use crate::harness::{Phone, Sent, World};

/// Makes the service require passwords. Each user's password is the name followed by `-secret`.
pub fn ask(world: &mut World) {
    let text: String =
        ["alice", "bob", "carol"].iter().map(|user| format!("{user}:password:{user}-secret\n")).collect();
    ask_with(world, Source::Users(Users::read(&text).unwrap()));
}

pub fn ask_with(world: &mut World, users: Source) {
    let nonces = Nonces::new([9; 16], Duration::from_secs(300), 1 << 10);
    let (realm, all) = ("example.com".to_owned(), vec![Algorithm::Md5]);
    world
        .service
        .access_mut()
        .set_authenticator(Some(Authenticator::new(realm, all, users, nonces, [1; 16])));
}

/// The header with credentials for the first challenge of a response.
pub fn credentials(asked: &Sent, user: &str, password: &str, method: &str, uri: &str, nc: u32) -> String {
    let (challenge, name) = match asked.line("WWW-Authenticate") {
        Some(challenge) => (challenge, "Authorization"),
        None => (asked.line("Proxy-Authenticate").expect("a challenge"), "Proxy-Authorization"),
    };
    let nonce = challenge.split("nonce=\"").nth(1).unwrap().split('"').next().unwrap();
    let count = format!("{nc:08x}");
    let digest = Digest {
        nonce: Some(nonce.as_bytes()),
        uri: Some(uri.as_bytes()),
        qop: Some(b"auth"),
        nc: Some(count.as_bytes()),
        cnonce: Some(b"c"),
        ..Digest::default()
    };
    let secret = Algorithm::Md5.hash(&[user.as_bytes(), b"example.com", password.as_bytes()]);
    let answer = String::from_utf8(response(Algorithm::Md5, &secret, method.as_bytes(), &digest)).unwrap();
    format!(
        "{name}: Digest username=\"{user}\", realm=\"example.com\", nonce=\"{nonce}\", uri=\"{uri}\", \
         response=\"{answer}\", algorithm=MD5, cnonce=\"c\", qop=auth, nc={count}\r\n"
    )
}

/// A REGISTER request with these headers, and credentials for a challenge of the service.
pub fn register(
    world: &mut World,
    phone: &Phone,
    (user, password): (&str, &str),
    cseq: u32,
    more: &str,
) -> String {
    let asked = world.one(phone, &phone.register(user, cseq, more));
    assert_eq!(asked.first_line(), "SIP/2.0 401 Unauthorized");
    let header = credentials(&asked, user, password, "REGISTER", "sip:example.com", 1);
    phone.register(user, cseq + 1, &format!("{more}{header}"))
}

/// A request from alice, with credentials for a challenge of the service.
pub fn request(
    world: &mut World,
    phone: &Phone,
    method: &str,
    uri: &str,
    branch: &str,
    more: &str,
) -> String {
    let asked = world.one(phone, &phone.request(method, uri, &format!("{branch}-asked"), more));
    assert_eq!(asked.first_line(), "SIP/2.0 407 Proxy Authentication Required");
    let header = credentials(&asked, "alice", "alice-secret", method, uri, 1);
    phone.request(method, uri, branch, &format!("{more}{header}"))
}
