//! Processes and sockets of the tests.
#![allow(clippy::disallowed_methods, reason = "processes work in real time")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;
use strandline::encryption::{Fingerprint, create_identity};

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_strandline-gateway");
/// Time limit of every wait.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A gateway, which is killed when this value is dropped.
pub struct Gateway {
    child: Child,
    pub announced: Value,
    log: Arc<Mutex<String>>,
    /// Reads the log, until the last process has ended.
    logger: JoinHandle<()>,
    output: BufReader<ChildStdout>,
    /// The processes that have taken over.
    successors: Vec<rustix::process::Pid>,
}

impl Gateway {
    /// Starts one without a key.
    pub fn start(arguments: &str) -> Self {
        Self::start_in(Path::new("/nonexistent"), arguments)
    }

    /// Starts one whose key and known hosts are in this folder's `strandline`.
    pub fn start_in(configuration: &Path, arguments: &str) -> Self {
        let mut command = Command::new(PROGRAM);
        command.args(arguments.split_whitespace()).env("XDG_CONFIG_HOME", configuration);
        Self::spawn(command)
    }

    /// Starts one by a command.
    pub fn spawn(mut command: Command) -> Self {
        command.arg("--json");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let log = Arc::<Mutex<String>>::default();
        let (lines, logged) = (BufReader::new(child.stderr.take().unwrap()).lines(), Arc::clone(&log));
        let logger = std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                *logged.lock().unwrap() += &(line + "\n");
            }
        });
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let announced = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{}", log.lock().unwrap()));
        Self { child, announced, log, logger, output, successors: Vec::new() }
    }

    /// Runs `strandline gateway restart`. Returns what it says, and whether a new process serves.
    pub fn restart(&mut self) -> (bool, String) {
        let admin = self.announced["admin"].as_str().unwrap();
        let output = Command::new(PROGRAM).args(["restart", "--admin", admin]).output().unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        if output.status.success() {
            self.note_successor();
        }
        (output.status.success(), text)
    }

    /// Reads what a new process announces.
    pub fn note_successor(&mut self) {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        self.announced = serde_json::from_str(&line).unwrap();
        let pid = self.announced["pid"].as_i64().unwrap();
        self.successors.push(rustix::process::Pid::from_raw(pid as i32).unwrap());
    }

    /// Returns whether the first process has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// The process ID of the first process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The process ID of the newest process.
    pub fn newest(&self) -> rustix::process::Pid {
        *self.successors.last().unwrap()
    }

    /// Returns what it has logged so far.
    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Where it listens for associations.
    pub fn listens(&self) -> String {
        self.announced["listen"].as_str().unwrap().to_owned()
    }

    /// The address of a listener, by number.
    pub fn listener(&self, number: usize) -> SocketAddr {
        self.announced["listeners"][number]["listen"].as_str().unwrap().parse().unwrap()
    }

    /// Connects by its first listener to a server, which reads what the client has sent. Returns both ends.
    pub fn connect_to(&self, server: &TcpListener) -> (TcpStream, TcpStream) {
        let mut client = patient(TcpStream::connect(self.listener(0)).unwrap());
        client.write_all(b"hello").unwrap();
        let mut served = accept(server);
        assert_eq!(read_exactly(&mut served, 5), b"hello");
        (client, served)
    }

    /// Kills it at once, as `kill -9` does.
    pub fn kill(&mut self) {
        for successor in &self.successors {
            let _ = rustix::process::kill_process(*successor, rustix::process::Signal::KILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Asks it to end, and returns whether it ended without an error.
    pub fn end(self) -> bool {
        self.terminate();
        self.wait()
    }

    /// Waits until it ends, and returns whether that was without an error.
    pub fn wait(mut self) -> bool {
        self.child.wait().unwrap().success()
    }

    /// Asks it to end, and returns all that it has logged.
    pub fn end_with_log(&mut self) -> String {
        self.terminate();
        at_last("the end of its log", || self.logger.is_finished());
        self.log()
    }

    pub fn terminate(&self) {
        self.signal(rustix::process::Signal::TERM);
    }

    /// Asks it to read its configuration again.
    pub fn hang_up(&self) {
        self.signal(rustix::process::Signal::HUP);
    }

    /// Stops it, so that it answers nothing, or lets it go on.
    pub fn stop(&self, stops: bool) {
        self.signal(if stops { rustix::process::Signal::STOP } else { rustix::process::Signal::CONT });
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal).unwrap();
    }

    /// What its --admin address says.
    pub fn admin(&self, path: &str) -> String {
        let address: SocketAddr = self.announced["admin"].as_str().unwrap().parse().unwrap();
        let mut stream = patient(TcpStream::connect(address).unwrap());
        write!(stream, "GET /{path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    pub fn status(&self) -> Value {
        serde_json::from_str(&self.admin("status")).unwrap()
    }

    /// Resident memory in bytes.
    pub fn memory(&self) -> usize {
        self.memory_of("VmRSS:")
    }

    /// The most resident memory so far, in bytes.
    pub fn memory_most(&self) -> usize {
        self.memory_of("VmHWM:")
    }

    fn memory_of(&self, which: &str) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(which)).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() * 1024
    }
}

