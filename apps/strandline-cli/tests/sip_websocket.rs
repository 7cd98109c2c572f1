//! Tests of `strandline sip` over WebSocket (RFC 7118): a browser's phone, and clients that violate the
//! protocol.

use std::io::{Read, Write};
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use tungstenite::Message;

use crate::sip_server::{PROGRAM, Server, again};
use crate::web_phone::{READ_TIMEOUT, connect, next, register, tcp};

fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("sip-websocket-{name}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn start(name: &str, more: &str) -> Server {
    let path = folder(name).join("sip.toml");
    std::fs::write(&path, more).unwrap();
    Server::start(&["--listen", "ws:127.0.0.1:0", "--config", path.to_str().unwrap()])
}

fn udp() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
    socket
}

fn request(method: &str, user: &str, from: &UdpSocket, body: &str) -> String {
    let (at, len) = (from.local_addr().unwrap(), body.len());
    format!(
        "{method} sip:{user}@example.com SIP/2.0\r\nVia: SIP/2.0/UDP {at};branch=z9hG4bK{method}{user};rport\r\n\
         Max-Forwards: 70\r\nFrom: <sip:u@elsewhere.example>;tag=1\r\nTo: <sip:{user}@example.com>\r\n\
         Call-ID: {method}{user}\r\nCSeq: 1 {method}\r\nContact: <sip:u@{at}>\r\nContent-Length: {len}\r\n\r\n{body}"
    )
}

/// Returns the next message that isn't a 100.
fn came(socket: &UdpSocket) -> String {
    loop {
        let mut room = [0; 4096];
        let len = again(|| socket.recv(&mut room)).unwrap();
        let text = String::from_utf8_lossy(&room[..len]).into_owned();
        if !text.starts_with("SIP/2.0 100") {
            return text;
        }
    }
}

fn line<'a>(text: &'a str, name: &str) -> &'a str {
    text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name} in {text}"))
}

#[test]
fn websocket_phone_is_reached_until_it_closes() {
    let server = start("phone", "");
    let mut phone = connect(&server);
    phone.send(Message::text(register("bob"))).unwrap();
    assert!(next(&mut phone).starts_with("SIP/2.0 200 OK\r\nVia: SIP/2.0/WS abob.invalid"));
    let caller = udp();
    caller.send_to(request("MESSAGE", "bob", &caller, "hi").as_bytes(), server.address("udp")).unwrap();
    let message = next(&mut phone);
    let port = server.address("ws").port();
    let begin = "MESSAGE sip:bob@abob.invalid;transport=ws SIP/2.0\r\nVia: SIP/2.0/WS 127.0.0.1:";
    assert!(message.starts_with(&format!("{begin}{port}")) && message.ends_with("\r\n\r\nhi"), "{message}");
    // Messages that aren't UTF-8 are sent as binary frames, in both directions.
    let mut bytes = request("MESSAGE", "bob", &caller, "hi").replace("z9hG4bKM", "z9hG4bKb").into_bytes();
    *bytes.last_mut().unwrap() = 0xff;
    caller.send_to(&bytes, server.address("udp")).unwrap();
    assert!(matches!(phone.read().unwrap(), Message::Binary(came) if came.ends_with(b"h\xff")));
    phone.send(Message::binary(register("bob").replace("1 REG", "2 REG").into_bytes())).unwrap();
    assert!(next(&mut phone).contains("CSeq: 2 REGISTER"));
    // Keep-alives of both kinds.
    phone.send(Message::text("\r\n\r\n")).unwrap();
    assert_eq!(next(&mut phone), "\r\n");
    phone.send(Message::Ping("there?".into())).unwrap();
    assert_eq!(phone.read().unwrap(), Message::Pong("there?".into()));
    // A close frame is answered, and the binding ends with the connection.
    phone.close(None).unwrap();
    assert!(matches!(phone.read().unwrap(), Message::Close(_)));
    assert!(phone.read().is_err());
    let other = request("MESSAGE", "bob", &caller, "hi").replace("z9hG4bKM", "z9hG4bKc");
    caller.send_to(other.as_bytes(), server.address("udp")).unwrap();
    assert!(came(&caller).starts_with("SIP/2.0 404"));
    // The server can't open WebSocket connections, so such an address is unreachable.
    let server = Server::start(&["--listen", "ws:127.0.0.1:0", "--open-relay"]);
    let away = request("MESSAGE", "x", &caller, "").replacen(
        "sip:x@example.com",
        "sip:x@127.0.0.1:80;transport=ws",
        1,
    );
    caller.send_to(away.as_bytes(), server.address("udp")).unwrap();
    assert!(came(&caller).starts_with("SIP/2.0 502"));
}

