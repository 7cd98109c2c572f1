//! Continued files, limits, repetitions and credentials.

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

use super::*;

async fn run(arguments: &[&str]) -> u8 {
    let args = Program::try_parse_from([&["get", "--quiet"], arguments].concat()).unwrap().args;
    fetch_all(&args).await.unwrap()
}

/// Fetches a file of which there is a part, with `-C`. Returns the exit code, the file afterwards, and the request.
async fn continued(part: &str, answers: &'static [&'static str]) -> (u8, String, String) {
    let folder = Folder::new("get-continued");
    let file = folder.path().join("file");
    fs::write(&file, part).unwrap();
    let (port, requests) = scripted(answers);
    let url = format!("http://127.0.0.1:{port}/");
    let code = run(&["-C", "-", "-o", file.to_str().unwrap(), &url]).await;
    (code, fs::read_to_string(&file).unwrap(), requests.join().unwrap().remove(0))
}

#[tokio::test]
async fn files_are_continued_only_by_their_rest() {
    let cases: [(&'static [&'static str], u8, &str); 7] = [
        // Another part than the one asked for.
        (
            &["HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 3-6/7\r\nContent-Length: 4\r\n\r\nfand"],
            33,
            "half",
        ),
        (
            &["HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-2/3\r\nContent-Length: 3\r\n\r\nnew"],
            33,
            "half",
        ),
        // The server doesn't continue files.
        (&["HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nhalfand"], 33, "half"),
        // Its file is shorter.
        (
            &["HTTP/1.1 416 Range Not Satisfiable\r\nContent-Range: bytes */3\r\nContent-Length: 0\r\n\r\n"],
            33,
            "half",
        ),
        (
            &["HTTP/1.1 416 Range Not Satisfiable\r\nContent-Range: bytes */4\r\nContent-Length: 0\r\n\r\n"],
            0,
            "half",
        ),
        // Less than announced.
        (
            &["HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 4-6/7\r\nContent-Length: 2\r\n\r\nan"],
            18,
            "halfan",
        ),
        (
            &["HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 4-6/7\r\nContent-Length: 3\r\n\r\nand"],
            0,
            "halfand",
        ),
    ];
    for (answers, code, text) in cases {
        let (found, file, request) = continued("half", answers).await;
        assert_eq!((found, file.as_str()), (code, text), "{answers:?}");
        assert!(request.contains("range: bytes=4-") && !request.contains("if-range"), "{request}");
    }
}

#[tokio::test]
async fn later_runs_continue_only_the_same_file() {
    const HALF: &str = "HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Length: 7\r\n\r\nhalf";
    let folder = Folder::new("get-later");
    let file = folder.path().join("file");
    let path = file.to_str().unwrap();
    for (answer, code, text) in [
        ("HTTP/1.1 200 OK\r\nETag: \"2\"\r\nContent-Length: 3\r\n\r\nnew", 33, "half"),
        (
            "HTTP/1.1 206 Partial Content\r\nETag: \"2\"\r\nContent-Range: bytes 4-6/7\r\nContent-Length: 3\r\n\r\nand",
            33,
            "half",
        ),
        (
            "HTTP/1.1 206 Partial Content\r\nETag: \"1\"\r\nContent-Range: bytes 4-6/7\r\nContent-Length: 3\r\n\r\nand",
            0,
            "halfand",
        ),
    ] {
        let _ = fs::remove_file(&file);
        let answers: &'static [&'static str] = Vec::leak(vec![HALF, answer]);
        let (port, requests) = scripted(answers);
        let url = format!("http://127.0.0.1:{port}/");
        assert_eq!(run(&["-o", path, &url]).await, 18);
        assert_eq!(run(&["-C", "-", "-o", path, &url]).await, code, "{answer}");
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
        assert!(requests.join().unwrap()[1].contains("if-range: \"1\""));
    }
    // A complete file has no note any more.
    let output = Output::File { path: file.clone(), existing: Existing::Opened };
    assert!(output.validator().is_none());
}

