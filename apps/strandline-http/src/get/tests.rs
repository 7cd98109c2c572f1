//! Fetches from a server of this crate on loopback sockets.

mod pages;
mod transfers;

use std::fs;
use std::net::{TcpListener, UdpSocket};

use bytes::Bytes;
use clap::Parser;
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use strandline::Stack;

use super::transport::Choice;
use super::*;
use crate::file_server::testing::{Running, certificate};
use crate::files::testing::Folder;

#[derive(Debug, Parser)]
struct Program {
    #[command(flatten)]
    args: Args,
}

const LONG: Duration = Duration::from_secs(60);

/// Fetches, and returns the exit code.
async fn get(server: &Running, arguments: &[&str]) -> u8 {
    let udp = server.udp_port().to_string();
    let own = ["get", "--quiet", "--encapsulation-port", &udp];
    let args = Program::try_parse_from(own.iter().chain(arguments)).unwrap().args;
    fetch_all(&args).await.unwrap()
}

fn url(server: &Running, scheme: &str, path: &str) -> String {
    let port = if scheme == "http" { server.tcp_port() } else { server.sctp_port() };
    format!("{scheme}://127.0.0.1:{port}/{path}")
}

/// The content of a file, which differs from that of every other.
fn content(file: usize) -> Vec<u8> {
    (0..file * file * 10).map(|at| (at % 251 + file) as u8).collect()
}

/// Serves 200 files of growing sizes, and a page with a style, a script and an image.
async fn server() -> Running {
    let server = Running::start(&[]).await;
    let site = server.folder().join("site");
    for file in 0..200 {
        fs::write(site.join(format!("file{file}")), content(file)).unwrap();
    }
    let page = "<link rel=stylesheet href=style.css><script src=/app.js></script><img src='a b.png'>";
    for (name, text) in [("page.html", page), ("style.css", "s"), ("app.js", "j"), ("a b.png", "p")] {
        fs::write(site.join(name), text).unwrap();
    }
    server
}

#[tokio::test]
async fn two_hundred_files_arrive_each_way() {
    let server = server().await;
    for scheme in ["http", "http+sctp"] {
        let urls: Vec<String> = (0..200).map(|file| url(&server, scheme, &format!("file{file}"))).collect();
        let directory = server.folder().join(scheme);
        let mut arguments = vec!["--create-dirs", "--directory", directory.to_str().unwrap()];
        arguments.extend(urls.iter().map(String::as_str));
        assert_eq!(get(&server, &arguments).await, 0);
        for file in 0..200 {
            let got = fs::read(directory.join(format!("file{file}"))).unwrap();
            assert!(got == content(file), "{scheme} {file}");
        }
    }
    let log = server.log();
    assert_eq!(log.lines().count(), 400);
}

#[tokio::test]
async fn a_page_comes_with_its_objects() {
    let server = server().await;
    let directory = server.folder().join("page");
    let page = url(&server, "http+sctp", "page.html");
    assert_eq!(
        get(&server, &["--page", "--create-dirs", "--directory", directory.to_str().unwrap(), &page]).await,
        0
    );
    for (name, text) in [("style.css", "s"), ("app.js", "j"), ("a%20b.png", "p")] {
        assert_eq!(fs::read_to_string(directory.join(name)).unwrap(), text);
    }
}

#[tokio::test]
async fn partial_files_are_continued() {
    let server = server().await;
    let part = server.folder().join("part");
    let whole = content(100);
    for have in [0, 1, whole.len() - 1, whole.len()] {
        fs::write(&part, &whole[..have]).unwrap();
        let url = url(&server, "http+sctp", "file100");
        assert_eq!(get(&server, &["--continue", "--output", part.to_str().unwrap(), &url]).await, 0);
        assert!(fs::read(&part).unwrap() == whole, "{have}");
    }
}