#[test]
fn who_does_not_answer_pings_is_let_go() {
    let server = start("pings", "[websocket]\nping_secs = 5\n");
    let (mut there, mut gone) = (connect(&server), connect(&server));
    gone.send(Message::text(register("gone"))).unwrap();
    next(&mut gone);
    // Reading answers pings. This lasts longer than a silent client is kept.
    for _ in 0..3 {
        assert!(matches!(there.read().unwrap(), Message::Ping(_)));
        there.flush().unwrap();
    }
    let stream = gone.get_mut();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, [0x89, 0], "one ping and the end");
}

/// Returns the server's response to a handshake with these lines.
fn handshake(server: &Server, first: &str, lines: &str) -> String {
    let mut stream = tcp(server.address("ws"));
    // In one write: an invalid handshake may be answered, and the connection closed, after its first line.
    stream.write_all(format!("{first}\r\nHost: sip\r\n{lines}\r\n").as_bytes()).unwrap();
    let mut room = [0; 1024];
    let len = again(|| stream.read(&mut room)).unwrap();
    String::from_utf8(room[..len].to_vec()).unwrap()
}

#[test]
fn handshakes_that_are_none_are_told_why() {
    let server = start("handshakes", "[websocket]\norigins = [\"https://phone.example.com\"]\n");
    const GET: &str = "GET / HTTP/1.1";
    let upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\n";
    let whole =
        format!("{upgrade}Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n");
    let sip = format!("{whole}Sec-WebSocket-Protocol: chat, sip\r\n");
    // The example of RFC 6455 section 1.3.
    let accepted = handshake(&server, GET, &sip);
    assert!(accepted.starts_with("HTTP/1.1 101 "), "{accepted}");
    assert!(accepted.contains("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"), "{accepted}");
    assert!(accepted.contains("Sec-WebSocket-Protocol: sip\r\n"), "{accepted}");
    let page = |origin: &str| format!("{sip}Origin: {origin}\r\n");
    assert!(handshake(&server, GET, &page("https://phone.example.com")).starts_with("HTTP/1.1 101 "));
    for (first, lines, answer) in [
        (GET, String::new(), "426 Upgrade Required\r\nUpgrade: websocket\r\n"),
        (GET, whole.clone(), "400 Bad Request"),
        (GET, format!("{whole}Sec-WebSocket-Protocol: chat\r\n"), "400 Bad Request"),
        (GET, sip.replace("Version: 13", "Version: 8"), "426 Upgrade Required"),
        (GET, sip.replace("dGhl", "d"), "400 Bad Request"),
        (GET, page("https://other.example.com"), "403 Forbidden"),
        ("POST / HTTP/1.1", sip.clone(), "405 Method Not Allowed\r\nAllow: GET\r\n"),
        ("GET / HTTP/1.0", sip.clone(), "505 HTTP Version"),
        ("INVITE sip:a@b SIP/2.0", sip.clone(), "400 Bad Request"),
        (GET, format!("X: {}\r\n", "x".repeat(9000)), "431 Request Header"),
    ] {
        let told = handshake(&server, first, &lines);
        assert!(told.starts_with(&format!("HTTP/1.1 {answer}")), "{first}, {lines}: {told}");
    }
    let versions = handshake(&server, GET, &sip.replace("Version: 13", "Version: 8"));
    assert!(versions.contains("Sec-WebSocket-Version: 13\r\n"), "{versions}");
}

#[test]
fn invalid_frames_end_only_their_connection() {
    let server =
        start("limits", "[limits]\nmessage_header_bytes_max = 4096\nmessage_body_bytes_max = 4096\n");
    let mut other = connect(&server);
    for (frame, code) in [
        // A frame that announces 2^62 bytes; one without a mask; an incomplete character.
        (vec![0x81, 0xff, 0x40, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4], 1009u16),
        (vec![0x81, 1, b'a'], 1002),
        (vec![0x81, 0x81, 0, 0, 0, 0, 0xff], 1007),
    ] {
        let mut phone = connect(&server);
        phone.get_mut().write_all(&frame).unwrap();
        match phone.read().unwrap() {
            Message::Close(Some(close)) => assert_eq!(u16::from(close.code), code),
            other => panic!("{other}"),
        }
    }
    // An invalid message is answered, if possible, and the connection continues.
    other.send(Message::text(register("bob").replace("CSeq: 1 REGISTER", "CSeq: x"))).unwrap();
    assert!(next(&mut other).starts_with("SIP/2.0 400"));
    other.send(Message::text(register("bob"))).unwrap();
    assert!(next(&mut other).starts_with("SIP/2.0 200"));
    // Connections count towards the limit like TCP connections.
    let server = start("count", "[limits]\nconnections_max = 1\n");
    let _first = connect(&server);
    let mut rest = Vec::new();
    assert!(matches!(tcp(server.address("ws")).read_to_end(&mut rest), Ok(0) | Err(_)));
}