#[tokio::test]
async fn dates_show_that_a_file_is_the_same() {
    const HALF: &str = "HTTP/1.1 200 OK\r\nLast-Modified: Tue, 14 Nov 2023 22:13:20 GMT\r\n\
        Date: Tue, 14 Nov 2023 22:13:30 GMT\r\nContent-Length: 7\r\n\r\nhalf";
    const REST: &str =
        "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 4-6/7\r\nContent-Length: 3\r\n\r\nand";
    let folder = Folder::new("get-dates");
    let file = folder.path().join("file");
    let (port, requests) = scripted(&[HALF, REST]);
    let url = format!("http://127.0.0.1:{port}/");
    assert_eq!(run(&["--retry", "1", "-o", file.to_str().unwrap(), &url]).await, 0);
    assert_eq!(fs::read_to_string(&file).unwrap(), "halfand");
    let requests = requests.join().unwrap();
    assert!(requests[1].contains("if-range: tue, 14 nov 2023 22:13:20 gmt"), "{}", requests[1]);
}

#[tokio::test]
async fn sizes_of_files_are_limited() {
    let folder = Folder::new("get-size");
    let file = folder.path().join("file");
    for (answer, max, code) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nhalfand", "6", 63),
        ("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhalfand", "6", 63),
        ("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nhalfand", "7", 0),
    ] {
        let answers: &'static [&'static str] = Vec::leak(vec![answer]);
        let (port, _requests) = scripted(answers);
        let url = format!("http://127.0.0.1:{port}/");
        assert_eq!(run(&["--max-filesize", max, "-o", file.to_str().unwrap(), &url]).await, code, "{answer}");
    }
}

#[tokio::test]
async fn missing_directories_are_created_only_if_asked() {
    const WHOLE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nnew";
    let folder = Folder::new("get-directories");
    let (directory, file) = (folder.path().join("a/b"), folder.path().join("c/d/file"));
    let (directory, file) = (directory.to_str().unwrap(), file.to_str().unwrap());
    let (port, _requests) = scripted(&[WHOLE; 2]);
    let url = format!("http://127.0.0.1:{port}/file");
    for place in [["-d", directory], ["-o", file]] {
        assert_eq!(run(&[&place[..], &[&url]].concat()).await, 23);
        assert_eq!(run(&[&place[..], &["--create-dirs", &url]].concat()).await, 0);
    }
    assert_eq!(fs::read_to_string(file).unwrap(), "new");
    assert_eq!(fs::read_to_string(format!("{directory}/file")).unwrap(), "new");
}

#[tokio::test]
async fn credentials_go_to_their_server_only() {
    const THERE: &str =
        "HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    const WHOLE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nnew";
    let (other, of_other) = scripted(&[WHOLE]);
    let away = format!(
        "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:{other}/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    let answers: &'static [&'static str] = Vec::leak(vec![THERE, String::leak(away)]);
    let (port, requests) = scripted(answers);
    let folder = Folder::new("get-credentials");
    let file = folder.path().join("file");
    let url = format!("http://user:pass@127.0.0.1:{port}/");
    assert_eq!(run(&["-o", file.to_str().unwrap(), &url]).await, 0);
    for request in requests.join().unwrap() {
        assert!(request.contains("authorization: basic dxnlcjpwyxnz\r\n"), "{request}");
        assert!(!request.contains("user:pass") && !request.contains('@'), "{request}");
    }
    assert!(!of_other.join().unwrap()[0].contains("authorization"));
}

/// Answers requests in turn, on a task of this runtime, so that time stands still meanwhile.
async fn answering(answers: &'static [&'static str]) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        for answer in answers {
            let (mut tcp, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                request.push(tcp.read_u8().await.unwrap());
            }
            tcp.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    url
}

#[tokio::test(start_paused = true)]
async fn servers_say_when_to_repeat_a_request() {
    const BUSY: &str =
        "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    const DOWN: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    const LATER: &str = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: Tue, 14 Nov 2023 22:13:20 GMT\r\n\
        Content-Length: 0\r\nConnection: close\r\n\r\n";
    const NEVER: &str = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 100000\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    const WHOLE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let cases: [(&'static [&'static str], &str, u8, u64); 5] = [
        (&[BUSY, WHOLE], "1", 0, 7),
        // The second pause is twice the first one, which the server has chosen.
        (&[BUSY, DOWN, WHOLE], "2", 0, 7 + 2),
        (&[DOWN, DOWN, DOWN], "2", 22, 1 + 2),
        // The date has passed.
        (&[LATER, WHOLE], "1", 0, 0),
        (&[NEVER], "5", 22, 0),
    ];
    let folder = Folder::new("get-later");
    let file = folder.path().join("file");
    for (answers, retry, code, seconds) in cases {
        let url = answering(answers).await;
        let begin = Instant::now();
        assert_eq!(run(&["--retry", retry, "-o", file.to_str().unwrap(), &url]).await, code, "{answers:?}");
        // The end of the association that was tried takes up to a second.
        let waited = begin.elapsed().as_secs();
        assert!((seconds..=seconds + 1).contains(&waited), "{waited} s instead of {seconds}: {answers:?}");
    }
}

