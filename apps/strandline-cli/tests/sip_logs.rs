//! Tests of the log of `strandline sip`, in both formats: it contains no secrets at any level.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use strandline_sip::auth::{Algorithm, response};
use strandline_sip::codec::Digest;

use crate::sip_server::{PROGRAM, Server};
use crate::udp_phone::Phone;
use crate::waiting::at_last;

const TOKEN: &str = "0123456789secret0123456789";
const PASSWORD: &str = "in-a-wonderful-land";

/// A folder, which is removed when this value is dropped.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn folder(name: &str) -> Folder {
    let folder = std::env::temp_dir().join(format!("strandline-sip-logs-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("users"), format!("bob:password:{PASSWORD}\n")).unwrap();
    std::fs::write(folder.join("token"), TOKEN).unwrap();
    let at = folder.display();
    let config = format!(
        "domains = [\"example.com\"]\n[[listen]]\nprotocol = \"udp\"\naddress = \"127.0.0.1:0\"\n[[listen]]\n\
         protocol = \"tcp\"\naddress = \"127.0.0.1:0\"\n[store]\nkind = \"sqlite\"\npath = \"{at}/sip.db\"\n\
         [auth]\nrealm = \"example.com\"\nusers = \"{at}/users\"\n[admin]\naddress = \"127.0.0.1:0\"\n\
         token = \"{at}/token\"\n[timers]\nt1_ms = 50\n"
    );
    std::fs::write(folder.join("sip.toml"), config).unwrap();
    Folder(folder)
}

/// Starts a server that logs at the highest level into a file.
fn start(folder: &Path, format: &str) -> Server {
    start_at(folder, format, Some("trace"))
}

/// Starts a server that logs at this level, or at the default, into a file.
fn start_at(folder: &Path, format: &str, level: Option<&str>) -> Server {
    let mut program = Command::new(PROGRAM);
    let log = File::create(folder.join("log")).unwrap();
    program.args(["--log-format", format, "sip", "--json", "--config"]).arg(folder.join("sip.toml"));
    match level {
        Some(level) => program.env("RUST_LOG", level),
        None => program.env_remove("RUST_LOG"),
    };
    Server::announced(program.stderr(log))
}

fn quoted<'a>(text: &'a str, name: &str) -> &'a str {
    text.split(&format!("{name}=\"")).nth(1).unwrap().split('"').next().unwrap()
}

