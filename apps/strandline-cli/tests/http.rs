//! End-to-end tests of `strandline http serve` and `strandline http get`.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::announced::announced;

const PROGRAM: &str = env!("CARGO_BIN_EXE_strandline");
/// Files of the site besides the page.
const FILES: usize = 200;

/// A server with a site of its own, which ends when this value is dropped.
struct Server {
    folder: PathBuf,
    child: Child,
    listening: Value,
}

impl Server {
    /// Serves a page with a style, a script and an image, and 200 files of growing sizes.
    fn start() -> Self {
        Self::start_with(|_| Vec::new())
    }

    /// As [`start`](Self::start), with more arguments, which may name files in the server's folder.
    fn start_with(more: impl FnOnce(&Path) -> Vec<String>) -> Self {
        Self::begin("exec \"$@\"", more)
    }

    /// As [`start`](Self::start), by a shell that runs a script with the command as arguments.
    fn start_under(script: &str) -> Self {
        Self::begin(script, |_| Vec::new())
    }

    fn begin(script: &str, more: impl FnOnce(&Path) -> Vec<String>) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("strandline-http-cli-{}-{number}", std::process::id()));
        let site = folder.join("site");
        fs::create_dir_all(&site).unwrap();
        let page = "<link rel=stylesheet href=style.css><script src=/app.js></script><img src='a b.png'>";
        for (name, text) in [("index.html", page), ("style.css", "s"), ("app.js", "j"), ("a b.png", "p")] {
            fs::write(site.join(name), text).unwrap();
        }
        for file in 0..FILES {
            fs::write(site.join(format!("file{file}")), Self::content(file)).unwrap();
        }
        let mut server = Command::new("sh");
        server.args([
            "-c",
            script,
            "sh",
            PROGRAM,
            "http",
            "serve",
            "--json",
            "--listen",
            "127.0.0.1:0",
            "--sctp",
            "0",
        ]);
        server.args(["--encapsulation", "127.0.0.1:0"]).args(more(&folder)).arg(&site);
        let (child, listening) = announced(&mut server);
        Self { folder, child, listening }
    }

    /// The content of a file, which differs from that of every other.
    fn content(file: usize) -> Vec<u8> {
        (0..file * file * 10).map(|at| (at % 251 + file) as u8).collect()
    }

    fn url(&self, scheme: &str, path: &str) -> String {
        let tcp = self.listening["tcp"].as_str().unwrap();
        let port = match scheme {
            "http" => tcp.rsplit(':').next().unwrap().to_owned(),
            _ => self.listening["sctp"].to_string(),
        };
        format!("{scheme}://127.0.0.1:{port}/{path}")
    }

    fn get(&self, arguments: &[&str]) -> Output {
        let udp = self.listening["encapsulation"].as_str().unwrap().rsplit(':').next().unwrap().to_owned();
        let mut get = Command::new(PROGRAM);
        get.current_dir(&self.folder).args(["http", "get", "--quiet", "--encapsulation-port", &udp]);
        get.args(arguments).output().unwrap()
    }

    /// Fetches with `--json`, and returns the lines.
    fn reports(&self, arguments: &[&str]) -> Vec<Value> {
        let output = self.get(&[&["--json"], arguments].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn two_hundred_files_arrive_each_way() {
    let server = Server::start();
    for scheme in ["http", "http+sctp"] {
        let urls: Vec<String> = (0..FILES).map(|file| server.url(scheme, &format!("file{file}"))).collect();
        let mut arguments = vec!["--create-dirs", "--directory", scheme];
        arguments.extend(urls.iter().map(String::as_str));
        let reports = server.reports(&arguments);
        assert_eq!(reports.len(), FILES);
        for (file, report) in reports.iter().enumerate() {
            let got = fs::read(server.folder.join(scheme).join(format!("file{file}"))).unwrap();
            assert!(got == Server::content(file), "{report}");
            let transport = report["transport"].as_str().unwrap();
            assert!(transport == "sctp" || (transport == "tcp" && scheme == "http"), "{report}");
        }
    }
}

#[test]
fn a_page_comes_with_its_objects() {
    let server = Server::start();
    let reports =
        server.reports(&["--page", "--create-dirs", "--directory", "page", &server.url("http+sctp", "")]);
    assert_eq!(reports.len(), 4);
    for (name, text) in [("style.css", "s"), ("app.js", "j"), ("a%20b.png", "p")] {
        assert_eq!(fs::read_to_string(server.folder.join("page").join(name)).unwrap(), text);
    }
}

#[test]
fn one_response_goes_to_standard_output() {
    let server = Server::start();
    for scheme in ["http", "http+sctp"] {
        let output = server.get(&[&server.url(scheme, "file7")]);
        assert_eq!((output.status.code(), output.stdout), (Some(0), Server::content(7)));
    }
}

#[test]
fn curl_gets_several_ranges() {
    let server = Server::start();
    let url = server.url("http", "file7");
    let fetched =
        Command::new("curl").args(["--silent", "--include", "-r", "0-1,5-9", &url]).output().unwrap();
    let text = String::from_utf8_lossy(&fetched.stdout).into_owned();
    assert!(text.starts_with("HTTP/1.1 206 "), "{text}");
    let boundary = text.split("boundary=").nth(1).unwrap().lines().next().unwrap();
    let content = Server::content(7);
    let part = |range: &str, bytes: &[u8]| {
        let head = format!(
            "--{boundary}\r\nContent-Type: application/octet-stream\r\nContent-Range: bytes {range}/490\r\n\r\n"
        );
        [head.as_bytes(), bytes, b"\r\n"].concat()
    };
    let end = format!("--{boundary}--\r\n");
    let wanted = [part("0-1", &content[0..2]), part("5-9", &content[5..10]), end.into_bytes()].concat();
    assert!(fetched.stdout.ends_with(&wanted), "{text}");
    let joined = Command::new("curl").args(["--silent", "-r", "0-4,3-9", &url]).output().unwrap();
    assert_eq!(joined.stdout, &content[..10]);
}

#[test]
fn partial_files_are_continued() {
    let server = Server::start();
    let whole = Server::content(100);
    for have in [0, 1, whole.len() - 1, whole.len()] {
        fs::write(server.folder.join("part"), &whole[..have]).unwrap();
        let url = server.url("http+sctp", "file100");
        let reports = server.reports(&["--continue", "--output", "part", &url]);
        assert_eq!(reports[0]["bytes"], whole.len() - have);
        assert!(fs::read(server.folder.join("part")).unwrap() == whole, "{have}");
    }
}

#[test]
fn files_with_one_name_are_all_kept() {
    let server = Server::start();
    let url = server.url("http+sctp", "file3");
    let reports = server.reports(&["--create-dirs", "--directory", "d", &url, &url, &url]);
    let files: Vec<&str> = reports.iter().map(|report| report["file"].as_str().unwrap()).collect();
    assert_eq!(files, ["d/file3", "d/file3.1", "d/file3.2"]);
}

#[test]
fn exit_codes_are_those_of_curl() {
    let server = Server::start();
    // Nothing listens on port 1, and no socket that asks for any port is given it.
    let (udp, closed) = ("1", "http://127.0.0.1:1/");
    let (missing, page) = (server.url("http+sctp", "missing"), server.url("http+sctp", "file5"));
    let cases: [(&[&str], i32); 6] = [
        (&["ftp://127.0.0.1/"], 1),
        (&["http://"], 3),
        (&["--encapsulation-port", udp, closed], 7),
        (&["--encapsulation-port", udp, "http+sctp://127.0.0.1:9/"], 7),
        (&[&missing], 22),
        (&["--output", "/dev/full", &page], 23),
    ];
    for (arguments, code) in cases {
        let mut get = Command::new(PROGRAM);
        let own = server.listening["encapsulation"].as_str().unwrap().rsplit(':').next().unwrap().to_owned();
        get.args(["http", "get", "--quiet"]);
        if !arguments.contains(&"--encapsulation-port") {
            get.args(["--encapsulation-port", &own]);
        }
        let output = get.args(arguments).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
        assert!(stderr.starts_with("strandline: "), "{stderr}");
    }
}

#[test]
fn a_server_that_is_told_to_end_succeeds() {
    let mut server = Server::start();
    kill_process(Pid::from_child(&server.child), Signal::TERM).unwrap();
    assert!(server.child.wait().unwrap().success());
}

/// Serves with an access log in a file of this name, and with metrics.
fn with_log(name: &str) -> Server {
    Server::start_with(|folder| {
        let log = folder.join(name).to_str().unwrap().to_owned();
        ["--access-log", &log, "--metrics", "127.0.0.1:0"].map(str::to_owned).to_vec()
    })
}

/// The metrics have no TLS.
#[test]
fn metrics_beyond_loopback_are_warned_of() {
    for (address, warns) in [("127.0.0.1:0", false), ("[::1]:0", false), ("0.0.0.0:0", true)] {
        let file = std::env::temp_dir().join(format!("strandline-http-warned-{}", std::process::id()));
        let script = format!("exec \"$@\" 2> {}", file.display());
        let mut server = Server::begin(&script, |_| ["--metrics", address].map(str::to_owned).to_vec());
        kill_process(Pid::from_child(&server.child), Signal::TERM).unwrap();
        assert!(server.child.wait().unwrap().success());
        let told = fs::read_to_string(&file).unwrap();
        fs::remove_file(&file).unwrap();
        let warning = format!("--metrics: {address} is reachable from other machines without TLS");
        assert_eq!(told.contains(&warning), warns, "{told}");
    }
}

fn curl(url: &str) -> String {
    let fetched = Command::new("curl").args(["--silent", "--show-error", "-m", "20", url]).output().unwrap();
    assert!(fetched.status.success(), "{url}: {}", String::from_utf8_lossy(&fetched.stderr));
    String::from_utf8(fetched.stdout).unwrap()
}

/// Pages of metrics that a test waits for at most. A page takes some milliseconds.
const PAGES_MAX: usize = 5000;

/// Waits until a metric is at least as large, and returns it.
fn metric(server: &Server, name: &str, at_least: u64) -> u64 {
    let url = format!("http://{}/metrics", server.listening["metrics"].as_str().unwrap());
    let mut page = String::new();
    for _ in 0..PAGES_MAX {
        page = curl(&url);
        let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
        match value {
            Some(value) if value >= at_least => return value,
            Some(_) => {}
            None => panic!("{name} is missing in {page}"),
        }
    }
    panic!("{name} stays below {at_least} in {page}")
}

const WRITTEN: &str = "strandline_http_access_log_lines_total";
const LOST: &str = "strandline_http_access_log_lost_lines_total";

#[test]
fn sighup_opens_the_access_log_again() {
    let server = with_log("log");
    let (log, before) = (server.folder.join("log"), server.folder.join("log.1"));
    curl(&server.url("http", "file1"));
    assert_eq!(metric(&server, WRITTEN, 1), 1);
    fs::rename(&log, &before).unwrap();
    kill_process(Pid::from_child(&server.child), Signal::HUP).unwrap();
    // A page of metrics shows that the server goes on, and takes time.
    let is_open = (0..PAGES_MAX).any(|_| log.exists() || metric(&server, WRITTEN, 1) < 1);
    assert!(is_open, "the log is opened again");
    curl(&server.url("http", "file2"));
    assert_eq!(metric(&server, WRITTEN, 2), 2);
    assert!(fs::read_to_string(&before).unwrap().contains("/file1"));
    let text = fs::read_to_string(&log).unwrap();
    assert!(text.contains("/file2") && !text.contains("/file1"), "{text}");
}

#[test]
fn sighup_without_access_log_ends_nothing() {
    let mut server = Server::start();
    for _ in 0..3 {
        kill_process(Pid::from_child(&server.child), Signal::HUP).unwrap();
        assert_eq!(curl(&server.url("http", "style.css")), "s");
    }
    kill_process(Pid::from_child(&server.child), Signal::TERM).unwrap();
    assert!(server.child.wait().unwrap().success());
}

#[test]
fn a_full_disk_under_the_log_ends_nothing() {
    let server = Server::start_with(|_| {
        ["--access-log", "/dev/full", "--metrics", "127.0.0.1:0"].map(str::to_owned).to_vec()
    });
    for _ in 0..3 {
        assert_eq!(curl(&server.url("http", "style.css")), "s");
    }
    assert_eq!(metric(&server, LOST, 3), 3);
    assert_eq!(metric(&server, WRITTEN, 0), 0);
}

/// A pipe holds 64 KiB, here some 16 lines, and the queue 4 MiB.
#[test]
fn a_log_that_nobody_reads_delays_nothing() {
    let pipe = std::env::temp_dir().join(format!("strandline-http-log-{}", std::process::id()));
    let _ = fs::remove_file(&pipe);
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // Opened for both directions, so that neither side waits for the other to open it.
    let _reader = fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    let server = Server::start_with(|_| {
        ["--access-log", pipe.to_str().unwrap(), "--metrics", "127.0.0.1:0"].map(str::to_owned).to_vec()
    });
    let agent = server.folder.join("agent");
    fs::write(&agent, format!("user-agent = \"{}\"\n", "x".repeat(4000))).unwrap();
    let agent = agent.to_str().unwrap();
    let url = server.url("http", "file[1-150]");
    for _ in 0..10 {
        let curl = ["--silent", "--show-error", "-m", "60", "-K", agent, "-o", "/dev/null"];
        assert!(Command::new("curl").args(curl).arg(&url).status().unwrap().success());
    }
    assert!(metric(&server, LOST, 1) > 100, "1,500 lines of 4,000 bytes don't fit");
    fs::remove_file(&pipe).unwrap();
}

/// Other programs take the descriptors of an accepted connection, too.
#[test]
fn running_out_of_descriptors_ends_nothing() {
    let mut server = Server::start_under("ulimit -n 40; exec \"$@\"");
    let tcp = server.listening["tcp"].as_str().unwrap().to_owned();
    let held: Vec<TcpStream> = (0..60).map(|_| TcpStream::connect(&tcp).unwrap()).collect();
    // The server answers those that it could accept.
    assert!(held.iter().any(|mut connection| {
        connection.write_all(b"GET /style.css HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").is_ok()
            && connection.read(&mut [0]).is_ok_and(|bytes| bytes == 1)
    }));
    assert!(server.child.try_wait().unwrap().is_none());
    drop(held);
    assert_eq!(curl(&server.url("http", "style.css")), "s");
}
