//! `strandline sip` with several processes behind one address.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests stop at the first error")]
#![allow(clippy::disallowed_methods, reason = "real servers take real time to start")]

mod phones;
mod sip_server;

use std::path::PathBuf;
use std::time::Duration;

use phones::{Carrier, Phone};
use sip_server::Server;

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("strandline-processes-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn store(&self) -> String {
        self.0.join("sip.db").to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Waits for something that comes sooner or later.
fn at_last(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..600 {
        if is_so() {
            return;
        }
        // Sleeps because another program's state is asked for again and again, and tells nobody when it changes.
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("never: {what}");
}

/// A metric at each worker, by its labels.
fn metric(server: &Server, name: &str) -> Vec<f64> {
    let (page, begin) = (server.metrics("/metrics"), format!("{name}{{worker=\""));
    let samples = page.lines().filter_map(|line| line.strip_prefix(begin.as_str())?.rsplit_once(' '));
    samples.map(|(_, value)| value.parse().unwrap()).collect()
}

/// So many phones of each kind, registered at whichever process the kernel chose. Each of them can be called as soon as it has its 200.
fn phones(server: &Server, count: usize) -> Vec<Phone> {
    let mut phones = Vec::new();
    for number in 0..count {
        for carrier in [Carrier::Udp, Carrier::UdpBehindNat, Carrier::Tcp] {
            let mut phone = Phone::new(&format!("{}{number}", carrier.name()), carrier, server);
            assert!(phone.register().starts_with("SIP/2.0 200"));
            phones.push(phone);
        }
    }
    phones
}

fn all_call_one_another(phones: &mut [Phone]) {
    for caller in 0..phones.len() {
        for callee in 0..phones.len() {
            if caller != callee {
                phones::call(phones, caller, callee);
            }
        }
    }
}

#[test]
fn phones_of_two_processes_call_one_another() {
    let folder = Folder::new("calls");
    let server =
        Server::start(&["--processes", "2", "--metrics", "127.0.0.1:0", "--store", &folder.store()]);
    let mut phones = phones(&server, 4);
    let registered = metric(&server, "strandline_sip_registered_total");
    assert_eq!(registered.iter().sum::<f64>(), phones.len() as f64);
    assert_eq!(metric(&server, "strandline_sip_users"), [phones.len() as f64; 2]);
    all_call_one_another(&mut phones);
    at_last("all is over", || metric(&server, "strandline_sip_malformed_total") == [0.0, 0.0]);
}
