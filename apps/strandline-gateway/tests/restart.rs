//! Hot restarts: connections go on in the old process, and new ones come to the new one.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use crate::common::{
    Gateway, Home, PATIENCE, PROGRAM, at_last, bytes, children, free_address, free_port, is_closed, is_gone,
    patient, read_all, read_exactly, while_it_moves,
};

/// Connections that are open while gateways restart.
const CONNECTIONS: usize = 50;
/// Bytes that are sent before they are awaited.
const CHUNK: usize = 20_000;

fn serve_echo() -> SocketAddr {
    crate::common::serve_echo(&TcpListener::bind("127.0.0.1:0").unwrap())
}

/// Sends a chunk, and checks that it comes back.
fn pass(tcp: &mut TcpStream, seed: u64) {
    let chunk = bytes(CHUNK, seed);
    tcp.write_all(&chunk).unwrap();
    assert!(read_exactly(tcp, CHUNK) == chunk, "other bytes came back");
}

/// Ends a connection, and checks that it was whole.
fn finish(mut tcp: TcpStream) {
    tcp.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(read_all(&mut tcp), (Vec::new(), true));
}

/// Data that passes all the time.
struct Traffic {
    stop: Arc<AtomicBool>,
    rounds: Arc<AtomicUsize>,
    tasks: Vec<JoinHandle<()>>,
}

impl Traffic {
    /// Opens connections that stay, and one after another that end.
    fn start(listener: SocketAddr) -> Self {
        let (stop, rounds) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let begin = |run: Box<dyn Fn(&AtomicBool, &AtomicUsize) + Send>| {
            let (stop, rounds) = (Arc::clone(&stop), Arc::clone(&rounds));
            std::thread::spawn(move || run(&stop, &rounds))
        };
        let mut tasks: Vec<JoinHandle<()>> = (0..CONNECTIONS)
            .map(|number| {
                begin(Box::new(move |stop, rounds| {
                    let mut tcp = patient(TcpStream::connect(listener).unwrap());
                    let mut round = 0;
                    while !stop.load(Ordering::Relaxed) {
                        pass(&mut tcp, number as u64 * 1_000_000 + round);
                        rounds.fetch_add(1, Ordering::Relaxed);
                        round += 1;
                    }
                    finish(tcp);
                }))
            })
            .collect();
        tasks.push(begin(Box::new(move |stop, _| {
            while !stop.load(Ordering::Relaxed) {
                let mut tcp = patient(TcpStream::connect(listener).unwrap());
                pass(&mut tcp, 7);
                finish(tcp);
            }
        })));
        Self { stop, rounds, tasks }
    }

    /// Waits until all connections have passed some chunks more.
    fn go_on(&self) {
        let rounds = || self.rounds.load(Ordering::Relaxed);
        let before = rounds();
        while_it_moves("data passes", || rounds() as u64, || rounds() > before + 4 * CONNECTIONS);
    }

    /// Ends all connections, none of which was broken.
    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.join().unwrap();
        }
    }
}

