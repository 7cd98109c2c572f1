//! Tests of administering a running `strandline sip`: `[admin]`, `strandline sip admin`, SIGHUP.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;

use crate::sip_server::{PROGRAM, Server, again};
use crate::waiting::at_last;

const READ_TIMEOUT: Duration = Duration::from_secs(30);
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A server with a configuration and a token, in its own folder.
struct World {
    folder: PathBuf,
    server: Server,
}

const LISTEN: &str = "[[listen]]\nprotocol = \"udp\"\naddress = \"127.0.0.1:0\"\n\
                      [[listen]]\nprotocol = \"tcp\"\naddress = \"127.0.0.1:0\"\n";

impl World {
    fn new(name: &str, before: &str, after: &str) -> Self {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("sip-admin-{name}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("token"), format!("{TOKEN}\n")).unwrap();
        Self::write(&folder, before, after);
        let server = Server::configured(&folder.join("sip.toml"));
        Self { folder, server }
    }

    fn write(folder: &std::path::Path, before: &str, after: &str) {
        let admin = format!(
            "[admin]\naddress = \"127.0.0.1:0\"\ntoken = \"{0}/token\"\n[store]\npath = \"{0}/sip.db\"\n",
            folder.display()
        );
        fs::write(folder.join("sip.toml"), format!("{before}\n{LISTEN}{admin}{after}")).unwrap();
    }

    /// Returns the complete response.
    fn raw(&self, request: &str, token: &str) -> String {
        let mut stream = TcpStream::connect(self.server.admin()).unwrap();
        write!(stream, "{request} HTTP/1.1\r\nHost: localhost\r\nAuthorization: bearer {token}\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn ask(&self, request: &str) -> (u16, Value) {
        let answer = self.raw(request, TOKEN);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head[9..12].parse().unwrap(), serde_json::from_str(body).unwrap())
    }

    fn admin(&self, arguments: &str) -> Output {
        let token = self.folder.join("token");
        Command::new(PROGRAM)
            .args(["sip", "admin", "--address", self.server.admin(), "--token", token.to_str().unwrap()])
            .args(arguments.split_whitespace())
            .output()
            .unwrap()
    }

    fn told(&self, arguments: &str) -> String {
        let output = self.admin(arguments);
        assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn udp(&self, text: &str) -> String {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
        socket.send_to(text.as_bytes(), self.server.address("udp")).unwrap();
        let mut room = [0; 4096];
        let len = again(|| socket.recv(&mut room)).unwrap();
        String::from_utf8_lossy(&room[..len]).into_owned()
    }
}

fn register(user: &str, domain: &str, transport: &str) -> String {
    format!(
        "REGISTER sip:{domain} SIP/2.0\r\nVia: SIP/2.0/{transport} 127.0.0.1:5070;branch=z9hG4bK{user};rport\r\n\
         From: <sip:{user}@{domain}>;tag=1\r\nTo: <sip:{user}@{domain}>\r\nCall-ID: {user}\r\nCSeq: 1 REGISTER\r\n\
         Contact: <sip:{user}@127.0.0.1:5070;transport={transport}>\r\nContent-Length: 0\r\n\r\n"
    )
}

/// Sends a message over TCP and waits for the response.
fn over(stream: &mut TcpStream, text: &str) -> String {
    stream.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    let mut room = [0; 4096];
    let len = again(|| stream.read(&mut room)).unwrap();
    String::from_utf8_lossy(&room[..len]).into_owned()
}

const DOMAIN: &str = "domains = [\"example.com\"]";

#[test]
fn silent_connections_lock_nobody_out() {
    let world = World::new("silent", DOMAIN, "");
    let silent: Vec<TcpStream> =
        (0..150).map(|_| TcpStream::connect(world.server.admin()).unwrap()).collect();
    assert_eq!(world.ask("GET /status").0, 200);
    let waits = |mut stream: &TcpStream| {
        stream.set_nonblocking(true).unwrap();
        stream.read(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    };
    assert!(silent.iter().filter(|stream| waits(stream)).count() <= 16, "a limit for each source");
}

#[test]
fn names_that_are_not_its_own_are_refused() {
    let world =
        World::new("hosts", DOMAIN, "[metrics]\naddress = \"127.0.0.1:0\"\nhosts = [\"sip.example.com\"]\n");
    let ask = |lines: &str| {
        let mut stream = TcpStream::connect(world.server.metrics_address()).unwrap();
        write!(stream, "GET /live.json HTTP/1.1\r\n{lines}\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split_whitespace().nth(1).unwrap().to_owned()
    };
    assert_eq!(ask("Host: sip.example.com\r\n"), "200");
    assert_eq!(ask("Host: rebound.example.net\r\n"), "421");
    assert_eq!(ask("Host: localhost\r\nOrigin: http://example.net\r\n"), "403");
    assert_eq!(ask(""), "400");
}

#[test]
fn only_who_shows_the_token_is_answered() {
    let world = World::new("token", DOMAIN, "");
    for token in ["", "0123456789abcdef", &format!("{TOKEN}0")] {
        let answer = world.raw("GET /status", token);
        assert!(answer.starts_with("HTTP/1.1 401 Unauthorized\r\n"), "{answer}");
        assert!(
            answer.to_ascii_lowercase().contains("\r\nwww-authenticate: bearer\r\n")
                && !answer.contains(TOKEN),
            "{answer}"
        );
    }
    let (status, told) = world.ask("GET /status");
    assert_eq!((status, &told["domains"][0], &told["draining"]), (200, &"example.com".into(), &false.into()));
    assert_eq!(told["reloads"]["count"], 0);
    assert_eq!(world.ask("GET /nothing").0, 404);
    for (request, allow) in [
        ("POST /status", "GET, HEAD"),
        ("PUT /bindings", "GET, HEAD"),
        ("POST /bindings/a", "GET, HEAD, DELETE"),
        ("GET /drain", "PUT, DELETE"),
        ("GET /reload", "POST"),
    ] {
        let answer = world.raw(request, TOKEN);
        assert!(answer.starts_with("HTTP/1.1 405 ") && answer.contains(&format!("\r\nAllow: {allow}\r\n")));
    }
    assert!(world.raw("HEAD /status", TOKEN).ends_with("\r\n\r\n"));
    let told = world.told("status");
    for (name, value) in [("domains", "example.com"), ("totals.registered", "0"), ("reloads.last_error", "-")]
    {
        assert!(told.lines().any(|line| line.split_whitespace().eq([name, value])), "{name}: {told}");
    }
    let wrong = world.folder.join("wrong");
    fs::write(&wrong, "something else").unwrap();
    let output = Command::new(PROGRAM)
        .args([
            "sip",
            "admin",
            "--address",
            world.server.admin(),
            "--token",
            wrong.to_str().unwrap(),
            "status",
        ])
        .output()
        .unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && told.contains("a token is required"), "{told}");
}

#[test]
fn bindings_are_paged_and_removed_with_connections() {
    let mut world = World::new("bindings", DOMAIN, "");
    let mut phone = TcpStream::connect(world.server.address("tcp")).unwrap();
    assert!(over(&mut phone, &register("alice", "example.com", "TCP")).starts_with("SIP/2.0 200"));
    for number in 0..7 {
        let ok = world.udp(&register(&format!("bob{number}"), "example.com", "UDP"));
        assert!(ok.starts_with("SIP/2.0 200"), "{ok}");
    }
    let (mut from, mut seen, mut pages) = (0, Vec::new(), 0);
    loop {
        let (status, page) = world.ask(&format!("GET /bindings?prefix=bob&limit=3&from={from}"));
        assert_eq!(status, 200);
        seen.extend(
            page["users"].as_array().unwrap().iter().map(|user| user["user"].as_str().unwrap().to_owned()),
        );
        pages += 1;
        match page["next"].as_u64() {
            Some(next) => from = next,
            None => break,
        }
    }
    seen.sort();
    let all: Vec<String> = (0..7).map(|number| format!("bob{number}@example.com")).collect();
    assert_eq!((seen, pages), (all, 3));
    assert_eq!(world.ask("GET /bindings?limit=x").0, 400);
    assert_eq!(world.ask("GET /bindings?limit=1001").0, 400);
    let (_, alice) = world.ask("GET /bindings/sip%3Aalice@EXAMPLE.com");
    let binding = &alice["bindings"][0];
    assert_eq!(binding["contact"], "sip:alice@127.0.0.1:5070;transport=TCP", "{alice}");
    assert_eq!((&binding["connected"], &binding["from"]["protocol"]), (&true.into(), &"tcp".into()));
    assert_eq!(world.ask("GET /bindings/carol@example.com").0, 404);
    // Formatted for the terminal.
    let listed = world.told("bindings bob --limit 4");
    assert_eq!(listed.lines().filter(|line| line.starts_with("bob")).count(), 4, "{listed}");
    assert!(listed.ends_with("... more users exist; raise --limit\n"), "{listed}");
    assert!(world.told("show alice@example.com").contains("  from tcp 127.0.0.1:"));
    let json: Value = serde_json::from_str(&world.told("--json bindings alice")).unwrap();
    assert_eq!(json["users"][0]["user"], "alice@example.com");
    // First a contact that doesn't exist, then all.
    assert_eq!(world.ask("DELETE /bindings/alice@example.com?contact=sip:a").0, 404);
    let (status, done) = world.ask("DELETE /bindings/alice@example.com");
    assert_eq!((status, &done["removed"], &done["closed"]), (200, &1.into(), &1.into()));
    assert!(matches!(phone.read(&mut [0; 16]), Ok(0) | Err(_)), "the connection goes too");
    let kicked = world.told("kick bob3@example.com --contact sip:bob3@127.0.0.1:5070;transport=UDP");
    assert_eq!(kicked, "1 bindings removed, 0 connections closed\n");
    let output = world.admin("kick bob3@example.com");
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && told.contains("bob3@example.com is not registered"), "{told}");
    // A later write that is acknowledged shows that the earlier one was written too.
    assert!(world.udp(&register("last", "example.com", "UDP")).starts_with("SIP/2.0 200"));
    world.server.kill();
    assert_eq!(Server::configured(&world.folder.join("sip.toml")).users(), 7);
}

#[test]
fn draining_refuses_new_dialogs_and_keeps_others() {
    let world = World::new("drain", DOMAIN, "");
    let callee = UdpSocket::bind("127.0.0.1:0").unwrap();
    callee.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
    let (at, here) = (callee.local_addr().unwrap().to_string(), world.server.address("udp"));
    let mut room = [0; 4096];
    callee
        .send_to(register("bob", "example.com", "UDP").replace("127.0.0.1:5070", &at).as_bytes(), here)
        .unwrap();
    again(|| callee.recv(&mut room)).unwrap();
    let request = |method: &str, uri: &str, branch: &str, more: &str| {
        format!(
            "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:5071;branch=z9hG4bK{branch};rport\r\n\
             Max-Forwards: 70\r\n{more}From: <sip:x@elsewhere.example>;tag=1\r\nTo: <sip:bob@example.com>\r\n\
             Call-ID: {branch}\r\nCSeq: 1 {method}\r\nContact: <sip:x@127.0.0.1:5071>\r\nContent-Length: 0\r\n\r\n"
        )
    };
    let bob = "sip:bob@example.com";
    assert!(world.udp(&request("INVITE", bob, "one", "")).starts_with("SIP/2.0 100"));
    let len = again(|| callee.recv(&mut room)).unwrap();
    let invite = String::from_utf8_lossy(&room[..len]).into_owned();
    let route = invite.lines().find_map(|line| line.strip_prefix("Record-Route: ")).unwrap();
    assert_eq!(world.told("drain"), "draining: new requests get 503\n");
    for text in [register("carol", "example.com", "UDP"), request("INVITE", bob, "two", "")] {
        let refused = world.udp(&text);
        assert!(refused.starts_with("SIP/2.0 503") && refused.contains("\r\nRetry-After: "), "{refused}");
    }
    // A request within the dialog.
    let route = format!("Route: {route}\r\n");
    let caller = UdpSocket::bind("127.0.0.1:0").unwrap();
    let bye = request("BYE", &format!("sip:bob@{at}"), "bye", &route);
    caller.send_to(bye.as_bytes(), here).unwrap();
    loop {
        let len = again(|| callee.recv(&mut room)).unwrap();
        if room[..len].starts_with(b"BYE ") {
            break;
        }
    }
    assert_eq!(world.told("drain --off"), "not draining\n");
    assert!(world.udp(&register("carol", "example.com", "UDP")).starts_with("SIP/2.0 200"));
}

#[test]
fn the_configuration_is_read_again_without_dropping_anybody() {
    let users = "[auth]\nrealm = \"example.com\"\nusers = \"USERS\"\n";
    let world = World::new("reload", DOMAIN, "");
    let mut phone = TcpStream::connect(world.server.address("tcp")).unwrap();
    assert!(over(&mut phone, &register("alice", "example.com", "TCP")).starts_with("SIP/2.0 200"));
    assert!(world.udp(&register("dora", "example.net", "UDP")).starts_with("SIP/2.0 403"));
    // An invalid configuration changes nothing, even if only its last table is invalid.
    let two = "domains = [\"example.com\", \"example.net\"]";
    World::write(&world.folder, two, "[registrar]\nexpires_min_secs = 7200\n");
    let (status, told) = world.ask("POST /reload");
    assert_eq!((status, told["error"].as_str().unwrap().contains("registrar.expires_min_secs")), (422, true));
    assert!(world.udp(&register("dora", "example.net", "UDP")).starts_with("SIP/2.0 403"));
    let output = world.admin("reload");
    assert!(!output.status.success());
    // A valid one; changes that need a restart are reported.
    World::write(
        &world.folder,
        two,
        "[registrar]\nexpires_max_secs = 600\nexpires_default_secs = 600\n[timers]\nt1_ms = 400\n",
    );
    let (status, told) = world.ask("POST /reload");
    assert_eq!(status, 200, "{told}");
    assert_eq!(told["changed"], serde_json::json!(["domains", "registrar"]));
    assert_eq!(told["kept"], serde_json::json!(["timers: needs a new start"]));
    let ok = world.udp(&register("dora", "example.net", "UDP"));
    assert!(ok.starts_with("SIP/2.0 200") && ok.contains(";expires=600\r\n"), "{ok}");
    // Reload by signal: users now have passwords, and the phone's connection stays open.
    let file = world.folder.join("users");
    fs::write(&file, "alice:password:secret\n").unwrap();
    World::write(&world.folder, two, &users.replace("USERS", file.to_str().unwrap()));
    let count = |world: &World| world.ask("GET /status").1["reloads"]["count"].as_u64().unwrap();
    let before = count(&world);
    world.server.hang_up();
    at_last("SIGHUP has an effect", || count(&world) > before);
    let asked = over(&mut phone, &register("alice", "example.com", "TCP").replace("CSeq: 1", "CSeq: 2"));
    assert!(asked.starts_with("SIP/2.0 401") && asked.contains("realm=\"example.com\""), "{asked}");
    assert_eq!(world.ask("GET /status").1["reloads"]["last_error"], Value::Null);
    // Without the file, reading fails.
    let token = world.folder.join("token");
    let server = Server::start(&["--admin", "127.0.0.1:0", "--admin-token", token.to_str().unwrap()]);
    let world = World { folder: world.folder.clone(), server };
    assert!(world.ask("POST /reload").1["error"].as_str().unwrap().contains("without --config"));
}

#[test]
fn what_is_wrong_with_the_configuration_is_told() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("sip-admin-config");
    fs::create_dir_all(&folder).unwrap();
    let (path, token) = (folder.join("sip.toml"), folder.join("short"));
    fs::write(&token, "short").unwrap();
    for (text, says) in [
        ("[admin]\naddress = \"127.0.0.1:0\"", "admin.token: required: a file with a secret"),
        ("[admin]\ntoken = \"TOKEN\"", "admin.address: required with admin.token"),
        (
            "[admin]\naddress = \"127.0.0.1:0\"\ntoken = \"TOKEN\"",
            "must contain one word of at least 16 ASCII characters",
        ),
        ("[admin]\naddress = \"127.0.0.1:0\"\ntoken = \"/nowhere/token\"", "/nowhere/token: No such file"),
    ] {
        fs::write(&path, text.replace("TOKEN", token.to_str().unwrap())).unwrap();
        let output = Command::new(PROGRAM).args(["sip", "--check", "--config"]).arg(&path).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && told.contains(says), "{text}: {told}");
    }
    let output = Command::new(PROGRAM)
        .args(["sip", "admin", "--address", "127.0.0.1:1", "--token", token.to_str().unwrap(), "status"])
        .output()
        .unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && told.contains("is a SIP server running there with --admin 127.0.0.1:1?"),
        "{told}"
    );
}

