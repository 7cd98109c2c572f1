//! Tests that all processes of `strandline sip` have the same configuration, whatever the files contain when
//! one of them is restarted.

use rustix::process::{Signal, kill_process};

use crate::looked_after::World;
use crate::phones::{Carrier, Phone};
use crate::processes::{kill, metric, restarts, workers};
use crate::waiting::at_last;

/// Returns a configuration with this lifetime of bindings.
fn registrar(secs: u32) -> String {
    format!("[registrar]\nexpires_default_secs = {secs}\nexpires_max_secs = {secs}\n")
}

/// Returns phones at all processes, as the kernel distributes them. A restarted process gets the sockets of its
/// predecessor.
fn phones(world: &World) -> Vec<Phone> {
    let mut phones = Vec::new();
    at_last("both processes have some", || {
        let mut phone = Phone::new(&format!("udp{}", phones.len()), Carrier::Udp, &world.server);
        assert!(phone.register().starts_with("SIP/2.0 200"));
        phones.push(phone);
        phones.len() >= 6 && metric(&world.server, "registered_total").iter().all(|count| *count > 0.0)
    });
    phones
}

/// Kills both processes, one after the other.
fn both_die(world: &World) {
    let before = restarts(&world.server);
    for place in 0..2 {
        let all = workers(&world.server);
        assert_eq!(all.len(), 2);
        kill(all[place]);
        at_last("another has taken its place", || {
            restarts(&world.server) == before + 1 + place as u64 && metric(&world.server, "users").len() == 2
        });
    }
}

/// Registers all phones at both processes, and checks the lifetime.
fn all_register(world: &World, phones: &mut [Phone], secs: u32) {
    let before = metric(&world.server, "registered_total");
    for phone in phones {
        let answer = phone.register();
        let wanted = format!("expires={secs}");
        assert!(answer.starts_with("SIP/2.0 200") && answer.contains(&wanted), "{secs}: {answer}");
    }
    let after = metric(&world.server, "registered_total");
    assert!(before.iter().zip(&after).all(|(before, after)| before < after), "{before:?} {after:?}");
}

/// Returns configurations that have not been accepted: an incomplete table, and other values, some of which
/// need a restart.
fn unaccepted(folder: &std::path::Path) -> [String; 3] {
    let right = std::fs::read_to_string(folder.join("sip.toml")).unwrap();
    let (before, _) = right.split_once("[registrar]").unwrap();
    let nowhere = "[store]\nkind = \"redis\"\nurl = \"redis://127.0.0.1:1/0\"\n";
    let (without_store, _) = right.split_once("[store]").unwrap();
    [
        format!("{before}[registrar"),
        format!("{before}{}[timers]\nt1_ms = 100\n", registrar(11)),
        format!("{}{nowhere}{}", without_store.replace("127.0.0.1:0", "127.0.0.2:0"), registrar(11)),
    ]
}

#[test]
fn replacement_process_uses_the_accepted_configuration() {
    let mut world = World::new("accepted", &registrar(77));
    let mut phones = phones(&world);
    all_register(&world, &mut phones, 77);
    for text in unaccepted(&world.folder) {
        World::write_all(&world.folder, &text);
        both_die(&world);
        assert_eq!(metric(&world.server, "users"), [phones.len() as f64; 2], "{text}");
        all_register(&world, &mut phones, 77);
    }
    // The file may even be missing.
    std::fs::remove_file(world.folder.join("sip.toml")).unwrap();
    both_die(&world);
    all_register(&world, &mut phones, 77);
    let told = world.admin("reload");
    assert!(!told.status.success() && String::from_utf8_lossy(&told.stderr).contains("sip.toml"));
    assert!(world.server.terminate().success());
}

#[test]
fn reload_applies_to_present_and_later_processes() {
    let mut world = World::new("again", &registrar(77));
    let mut phones = phones(&world);
    all_register(&world, &mut phones, 77);
    // A change that needs a restart is applied by no process, nor by a restarted one.
    let store = format!("[store]\npath = \"{}/sip.db\"\n", world.folder.display());
    World::write(&world.folder, &format!("{}[timers]\nt1_ms = 100\n", registrar(88)));
    let text = std::fs::read_to_string(world.folder.join("sip.toml")).unwrap();
    let other = "[store]\nkind = \"redis\"\nurl = \"redis://127.0.0.1:1/0\"\n";
    World::write_all(&world.folder, &text.replace(&store, other).replace("127.0.0.1:0", "127.0.0.2:0"));
    let told = world.told("reload");
    assert_eq!(told["changed"], serde_json::json!(["registrar"]));
    let kept =
        ["listen", "store", "timers", "metrics", "admin"].map(|key| format!("{key}: needs a new start"));
    assert_eq!(told["kept"], serde_json::json!(kept));
    all_register(&world, &mut phones, 88);
    both_die(&world);
    assert_eq!(metric(&world.server, "users"), [phones.len() as f64; 2]);
    all_register(&world, &mut phones, 88);
    // An invalid configuration changes nothing anywhere, nor by a signal, which goes to the parent process.
    for text in ["[registrar", "[registrar]\nexpires_default = 1\n"] {
        World::write_all(&world.folder, text);
        let refused = world.admin("reload");
        assert!(!refused.status.success());
        assert!(String::from_utf8_lossy(&refused.stderr).contains("the configuration is unchanged"));
        all_register(&world, &mut phones, 88);
    }
    let reloads = |world: &World| world.told("status")["reloads"].clone();
    assert_eq!(reloads(&world)["count"], 3);
    both_die(&world);
    all_register(&world, &mut phones, 88);
    World::write(&world.folder, &registrar(99));
    for worker in workers(&world.server) {
        kill_process(worker, Signal::HUP).unwrap();
    }
    all_register(&world, &mut phones, 88);
    world.server.hang_up();
    at_last("it is read again", || reloads(&world)["count"] == 4);
    assert_eq!(reloads(&world)["last_error"], serde_json::Value::Null);
    for phone in &mut phones {
        at_last("it has come there", || phone.register().contains("expires=99"));
    }
    both_die(&world);
    all_register(&world, &mut phones, 99);
    assert!(world.server.terminate().success());
}

#[test]
fn replacement_process_accepts_nothing_while_draining() {
    let world = World::new("drained", &registrar(77));
    let mut phones = phones(&world);
    all_register(&world, &mut phones, 77);
    assert_eq!(world.told("drain")["draining"], true);
    both_die(&world);
    for phone in &mut phones {
        assert!(phone.try_register(3600).unwrap().starts_with("SIP/2.0 503"));
    }
    assert_eq!(world.told("drain --off")["draining"], false);
    both_die(&world);
    all_register(&world, &mut phones, 77);
}