impl Drop for Gateway {
    #[allow(clippy::print_stderr, reason = "shown with the test that failed")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("log of the gateway {}:\n{}", self.announced, self.log());
        }
        self.kill();
    }
}

/// Returns whether a process has ended. It may not have been waited for.
pub fn is_gone(pid: rustix::process::Pid) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    !status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
}

/// Shuts down the listening or UDP socket of a process at an address, as `ss --kill` does. Returns whether it has one.
pub fn shut_down(pid: u32, at: SocketAddr) -> bool {
    let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
    let process = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap();
    let folder = format!("/proc/{}/fd", pid.as_raw_nonzero());
    for name in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()) {
        let number = name.to_str().unwrap().parse().unwrap();
        let flags = rustix::process::PidfdGetfdFlags::empty();
        // It may be closed by now.
        let Ok(fd) = rustix::process::pidfd_getfd(&process, number, flags) else { continue };
        let socket = socket2::SockRef::from(&fd);
        let is_at = socket.local_addr().is_ok_and(|address| address.as_socket() == Some(at));
        let is_udp = socket.r#type().is_ok_and(|kind| kind == socket2::Type::DGRAM);
        if is_at && (is_udp || socket.is_listener().unwrap_or(false)) {
            // One of UDP is shut down, although the kernel says that it is not connected.
            return socket.shutdown(std::net::Shutdown::Both).is_ok() || is_udp;
        }
    }
    false
}

/// Returns the children of a process.
pub fn children(pid: u32) -> Vec<u32> {
    let mut all = Vec::new();
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        all.extend(children.split_whitespace().map(|child| child.parse::<u32>().unwrap()));
    }
    all
}

/// A folder with a key and known hosts, removed when this value is dropped.
pub struct Home {
    pub path: PathBuf,
    pub key: Fingerprint,
}

impl Home {
    /// Makes one with a new key.
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("strandline-gateway-{name}-{}", std::process::id()));
        std::fs::create_dir_all(path.join("strandline")).unwrap();
        let key = create_identity(&path.join("strandline/key.pem"), name).unwrap();
        Self { path, key }
    }

    /// Adds a line to the known hosts.
    pub fn trust(&self, name: &str, key: Fingerprint) {
        let list = path_of(&self.path, "strandline/known_hosts");
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(list).unwrap();
        writeln!(file, "{name} {key}").unwrap();
    }

    /// Writes a file, and returns its path.
    pub fn write(&self, name: &str, text: &str) -> String {
        let path = path_of(&self.path, name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

fn path_of(folder: &Path, name: &str) -> String {
    folder.join(name).display().to_string()
}

/// Two gateways, and a server in the test behind a port forward.
pub struct World {
    pub far: Gateway,
    pub near: Gateway,
    pub server: TcpListener,
    far_options: String,
}

impl World {
    pub fn new() -> Self {
        Self::with("", "")
    }

    /// Starts both with more options.
    pub fn with(far: &str, near: &str) -> Self {
        let server = listener();
        let address = server.local_addr().unwrap();
        let far_options = format!("--allow {address} {far}");
        let listen = free_address();
        let far = Gateway::start(&format!("--listen {listen} {far_options}"));
        let forward = free_address();
        let near = Gateway::start(&format!(
            "--peer far={listen} --admin 127.0.0.1:0 --forward {forward}={address} {near}"
        ));
        Self { far, near, server, far_options }
    }

    /// Connects through the gateways. Returns the ends of the client and the server.
    pub fn connect(&self) -> (TcpStream, TcpStream) {
        let client = TcpStream::connect(self.near.listener(0)).unwrap();
        (patient(client), self.accept())
    }

    pub fn accept(&self) -> TcpStream {
        accept(&self.server)
    }

    /// Starts the far gateway again, where it was.
    pub fn restart_far(&mut self) {
        let listen = self.far.announced["listen"].as_str().unwrap().to_owned();
        self.far.kill();
        self.far = Gateway::start(&format!("--listen {listen} {}", self.far_options));
    }
}

/// Gives reads and writes a time limit.
pub fn patient(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// A server to which hundreds may connect at once. With the standard library's backlog of 128 their SYNs would be
/// repeated until the gateway gives up.
pub fn listener() -> TcpListener {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    socket2::SockRef::from(&server).listen(4096).unwrap();
    server
}

/// Accepts a connection, which has a time limit, as its reads and writes have.
pub fn accept(server: &TcpListener) -> TcpStream {
    socket2::SockRef::from(server).set_read_timeout(Some(PATIENCE)).unwrap();
    patient(server.accept().unwrap().0)
}

/// Serves each connection by sending back what comes. Returns the address.
pub fn serve_echo(listener: &TcpListener) -> SocketAddr {
    let address = listener.local_addr().unwrap();
    let listener = listener.try_clone().unwrap();
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut &stream, &mut &stream);
                let _ = stream.shutdown(std::net::Shutdown::Write);
            });
        }
    });
    address
}

