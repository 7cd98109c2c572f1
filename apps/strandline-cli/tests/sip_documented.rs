//! Tests of the documented configuration: phones with passwords, a store, and the systemd unit.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::sip_generator::unrefused;
use crate::sip_server::{PROGRAM, Server};

/// A folder, which is removed when this value is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("strandline-sip-documented-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let users: String = (0..10).map(|user| format!("u{user}:password:secret\n")).collect();
        std::fs::write(folder.join("users"), users).unwrap();
        Self(folder)
    }

    /// Writes the configuration of docs/sip.md with files in this folder and free ports.
    fn config(&self, change: impl FnOnce(String) -> String) -> PathBuf {
        let page = include_str!("../../../docs/sip.md");
        let (_, after) = page.split_once("## Configuration\n").unwrap();
        let lines = after.lines().skip(1).take_while(|line| line.is_empty() || line.starts_with("    "));
        let text: String = lines.map(|line| format!("{}\n", line.trim_start())).collect();
        assert!(text.contains("[registrar]") && text.contains("[overload]"), "{text}");
        let folder = self.0.to_str().unwrap();
        let text = text
            .replace("/etc/strandline", folder)
            .replace("/var/lib/strandline", folder)
            .replace("0.0.0.0:5060", "127.0.0.1:0")
            .replace("sip.example.com", "127.0.0.1");
        let path = self.0.join("sip.toml");
        std::fs::write(&path, change(text)).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns the commands of docs/sip.md that create a certificate and use it.
fn certificate_recipe() -> Vec<String> {
    let page = include_str!("../../../docs/sip.md");
    let (_, after) = page.split_once("To create a self-signed certificate for tests:\n").unwrap();
    let lines = after.lines().skip(1).take_while(|line| line.starts_with("    "));
    let text: String = lines.map(|line| format!("{}\n", line.trim_start())).collect();
    text.replace("\\\n", " ").lines().map(str::to_owned).collect()
}

fn output_of(folder: &Path, command: &str) -> Output {
    Command::new("sh").args(["-c", command]).current_dir(folder).output().unwrap()
}

fn shell(folder: &Path, command: &str) -> String {
    let output = output_of(folder, command);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

/// The documented self-signed certificate is one of a server, with the address as a name too, and phones trust it.
#[test]
fn documented_certificate_serves_phones() {
    let folder = Folder::new("certificate");
    let [create, register] = &certificate_recipe()[..] else { panic!("two commands") };
    shell(&folder.0, create);
    let printed = shell(&folder.0, "openssl x509 -in cert.pem -noout -ext subjectAltName,basicConstraints");
    let [constraints, names] = ["Basic Constraints", "Subject Alternative Name"].map(|name| {
        let (_, after) = printed.split_once(&format!("X509v3 {name}:")).unwrap();
        after.lines().nth(1).unwrap().trim().to_owned()
    });
    assert_eq!(constraints, "CA:FALSE");
    assert_eq!(names, "DNS:example.com, DNS:127.0.0.1, IP Address:127.0.0.1");
    let config = folder.0.join("sip.toml");
    let at = folder.0.display();
    let text = format!(
        "domains = [\"example.com\"]\n[[listen]]\nprotocol = \"tls\"\naddress = \"127.0.0.1:0\"\n\
         [tls]\ncertificate = \"{at}/cert.pem\"\nkey = \"{at}/key.pem\"\n"
    );
    std::fs::write(&config, text).unwrap();
    let server = Server::configured(&config);
    let (_, arguments) = register.split_once("strandline ").unwrap();
    let arguments = arguments.replace("127.0.0.1:5061", &server.address("tls").to_string());
    let command = format!("{PROGRAM} {arguments} --json --time 0.3 --warm-up 0 --users 10 --outstanding 1");
    let report = unrefused(|| output_of(&folder.0, &command));
    assert!(report["succeeded"].as_u64() > Some(0), "{report}");
}

fn load(server: &Server, arguments: &str) -> (Output, Value) {
    load_for("2", server, arguments)
}

fn load_for(seconds: &str, server: &Server, arguments: &str) -> (Output, Value) {
    let to = server.address("udp").to_string();
    let common =
        ["load", "sip", "--json", "--time", seconds, "--warm-up", "0", "--users", "10", "--server", &to];
    let output = Command::new(PROGRAM).args(common).args(arguments.split_whitespace()).output().unwrap();
    let report = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output, report)
}

/// Asserts that all requests succeeded and some were challenged.
fn succeeds(config: &Path, arguments: &str) -> Server {
    let server = Server::configured(config);
    // No phone has two requests outstanding, so that their CSeq and nonce counts arrive in order.
    let arguments = format!("{arguments} --outstanding 1");
    let report = unrefused(|| {
        let (output, report) = load(&server, &arguments);
        if report["succeeded"].as_u64() < Some(50) {
            // On a busy host there may have been fewer requests than phones, all of them challenged.
            return load_for("30", &server, &arguments).0;
        }
        output
    });
    assert!(report["succeeded"].as_u64() > Some(0), "{report}");
    assert!(report["challenged"].as_u64() > Some(0), "{report}");
    // A nonce is used for many requests.
    assert!(report["challenged"].as_u64() < report["succeeded"].as_u64(), "{report}");
    server
}

#[test]
fn phones_authenticate_and_survive_a_crash() {
    let folder = Folder::new("phones");
    let config = folder.config(|text| text);
    let mut server = succeeds(&config, "register --password secret");
    let (wrong, report) = load(&server, "register --password other --outstanding 1");
    assert!(!wrong.status.success() && report["other_codes"]["401"].as_u64() > Some(0), "{report}");
    let (none, report) = load(&server, "register --outstanding 1");
    assert!(!none.status.success() && report["challenged"] == 0, "{report}");
    server.kill();
    assert_eq!(Server::configured(&config).users(), 10);
}

#[test]
fn each_digest_algorithm_works_for_register_and_calls() {
    let folder = Folder::new("algorithms");
    for algorithm in ["MD5", "SHA-256", "SHA-512-256"] {
        let offered = format!("algorithms = [\"{algorithm}\"]");
        let config = folder.config(|text| {
            assert!(text.contains(r#"algorithms = ["MD5"]"#), "{text}");
            text.replace(r#"algorithms = ["MD5"]"#, &offered)
        });
        succeeds(&config, "call --password secret");
    }
}

#[test]
fn several_processes_authenticate_and_survive_a_crash() {
    let folder = Folder::new("processes");
    let config = folder.config(|text| {
        assert!(text.contains("\nprocesses = 1 "), "{text}");
        text.replace("\nprocesses = 1 ", "\nprocesses = 3 ")
    });
    let mut server = succeeds(&config, "register --password secret");
    server.kill();
    server = succeeds(&config, "call --password secret");
    assert_eq!(server.users(), 10);
    server.kill();
    assert_eq!(Server::configured(&config).users(), 10);
}

#[test]
fn the_unit_for_systemd_starts_it_so() {
    let unit = include_str!("../../../docs/strandline-sip.service");
    let line = |key: &str| unit.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('=')).unwrap();
    assert_eq!(line("ExecStart"), "/usr/bin/strandline sip --config /etc/strandline/sip.toml");
    // systemd's time-out is longer than the server takes to end.
    assert!(line("TimeoutStopSec").parse::<u64>().unwrap() > 35);
    // systemd accepts the unit, with the program in place.
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("strandline-sip.service");
    std::fs::write(&file, unit.replace("/usr/bin/strandline", PROGRAM)).unwrap();
    let verify = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&file).output();
    let verify = verify.unwrap_or_else(|error| panic!("systemd-analyze: {error}: apt-get install systemd"));
    let told = String::from_utf8_lossy(&verify.stderr);
    assert!(verify.status.success() && told.is_empty(), "{told}");
    // The unit restricts the service well.
    let security = ["security", "--offline=true", "--no-pager", "--threshold=20"];
    let judged = Command::new("systemd-analyze").args(security).arg(&file).output().unwrap();
    assert!(judged.status.success(), "{}", String::from_utf8_lossy(&judged.stdout));
    // The unit's command line is valid for the program.
    let folder = Folder::new("unit");
    let config = folder.config(|text| text);
    let mut words = line("ExecStartPre").split(' ').skip(1);
    let arguments =
        words.by_ref().map(|word| word.replace("/etc/strandline/sip.toml", config.to_str().unwrap()));
    let output = Command::new(PROGRAM).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
