//! `strandline http proxy` with curl, wget, nginx and Chromium.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests stop at the first error")]

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};

mod announced;
mod browser;

use announced::announced;
use browser::browse;
use serde_json::Value;

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
            let name = format!("{}{file}", NAMES[file % NAMES.len()]);
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
    get.args(["http", "get", "--quiet", "--encapsulation-port", &server.udp_port(), "--directory"])
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
    let options = ["--access-log", log.to_str().unwrap(), "--access-log-format", "json"];
    let udp = server.udp_port();
    let forward = [&["proxy", "forward", "--encapsulation-port", &udp], &options[..]].concat();
    let forward = Running::start(&forward);
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
fn wget_goes_through_the_forward_proxy() {
    let folder = Folder::new();
    let files = fill(&folder.0.join("site"));
    let server = serve(&folder.0.join("site"));
    let forward = Running::start(&["proxy", "forward", "--encapsulation-port", &server.udp_port()]);
    let (name, content) = files.iter().max_by_key(|(_, content)| content.len()).unwrap();
    let output = folder.0.join("wget");
    let mut wget = Command::new("wget");
    wget.env("http_proxy", format!("http://{}", forward.tcp())).env("no_proxy", "");
    wget.args(["--quiet", "--output-document"]).arg(&output).arg(format!("http://{}/{name}", server.tcp()));
    assert!(wget.status().unwrap().success());
    assert!(fs::read(output).unwrap() == *content);
}

#[test]
fn a_browser_loads_pages_through_it() {
    let folder = Folder::new();
    let site = folder.0.join("site");
    let page = "<!doctype html><body><script>
        let loaded = 0;
        for (let i = 0; i < 20; i++) {
            const image = new Image();
            image.onload = () => document.body.dataset.loaded = ++loaded;
            image.src = `image${i}.svg`;
            document.body.append(image);
        }
    </script>";
    fs::write(site.join("index.html"), page).unwrap();
    let image =
        "<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'><rect width='9' height='9'/></svg>";
    for number in 0..20 {
        fs::write(site.join(format!("image{number}.svg")), image).unwrap();
    }
    let server = serve(&site);
    let log = folder.0.join("log");
    let udp = server.udp_port();
    let forward = ["proxy", "forward", "--encapsulation-port", &udp];
    let forward = Running::start(&[&forward[..], &["--access-log", log.to_str().unwrap()]].concat());
    let proxy = format!("--proxy-server=http://{}", forward.tcp());
    let arguments = ["--dump-dom", "--virtual-time-budget=20000", &proxy, "--proxy-bypass-list=<-loopback>"];
    let (dom, said) = browse(&folder.0.join("profile"), &format!("http://{}/", server.tcp()), &arguments);
    assert!(dom.contains("data-loaded=\"20\""), "{dom}\n{said}");
    let log = fs::read_to_string(log).unwrap();
    assert_eq!(log.lines().filter(|line| line.contains(".svg HTTP/1.1\" 200 ")).count(), 20, "{log}");
}