/// Closes a connection by a reset.
pub fn reset(stream: TcpStream) {
    socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
}

/// Reads to the end. Returns the data, and whether the end was a clean one.
pub fn read_all(stream: &mut TcpStream) -> (Vec<u8>, bool) {
    let mut data = Vec::new();
    match stream.read_to_end(&mut data) {
        Ok(_) => (data, true),
        Err(error) => {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
            (data, false)
        }
    }
}

pub fn read_exactly(stream: &mut TcpStream, len: usize) -> Vec<u8> {
    let mut data = vec![0; len];
    stream.read_exact(&mut data).unwrap();
    data
}

/// Bytes that differ by their place and a seed.
pub fn bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Checks until the condition holds.
pub fn at_last(what: &str, is_so: impl FnMut() -> bool) {
    while_it_moves(what, || 0, is_so);
}

/// Checks until the condition holds. The time limit counts from the last change of the number: a slow host
/// takes longer.
pub fn while_it_moves(what: &str, number: impl Fn() -> u64, mut is_so: impl FnMut() -> bool) {
    let (mut end, mut before) = (Instant::now() + PATIENCE, number());
    while !is_so() {
        let now = number();
        if now != before {
            (end, before) = (Instant::now() + PATIENCE, now);
        }
        assert!(Instant::now() < end, "never: {what} ({now})");
        // Sleeps because another program is observed from outside, without a notification of changes.
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Ports that [`free_port`] looks at.
const PORTS: u16 = 8192;
static NEXT_PORT: AtomicU16 = AtomicU16::new(0);

/// Returns a port of all addresses that nothing has, of TCP and UDP. It is below those that the kernel gives to sockets
/// that ask for any port, so that no other test gets it before it is used, nor between two uses.
pub fn free_port() -> u16 {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap();
    let lowest: u16 = range.split_whitespace().next().unwrap().parse().unwrap();
    let first = lowest.checked_sub(PORTS).filter(|first| *first >= 1024).expect("ports below the kernel's");
    // Other programs with these tests begin elsewhere.
    let own = std::process::id() as u16;
    (0..PORTS)
        .map(|_| first + own.wrapping_mul(61).wrapping_add(NEXT_PORT.fetch_add(1, Ordering::Relaxed)) % PORTS)
        .find(|port| {
            TcpListener::bind(("0.0.0.0", *port)).is_ok_and(|tcp| stop_listening(&tcp)) && !is_of_udp(*port)
        })
        .expect("a free port")
}

/// Lets a listener accept nothing more, also if a program that another test is just starting still has it. Its address
/// can be bound again.
pub fn stop_listening(listener: &TcpListener) -> bool {
    socket2::SockRef::from(listener).shutdown(std::net::Shutdown::Both).is_ok()
}

/// Returns whether a UDP socket has a port. It binds none: a program that another test is just starting might keep it.
fn is_of_udp(port: u16) -> bool {
    let end = format!(":{port:04X}");
    ["udp", "udp6"].into_iter().any(|kind| {
        let all = std::fs::read_to_string(format!("/proc/thread-self/net/{kind}")).unwrap_or_default();
        all.lines().any(|line| line.split_whitespace().nth(1).is_some_and(|local| local.ends_with(&end)))
    })
}

/// Returns an address of loopback with such a port.
pub fn free_address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port()))
}

/// Returns whether nothing accepts connections at an address of [`free_port`]: connecting to one of the
/// kernel's ports may reach another test, or the socket that connects itself.
pub fn is_closed(address: SocketAddr) -> bool {
    TcpStream::connect(address).is_err()
}

/// Accepts the next connection that brings data. One that has lost a race between an association and TCP brings none.
pub fn accept_with_data(server: &TcpListener) -> TcpStream {
    loop {
        let stream = accept(server);
        if stream.peek(&mut [0; 1]).is_ok_and(|len| len > 0) {
            return stream;
        }
    }
}

/// The lines of an access log that a gateway may be writing: the last one counts once it is whole.
pub fn log_lines(path: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    whole.map(|line| serde_json::from_str(line).unwrap()).collect()
}