#[test]
fn denied_networks_are_dropped_until_reload() {
    let access = "[access]\nallow = [\"192.0.2.0/24\"]\n[metrics]\naddress = \"127.0.0.1:0\"\n";
    let world = World::new("access", DOMAIN, access);
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    stranger.send_to(register("a", "example.com", "UDP").as_bytes(), world.server.address("udp")).unwrap();
    at_last("it was dropped", || {
        world.server.metrics("/metrics").contains("dropped_total{reason=\"access\"} 1\n")
    });
    let mut phone = TcpStream::connect(world.server.address("tcp")).unwrap();
    assert!(matches!(phone.read(&mut [0; 16]), Ok(0) | Err(_)));
    World::write(&world.folder, DOMAIN, &access.replace("192.0.2.0/24", "127.0.0.0/8"));
    assert_eq!(world.ask("POST /reload").1["changed"], serde_json::json!(["access"]));
    assert!(world.udp(&register("a", "example.com", "UDP")).starts_with("SIP/2.0 200"));
    // An admitted client is disconnected once the access list denies it.
    let mut phone = TcpStream::connect(world.server.address("tcp")).unwrap();
    phone.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
    assert!(over(&mut phone, &register("b", "example.com", "TCP")).starts_with("SIP/2.0 200"));
    World::write(&world.folder, DOMAIN, access);
    assert_eq!(world.ask("POST /reload").1["changed"], serde_json::json!(["access"]));
    assert!(matches!(phone.read(&mut [0; 16]), Ok(0)), "it is ended");
}

