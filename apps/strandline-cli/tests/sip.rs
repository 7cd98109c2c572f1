//! End-to-end tests of `strandline sip` over UDP, TCP and SCTP, including crashes and invalid input.

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::process::Command;
use std::time::Duration;

use strandline::{Endpoint, SendInfo, Stack};

use crate::checked::check;
use crate::sip_server::{Server, again};

const READ_TIMEOUT: Duration = Duration::from_secs(20);

fn register(transport: &str, user: &str, cseq: u32, contact: &str) -> String {
    format!(
        "REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/{transport} 127.0.0.1:5060;branch=z9hG4bK{user}{cseq};rport\r\n\
         From: <sip:{user}@example.com>;tag=1\r\nTo: <sip:{user}@example.com>\r\nCall-ID: {user}\r\n\
         CSeq: {cseq} REGISTER\r\n{contact}Content-Length: 0\r\n\r\n"
    )
}

fn contact(user: &str) -> String {
    format!("Contact: <sip:{user}@127.0.0.1:5060>\r\n")
}

fn ask_udp(server: &Server, text: &str) -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
    socket.send_to(text.as_bytes(), server.address("udp")).unwrap();
    let mut room = [0; 65_536];
    let len = again(|| socket.recv(&mut room)).unwrap();
    String::from_utf8(room[..len].to_vec()).unwrap()
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.address("tcp")).unwrap();
    stream.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
    stream
}

/// Reads until this many messages without a body have arrived.
fn read_messages(stream: &mut TcpStream, count: usize) -> String {
    let (mut text, mut room) = (String::new(), [0; 4096]);
    while text.matches("\r\n\r\n").count() < count {
        let len = again(|| stream.read(&mut room)).unwrap();
        assert!(len > 0, "closed after {text}");
        text.push_str(std::str::from_utf8(&room[..len]).unwrap());
    }
    text
}

#[test]
fn phones_register_over_udp_and_tcp() {
    let server = Server::start(&[]);
    let ok = ask_udp(&server, &register("UDP", "bob", 1, &contact("bob")));
    assert!(ok.starts_with("SIP/2.0 200 OK\r\n"), "{ok}");
    let mut stream = connect(&server);
    // Several messages at once, preceded by a ping (RFC 5626 section 4.4.1).
    let two =
        format!("\r\n\r\n{}{}", register("TCP", "eve", 1, &contact("eve")), register("TCP", "bob", 2, ""));
    stream.write_all(two.as_bytes()).unwrap();
    let answers = read_messages(&mut stream, 2);
    assert!(answers.starts_with("\r\nSIP/2.0 200 OK"), "{answers}");
    assert!(answers.contains("Contact: <sip:eve@127.0.0.1:5060>;expires=3600"), "{answers}");
    assert!(answers.contains("Contact: <sip:bob@127.0.0.1:5060>;expires="), "{answers}");
}

const STYLES: [&str; 2] = ["one-to-many", "one-to-one"];

fn message(to: &str) -> String {
    format!(
        "MESSAGE sip:{to} SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1;branch=z9hG4bKm;rport\r\n\
         From: <sip:a@example.com>;tag=1\r\nTo: <sip:{to}>\r\nCall-ID: m\r\nCSeq: 1 MESSAGE\r\n\
         Content-Length: 2\r\n\r\nhi"
    )
}

