//! What becomes of requests and responses that break off, and kinds of upstream servers.

use std::io::ErrorKind;

use rustix::net::sockopt::set_socket_linger;
use tokio::net::{TcpStream, UnixListener};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::*;
use crate::proxy::testing::LIMIT;

/// A server that takes one connection, and returns what came up to its end.
async fn collect() -> (String, oneshot::Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (tell, told) = oneshot::channel();
    tokio::spawn(async move {
        let (mut tcp, _) = listener.accept().await.unwrap();
        let mut all = Vec::new();
        // A reset is an end, too.
        let _ = tcp.read_to_end(&mut all).await;
        tell.send(all).unwrap();
    });
    (url, told)
}

#[tokio::test]
async fn malformed_bodies_are_the_clients_fault() {
    let chunked = "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n";
    for (rest, version) in [
        (format!("{chunked}xyz\r\n"), "1.1"),
        (format!("{chunked}5\nworld"), "1.1"),
        (format!("{chunked}fffffffffffffffff\r\n"), "1.1"),
        (format!("{chunked}5\r\nworldX"), "1.1"),
        (format!("{chunked}0\r\nA: b\n\n"), "1.1"),
        // These end too early.
        (chunked.to_owned(), "1.1"),
        ("Content-Length: 10\r\n\r\nhello".to_owned(), "1.1"),
        ("Content-Length: 10\r\n\r\nhello".to_owned(), "1.0"),
    ] {
        let (url, collected) = collect().await;
        let proxy = Running::reverse(&url, &[]).await;
        let mut tcp = proxy.connect().await;
        tcp.write_all(format!("POST / HTTP/{version}\r\nHost: a\r\n{rest}").as_bytes()).await.unwrap();
        tcp.shutdown().await.unwrap();
        let mut answer = Vec::new();
        let read = timeout(LIMIT, tcp.read_to_end(&mut answer)).await.expect("an end");
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with(&format!("HTTP/{version} 400 ")), "{rest:?}: {read:?} {answer}");
        let passed = String::from_utf8(collected.await.unwrap()).unwrap();
        let is_whole = passed.ends_with("0\r\n\r\n") || passed.ends_with("hellohello");
        assert!(!is_whole, "{rest:?}: {passed}");
    }
}

#[tokio::test]
async fn answers_before_the_end_of_a_request_arrive() {
    let large = "HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno";
    for (answer, wanted) in [(large, "413"), ("HTTP/1.1 2", "502"), ("", "502")] {
        let server = raw_upstream(answer.as_bytes(), true).await;
        let proxy = Running::reverse(&format!("http://{server}"), &[]).await;
        let body = "x".repeat(10_000_000);
        let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
        let answer = timeout(LIMIT, proxy.exchange(&format!("{head}{body}"))).await.expect("an end").unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {wanted} ")), "{answer}");
    }
}

