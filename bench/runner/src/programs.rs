//! The programs that take part, and their builds. References come from registries: Debian's packages, crates,
//! Go modules. Only those that the chosen rows need are built.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::network::run;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Program {
    Strandline,
    /// An example of strandline-load.
    Transaction,
    /// An example of strandline-load.
    Beside,
    UsrsctpStream,
    UsrsctpTransaction,
    DcsctpStream,
    /// dcsctp with the crate's packet log guarded.
    DcsctpStreamQuiet,
    PionStream,
    QuinnStream,
    KernelStream,
    Iperf3,
    Kamailio,
    Nginx,
}

const NAMES: [(&str, Program); 13] = [
    ("strandline", Program::Strandline),
    ("transaction", Program::Transaction),
    ("beside", Program::Beside),
    ("usrsctp-stream", Program::UsrsctpStream),
    ("usrsctp-transaction", Program::UsrsctpTransaction),
    ("dcsctp-stream", Program::DcsctpStream),
    ("dcsctp-stream-quiet", Program::DcsctpStreamQuiet),
    ("pion-stream", Program::PionStream),
    ("quinn-stream", Program::QuinnStream),
    ("kernel-stream", Program::KernelStream),
    ("iperf3", Program::Iperf3),
    ("kamailio", Program::Kamailio),
    ("nginx", Program::Nginx),
];

/// Returns the repository's root.
pub(crate) fn root() -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    root.map(Path::to_path_buf).context("the runner lies in bench/runner")
}

const KAMAILIO: &str = "/usr/sbin/kamailio";

const NGINX: &str = "/usr/sbin/nginx";

/// The files of the web servers: names and sizes in bytes.
const SITE: [(&str, usize); 2] = [("1k", 1 << 10), ("10m", 10 << 20)];

/// Returns a new, empty folder for the files of a measurement.
pub(crate) fn scratch() -> Result<String> {
    let folder = out()?.join("scratch");
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    Ok(folder.to_str().context("a path that is no text")?.to_owned())
}

/// Returns a folder with the self-signed certificate of a server at 127.0.0.1 (cert.pem, key.pem), and with a
/// sip.toml that uses them.
pub(crate) fn certificates() -> Result<PathBuf> {
    let folder = out()?.join("tls");
    if !folder.join("cert.pem").exists() {
        std::fs::create_dir_all(&folder)?;
        let mut command = Command::new("openssl");
        command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]);
        command.args(["-days", "3650", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]);
        command.args([
            "-addext",
            "basicConstraints=critical,CA:FALSE",
            "-keyout",
            "key.pem",
            "-out",
            "cert.pem",
        ]);
        carry_out(command.current_dir(&folder))?;
        let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
        let table = format!("[tls]\ncertificate = {certificate:?}\nkey = {key:?}\n");
        std::fs::write(folder.join("sip.toml"), table)?;
    }
    Ok(folder)
}

/// Returns a folder with what web servers serve, in `html`.
pub(crate) fn site() -> Result<PathBuf> {
    let folder = out()?.join("site");
    for folder in ["html", "temporary"].map(|name| folder.join(name)) {
        std::fs::create_dir_all(folder)?;
    }
    for (name, bytes) in SITE {
        let path = folder.join("html").join(name);
        if !path.exists() {
            std::fs::write(path, vec![b'.'; bytes])?;
        }
    }
    Ok(folder)
}

/// Returns the build folder of the references.
fn out() -> Result<PathBuf> {
    Ok(root()?.join("target/bench"))
}

fn references() -> Result<PathBuf> {
    Ok(root()?.join("bench/references"))
}

impl Program {
    pub(crate) fn named(name: &str) -> Result<Self> {
        let found = NAMES.iter().find(|(known, _)| *known == name);
        found.map(|(_, program)| *program).with_context(|| format!("no program is called {name:?}"))
    }

