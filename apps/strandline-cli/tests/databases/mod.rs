//! Database servers for tests: on a free port, in a folder that is removed with them.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use strandline_tls::OwnFiles;

use super::ports::free_port;
use super::waiting::{at_last, found_at_last, stop};

/// User id of nobody: database servers refuse to run as root.
const NOBODY: u32 = 65_534;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    MySql,
    PostgreSql,
    Redis,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::MySql => "mysql",
            Self::PostgreSql => "postgresql",
            Self::Redis => "redis",
        }
    }
}

/// Returns the path of a program of a Debian package.
fn program(candidates: &[&str]) -> PathBuf {
    let found = candidates.iter().map(PathBuf::from).find(|path| path.exists());
    found.unwrap_or_else(|| panic!("{} is missing: run `make test-deps`", candidates[0]))
}

fn postgresql(name: &str) -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql")
        .unwrap_or_else(|_| panic!("PostgreSQL is missing: run `make test-deps`"));
    let mut found: Vec<PathBuf> =
        versions.map(|version| version.unwrap().path().join("bin").join(name)).collect();
    found.retain(|path| path.exists());
    found.sort();
    found.pop().unwrap_or_else(|| panic!("PostgreSQL's {name} is missing: run `make test-deps`"))
}

/// A database server, which is killed and whose folder is removed when this value is dropped.
pub struct Database {
    pub kind: Kind,
    pub folder: PathBuf,
    port: u16,
    /// The port of the server that it replicates.
    replica_of: Option<u16>,
    /// Whether it accepts only connections with TLS, with the certificate server.pem in its folder.
    tls: bool,
    child: Option<Child>,
}

impl Database {
    pub fn start(kind: Kind) -> Self {
        Self::start_as(kind, None, None)
    }

    /// Starts a server that accepts only connections with TLS, with this certificate and its key.
    pub fn start_with_tls(kind: Kind, own: &OwnFiles) -> Self {
        Self::start_as(kind, None, Some(own))
    }

    /// Starts a replica of this server (Redis only).
    pub fn replica(&self) -> Self {
        Self::start_as(self.kind, Some(self.port), None)
    }

    /// Returns the number of keys (Redis only).
    pub fn keys(&self) -> u64 {
        let answers = self.redis("DBSIZE");
        let size = answers.lines().find_map(|line| line.strip_prefix(':'));
        size.unwrap_or_else(|| panic!("{answers}")).parse().unwrap()
    }

    /// Executes a command, and returns what Redis answers (Redis only).
    pub fn redis(&self, command: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(format!("AUTH wonder:land@\r\n{command}\r\nQUIT\r\n").as_bytes()).unwrap();
        let mut answers = Vec::new();
        stream.read_to_end(&mut answers).unwrap();
        String::from_utf8_lossy(&answers).into_owned()
    }