#[tokio::test]
async fn files_with_one_name_are_all_kept() {
    let server = server().await;
    let directory = server.folder().join("d");
    let url = url(&server, "http+sctp", "file3");
    assert_eq!(
        get(&server, &["--create-dirs", "-d", directory.to_str().unwrap(), &url, &url, &url]).await,
        0
    );
    for name in ["file3", "file3.1", "file3.2"] {
        assert_eq!(fs::read(directory.join(name)).unwrap(), content(3));
    }
}

#[tokio::test]
async fn exit_codes_are_those_of_curl() {
    let server = server().await;
    // Ports where nothing listens.
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let refused = format!("http://127.0.0.1:{tcp}/");
    let (missing, page) = (url(&server, "http+sctp", "missing"), url(&server, "http+sctp", "file5"));
    let cases: [(&[&str], u8); 7] = [
        (&["ftp://127.0.0.1/"], 1),
        (&["http://"], 3),
        (&["http+sctp:///path"], 3),
        (&[&refused], 7),
        (&["http+sctp://127.0.0.1:9/"], 7),
        (&[&missing], 22),
        (&["--output", "/dev/full", &page], 23),
    ];
    for (arguments, code) in cases {
        assert_eq!(get(&server, arguments).await, code, "{arguments:?}");
    }
    let args = ["get", "--quiet", "--encapsulation-port", &udp, "http+sctp://127.0.0.1:80/"];
    let args = Program::try_parse_from(args).unwrap().args;
    assert_eq!(fetch_all(&args).await.unwrap(), 7, "nothing speaks SCTP there");
}

#[tokio::test]
async fn sctp_serves_where_tcp_is_refused() {
    let server = server().await;
    let output = server.folder().join("out");
    // The SCTP port is no TCP port.
    let url = format!("http://127.0.0.1:{}/file9", server.sctp_port());
    assert_eq!(get(&server, &["--output", output.to_str().unwrap(), &url]).await, 0);
    assert_eq!(fs::read(output).unwrap(), content(9));
}

#[tokio::test]
async fn https_needs_a_trusted_certificate() {
    let folder = Folder::new("certificate");
    let (certificate, key) = certificate(&folder);
    let server = Running::start(&["--certificate", &certificate, "--key", &key]).await;
    let output = server.folder().join("out");
    let to = ["--output", output.to_str().unwrap()];
    let named = format!("https://localhost:{}/", server.tcp_port());
    let other = format!("https://127.0.0.1:{}/", server.tcp_port());
    let missing = folder.path().join("none.pem");
    let cases: [(&[&str], u8); 5] = [
        (&["--cacert", &certificate, &named], 0),
        (&["--insecure", &other], 0),
        (&["--cacert", &certificate, &other], 60),
        (&[&named], 60),
        (&["--cacert", missing.to_str().unwrap(), &named], 77),
    ];
    for (arguments, code) in cases {
        assert_eq!(get(&server, &[&to, arguments].concat()).await, code, "{arguments:?}");
        assert_eq!(fs::read_to_string(&output).is_ok_and(|text| text == "<h1>hello</h1>"), code == 0);
        let _ = fs::remove_file(&output);
    }
    let plain = Running::start(&[]).await;
    let wrong = format!("https://127.0.0.1:{}/", plain.tcp_port());
    assert_eq!(get(&plain, &["--insecure", &wrong]).await, 35);
}

#[tokio::test]
async fn hosts_are_reached_by_name() {
    let server = Running::start(&[]).await;
    let output = server.folder().join("out");
    for url in [
        format!("http://localhost:{}/", server.tcp_port()),
        format!("http+sctp://localhost:{}/", server.sctp_port()),
    ] {
        assert_eq!(get(&server, &["--output", output.to_str().unwrap(), &url]).await, 0, "{url}");
        assert_eq!(fs::read_to_string(&output).unwrap(), "<h1>hello</h1>");
    }
    assert_eq!(get(&server, &["http://a..b/"]).await, 6);
    assert_eq!(get(&server, &["http+sctp://a..b/"]).await, 6);
}