/// Restarts both gateways under connections.
fn restart_both(mut far: Gateway, mut near: Gateway) {
    let traffic = Traffic::start(near.listener(0));
    traffic.go_on();
    let listener = near.listener(0);
    let (is_done, text) = near.restart();
    assert!(is_done && text.contains("connections stay"), "{text}");
    assert_eq!(near.listener(0), listener);
    traffic.go_on();
    let listen = far.listens();
    let (is_done, text) = far.restart();
    assert!(is_done, "{text}");
    assert_eq!(far.listens(), listen);
    traffic.go_on();
    // The new processes have new connections, and know the old ones.
    for gateway in [&near, &far] {
        at_last("the old process tells its connections", || {
            gateway.status()["former_processes"][0]["connections"].as_u64() >= Some(CONNECTIONS as u64)
        });
    }
    // Until there is an association with the new process, new connections use that with the old one.
    at_last("new connections come to the new process", || far.status()["bytes_up"].as_u64() > Some(0));
    let mut new = patient(TcpStream::connect(listener).unwrap());
    pass(&mut new, 1);
    let client = new.local_addr().unwrap().to_string();
    for gateway in [&near, &far] {
        let status = gateway.status();
        let is_it = |one: &serde_json::Value| one["client"] == client.as_str();
        assert!(status["connections"].as_array().unwrap().iter().any(is_it), "{status}");
    }
    traffic.end();
    at_last("the old processes end", || near.has_ended() && far.has_ended());
    at_last("they are forgotten", || {
        [&near, &far]
            .iter()
            .all(|gateway| gateway.status()["former_processes"].as_array().unwrap().is_empty())
    });
    pass(&mut new, 2);
    finish(new);
    // Once more, in the places of the processes that have ended.
    let traffic = Traffic::start(listener);
    traffic.go_on();
    for gateway in [&mut far, &mut near] {
        let (is_done, text) = gateway.restart();
        assert!(is_done, "{text}");
        traffic.go_on();
    }
    traffic.end();
}

#[test]
fn connections_survive_restarts_of_both_sides() {
    let address = serve_echo();
    let far =
        Gateway::start(&format!("--listen 127.0.0.1:0 --shards 2 --allow {address} --admin 127.0.0.1:0"));
    let near =
        Gateway::start(&format!("--peer far={} --forward 0={address} --admin 127.0.0.1:0", far.listens()));
    restart_both(far, near);
}

#[test]
fn encrypted_connections_survive_restarts_of_both_sides() {
    let address = serve_echo();
    let (one, other) = (Home::new("restart-far"), Home::new("restart-near"));
    one.trust("near", other.key);
    other.trust("127.0.0.1", one.key);
    let far = Gateway::start_in(
        &one.path,
        &format!("--listen 127.0.0.1:0 --shards 2 --allow {address} --admin 127.0.0.1:0"),
    );
    let options = format!("--peer far={} --forward 0={address} --admin 127.0.0.1:0", far.listens());
    restart_both(far, Gateway::start_in(&other.path, &options));
}

#[test]
fn a_new_process_that_fails_changes_nothing() {
    let address = serve_echo();
    let home = Home::new("restart-fails");
    let access = format!("[[access]]\nallow = [\"{address}\"]\n");
    let file = home.write("far.toml", &access);
    let mut far = Gateway::start(&format!("--listen 127.0.0.1:0 --admin 127.0.0.1:0 --config {file}"));
    let near = Gateway::start(&format!("--peer far={} --forward 0={address}", far.listens()));
    let mut before = patient(TcpStream::connect(near.listener(0)).unwrap());
    pass(&mut before, 1);
    home.write("far.toml", "[[access]]\nallow = [\"nowhere\"]\n");
    let (is_done, text) = far.restart();
    assert!(!is_done && text.contains("far.toml:2: access[0].allow"), "{text}");
    // The address of a listener is in use: only the new process finds that.
    let peer = format!("[[peer]]\nname = \"own\"\naddresses = [\"{}\"]\n", far.listens());
    home.write("far.toml", &format!("{peer}[[socks]]\nlisten = \"{address}\"\n{access}"));
    let (is_done, text) = far.restart();
    assert!(!is_done && text.contains("the new process has ended at its start"), "{text}");
    at_last("the log has the reason", || far.log().contains("Address already in use"));
    pass(&mut before, 2);
    let mut after = patient(TcpStream::connect(near.listener(0)).unwrap());
    pass(&mut after, 3);
    // And a later attempt succeeds.
    home.write("far.toml", &access);
    let (is_done, text) = far.restart();
    assert!(is_done, "{text}");
    pass(&mut before, 4);
    finish(before);
    finish(after);
    at_last("the old process ends", || far.has_ended());
    let mut new = patient(TcpStream::connect(near.listener(0)).unwrap());
    pass(&mut new, 5);
    finish(new);
}