#[tokio::test]
async fn phone_registers_and_is_called_over_sctp() {
    for style in STYLES {
        let server = Server::start(&["--listen", "sctp:127.0.0.1:0", "--sctp-style", style]);
        let carrier = server.carrier();
        let stack =
            Stack::builder().remote_encapsulation_port(carrier).udp("127.0.0.1:0".parse().unwrap()).unwrap();
        let phone = Endpoint::bind(&stack, 0).unwrap();
        let peer = strandline::Peer::new([127, 0, 0, 1], 5060);
        let contact = "Contact: <sip:bob@127.0.0.1:5060;transport=sctp>;+sip.instance=\"<urn:x>\";reg-id=1\r\n\
                       Supported: outbound, path\r\n";
        let text = register("SCTP", "bob", 1, contact);
        phone.send_to_peer(&peer, text.into(), SendInfo::default()).await.unwrap();
        let (id, ok) = tokio::time::timeout(READ_TIMEOUT, phone.recv_from()).await.unwrap().unwrap();
        assert!(ok.data.starts_with(b"SIP/2.0 200 OK"), "{style}: {ok:?}");
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
        let text = message("bob@example.com");
        socket.send_to(text.as_bytes(), server.address("udp")).unwrap();
        let (_, came) = tokio::time::timeout(READ_TIMEOUT, phone.recv_from()).await.unwrap().unwrap();
        let begin = b"MESSAGE sip:bob@127.0.0.1:5060;transport=sctp SIP/2.0\r\nVia: SIP/2.0/SCTP";
        assert!(came.data.starts_with(begin), "{style}: {came:?}");
        assert!(came.data.ends_with(b"\r\n\r\nhi"));
        // The flow ends, and its binding with it. An INVITE is answered in any case.
        let association = phone.peel_off(id).unwrap();
        association.shutdown().await;
        let gone = |attempt| {
            let text = text.replace("z9hG4bKm", &format!("z9hG4bK{attempt}")).replace("MESSAGE", "INVITE");
            socket.send_to(text.as_bytes(), server.address("udp")).unwrap();
            loop {
                let mut room = [0; 2000];
                let len = again(|| socket.recv(&mut room)).unwrap();
                match &room[..len.min(9)] {
                    b"SIP/2.0 1" => {}
                    code => return code == b"SIP/2.0 4",
                }
            }
        };
        assert!((0..1000).any(gone), "{style}");
    }
}

#[tokio::test]
async fn server_opens_an_association_itself() {
    for (style, address) in STYLES.into_iter().zip(["127.0.0.77", "127.0.0.78"]) {
        let server = Server::start(&["--listen", "sctp:127.0.0.1:0", "--sctp-style", style, "--open-relay"]);
        let stack = Stack::builder().udp(format!("{address}:9899").parse().unwrap()).unwrap();
        let phone = Endpoint::bind(&stack, 5070).unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let text = message(&format!("bob@{address}:5070;transport=sctp"));
        for branch in ["z9hG4bK1", "z9hG4bK2"] {
            let text = text.replace("z9hG4bKm", branch);
            socket.send_to(text.as_bytes(), server.address("udp")).unwrap();
            let (_, came) = tokio::time::timeout(READ_TIMEOUT, phone.recv_from()).await.unwrap().unwrap();
            assert!(came.data.starts_with(b"MESSAGE sip:bob@127.0.0.7"), "{style}: {came:?}");
        }
        assert_eq!(phone.associations().len(), 1, "{style}");
    }
}

