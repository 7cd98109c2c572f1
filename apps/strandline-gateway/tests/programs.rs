//! Unmodified programs by `strandline run`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

use crate::common::{Home, PROGRAM, World, free_address, patient, serve_echo};
use crate::listeners::serve_http;

/// The library, built as `make build` does, only without optimisation.
pub static LIBRARY: LazyLock<PathBuf> = LazyLock::new(|| {
    let test = std::env::current_exe().unwrap();
    let target = test.ancestors().nth(3).unwrap();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["build", "--quiet", "--locked", "--package", "strandline-preload", "--target-dir"])
        .arg(target);
    assert!(cargo.current_dir(root).status().unwrap().success(), "building the library");
    target.join("debug/libstrandline_preload.so")
});

/// Returns a command by `strandline run` with these options.
pub fn command(options: &str, program: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg("run").args(options.split_whitespace()).arg("--").args(program);
    command.env("STRANDLINE_PRELOAD_LIBRARY", &*LIBRARY);
    command
}

/// Runs a command with `strandline run` and these options.
fn run(options: &str, program: &[&str]) -> Output {
    command(options, program).output().unwrap()
}

/// Runs a command that must succeed, and returns what it has written.
fn told(options: &str, program: &[&str]) -> String {
    let output = run(options, program);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program:?}: {}: {errors}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// The options for the gateway of a world, and for destinations on loopback.
fn by(world: &World) -> String {
    format!("--gateway {} --loopback", world.near.listener(0))
}

fn script(name: &str) -> String {
    format!("{}/tests/programs/{name}.py", env!("CARGO_MANIFEST_DIR"))
}

/// Returns how many connections came by `strandline run`.
fn count(world: &World) -> u64 {
    let metrics = world.near.admin("metrics");
    let line = metrics
        .lines()
        .find_map(|line| line.strip_prefix("strandline_gateway_connections_total{listener=\"preload\"} "));
    line.map_or(0, |count| count.parse().unwrap())
}

#[test]
fn curl_and_wget_fetch_without_knowing() {
    let world = World::with("--allow 127.0.0.1:1", "--preload 0");
    serve_http(&world.server, "a page");
    let server = world.server.local_addr().unwrap();
    let url = format!("http://{server}/");
    let curl =
        told(&by(&world), &["curl", "-sS", "--tcp-fastopen", "-w", " %{remote_ip}:%{remote_port}", &url]);
    assert_eq!(curl, format!("a page {server}"));
    assert_eq!(told(&by(&world), &["wget", "-q", "-O", "-", &url]), "a page");
    assert_eq!(count(&world), 2);
    let refused = run(&by(&world), &["curl", "-sS", "http://127.0.0.1:1/"]);
    assert_eq!(refused.status.code(), Some(7), "curl: couldn't connect");
    let refused = run(&by(&world), &["wget", "-O", "-", "http://127.0.0.1:1/"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("Connection refused"));
}

#[test]
fn connections_look_as_any_others() {
    for early in ["", "--early-reply"] {
        let world =
            World::with("--allow 127.0.0.1:1 --allow 255.255.255.255:80", &format!("--preload 0 {early}"));
        let port = serve_echo(&world.server).port().to_string();
        let program = ["python3", &script("connect"), &port, "1", "2"];
        if early.is_empty() {
            assert_eq!(told(&by(&world), &program), "all is well\n");
            assert!(count(&world) > 60, "they came by the gateway");
        } else {
            // Failures are resets then.
            let code = "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); s.sendall(b'x'); \
                        print(s.recv(1), s.getpeername()[1])";
            assert_eq!(told(&by(&world), &["python3", "-c", code, &port]), format!("b'x' {port}\n"));
        }
    }
}

/// A server whose queue is full: the kernel answers no further client.
pub struct Silent {
    pub address: SocketAddr,
    clients: Vec<socket2::Socket>,
    listener: Option<socket2::Socket>,
    /// Keeps the port after the listener: another program's listener would accept the clients that still try.
    port: socket2::Socket,
}

impl Silent {
    pub fn start() -> Self {
        let socket = || socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        let (listener, port) = (socket(), socket());
        // Both may have the port until one listens.
        [&listener, &port].into_iter().for_each(|socket| socket.set_reuse_address(true).unwrap());
        listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        let address = listener.local_addr().unwrap();
        port.bind(&address).unwrap();
        listener.listen(0).unwrap();
        port.set_reuse_address(false).unwrap();
        let clients = (0..4).map(|_| {
            let client = socket();
            client.set_nonblocking(true).unwrap();
            let _ = client.connect(&address);
            client
        });
        let clients = clients.collect();
        Self { address: address.as_socket().unwrap(), clients, listener: Some(listener), port }
    }

    /// Refuses clients from now on.
    fn close(&mut self) {
        self.clients.clear();
        self.listener = None;
        let taken = TcpListener::bind(self.address);
        assert!(taken.is_err(), "{:?} keeps the port", self.port);
    }
}

/// A far gateway with a time limit for connecting onward, and a near one for programs.
fn with_limit(name: &str, secs: u32, address: SocketAddr) -> World {
    let home = Home::new(name);
    let file = home.write("far.toml", &format!("[limits]\nconnect_timeout_secs = {secs}\n"));
    World::with(&format!("--config {file} --allow {address}"), "--preload 0")
}

#[test]
fn sockets_are_unconnected_while_the_server_is_silent() {
    let mut server = Silent::start();
    let world = with_limit("pending", 600, server.address);
    let port = server.address.port().to_string();
    let mut command = command(&by(&world), &["python3", &script("pending"), &port]);
    let mut program = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(program.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "close");
    server.close();
    assert_eq!(lines.next().unwrap().unwrap(), "all is well");
    assert!(program.wait().unwrap().success());
}

#[test]
fn servers_that_stay_silent_time_out() {
    let server = Silent::start();
    let world = with_limit("silent", 1, server.address);
    let code = "import errno, select, socket, sys; to = ('127.0.0.1', int(sys.argv[1])); s = socket.socket(); \
                s.setblocking(False); assert s.connect_ex(to) == errno.EINPROGRESS; \
                assert socket.socket().connect_ex(to) == errno.ETIMEDOUT; \
                assert select.select([], [s], [], 60)[1] == [s]; \
                assert s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ETIMEDOUT; print('timed out')";
    let told = told(&by(&world), &["python3", "-c", code, &server.address.port().to_string()]);
    assert_eq!(told, "timed out\n");
    drop(server);
}

#[test]
fn options_say_what_goes_directly() {
    let world = World::with("", "--preload 0");
    let port = serve_echo(&world.server).port().to_string();
    let gateway = format!("--gateway {}", world.near.listener(0));
    let program = [
        "python3",
        "-c",
        "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])))",
        &port,
    ];
    told(&gateway, &program);
    told(&format!("{gateway} --loopback --direct 127.0.0.0/8"), &program);
    assert_eq!(count(&world), 0);
    told(&format!("{gateway} --loopback --direct 10.0.0.0/8"), &program);
    assert_eq!(count(&world), 1);
}

#[test]
fn without_a_gateway_connections_are_direct() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = serve_echo(&listener).port().to_string();
    let options = format!("--gateway {} --loopback", free_address());
    let program = ["python3", &script("direct"), &port, "1"];
    let output = run(&options, &program);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.contains("no gateway at"), "{errors}");
    let output =
        run(&format!("{options} --fallback none"), &["curl", "-sS", &format!("http://127.0.0.1:{port}/")]);
    assert_eq!(output.status.code(), Some(7), "curl: couldn't connect");
}

