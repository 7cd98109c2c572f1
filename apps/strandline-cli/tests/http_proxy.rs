//! `strandline http proxy` with curl, wget, nginx and Chromium.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

use crate::announced::announced;
use crate::browser::browse;

const PROGRAM: &str = env!("CARGO_BIN_EXE_strandline");
const FILES: usize = 200;
/// Names that need to be encoded in a URL, in turn.
const NAMES: [&str; 8] = ["plain", "a b", "ü", "100%", "x#y", "q?r=s", "+;,@", "\u{1f30d}"];

/// A folder that is removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("strandline-proxy-{}-{number}", std::process::id()));
        fs::create_dir_all(path.join("site")).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A program that ends when this value is dropped.
struct Running {
    child: Child,
    listening: Value,
}

impl Running {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(PROGRAM);
        command.args(["http"]).args(arguments).args(["--json", "--listen", "127.0.0.1:0"]);
        let (child, listening) = announced(&mut command);
        Self { child, listening }
    }

    fn tcp(&self) -> String {
        self.listening["tcp"].as_str().unwrap().to_owned()
    }

    fn sctp(&self) -> String {
        format!("127.0.0.1:{}", self.listening["sctp"])
    }

    fn udp_port(&self) -> String {
        self.listening["encapsulation"].as_str().unwrap().rsplit(':').next().unwrap().to_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const LOCAL: [&str; 4] = ["--encapsulation", "127.0.0.1:0", "--sctp", "0"];

fn serve(site: &Path) -> Running {
    Running::start(&[&["serve", site.to_str().unwrap()], &LOCAL[..]].concat())
}

/// Starts a forward proxy with a log.
fn forward(server: &Running, log: &Path) -> Running {
    let options = ["--access-log", log.to_str().unwrap(), "--access-log-format", "json"];
    Running::start(
        &[&["proxy", "forward", "--encapsulation-port", &server.udp_port()], &options[..]].concat(),
    )
}

/// Returns the name of a file of the site.
fn plain_name(file: usize) -> String {
    format!("{}{file}", NAMES[file % NAMES.len()])
}

fn encode(name: &str) -> String {
    name.bytes().fold(String::new(), |mut encoded, byte| {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' => encoded.push(byte.into()),
            _ => write!(encoded, "%{byte:02X}").unwrap(),
        }
        encoded
    })
}

/// Writes 200 files from 0 bytes to 1 MB. Returns their names in URLs and their contents.
fn fill(site: &Path) -> Vec<(String, Vec<u8>)> {
    let mut state = 1_u64;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    (0..FILES)
        .map(|file| {
            let name = plain_name(file);
            // As many small files as large ones.
            let len = if file == 0 { 0 } else { random() % (1 << (random() % 21)) };
            let content: Vec<u8> = (0..len).map(|_| random() as u8).collect();
            fs::write(site.join(&name), &content).unwrap();
            (encode(&name), content)
        })
        .collect()
}

/// Fetches by curl, to files with the numbers of the URLs.
fn curl(folder: &Path, base: &str, files: &[(String, Vec<u8>)], proxy: Option<&str>) {
    let mut config = String::new();
    for (number, (name, _)) in files.iter().enumerate() {
        writeln!(config, "url = \"{base}/{name}\"\noutput = \"{number}\"").unwrap();
    }
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("config"), config).unwrap();
    let mut curl = Command::new("curl");
    curl.current_dir(folder).args(["--no-progress-meter", "--fail", "--parallel", "--config", "config"]);
    if let Some(proxy) = proxy {
        curl.env("http_proxy", format!("http://{proxy}")).env("no_proxy", "");
    }
    assert!(curl.status().unwrap().success());
    for (number, (name, content)) in files.iter().enumerate() {
        // curl creates no file for an empty body.
        let got = fs::read(folder.join(number.to_string())).unwrap_or_default();
        assert!(got == *content, "{name}: {} bytes instead of {}", got.len(), content.len());
    }
}

/// Fetches by `http get` over SCTP.
fn get(folder: &Path, server: &Running, files: &[(String, Vec<u8>)]) {
    let mut get = Command::new(PROGRAM);
    get.args([
        "http",
        "get",
        "--quiet",
        "--encapsulation-port",
        &server.udp_port(),
        "--create-dirs",
        "--directory",
    ])
    .arg(folder);
    get.args(files.iter().map(|(name, _)| format!("http+sctp://{}/{name}", server.sctp())));
    assert!(get.status().unwrap().success());
    for (name, content) in files {
        assert!(fs::read(folder.join(name)).unwrap() == *content, "{name}");
    }
}

/// Starts nginx before a folder on a socket of this machine.
fn nginx(folder: &Folder) -> Child {
    let path = folder.0.display();
    let user = if rustix::process::getuid().is_root() { "user root;" } else { "" };
    let config = format!(
        "{user} daemon off; master_process off; pid {path}/pid; error_log {path}/error;
         events {{ }}
         http {{
             access_log off; client_body_temp_path {path}/body; proxy_temp_path {path}/proxy;
             fastcgi_temp_path {path}/fastcgi; uwsgi_temp_path {path}/uwsgi; scgi_temp_path {path}/scgi;
             server {{ listen unix:{path}/socket; root {path}/site; }}
         }}"
    );
    fs::write(folder.0.join("config"), config).unwrap();
    let child = Command::new("/usr/sbin/nginx").arg("-c").arg(folder.0.join("config")).spawn();
    let child = child.expect("nginx is one of the tests' packages: tests/interop/setup quick");
    while !folder.0.join("socket").exists() {
        std::thread::yield_now();
    }
    child
}

