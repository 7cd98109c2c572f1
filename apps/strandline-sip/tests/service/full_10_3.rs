//! Users who have reached the maximum number of contacts.

use strandline_sip::registrar::RegistrarSettings;
use strandline_sip::service::Settings;

use crate::harness::{Phone, World, settings};
use crate::nodes::{follow, knows, two};
use crate::workers::worker;

const INSTANCE: &str = ";+sip.instance=\"<urn:uuid:00000000-0000-0000-0000-0000000000dd>\"";

fn world(replace_oldest: bool) -> World {
    let registrar = RegistrarSettings { contacts_max: 3, replace_oldest, ..RegistrarSettings::default() };
    World::with(Settings { registrar, ..settings() })
}

fn tcp(number: u64) -> Phone {
    Phone::tcp(&format!("192.0.2.1:{}", 40_000 + number), number)
}

/// Registers a contact over a connection of its own. Returns the first line of the response and the ports of
/// the contacts.
fn register(world: &mut World, number: u64, params: &str) -> (String, Vec<u64>) {
    let phone = tcp(number);
    world.service.connection_opened(number);
    let contact = format!("Contact: {}{params}\r\n", phone.contact("bob"));
    let text = phone.register("bob", number as u32, &contact).replace("reg-bob", &format!("reg-{number}"));
    let answer = world.one(&phone, &text);
    let port = |line: &str| line.split(':').nth(2)?.split(';').next()?.parse::<u64>().ok();
    let ports = answer.lines("Contact").iter().filter_map(|line| Some(port(line)? - 40_000)).collect();
    (answer.first_line().to_owned(), ports)
}

#[test]
fn contacts_whose_connections_have_ended_leave_first() {
    let mut world = world(false);
    for number in 1..=3 {
        register(&mut world, number, "");
    }
    assert_eq!(register(&mut world, 4, "").0, "SIP/2.0 403 Too Many Contacts");
    world.service.connection_closed(2);
    let (line, ports) = register(&mut world, 5, "");
    assert_eq!((&*line, ports), ("SIP/2.0 200 OK", vec![1, 3, 5]));
}

#[test]
fn reconnecting_phone_is_never_locked_out() {
    for params in ["", INSTANCE] {
        let mut world = world(false);
        for number in 1..=12 {
            let (line, ports) = register(&mut world, number, params);
            assert_eq!(line, "SIP/2.0 200 OK", "{number} {params}");
            assert!(ports.contains(&number) && ports.len() <= 3);
            world.service.connection_closed(number);
        }
    }
}

#[test]
fn other_contacts_of_the_same_instance_leave() {
    let mut world = world(false);
    register(&mut world, 1, "");
    register(&mut world, 2, INSTANCE);
    register(&mut world, 3, INSTANCE);
    let (line, ports) = register(&mut world, 4, INSTANCE);
    assert_eq!((&*line, ports), ("SIP/2.0 200 OK", vec![1, 3, 4]));
    assert_eq!(register(&mut world, 5, "").0, "SIP/2.0 403 Too Many Contacts");
}

#[test]
fn with_replace_oldest_what_ends_first_leaves() {
    let mut world = world(true);
    for (number, expires) in [(1, 3000), (2, 600), (3, 1200)] {
        register(&mut world, number, &format!(";expires={expires}"));
    }
    let (line, ports) = register(&mut world, 4, "");
    assert_eq!((&*line, ports), ("SIP/2.0 200 OK", vec![1, 3, 4]));
    // A request with more contacts than the maximum is rejected.
    let phone = tcp(9);
    let four: String = (0..4).map(|n| format!("Contact: <sip:bob@192.0.2.{n}>\r\n")).collect();
    assert_eq!(
        world.one(&phone, &phone.register("bob", 90, &four)).first_line(),
        "SIP/2.0 403 Too Many Contacts"
    );
}

/// A server that shares its users with others: its name, and the number of its connections beside those of
/// the others.
struct Shared {
    world: World,
    name: &'static str,
    first: u64,
}

