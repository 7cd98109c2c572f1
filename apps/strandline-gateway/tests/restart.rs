//! Hot restarts: connections go on in the old process, and new ones come to the new one.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use crate::common::{Gateway, Home, PATIENCE, PROGRAM, at_last, bytes, patient, read_all, read_exactly};

/// Connections that are open while gateways restart.
const CONNECTIONS: usize = 50;
/// Bytes that are sent before they are awaited.
const CHUNK: usize = 20_000;

/// Sends everything back that comes.
fn serve_echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for tcp in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let (mut from, mut to) = (&tcp, &tcp);
                let _ = std::io::copy(&mut from, &mut to);
                let _ = tcp.shutdown(std::net::Shutdown::Write);
            });
        }
    });
    address
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
    fn start(way: SocketAddr) -> Self {
        let (stop, rounds) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let begin = |run: Box<dyn Fn(&AtomicBool, &AtomicUsize) + Send>| {
            let (stop, rounds) = (Arc::clone(&stop), Arc::clone(&rounds));
            std::thread::spawn(move || run(&stop, &rounds))
        };
        let mut tasks: Vec<JoinHandle<()>> = (0..CONNECTIONS)
            .map(|number| {
                begin(Box::new(move |stop, rounds| {
                    let mut tcp = patient(TcpStream::connect(way).unwrap());
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
                let mut tcp = patient(TcpStream::connect(way).unwrap());
                pass(&mut tcp, 7);
                finish(tcp);
            }
        })));
        Self { stop, rounds, tasks }
    }

    /// Waits until all connections have passed some chunks more.
    fn go_on(&self) {
        let before = self.rounds.load(Ordering::Relaxed);
        at_last("data passes", || self.rounds.load(Ordering::Relaxed) > before + 4 * CONNECTIONS);
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
    let traffic = Traffic::start(near.way(0));
    traffic.go_on();
    let way = near.way(0);
    let (is_done, text) = near.restart();
    assert!(is_done && text.contains("connections stay"), "{text}");
    assert_eq!(near.way(0), way);
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
    let mut new = patient(TcpStream::connect(way).unwrap());
    pass(&mut new, 1);
    at_last("the new processes have it", || far.status()["open"].as_u64() >= Some(1));
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
    let traffic = Traffic::start(way);
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
    let mut before = patient(TcpStream::connect(near.way(0)).unwrap());
    pass(&mut before, 1);
    home.write("far.toml", "[[access]]\nallow = [\"nowhere\"]\n");
    let (is_done, text) = far.restart();
    assert!(!is_done && text.contains("far.toml:2: access[0].allow"), "{text}");
    // The address of a way in is in use: only the new process finds that.
    let peer = format!("[[peer]]\nname = \"own\"\naddresses = [\"{}\"]\n", far.listens());
    home.write("far.toml", &format!("{peer}[[socks]]\nlisten = \"{address}\"\n{access}"));
    let (is_done, text) = far.restart();
    assert!(!is_done && text.contains("the new process has ended at its start"), "{text}");
    at_last("the log has the reason", || far.log().contains("Address already in use"));
    pass(&mut before, 2);
    let mut after = patient(TcpStream::connect(near.way(0)).unwrap());
    pass(&mut after, 3);
    // And a later attempt succeeds.
    home.write("far.toml", &access);
    let (is_done, text) = far.restart();
    assert!(is_done, "{text}");
    pass(&mut before, 4);
    finish(before);
    finish(after);
    at_last("the old process ends", || far.has_ended());
    let mut new = patient(TcpStream::connect(near.way(0)).unwrap());
    pass(&mut new, 5);
    finish(new);
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