/// Sends the server the secrets of a phone, a caller and an administrator, and returns those secrets.
fn secrets(server: &Server) -> Vec<String> {
    let mut phone = Phone::new();
    let challenge = phone.ask(server, "bob", "");
    let nonce = quoted(&challenge, "nonce").to_owned();
    let algorithm = Algorithm::Md5;
    let mut secrets = vec![PASSWORD.to_owned(), TOKEN.to_owned(), nonce.clone()];
    for (password, code) in [("wrong-wrong-wrong", "401"), (PASSWORD, "200")] {
        let secret = algorithm.hash(&[b"bob", b"example.com", password.as_bytes()]);
        let digest = Digest {
            nonce: Some(nonce.as_bytes()),
            uri: Some(b"sip:example.com"),
            qop: Some(b"auth"),
            nc: Some(b"00000001"),
            cnonce: Some(b"own-nonce-of-bob"),
            ..Digest::default()
        };
        let answer = String::from_utf8(response(algorithm, &secret, b"REGISTER", &digest)).unwrap();
        let credentials = format!(
            "Authorization: Digest username=\"bob\", realm=\"example.com\", nonce=\"{nonce}\", uri=\"sip:example.com\", \
             response=\"{answer}\", algorithm=MD5, cnonce=\"own-nonce-of-bob\", qop=auth, nc=00000001\r\n"
        );
        let told = phone.ask(server, "bob", &credentials);
        assert!(told.starts_with(&format!("SIP/2.0 {code}")), "{told}");
        secrets.extend([answer, String::from_utf8(secret).unwrap(), password.to_owned()]);
    }
    secrets.push("own-nonce-of-bob".to_owned());
    // A call to bob, whose dialog has a token.
    let at = phone.socket.local_addr().unwrap();
    phone.send(
        server,
        &format!(
            "INVITE sip:bob@example.com SIP/2.0\r\nVia: SIP/2.0/UDP {at};branch=z9hG4bKcall;rport\r\nMax-Forwards: 70\r\n\
             From: <sip:a@example.org>;tag=1\r\nTo: <sip:bob@example.com>\r\nCall-ID: call\r\nCSeq: 1 INVITE\r\n\
             Contact: <sip:a@{at}>\r\nContent-Length: 0\r\n\r\n"
        ),
    );
    let invite = std::iter::repeat_with(|| phone.receive()).find(|came| came.starts_with("INVITE")).unwrap();
    let route = invite.lines().find_map(|line| line.strip_prefix("Record-Route: <sip:")).unwrap();
    secrets.push(route.split('@').next().unwrap().to_owned());
    // An invalid message, which is logged, with a secret, which must not be.
    let broken =
        format!("REGISTER sip:example.com SIP/2.0\r\nAuthorization: Digest nonce=\"{nonce}\"\r\n\r\n");
    phone.send(server, &broken);
    let mut stream = TcpStream::connect(server.address("tcp")).unwrap();
    stream.write_all(format!("{broken}nothing {PASSWORD}\r\n\r\n").as_bytes()).unwrap();
    let _ = stream.read_to_string(&mut String::new());
    let mut stream = TcpStream::connect(server.admin()).unwrap();
    write!(stream, "POST /reload HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    secrets
}

#[test]
fn logs_contain_no_secrets() {
    for format in ["json", "text"] {
        let folder = folder(format);
        let mut server = start(&folder.0, format);
        let secrets = secrets(&server);
        assert_eq!(secrets.len(), 11);
        server.terminate();
        let log = std::fs::read_to_string(folder.0.join("log")).unwrap();
        assert!(log.contains("configuration reloaded"), "{log}");
        for secret in &secrets {
            let line = log.lines().find(|line| line.contains(secret.as_str()));
            assert!(secret.len() > 10 && line.is_none(), "{secret} stands in {line:?}");
        }
    }
}

#[test]
fn each_log_line_is_a_json_object() {
    let folder = folder("fields");
    let mut server = start(&folder.0, "json");
    secrets(&server);
    assert!(server.terminate().success());
    let log = std::fs::read_to_string(folder.0.join("log")).unwrap();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    for line in &lines {
        for key in ["timestamp", "level", "target"] {
            assert!(line[key].is_string(), "{line}");
        }
    }
    let read = lines.iter().find(|line| line["message"] == "configuration reloaded").unwrap();
    assert_eq!(read["level"], "INFO");
    assert!(
        read["changed"].is_string() && read["target"].as_str().unwrap().starts_with("strandline_sip"),
        "{read}"
    );
}

/// Wrong passwords are logged at the default level, other refusals at DEBUG.
#[test]
fn refused_requests_are_logged() {
    for (level, is_detailed) in [(None, false), (Some("strandline_sip=debug"), true)] {
        let folder = folder(if is_detailed { "refused-debug" } else { "refused" });
        let mut server = start_at(&folder.0, "text", level);
        secrets(&server);
        let phone = Phone::new();
        let at = phone.socket.local_addr().unwrap();
        phone.send(
            &server,
            &format!(
                "OPTIONS sip:nobody@example.com SIP/2.0\r\nVia: SIP/2.0/UDP {at};branch=z9hG4bKno;rport\r\n\
                 Max-Forwards: 70\r\nFrom: <sip:a@example.org>;tag=1\r\nTo: <sip:nobody@example.com>\r\n\
                 Call-ID: no\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n"
            ),
        );
        let answer = phone.receive();
        assert!(answer.starts_with("SIP/2.0 404 "), "{answer}");
        server.terminate();
        let log = std::fs::read_to_string(folder.0.join("log")).unwrap();
        let guess = "INFO strandline_sip::refused: refused source=127.0.0.1 user=bob reason=\"wrong password\" left_out=0";
        assert_eq!(log.matches(guess).count(), 1, "{log}");
        let unknown = format!(
            "request refused source={at} method=OPTIONS from=<sip:a@example.org>;tag=1 code=404 reason=\"Not Found\""
        );
        let lines = log.lines().filter(|line| line.contains(" DEBUG ") && line.contains(&unknown));
        assert_eq!(lines.count(), usize::from(is_detailed), "{log}");
    }
}

/// What is refused before it is parsed is logged as well.
#[test]
fn unread_messages_are_logged_when_refused() {
    let folder = folder("unread");
    let config = folder.0.join("sip.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    let limits = "[access]\ndeny = [\"127.0.0.2/32\"]\n[overload]\nsource_messages_per_sec_max = 1\n";
    std::fs::write(&config, text + limits).unwrap();
    let mut server = start_at(&folder.0, "text", None);
    let stranger = std::net::UdpSocket::bind("127.0.0.2:0").unwrap();
    let request = "OPTIONS sip:nobody@example.com SIP/2.0\r\n\r\n";
    for _ in 0..5 {
        stranger.send_to(request.as_bytes(), server.address("udp")).unwrap();
    }
    let phone = Phone::new();
    for _ in 0..20 {
        phone.send(&server, request);
    }
    let log = || std::fs::read_to_string(folder.0.join("log")).unwrap();
    let line = |source: &str, reason: &str| {
        format!("INFO strandline_sip::refused: refused source={source} user= reason=\"{reason}\"")
    };
    let (denied, many) = (line("127.0.0.2", "no access"), line("127.0.0.1", "too many messages"));
    at_last("both are logged", || log().contains(&denied) && log().contains(&many));
    server.terminate();
    assert!(log().matches(&denied).count() < 5, "{}", log());
}

#[test]
fn other_formats_are_refused() {
    let output = Command::new(PROGRAM).args(["sip", "--log-format", "xml", "--check"]).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8(output.stderr).unwrap().contains("[possible values: text, json]"));
}

/// The pages have no TLS: an address that other machines reach is warned of, by `--check` and at the start.
#[test]
fn pages_beyond_loopback_are_warned_of() {
    let folder = folder("exposed");
    let config = folder.0.join("sip.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    for (address, warns) in
        [("127.0.0.1:0", false), ("[::1]:0", false), ("0.0.0.0:0", true), ("[::]:0", true)]
    {
        let admin =
            text.replace("[admin]\naddress = \"127.0.0.1:0\"", &format!("[admin]\naddress = \"{address}\""));
        assert!(admin.contains(address));
        std::fs::write(&config, format!("{admin}[metrics]\naddress = \"{address}\"\n")).unwrap();
        let checked =
            Command::new(PROGRAM).args(["sip", "--check", "--config"]).arg(&config).output().unwrap();
        assert!(checked.status.success());
        start(&folder.0, "text").terminate();
        let log = std::fs::read_to_string(folder.0.join("log")).unwrap();
        for told in [&String::from_utf8(checked.stderr).unwrap(), &log] {
            for key in ["metrics.address", "admin.address"] {
                let warning = format!("{key}: {address} is reachable from other machines without TLS");
                assert_eq!(told.contains(&warning), warns, "{address}: {told}");
            }
        }
    }
}