#[tokio::test]
async fn announced_ports_are_used() {
    let server = Running::start(&[]).await;
    let stack = Stack::builder().udp("127.0.0.1:0".parse().unwrap()).unwrap();
    let trust = Trust { authorities: PathBuf::new(), is_insecure: false };
    // Nothing speaks SCTP at this port: only the response over TCP says where it is.
    let unused = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let transports = Transports::new(stack, unused, trust, Patience { connect: LONG, stall: LONG });
    let url = Url::parse(&url(&server, "http", "")).unwrap();
    let mut taken = Vec::new();
    while taken.last() != Some(&"sctp") {
        let request = Request::get(url.as_str()).body(Empty::<Bytes>::new()).unwrap();
        let answer = transports.send(&url, request, Choice::Any).await.unwrap();
        taken.push(answer.carrier.name());
        assert_eq!(answer.response.into_body().collect().await.unwrap().to_bytes(), "<h1>hello</h1>");
    }
    assert_eq!(taken.first(), Some(&"tcp"));
}

/// Answers one request on each connection, in turn; an empty answer closes it. Returns the port and the requests.
pub(super) fn scripted(answers: &'static [&'static str]) -> (u16, std::thread::JoinHandle<Vec<String>>) {
    use std::io::{Read, Write};
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let run = move || {
        let requests = answers.iter().map(|answer| {
            let (mut tcp, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                tcp.read_exact(&mut byte).unwrap();
                request.push(byte[0]);
            }
            tcp.write_all(answer.as_bytes()).unwrap();
            String::from_utf8(request).unwrap().to_lowercase()
        });
        requests.collect()
    };
    (port, std::thread::spawn(run))
}

/// A file from before may be anything.
#[tokio::test]
async fn repetition_resumes_only_what_it_began() {
    let folder = Folder::new("get-repetition");
    let file = folder.path().join("file");
    for (answers, text, resumes) in [
        (&["", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nnew"][..], "new", false),
        (
            &[
                "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nETag: \"1\"\r\n\r\nhalf",
                "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 4-6/7\r\nContent-Length: 3\r\n\r\nand",
            ],
            "halfand",
            true,
        ),
        (
            &[
                "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nhalf",
                "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nnew",
            ],
            "new",
            false,
        ),
    ] {
        fs::write(&file, "what was here before").unwrap();
        let (port, requests) = scripted(answers);
        let url = format!("http://127.0.0.1:{port}/");
        let arguments = ["get", "--quiet", "--retry", "1", "-o", file.to_str().unwrap(), &url];
        let args = Program::try_parse_from(arguments).unwrap().args;
        assert_eq!(fetch_all(&args).await.unwrap(), 0, "{text}");
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
        let requests = requests.join().unwrap();
        assert_eq!(requests[1].contains("range: bytes=4-"), resumes, "{}", requests[1]);
        assert_eq!(requests[1].contains("if-range: \"1\""), resumes, "{}", requests[1]);
    }
}

#[tokio::test]
async fn part_of_a_file_is_no_success() {
    for (answer, code) in [
        ("HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-2/9\r\nContent-Length: 3\r\n\r\nabc", 18),
        ("HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-2/3\r\nContent-Length: 3\r\n\r\nabc", 0),
        ("HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 4-6/7\r\nContent-Length: 3\r\n\r\nabc", 33),
        ("HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-6/7\r\nContent-Length: 3\r\n\r\nabc", 18),
        ("HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-1/2\r\nContent-Length: 3\r\n\r\nabc", 33),
        ("HTTP/1.1 206 Partial Content\r\nContent-Length: 3\r\n\r\nabc", 33),
    ] {
        let folder = Folder::new("get-part");
        let file = folder.path().join("file");
        let answers: &'static [&'static str] = Vec::leak(vec![answer]);
        let (port, _requests) = scripted(answers);
        let url = format!("http://127.0.0.1:{port}/");
        let args =
            Program::try_parse_from(["get", "--quiet", "-o", file.to_str().unwrap(), &url]).unwrap().args;
        assert_eq!(fetch_all(&args).await.unwrap(), code, "{answer}");
    }
}

#[tokio::test]
async fn failed_connections_have_exit_codes_of_curl() {
    const PART: &str = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nhalf";
    const THERE: &str =
        "HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let folder = Folder::new("get-failures");
    let file = folder.path().join("file");
    let cases: [(&'static [&'static str], u8); 3] = [(&[PART], 18), (&[THERE; 11], 47), (&[""], 52)];
    for (answers, code) in cases {
        let (port, requests) = scripted(answers);
        let url = format!("http://127.0.0.1:{port}/");
        let arguments = ["get", "--quiet", "-o", file.to_str().unwrap(), &url];
        assert_eq!(fetch_all(&Program::try_parse_from(arguments).unwrap().args).await.unwrap(), code);
        assert_eq!(requests.join().unwrap().len(), answers.len());
    }
}

