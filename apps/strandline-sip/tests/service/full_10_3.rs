//! Users who have reached the maximum number of contacts.

use strandline_sip::registrar::RegistrarSettings;
use strandline_sip::service::Settings;

use crate::harness::{Phone, World, settings};

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