/// A gateway whose next version is a script that becomes the program once a file is there.
struct Waiting {
    home: Home,
    gateway: Gateway,
}

impl Waiting {
    fn new(name: &str, options: &str) -> Self {
        let home = Home::new(name);
        let link = home.path.join("current");
        std::os::unix::fs::symlink(PROGRAM, &link).unwrap();
        let mut command = Command::new(&link);
        command.args(options.split_whitespace()).env("XDG_CONFIG_HOME", "/nonexistent");
        let gateway = Gateway::spawn(command);
        let go = home.path.join("go").display().to_string();
        let script = format!("#!/bin/sh\nuntil [ -e {go} ]; do sleep 0.05; done\nexec {PROGRAM} \"$@\"\n");
        let file = home.write("next", &script);
        // By another process: a file that this one writes may still be open in a child of another test.
        let mut install = Command::new("install");
        install.args(["-m", "755", &file, &home.path.join("version").display().to_string()]);
        assert!(install.status().unwrap().success());
        std::fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink(home.path.join("version"), &link).unwrap();
        Self { home, gateway }
    }

    /// Lets a gateway restart, and waits until the next process has begun to start. Returns that.
    fn begin_of(gateway: &Gateway) -> rustix::process::Pid {
        gateway.signal(rustix::process::Signal::USR2);
        let pid = gateway.pid();
        at_last("a new process is starting", || !children(pid).is_empty());
        // It answers again once it has handed everything over.
        gateway.status();
        rustix::process::Pid::from_raw(children(pid)[0] as i32).unwrap()
    }
}

/// The end of a gateway is that of a process that it has started, although its connections last longer.
#[test]
fn a_starting_process_ends_with_the_one_before() {
    let address = serve_echo();
    // With one shard there is a single socket for associations.
    let options = format!("--listen 127.0.0.1:0 --shards 1 --allow {address} --admin 127.0.0.1:0");
    let Waiting { home, gateway } = &Waiting::new("restart-term", &options);
    let near = Gateway::start(&format!("--peer far={} --forward 0={address}", gateway.listens()));
    let mut before = patient(TcpStream::connect(near.listener(0)).unwrap());
    pass(&mut before, 1);
    let next = Waiting::begin_of(gateway);
    gateway.terminate();
    home.write("go", "");
    at_last("the new process ends", || is_gone(next));
    pass(&mut before, 2);
    finish(before);
    at_last("the old process ends", || {
        is_gone(rustix::process::Pid::from_raw(gateway.pid() as i32).unwrap())
    });
}

/// A signal that comes when the next process serves, before the old one has heard of that, ends both.
#[test]
fn an_end_reaches_a_process_that_just_serves() {
    let address = serve_echo();
    let Waiting { home, gateway } =
        &Waiting::new("restart-race", &format!("--listen 127.0.0.1:0 --allow {address} --admin 127.0.0.1:0"));
    let near = Gateway::start(&format!("--peer far={} --forward 0={address}", gateway.listens()));
    let mut before = patient(TcpStream::connect(near.listener(0)).unwrap());
    pass(&mut before, 1);
    let next = Waiting::begin_of(gateway);
    gateway.stop(true);
    home.write("go", "");
    // Only the new process answers.
    at_last("the new process serves", || {
        !gateway.status()["former_processes"].as_array().unwrap().is_empty()
    });
    gateway.terminate();
    gateway.stop(false);
    pass(&mut before, 2);
    finish(before);
    at_last("both end", || {
        is_gone(next) && is_gone(rustix::process::Pid::from_raw(gateway.pid() as i32).unwrap())
    });
}

