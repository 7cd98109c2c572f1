//! Tests of digest authentication (RFC 7616) in `strandline sip` with several processes, at whichever process a
//! phone arrives.

use std::io::{Read, Write};
use std::net::TcpStream;

use strandline_sip::auth::Algorithm;
use tungstenite::Message;

use crate::looked_after::World;
use crate::processes::{kill, metric, restarts, workers};
use crate::sip_server::again;
use crate::udp_phone::Phone;
use crate::waiting::{at_last, found_at_last};

const SHA: Algorithm = Algorithm::Sha256;

/// Starts a server of two processes with users u0 to u199, and returns their file.
fn world(test: &str, more: &str) -> (World, std::path::PathBuf) {
    let users = std::env::temp_dir().join(format!("strandline-digest-{test}-{}", std::process::id()));
    let all: String = (0..200).map(|user| format!("u{user}:password:secret\n")).collect();
    std::fs::write(&users, all).unwrap();
    let auth = format!(
        "{more}[auth]\nrealm = \"example.com\"\nalgorithms = [\"SHA-256\"]\nusers = \"{}\"\n",
        users.display()
    );
    (World::new(test, &auth), users)
}

/// Kills all processes one after the other, and waits for their replacements.
fn all_die(world: &World) {
    for place in 0..2 {
        let before = restarts(&world.server);
        kill(workers(&world.server)[place]);
        at_last("another has taken its place", || {
            restarts(&world.server) == before + 1 && metric(&world.server, "users").len() == 2
        });
    }
}

/// A phone's connection.
struct Connection {
    stream: TcpStream,
    cseq: u32,
}

impl Connection {
    fn open(world: &World) -> Self {
        Self { stream: crate::web_phone::tcp(world.server.address("tcp")), cseq: 0 }
    }

    /// Sends a REGISTER of u0 with these credentials and returns its response. Retries if the server is
    /// overloaded, because such a response contains no challenge.
    fn register(&mut self, credentials: &str) -> String {
        let answers = std::iter::repeat_with(|| self.try_register(credentials));
        answers.take(1000).find(|answer| !answer.starts_with("SIP/2.0 503")).unwrap()
    }

    fn try_register(&mut self, credentials: &str) -> String {
        self.cseq += 1;
        let (cseq, at) = (self.cseq, self.stream.local_addr().unwrap());
        let text = format!(
            "REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/TCP {at};branch=z9hG4bK{}-{cseq};rport\r\n\
             From: <sip:u0@example.com>;tag=1\r\nTo: <sip:u0@example.com>\r\nCall-ID: {at}\r\nCSeq: {cseq} REGISTER\r\n\
             Contact: <sip:u0@{at};transport=tcp>\r\n{credentials}Content-Length: 0\r\n\r\n",
            at.port()
        );
        self.stream.write_all(text.as_bytes()).unwrap();
        let (mut came, mut room) = (String::new(), [0; 4096]);
        while !came.contains("\r\n\r\n") {
            let len = again(|| self.stream.read(&mut room)).unwrap();
            assert!(len > 0, "closed after {came:?}");
            came.push_str(std::str::from_utf8(&room[..len]).unwrap());
        }
        came
    }

    /// Registers with a nonce, used for the `count`th time.
    fn prove(&mut self, nonce: &str, count: u32) -> String {
        self.register(&crate::credentials::line("u0", "secret", SHA, nonce, count))
    }

    /// Returns the nonce of a challenge to a REGISTER without credentials.
    fn nonce(&mut self) -> String {
        let challenge = self.register("");
        assert!(challenge.starts_with("SIP/2.0 401") && !challenge.contains("stale=true"), "{challenge}");
        crate::credentials::nonce(&challenge, SHA)
    }
}

/// Returns a connection to each process, with a nonce of each. The part of a nonce that identifies its
/// process's run tells them apart.
fn to_both(world: &World) -> [(Connection, String); 2] {
    let run = |nonce: &str| nonce.split('.').nth(2).unwrap().to_owned();
    let open = || {
        let mut connection = Connection::open(world);
        let nonce = connection.nonce();
        (connection, nonce)
    };
    let first = open();
    let other = found_at_last("a connection to the other process", || {
        let next = open();
        if run(&next.1) == run(&first.1) { Err(next.1) } else { Ok(next) }
    });
    [first, other]
}