    fn start_as(kind: Kind, replica_of: Option<u16>, tls: Option<&OwnFiles>) -> Self {
        let port = free_port();
        let folder =
            std::env::temp_dir().join(format!("strandline-{}-{}-{port}", kind.name(), std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("data")).unwrap();
        let mut owned = vec![folder.clone(), folder.join("data")];
        if let Some(own) = tls {
            for (from, to) in [(&own.certificate, "server.pem"), (&own.key, "server.key")] {
                let to = folder.join(to);
                fs::copy(from, &to).unwrap();
                fs::set_permissions(&to, Permissions::from_mode(0o600)).unwrap();
                owned.push(to);
            }
        }
        for path in owned {
            if rustix::process::geteuid().is_root() {
                std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
            }
        }
        let tls = tls.is_some();
        let mut database = Self { kind, folder, port, replica_of, tls, child: None };
        database.prepare();
        database.restart();
        database
    }

    /// Returns a command that runs as nobody, with its output in a file.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        let log = fs::File::options().create(true).append(true).open(self.folder.join("log")).unwrap();
        command.current_dir(&self.folder).stdin(Stdio::null());
        command.stdout(log.try_clone().unwrap()).stderr(log).env("HOME", &self.folder);
        // MariaDB removes temporary files of others at its start.
        command.env("TMPDIR", &self.folder);
        if rustix::process::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    fn prepare(&self) {
        let data = self.folder.join("data");
        let mut command = match self.kind {
            Kind::Redis => return,
            Kind::PostgreSql => {
                let mut command = self.command(&postgresql("initdb"));
                command
                    .args(["--auth=trust", "--username=sip", "--no-sync", "--no-instructions", "-D"])
                    .arg(&data);
                command
            }
            Kind::MySql => {
                let mut command = self.command(&program(&["/usr/bin/mariadb-install-db"]));
                command.args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]);
                command.arg(format!("--datadir={}", data.display()));
                let users = "CREATE DATABASE IF NOT EXISTS sip;\n\
                             CREATE USER IF NOT EXISTS sip@'%' IDENTIFIED BY 'wonder:land@';\n\
                             GRANT ALL ON sip.* TO sip@'%';\n";
                fs::write(self.folder.join("users.sql"), users).unwrap();
                command
            }
        };
        assert!(command.status().unwrap().success(), "{}", self.log());
    }

    /// Starts the server again, and waits until it accepts connections.
    pub fn restart(&mut self) {
        let (data, port) = (self.folder.join("data"), self.port.to_string());
        let mut command = match self.kind {
            Kind::Redis => {
                let mut command = self.command(&program(&["/usr/bin/redis-server"]));
                if self.tls {
                    command.args(["--port", "0", "--tls-port", &port, "--tls-auth-clients", "no"]);
                    let [certificate, key] = ["server.pem", "server.key"].map(|name| self.folder.join(name));
                    command.arg("--tls-cert-file").arg(&certificate).arg("--tls-key-file").arg(key);
                    command.arg("--tls-ca-cert-file").arg(certificate);
                } else {
                    command.args(["--port", &port]);
                }
                command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "yes"]);
                command
                    .args(["--appendfsync", "always", "--requirepass", "wonder:land@", "--dir"])
                    .arg(&data);
                if let Some(other) = self.replica_of {
                    command.args(["--masterauth", "wonder:land@", "--replicaof", "127.0.0.1"]);
                    command.arg(other.to_string());
                }
                command
            }
            Kind::PostgreSql => {
                let mut command = self.command(&postgresql("postgres"));
                command.args(["-h", "127.0.0.1", "-p", &port, "-k"]).arg(&self.folder).arg("-D").arg(&data);
                if self.tls {
                    fs::write(data.join("pg_hba.conf"), "hostssl all all 127.0.0.1/32 trust\n").unwrap();
                    let [certificate, key] = ["server.pem", "server.key"].map(|name| self.folder.join(name));
                    command
                        .args(["-c", "ssl=on", "-c"])
                        .arg(format!("ssl_cert_file={}", certificate.display()));
                    command.arg("-c").arg(format!("ssl_key_file={}", key.display()));
                }
                command
            }
            Kind::MySql => {
                let mut command = self.command(&program(&["/usr/sbin/mariadbd"]));
                command.arg("--no-defaults").arg(format!("--datadir={}", data.display()));
                command.args(["--bind-address=127.0.0.1", &format!("--port={port}")]);
                command.arg(format!("--socket={}", self.folder.join("socket").display()));
                command.arg(format!("--init-file={}", self.folder.join("users.sql").display()));
                if self.tls {
                    let [certificate, key] = ["server.pem", "server.key"].map(|name| self.folder.join(name));
                    command.arg("--require-secure-transport=ON");
                    command.arg(format!("--ssl-cert={}", certificate.display()));
                    command.arg(format!("--ssl-key={}", key.display()));
                }
                command
            }
        };
        self.child = Some(command.spawn().unwrap());
        self.wait();
    }

    fn wait(&mut self) {
        found_at_last("the database can be used", || {
            let ended = self.child.as_mut().and_then(|child| child.try_wait().unwrap());
            assert!(ended.is_none(), "{ended:?}: {}", self.log());
            if self.is_ready() { Ok(()) } else { Err(self.log()) }
        });
    }

    fn is_ready(&self) -> bool {
        let address = ("127.0.0.1", self.port);
        match self.kind {
            Kind::PostgreSql => {
                let mut command = self.command(&postgresql("pg_isready"));
                command.args(["-q", "-h", "127.0.0.1", "-p", &self.port.to_string()]);
                command.status().unwrap().success()
            }
            _ => TcpStream::connect(address).is_ok(),
        }
    }

    fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().unwrap();
        match self.kind {
            // PostgreSQL has a process for each connection.
            Kind::PostgreSql => {
                for pid in self.processes() {
                    // The process may have ended meanwhile.
                    let _ = kill_process(pid, signal);
                }
            }
            _ => kill_process(Pid::from_child(child), signal).unwrap(),
        }
    }

    /// Returns the server's process and its children, of which there are none once it has ended.
    fn processes(&self) -> Vec<Pid> {
        let parent = self.child.as_ref().unwrap().id();
        let children =
            fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
        let pids = children.split_whitespace().map(|pid| pid.parse().unwrap());
        std::iter::once(parent as i32).chain(pids).map(|pid| Pid::from_raw(pid).unwrap()).collect()
    }

    /// Stops the server's processes until [`go_on`](Self::go_on).
    pub fn stall(&self) {
        assert!(stop(self.child.as_ref().unwrap()), "the database has ended: {}", self.log());
        // The parent first: a stopped process forks no more. Its children need signals of their own.
        self.signal(Signal::STOP);
        at_last("the database stops", || self.processes().into_iter().all(is_stopped));
    }

    pub fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    /// Kills the server (SIGKILL), and waits until all of its processes have ended: PostgreSQL does not start while one
    /// of before has its shared memory.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.child.take().unwrap().wait().unwrap();
        at_last("the database's processes end", || !self.is_in_use());
    }

    /// Returns whether a process works in the folder of the data.
    fn is_in_use(&self) -> bool {
        let data = self.folder.join("data");
        let processes = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
        processes.into_iter().any(|process| fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd == data))
    }

    /// Returns the store's configuration, with the password in a file if there is one. Its time-out is long, because a
    /// busy host makes the database slow.
    pub fn config(&self) -> String {
        self.config_with_timeout(20_000)
    }

    /// Returns the configuration with another time-out in milliseconds.
    pub fn config_with_timeout(&self, timeout_ms: u32) -> String {
        let (kind, port) = (self.kind.name(), self.port);
        let password = self.folder.join("password");
        fs::write(&password, "wonder:land@\n").unwrap();
        let url = match self.kind {
            Kind::MySql => format!("mysql://sip@127.0.0.1:{port}/sip"),
            Kind::PostgreSql => format!("postgresql://sip@127.0.0.1:{port}/postgres"),
            Kind::Redis => format!("redis://127.0.0.1:{port}/0"),
        };
        let password = match self.kind {
            Kind::PostgreSql => String::new(),
            _ => format!("password_file = \"{}\"\n", password.display()),
        };
        format!("[store]\nkind = \"{kind}\"\nurl = \"{url}\"\n{password}timeout_ms = {timeout_ms}\n")
    }

    /// Executes SQL statements (not for Redis).
    pub fn sql(&self, statements: &str) {
        let port = self.port.to_string();
        let mut command = match self.kind {
            Kind::PostgreSql => {
                let mut command = self.command(&postgresql("psql"));
                command.args(["-q", "-h", "127.0.0.1", "-p", &port, "-U", "sip", "-d", "postgres", "-c"]);
                command
            }
            Kind::MySql => {
                let mut command = self.command(&program(&["/usr/bin/mariadb", "/usr/bin/mysql"]));
                command.args(["--no-defaults", "-u", "root", "-D", "sip"]);
                command.arg(format!("--socket={}", self.folder.join("socket").display())).arg("-e");
                command
            }
            Kind::Redis => panic!("no SQL"),
        };
        assert!(command.arg(statements).status().unwrap().success(), "{}", self.log());
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // A test that fails may have found that it has ended.
        if self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None))) {
            self.kill();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Defines a test for each line: its name, the kind of database, and the check to run.
#[allow(unused_macros, reason = "not every test has all kinds")]
macro_rules! for_each_kind {
    ($($test:ident: $kind:ident $check:ident;)*) => {
        $(#[test] fn $test() { $check(Kind::$kind); })*
    };
}
#[allow(unused_imports, reason = "not every test has all kinds")]
pub(crate) use for_each_kind;

/// Returns whether all threads of a process are stopped, or it has ended.
fn is_stopped(pid: Pid) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())) else { return true };
    threads.flatten().all(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // The name before the state may contain anything but is in parentheses.
        stat.rsplit(") ").next().is_none_or(|rest| rest.is_empty() || rest.starts_with(['T', 'Z', 'X']))
    })
}