#[test]
fn what_was_acknowledged_survives_kill_9() {
    let folder = std::env::temp_dir().join(format!("strandline-sip-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("bindings.db");
    let store = ["--store", file.to_str().unwrap()];
    let mut server = Server::start(&store);
    let mut stream = connect(&server);
    let (mut asked, mut acknowledged) = (0, 0);
    while acknowledged < 500 {
        let text: String =
            (asked..asked + 50).map(|user| register("TCP", &format!("u{user}"), 1, &contact("u"))).collect();
        asked += 50;
        stream.write_all(text.as_bytes()).unwrap();
        acknowledged += read_messages(&mut stream, 50).matches("SIP/2.0 200 OK").count();
    }
    // More requests are in flight when the server is killed.
    let text: String = (0..50).map(|user| register("TCP", &format!("v{user}"), 1, &contact("v"))).collect();
    stream.write_all(text.as_bytes()).unwrap();
    server.kill();
    let server = Server::start(&store);
    assert!(server.users() >= 500, "{} users", server.users());
    for user in 0..500 {
        let answer = ask_udp(&server, &register("UDP", &format!("u{user}"), 2, ""));
        assert!(answer.contains("Contact: <sip:u@127.0.0.1:5060>"), "user {user}: {answer}");
    }
    drop(server);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn half_messages_keep_nobody_else_waiting() {
    let server = Server::start(&[]);
    let half = register("TCP", "slow", 1, &contact("slow"));
    let mut halves: Vec<TcpStream> = (0..200)
        .map(|at| {
            let mut stream = connect(&server);
            stream.write_all(&half.as_bytes()[..20 + at]).unwrap();
            stream
        })
        .collect();
    let ok = ask_udp(&server, &register("UDP", "bob", 1, &contact("bob")));
    assert!(ok.starts_with("SIP/2.0 200 OK"), "{ok}");
    // A client that eventually sends the rest is served, even byte by byte.
    let (stream, at) = (&mut halves[150], 20 + 150);
    for byte in &half.as_bytes()[at..] {
        stream.write_all(&[*byte]).unwrap();
    }
    assert!(read_messages(stream, 1).starts_with("SIP/2.0 200 OK"));
}

#[test]
fn unparsable_stream_is_answered_and_closed() {
    let server = Server::start(&[]);
    let register = register("TCP", "bob", 1, &contact("bob"));
    let huge = register.replace("Contact", &format!("X: {}\r\nContact", "y".repeat(100_000)));
    for (text, answer) in [
        (register.replace("Content-Length: 0\r\n", ""), "SIP/2.0 400 Missing header"),
        (register.replace("Content-Length: 0", "Content-Length: 999999"), "SIP/2.0 513"),
        (huge, ""),
        ("\u{1}\u{2}\u{3}\r\n\r\n".to_owned(), ""),
    ] {
        let mut stream = connect(&server);
        stream.write_all(text.as_bytes()).unwrap();
        let mut got = Vec::new();
        // The connection may be reset, because the server did not read everything.
        let _ = stream.read_to_end(&mut got);
        let got = String::from_utf8(got).unwrap();
        assert!(got.starts_with(answer), "{got}");
    }
    let ok = ask_udp(&server, &register.replace("/TCP", "/UDP"));
    assert!(ok.starts_with("SIP/2.0 200 OK"), "{ok}");
}

#[test]
fn front_end_answers_200_except_to_ack() {
    let server = Server::start(&["--front-end"]);
    let register = register("UDP", "bob", 1, "");
    for method in ["REGISTER", "INVITE", "BYE", "MESSAGE"] {
        let answer = ask_udp(&server, &register.replace("REGISTER", method));
        assert!(
            answer.starts_with("SIP/2.0 200 OK") && answer.contains(&format!("CSeq: 1 {method}")),
            "{answer}"
        );
    }
}

#[test]
fn source_limits_apply_and_show_in_metrics() {
    let folder = std::env::temp_dir().join(format!("strandline-sip-limits-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("sip.toml");
    std::fs::write(&file, "[overload]\nsource_connections_max = 2\nsource_messages_per_sec_max = 1\n")
        .unwrap();
    let server = Server::start(&["--metrics", "127.0.0.1:0", "--config", file.to_str().unwrap()]);
    let ends = |mut stream: TcpStream| stream.read(&mut [0]).map_or(true, |len| len == 0);
    let (first, second) = (connect(&server), connect(&server));
    assert!(ends(connect(&server)));
    // A burst of two messages is admitted at a rate of one a second.
    for cseq in 1..3 {
        assert!(ask_udp(&server, &register("UDP", "bob", cseq, "")).starts_with("SIP/2.0 200"));
    }
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    (3..50).for_each(|cseq| {
        socket.send_to(register("UDP", "bob", cseq, "").as_bytes(), server.address("udp")).unwrap();
    });
    let sample = |page: &str, name: &str| -> f64 {
        page.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok()).unwrap()
    };
    let page = std::iter::repeat_with(|| server.metrics("/metrics"))
        .take(10_000)
        .find(|page| sample(page, "strandline_sip_dropped_total{reason=\"source\"}") > 0.0)
        .unwrap();
    assert!(page.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"), "{page}");
    assert!(sample(&page, "strandline_sip_requests_total") >= 2.0, "{page}");
    assert_eq!(sample(&page, "strandline_sip_connections"), 2.0, "{page}");
    assert!(page.contains(
        "# TYPE strandline_sip_received_total counter\nstrandline_sip_received_total{urgency=\"begun\"} 0\n"
    ));
    drop((first, second));
    // A connection is accepted again.
    assert!((0..10_000).any(|_| {
        let stream = connect(&server);
        stream.set_nonblocking(true).unwrap();
        let page = server.metrics("/metrics");
        !ends_at_once(&stream) && sample(&page, "strandline_sip_connections") >= 1.0
    }));
    std::fs::remove_dir_all(folder).unwrap();
}

fn ends_at_once(stream: &TcpStream) -> bool {
    matches!((&*stream).read(&mut [0]), Ok(0))
}

#[test]
fn sigterm_ends_it_gracefully() {
    let mut server = Server::start(&[]);
    assert!(ask_udp(&server, &register("UDP", "bob", 1, "")).starts_with("SIP/2.0 200"));
    assert!(server.terminate().success());
}

#[test]
fn configuration_check_names_what_is_wrong() {
    let right = "domains = [\"example.com\"]\n[[listen]]\nprotocol = \"udp\"\naddress = \"0.0.0.0:5060\"\n\
                 advertise = \"sip.example.com\"\n[store]\nkind = \"sqlite\"\npath = \"/tmp/a.db\"\n[relay]\n\
                 from = [\"192.0.2.0/24\"]\n";
    assert_eq!(check(right), (true, String::new()));
    for (text, error) in [
        (right.replace("domains", "domain"), "line 1, column 1"),
        (
            right.replace("\"udp\"", "\"tls1\""),
            "listen[0].protocol: unknown protocol \"tls1\": use \"udp\", \"tcp\", \"sctp\", \"tls\", \"ws\" or \"wss\"",
        ),
        (
            right.replace("advertise = \"sip.example.com\"", ""),
            "listen[0].advertise: required with address 0.0.0.0:5060",
        ),
        (right.replace("path = \"/tmp/a.db\"", ""), "store.path: required with kind = \"sqlite\""),
        (right.replace("0/24", "0/33"), "relay.from: expected a network such as 192.0.2.0/24 or"),
        (
            format!("{right}[overload]\nwait_ms_max = 900\n"),
            "overload.wait_ms_max: 900 is not between 10 and 250",
        ),
        (
            format!("{right}[overload]\nsource_messages_per_sec_max = 0\n"),
            "overload.source_messages_per_sec_max: 0 is not between 1 and 1000000",
        ),
        (format!("{right}[timers]\nt1_ms = 1\n"), "timers.t1_ms: 1 is not between 10 and 10000"),
        (format!("{right}[timers]\nfailover_ms = 1\n"), "timers.failover_ms: 1 is not between 500 and 32000"),
        (
            format!("{right}[access]\ndeny = [\"x\"]\n"),
            "access.deny: expected a network such as 192.0.2.0/24",
        ),
        (
            format!("{right}[auth]\nrealm = \"a\"\nusers = \"/nowhere/users\"\n"),
            "auth.users: /nowhere/users: No such file",
        ),
        (
            format!("{right}[tls]\ncertificate = \"/dev/null\"\nkey = \"/dev/null\"\n"),
            "tls.certificate: /dev/null: the file contains no PEM private key",
        ),
        (
            format!("{right}[aliases]\ndomains = {{ \"example.net\" = \"example.org\" }}\n"),
            "aliases.domains.\"example.net\": \"example.net\" = \"example.org\": the first must not be one of `domains`",
        ),
        (
            format!("{right}[aliases]\nusers = {{ \"a@example.com\" = [\"b@elsewhere.example\"] }}\n"),
            "elsewhere.example is not one of `domains`; for another domain write \"sip:b@elsewhere.example\"",
        ),
        (
            format!("{right}[aliases]\nusers = {{ \"a@example.com\" = [\"a@example.com\"] }}\n"),
            "aliases.users.\"a@example.com\": \"a@example.com\" is an alias of itself",
        ),
        (
            format!("{right}[registrar]\nexpires_min_secs = 7200\n"),
            "registrar.expires_min_secs: must be at most 3600",
        ),
        (format!("{right}[limits]\nusers_max = 0\n"), "limits.users_max: 0 is less than the minimum of 1"),
        (
            format!("{right}[limits]\nmessage_body_bytes_max = 10\n"),
            "limits.message_body_bytes_max: 10 is less than the minimum of 1024",
        ),
        (
            format!("{right}[auth]\nrealm = \"a\"\nusers = \"/dev/null\"\nnonce_lifetime_secs = 0\n"),
            "auth.nonce_lifetime_secs: 0 is not between 10 and 86400",
        ),
        (format!("{right}[server]\nprocesses = 2.5\n"), "`processes` must be a whole number or \"auto\""),
    ] {
        let (success, stderr) = check(&text);
        assert!(!success && stderr.contains(error), "{stderr} lacks {error}");
    }
}

#[test]
fn unopenable_file_error_has_a_hint() {
    let folder = std::env::temp_dir().join(format!("strandline-sip-open-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("sip.db");
    let server = Server::start(&["--store", file.to_str().unwrap()]);
    let start = |arguments: &[&str]| {
        let listen = ["sip", "--listen", "udp:127.0.0.1:0"];
        let output = Command::new(crate::sip_server::PROGRAM).args(listen).args(arguments).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    for processes in ["1", "2"] {
        let told = start(&["--store", file.to_str().unwrap(), "--processes", processes]);
        assert!(told.contains("database is locked: another server or program has it open"), "{told}");
    }
    drop(server);
    let told = start(&["--store", folder.join("none/sip.db").to_str().unwrap()]);
    assert!(told.contains("does the directory of store.path or --store exist"), "{told}");
    let told = start(&["--config", "/nowhere/sip.toml"]);
    assert!(told.contains("--config: /nowhere/sip.toml: No such file"), "{told}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn users_of_domains_that_are_none_are_told() {
    let folder = std::env::temp_dir().join(format!("strandline-sip-domains-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("users");
    let config = format!(
        "domains = [\"example.com\"]\n[[listen]]\nprotocol = \"udp\"\naddress = \"127.0.0.1:0\"\n\
         advertise = \"sip.example.com\"\n[aliases]\ndomains = {{ \"example.net\" = \"example.com\" }}\n\
         [auth]\nrealm = \"a\"\nusers = \"{}\"\n",
        file.display()
    );
    for (users, says) in [
        ("a:password:x\na@Example.com:password:x\nb@sip.example.com:password:x\n", ""),
        ("# all\na@example.org:password:x\n", "auth.users: line 2: example.org is not one of `domains`"),
        ("a@example.net:password:x\n", "auth.users: line 1: example.net is an alias: use example.com"),
    ] {
        std::fs::write(&file, users).unwrap();
        crate::checked::says(&config, says);
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn route_errors_name_what_is_wrong() {
    let right = "domains = [\"example.com\"]\n[[listen]]\nprotocol = \"udp\"\naddress = \"127.0.0.1:5060\"\n";
    for (text, error) in [
        (
            format!("{right}[[route]]\nto = [\"sip:192.0.2.1\"]\n"),
            "route[0]: a route requires a prefix, such as \"+44\", or a domain",
        ),
        (
            format!("{right}[[route]]\nprefix = \"+\"\nto = [{{ uri = \"sip:192.0.2.1\", prioriti = 1 }}]\n"),
            "each entry of `to` must be a SIP URI, or a table with `uri` and `priority`",
        ),
        (
            format!("{right}[[route]]\nprefix = \"+\"\nto = [\"tel:+1\"]\n"),
            "route[0].to: expected a URI such as \"sip:trunk.example.net\" or \"sip:192.0.2.1:5060;transport=tcp\", not \"tel:+1\"",
        ),
        (
            format!(
                "{right}[[route]]\nprefix = \"+\"\nto = [\"sip:192.0.2.1\"]\n[[route]]\nprefix = \"0\"\nto = [\"192.0.2.1\"]\n"
            ),
            "route[1].to: expected a URI such as",
        ),
        (format!("{right}[overload]\ngather_ms = 50\n"), "overload.gather_ms: 50 is not between 0 and 20"),
        (
            format!("{right}[[route]]\ndomain = \"example.com\"\nto = [\"sip:192.0.2.1\"]\n"),
            "route[0].domain: \"example.com\" is one of `domains`",
        ),
        (
            format!("{right}[[route]]\nprefix = \"+\"\nto = [\"sip:192.0.2.1;transport=tcp\"]\n"),
            "route[0].to: \"sip:192.0.2.1;transport=tcp\" uses tcp, but nothing listens for tcp: add a [[listen]]",
        ),
        (
            format!("{right}[[route]]\nprefix = \"+\"\nto = [\"sip:trunk.example;transport=dccp\"]\n"),
            "route[0].to: \"sip:trunk.example;transport=dccp\" has an unknown transport: use udp, tcp, tls or sctp",
        ),
        (
            format!("{right}[[route]]\nprefix = \"+\"\nto = [\"sip:trunk.example;transport=wss\"]\n"),
            "WebSocket reaches only phones that have connected",
        ),
        (
            format!("{right}[aliases]\nusers = {{ \"a@example.com\" = [\"sips:b@elsewhere.example\"] }}\n"),
            "aliases.users.\"a@example.com\": \"sips:b@elsewhere.example\" uses tls, but nothing listens for tls",
        ),
        (
            format!("{right}[[route]]\nprefix = \"+\"\nregistrar = true\nto = [\"sip:192.0.2.1\"]\n"),
            "route[0].registrar: a registrar requires a domain and no prefix",
        ),
    ] {
        let (success, stderr) = check(&text);
        assert!(!success && stderr.contains(error), "{stderr} lacks {error}");
    }
    let route = "[[route]]\ndomain = \"partner.example\"\nto = [\"sip:partner.example\"]\nregistrar = true\n";
    assert_eq!(check(&format!("{right}{route}")), (true, String::new()));
}

#[test]
fn sctp_carriers_serve_only_sctp_on_one_port() {
    for (entry, error) in [
        ("protocol = \"tcp\"\ncarrier = \"ip\"\n", "listen[0].carrier: requires protocol = \"sctp\""),
        (
            "protocol = \"sctp\"\ncarrier = \"ip\"\nsctp_port = 5\n",
            "listen[0].sctp_port: requires carrier = \"udp\"",
        ),
        ("protocol = \"sctp\"\ncarrier = \"tcp\"\n", "unknown variant `tcp`"),
    ] {
        let text = format!("domains = [\"example.com\"]\n[[listen]]\naddress = \"127.0.0.1:5060\"\n{entry}");
        let (success, stderr) = check(&text);
        assert!(!success && stderr.contains(error), "{stderr} lacks {error}");
    }
}

#[test]
fn sctp_has_one_listener_for_each_carrier() {
    let entry =
        |more: &str| format!("[[listen]]\nprotocol = \"sctp\"\naddress = \"127.0.0.1:5060\"\n{more}\n");
    let (udp, ip) = (entry(""), entry("carrier = \"ip\""));
    assert_eq!(check(&format!("{udp}{ip}")), (true, String::new()));
    for (second, error) in [
        (entry(""), "two entries for sctp over UDP: at most one over UDP and one over IP are allowed"),
        (entry("sctp_port = 5062"), "two entries for sctp over UDP"),
        (
            entry("carrier = \"ip\"").replace("5060", "5070"),
            "must have the same SCTP port, not 5060 and 5070",
        ),
        (entry("carrier = \"ip\"\nadvertise = \"sip.example.com\""), "not 127.0.0.1 and sip.example.com"),
        (format!("{ip}{udp}"), "3 entries for sctp"),
    ] {
        let (success, stderr) = check(&format!("{udp}{second}"));
        assert!(!success && stderr.contains(error), "{stderr} lacks {error}");
    }
}

#[test]
fn a_service_route_is_told_to_who_registers() {
    let route = "[registrar]\nservice_route = [\"sip:edge.example.com;lr\", \"<sip:192.0.2.1:5070;transport=tcp;lr>\"]\n";
    let file = std::env::temp_dir().join(format!("strandline-sip-service-route-{}.toml", std::process::id()));
    std::fs::write(&file, route).unwrap();
    let server = Server::start(&["--config", file.to_str().unwrap()]);
    std::fs::remove_file(&file).unwrap();
    let ok = ask_udp(&server, &register("UDP", "bob", 1, &contact("bob")));
    let told = "Service-Route: <sip:edge.example.com;lr>, <sip:192.0.2.1:5070;transport=tcp;lr>\r\n";
    assert!(ok.contains(told), "{ok}");
    for (uri, error) in [
        ("sip:edge.example.com", "registrar.service_route: \"sip:edge.example.com\" lacks the parameter ;lr"),
        ("tel:+441", "expected a SIP URI such as sip:192.0.2.1;lr, not"),
        ("sip:edge.example.com;lr?subject=x", "has headers, which are not allowed in a route"),
        ("sip:edge example.com;lr", "expected a SIP URI"),
    ] {
        let (success, stderr) = check(&format!("[registrar]\nservice_route = [\"{uri}\"]\n"));
        assert!(!success && stderr.contains(error), "{stderr} lacks {error}");
    }
}

/// A check tries what a start would do, and reports everything that would fail.
#[test]
fn configuration_check_tries_ports_and_store() {
    // No socket that asks for any port is given this one.
    let port = 1;
    let (success, stderr) = check(&format!(
        "domains = [\"example.com\"]\n[[listen]]\nprotocol = \"tcp\"\naddress = \"127.0.0.1:{port}\"\n\
         [metrics]\naddress = \"127.0.0.1:{port}\"\n[store]\nkind = \"sqlite\"\npath = \"/nowhere/sip.db\"\n"
    ));
    let conflict = format!("tcp on 127.0.0.1:{port} and metrics on 127.0.0.1:{port} conflict");
    assert!(!success, "{stderr}");
    for error in [conflict.as_str(), "store.path: directory /nowhere: No such file"] {
        assert!(stderr.contains(error), "{stderr} lacks {error}");
    }
}

#[test]
fn aliases_work_for_domains_on_the_command_line() {
    let file = std::env::temp_dir().join(format!("strandline-sip-aliases-{}.toml", std::process::id()));
    std::fs::write(&file, "[aliases]\ndomains = { \"example.net\" = \"example.com\" }\n").unwrap();
    let server = Server::start(&["--config", file.to_str().unwrap()]);
    std::fs::remove_file(&file).unwrap();
    let text = register("UDP", "bob", 1, &contact("bob")).replace("example.com", "example.net");
    assert!(ask_udp(&server, &text).starts_with("SIP/2.0 200 OK\r\n"));
    assert!(ask_udp(&server, &register("UDP", "bob", 2, "")).contains("Contact: <sip:bob@127.0.0.1:5060>"));
}

#[test]
fn stun_keep_alive_reports_the_mapped_address() {
    let server = Server::start(&[]);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    let request = [&[0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42][..], b"transaction!"].concat();
    socket.send_to(&request, server.address("udp")).unwrap();
    let mut room = [0; 100];
    let len = again(|| socket.recv(&mut room)).unwrap();
    let port = (socket.local_addr().unwrap().port() ^ 0x2112).to_be_bytes();
    let mapped = [0, 0x20, 0, 8, 0, 1, port[0], port[1], 127 ^ 0x21, 0x12, 0xa4, 1 ^ 0x42];
    assert_eq!(room[..len], [&[1, 1, 0, 12, 0x21, 0x12, 0xa4, 0x42][..], b"transaction!", &mapped].concat());
}