/// Returns whether the response has a new nonce with stale=true: the password was right, but the nonce isn't
/// valid here.
fn is_stale(answer: &str) -> bool {
    answer.starts_with("SIP/2.0 401") && answer.contains(", stale=true")
}

#[test]
fn nonce_counts_at_its_process_and_replays_nowhere() {
    let (world, users) = world("replays", "");
    let [(mut here, nonce), (mut there, _)] = to_both(&world);
    // At the other process the nonce is stale, and the new nonce is valid there.
    let answer = there.prove(&nonce, 1);
    assert!(is_stale(&answer), "{answer}");
    let other = crate::credentials::nonce(&answer, SHA);
    assert_ne!(nonce, other);
    assert!(there.prove(&other, 1).starts_with("SIP/2.0 200"));
    // That doesn't use up the first nonce.
    assert!(here.prove(&nonce, 1).starts_with("SIP/2.0 200"));
    // A used nonce count is refused by all processes, also over another connection, and the next count is
    // accepted.
    for (nonce, count) in [(&nonce, 1), (&other, 1)] {
        for connection in
            [&mut here, &mut there, &mut Connection::open(&world), &mut Connection::open(&world)]
        {
            let answer = connection.prove(nonce, count);
            assert!(is_stale(&answer), "{answer}");
        }
    }
    assert!(here.prove(&nonce, 2).starts_with("SIP/2.0 200"));
    assert!(there.prove(&other, 3).starts_with("SIP/2.0 200"));
    assert!(there.prove(&other, 2).starts_with("SIP/2.0 200"));
    // Wrong passwords and invented nonces are neither stale nor accepted, at any process.
    for connection in [&mut here, &mut there] {
        let wrong = connection.register(&crate::credentials::line("u0", "wrong", SHA, &nonce, 9));
        assert!(wrong.starts_with("SIP/2.0 401") && !wrong.contains("stale=true"), "{wrong}");
        let seal = nonce.split('.').nth(3).unwrap();
        let made_up = nonce.replace(seal, "0123456789abcdef");
        let wrong = connection.prove(&made_up, 1);
        assert!(wrong.starts_with("SIP/2.0 401") && !wrong.contains("stale=true"), "{wrong}");
    }
    // New processes don't know the used counts: earlier nonces are invalid there.
    all_die(&world);
    for (mut connection, fresh) in to_both(&world) {
        for (nonce, count) in [(&nonce, 1), (&nonce, 5), (&other, 5)] {
            assert!(is_stale(&connection.prove(nonce, count)), "{count}");
        }
        assert!(connection.prove(&fresh, 1).starts_with("SIP/2.0 200"));
    }
    std::fs::remove_file(users).unwrap();
}

#[test]
fn phones_authenticate_at_all_processes() {
    for what in [
        "register --transport udp --sources 20",
        "register --transport tcp --sources 20",
        "call --transport udp --sources 20",
        "call --transport tcp --sources 20",
    ] {
        // A new server for each: contacts of an earlier load would ring as well.
        let (world, users) = world(&format!("load{}", what.len()), "");
        let protocol = if what.contains("udp") { "udp" } else { "tcp" };
        let arguments = format!("{what} --users 100 --outstanding 8 --password secret");
        let to = world.server.address(protocol).to_string();
        // The few phones that register in so short a time on a busy host may all come to one process.
        at_last("phones register at both processes", || {
            let report = crate::sip_generator::succeeded(&to, &arguments);
            let count = |name: &str| report[name].as_u64().unwrap();
            assert!(count("succeeded") > 0 && count("challenged") > 0, "{what}: {report}");
            metric(&world.server, "registered_total").iter().all(|count| *count > 0.0)
        });
        std::fs::remove_file(users).unwrap();
    }
}