#[test]
fn refusing_trunk_is_replaced_by_the_next() {
    // Nothing listens at the first node's port: 1 (tcpmux) is never assigned to a socket that asks for any
    // port.
    let gone = "127.0.0.1:1";
    let trunk = UdpSocket::bind("127.0.0.1:0").unwrap();
    trunk.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
    let route = format!(
        "[relay]\nfrom = [\"127.0.0.1\"]\n[[route]]\nprefix = \"+44\"\n\
         to = [\"sip:{gone};transport=tcp\", {{ uri = \"sip:{}\", priority = 5 }}]\n",
        trunk.local_addr().unwrap()
    );
    let world = World::new("trunk", DOMAIN, &route);
    let caller = UdpSocket::bind("127.0.0.1:0").unwrap();
    let invite = register("x", "elsewhere.example", "UDP")
        .replacen("REGISTER sip:elsewhere.example", "INVITE sip:+44200@example.com", 1)
        .replace("1 REGISTER", "1 INVITE");
    caller.send_to(invite.as_bytes(), world.server.address("udp")).unwrap();
    let mut room = [0; 4096];
    let len = again(|| trunk.recv(&mut room)).unwrap();
    let came = String::from_utf8_lossy(&room[..len]).into_owned();
    assert!(came.starts_with(&format!("INVITE sip:+44200@{} ", trunk.local_addr().unwrap())), "{came}");
}