#[tokio::test]
async fn certificates_of_authorities_get_a_hint() {
    let folder = Folder::new("get-authority");
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("cert.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
    fs::write(path("key.pem"), key.serialize_pem()).unwrap();
    let server = Running::start(&["--certificate", &path("cert.pem"), "--key", &path("key.pem")]).await;
    let stack = Stack::builder().udp("127.0.0.1:0".parse().unwrap()).unwrap();
    let trust = Trust { authorities: path("cert.pem").into(), is_insecure: false };
    let transports = Transports::new(stack, 9899, trust, Patience { connect: LONG, stall: LONG });
    let url = Url::parse(&format!("https://localhost:{}/", server.tcp_port())).unwrap();
    let request = Request::get(url.as_str()).body(Empty::<Bytes>::new()).unwrap();
    let failure = transports.send(&url, request, Choice::Any).await.err().unwrap();
    let text = failure.to_string();
    assert!(failure.exit_code() == 60 && text.contains("basicConstraints=CA:FALSE"), "{text}");
}

#[tokio::test]
async fn several_outputs_belong_to_urls_in_turn() {
    const WHOLE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nnew";
    const REST: &str =
        "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 4-6/7\r\nContent-Length: 3\r\n\r\nand";
    let folder = Folder::new("get-outputs");
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (one, two) = (file("a/one"), file("b/two"));
    fs::create_dir(folder.path().join("b")).unwrap();
    fs::write(&two, "half").unwrap();
    let servers = [scripted(&[WHOLE]), scripted(&[REST])];
    // Without a scheme, as for curl.
    let urls = servers.each_ref().map(|(port, _)| format!("127.0.0.1:{port}/x?to=http://y/"));
    let options = ["-o", &one, "-o", &two, "-C", "-", "--create-dirs"];
    assert_eq!(run(&[&options[..], &[&urls[0], &urls[1]]].concat()).await, 0);
    assert_eq!(fs::read_to_string(one).unwrap(), "new");
    assert_eq!(fs::read_to_string(two).unwrap(), "halfand");
    let requests = servers.map(|(_, requests)| requests.join().unwrap().remove(0));
    assert!(!requests[0].contains("range:") && requests[1].contains("range: bytes=4-"), "{requests:?}");
}

#[tokio::test]
async fn exit_codes_follow_the_order_of_urls() {
    const MISSING: &str = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let folder = Folder::new("get-order");
    let directory = folder.path().to_str().unwrap();
    for is_first in [true, false] {
        let (port, _requests) = scripted(&[MISSING]);
        let missing = format!("http://127.0.0.1:{port}/");
        let urls =
            if is_first { [missing.as_str(), "http://a:99999/"] } else { ["http://a:99999/", &missing] };
        let code = run(&["-d", directory, urls[0], urls[1]]).await;
        assert_eq!(code, if is_first { 22 } else { 3 });
    }
}

#[test]
fn urls_have_no_need_of_a_scheme() {
    for (text, wanted) in [
        ("localhost:8080/x", "http://localhost:8080/x"),
        ("localhost", "http://localhost/"),
        ("[::1]:81?to=http://a", "http://[::1]:81/?to=http://a"),
        ("user:secret@a", "http://user:secret@a/"),
        ("http+sctp://a:81/x", "http+sctp://a:81/x"),
        ("HTTPS://A/", "https://a/"),
        ("Http:/a:81/x", "http://a:81/x"),
        ("http:81/x", "http://http:81/x"),
    ] {
        assert_eq!(parse(text).unwrap().as_str(), wanted);
    }
    for (text, code) in
        [("ftp://a/", 1), ("file:///a", 1), ("a:99999", 3), ("", 3), ("/path", 3), ("http://", 3)]
    {
        assert_eq!(parse(text).unwrap_err().exit_code(), code, "{text}");
    }
}