#[test]
fn systemd_learns_of_the_new_process() {
    let home = Home::new("notify");
    let path = home.path.join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let told = || {
        let mut text = [0; 128];
        let len = socket.recv(&mut text).unwrap();
        String::from_utf8(text[..len].to_vec()).unwrap()
    };
    let mut command = Command::new(PROGRAM);
    command.args(["--listen", "127.0.0.1:0"]).env("NOTIFY_SOCKET", &path);
    command.env("XDG_CONFIG_HOME", "/nonexistent");
    let mut gateway = Gateway::spawn(command);
    let of = |gateway: &Gateway| format!("READY=1\nMAINPID={}\n", gateway.announced["pid"]);
    assert_eq!(told(), of(&gateway));
    gateway.signal(rustix::process::Signal::USR2);
    gateway.note_successor();
    assert_eq!(told(), of(&gateway));
    at_last("the old process ends", || gateway.has_ended());
}

/// The main process is told to end, as systemd does: the others end with it, once their connections have.
#[test]
fn processes_of_before_end_with_the_newest() {
    let address = serve_echo();
    let far = Gateway::start(&format!("--listen 127.0.0.1:0 --allow {address}"));
    let forward = format!("--forward {}={address}", free_address());
    let mut near = Gateway::start(&format!("--peer far={} {forward} --admin 127.0.0.1:0", far.listens()));
    let mut before = patient(TcpStream::connect(near.listener(0)).unwrap());
    pass(&mut before, 1);
    let (is_done, text) = near.restart();
    assert!(is_done, "{text}");
    rustix::process::kill_process(near.newest(), rustix::process::Signal::TERM).unwrap();
    // systemd signals all processes of a service.
    near.terminate();
    at_last("nothing listens", || is_closed(near.listener(0)));
    pass(&mut before, 2);
    assert!(!is_gone(near.newest()) && !near.has_ended());
    finish(before);
    at_last("both end", || near.has_ended() && is_gone(near.newest()));
}

/// Listeners that become others at the same ports: of all addresses, and of another kind.
struct Ports {
    peer: String,
    address: SocketAddr,
    ports: [u16; 3],
}

impl Ports {
    fn before(&self) -> String {
        let (Self { peer, address, ports: [first, second, admin] }, forward) =
            (self, "[[forward]]\nlisten = ");
        format!(
            "admin = \"127.0.0.1:{admin}\"\n{peer}{forward}\"127.0.0.1:{first}\"\nto = \"{address}\"\n\
             {forward}\"{second}\"\nto = \"{address}\"\n"
        )
    }

    fn after(&self) -> String {
        let Self { peer, address, ports: [first, second, admin] } = self;
        format!(
            "admin = \"127.0.0.1:{admin}\"\n{peer}[[forward]]\nlisten = \"0.0.0.0:{first}\"\nfrom = [\"127.0.0.0/8\"]\nto = \"{address}\"\n\
             [[preload]]\nlisten = \"{second}\"\n"
        )
    }

    /// Checks that the first listens at all addresses, and that the second is no forward any more.
    fn are_changed(&self) {
        let [first, second, _] = self.ports;
        // In the moment in which a socket is closed, connections to it are reset.
        let answers = |host: [u8; 4], port: u16, question: &[u8], answer: &[u8]| {
            let mut room = vec![0; answer.len()];
            let mut tcp = TcpStream::connect((std::net::Ipv4Addr::from(host), port)).map(patient)?;
            tcp.write_all(question)?;
            tcp.read_exact(&mut room)?;
            Ok::<_, std::io::Error>(room == answer)
        };
        for host in [[127, 0, 0, 1], [127, 0, 0, 2]] {
            at_last("it listens", || answers(host, first, b"echo", b"echo").unwrap_or(false));
        }
        // A question about a socket, which only one kind answers.
        let (mut question, mut answer) = ([0; 36], [0; 32]);
        question[..6].copy_from_slice(b"SLp1\x02\x04");
        answer[..4].copy_from_slice(b"SLp1");
        at_last("only the new kind is there", || {
            answers([127, 0, 0, 1], second, &question, &answer).unwrap_or(false)
        });
    }
}