#[test]
fn removal_is_durable_before_it_is_answered() {
    let mut world = World::new("kicked", DOMAIN, "");
    for _ in 0..5 {
        assert!(world.udp(&register("bob", "example.com", "UDP")).starts_with("SIP/2.0 200"));
        assert!(world.told("kick bob@example.com").starts_with("1 bindings removed"));
        world.server.kill();
        world.server = Server::configured(&world.folder.join("sip.toml"));
        assert_eq!(world.server.users(), 0);
    }
}

/// Returns the output of `sip admin` when a fake server takes its request and then calls this function; with
/// `None` nothing listens there.
fn told_by(then: Option<fn(TcpStream)>, arguments: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let token = folder.join("sip-admin-any-token");
    fs::write(&token, TOKEN).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let other = then.map(|then| {
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut came = Vec::new();
            while !came.ends_with(b"\r\n\r\n") {
                let mut one = [0];
                stream.read_exact(&mut one).unwrap();
                came.extend(one);
            }
            then(stream);
            String::from_utf8(came).unwrap()
        })
    });
    let output = Command::new(PROGRAM)
        .args(["sip", "admin", "--address", &address, "--token", token.to_str().unwrap()])
        .args(arguments.split_whitespace())
        .output()
        .unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    if let Some(other) = other {
        assert!(other.join().unwrap().contains(TOKEN));
    }
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn unanswered_admin_request_says_what_may_have_happened() {
    let says_nothing: fn(TcpStream) = |mut stream| {
        // The read ends once the other side has given up.
        assert_eq!(again(|| stream.read(&mut [0])).unwrap(), 0);
    };
    let told = told_by(Some(says_nothing), "--timeout 1 kick alice@example.com");
    for says in [
        "no response within 1 s",
        "may have been carried out, or still may be",
        "check with `show alice@example.com`",
    ] {
        assert!(told.contains(says), "{says}: {told}");
    }
    let told = told_by(Some(says_nothing), "drain --timeout 1");
    assert!(
        told.contains("no response within 1 s")
            && told.contains("check `draining` in the output of `status`"),
        "{told}"
    );
    // A read-only request, without effects.
    let told = told_by(Some(says_nothing), "bindings --timeout 1");
    assert!(
        told.contains("a larger --timeout waits longer") && !told.contains("may have been carried out"),
        "{told}"
    );
    // The response never arrives, or is incomplete.
    let told = told_by(Some(drop), "reload");
    assert!(
        told.contains("the connection closed before the response") && told.contains("check `reloads`"),
        "{told}"
    );
    let half: fn(TcpStream) =
        |mut stream| stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{").unwrap();
    let told = told_by(Some(half), "kick alice@example.com");
    assert!(told.contains("the connection closed before the response"), "{told}");
    // Another kind of server listens there, or none.
    let other: fn(TcpStream) = |mut stream| stream.write_all(b"220 mail.example.com ESMTP\r\n").unwrap();
    let told = told_by(Some(other), "status");
    assert!(told.contains("not that of a server's HTTP interface") && told.contains("--admin?"), "{told}");
    assert!(told_by(None, "drain").contains("The request was not sent"));
}