#[test]
fn sipp_proves_who_it_is_at_all_processes() {
    let (world, users) = world("sipp", "");
    let text = std::fs::read_to_string(world.folder.join("sip.toml")).unwrap();
    World::write_all(&world.folder, &text.replace("\"SHA-256\"", "\"MD5\""));
    assert_eq!(world.told("reload")["changed"][0], "auth");
    let table = world.folder.join("users.csv");
    let line = |user| format!("u{user};[authentication username=u{user} password=secret]\n");
    let lines: String = (0..200).map(line).collect();
    std::fs::write(&table, format!("SEQUENTIAL\n{lines}")).unwrap();
    // A socket for each call, so that both processes receive some.
    for (protocol, transport) in [("udp", "un"), ("tcp", "tn")] {
        let before = metric(&world.server, "registered_total");
        let more = [
            "-inf",
            table.to_str().unwrap(),
            "-m",
            "200",
            "-r",
            "200",
            "-l",
            "50",
            "-max_socket",
            "1000",
            "-auth_uri",
            "example.com",
        ];
        let child = crate::sipp::start(&world.server, protocol, transport, "register_auth", &more);
        crate::sipp::succeed(child, protocol);
        let after = metric(&world.server, "registered_total");
        assert!(before.iter().zip(&after).all(|(before, after)| before < after), "{protocol}: {after:?}");
        assert_eq!(after.iter().sum::<f64>() - before.iter().sum::<f64>(), 200.0, "{protocol}");
    }
    std::fs::remove_file(users).unwrap();
}

#[test]
fn phones_in_browsers_prove_who_they_are() {
    let (world, users) = world("ws", "[[listen]]\nprotocol = \"ws\"\naddress = \"127.0.0.1:0\"\n");
    let mut count = 0;
    at_last("both processes have registered some", || {
        let mut phone = crate::web_phone::connect(&world.server);
        let user = format!("u{count}");
        count += 1;
        let plain = crate::web_phone::register(&user);
        phone.send(Message::text(plain.clone())).unwrap();
        let challenge = crate::web_phone::next(&mut phone);
        if challenge.starts_with("SIP/2.0 503") {
            return false;
        }
        assert!(challenge.starts_with("SIP/2.0 401"), "{challenge}");
        let line =
            crate::credentials::line(&user, "secret", SHA, &crate::credentials::nonce(&challenge, SHA), 1);
        let proving = plain.replace("CSeq: 1", "CSeq: 2").replace("branch=z9hG4bK", "branch=z9hG4bK2");
        let proving = proving.replace("Contact: ", &format!("{line}Contact: "));
        phone.send(Message::text(proving)).unwrap();
        let answer = crate::web_phone::next(&mut phone);
        assert!(answer.starts_with("SIP/2.0 200"), "{answer}");
        metric(&world.server, "registered_total").iter().all(|count| *count > 0.0)
    });
    std::fs::remove_file(users).unwrap();
}

#[test]
fn referenced_files_are_those_accepted() {
    let (world, users) = world("files", "");
    let mut count = 0;
    let mut register = |password: &str| {
        let mut phone = Phone::new();
        // The number of contacts of a user is limited.
        count += 1;
        let user = format!("u{}", count % 200);
        let mut ask = |headers: &str| {
            let answers = std::iter::repeat_with(|| phone.ask(&world.server, &user, headers));
            answers.take(1000).find(|answer| !answer.starts_with("SIP/2.0 503")).unwrap()
        };
        let challenge = ask("");
        let line =
            crate::credentials::line(&user, password, SHA, &crate::credentials::nonce(&challenge, SHA), 1);
        ask(&line).lines().next().unwrap().to_owned()
    };
    let all = |password: &str| -> String {
        (0..200).map(|user| format!("u{user}:password:{password}\n")).collect()
    };
    assert_eq!(register("secret"), "SIP/2.0 200 OK");
    // An incomplete file, another password, and an empty file.
    for text in ["u0:pass".to_owned(), all("another"), String::new()] {
        std::fs::write(&users, &text).unwrap();
        all_die(&world);
        for _ in 0..6 {
            assert_eq!(register("secret"), "SIP/2.0 200 OK", "{text:?}");
            assert!(register("another").starts_with("SIP/2.0 401"), "{text:?}");
        }
    }
    std::fs::write(&users, all("another")).unwrap();
    world.told("reload");
    std::fs::remove_file(&users).unwrap();
    all_die(&world);
    for _ in 0..6 {
        assert_eq!(register("another"), "SIP/2.0 200 OK");
        assert!(register("secret").starts_with("SIP/2.0 401"));
    }
    assert!(!world.admin("reload").status.success());
}