/// Starts a gateway with listeners that `change` turns into others, under an open connection.
fn change_ports(name: &str, change: impl Fn(&mut Gateway)) {
    let (address, home) = (serve_echo(), Home::new(name));
    let far = Gateway::start(&format!("--listen 127.0.0.1:0 --allow {address}"));
    let peer = format!("[[peer]]\nname = \"far\"\naddresses = [\"{}\"]\n", far.listens());
    let ports = Ports { peer, address, ports: [free_port(), free_port(), free_port()] };
    let file = home.write("near.toml", &ports.before());
    let mut near = Gateway::start(&format!("--config {file}"));
    let mut before = patient(TcpStream::connect(("127.0.0.1", ports.ports[1])).unwrap());
    pass(&mut before, 1);
    home.write("near.toml", &ports.after());
    change(&mut near);
    ports.are_changed();
    pass(&mut before, 2);
    finish(before);
}

#[test]
fn listeners_change_their_kind_and_address() {
    change_ports("restart-ports", |near| {
        let (is_done, text) = near.restart();
        assert!(is_done, "{text}");
    });
    change_ports("reload-ports", |near| {
        near.hang_up();
        at_last("it is read again", || near.status()["reloads"]["count"] == 1);
        assert_eq!(near.status()["reloads"]["last_error"], serde_json::Value::Null);
    });
}

#[test]
fn the_address_of_associations_stays_with_its_port() {
    let home = Home::new("restart-listen");
    let access = "[[access]]\nallow = [\"127.0.0.1:1\"]\n";
    let config = |at: &str| format!("listen = \"{at}\"\ninsecure = true\n{access}");
    let port = free_port();
    let file = home.write("far.toml", &config(&format!("127.0.0.1:{port}")));
    let mut far = Gateway::start(&format!("--config {file} --admin 127.0.0.1:0"));
    home.write("far.toml", &config(&format!("0.0.0.0:{port}")));
    assert!(!far.restart().0);
    at_last("the log has the reason", || far.log().contains("only be changed to another port"));
}

/// More sockets than one message to another process holds. Connections that come meanwhile are served, whichever
/// process accepts them.
#[test]
fn hundreds_of_listeners_are_handed_over() {
    let (address, home) = (serve_echo(), Home::new("restart-many"));
    let far = Gateway::start(&format!("--listen 127.0.0.1:0 --allow {address}"));
    let mut config = format!("[[peer]]\nname = \"far\"\naddresses = [\"{}\"]\n", far.listens());
    for _ in 0..600 {
        config += &format!("[[forward]]\nlisten = \"0\"\nto = \"{address}\"\n");
    }
    let file = home.write("near.toml", &config);
    let mut near = Gateway::start(&format!("--config {file} --admin 127.0.0.1:0"));
    let listeners = near.announced["listeners"].clone();
    let all: Vec<_> = (0..600).map(|listener| near.listener(listener)).collect();
    let (stop, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for first in [0, 300] {
            let mut next = all.iter().cycle().skip(first);
            let (stop, served) = (&stop, &served);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let mut tcp = patient(TcpStream::connect(next.next().unwrap()).unwrap());
                    tcp.write_all(b"x").unwrap();
                    assert_eq!(read_exactly(&mut tcp, 1), b"x");
                    finish(tcp);
                    served.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let (is_done, text) = near.restart();
        let at_restart = served.load(Ordering::Relaxed);
        let served = || served.load(Ordering::Relaxed) as u64;
        while_it_moves("each serves", served, || served() as usize >= at_restart + all.len());
        stop.store(true, Ordering::Relaxed);
        assert!(is_done, "{text}");
    });
    assert_eq!(near.announced["listeners"], listeners);
}