#[tokio::test]
async fn doubtful_lengths_of_responses_are_settled() {
    let chunked: &[u8] =
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n0\r\n\r\n";
    let repeated: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 10, 10\r\n\r\n0123456789";
    let of_head: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\nContent-Length: 11\r\n\r\n";
    for (method, answer, wanted, body) in [
        ("GET", chunked, None, "A\r\n0123456789\r\n0\r\n\r\n"),
        ("GET", repeated, Some("10"), "0123456789"),
        ("HEAD", of_head, None, ""),
    ] {
        let server = raw_upstream(answer, false).await;
        let proxy = Running::reverse(&format!("http://{server}"), &[]).await;
        let request = format!("{method} / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let got = timeout(LIMIT, proxy.exchange(&request)).await.expect("an end").unwrap();
        let (head, rest) = got.split_once("\r\n\r\n").unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        assert_eq!((length, rest), (wanted, body), "{got}");
    }
}

/// What `nc -N` does.
#[tokio::test]
async fn half_closed_clients_are_answered() {
    let upstream = Upstream::start().await;
    let proxy = Running::reverse(&upstream.url(), &[]).await;
    for request in ["GET /size/3000000 HTTP/1.0\r\n\r\n", &get("/size/3000000")] {
        let mut tcp = proxy.connect().await;
        tcp.write_all(request.as_bytes()).await.unwrap();
        tcp.shutdown().await.unwrap();
        let mut answer = Vec::new();
        tcp.read_to_end(&mut answer).await.unwrap();
        assert!(answer.len() > 3_000_000, "{request}: {}", answer.len());
    }
}

/// Bytes that follow a request for a tunnel before the response are the tunnel's, and those after a refusal are HTTP.
#[tokio::test]
async fn early_bytes_of_tunnels_stay_as_they_are() {
    let early = b"\n\x16\x03\x01\r\nGET / HTTP/1.1\nHost: a\n\n";
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let forward = Running::forward(&["--allow", &address.port().to_string()]).await;
    let connect = format!("CONNECT {address} HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut client = forward.connect().await;
    client.write_all(&[connect.as_bytes(), early].concat()).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    let mut arrived = vec![0; early.len()];
    server.read_exact(&mut arrived).await.unwrap();
    assert_eq!(arrived, early);

    let upstream = Upstream::start().await;
    let reverse = Running::reverse(&upstream.url(), &[]).await;
    let upgrade = "GET /socket HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    let mut client = reverse.connect().await;
    client.write_all(&[upgrade.as_bytes(), early].concat()).await.unwrap();
    client.shutdown().await.unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 101 ") && answer.ends_with(early), "{}", answer.escape_ascii());

    let refused = "CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: a\r\n\r\n";
    let answers = forward.exchange(&format!("{refused}{}", get("/path"))).await.unwrap();
    let statuses: Vec<&str> = answers.split("HTTP/1.1 ").filter_map(|answer| answer.get(..3)).collect();
    assert_eq!(statuses, ["403", "400"], "{answers}");
    let no_socket = upgrade.replace("/socket", "/one");
    let answers = reverse.exchange(&format!("{no_socket}{}", get("/two"))).await.unwrap();
    assert!(answers.contains("this is /one") && answers.ends_with("this is /two"), "{answers}");
}

/// A server on a socket of this machine.
fn unix() -> (crate::files::testing::Folder, UnixListener, String) {
    let folder = crate::files::testing::Folder::new("unix");
    let path = folder.path().join("app.sock");
    let url = format!("unix:{}", path.display());
    (folder, UnixListener::bind(path).unwrap(), url)
}

/// Sockets of this machine have no reset: what breaks off ends like what is complete, and only its framing tells.
#[tokio::test]
async fn resets_end_at_sockets_of_this_machine() {
    let (_folder, listener, url) = unix();
    let proxy = Running::reverse(&url, &[]).await;
    let upload = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n";
    let mut client: TcpStream = proxy.connect().await;
    client.write_all(upload.as_bytes()).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    let mut request = Vec::new();
    while !request.ends_with(b"hello\r\n") {
        request.push(server.read_u8().await.unwrap());
    }
    set_socket_linger(&client, Some(std::time::Duration::ZERO)).unwrap();
    drop(client);
    let rest = timeout(LIMIT, server.read_to_end(&mut request)).await.expect("an end");
    assert!(rest.is_ok() && request.ends_with(b"hello\r\n"), "no last chunk, and no reset");
    // A response that breaks off is reset on the client's side.
    for half in ["Content-Length: 9\r\n\r\nhalf", "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"] {
        let mut client = proxy.connect().await;
        client.write_all(get("/").as_bytes()).await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(server.read_u8().await.unwrap());
        }
        server.write_all(format!("HTTP/1.1 200 OK\r\n{half}").as_bytes()).await.unwrap();
        drop(server);
        let error = client.read_to_end(&mut Vec::new()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{half}");
    }
}

#[tokio::test]
async fn sockets_of_this_machine_are_upstream_servers() {
    let folder = crate::files::testing::Folder::new("unix");
    let path = folder.path().join("app.sock");
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    tokio::spawn(async move {
        let (mut unix, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(unix.read_u8().await.unwrap());
        }
        unix.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nunix").await.unwrap();
    });
    let proxy = Running::reverse(&format!("unix:{}", path.display()), &[]).await;
    assert!(proxy.exchange(&get("/")).await.unwrap().ends_with("unix"));
}

#[tokio::test]
async fn certificates_of_upstream_servers_are_verified() {
    let folder = crate::files::testing::Folder::new("web");
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let certificate = certificate.to_str().unwrap();
    let files = ["--certificate", certificate, "--key", key.to_str().unwrap()];
    let server = crate::file_server::testing::Running::start(&files).await;
    for (host, status) in [("localhost", "200"), ("127.0.0.1", "502")] {
        let to = format!("https://{host}:{}", server.tcp_port());
        let proxy = Running::reverse(&to, &["--ca", certificate]).await;
        let answer = proxy.exchange(&get("/")).await.unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{host}: {answer}");
        assert!(status == "200" || answer.contains("error=tls_certificate_error"), "{host}: {answer}");
    }
}
