//! Digest authentication (section 22, RFC 7616, RFC 8760).

use std::time::Duration;

use strandline_sip::auth::{Algorithm, Authenticator, Nonces, Source, Users, response};
use strandline_sip::codec::Digest;
use strandline_sip::service::Settings;

use crate::harness::{Phone, Sent, World};

const USERS: &str = "bob:password:secret\nalice:MD5:11111111111111111111111111111111\n";

pub fn world(algorithms: &[Algorithm], places: usize) -> World {
    run(algorithms, places, 1)
}

/// A run of a server with a key that outlives it.
fn run(algorithms: &[Algorithm], places: usize, run: u64) -> World {
    let mut world = World::new();
    let users = Users::read(USERS).unwrap();
    let nonces = Nonces::new([9; 16], Duration::from_secs(300), places).of_run(run);
    let authenticator = Authenticator::new(
        "example.com".to_owned(),
        algorithms.to_vec(),
        Source::Users(users),
        nonces,
        [1; 16],
    );
    world.service.access_mut().set_authenticator(Some(authenticator));
    world
}

fn phone() -> Phone {
    Phone::udp("192.0.2.1:5060")
}

/// The value of a parameter in a challenge.
fn param<'a>(challenge: &'a str, name: &str) -> &'a str {
    let rest = challenge.split_once(&format!("{name}=")).unwrap().1;
    match rest.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next().unwrap(),
        None => rest.split(',').next().unwrap(),
    }
}

/// A REGISTER request with credentials.
fn authorized(cseq: u32, challenge: &str, user: &str, password: &str, nc: Option<u32>) -> String {
    let uri = "sip:example.com";
    let algorithm = Algorithm::from_name(param(challenge, "algorithm").as_bytes()).unwrap();
    let count = nc.map(|nc| format!("{nc:08x}"));
    let digest = Digest {
        nonce: Some(param(challenge, "nonce").as_bytes()),
        uri: Some(uri.as_bytes()),
        qop: nc.map(|_| &b"auth"[..]),
        nc: count.as_deref().map(str::as_bytes),
        cnonce: nc.map(|_| &b"cn"[..]),
        ..Digest::default()
    };
    let secret = algorithm.hash(&[user.as_bytes(), b"example.com", password.as_bytes()]);
    let answer = String::from_utf8(response(algorithm, &secret, b"REGISTER", &digest)).unwrap();
    let qop = count.map_or(String::new(), |count| format!(", qop=auth, nc={count}, cnonce=\"cn\""));
    let (name, nonce) = (algorithm.name(), param(challenge, "nonce"));
    let more = format!(
        "Contact: <sip:bob@192.0.2.1>\r\nAuthorization: Digest username=\"{user}\", realm=\"example.com\", \
         nonce=\"{nonce}\", uri=\"{uri}\", algorithm={name}, response=\"{answer}\"{qop}\r\n"
    );
    phone().register("bob", cseq, &more)
}

fn challenges(sent: &Sent) -> Vec<String> {
    assert_eq!(sent.first_line(), "SIP/2.0 401 Unauthorized", "{}", sent.text);
    sent.lines("WWW-Authenticate").iter().map(|line| (*line).to_owned()).collect()
}