/// A new version is installed by turning a link.
#[test]
fn a_link_leads_to_the_new_version() {
    let home = Home::new("restart-link");
    let (first, second, link) =
        (home.path.join("first"), home.path.join("second"), home.path.join("current"));
    for version in [&first, &second] {
        // By another process: a file that this one writes may still be open in a child of another test.
        assert!(Command::new("cp").arg(PROGRAM).arg(version).status().unwrap().success());
    }
    std::os::unix::fs::symlink(&first, &link).unwrap();
    let mut command = Command::new(&link);
    command.args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    let mut gateway = Gateway::spawn(command);
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(&second, &link).unwrap();
    let (is_done, text) = gateway.restart();
    assert!(is_done, "{text}");
    let runs = std::fs::read_link(format!("/proc/{}/exe", gateway.newest())).unwrap();
    assert_eq!(runs, second);
}

/// The first process of a container stays while those that serve come and go, and waits for what ends.
#[test]
fn the_first_process_of_a_container_restarts_hot() {
    let address = serve_echo();
    let mut command = Command::new("unshare");
    command.args([
        "--pid",
        "--fork",
        "--kill-child=KILL",
        "--mount-proc",
        PROGRAM,
        "--listen",
        "127.0.0.1:0",
    ]);
    command.args(["--admin", "127.0.0.1:0", "--allow", &address.to_string()]);
    command.env("XDG_CONFIG_HOME", "/nonexistent");
    let far = Gateway::spawn(command);
    let near = Gateway::start(&format!("--peer far={} --forward 0={address}", far.listens()));
    let mut before = patient(TcpStream::connect(near.listener(0)).unwrap());
    pass(&mut before, 1);
    let first = children(far.pid())[0];
    let old = children(first)[0];
    // Process IDs of the container mean nothing here.
    let admin = far.announced["admin"].as_str().unwrap().to_owned();
    let restart = || {
        let output = Command::new(PROGRAM).args(["restart", "--admin", &admin]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    restart();
    pass(&mut before, 2);
    finish(before);
    let is_alone = || matches!(children(first)[..], [only] if only != old);
    at_last("the old process ends, and the new one is adopted", is_alone);
    let mut after = patient(TcpStream::connect(near.listener(0)).unwrap());
    pass(&mut after, 3);
    restart();
    pass(&mut after, 4);
    // A signal for the container is for the newest process.
    let first = rustix::process::Pid::from_raw(first as i32).unwrap();
    rustix::process::kill_process(first, rustix::process::Signal::TERM).unwrap();
    pass(&mut after, 5);
    finish(after);
    drop(near);
    assert!(far.wait());
}

/// A key that is no longer trusted counts for old processes, too: by a reload of the newest one, and by a restart.
#[test]
fn revoked_keys_lose_connections_of_old_processes() {
    for by_restart in [false, true] {
        let (far_home, near_home) = (Home::new("revoked-far"), Home::new("revoked-near"));
        far_home.trust("laptop", near_home.key);
        near_home.trust("127.0.0.1", far_home.key);
        let echo = serve_echo();
        let options = format!("--listen 127.0.0.1:{} --admin 127.0.0.1:0 --allow {echo}", free_port());
        let mut far = Gateway::start_in(&far_home.path, &options);
        let near =
            Gateway::start_in(&near_home.path, &format!("--peer far={} --forward 0={echo}", far.listens()));
        let mut tcp = patient(TcpStream::connect(near.listener(0)).unwrap());
        pass(&mut tcp, 1);
        assert!(far.restart().0);
        pass(&mut tcp, 2);
        far_home.write("strandline/known_hosts", "");
        if by_restart {
            assert!(far.restart().0);
        } else {
            let admin = far.announced["admin"].as_str().unwrap();
            let output = Command::new(PROGRAM).args(["reload", "--admin", admin]).output().unwrap();
            assert!(output.status.success());
        }
        assert_eq!(read_all(&mut tcp), (Vec::new(), false));
        at_last("the old process ends", || far.has_ended());
    }
}