#[test]
fn files_arrive_equal_each_way() {
    let folder = Folder::new();
    let files = fill(&folder.0.join("site"));
    let server = serve(&folder.0.join("site"));
    let base = format!("http://{}", server.tcp());
    curl(&folder.0.join("direct"), &base, &files, None);
    get(&folder.0.join("sctp"), &server, &files);
    let mut nginx = nginx(&folder);
    let to = format!("unix:{}/socket", folder.0.display());
    let reverse = Running::start(&[&["proxy", "reverse", "--to", &to], &LOCAL[..]].concat());
    get(&folder.0.join("reverse"), &reverse, &files);
    let log = folder.0.join("log");
    let forward = forward(&server, &log);
    let proxy = forward.tcp();
    for round in 0..2 {
        curl(&folder.0.join(format!("forward{round}")), &base, &files, Some(&proxy));
    }
    let log = fs::read_to_string(log).unwrap();
    assert_eq!(log.lines().count(), 2 * FILES);
    let over_sctp = log.lines().filter(|line| line.contains("\"upstream\":\"sctp\"")).count();
    assert!(over_sctp >= FILES, "{over_sctp} of the requests went over SCTP");
    let _ = nginx.kill();
    let _ = nginx.wait();
}

#[test]
fn wget_fetches_all_files_through_the_forward_proxy() {
    let folder = Folder::new();
    let files = fill(&folder.0.join("site"));
    let server = serve(&folder.0.join("site"));
    let log = folder.0.join("log");
    let forward = forward(&server, &log);
    let base = format!("http://{}", server.tcp());
    let urls: String = files.iter().map(|(name, _)| format!("{base}/{name}\n")).collect();
    fs::write(folder.0.join("urls"), urls).unwrap();
    let output = folder.0.join("wget");
    let mut wget = Command::new("wget");
    wget.env("http_proxy", format!("http://{}", forward.tcp())).env("no_proxy", "");
    // One file after another into one, since wget decodes some of the names twice.
    wget.args(["--quiet", "--tries=1", "--input-file"]).arg(folder.0.join("urls"));
    assert!(wget.arg("--output-document").arg(&output).status().unwrap().success());
    let got = fs::read(output).unwrap();
    let mut rest = got.as_slice();
    for (name, content) in &files {
        rest = rest.strip_prefix(content.as_slice()).unwrap_or_else(|| panic!("{name} differs"));
    }
    assert!(rest.is_empty(), "{} bytes too many", rest.len());
    let log = fs::read_to_string(log).unwrap();
    assert_eq!(log.lines().filter(|line| line.contains("\"status\":200")).count(), FILES, "{log}");
}

/// A page whose script fetches each file of a list, and writes the digests into the document.
const DIGESTS: &str = "<!doctype html><body><script type='module'>
    const names = await (await fetch('names')).json();
    const digest = async (name) => {
        const answer = await fetch(name, { cache: 'no-store' });
        if (!answer.ok) throw new Error(`${name}: ${answer.status}`);
        const hash = await crypto.subtle.digest('SHA-256', await answer.arrayBuffer());
        return Array.from(new Uint8Array(hash), (byte) => byte.toString(16).padStart(2, '0')).join('');
    };
    try {
        document.body.dataset.digests = (await Promise.all(names.map(digest))).join(' ');
    } catch (error) {
        document.body.dataset.error = error;
    }
</script>";

#[test]
fn a_browser_fetches_all_files_through_it() {
    let folder = Folder::new();
    let site = folder.0.join("site");
    let files = fill(&site);
    fs::write(site.join("index.html"), DIGESTS).unwrap();
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    fs::write(site.join("names"), serde_json::to_string(&names).unwrap()).unwrap();
    let server = serve(&site);
    let log = folder.0.join("log");
    let forward = forward(&server, &log);
    let proxy = format!("--proxy-server=http://{}", forward.tcp());
    let arguments = ["--dump-dom", "--virtual-time-budget=100000", &proxy, "--proxy-bypass-list=<-loopback>"];
    // Digests need a secure context: a host of this machine is one.
    let (dom, said) = browse(&folder.0.join("profile"), &format!("http://{}/", server.tcp()), &arguments);
    let digests = dom.split("data-digests=\"").nth(1).and_then(|rest| rest.split('"').next());
    let digests: Vec<&str> = digests.unwrap_or_else(|| panic!("{dom}\n{said}")).split(' ').collect();
    assert_eq!(digests.len(), FILES);
    for ((name, content), digest) in files.iter().zip(digests) {
        assert_eq!(sha256(content), digest, "{name}");
    }
    let log = fs::read_to_string(log).unwrap();
    let fetched =
        log.lines().filter(|line| line.contains("\"status\":200") && line.contains("\"complete\":true"));
    assert!(fetched.count() >= FILES + 2, "{log}");
}

/// Returns a digest in hexadecimal digits.
fn sha256(content: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    Sha256::digest(content).iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}