/// A browser, which ends when this value is dropped.
struct Browser(Child);

impl Browser {
    fn open(name: &str, page: &str) -> Self {
        let folder = folder(name);
        let file = folder.join("phone.html");
        std::fs::write(&file, page).unwrap();
        let browser = Command::new("chromium")
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"])
            .arg(format!("--user-data-dir={}", folder.join("profile").display()))
            .arg(format!("file://{}", file.display()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(browser.expect("chromium is one of the tests' packages: tests/interop/setup quick"))
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_browser_registers_and_is_called() {
    let server = start("browser", "");
    // The page sends a message to this phone once it is registered.
    let watch = udp();
    let at = watch.local_addr().unwrap();
    let contact = format!("Contact: <sip:watch@{at}>");
    let text = register("watch")
        .replace("SIP/2.0/WS awatch.invalid", &format!("SIP/2.0/UDP {at}"))
        .replace("Contact: <sip:watch@awatch.invalid;transport=ws>", &contact);
    watch.send_to(text.as_bytes(), server.address("udp")).unwrap();
    assert!(came(&watch).starts_with("SIP/2.0 200"));
    let page = include_str!("sip_websocket/phone.html").replace("SERVER", &server.address("ws").to_string());
    let _browser = Browser::open("chromium", &page);
    let ready = came(&watch);
    assert!(ready.starts_with("MESSAGE sip:watch@") && ready.ends_with("registered"), "{ready}");
    // A call, whose response contains what the browser received.
    watch.send_to(request("INVITE", "browser", &watch, "").as_bytes(), server.address("udp")).unwrap();
    let ok = came(&watch);
    assert!(ok.starts_with("SIP/2.0 200 OK"), "{ok}");
    let (head, seen) = ok.split_once("\r\n\r\n").unwrap();
    assert!(seen.starts_with("INVITE sip:browser@chromium.invalid;transport=ws SIP/2.0"), "{seen}");
    assert!(line(seen, "Via: ").starts_with("Via: SIP/2.0/WS "), "{seen}");
    let routes: Vec<&str> = head.lines().filter_map(|line| line.strip_prefix("Record-Route: ")).collect();
    assert_eq!(routes.len(), 2, "one for each side: {head}");
    assert!(routes[0].contains(";transport=ws;lr") && !routes[1].contains("transport"), "{head}");
    // Within the dialog: the browser answers a BYE over the same connection.
    let (from, to) = (line(head, "From: "), line(head, "To: "));
    let bye = format!(
        "BYE sip:browser@chromium.invalid;transport=ws SIP/2.0\r\nVia: SIP/2.0/UDP {at};branch=z9hG4bKbye;rport\r\n\
         Max-Forwards: 70\r\nRoute: {}\r\nRoute: {}\r\n{from}\r\n{to}\r\nCall-ID: INVITEbrowser\r\nCSeq: 2 BYE\r\n\
         Content-Length: 0\r\n\r\n",
        routes[1], routes[0]
    );
    watch.send_to(bye.as_bytes(), server.address("udp")).unwrap();
    let ok = loop {
        // The 200 to the INVITE is retransmitted, because it is not acknowledged.
        let ok = came(&watch);
        if ok.contains("CSeq: 2 BYE") {
            break ok;
        }
    };
    assert!(ok.starts_with("SIP/2.0 200 OK"), "{ok}");
    assert!(ok.contains("BYE sip:browser@chromium.invalid;transport=ws"), "{ok}");
}

#[test]
fn what_is_wrong_with_the_configuration_is_told() {
    let path = folder("config").join("sip.toml");
    for (text, says) in [
        ("[websocket]\norigins = [\"phone.example.com\"]", "websocket.origins: expected an origin such as"),
        ("[websocket]\norigins = [\"https://a/b\"]", "without a path"),
        ("[websocket]\nping_secs = 1", "websocket.ping_secs: 1 is neither 0 (never) nor between 5 and 3600"),
        ("[[listen]]\nprotocol = \"wss\"\naddress = \"127.0.0.1:0\"", "tls: listening for wss requires"),
        ("[[listen]]\nprotocol = \"http\"\naddress = \"127.0.0.1:0\"", "\"tls\", \"ws\" or \"wss\""),
    ] {
        std::fs::write(&path, text).unwrap();
        let output = Command::new(PROGRAM).args(["sip", "--check", "--config"]).arg(&path).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && told.contains(says), "{text}: {told}");
    }
}