#[tokio::test]
async fn a_reset_connection_is_a_failure_to_receive() {
    use std::io::Read;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let reset = std::thread::spawn(move || {
        let (mut tcp, _) = listener.accept().unwrap();
        tcp.read_exact(&mut [0]).unwrap();
        rustix::net::sockopt::set_socket_linger(&tcp, Some(Duration::ZERO)).unwrap();
    });
    let args = Program::try_parse_from(["get", "--quiet", &url]).unwrap().args;
    assert_eq!(fetch_all(&args).await.unwrap(), 56);
    reset.join().unwrap();
}

/// The clock stands still until nothing is left to do but to wait.
#[tokio::test(start_paused = true)]
async fn the_time_limit_holds_for_silent_servers() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let args = Program::try_parse_from(["get", "--quiet", "-m", "7", &url]).unwrap().args;
    let begin = tokio::time::Instant::now();
    assert_eq!(fetch_all(&args).await.unwrap(), 28);
    assert!(begin.elapsed() >= Duration::from_secs(7));
}

#[tokio::test]
async fn pages_overwrite_nothing() {
    let server = server().await;
    let directory = server.folder().join("page");
    let (style, page) = (directory.join("style.css"), url(&server, "http+sctp", "page.html"));
    let own = ["--page", "--directory", directory.to_str().unwrap(), &page];
    fs::create_dir(&directory).unwrap();
    for more in [&[][..], &["--continue"]] {
        fs::write(&style, "").unwrap();
        assert_eq!(get(&server, &[&own, more].concat()).await, 0);
        assert_eq!(fs::read_to_string(&style).unwrap(), "", "{more:?}");
    }
    for name in ["style.css.1", "style.css.2", "app.js.1", "page.html"] {
        assert!(directory.join(name).exists(), "{name}");
    }
    assert_eq!(get(&server, &[&own[..], &["--force"]].concat()).await, 0);
    assert_eq!(fs::read_to_string(&style).unwrap(), "s");
}

#[tokio::test]
async fn servers_choose_no_names() {
    let folder = Folder::new("get-chosen");
    let directory = folder.path().join("d");
    let answers: &'static [&'static str] = &[
        "HTTP/1.1 302 Found\r\nLocation: /.profile\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Disposition: attachment; filename=\"../up\"\r\nContent-Length: 1\r\n\r\nx",
    ];
    let (port, _requests) = scripted(answers);
    let url = format!("http://127.0.0.1:{port}/name?a=b/c");
    let arguments = ["get", "--quiet", "--create-dirs", "-d", directory.to_str().unwrap(), &url];
    assert_eq!(fetch_all(&Program::try_parse_from(arguments).unwrap().args).await.unwrap(), 0);
    let found: Vec<_> = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(found, ["name"]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[tokio::test]
#[should_panic(expected = "a fetch that panics")]
async fn a_panic_is_no_success() {
    let fetch = async |number: u32| assert!(number != 1, "a fetch that panics");
    in_order((0..3).map(|number| tokio::spawn(fetch(number))).collect()).await;
}