impl Shared {
    /// Registers a contact over a connection of its own. Returns the beginning of the response.
    fn register(&mut self, number: u64, contact: &str) -> String {
        let connection = self.connection(number);
        let phone = Phone::tcp(&format!("192.0.2.1:{}", 40_000 + number), connection);
        self.world.service.connection_opened(connection);
        let contact = contact.replace("PORT", &(40_000 + number).to_string());
        let text = phone.register("bob", number as u32, &contact).replace("reg-bob", &format!("{number}"));
        let refused = self.world.receive(&phone, &text);
        let held = self.world.service.output().held.get(0).map(|(_, answer)| answer[..11].to_vec());
        self.world.service.output_mut().held.clear();
        held.map_or_else(|| refused[0].first_line()[..11].to_owned(), |line| String::from_utf8(line).unwrap())
    }

    fn connection(&self, number: u64) -> u64 {
        self.first + 64 * number
    }

    fn close(&mut self, number: u64) {
        self.world.service.connection_closed(self.connection(number));
    }
}

/// Contacts at the end of a connection, which is also the phone's address, and behind a NAT.
const CONTACTS: [&str; 2] = [
    "Contact: <sip:bob@192.0.2.1:PORT;transport=tcp>\r\n",
    "Contact: <sip:bob@10.0.0.7:PORT;transport=tcp>\r\n",
];
const OK: &str = "SIP/2.0 200";
const FULL: &str = "SIP/2.0 403";

/// Two workers, and two nodes: a server, the other one, and the latter after a restart.
fn pairs() -> [[Shared; 3]; 2] {
    let shared = |world, name, first| Shared { world, name, first };
    let ((a, b), (_, again)) = (two(), two());
    [
        [
            shared(worker(0, 2), "sip.1", 0),
            shared(worker(1, 2), "sip.2", 1),
            shared(worker(1, 2), "sip.2", 1),
        ],
        [shared(a, "a", 0), shared(b, "b", 0), shared(again, "b", 0)],
    ]
}

#[test]
fn connections_ended_elsewhere_make_room() {
    for contact in CONTACTS {
        for [mut here, mut other, _] in pairs() {
            for number in 1..=10 {
                assert_eq!(other.register(number, contact), OK);
                follow(&mut other.world, other.name, &mut here.world);
            }
            // All ten connections are open.
            assert_eq!(here.register(11, contact), FULL, "{} {contact}", here.name);
            for number in 1..=10 {
                other.close(number);
            }
            follow(&mut other.world, other.name, &mut here.world);
            for number in 11..=20 {
                assert_eq!(here.register(number, contact), OK, "{} {number} {contact}", here.name);
            }
            assert_eq!(here.register(21, contact), FULL);
            // The other one learns what was removed.
            follow(&mut here.world, here.name, &mut other.world);
            assert_eq!(other.register(21, contact), FULL);
            here.close(15);
            follow(&mut here.world, here.name, &mut other.world);
            assert_eq!(other.register(21, contact), OK);
        }
    }
}

#[test]
fn connections_ended_by_a_restart_make_room() {
    for contact in CONTACTS {
        for [mut here, mut other, mut again] in pairs() {
            for number in 1..=10 {
                assert_eq!(other.register(number, contact), OK);
            }
            let stored = other.world.service.output().journal.clone();
            follow(&mut other.world, other.name, &mut here.world);
            assert_eq!(here.register(11, contact), FULL);
            // It starts again with what is stored.
            for (aor, state) in strandline_sip::bindings::Journal::read(stored.as_bytes()) {
                again.world.service.load("", aor, state);
            }
            let now = again.world.now;
            again.world.service.sweep(now, 1000);
            follow(&mut again.world, again.name, &mut here.world);
            assert_eq!(here.register(11, contact), OK, "{} {contact}", here.name);
        }
    }
}

#[test]
fn connections_of_a_stopped_node_make_room() {
    for [mut here, mut other, _] in pairs() {
        for number in 1..=10 {
            assert_eq!(other.register(number, CONTACTS[0]), OK);
        }
        follow(&mut other.world, other.name, &mut here.world);
        assert_eq!(here.register(11, CONTACTS[0]), FULL);
        match here.name {
            "a" => knows(&mut here.world, "b", "10.0.0.2", false),
            _ => here.world.service.setup_mut().set_workers_alive(1),
        }
        assert_eq!(here.register(11, CONTACTS[0]), OK, "{}", here.name);
    }
}