    fn name(self) -> &'static str {
        NAMES.iter().find(|(_, program)| *program == self).map_or("", |(name, _)| name)
    }

    pub(crate) fn path(self) -> Result<PathBuf> {
        Ok(match self {
            Self::Strandline => root()?.join("target/release/strandline"),
            Self::Transaction | Self::Beside => root()?.join("target/release/examples").join(self.name()),
            Self::DcsctpStream | Self::QuinnStream | Self::KernelStream => {
                out()?.join("release").join(self.name())
            }
            Self::DcsctpStreamQuiet => out()?.join("quiet/target/release/dcsctp-stream"),
            Self::UsrsctpStream | Self::UsrsctpTransaction | Self::PionStream => out()?.join(self.name()),
            Self::Iperf3 => PathBuf::from("iperf3"),
            Self::Kamailio => PathBuf::from(KAMAILIO),
            Self::Nginx => PathBuf::from(NGINX),
        })
    }

    fn build(self) -> Result<()> {
        match self {
            Self::Strandline => cargo(&root()?, &["--locked", "--package", "strandline-cli"]),
            Self::Transaction | Self::Beside => {
                cargo(&root()?, &["--locked", "--package", "strandline-load", "--example", self.name()])
            }
            Self::DcsctpStream | Self::QuinnStream | Self::KernelStream => {
                let target = out()?;
                let target = target.to_str().context("a path that is no text")?;
                cargo(&references()?, &["--locked", "--target-dir", target, "--package", self.name()])
            }
            Self::DcsctpStreamQuiet => build_quiet_dcsctp(),
            Self::UsrsctpStream => self.build_with_gcc("stream.c"),
            Self::UsrsctpTransaction => self.build_with_gcc("transaction.c"),
            Self::PionStream => self.build_with_go(),
            Self::Iperf3 | Self::Kamailio | Self::Nginx => Ok(()),
        }
    }

    fn build_with_gcc(self, source: &str) -> Result<()> {
        let (path, folder) = (self.path()?, references()?.join("usrsctp"));
        let mut command = Command::new("gcc");
        command.args(["-O2", "-Wall", "-Wextra", "-o"]).arg(path).arg(folder.join(source));
        carry_out(command.args(["-lusrsctp", "-lpthread"]))
    }

    fn build_with_go(self) -> Result<()> {
        let mut command = Command::new(go()?);
        command.args(["build", "-buildvcs=false", "-o"]).arg(self.path()?).arg(".");
        carry_out(command.current_dir(references()?.join(self.name())).env("CGO_ENABLED", "0"))
    }
}

/// Installs and builds the given programs.
pub(crate) fn prepare(programs: &BTreeSet<Program>) -> Result<()> {
    install(programs)?;
    std::fs::create_dir_all(out()?)?;
    for program in programs {
        eprintln!("building {}", program.name());
        program.build().with_context(|| format!("building {}", program.name()))?;
    }
    Ok(())
}

/// Installs missing Debian packages. Each is listed with a file whose existence shows that it is installed.
fn install(programs: &BTreeSet<Program>) -> Result<()> {
    let mut needed = vec![
        ("iproute2", "/usr/bin/ip"),
        ("ethtool", "/usr/sbin/ethtool"),
        ("util-linux", "/usr/bin/taskset"),
        ("openssl", "/usr/bin/openssl"),
    ];
    if programs.contains(&Program::UsrsctpStream) || programs.contains(&Program::UsrsctpTransaction) {
        needed.extend([("gcc", "/usr/bin/gcc"), ("libc6-dev", "/usr/include/stdio.h")]);
        needed.push(("libusrsctp-dev", "/usr/include/usrsctp.h"));
    }
    if programs.contains(&Program::Iperf3) {
        needed.push(("iperf3", "/usr/bin/iperf3"));
    }
    if programs.contains(&Program::Kamailio) {
        needed.push(("kamailio", KAMAILIO));
    }
    if programs.contains(&Program::Nginx) {
        needed.push(("nginx-light", NGINX));
    }
    if programs.contains(&Program::PionStream) && go().is_err() {
        needed.push(("golang-go", "/usr/bin/go"));
    }
    let missing: Vec<&str> =
        needed.iter().filter(|(_, file)| !Path::new(file).exists()).map(|(package, _)| *package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    eprintln!("installing: {}", missing.join(" "));
    carry_out(Command::new("apt-get").args(["update", "-qq"]))?;
    let mut command = Command::new("apt-get");
    command.args(["install", "-y", "-qq", "--no-install-recommends"]).args(&missing);
    carry_out(command.env("DEBIAN_FRONTEND", "noninteractive"))
}

pub(crate) fn go() -> Result<PathBuf> {
    if run(&["go", "version"]).is_ok() {
        return Ok(PathBuf::from("go"));
    }
    let places = ["/usr/local/go/bin/go", "/usr/bin/go"];
    let found = places.iter().map(PathBuf::from).find(|path| path.exists());
    found.context("there is no Go: install golang-go")
}

fn cargo(folder: &Path, arguments: &[&str]) -> Result<()> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = Command::new(cargo);
    carry_out(command.args(["build", "--release", "--quiet"]).args(arguments).current_dir(folder))
}