#[test]
fn the_examples_of_rfc_7616() {
    let digest = Digest {
        nonce: Some(b"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v"),
        uri: Some(b"/dir/index.html"),
        qop: Some(b"auth"),
        nc: Some(b"00000001"),
        cnonce: Some(b"f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ"),
        ..Digest::default()
    };
    for (algorithm, expected) in [
        (Algorithm::Md5, "8ca523f5e9506fed4657c9700eebdbec"),
        (Algorithm::Sha256, "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
    ] {
        let secret = algorithm.hash(&[b"Mufasa", b"http-auth@example.org", b"Circle of Life"]);
        assert_eq!(response(algorithm, &secret, b"GET", &digest), expected.as_bytes());
    }
    // FIPS 180-4: SHA-512/256 of "abc".
    let abc = "53048e2681941ef99b2e29b76b4c7dabe4c2d0c634fc6d46e0e2f13107e7af23";
    assert_eq!(Algorithm::Sha512_256.hash(&[b"abc"]), abc.as_bytes());
}

#[test]
fn each_algorithm_registers_once_per_nonce_count() {
    let mut world = world(&Algorithm::ALL, 16);
    let first = world.one(&phone(), &phone().register("bob", 1, "Contact: <sip:bob@192.0.2.1>\r\n"));
    let challenges = challenges(&first);
    assert_eq!(
        challenges.iter().map(|one| param(one, "algorithm")).collect::<Vec<_>>(),
        ["SHA-256", "SHA-512-256", "MD5"]
    );
    assert!(world.service.registrations().locations().is_empty());
    for (number, challenge) in challenges.iter().enumerate() {
        let number = number as u32 + 1;
        let text = authorized(number + 1, challenge, "bob", "secret", Some(number));
        assert_eq!(world.one(&phone(), &text).first_line(), "SIP/2.0 200 OK");
        let other = text.replace("sip:bob@192.0.2.1>", "sip:bob@192.0.2.66>");
        let replay = world.one(&phone(), &other);
        assert_eq!(replay.first_line(), "SIP/2.0 401 Unauthorized", "credentials are good once");
        assert!(replay.line("WWW-Authenticate").unwrap().contains("stale=true"));
    }
    // Counts may arrive out of order, but none may repeat.
    let counts = [(9, 200), (7, 200), (7, 401), (8, 200), (9, 401), (50, 200), (9, 401), (49, 200)];
    for (number, (count, status)) in counts.into_iter().enumerate() {
        let text = authorized(90 + count, &challenges[0], "bob", "secret", Some(count));
        // Make each request distinct.
        let text = text.replace("sip:bob@192.0.2.1>", &format!("sip:bob@192.0.2.1>;n={number}"));
        let sent = world.one(&phone(), &text);
        let expected = format!("SIP/2.0 {status}");
        let out_of_order = sent.first_line().starts_with("SIP/2.0 500");
        assert!(
            sent.first_line().starts_with(&expected) || (status == 200 && out_of_order),
            "{count}: {}",
            sent.text
        );
    }
}

#[test]
fn digest_without_qop_needs_new_nonces() {
    let mut world = world(&[Algorithm::Md5], 16);
    let first = world.one(&phone(), &phone().register("bob", 1, ""));
    let challenge = challenges(&first).remove(0);
    let text = authorized(2, &challenge, "bob", "secret", None);
    assert_eq!(world.one(&phone(), &text).first_line(), "SIP/2.0 200 OK");
    let again = authorized(3, &challenge, "bob", "secret", None);
    assert!(challenges(&world.one(&phone(), &again))[0].contains("stale=true"));
}

#[test]
fn nonces_expire_and_cannot_be_forged() {
    let mut world = world(&[Algorithm::Sha256], 16);
    let challenge = challenges(&world.one(&phone(), &phone().register("bob", 1, ""))).remove(0);
    let nonce = param(&challenge, "nonce").to_owned();
    let other = nonce.replacen(|_: char| true, if nonce.starts_with('f') { "e" } else { "f" }, 1);
    let forged = authorized(2, &challenge.replace(&nonce, &other), "bob", "secret", Some(1));
    assert!(!challenges(&world.one(&phone(), &forged))[0].contains("stale"));
    world.run_until(302_000);
    let old = authorized(3, &challenge, "bob", "secret", Some(1));
    assert!(challenges(&world.one(&phone(), &old))[0].contains("stale=true"));
}

#[test]
fn colliding_nonces_are_not_accepted_twice() {
    let mut world = world(&[Algorithm::Sha256], 1);
    let mut challenge = |cseq: u32, at: u64| {
        world.run_until(at);
        challenges(&world.one(&phone(), &phone().register("bob", cseq, ""))).remove(0)
    };
    let (first, second) = (challenge(1, 1000), challenge(2, 2000));
    let text = authorized(3, &first, "bob", "secret", Some(1));
    assert_eq!(world.one(&phone(), &text).first_line(), "SIP/2.0 200 OK");
    let other = authorized(4, &second, "bob", "secret", Some(1));
    assert_eq!(world.one(&phone(), &other).first_line(), "SIP/2.0 200 OK");
    // The second nonce has replaced the first, whose used counts are lost, so the first is rejected.
    let replay = text.replace("sip:bob@192.0.2.1>", "sip:bob@192.0.2.66>");
    assert!(challenges(&world.one(&phone(), &replay))[0].contains("stale=true"));
    assert!(
        challenges(&world.one(&phone(), &authorized(5, &first, "bob", "secret", Some(2))))[0]
            .contains("stale=true")
    );
}

#[test]
fn wrong_password_user_and_realm_look_alike() {
    let mut world = world(&[Algorithm::Sha256, Algorithm::Md5], 16);
    let challenge = challenges(&world.one(&phone(), &phone().register("bob", 1, ""))).remove(0);
    for text in [
        authorized(2, &challenge, "bob", "wrong", Some(1)),
        authorized(3, &challenge, "nobody", "secret", Some(1)),
        authorized(4, &challenge, "bob", "secret", Some(1))
            .replace("realm=\"example.com\"", "realm=\"else\""),
        authorized(6, &challenge, "bob", "secret", Some(1)).replace("qop=auth", "qop=auth-int"),
        authorized(7, &challenge, "bob", "secret", Some(1)).replace("nc=00000001", "nc=1"),
        authorized(8, &challenge, "bob", "secret", Some(1))
            .replace("algorithm=SHA-256", "algorithm=SHA-512-256"),
    ] {
        let sent = world.one(&phone(), &text);
        assert!(!challenges(&sent)[0].contains("stale"), "{text}");
    }
    assert!(world.service.registrations().locations().is_empty());
    // Credentials are valid only for the user's own address.
    let eve = authorized(9, &challenge, "bob", "secret", Some(1))
        .replace("sip:bob@example.com", "sip:eve@example.com");
    assert_eq!(world.one(&phone(), &eve).first_line(), "SIP/2.0 403 Not Your Address");
}

#[test]
fn callers_are_challenged_outside_dialogs() {
    let mut world = world(&[Algorithm::Sha256], 16);
    let sent = world.one(&phone(), &phone().invite("bob", "1"));
    assert_eq!(sent.first_line(), "SIP/2.0 407 Proxy Authentication Required");
    assert!(sent.line("Proxy-Authenticate").is_some());
    let stranger =
        phone().invite("bob", "2").replace("From: <sip:alice@example.com>", "From: <sip:alice@example.net>");
    assert_eq!(world.one(&phone(), &stranger).first_line(), "SIP/2.0 480 Temporarily Unavailable");
    // The ACK of that response is not challenged.
    assert!(world.receive(&phone(), &phone().request("ACK", "sip:bob@example.com", "1", "")).is_empty());
}

#[test]
fn guessers_are_ignored_and_others_served() {
    let mut world = world(&[Algorithm::Md5], 100);
    let asked =
        challenges(&world.one(&phone(), &phone().register("bob", 1, "Contact: <sip:bob@192.0.2.1>\r\n")));
    for guess in 0..10 {
        let wrong = authorized(2 + guess, &asked[0], "bob", &format!("guess{guess}"), Some(1 + guess));
        assert_eq!(world.one(&phone(), &wrong).first_line(), "SIP/2.0 401 Unauthorized");
    }
    let right = authorized(20, &asked[0], "bob", "secret", Some(20));
    assert_eq!(world.one(&phone(), &right).first_line(), "SIP/2.0 403 Too Many Wrong Passwords");
    // Accepted from another address.
    let home = Phone::udp("192.0.2.9:5060");
    let asked_there = challenges(&world.one(&home, &home.register("bob", 20, "")));
    let right = authorized(21, &asked_there[0], "bob", "secret", Some(1));
    assert!(world.one(&home, &right).first_line().starts_with("SIP/2.0 200"));
    assert_eq!((world.service.access().guesses().wrong, world.service.access().guesses().refused), (10, 1));
    // After a wait, another attempt is allowed.
    world.run_until(31_000);
    let later = authorized(22, &asked[0], "bob", "secret", Some(21));
    assert!(world.one(&phone(), &later).first_line().starts_with("SIP/2.0 200"));
}

#[test]
fn credentials_of_an_earlier_run_are_stale() {
    let mut before = run(&[Algorithm::Sha256], 16, 1);
    before.run_until(100_000);
    let first = before.one(&phone(), &phone().register("bob", 1, "Contact: <sip:bob@192.0.2.1>\r\n"));
    let text = authorized(2, &challenges(&first)[0], "bob", "secret", Some(1));
    assert_eq!(before.one(&phone(), &text).first_line(), "SIP/2.0 200 OK");
    // An overheard request is replayed after a restart, with the same key and a clock that starts anew.
    let mut after = run(&[Algorithm::Sha256], 16, 2);
    let replay = after.one(&phone(), &text);
    assert!(challenges(&replay)[0].contains("stale=true"), "{}", replay.text);
    assert!(after.service.registrations().locations().is_empty());
}

#[test]
fn invented_to_tag_proves_nothing() {
    let mut world = world(&[Algorithm::Sha256], 16);
    let tagged = |text: String| text.replace("To: <sip:bob@example.com>", "To: <sip:bob@example.com>;tag=x");
    for (number, method) in ["INVITE", "NOTIFY", "MESSAGE", "BYE"].into_iter().enumerate() {
        let text = phone().request(method, "sip:bob@example.com", &number.to_string(), "");
        let sent = world.one(&phone(), &tagged(text));
        assert_eq!(sent.first_line(), "SIP/2.0 407 Proxy Authentication Required", "{method}");
    }
    // This server's Route without the token of a dialog makes no difference.
    let route = "Route: <sip:alice@198.51.100.1;lr>\r\n";
    let text = phone().request("INVITE", "sip:bob@example.com", "9", route);
    let sent = world.one(&phone(), &tagged(text));
    assert_eq!(sent.first_line(), "SIP/2.0 407 Proxy Authentication Required");
    // Anyone may check whether the server is alive.
    let options = phone().request("OPTIONS", "sip:example.com", "10", "");
    let options = options.replace("To: <sip:example.com>", "To: <sip:example.com>;tag=x");
    assert_eq!(world.one(&phone(), &options).first_line(), "SIP/2.0 200 OK");
}

#[test]
fn requests_in_own_dialogs_are_not_challenged() {
    let mut world = world(&[Algorithm::Sha256], 16);
    let caller = Phone::udp("192.0.2.7:5060");
    let alice = phone();
    let invite = caller.request("INVITE", "sip:alice@198.51.100.1", "1", "");
    let invite = invite.replace("From: <sip:alice@example.com>", "From: <sip:carol@example.net>");
    // Register alice without authentication.
    world.service.access_mut().set_authenticator(None);
    world.register(&alice, "alice");
    let sent = world.invite(&caller, &invite.replace("sip:alice@198.51.100.1", "sip:alice@example.com"));
    let users = Users::read(USERS).unwrap();
    let nonces = Nonces::new([9; 16], Duration::from_secs(300), 16);
    let source = Source::Users(users);
    let all = vec![Algorithm::Sha256];
    let realm = "example.com".to_owned();
    world
        .service
        .access_mut()
        .set_authenticator(Some(Authenticator::new(realm, all, source, nonces, [1; 16])));
    let ok = world.one(&alice, &crate::harness::response(&sent[0].text, 200, "callee"));
    let target = "sip:carol@192.0.2.7:5060";
    for method in ["BYE", "NOTIFY", "INVITE"] {
        let text = crate::harness::in_dialog(method, &ok.text, target, &alice, 2, false);
        let sent = world.receive(&alice, &text);
        let on = sent.iter().find(|one| one.flow == caller.0).expect(method);
        assert!(on.first_line().starts_with(method), "{}", on.text);
    }
}

#[test]
fn users_of_several_domains_have_one_file() {
    let text = "alice@Example.net:password:there\nalice:password:here\nbob@example.net:password:b\na@b@example.com:password:c\n";
    let users = Users::read(text).unwrap();
    assert_eq!(users.len(), 4);
    let mut domains: Vec<_> = users.domains().collect();
    domains.sort_unstable();
    assert_eq!(domains, [("example.com", 4), ("example.net", 1)]);
    let base = crate::harness::settings();
    let names = ["example.com", "example.net", "example.org"].map(str::to_owned).to_vec();
    let mut world = World::with(Settings { domains: names, ..base });
    let nonces = Nonces::new([9; 16], Duration::from_secs(300), 1 << 10);
    let realm = "example.com".to_owned();
    world.service.access_mut().set_authenticator(Some(Authenticator::new(
        realm,
        vec![Algorithm::Sha256],
        Source::Users(users),
        nonces,
        [1; 16],
    )));
    let mut cseq = 0;
    let mut status = |user: &str, named: &str, domain: &str, password: &str| {
        cseq += 2;
        let asked = challenges(&world.one(&phone(), &phone().register("bob", cseq, "")));
        let text = authorized(cseq + 1, &asked[0], user, password, Some(1));
        // The user's domain counts, not the domain of the request; the realm is common to all.
        let text = text.replace("<sip:bob@example.com>", &format!("<sip:{named}@{domain}>"));
        let text = text.replace("reg-bob", &format!("reg-{named}-{domain}"));
        world.one(&phone(), &text).first_line()["SIP/2.0 ".len()..][..3].to_owned()
    };
    // Alice has her own password in the domain for which she is listed, and the other one everywhere else.
    assert_eq!(status("alice", "alice", "example.net", "there"), "200");
    assert_eq!(status("alice", "alice", "Example.NET", "there"), "200");
    assert_eq!(status("alice", "alice", "example.net", "here"), "401");
    assert_eq!(status("alice", "alice", "example.com", "here"), "200");
    assert_eq!(status("alice", "alice", "example.org", "here"), "200");
    assert_eq!(status("alice", "alice", "example.com", "there"), "401");
    // A user listed for one domain doesn't exist in others, nor is `bob@example.net` a user name there.
    assert_eq!(status("bob", "bob", "example.net", "b"), "200");
    assert_eq!(status("bob", "bob", "example.com", "b"), "401");
    assert_eq!(status("bob@example.net", "bob%40example.net", "example.com", "b"), "401");
    // The last `@` separates the domain.
    assert_eq!(status("a@b", "a%40b", "example.com", "c"), "200");
}

#[test]
fn invalid_user_line_is_reported_by_number() {
    let wrong = |text: &str| Users::read(text).err().map(|error| error.to_string()).unwrap_or_default();
    assert_eq!(wrong("@example.com:password:x"), "line 1: expected user or user@domain");
    assert_eq!(wrong("#\nbob@:password:x"), "line 2: expected user or user@domain");
    let twice = "a@example.com:password:x\na:password:x\na@EXAMPLE.com:password:x\n";
    assert_eq!(wrong(twice), "line 3: the user is listed twice");
    let md5 = "11111111111111111111111111111111";
    let both = format!("a@example.com:MD5:{md5}\na:MD5:{md5}\na@example.com:MD5:{md5}\n");
    assert_eq!(wrong(&both), "line 3: the user has two secrets of this kind");
}

#[test]
fn digest_uri_may_be_spelled_differently() {
    let mut world = world(&[Algorithm::Sha256], 16);
    let mut cseq = 0;
    let mut status = |request: &str| {
        cseq += 2;
        let asked = challenges(&world.one(&phone(), &phone().register("bob", cseq, "")));
        let text = authorized(cseq + 1, &asked[0], "bob", "secret", Some(1));
        let text = text.replace("REGISTER sip:example.com ", &format!("REGISTER {request} "));
        world.one(&phone(), &text).first_line().to_owned()
    };
    for request in ["sip:EXAMPLE.COM", "sip:example.com:5060", "sip:example.com;transport=udp"] {
        assert_eq!(status(request), "SIP/2.0 200 OK", "{request}");
    }
    assert_eq!(status("sip:198.51.100.1"), "SIP/2.0 400 Digest URI Is Not The Request URI");
}

#[test]
fn a_username_may_have_the_domain() {
    let mut world = world(&[Algorithm::Sha256], 16);
    for (number, (username, line)) in [
        ("bob@example.com", "SIP/2.0 200 OK"),
        ("bob@EXAMPLE.com", "SIP/2.0 200 OK"),
        ("bob@", "SIP/2.0 200 OK"),
        ("bob@example.net", "SIP/2.0 401 Unauthorized"),
        ("alice@example.com", "SIP/2.0 401 Unauthorized"),
    ]
    .into_iter()
    .enumerate()
    {
        let cseq = 2 * number as u32 + 1;
        let asked = challenges(&world.one(&phone(), &phone().register("bob", cseq, "")));
        let text = authorized(cseq + 1, &asked[0], username, "secret", Some(1));
        assert_eq!(world.one(&phone(), &text).first_line(), line, "{username}");
    }
}

#[test]
fn domain_alias_may_be_an_address() {
    let mut base = crate::harness::settings();
    base.directory.domains.insert("198.51.100.1".to_owned(), "example.com".to_owned());
    base.domains.push("198.51.100.1".to_owned());
    let mut world = World::with(base);
    let text = phone().register("bob", 1, "Contact: <sip:bob@192.0.2.1>\r\n");
    world.one(&phone(), &text.replace("sip:bob@example.com", "sip:bob@198.51.100.1"));
    assert_eq!(world.service.registrations().locations().bindings(b"bob@example.com").len(), 1);
    let users = Users::read("bob@example.com:password:secret\n").unwrap();
    let nonces = Nonces::new([9; 16], Duration::from_secs(300), 16);
    let (realm, all) = ("example.com".to_owned(), vec![Algorithm::Sha256]);
    let authenticator = Authenticator::new(realm, all, Source::Users(users), nonces, [1; 16]);
    world.service.access_mut().set_authenticator(Some(authenticator));
    let asked = challenges(&world.one(&phone(), &phone().register("bob", 3, "")));
    let text = authorized(4, &asked[0], "bob", "secret", Some(1));
    let text = text.replace("<sip:bob@example.com>", "<sip:bob@198.51.100.1>");
    assert_eq!(world.one(&phone(), &text).first_line(), "SIP/2.0 200 OK");
}