#[test]
fn the_exit_status_is_the_programs() {
    let world = World::with("--allow 127.0.0.1:1", "--preload 0 --socks 0");
    // SOCKS comes first.
    let gateway = format!("--gateway {}", world.near.listener(1));
    assert_eq!(run(&gateway, &["sh", "-c", "exit 7"]).status.code(), Some(7));
    assert_eq!(run(&gateway, &["no-such-program"]).status.code(), Some(127));
    assert!(told(&gateway, &["env"]).contains("LD_PRELOAD=/"));
    let wrong = run(&format!("--gateway {}", world.near.listener(0)), &["true"]);
    assert!(!wrong.status.success());
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("is not the --preload of a gateway"));
}

#[test]
fn programs_without_a_loader_are_refused() {
    let world = World::with("", "--preload 0");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, program) = (folder.join("static.c"), folder.join(format!("static-{}", std::process::id())));
    std::fs::File::create(&source).unwrap().write_all(b"int main(void) { return 0; }\n").unwrap();
    let built = Command::new("gcc").arg("-static").arg("-o").args([&program, &source]).status();
    assert!(built.expect("tests/interop/setup quick installs gcc").success());
    let refused = run(&by(&world), &[program.to_str().unwrap()]);
    std::fs::remove_file(&program).unwrap();
    let errors = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success());
    assert!(errors.contains("is statically linked") && errors.contains("nftables"), "{errors}");
}

/// Programs that have connected before a restart ask the new process.
#[test]
fn programs_know_their_peers_after_a_restart() {
    let mut world = World::with("", "--preload 0");
    let port = serve_echo(&world.server).port().to_string();
    let code = "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); print('open', flush=True); \
                sys.stdin.readline(); print(s.getpeername()[1])";
    let mut command = command(&by(&world), &["python3", "-c", code, &port]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut program = command.spawn().unwrap();
    let mut lines = BufReader::new(program.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "open");
    for _ in 0..2 {
        let (is_done, text) = world.near.restart();
        assert!(is_done, "{text}");
    }
    writeln!(program.stdin.take().unwrap()).unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), port);
    assert!(program.wait().unwrap().success());
}