fn carry_out(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("starting {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}:\n{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// The beginning of the crate's packet log, which formats before it checks whether logging is enabled.
const UNGUARDED: &str = "pub fn log_packet(name: &str, ts: SocketTime, sent: bool, data: &[u8]) {\n";
const GUARD: &str = "        if !log::log_enabled!(log::Level::Info) {\n            return;\n        }\n";

/// The packages of the references' workspace that the program consists of.
const QUIET_MEMBERS: [&str; 2] = ["common", "dcsctp-stream"];

/// Returns the manifest of a workspace with [`QUIET_MEMBERS`] alone and with the copy of dcsctp beside them, from the
/// manifest of all references.
fn quiet_manifest(references: &str) -> Result<String> {
    let mut manifest: toml::Table = references.parse()?;
    let workspace = manifest.get_mut("workspace").and_then(toml::Value::as_table_mut);
    let workspace = workspace.context("bench/references/Cargo.toml is no workspace")?;
    workspace.insert("members".to_owned(), QUIET_MEMBERS.map(toml::Value::from).to_vec().into());
    workspace.insert("exclude".to_owned(), vec![toml::Value::from("dcsctp")].into());
    let dependencies = workspace.get_mut("dependencies").and_then(toml::Value::as_table_mut);
    let dcsctp = dependencies.and_then(|dependencies| dependencies.get_mut("dcsctp"));
    let copy = toml::Table::from_iter([("path".to_owned(), "dcsctp".into())]);
    *dcsctp.context("bench/references/Cargo.toml doesn't name dcsctp")? = copy.into();
    Ok(toml::to_string(&manifest)?)
}

/// Builds the same program on a copy of the dcsctp crate whose packet log first checks whether logging is
/// enabled: one more line, no other change. The original formats every packet as text before that check, so
/// that disabling the log (even at compile time) doesn't help.
fn build_quiet_dcsctp() -> Result<()> {
    let from = references()?;
    let folder = out()?.join("quiet");
    std::fs::create_dir_all(&folder)?;
    let source = crate_folder(&from, "dcsctp")?;
    let copy = |from: &Path, name: &str| -> Result<PathBuf> {
        let to = folder.join(name);
        if to.exists() {
            std::fs::remove_dir_all(&to)?;
        }
        carry_out(Command::new("cp").args(["-r", "--preserve=timestamps"]).arg(from).arg(&to))?;
        Ok(to)
    };
    let library = folder.join("dcsctp/src/lib.rs");
    // Patches the copy only once: a new copy would be rebuilt.
    if !std::fs::read_to_string(&library).is_ok_and(|text| text.contains(GUARD)) {
        copy(&source, "dcsctp")?;
        let text = std::fs::read_to_string(&library)?;
        ensure!(
            text.contains(UNGUARDED),
            "this version of dcsctp logs in another way: look at its log_packet"
        );
        std::fs::write(&library, text.replace(UNGUARDED, &format!("{UNGUARDED}{GUARD}")))?;
    }
    for name in QUIET_MEMBERS {
        copy(&from.join(name), name)?;
    }
    let manifest = quiet_manifest(&std::fs::read_to_string(from.join("Cargo.toml"))?)?;
    std::fs::write(folder.join("Cargo.toml"), manifest)?;
    std::fs::copy(from.join("Cargo.lock"), folder.join("Cargo.lock"))?;
    let target = folder.join("target");
    let target = target.to_str().context("a path that is no text")?;
    cargo(&folder, &["--offline", "--target-dir", target, "--package", "dcsctp-stream"])
}

/// Returns the folder of cargo's source of a crate that a workspace depends on.
fn crate_folder(workspace: &Path, name: &str) -> Result<PathBuf> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let arguments = ["metadata", "--format-version", "1", "--locked"];
    let output = Command::new(cargo).args(arguments).current_dir(workspace).output()?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let package = packages.iter().find(|package| package["name"] == name);
    let manifest = package.and_then(|package| package["manifest_path"].as_str());
    let manifest = manifest.with_context(|| format!("{name} isn't among the dependencies"))?;
    Path::new(manifest).parent().map(Path::to_path_buf).context("a manifest without folder")
}

#[cfg(test)]
mod tests;
