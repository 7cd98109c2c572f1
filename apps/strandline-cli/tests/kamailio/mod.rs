//! Kamailio, an independent proxy, installed by `tests/interop/setup all`.

use std::fs::{self, File};
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

pub mod agent;

/// Maximum number of probes until Kamailio answers, one every 100 ms.
const PROBES_MAX: u32 = 600;

/// A Kamailio process, which ends when this value is dropped.
pub struct Kamailio {
    child: Child,
    folder: PathBuf,
}

impl Kamailio {
    /// Starts Kamailio at `at` over UDP and TCP. It adds itself to the Path of a REGISTER and to the
    /// Record-Route of a call, and forwards both to `upstream`, a SIP URI. Calls to +44 go to `gateway`.
    pub fn start(name: &str, at: SocketAddr, upstream: &str, gateway: SocketAddr) -> Self {
        let folder = std::env::temp_dir().join(format!("strandline-kamailio-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let config = include_str!("kamailio.cfg")
            .replace("@AT@", &at.to_string())
            .replace("@UPSTREAM@", upstream)
            .replace("@GATEWAY@", &gateway.to_string());
        fs::write(folder.join("kamailio.cfg"), config).unwrap();
        let log = File::create(folder.join("log")).unwrap();
        let child = Command::new("kamailio")
            .args(["-DD", "-E", "-m", "32", "-M", "8", "-f", "kamailio.cfg", "-Y"])
            .arg(&folder)
            .current_dir(&folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("kamailio: {error}; tests/interop/setup all installs it"));
        let mut kamailio = Self { child, folder };
        kamailio.wait_until_it_answers(at);
        kamailio
    }

    fn wait_until_it_answers(&mut self, at: SocketAddr) {
        let probe = UdpSocket::bind("127.0.0.1:0").unwrap();
        probe.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let from = probe.local_addr().unwrap();
        for number in 0..PROBES_MAX {
            let request = format!(
                "OPTIONS sip:{at} SIP/2.0\r\nVia: SIP/2.0/UDP {from};branch=z9hG4bKp{number};rport\r\nMax-Forwards: 70\r\n\
                 From: <sip:probe@{from}>;tag=p\r\nTo: <sip:{at}>\r\nCall-ID: probe{number}\r\nCSeq: 1 OPTIONS\r\n\
                 Content-Length: 0\r\n\r\n"
            );
            let mut room = [0; 4096];
            if probe.send_to(request.as_bytes(), at).is_ok() && probe.recv(&mut room).is_ok() {
                return;
            }
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("Kamailio ended with {status}: {}", self.log());
            }
        }
        panic!("Kamailio doesn't answer: {}", self.log());
    }

    /// Returns the messages that it has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }
}

impl Drop for Kamailio {
    fn drop(&mut self) {
        // The main process ends its children on SIGTERM, not when it is killed.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