/// A limit of the far gateway is an error of its own.
#[test]
fn programs_beyond_the_limit_find_no_buffers() {
    let home = Home::new("no-buffers");
    let file = home.write("far.toml", "[limits]\nconnections_max = 1\n");
    let world = World::with(&format!("--config {file}"), "--preload 0");
    let port = serve_echo(&world.server).port().to_string();
    let code = "import errno, socket, sys; to = ('127.0.0.1', int(sys.argv[1])); first = socket.create_connection(to); \
                print(errno.errorcode[socket.socket().connect_ex(to)])";
    assert_eq!(told(&by(&world), &["python3", "-c", code, &port]), "ENOBUFS\n");
}

/// Wrong pointers are errors, as without the library.
#[test]
fn wrong_pointers_are_reported() {
    let world = World::with("", "--preload 0");
    let port = serve_echo(&world.server).port().to_string();
    let code = "import ctypes, errno, socket, sys; libc = ctypes.CDLL(None, use_errno=True); s = socket.socket(); fd = s.fileno(); \
                wrong = ctypes.c_void_p(1); room = ctypes.create_string_buffer(16); size = ctypes.c_uint32(16); \
                error = lambda result: errno.errorcode[ctypes.get_errno()] if result else 'none'; \
                found = [error(libc.connect(fd, wrong, 16)), error(libc.connect(fd, None, 16))]; \
                s.connect(('127.0.0.1', int(sys.argv[1]))); \
                found += [error(libc.getpeername(fd, wrong, ctypes.byref(size))), error(libc.getpeername(fd, room, wrong)), \
                error(libc.getpeername(fd, None, None)), error(libc.getpeername(fd, room, ctypes.byref(size)))]; \
                print(*found, s.getpeername()[1])";
    let found = told(&by(&world), &["python3", "-c", code, &port]);
    assert_eq!(found, format!("EFAULT EFAULT EFAULT EFAULT EFAULT none {port}\n"));
}

/// What another user of the host can guess of a socket says nothing of its connection.
#[test]
fn strangers_do_not_learn_of_connections() {
    let world = World::with("", "--preload 0");
    let port = serve_echo(&world.server).port().to_string();
    let code = "import os, socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); \
                print(int.from_bytes(s.getsockopt(socket.SOL_SOCKET, 57, 8), sys.byteorder), \
                os.environ['STRANDLINE_GATEWAY'].split('secret=')[1], flush=True); sys.stdin.readline()";
    let mut command = command(&by(&world), &["python3", "-c", code, &port]);
    let mut program = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(program.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let (cookie, secret) = line.trim().split_once(' ').unwrap();
    let (cookie, secret) = (cookie.parse::<u64>().unwrap(), u64::from_str_radix(secret, 16).unwrap());
    let ask = |key: u64| {
        let (mut question, mut answer) = ([0; 36], [0; 32]);
        question[..6].copy_from_slice(b"SLp1\x02\x04");
        question[24..32].copy_from_slice(&key.to_be_bytes());
        let mut tcp = patient(TcpStream::connect(world.near.listener(0)).unwrap());
        tcp.write_all(&question).unwrap();
        tcp.read_exact(&mut answer).unwrap();
        answer[4]
    };
    assert_eq!(ask(cookie ^ secret), 2, "the program's own library learns of it");
    assert_eq!(ask(cookie), 0, "the socket is not known by its cookie alone");
    drop(program.stdin.take());
    assert!(program.wait().unwrap().success());
}

/// What the library does not understand is not for direct connections.
#[test]
fn libraries_refuse_what_they_do_not_understand() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = serve_echo(&server).port().to_string();
    let code = "import errno, socket, sys; \
                print(errno.errorcode.get(socket.socket().connect_ex((sys.argv[2], int(sys.argv[1])))))";
    let told_of = |settings: &str, host: &str| {
        let mut command = Command::new("python3");
        command.args(["-c", code, &port, host]);
        command.env("LD_PRELOAD", &*LIBRARY).env("STRANDLINE_GATEWAY", settings);
        let output = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(output.stdout), text(output.stderr))
    };
    let told = |settings: &str| told_of(settings, "127.0.0.1");
    let (gateway, none) = (free_address(), "None\n".to_owned());
    assert_eq!(told(""), (none.clone(), String::new()), "no gateway");
    assert_eq!(told(&format!("{gateway},loopback,secret=1")), (none.clone(), String::new()), "the fallback");
    for settings in ["loopback,later=1", "loopback,secret=x", "loopback,direct=10.0.0.0"] {
        let (outcome, errors) = told(&format!("{gateway},{settings}"));
        assert_eq!(outcome, "ECONNREFUSED\n", "{settings}: {errors}");
        assert!(errors.contains("which is of another version: TCP connections are refused"), "{errors}");
    }
    assert_eq!(
        told(&format!("{gateway},later=1")).0,
        none,
        "connections to loopback are never the gateway's"
    );
    let multicast = told_of(&format!("{gateway},loopback,later=1"), "224.0.0.1").0;
    assert_eq!(multicast, "ENETUNREACH\n", "nor are those to multicast addresses");
}
