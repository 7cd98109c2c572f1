//! `strandline http get` as curl's users know it: options, standard output, and exit codes.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread::JoinHandle;

const PROGRAM: &str = env!("CARGO_BIN_EXE_strandline");

/// An empty directory, which is removed when this value is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("strandline-http-get-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Answers one request on each connection, in turn. Returns the URL and the requests.
fn scripted(answers: &'static [&'static str]) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/file", listener.local_addr().unwrap());
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
    (url, std::thread::spawn(run))
}

fn run(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(PROGRAM).current_dir(directory).args(arguments).output().unwrap()
}

fn get(directory: &Path, arguments: &[&str]) -> Output {
    run(directory, &[&["http", "get", "--quiet"], arguments].concat())
}

#[test]
fn a_hyphen_names_standard_output() {
    const WHOLE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nnew";
    let folder = Folder::new("hyphen");
    let (url, _requests) = scripted(&[WHOLE]);
    let output = get(&folder.0, &["-o", "-", &url]);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b"new"[..]));
    assert!(folder.names().is_empty(), "{:?}", folder.names());
}

#[test]
fn standard_output_gets_each_byte_once() {
    const HALF: &str = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nETag: \"1\"\r\n\r\nhalf";
    const REST: &str =
        "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 4-6/7\r\nContent-Length: 3\r\n\r\nand";
    const OTHER: &str = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nETag: \"2\"\r\n\r\nnew";
    const WITHOUT: &str = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nhalf";
    let folder = Folder::new("shown");
    let cases: [(&'static [&'static str], i32, &str); 3] =
        [(&[HALF, REST], 0, "halfand"), (&[HALF, OTHER], 18, "half"), (&[WITHOUT], 18, "half")];
    for (answers, code, text) in cases {
        let (url, requests) = scripted(answers);
        let output = get(&folder.0, &["--retry", "1", &url]);
        let shown = String::from_utf8(output.stdout).unwrap();
        assert_eq!((output.status.code(), shown.as_str()), (Some(code), text), "{answers:?}");
        let requests = requests.join().unwrap();
        if let Some(second) = requests.get(1) {
            assert!(second.contains("range: bytes=4-") && second.contains("if-range: \"1\""), "{second}");
        }
    }
}

#[test]
fn wrong_options_end_with_2() {
    let folder = Folder::new("options");
    let cases: [(&[&str], &str); 10] = [
        (&["http", "get", "-o", "f", "127.0.0.1:1/a", "127.0.0.1:1/b", "127.0.0.1:1/c"], "-d DIR"),
        (&["http", "get", "-C", "-", "http://127.0.0.1:1/"], "-o"),
        (&["http", "get", "-C", "http://127.0.0.1:1/"], "[possible values: -]"),
        (&["http", "get", "--json", "-o", "-", "http://127.0.0.1:1/"], "--json"),
        (&["http", "get", "-m", "soon", "http://127.0.0.1:1/"], "such as 30 or 0.5"),
        (&["http", "get", "-P", "0", "http://127.0.0.1:1/"], "0 is not in 1..=1000"),
        (&["http", "get"], "required"),
        (&["http", "proxy", "reverse", "--to", "127.0.0.1:8000"], "http://127.0.0.1:8000"),
        (&["http", "proxy", "forward", "--via", "https://127.0.0.1:1"], "--via"),
        (&["load", "http", "--streams", "3", "http://127.0.0.1:1/"], "--streams requires SCTP"),
    ];
    for (arguments, says) in cases {
        let output = run(&folder.0, arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.contains(says), "{arguments:?}: {stderr}");
    }
    assert!(folder.names().is_empty());
}

#[test]
fn times_below_a_second_are_limits() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let folder = Folder::new("time");
    assert_eq!(get(&folder.0, &["-m", "0.3", &url]).status.code(), Some(28));
    assert_eq!(get(&folder.0, &["-m", "0", "-y", "0.3", &url]).status.code(), Some(28));
}

/// The exit codes of curl itself, for the same responses.
#[test]
fn curl_ends_with_the_same_codes() {
    const SHORT: &str =
        "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 4-6/7\r\nContent-Length: 3\r\n\r\nan";
    const WHOLE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\nhalfand";
    let folder = Folder::new("codes");
    let file = folder.0.join("file");
    let cases: [(&'static [&'static str], i32); 2] = [(&[SHORT], 18), (&[WHOLE], 33)];
    for (answers, code) in cases {
        let programs: [(&str, &[&str]); 2] = [
            ("curl", &["--silent", "-C", "-", "-o", "file"]),
            (PROGRAM, &["http", "get", "--quiet", "-C", "-", "-o", "file"]),
        ];
        for (program, arguments) in programs {
            fs::write(&file, "half").unwrap();
            let (url, _requests) = scripted(answers);
            let ran =
                Command::new(program).current_dir(&folder.0).args(arguments).arg(&url).output().unwrap();
            assert_eq!(ran.status.code(), Some(code), "{program} {answers:?}");
        }
    }
    for (program, arguments) in [("curl", &["--silent"][..]), (PROGRAM, &["http", "get", "--quiet"])] {
        let (url, _requests) = scripted(&[WHOLE]);
        let mut program = Command::new(program);
        let ran = program.current_dir(&folder.0).args(arguments).args(["-o", "missing/file", &url]).output();
        assert_eq!(ran.unwrap().status.code(), Some(23));
    }
}
